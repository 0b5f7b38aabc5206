"""Numbers in order and convex hulls, as functions of seed and index, and files of one's own."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from weft.core.errors import ConfigError, DataError
from weft.data.base import IGNORE
from weft.data.tables.pointing import PointingSequencesConfig, PointingTaskConfig, hull_order

INDEX, KEY = torch.arange(50), torch.zeros(50, dtype=torch.int64)


def test_numbers_are_sorted() -> None:
    data = PointingTaskConfig(min_length=3, max_length=7).build()
    batch = data.train.batch(INDEX, KEY)
    assert set(batch["lengths"].tolist()) == {3, 4, 5, 6, 7}
    for points, length, order in zip(batch["points"], batch["lengths"].tolist(), batch["order"], strict=True):
        positions = order[order > 0]
        assert order.tolist()[length:] == [0, *[IGNORE] * (7 - length)]
        torch.testing.assert_close(points[positions - 1, 0], points[:length, 0].sort().values)


def test_an_example_is_a_function_of_seed_split_and_index() -> None:
    first, same, other = (PointingTaskConfig(task="hull", seed=seed).build() for seed in (0, 0, 1))
    batch = first.train.batch(INDEX, KEY)
    assert torch.equal(batch["points"][7:9], same.train.batch(INDEX[7:9], KEY[:2] + 5)["points"])
    assert not torch.equal(batch["points"], other.train.batch(INDEX, KEY)["points"])
    assert first.validation is not None
    assert not torch.equal(batch["points"], first.validation.batch(INDEX, KEY)["points"])


def test_hulls_hold_all_points_and_turn_left_at_every_corner() -> None:
    batch = PointingTaskConfig(task="hull", min_length=4, max_length=12).build().train.batch(INDEX, KEY)
    for points, length, order in zip(batch["points"].double(), batch["lengths"].tolist(), batch["order"], strict=True):
        corners = points[order[order > 0] - 1]
        assert order[0] == points[:length, 0].argmin() + 1
        for a, b in zip(corners, corners.roll(-1, 0), strict=True):
            side = (b - a)[0] * (points[:length] - a)[:, 1] - (b - a)[1] * (points[:length] - a)[:, 0]
            assert (side >= -1e-12).all()


def test_the_hull_of_a_square_leaves_its_middle_out() -> None:
    points = torch.tensor([[[0.5, 0.5], [0.9, 0.0], [0.0, 0.1], [1.0, 1.0], [0.1, 0.9], [7.0, 7.0]]])
    there = torch.tensor([[True] * 5 + [False]])
    assert hull_order(points, there).tolist() == [[3, 2, 4, 5, 0, IGNORE, IGNORE]]


@pytest.mark.parametrize("name", ["orders.tsv", "orders.jsonl"])
def test_a_file_of_ones_own(name: str, tmp_path: Path) -> None:
    rows = [("3 1 2", "2 3 1"), ("5 4", "2")]
    lines = (
        [f"{inputs}\t{order}" for inputs, order in rows]
        if name.endswith("tsv")
        else [f'{{"order": "{order}", "inputs": "{inputs}"}}' for inputs, order in rows]
    )
    (tmp_path / name).write_text("\n".join(lines) + "\n")
    data = PointingSequencesConfig(path=str(tmp_path / name), validation=0.0).build()
    batch = data.train.batch(torch.arange(2), KEY[:2])
    assert batch["points"][..., 0].tolist() == [[3, 1, 2], [5, 4, 0]]
    assert batch["lengths"].tolist() == [3, 2]
    assert batch["order"].tolist() == [[2, 3, 1, 0], [2, 0, IGNORE, IGNORE]]
    assert data.info["features"] == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("3 1 x\t2 3 1\n", "inputs like 3 1 2"),
        ("3 1 2\t2 3 4\n", "positions from 1 to 3"),
        ("3 nan\t1\n", "must be finite"),
        ("0.1,0.2 0.3\t1 2\n", "inputs like"),
        ("0.1,0.2\t1\n0.1\t1\n", "different numbers of features"),
        ("1 2\t1 1 1\n", "more than the 2 inputs"),
        ("1 2\n", "one column only"),
    ],
)
def test_a_bad_file_is_refused_in_a_sentence(content: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "orders.tsv").write_text(content)
    with pytest.raises(DataError, match=said):
        PointingSequencesConfig(path=str(tmp_path / "orders.tsv"), header="no").build()


def test_settings_that_make_no_data_are_refused() -> None:
    with pytest.raises(ConfigError, match="from 3 to 1,000"):
        PointingTaskConfig(min_length=11).build()
    with pytest.raises(ConfigError, match="at least 1"):
        PointingTaskConfig(examples=0).build()
