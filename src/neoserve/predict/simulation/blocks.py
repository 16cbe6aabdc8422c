"""The KV cache of a simulated replica: blocks, and how fast decoding fills them."""

from __future__ import annotations

import math


class Blocks:
    """Free blocks. Requests that decode in step take a block each time that one is full, so it is
    enough to know how many of them stand at each place of their last block.

    A request's `base` is its own tokens (those that it shares with nobody) in the next decode
    step less the number of that step; it stays the same while it decodes.
    """

    __slots__ = ("_at", "free", "num", "size", "total")

    def __init__(self, tokens: float | None, block_tokens: int) -> None:
        """`tokens` None: the cache never binds."""
        self.size = max(1, block_tokens)
        self.total = math.inf if tokens is None else float(math.floor(tokens / self.size))
        self.free = self.total
        self._at = [0] * self.size
        self.num = 0  # requests that grow

    def of(self, tokens: int) -> int:
        """Blocks that so many tokens lie in."""
        return -(-tokens // self.size)

    def join(self, base: int) -> None:
        """A request begins to decode; its blocks up to here are taken."""
        self._at[(base - 1) % self.size] += 1
        self.num += 1

    def leave(self, base: int, step: int) -> None:
        """It ends before decode step `step`, and gives its blocks back."""
        self._at[(base - 1) % self.size] -= 1
        self.num -= 1
        self.free += self.of(base + step - 1)

    def growth(self, step: int, steps: int) -> int:
        """Blocks that the next `steps` decode steps take, the first of which is `step`."""
        if steps == 1:
            return self._at[-step % self.size]
        cycles, rest = divmod(steps, self.size)
        first = -step % self.size  # the place whose requests need a block at once
        low = first - rest + 1
        found = sum(self._at[max(low, 0) : first + 1]) if rest else 0
        if low < 0:
            found += sum(self._at[low:])
        return cycles * self.num + found

    def fitting(self, step: int, most: int) -> int:
        """Decode steps, at most `most`, that the free blocks last."""
        if self.free >= (most // self.size + 1) * self.num or not self.num:
            return most
        steps = min(int(self.free // self.num) * self.size, most)
        left = self.free - self.growth(step, steps)
        while steps < most:
            left -= self._at[-(step + steps) % self.size]
            if left < 0:
                break
            steps += 1
        return steps
