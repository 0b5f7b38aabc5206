from __future__ import annotations

from pathlib import Path

import pytest
import torch

from weft.core.errors import ConfigError, DataError
from weft.data.base import DataLoader
from weft.data.text.lanes import LaneWindows
from weft.data.text.token_windows import TextConfig


@pytest.mark.parametrize(("tokens", "lanes", "batch"), [(101, 4, 4), (100, 4, 2), (137, 5, 3), (9, 1, 1)])
def test_each_example_goes_on_where_its_lane_stopped(tokens: int, lanes: int, batch: int) -> None:
    windows = LaneWindows(torch.arange(tokens, dtype=torch.uint8), 8, lanes)
    source = DataLoader(windows, 3, torch.device("cpu"))
    ends: dict[int, int] = {}
    seen: list[int] = []
    for first in range(0, len(windows) // batch * batch, batch):
        found = source.batch(first, batch)
        assert len(set(found["lane"].tolist())) == batch
        assert torch.equal(found["ids"][:, 1:], found["targets"][:, :-1])
        for lane, begins, ids in zip(found["lane"].tolist(), found["begins"].tolist(), found["ids"].tolist(), strict=True):
            assert begins == (lane not in ends)
            assert begins or ids[0] == ends[lane] + 1
            ends[lane] = ids[-1]
            seen += ids
    assert len(seen) == len(set(seen))
    assert tokens - 1 - len(windows) * 8 < 8 * lanes
    again = source.batch(len(windows), batch)  # the next epoch
    assert again["begins"].all() and torch.equal(again["ids"], source.batch(0, batch)["ids"])


def test_windows_that_shift_are_cut_elsewhere_in_every_epoch() -> None:
    windows = LaneWindows(torch.arange(200), 8, 4, shift=True)
    source, begins = DataLoader(windows, 3, torch.device("cpu")), []
    for epoch in range(8):
        ends: dict[int, int] = {}
        for first in range(epoch * len(windows), (epoch + 1) * len(windows), 4):
            found = source.batch(first, 4)
            for lane, fresh, ids, targets in zip(*(found[name].tolist() for name in ("lane", "begins", "ids", "targets")), strict=True):
                assert fresh == (lane not in ends)
                assert fresh or ids[0] == ends[lane] + 1
                assert targets == [token + 1 for token in ids]
                ends[lane] = ids[-1]
                begins += [ids[0]] * (fresh and lane == 0)
    assert begins[0] == 0 and len({*begins}) >= 6 and max(begins) < 8
    assert torch.equal(DataLoader(windows, 5, torch.device("cpu")).batch(100, 4)["ids"], source.batch(100, 4)["ids"])


def test_a_text_in_lanes(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello world\n" * 50)
    config = TextConfig(path=str(tmp_path / "a.txt"), context=16, lanes=6)
    data = config.build()
    assert (data.info["lanes"], len(data.train)) == (6, 6 * (539 // 96))
    with pytest.raises(DataError, match=r"too few for a window of 16 in each of 600 lanes; lower --data\.lanes or --data\.context"):
        TextConfig(path=str(tmp_path / "a.txt"), context=16, lanes=600).build()
    assert TextConfig(path=str(tmp_path / "a.txt"), context=16, lanes=6, shift=True).build().train.shift  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match=r"--data\.shift is for a text in lanes"):
        TextConfig(path=str(tmp_path / "a.txt"), shift=True).build()
    with pytest.raises(ConfigError, match=r"--data\.lanes must not be negative, not -1"):
        TextConfig(path=str(tmp_path / "a.txt"), lanes=-1).build()
