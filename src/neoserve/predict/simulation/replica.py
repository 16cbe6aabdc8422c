"""One replica serving requests: how its clock moves from one change of the batch to the next.

A step that carries the end of a prompt is an event of its own; decode steps, and steps that one
long prompt fills, are summed up to the next event: a completion, an arrival that can be admitted,
a full KV cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heappop, heappush

from .policy import Policy
from .requests import Outcomes, Requests
from .state import State
from .sums import DecodeTime, StepTime, total

Chunk = tuple[int, int, int]  # request, from token, to token


class Replica(State):
    """One run."""

    __slots__ = (
        "bends", "blocked_by", "decode", "decode_request_s", "kv_full_s", "num_steps", "pass_s",
        "pipeline", "prompt_s", "slots_full_s", "step_s",
    )  # fmt: skip

    def __init__(
        self,
        step: StepTime,
        policy: Policy,
        requests: Requests,
        kv_tokens: float | None = None,
        block_tokens: int = 16,
        host_s: tuple[float, float] = (0.0, 0.0),
        pipeline: int = 1,
        decode_time: DecodeTime | None = None,
    ) -> None:
        """`kv_tokens`: what the cache holds beside the prefix that all share; None: enough.
        `host_s`: before the scheduler sees a request: seconds of each, and of each prompt token.
        `decode_time` may be kept between runs of the same step model."""
        super().__init__(policy, requests, kv_tokens, block_tokens, host_s)
        self.step_s, self.bends, self.pipeline = step.step_s, step.bends, pipeline
        self.pass_s = self._passes_s if policy.micro_tokens else step.step_s
        self.decode = decode_time or DecodeTime(step)
        self.num_steps = 0
        self.prompt_s = self.slots_full_s = self.kv_full_s = self.decode_request_s = 0.0
        self.blocked_by = ""  # what keeps the first that waits from starting: slots, kv

    def run(self) -> Outcomes:
        """Until all measured requests have ended, or nothing is left to do."""
        coming, waiting = self.coming, self.waiting
        simple = self.pipeline == 1 and not self.policy.static
        while self.left:
            if simple and not (self.partial or self.counted):
                self._run_simply()
                if not self.left:
                    break
            while coming and coming[0][0] <= self.now_s:
                waiting.append(heappop(coming)[1])
            if waiting or self.num or self.partial:
                self._iterate()
            elif coming:
                self.now_s = coming[0][0]
            else:
                break
        return Outcomes(
            self.sent_s, self.first_s, self.end_s, self.num_steps, self.prompt_s,
            self.slots_full_s, self.kv_full_s, self.preemptions, self.decode_request_s,
            self.now_s, self.left,
        )  # fmt: skip

    def _run_simply(self) -> None:
        """What `_iterate` does, in one loop over locals, while all that wait start at once with
        whole prompts and the cache surely holds them. That is nearly always, and then this is what
        a simulation costs; nothing is decided here."""
        coming, waiting, running, ends = self.coming, self.waiting, self.running, self.ends
        prompts, outputs, tokens, cached = (
            self.prompt_tokens, self.output_tokens, self.tokens, self.cached_tokens
        )  # fmt: skip
        base, since, most, policy = self.base, self.since, self.most, self.policy
        pass_s, decode, step_tokens = self.pass_s, self.decode, policy.step_tokens
        now_s, step, num, base_sum = self.now_s, self.step, self.num, self.base_sum
        first_s, given, surely, slots = self.first_s, self.given, self.surely, policy.slots
        promised, num_steps, decode_request_s = self.promised, self.num_steps, self.decode_request_s
        while self.left:
            while coming and coming[0][0] <= now_s:
                waiting.append(heappop(coming)[1])
            if waiting:
                n = num if policy.mixed else 0
                new = seen = need = 0
                for i in waiting:
                    start, end = cached[i], tokens[i]
                    new += end - start
                    seen += (end - start) * (end + start)
                    need += most[i]
                at_once = len(running) + len(waiting)
                if new > step_tokens - n or promised + need > surely or at_once > slots:
                    break
                steps, context = 1 if n else 0, base_sum / n + step if n else 0.0
                seconds = pass_s(new, seen / (2.0 * new), n, context)
                self.prompt_s += seconds
                num_steps += 1
            elif num:
                n, steps, context = num, ends[0][0] - step, base_sum / num + step
                if coming and steps > 1:
                    until_s = coming[0][0] - now_s
                    steps, seconds = decode.steps_in(n, context, steps, until_s)
                else:
                    seconds = decode.run_s(n, context, steps)
                num_steps += steps
            elif coming:
                now_s = coming[0][0]
                continue
            else:
                break
            now_s += seconds
            decode_request_s += n * seconds
            step += steps
            while waiting:
                i = waiting.popleft()
                first_s[i], given[i] = now_s, 1
                if outputs[i] == 1:
                    self._done(i, now_s)
                    continue
                base[i] = own = prompts[i] + 1 - step
                since[i], running[i] = step, None
                heappush(ends, (step + outputs[i] - 1, i))
                base_sum += own
                promised += most[i]
                num += 1
            while ends and ends[0][0] <= step:
                i = heappop(ends)[1]
                del running[i]
                base_sum -= base[i]
                promised -= most[i]
                num -= 1
                self._done(i, now_s)
        self.now_s, self.step, self.num, self.base_sum = now_s, step, num, base_sum
        self.promised, self.num_steps, self.decode_request_s = promised, num_steps, decode_request_s

    def _iterate(self) -> None:
        """One step, or a run of steps that are alike."""
        pressed, self.blocked_by = False, ""
        if self.waiting or self.partial:
            pressed = self.grows and self.policy.mixed and self._make_room()
            chunks = self._prompts(admit=not pressed)
            if chunks:
                self._prompt_steps(chunks)
                return
        pressed = pressed or (self.grows and self._make_room())
        self._decode_steps(at_most=1 if pressed else None)

    def _prompts(self, admit: bool) -> list[Chunk]:
        """Prompt tokens of the next step."""
        policy, chunks = self.policy, []
        budget = policy.step_tokens - (self.num if policy.mixed else 0)
        if self.partial and budget > 0:
            i, done = self.partial
            end = min(self.tokens[i], done + budget)
            chunks.append((i, done, end))
            budget -= end - done
        if not self.filling and self.waiting:
            self.blocked_by = "slots"
        elif admit and self.waiting:
            self._admit(chunks, budget)
        return chunks

    def _admit(self, chunks: list[Chunk], budget: int) -> None:
        policy, waiting, running = self.policy, self.waiting, self.running
        while waiting and budget > 0:
            if len(running) >= policy.slots:
                self.blocked_by = "slots"
                return
            i = waiting[0]
            start, end = self.cached_tokens[i], self.tokens[i]
            if end - start > budget:
                if policy.chunked:
                    end = start + budget
                elif chunks:  # a prompt longer than any step gets one for itself
                    return
            if self.bounded and not self._admitted(i):
                self.blocked_by = "kv"
                return
            waiting.popleft()
            running[i] = None
            chunks.append((i, start, end))
            budget -= end - start

    def _prompt_steps(self, chunks: list[Chunk]) -> None:
        """The step of these chunks; as many as one long prompt fills alone."""
        n = self.num if self.policy.mixed else 0
        last, start, end = chunks[-1]
        unfinished = end < self.tokens[last]
        tokens, seen, steps = end - start, (start + end) / 2.0, 1
        if len(chunks) > 1:
            tokens = sum(b - a for _, a, b in chunks)
            seen = sum((b - a) * (a + b) for _, a, b in chunks) / (2.0 * tokens)
        elif unfinished:
            steps = self._alike(last, start, tokens, n)
            end = start + steps * tokens
        lag_s = self._advance(tokens, seen, n, steps)
        self.partial = (last, end) if unfinished else None
        for i, _, _ in chunks:
            if i != last or not unfinished:
                self._first(i, lag_s)
        if n and self.ends[0][0] <= self.step:
            self._ended()

    def _alike(self, i: int, start: int, tokens: int, n: int) -> int:
        """Steps that this prompt fills alone while nothing else changes."""
        steps = (self.tokens[i] - start - 1) // tokens
        if n and steps > 1:
            steps = min(steps, self.ends[0][0] - self.step)
            steps = self.blocks.fitting(self.step, steps) if self.grows else steps
        return max(steps, 1)

    def _advance(self, tokens: int, seen: float, n: int, steps: int) -> float:
        """Move the clock by steps of `tokens` prompt tokens; returns how long after a step its
        tokens leave the last pipeline stage."""
        context = self.base_sum / n + self.step if n else 0.0
        if steps == 1:
            last_s = spent_s = self.pass_s(tokens, seen, n, context)
        else:

            def whole(i: float) -> float:
                return self.pass_s(tokens, seen + i * tokens, n, context + i)

            last_s, spent_s = whole(steps - 1.0), self._sum(whole, steps)
        lag_s = 0.0
        if self.pipeline > 1:
            # Stages work at once: a prompt adds its share of one stage to the cycle of decoding.
            share = 1.0 / self.pipeline
            idle_s = self.decode.run_s(n, context, steps) if n else 0.0
            idle_last_s = self.decode.run_s(n, context + steps - 1, 1) if n else 0.0
            spent_s = idle_s + share * (spent_s - idle_s)
            lag_s = (1.0 - share) * (last_s - idle_last_s)
        self._pass(spent_s, n, steps)
        self.prompt_s += spent_s
        return lag_s

    def _sum(self, whole: Callable[[float], float], steps: int) -> float:
        if self.bends:  # a chunk's own context may reach one anywhere
            return math.fsum(whole(float(i)) for i in range(steps))
        return total(whole, 0.0, steps)

    def _passes_s(self, tokens: float, seen: float, n: int, context: float) -> float:
        """Seconds of a step, in the passes that it is computed in."""
        micro = self.policy.micro_tokens
        if tokens + n <= micro:
            return self.step_s(tokens, seen, n, context)
        first = max(micro - n, 0)
        full, rest = divmod(tokens - first, micro)
        seconds = self.step_s(first, seen, n, context)
        if full:
            seconds += full * self.step_s(micro, seen, 0, 0.0)
        return seconds + (self.step_s(rest, seen, 0, 0.0) if rest else 0.0)

    def _pass(self, seconds: float, n: int, steps: int) -> None:
        """Steps are done: each of the `n` that decode in them has so many tokens more."""
        self.now_s += seconds
        self.num_steps += steps
        if n:
            self.decode_request_s += n * seconds
            if self.grows:
                self.blocks.free -= self.blocks.growth(self.step, steps)
            self.step += steps
        if self.blocked_by == "slots":
            self.slots_full_s += seconds
        elif self.blocked_by:
            self.kv_full_s += seconds

    def _decode_steps(self, at_most: int | None) -> None:
        n, step = self.num, self.step
        self.filling = not self.policy.static
        steps = at_most or self.ends[0][0] - step
        if self.grows:
            # One that is alone goes on whatever the cache holds.
            steps = max(self.blocks.fitting(step, steps), 1)
        context = self.base_sum / n + step
        if self.coming and steps > 1 and self.filling and not self.blocked_by:
            until_s = self.coming[0][0] - self.now_s
            steps, seconds = self.decode.steps_in(n, context, steps, until_s)
        else:
            seconds = self.decode.run_s(n, context, steps)
        self._pass(seconds, n, steps)
        if self.ends[0][0] <= self.step:
            self._ended()
