"""How much memory the bodies of requests may take together."""

from __future__ import annotations

import asyncio

AS_TEXT, AS_VALUE = 5, 64
"""Bytes that a byte of a body may take: itself and a character of a Python text; and those of a list, a dictionary, a number, a text."""


def parsed_size(body: bytes) -> int:
    """Bytes that a JSON text takes at most when it is parsed, without parsing it."""
    return AS_TEXT * len(body) + AS_VALUE * sum(body.count(sign) for sign in (b",", b"[", b"{"))


class MemoryBudget:
    """Bytes that large requests share, first come, first served. One that does not fit waits its turn; alone it always fits.

    Between two of them the event loop turns, as bodies are parsed in it.
    """

    def __init__(self, most: int):
        self.most, self.used = most, 0
        self._turn, self._freed = asyncio.Lock(), asyncio.Event()

    async def take(self, size: int) -> None:
        async with self._turn:
            while self.used and self.used + size > self.most:
                self._freed.clear()
                await self._freed.wait()
            await asyncio.sleep(0)
            self.used += size

    def give_back(self, size: int) -> None:
        self.used -= size
        self._freed.set()
