from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from weft.core.config import from_dict, to_dict
from weft.core.errors import ConfigError, DataError
from weft.data.base import Dataset
from weft.data.text.pairs import PairsConfig
from weft.data.tokenizers import base as tokenizers
from weft.data.tokenizers.special_tokens import END, PAD, START

LINES = [("good morning", "guten Morgen"), ("a", "ein"), ("the end", "Ende"), ("snow", "Schnee")]


def write(path: Path, content: str) -> str:
    path.write_text(content, encoding="utf-8")
    return str(path)


def everything(dataset: Dataset | None) -> dict[str, torch.Tensor]:
    assert dataset is not None
    index = torch.arange(len(dataset))
    return dataset.batch(index, index)


@pytest.mark.parametrize("unit", ["characters", "bytes", "words"])
def test_pairs_come_back_from_their_tokens(tmp_path: Path, unit: str) -> None:
    path = write(tmp_path / "a.tsv", "".join(f"{a}\t{b}\n" for a, b in LINES))
    data = PairsConfig(path=path, tokenizer=unit, validation=0.0).build()  # type: ignore[arg-type]
    batch = everything(data.train)
    tokenizer = tokenizers.load(tokenizers.dump(data.tokenizer))
    assert data.info["vocabulary"] == tokenizer.size > int(batch["target"].max())
    for row, pair in enumerate(LINES):
        for name, text in zip(("source", "target"), pair, strict=True):
            ids, length = batch[name][row].tolist(), int(batch[f"{name}_length"][row])
            assert tokenizer.decode(ids) == text
            assert ids[length - 1] == END
            assert ids[length:] == [PAD] * (len(ids) - length)
            assert PAD not in ids[:length]
        assert batch["target"][row, 0] == START


def test_json_by_name(tmp_path: Path) -> None:
    lines = [json.dumps({"id": i, "prompt": a, "completion": b}) for i, (a, b) in enumerate(LINES)]
    config = PairsConfig(path=write(tmp_path / "a.jsonl", "\n".join(lines)), source="prompt", target="completion", validation=0.25)
    data = config.build()
    assert (data.info["training_examples"], data.info["validation_examples"]) == (3, 1)
    assert from_dict(to_dict(config), PairsConfig) == config
    with pytest.raises(ConfigError, match=r"--data\.source: .*'promt'.*did you mean 'prompt'"):
        PairsConfig(path=config.path, source="promt").build()


def test_unusable_pairs_are_counted_and_long_ones_cut(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", f"source\ttarget\nx\t\n\ty\nab\tcd\none\nlong\t{'z' * 50}\n")
    data = PairsConfig(path=path, validation=0.0, max_length=10).build()
    assert data.info["training_examples"] == 2
    assert everything(data.train)["target"].shape == (2, 12)
    assert data.problems.lines() == [
        f"1 × rows that do not have 2 cells, left out: {path}:5 (1)",
        f"2 × pairs with an empty side, left out: {path}:2, {path}:3",
        "1 × texts truncated to 10 tokens: target",
    ]


def test_other_pairs_in_the_tokens_of_a_model(tmp_path: Path) -> None:
    first = PairsConfig(path=write(tmp_path / "a.tsv", "ab\tcd\nba\tdc\n")).build()
    again = PairsConfig(path=write(tmp_path / "b.tsv", "aab\tddc\n"), validation=0.0).build_with(first.tokenizer)
    assert again.tokenizer is first.tokenizer
    assert everything(again.train)["source_length"].tolist() == [4]


@pytest.mark.parametrize(("content", "said"), [("", "is empty"), ("alone\n", "one column only"), ("a\t\n\tb\n", "holds no pair")])
def test_nothing_usable_is_one_sentence(tmp_path: Path, content: str, said: str) -> None:
    with pytest.raises(DataError, match=said):
        PairsConfig(path=write(tmp_path / "a.tsv", content)).build()


@pytest.mark.parametrize("wrong", [{"max_length": 0}, {"vocabulary": -1}, {"validation": 2.0}])
def test_settings_that_make_no_sense(tmp_path: Path, wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=f"--data.{next(iter(wrong))}"):
        PairsConfig(path=write(tmp_path / "a.tsv", "a\tb\n"), **wrong).build()  # type: ignore[arg-type]
