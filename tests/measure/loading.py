"""A load on a server, as a trial runs it, for tests of the client alone."""

from __future__ import annotations

from neoserve.measure.crew import Orders, run
from neoserve.measure.engine.running import attach
from neoserve.measure.load import ask_once
from neoserve.measure.schedule import plan
from neoserve.measure.target import Target, fitted


def send(url, workload, num, *, on_row=lambda *_: None, on_tick=lambda _: None, workers=1,
         warmup=0, drain=0, dataset=None, salt="salt", **target):  # fmt: skip
    """Fit, plan, run: what happened, with its rows in due order."""
    server = attach(url, api_key=target.get("api_key", ""))
    made = Target(server.url, **({"model": server.model} | target))
    found, words = fitted(made, workload, salt, ask_once)
    schedule = plan(workload, num, num_warmup=warmup, num_drain=drain, dataset=dataset)
    return run(Orders(found, workload, schedule, salt, words, workers), on_row, on_tick)
