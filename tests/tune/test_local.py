"""Which CPUs engine and client get for one candidate, on hosts that are none."""

from __future__ import annotations

import pytest

from neoserve.schema.space import Candidate, Knob, Space
from neoserve.tune import local
from neoserve.tune.local import cores_for

THREADS = Knob("threads", ("1", "2", "4"), "4", flag="--threads")
BIND = Knob("cpu-binding", ("auto", "nobind", "0-13", "0-6|8-14"), "auto",
            env="VLLM_CPU_OMP_THREADS_BIND")  # fmt: skip
DEFAULTS = Candidate({}, "default")


def llama(*knobs: Knob, **more: object) -> Space:
    return Space(engine="llama.cpp", device="cpu", model="m.gguf", knobs=knobs).replace(**more)


def vllm(**more: object) -> Space:
    return Space(engine="vllm", device="cpu", model="m", knobs=(BIND,)).replace(**more)


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> object:
    """So many CPUs, each a core of its own or a thread of the core `smt` lists."""

    def of(num: int, smt: int = 1) -> None:
        cores = [[i + num // smt * t for t in range(smt)] for i in range(num // smt)]
        monkeypatch.setattr(local, "host_cpus", lambda: tuple(range(num)))
        monkeypatch.setattr(local, "physical_cores", lambda _: cores)
        monkeypatch.setattr("neoserve.measure.cores.physical_cores", lambda *_: cores)

    return of


def test_the_engines_own_threads_are_left_all_their_cores(host) -> None:
    host(4)
    plan = cores_for(llama(THREADS), DEFAULTS)
    assert plan[:3] == ("0-3", "0-3", True)
    assert "4 threads on 4 cores leave none free" in plan.note


def test_fewer_threads_leave_the_client_the_last_core(host) -> None:
    host(4)
    assert cores_for(llama(THREADS), Candidate({"threads": "2"})) == ("0-2", "3", False, "")
    assert cores_for(llama(THREADS), Candidate({"threads": "1"}), 2) == ("0-1", "2-3", False, "")
    crowded = cores_for(llama(THREADS), Candidate({"threads": "2"}), 3)
    assert crowded[:3] == ("0-1", "2-3", False)
    assert "3 client processes share 2 CPUs" in crowded.note


def test_a_pinned_number_of_threads_counts_as_a_chosen_one(host) -> None:
    host(4)
    assert cores_for(llama(pins={"-t": "1"}), DEFAULTS)[:2] == ("0-2", "3")


def test_threads_that_nobody_knows_are_taken_for_all(host) -> None:
    host(4)
    plan = cores_for(llama(), DEFAULTS)
    assert plan.shares
    assert plan.engine_cpus == plan.client_cpus == "0-3"


def test_both_threads_of_a_core_go_together(host) -> None:
    host(8, smt=2)  # core 3 is CPUs 3 and 7
    plan = cores_for(llama(THREADS), Candidate({"threads": "2"}))
    assert (plan.engine_cpus, plan.client_cpus) == ("0-2,4-6", "3,7")


@pytest.mark.parametrize("bind", ["auto", "nobind"])
def test_vllm_as_it_is_shares_all_cores(host, bind: str) -> None:
    host(16)
    plan = cores_for(vllm(), Candidate({"cpu-binding": bind} if bind != "auto" else {}))
    assert plan[:3] == ("0-15", "0-15", True)
    assert plan.note == "the client shares cores with the engine"


def test_what_vllm_leaves_is_the_clients(host) -> None:
    """Its own front end may run anywhere: the whole process is confined to nothing."""
    host(16)
    one = cores_for(vllm(), Candidate({"cpu-binding": "0-13"}))
    assert one[:3] == ("0-15", "14-15", False)
    assert "front end" in one.note
    two = cores_for(vllm(), Candidate({"cpu-binding": "0-6|8-14"}))
    assert two[:2] == ("0-15", "7,15")


def test_vllm_bound_to_every_core_leaves_none(host) -> None:
    host(4)
    space = vllm(pins={"VLLM_CPU_OMP_THREADS_BIND": "0-3"})
    assert cores_for(space, DEFAULTS)[:3] == ("0-3", "0-3", True)
