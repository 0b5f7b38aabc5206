"""Batches of similar lengths: every pair once, about equally many tokens, little padding."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from weft.core.errors import ConfigError, DataError
from weft.data.base import DataLoader
from weft.data.text.length_buckets import ABSENT, LengthBuckets, widths
from weft.data.text.pairs import PairsConfig
from weft.data.tokenizers.special_tokens import PAD


def config(folder: Path, number: int = 400, **settings: object) -> PairsConfig:
    chance = random.Random(0)
    for name in ("source", "target"):
        lines = [
            "".join(chance.choice("abcdef ") for _ in range(min(100, int(chance.expovariate(1 / 20)) + 1))).strip() or "a"
            for _ in range(number)
        ]
        (folder / name).write_text("\n".join(lines) + "\n")
    return PairsConfig(path=str(folder / "source"), target_path=str(folder / "target"), validation=0.0, **settings)  # type: ignore[arg-type]


def test_two_texts_line_by_line(tmp_path: Path) -> None:
    made = config(tmp_path)
    lines = [(tmp_path / name).read_text().splitlines() for name in ("source", "target")]
    assert made.read(made.path, made.target_path, made.build().problems) == list(zip(*lines, strict=True))
    (tmp_path / "target").write_text("one\n")
    with pytest.raises(DataError, match="400 lines and"):
        made.build()
    with pytest.raises(ConfigError, match=r"needs --data\.target-path"):
        PairsConfig(path="a", validation_target_path="b").build()


def test_every_pair_once_and_about_equally_many_tokens(tmp_path: Path) -> None:
    data = config(tmp_path, number=3000, batch_tokens=2048).build()
    batches = data.train
    assert isinstance(batches, LengthBuckets)
    members = [int(i) for held in batches.members for i in held if i != ABSENT]
    assert sorted(members) == list(range(3000))
    found = real_tokens(batches)
    assert len(found) >= 20
    assert all(0.95 * 2048 <= tokens <= 1.05 * 2048 for tokens in found), (min(found), max(found))
    assert data.info["tokens"] == 2048
    assert widths(30) == [8, 12, 16, 24, 32]


def real_tokens(batches: LengthBuckets) -> list[float]:
    """Of every batch, as it reaches a model: what is not padding, on the mean of both sides."""
    made = [batches.batch(torch.tensor([number]), torch.zeros(1, dtype=torch.int64)) for number in range(len(batches))]
    return [float((batch["source"] != PAD).sum() + (batch["target"] != PAD).sum()) / 2 for batch in made]


def test_the_share_of_padding_is_told(tmp_path: Path) -> None:
    data = config(tmp_path, number=3000, batch_tokens=2048).build()
    assert isinstance(data.train, LengthBuckets)
    places = sum(len(held) * width for held, width in zip(data.train.members, data.train.width, strict=True))
    assert data.info["padding"] == data.train.padding == pytest.approx(1 - sum(real_tokens(data.train)) / places)
    assert 0.0 < data.train.padding < 0.6


def test_batches_of_a_width_have_one_shape(tmp_path: Path) -> None:
    batches = config(tmp_path, number=3000, batch_tokens=2048).build().train
    assert isinstance(batches, LengthBuckets)
    shapes = {(len(held), width) for held, width in zip(batches.members, batches.width, strict=True)}
    assert len(shapes) == len(set(batches.width))


@pytest.mark.parametrize("number", [1, 5, 40])
def test_few_pairs_are_one_batch_or_more(tmp_path: Path, number: int) -> None:
    batches = config(tmp_path, number=number, batch_tokens=512).build().train
    assert isinstance(batches, LengthBuckets)
    assert sorted(int(i) for held in batches.members for i in held if i != ABSENT) == list(range(number))


def test_no_batch_is_wider_than_a_model_has_room_for(tmp_path: Path) -> None:
    data = config(tmp_path, batch_tokens=512, max_length=40).build()  # 42 with the marks, of which the next width would be 48
    assert isinstance(data.train, LengthBuckets)
    assert max(data.train.width) == data.info["context"] == 42


def test_every_row_has_a_key_of_its_own(tmp_path: Path) -> None:
    batches = config(tmp_path, batch_tokens=512).build().train
    both = batches.batch(torch.tensor([0, 5]), torch.tensor([3, 4]))["row_key"]
    each = [batches.batch(torch.tensor([number]), torch.tensor([key]))["row_key"] for number, key in ((0, 3), (5, 4), (5, 3))]
    assert torch.equal(both, torch.cat(each[:2]))  # whatever it is drawn beside
    assert len(set(both.tolist())) == len(both)
    assert not set(each[1].tolist()) & set(each[2].tolist())


def test_a_batch_holds_its_pairs_cut_to_its_width(tmp_path: Path) -> None:
    batches, single = config(tmp_path, batch_tokens=512).build().train, config(tmp_path).build().train
    assert isinstance(batches, LengthBuckets)
    for number in range(len(batches)):
        batch = batches.batch(torch.tensor([number]), torch.zeros(1, dtype=torch.int64))
        assert batch["source"].shape == batch["target"].shape == (len(batches.members[number]), batches.width[number])
        for row, pair in enumerate(batches.members[number].tolist()):
            for side in ("source", "target"):
                length = int(batch[f"{side}_length"][row])
                if pair == ABSENT:
                    assert length == 0 and bool((batch[side][row] == PAD).all())
                else:
                    whole = single.batch(torch.tensor([pair]), torch.zeros(1, dtype=torch.int64))
                    assert torch.equal(batch[side][row, :length], whole[side][0, :length])
                    assert length == int(whole[f"{side}_length"][0])


def test_the_order_is_that_of_any_data_set(tmp_path: Path) -> None:
    batches = config(tmp_path, batch_tokens=512).build().train
    device = torch.device("cpu")
    first, again = DataLoader(batches, 3, device), DataLoader(batches, 3, device)
    again.batch(0, 1)
    assert torch.equal(first.batch(7, 1)["source"], again.batch(7, 1)["source"])
    assert not first.resident or first.device.type == "cpu"
