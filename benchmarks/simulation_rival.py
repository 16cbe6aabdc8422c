"""Vidur's simulator (Microsoft, MIT) on our requests, with our step time in its place."""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path
from typing import Any

OPTIONS = (
    "--replica_config_device a100 --replica_config_model_name meta-llama/Meta-Llama-3-8B "
    "--cluster_config_num_replicas 1 --replica_config_tensor_parallel_size 1 "
    "--replica_config_num_pipeline_stages 1 --synthetic_request_generator_config_num_requests 1 "
    "--replica_scheduler_config_type sarathi --sarathi_scheduler_config_chunk_size 8192 "
    "--sarathi_scheduler_config_batch_size_cap 256 --no-metrics_config_write_metrics "
    "--no-metrics_config_enable_chrome_trace --no-metrics_config_store_plots"
)


class Seconds:
    """What Vidur asks of an execution time."""

    def __init__(self, seconds: float) -> None:
        self.total_time = self.model_time = seconds
        self.model_time_ms = 1e3 * seconds

    def __getattr__(self, name: str) -> float:
        if name.startswith("__"):
            raise AttributeError(name)
        return 0.0


def vidur(requests: Any, step: Any, folder: Path) -> tuple[float, list[float]]:
    """Processor seconds of its event loop under chunked prefill (Sarathi), and when each ends."""
    sys.path.insert(0, str(folder))
    from vidur.entities import Cluster, Replica, Request
    from vidur.events import RequestArrivalEvent
    from vidur.execution_time_predictor import execution_time_predictor_registry as registry
    from vidur.execution_time_predictor.base_execution_time_predictor import (
        BaseExecutionTimePredictor,
    )

    class Predictor(BaseExecutionTimePredictor):
        def get_execution_time(self, batch: Any, _stage: int) -> Seconds:
            prompt = num = context = 0
            for request, tokens in zip(batch.requests, batch.num_tokens, strict=True):
                if request.is_prefill_complete:
                    num, context = num + 1, context + request.num_processed_tokens + 1
                else:
                    prompt += tokens
            return Seconds(step.step_s(prompt, 0.0, num, context / num if num else 0.0))

    Predictor.__abstractmethods__ = frozenset()
    known = registry.ExecutionTimePredictorRegistry
    known._registry = dict.fromkeys(known._registry, Predictor)
    from vidur.config import SimulationConfig
    from vidur.simulator import Simulator

    Cluster._id = Replica._id = -1  # they count on, and look themselves up by number
    words, sys.argv = sys.argv, [sys.argv[0], *OPTIONS.split()]
    simulator = Simulator(SimulationConfig.create_from_cli_args())
    sys.argv = words
    logging.disable(logging.CRITICAL)
    sent = [
        Request(arrived_at=due_s, num_prefill_tokens=prompt, num_decode_tokens=output)
        for due_s, prompt, output in zip(
            requests.due_s, requests.prompt_tokens, requests.output_tokens, strict=True
        )
    ]
    simulator._event_queue.clear()
    simulator._add_events([RequestArrivalEvent(r.arrived_at, r) for r in sent])
    simulator._write_output = lambda: None  # it would draw plots at exit
    start = time.process_time()
    simulator.run()
    return time.process_time() - start, [r.completed_at for r in sent]
