"""Requests through a batching engine, event by event, in time of its own."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush

from scripted_engine import STALL_EVERY_S, STALL_S, STEP_SD, Law


class Noise:
    """What makes one load's steps differ from the law's."""

    def __init__(self, seed: str, slow: float = 1.0, step_sd: float = STEP_SD,
                 stall_every_s: float = STALL_EVERY_S) -> None:  # fmt: skip
        self._rng = random.Random(seed)
        self.slow = slow
        self.step_sd = step_sd
        self._stall_every_s = stall_every_s
        self.next_stall_s = self._gap_s()

    @classmethod
    def none(cls) -> Noise:
        """The law itself."""
        return cls("", step_sd=0.0, stall_every_s=math.inf)

    def steps_s(self, num: int, each_s: float) -> float:
        """What so many steps take, of which each takes as long by the law."""
        if not self.step_sd:
            return num * each_s * self.slow
        spread = self.step_sd / math.sqrt(num)
        return num * each_s * self.slow * (1 + spread * self._rng.gauss(0.0, 1.0))

    def stall_s(self, now_s: float) -> float:
        """How long the engine now does nothing."""
        if now_s < self.next_stall_s:
            return 0.0
        self.next_stall_s = now_s + self._gap_s()
        return self._rng.uniform(*STALL_S)

    def _gap_s(self) -> float:
        if self._stall_every_s == math.inf:
            return math.inf
        return self._rng.expovariate(1 / self._stall_every_s)


class Engine:
    """The requests of one load: when their first and last tokens come. Null: not yet."""

    def __init__(self, law: Law, due_s: Sequence[float], prompts: Sequence[int],
                 outputs: Sequence[int], noise: Noise) -> None:  # fmt: skip
        self.law, self.noise = law, noise
        self.due_s, self.prompts, self.outputs = due_s, prompts, outputs
        self.first_s: list[float | None] = [None] * len(due_s)
        self.last_s: list[float | None] = [None] * len(due_s)

    def run(self, every: int = 1 << 60) -> Iterator[float]:
        """Serve all; says the time whenever so many more have ended, and at the end."""
        law, noise, due_s = self.law, self.noise, self.due_s
        first_s, last_s, outputs = self.first_s, self.last_s, self.outputs
        num, slots, budget = len(due_s), law.slots, law.budget
        now_s, step, taken, ended, next_look = 0.0, 0, 0, 0, every
        prefill: deque[list[int]] = deque()  # number, prompt tokens that are left
        decode: list[tuple[int, int]] = []  # step of the last token, number
        while ended < num:
            while taken < num and due_s[taken] <= now_s and taken - ended < slots:
                prefill.append([taken, self.prompts[taken]])
                taken += 1
            if prefill:
                room = left = max(1, budget - len(decode))
                begun = []
                while prefill and left:
                    head = prefill[0]
                    part = min(head[1], left)
                    head[1] -= part
                    left -= part
                    if not head[1]:
                        begun.append(head[0])
                        prefill.popleft()
                each_s = law.decode_s(len(decode)) + law.prompt_token_s * (room - left)
                now_s += noise.steps_s(1, each_s)
                step += 1
                for i in begun:
                    first_s[i] = now_s
                    heappush(decode, (step + outputs[i] - 1, i))
            elif decode:
                each_s, steps = law.decode_s(len(decode)), decode[0][0] - step
                if taken < num and taken - ended < slots:
                    until = math.ceil((due_s[taken] - now_s) / (each_s * noise.slow))
                    steps = min(steps, max(1, until))
                now_s += noise.steps_s(steps, each_s)
                step += steps
            else:
                now_s = max(now_s, due_s[taken])
            if now_s >= noise.next_stall_s:
                now_s += noise.stall_s(now_s)
            while decode and decode[0][0] <= step:
                last_s[heappop(decode)[1]] = now_s
                ended += 1
            if ended >= next_look:
                next_look = ended + every
                yield now_s
        yield now_s
