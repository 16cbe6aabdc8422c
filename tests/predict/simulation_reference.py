"""The simulated replica iteration by iteration: slow, plain, and what the product has to equal.

Every request is an object that knows its tokens; every step looks at all of them. Nothing is
shared with the product but the documents that go in.
"""

from __future__ import annotations

import math

from neoserve.predict.simulation.policy import Policy
from neoserve.predict.simulation.requests import Requests
from neoserve.predict.simulation.sums import StepTime


class Request:
    def __init__(self, number: int, requests: Requests) -> None:
        self.number = number
        self.prompt = requests.prompt_tokens[number]
        self.output = requests.output_tokens[number]
        self.hit = requests.cached_tokens[number]
        self.shared = min(requests.shared_tokens, self.hit)
        self.given = 0  # tokens sent to the client
        self.in_cache = 0  # tokens computed, the hit included
        self.blocks = 0
        self.times_s: list[float] = []
        self.sent_s = math.nan
        self.seen_s = math.inf
        self.lag_s = 0.0
        self.decodes = False  # all but its last token is in the cache

    @property
    def to_compute(self) -> int:
        return self.prompt + self.given


class Reference:
    def __init__(
        self,
        step: StepTime,
        policy: Policy,
        requests: Requests,
        kv_tokens: float | None = None,
        block_tokens: int = 16,
        host_s: tuple[float, float] = (0.0, 0.0),
        pipeline: int = 1,
    ) -> None:
        self.step, self.policy, self.requests = step, policy, requests
        self.size, self.host_s, self.pipeline = block_tokens, host_s, pipeline
        if policy.future:
            self.size = 1
        self.total = math.inf if kv_tokens is None else kv_tokens // self.size
        self.all = [Request(i, requests) for i in range(len(requests.due_s))]
        self.now_s, self.steps, self.preemptions = 0.0, 0, 0
        self.running: list[Request] = []
        self.waiting: list[Request] = []
        self.ended: list[Request] = []  # of a static batch, still padded
        self.filling = True
        begun = len(requests.begun)
        roots = [
            r for r in self.all[begun:] if not requests.follows or requests.follows[r.number] < 0
        ]
        self.unsent = []
        for k, r in enumerate(roots):
            if requests.concurrency and k >= requests.concurrency:
                self.unsent.append(r)
            else:
                self.send(r, requests.due_s[r.number])
        for r, given in zip(self.all, requests.begun, strict=False):
            r.sent_s, r.given, r.in_cache = 0.0, given, r.prompt + given - 1
            r.times_s, r.decodes = [0.0], True
            r.blocks = self.blocks_at_start(r)
            self.running.append(r)

    def send(self, r: Request, time_s: float) -> None:
        r.sent_s = time_s
        r.seen_s = time_s + self.host_s[0] + self.host_s[1] * r.prompt

    @property
    def free(self) -> float:
        return self.total - sum(r.blocks for r in (*self.running, *self.ended))

    def blocks_of(self, tokens: int) -> int:
        return math.ceil(tokens / self.size)

    def blocks_at_start(self, r: Request) -> int:
        if self.policy.reserve == "output":
            return self.blocks_of(r.prompt + r.output - 1 - r.shared)
        return self.blocks_of((r.in_cache or r.to_compute) - r.shared)

    def growth(self) -> int:
        """Blocks that one more token of everybody takes."""
        if self.policy.reserve == "output" or self.total == math.inf:
            return 0
        return sum(
            self.blocks_of(r.in_cache + 1 - r.shared) - r.blocks for r in self.running if r.decodes
        )

    def run(self) -> Reference:
        while True:
            arrived = [
                r for r in self.all
                if r.seen_s <= self.now_s and r not in self.running and r not in self.waiting
                and len(r.times_s) == 0
            ]  # fmt: skip
            self.waiting += sorted(arrived, key=lambda r: (r.seen_s, r.number))
            if not self.running and not self.waiting:
                later = [r.seen_s for r in self.all if self.now_s < r.seen_s < math.inf]
                if not later:
                    return self
                self.now_s = min(later)
                continue
            self.iterate()

    def iterate(self) -> None:
        p = self.policy
        pressed = p.mixed and self.make_room()
        chunks = self.prompts(admit=not pressed)
        if not chunks and not p.mixed:
            self.make_room()
        decoding = [r for r in self.running if r.decodes] if p.mixed or not chunks else []
        if not chunks:
            self.filling = not p.static
        self.compute(chunks, decoding)

    def make_room(self) -> bool:
        found = False
        while self.policy.reserve == "prompt" and self.growth() > self.free:
            found = True
            if len(self.running) <= 1:
                break
            r = self.running.pop()
            r.in_cache = r.blocks = 0
            r.decodes = False
            self.waiting.insert(0, r)
            self.preemptions += 1
        return found

    def prompts(self, admit: bool) -> list[tuple[Request, int, int]]:
        p, chunks = self.policy, []
        padded = len(self.ended)
        budget = p.step_tokens
        if p.mixed:
            budget -= sum(r.decodes for r in self.running) + padded
        for r in self.running:
            if not r.decodes and budget > 0:
                end = min(r.to_compute, r.in_cache + budget)
                chunks.append((r, r.in_cache, end))
                budget -= end - r.in_cache
        promised = self.growth() if p.mixed else 0
        while admit and self.filling and self.waiting and budget > 0:
            r = self.waiting[0]
            if len(self.running) >= p.slots:
                break
            need = r.to_compute - r.hit
            if need > budget and not p.chunked and chunks:
                break
            if self.running and not self.fits(r, promised):
                break
            self.waiting.pop(0)
            r.blocks = self.blocks_at_start(r)
            r.in_cache = r.hit
            end = min(r.to_compute, r.hit + budget) if p.chunked else r.to_compute
            self.running.append(r)
            chunks.append((r, r.hit, end))
            budget -= end - r.hit
        return chunks

    def fits(self, r: Request, promised: int) -> bool:
        p = self.policy
        if self.total == math.inf:
            return True
        spare = p.watermark * self.total
        if p.future:
            coming = sum(q.output - q.given for q in self.running if q.decodes)
            spare += (p.future * coming + r.output - r.given) / self.size
        return self.blocks_at_start(r) + promised + spare <= self.free

    def compute(self, chunks: list[tuple[Request, int, int]], decoding: list[Request]) -> None:
        n = len(decoding) + (len(self.ended) if decoding else 0)
        context = 0.0
        if n:
            padded = [r.in_cache + 1 for r in self.ended]
            context = sum([r.in_cache + 1 for r in decoding] + padded) / n
        tokens = sum(b - a for _, a, b in chunks)
        lag_s = 0.0
        if tokens:
            seen = sum((b - a) * (a + b) / 2 for _, a, b in chunks) / tokens
            seconds = self.passes_s(tokens, seen, n, context)
            idle_s = self.step.step_s(0.0, 0.0, n, context) if n else 0.0
            lag_s = (seconds - idle_s) * (1 - 1 / self.pipeline)
            seconds = idle_s + (seconds - idle_s) / self.pipeline
        else:
            seconds = self.step.step_s(0.0, 0.0, n, context)
        self.now_s += seconds
        self.steps += 1
        for r, _, b in chunks:
            r.in_cache = b
            if b == r.to_compute:
                r.lag_s = lag_s
                self.token(r)
        for r in self.ended:
            r.in_cache += 1
        for r in sorted(decoding, key=lambda r: r.number):  # who ends first sends next
            r.in_cache += 1
            if self.policy.reserve == "prompt":
                r.blocks = self.blocks_of(r.in_cache - r.shared)
            self.token(r)
        if self.policy.static and not any(r.decodes for r in self.running):
            self.ended = []
            self.filling = True

    def passes_s(self, tokens: int, seen: float, n: int, context: float) -> float:
        micro, step_s = self.policy.micro_tokens, self.step.step_s
        if not micro or tokens + n <= micro:
            return step_s(tokens, seen, n, context)
        first = max(micro - n, 0)
        seconds, tokens = step_s(first, seen, n, context), tokens - first
        while tokens:
            part = min(tokens, micro)
            seconds, tokens = seconds + step_s(part, seen, 0, 0.0), tokens - part
        return seconds

    def token(self, r: Request) -> None:
        r.given += 1
        r.decodes = True
        r.times_s.append(self.now_s + r.lag_s)
        if r.given < r.output:
            return
        self.running.remove(r)
        if self.policy.static and r.output > 1:
            self.ended.append(r)
        else:
            r.blocks = 0
        followers = [
            q for q in self.all
            if self.requests.follows and self.requests.follows[q.number] == r.number
        ]  # fmt: skip
        end_s = r.times_s[-1]
        if followers:
            self.send(followers[-1], end_s + self.requests.think_time_s)
        elif self.unsent:
            self.send(self.unsent.pop(0), end_s)
