from __future__ import annotations

import torch

from weft.kernels.c.huge_pages import SIZE, stretches, use_large_pages

MAPS = """\
00400000-00a00000 r-xp 00000000 08:01 123 /usr/bin/python
01000000-01900000 rw-p 00000000 00:00 0 [heap]
02100000-02300000 rw-p 00000000 00:00 0
7f0000100000-7f0000700000 rw-p 00000000 00:00 0
7f1000000000-7f1000800000 rw-p 00000000 08:01 456 /usr/lib/x.so
7ff000000000-7ff000800000 rw-p 00000000 00:00 0 [stack]
"""


def test_whole_pages_of_what_is_no_files_and_no_stacks() -> None:
    assert list(stretches(MAPS)) == [(0x01000000, 0x01800000), (0x7F0000200000, 0x7F0000600000)]


def test_memory_keeps_what_it_holds() -> None:
    held = torch.arange(3 * SIZE, dtype=torch.int32)
    use_large_pages()
    assert torch.equal(held, torch.arange(3 * SIZE, dtype=torch.int32))
