"""Pieces cut out of a text: the paper's example, and what can be put back together."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from weft.core import random
from weft.core.errors import ConfigError, DataError
from weft.data.text.sentinels import Sentinels, SentinelTokenizer, T5SpanCorruptionConfig, corrupt_spans, random_partition
from weft.data.tokenizers import base as tokenizers
from weft.data.tokenizers.base import ByteTokenizer, WordTokenizer
from weft.data.tokenizers.special_tokens import END, NUM_SPECIAL, START


def test_the_papers_example() -> None:
    words = ["<unk>", "Thank", "you", "for", "inviting", "me", "to", "your", "party", "last", "week"]
    tokenizer = SentinelTokenizer(WordTokenizer(words), 5)
    ids = torch.from_numpy(tokenizer.encode("Thank you for inviting me to your party last week"))[None]
    source, target = corrupt_spans(ids, torch.tensor([[2, 1]]), torch.tensor([[2, 4]]), 3, tokenizer.size)
    assert tokenizer.decode(source[0].tolist()) == "Thank you<X0>me to your party<X1>week"
    assert tokenizer.decode(target[0].tolist()) == "<X0>for inviting<X1>last"
    assert source[0, -1] == target[0, -1] == END and target[0, 0] == START


@pytest.mark.parametrize(("total", "parts"), [(1, 1), (5, 5), (19, 6), (109, 6), (2, 1)])
def test_a_division_has_positive_parts_and_every_way_is_as_likely(total: int, parts: int) -> None:
    found = random_partition(random.keys(0, torch.arange(4000)), total, parts)
    assert found.shape == (4000, parts)
    assert bool((found >= 1).all()) and bool((found.sum(1) == total).all())
    assert (found.double().mean(0) - total / parts).abs().max() < 0.1 * total / parts


def put_together(source: list[int], target: list[int], vocabulary: int, pieces: int) -> list[int]:
    """The window, from a source and its target."""
    first = vocabulary - pieces
    cut: dict[int, list[int]] = {}
    for token in target[1:-1]:
        if token >= first:
            held = cut.setdefault(token, [])
        else:
            held.append(token)
    return [part for token in source[:-1] for part in (cut[token] if token >= first else [token])]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"context": 2},
        {"context": 17, "corruption_rate": 0.5, "mean_span_length": 1.0},
        {"context": 64, "corruption_rate": 0.9, "mean_span_length": 2.0},
    ],
)
def test_nothing_is_lost(tmp_path: Path, settings: dict[str, float]) -> None:
    (tmp_path / "a.txt").write_text("The quick brown fox. " * 60)
    config = T5SpanCorruptionConfig(path=str(tmp_path / "a.txt"), tokenizer="bytes", validation=0.2, **settings)  # type: ignore[arg-type]
    data = config.build()
    assert isinstance(data.train, Sentinels)
    index = torch.arange(50)
    batch = data.train.batch(index, random.keys(1, index))
    for row in range(50):
        source, target = batch["source"][row].tolist(), batch["target"][row].tolist()
        assert put_together(source, target, data.info["vocabulary"], 100) == data.train.tokens[row : row + config.context].tolist()
        assert source[-1] == target[-1] == END and target[0] == START
        sentinels = [token for token in source if token >= data.info["vocabulary"] - 100]
        assert sentinels == [data.info["vocabulary"] - 1 - i for i in range(config.pieces)]
    assert config.cut == min(max(round(config.context * config.corruption_rate), 1), config.context - 1)
    other = data.train.batch(index, random.keys(2, index))["source"]
    assert config.context == 2 or not torch.equal(batch["source"], other)


def test_nothing_is_read_by_the_host() -> None:
    meta = torch.device("meta")
    made = Sentinels(torch.zeros(500, dtype=torch.int64), T5SpanCorruptionConfig(), 300, True).to(meta)
    index = torch.zeros(4, dtype=torch.int64, device=meta)
    assert made.batch(index, index)["source"].shape == (4, 128 - 19 + 6 + 1)


def test_the_tokenizer_survives_a_checkpoint_and_serves_pairs() -> None:
    made = SentinelTokenizer(ByteTokenizer(), 7)
    again = tokenizers.load(tokenizers.dump(made))
    assert isinstance(again, SentinelTokenizer) and again.size == made.size == 256 + NUM_SPECIAL + 7
    assert again.decode(made.encode("grüß").tolist()) == "grüß"


def test_settings_that_make_no_sense(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("too short")
    with pytest.raises(DataError, match="fewer than 128 tokens"):
        T5SpanCorruptionConfig(path=str(tmp_path / "a.txt"), tokenizer="bytes").build()
    for wrong in ({"context": 1}, {"corruption_rate": 0.0}, {"corruption_rate": 1.0}, {"mean_span_length": 0.5}):
        with pytest.raises(ConfigError, match=r"--data\.context must be"):
            T5SpanCorruptionConfig(path=str(tmp_path / "a.txt"), **wrong).build()  # type: ignore[arg-type]
