"""What a simulated replica holds: requests on their way, those that run, and their cache."""

from __future__ import annotations

import heapq
import math
from collections import deque

from .blocks import Blocks
from .policy import Policy
from .requests import Requests, measured


class State:
    """Requests from their arrival to their last token; time passes in `Replica`.

    Decode steps are counted: one that all who decode take together. A request's context in decode
    step s is its `base` plus s, and it ends when so many steps are done as `ends` says.
    """

    __slots__ = (
        "base", "base_sum", "blocks", "bounded", "cached_tokens", "coming", "counted", "end_s",
        "ends", "filling", "first_s", "given", "grows", "host_s", "lag_s", "left", "most", "now_s",
        "num", "output_tokens", "partial", "policy", "preemptions", "promised", "prompt_tokens",
        "requests", "running", "sent_s", "shared", "since", "step", "surely", "then", "tokens",
        "unsent", "waiting",
    )  # fmt: skip

    def __init__(
        self,
        policy: Policy,
        requests: Requests,
        kv_tokens: float | None,
        block_tokens: int,
        host_s: tuple[float, float],
    ) -> None:
        self.policy, self.requests, self.host_s = policy, requests, host_s
        self.blocks = Blocks(kv_tokens, 1 if policy.future else block_tokens)
        self.bounded = self.blocks.total < math.inf
        # Blocks are counted from the first admission on after which they might not suffice for all
        # answers to their end; until then nothing that the cache decides can happen.
        self.counted = self.bounded and policy.static
        self.grows = False  # counted, and taken while decoding
        self.surely = (1.0 - policy.watermark) * self.blocks.total - 1.0
        self.promised = 0  # at most that those who run will need, until blocks are counted
        self.prompt_tokens, self.output_tokens = requests.prompt_tokens, requests.output_tokens
        self.cached_tokens = requests.cached_tokens
        n = len(requests.prompt_tokens)
        self.sent_s, self.first_s, self.end_s = [math.nan] * n, [math.nan] * n, [math.nan] * n
        self.now_s = 0.0
        self.coming: list[tuple[float, int]] = []  # when the scheduler sees it, request
        self.unsent: deque[int] = deque()  # of a closed loop
        self.then = {before: i for i, before in enumerate(requests.follows) if before >= 0}
        self.left = len(measured(requests))
        self.waiting: deque[int] = deque()
        self.running: dict[int, None] = {}  # in the order of admission
        self.partial: tuple[int, int] | None = None  # a prompt under way, and its tokens so far
        self.filling = True  # a static batch still takes requests
        self.given = [0] * n  # tokens that it had given when it joined, or was last preempted
        self.tokens = list(requests.prompt_tokens)  # to compute before the next: lost ones, too
        self.shared = [0] * n
        if requests.shared_tokens:
            self.shared = [min(requests.shared_tokens, hit) for hit in requests.cached_tokens]
        self.most = self._most() if self.bounded else [0] * n  # blocks at the end of its answer
        self.base, self.since = [0] * n, [0] * n  # `since`: the decode step with which it joined
        self.lag_s = [0.0] * n  # its tokens leave the last pipeline stage so much later
        self.step = 0  # decode steps done
        self.ends: list[tuple[int, int]] = []
        self.num = 0  # requests that decode; in a static batch also those that have ended
        self.base_sum = 0  # of those
        self.preemptions = 0
        self._start()

    def _start(self) -> None:
        r = self.requests
        for i, given in enumerate(r.begun):
            self._resume(i, given)
        roots = [i for i in range(len(r.begun), len(r.due_s)) if not r.follows or r.follows[i] < 0]
        at_once = r.concurrency or len(roots)
        self.coming = [(self._sent(i, r.due_s[i]), i) for i in roots[:at_once]]
        heapq.heapify(self.coming)
        self.unsent.extend(roots[at_once:])
        if self.promised > self.surely and not self.counted:
            self._count()

    def _resume(self, i: int, given: int) -> None:
        """A request of `Requests.begun`: it decodes when the run starts."""
        self.tokens[i] += given - 1  # the last token given is not in the cache yet
        self.given[i] = given
        if self.counted:
            self.blocks.free -= self.blocks.of(self._reserved(i, given - 1))
        elif self.bounded:
            self.promised += self.most[i]
        self.first_s[i] = self.sent_s[i] = 0.0
        self.running[i] = None
        self._join(i, given)

    def _sent(self, i: int, time_s: float) -> float:
        """When the scheduler sees it."""
        self.sent_s[i] = time_s
        return time_s + self.host_s[0] + self.host_s[1] * self.prompt_tokens[i]

    # Cache

    def _reserved(self, i: int, given: int) -> int:
        """Own tokens that admission makes room for, of a request that has given so many."""
        own = self.tokens[i] - self.shared[i]
        if self.policy.reserve == "output":
            own += self.output_tokens[i] - given - 1
        return own

    def _most(self) -> list[int]:
        r, size = self.requests, self.blocks.size
        sizes = zip(r.prompt_tokens, r.output_tokens, self.shared, strict=True)
        return [-(-(prompt + output - shared) // size) for prompt, output, shared in sizes]

    def _count(self) -> None:
        """The cache may run full from here on: count what everybody holds."""
        blocks, self.counted = self.blocks, True
        self.grows = self.policy.reserve == "prompt"
        decoding = {i for _, i in self.ends}
        for i in self.running:
            if i not in decoding:
                blocks.free -= blocks.of(self._reserved(i, self.given[i]))
            elif self.grows:
                own = self.base[i] - self.shared[i]
                blocks.join(own)
                blocks.free -= blocks.of(own + self.step - 1)
            else:
                blocks.free -= blocks.of(self._reserved(i, self.given[i] - 1))

    def _admitted(self, i: int) -> bool:
        """Take the room that admission takes, if it is there. One that runs alone may always go
        on: an engine refuses what never fits before it waits."""
        if not self.counted:
            promised = self.promised + self.most[i]
            if promised <= self.surely:
                self.promised = promised
                return True
            self._count()
        blocks, policy = self.blocks, self.policy
        need = blocks.of(self._reserved(i, self.given[i]))
        spare = policy.watermark * blocks.total if policy.watermark else 0.0
        if policy.future:
            coming = sum(end for end, _ in self.ends) - self.num * self.step
            own = self.output_tokens[i] - self.given[i]
            spare += (policy.future * coming + own) / blocks.size
        free = blocks.free
        if self.grows and policy.mixed:  # the next block of those that decode comes first
            free -= blocks.growth(self.step, 1)
        if self.running and need + spare > free:
            return False
        blocks.free -= need
        return True

    def _free(self, i: int, given: int) -> None:
        """A request that takes no more blocks gives back what it has."""
        if self.counted:
            self.blocks.free += self.blocks.of(self._reserved(i, given))
        else:
            self.promised -= self.most[i]

    def _make_room(self) -> bool:
        """Preempt from the end of the running requests until the next decode step fits."""
        blocks = self.blocks
        if blocks.num <= blocks.free:
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
            self._free(i, self.given[i])
            del self.running[i]
            return
        end = self.since[i] + self.output_tokens[i] - self.given[i]
        self._leave(i)
        self.ends.remove((end, i))
        heapq.heapify(self.ends)
        self.given[i] += self.step - self.since[i]
        self.tokens[i] = self.prompt_tokens[i] + self.given[i]

    # From the first token to the last

    def _first(self, i: int, lag_s: float) -> None:
        """A prompt is through: a token leaves, and the request decodes or ends."""
        given = self.given[i] + 1
        time_s = self.now_s + lag_s
        self.lag_s[i] = lag_s
        if given == 1:
            self.first_s[i] = time_s
        self.given[i] = given
        if given < self.output_tokens[i]:
            self._join(i, given)
            return
        del self.running[i]
        if self.bounded:
            self._free(i, given - 1)
        self._done(i, time_s)

    def _join(self, i: int, given: int) -> None:
        """It decodes from the next step on, having given so many tokens."""
        step = self.step
        base = self.prompt_tokens[i] + given - step
        self.base[i], self.since[i] = base, step
        heapq.heappush(self.ends, (step + self.output_tokens[i] - given, i))
        self.num += 1
        self.base_sum += base
        if self.grows:
            self.blocks.join(base - self.shared[i])

    def _leave(self, i: int) -> None:
        """It decodes no more, and gives its cache back."""
        base = self.base[i]
        del self.running[i]
        self.num -= 1
        self.base_sum -= base
        if self.grows:
            self.blocks.leave(base - self.shared[i], self.step)
        elif self.bounded:
            self._free(i, self.given[i] - 1)

    def _ended(self) -> None:
        """What has given its last token leaves."""
        ends, step, static = self.ends, self.step, self.policy.static
        while ends and ends[0][0] <= step:
            _, i = heapq.heappop(ends)
            if static:
                del self.running[i]
            else:
                self._leave(i)
            self._done(i, self.now_s + self.lag_s[i])
        if static and not ends:
            self.num = self.base_sum = 0
            self.blocks.free, self.filling = self.blocks.total, True

    def _done(self, i: int, time_s: float) -> None:
        r = self.requests
        self.end_s[i] = time_s
        if r.first <= i < (r.last or len(r.due_s)):
            self.left -= 1
        if i in self.then:
            i, time_s = self.then[i], time_s + r.think_time_s
        elif self.unsent:
            i = self.unsent.popleft()
        else:
            return
        heapq.heappush(self.coming, (self._sent(i, time_s), i))
