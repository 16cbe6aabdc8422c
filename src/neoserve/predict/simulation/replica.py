"""One replica serving requests: admission, prompts, decoding, preemption.

The clock moves from one change of the batch to the next. A step that carries the end of a prompt
is an event of its own; decode steps, and steps that one long prompt fills, are summed up to the
next event: a completion, an arrival that can be admitted, a full KV cache.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable

from .blocks import Blocks
from .policy import Policy
from .requests import Outcomes, Requests, measured
from .sums import DecodeTime, StepTime, total

Chunk = tuple[int, int, int]  # request, from token, to token


class Replica:
    """The state of one run."""

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
        self.step_s, self.policy, self.requests = step.step_s, policy, requests
        self.bends = step.bends
        self.decode = decode_time or DecodeTime(step)
        self.blocks = Blocks(kv_tokens, 1 if policy.future else block_tokens)
        self.host_s, self.pipeline = host_s, pipeline
        n = len(requests.prompt_tokens)
        nan = math.nan
        self.sent_s, self.first_s, self.end_s = [nan] * n, [nan] * n, [nan] * n
        self.now_s = 0.0
        self.waiting: deque[int] = deque()
        self.running: dict[int, None] = {}  # in the order of admission
        self.partial: tuple[int, int] | None = None  # a prompt under way, and its tokens so far
        self.given = [0] * n  # tokens that a request had given when it was last preempted
        self.base = [0] * n  # its context in decode step s is base + s
        self.since = [0] * n  # decode step with which it joined
        self.lag_s = [0.0] * n  # its tokens leave the last pipeline stage so much later
        self.ends: list[tuple[int, int]] = []  # (decode steps done by then, request)
        self.step = 0  # decode steps done
        self.num = 0  # requests that decode; in a static batch also those that have ended
        self.base_sum = 0  # of those
        self.ahead = 0  # tokens that running requests have still to give, plus `num` x `step`
        self.num_steps = self.preemptions = 0
        self.prompt_s = self.slots_full_s = self.kv_full_s = self.decode_request_s = 0.0
        self.blocked_by = ""
        self.left = len(measured(requests))
        self.bounded = self.blocks.total < math.inf
        self.grows = self.bounded and policy.reserve == "prompt"
        self.filling = True  # a static batch still takes requests
        self.coming: list[tuple[float, int]] = []  # when the scheduler sees it, request
        self.unsent: deque[int] = deque()  # of a closed loop
        self.then = {before: i for i, before in enumerate(requests.follows) if before >= 0}
        self._start()

    def _start(self) -> None:
        r = self.requests
        for i, given in enumerate(r.begun):
            self._resume(i, given)
        roots = [i for i in range(len(r.begun), len(r.due_s)) if not r.follows or r.follows[i] < 0]
        at_once = r.concurrency or len(roots)
        for i in roots[:at_once]:
            self._send(i, r.due_s[i])
        self.unsent.extend(roots[at_once:])

    def _send(self, i: int, time_s: float) -> None:
        self.sent_s[i] = time_s
        seen_s = time_s + self.host_s[0] + self.host_s[1] * self.requests.prompt_tokens[i]
        heapq.heappush(self.coming, (seen_s, i))

    def run(self) -> Outcomes:
        """Until all measured requests have ended, or nothing is left to do."""
        coming, waiting = self.coming, self.waiting
        while self.left:
            while coming and coming[0][0] <= self.now_s:
                waiting.append(heapq.heappop(coming)[1])
            if not (waiting or self.num or self.partial):
                if not coming:
                    break
                self.now_s = coming[0][0]
                continue
            self._iterate()
        return Outcomes(
            self.sent_s, self.first_s, self.end_s, self.num_steps, self.prompt_s,
            self.slots_full_s, self.kv_full_s, self.preemptions, self.decode_request_s,
            self.now_s, self.left,
        )  # fmt: skip

    def _iterate(self) -> None:
        """One step, or a run of steps that are alike."""
        pressed, self.blocked_by = False, ""
        if self.waiting or self.partial:
            pressed = self.policy.mixed and self._make_room()
            chunks = self._prompts(admit=not pressed)
            if chunks:
                self._prompt_steps(chunks)
                return
        pressed = pressed or self._make_room()
        self._decode_steps(at_most=1 if pressed else None)

    # Admission

    def _prompts(self, admit: bool) -> list[Chunk]:
        """Prompt tokens of the next step."""
        policy, chunks = self.policy, []
        budget = policy.step_tokens - (self.num if policy.mixed else 0)
        if self.partial and budget > 0:
            i, done = self.partial
            end = min(self._tokens(i), done + budget)
            chunks.append((i, done, end))
            budget -= end - done
        if not self.filling and self.waiting:
            self.blocked_by = "slots"
        elif admit and self.waiting:
            # The next block of those that decode comes first.
            next_blocks = self.blocks.growth(self.step, 1) if self.grows and policy.mixed else 0
            self.blocks.free -= next_blocks
            self._admit(chunks, budget)
            self.blocks.free += next_blocks
        return chunks

    def _admit(self, chunks: list[Chunk], budget: int) -> None:
        policy, waiting = self.policy, self.waiting
        while waiting and budget > 0:
            if len(self.running) >= policy.slots:
                self.blocked_by = "slots"
                return
            i = waiting[0]
            start, end = self.requests.cached_tokens[i], self._tokens(i)
            if end - start > budget:
                if policy.chunked:
                    end = start + budget
                elif chunks:  # a prompt longer than any step gets one for itself
                    return
            if not self._reserve(i):
                self.blocked_by = "kv"
                return
            waiting.popleft()
            self.running[i] = None
            chunks.append((i, start, end))
            budget -= end - start

    def _tokens(self, i: int) -> int:
        """What has to be computed before the next token: the prompt, and what was lost."""
        return self.requests.prompt_tokens[i] + self.given[i]

    def _own(self, i: int) -> int:
        return self._tokens(i) - min(self.requests.shared_tokens, self.requests.cached_tokens[i])

    def _needs(self, i: int) -> int:
        """Blocks taken at admission."""
        own = self._own(i)
        if self.policy.reserve == "output":
            own += self.requests.output_tokens[i] - self.given[i] - 1
        return self.blocks.of(own)

    def _reserve(self, i: int) -> bool:
        """Take the blocks that admission takes, if they are there. One that runs alone may always
        go on: an engine refuses what never fits before it waits."""
        if not self.bounded:
            return True
        blocks, policy = self.blocks, self.policy
        need = self._needs(i)
        spare = policy.watermark * blocks.total if policy.watermark else 0.0
        if policy.future:
            coming = self.ahead - self.num * self.step
            own = self.requests.output_tokens[i] - self.given[i]
            spare += (policy.future * coming + own) / blocks.size
        if self.running and need + spare > blocks.free:
            return False
        blocks.free -= need
        return True

    # Steps with prompts

    def _prompt_steps(self, chunks: list[Chunk]) -> None:
        policy = self.policy
        n = self.num if policy.mixed else 0
        last, start, end = chunks[-1]
        unfinished = end < self._tokens(last)
        steps = 1
        if unfinished and len(chunks) == 1:
            steps = self._alike(last, start, end - start, n)
            end = start + steps * (end - start)
        tokens = sum(b - a for _, a, b in chunks)
        seen = sum((b - a) * (a + b) for _, a, b in chunks) / (2.0 * tokens)
        context = self.base_sum / n + self.step if n else 0.0
        lag_s = self._advance(tokens, seen, n, context, steps)
        if n:
            self._grow(steps)
        self.num_steps += steps
        self.partial = None
        for i, _, _ in chunks:
            if i != last or not unfinished:
                self._first(i, lag_s)
        if unfinished:
            self.partial = (last, end)
        if n:
            self._ended()

    def _alike(self, i: int, start: int, tokens: int, n: int) -> int:
        """Steps that this prompt fills alone while nothing else changes."""
        steps = (self._tokens(i) - start - 1) // tokens
        if n and steps > 1:
            steps = min(steps, self.ends[0][0] - self.step)
            steps = self.blocks.fitting(self.step, steps) if self.grows else steps
        return max(steps, 1)

    def _advance(self, tokens: int, seen: float, n: int, context: float, steps: int) -> float:
        """Move the clock by steps of `tokens` prompt tokens; returns how long after a step its
        tokens leave the last pipeline stage."""

        def whole(i: float) -> float:
            return self._pass_s(tokens, seen + i * tokens, n, context + i)

        if steps == 1:
            last_s = spent_s = whole(0.0)
        else:
            last_s, spent_s = whole(steps - 1.0), self._sum(whole, steps)
        lag_s = 0.0
        if self.pipeline > 1:
            # Stages work at once: a prompt adds its share of one stage to the cycle of decoding.
            share = 1.0 / self.pipeline
            idle_s = self.decode.run_s(n, context, steps) if n else 0.0
            idle_last_s = self.decode.run_s(n, context + steps - 1, 1) if n else 0.0
            spent_s = idle_s + share * (spent_s - idle_s)
            lag_s = (1.0 - share) * (last_s - idle_last_s)
        self._pass(spent_s, n)
        self.prompt_s += spent_s
        return lag_s

    def _sum(self, whole: Callable[[float], float], steps: int) -> float:
        if self.bends:  # a chunk's own context may reach one anywhere
            return math.fsum(whole(float(i)) for i in range(steps))
        return total(whole, 0.0, steps)

    def _pass_s(self, tokens: float, seen: float, n: int, context: float) -> float:
        """Seconds of a step, in the passes that it is computed in."""
        micro = self.policy.micro_tokens
        if not micro or tokens + n <= micro:
            return self.step_s(tokens, seen, n, context)
        first = max(micro - n, 0)
        full, rest = divmod(tokens - first, micro)
        seconds = self.step_s(first, seen, n, context)
        if full:
            seconds += full * self.step_s(micro, seen, 0, 0.0)
        return seconds + (self.step_s(rest, seen, 0, 0.0) if rest else 0.0)

    def _pass(self, seconds: float, n: int) -> None:
        self.now_s += seconds
        self.decode_request_s += n * seconds
        if self.blocked_by == "slots":
            self.slots_full_s += seconds
        elif self.blocked_by == "kv":
            self.kv_full_s += seconds

    # Decoding

    def _decode_steps(self, at_most: int | None) -> None:
        n, step = self.num, self.step
        self.filling = not self.policy.static
        steps = at_most or self.ends[0][0] - step
        if self.grows:
            # one that is alone goes on whatever the cache holds
            steps = max(self.blocks.fitting(step, steps), 1)
        context = self.base_sum / n + step
        can_start = self.coming and self.filling and not self.blocked_by
        if can_start and steps > 1:
            until_s = self.coming[0][0] - self.now_s
            steps, seconds = self.decode.steps_in(n, context, steps, until_s)
        else:
            seconds = self.decode.run_s(n, context, steps)
        self._grow(steps)
        self.num_steps += steps
        self._pass(seconds, n)
        self._ended()

    def _grow(self, steps: int) -> None:
        if self.grows:
            self.blocks.free -= self.blocks.growth(self.step, steps)
        self.step += steps

    def _first(self, i: int, lag_s: float) -> None:
        """A prompt is through: a token leaves, and the request decodes or ends."""
        given = self.given[i] + 1
        self.lag_s[i] = lag_s
        time_s = self.now_s + lag_s
        if given == 1:
            self.first_s[i] = time_s
        self.given[i] = given
        if given >= self.requests.output_tokens[i]:
            del self.running[i]
            self._give_back(i)
            self._done(i, time_s)
            return
        self._join(i, given)

    def _join(self, i: int, given: int) -> None:
        """It decodes from the next step on, having given so many tokens."""
        shared = min(self.requests.shared_tokens, self.requests.cached_tokens[i])
        base = self.requests.prompt_tokens[i] + given - self.step
        self.base[i], self.since[i] = base, self.step
        left = self.requests.output_tokens[i] - given
        heapq.heappush(self.ends, (self.step + left, i))
        self.num += 1
        self.base_sum += base
        self.ahead += left + self.step
        if self.grows:
            self.blocks.join(base - shared)

    def _resume(self, i: int, given: int) -> None:
        """A request of `Requests.begun`: it decodes when the run starts."""
        self.given[i] = given
        self.first_s[i] = self.sent_s[i] = 0.0
        self.running[i] = None
        if self.bounded:
            self.given[i] -= 1  # the last token given is not in the cache yet
            self.blocks.free -= self._needs(i)
            self.given[i] += 1
        self._join(i, given)

    def _give_back(self, i: int) -> None:
        """The blocks of a request that has given its last token, and took none while it decoded."""
        if not self.bounded:
            return
        own = self._own(i) - 1
        if self.policy.reserve == "output":
            own += self.requests.output_tokens[i] - self.given[i]
        self.blocks.free += self.blocks.of(own)

    def _ended(self) -> None:
        """What has given its last token leaves."""
        ends, step = self.ends, self.step
        while ends and ends[0][0] <= step:
            _, i = heapq.heappop(ends)
            if self.policy.static:
                del self.running[i]
            else:
                self._leave(i)
            self._done(i, self.now_s + self.lag_s[i])
        if self.policy.static and not ends:
            self.num = self.base_sum = self.ahead = 0
            self.blocks.free, self.filling = self.blocks.total, True

    def _leave(self, i: int) -> None:
        base, left = self.base[i], self.requests.output_tokens[i] - self.given[i]
        del self.running[i]
        self.num -= 1
        self.base_sum -= base
        self.ahead -= left + self.since[i]
        if self.grows:
            shared = min(self.requests.shared_tokens, self.requests.cached_tokens[i])
            self.blocks.leave(base - shared, self.step)
        else:
            self._give_back(i)

    def _done(self, i: int, time_s: float) -> None:
        r = self.requests
        self.end_s[i] = time_s
        if r.first <= i < (r.last or len(r.due_s)):
            self.left -= 1
        if i in self.then:
            self._send(self.then[i], time_s + r.think_time_s)
        elif self.unsent:
            self._send(self.unsent.popleft(), time_s)

    def _make_room(self) -> bool:
        """Preempt from the end of the running requests until the next decode step fits."""
        blocks = self.blocks
        if not self.grows or blocks.num <= blocks.free:
            return False
        if blocks.growth(self.step, 1) <= blocks.free:
            return False
        while len(self.running) > 1 and blocks.growth(self.step, 1) > blocks.free:
            self._preempt(next(reversed(self.running)))
        return True

    def _preempt(self, i: int) -> None:
        """It loses its cache and waits in front; what it has given is computed again."""
        self.preemptions += 1
        self.waiting.appendleft(i)
        if self.partial and self.partial[0] == i:
            self.partial = None
            self.blocks.free += self.blocks.of(self._own(i))
            del self.running[i]
            return
        self._leave(i)
        end = self.since[i] + self.requests.output_tokens[i] - self.given[i]
        self.ends.remove((end, i))
        heapq.heapify(self.ends)
        self.given[i] += self.step - self.since[i]
