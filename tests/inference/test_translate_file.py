"""A text answered line by line: whole lines, continued where it stopped, and never mixed from two models."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from weft.core.errors import ConfigError
from weft.inference import translate_file
from weft.inference.translate_file import answer_lines, fingerprint

TEXT = ["one", "two", "", "three", " ", "four", "five"]


class Shouts:
    """Says what it is asked in capitals, and stops when it is tired."""

    def __init__(self, patience: int = 100):
        self.asked: list[str] = []
        self.patience = patience

    def __call__(self, texts: Sequence[str]) -> list[str]:
        if len(self.asked) >= self.patience:
            raise KeyboardInterrupt
        self.asked += texts
        return [text.upper() + "\n!" for text in texts]


@pytest.fixture(autouse=True)
def two_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translate_file, "CHUNK", 2)


WANTED = "ONE !\nTWO !\n\nTHREE !\n\nFOUR !\nFIVE !\n"


def test_a_line_for_each_line(tmp_path: Path) -> None:
    told: list[int] = []
    answer_lines(Shouts(), TEXT, tmp_path / "out.txt", {"model": 1}, told.append)
    assert (tmp_path / "out.txt").read_text() == WANTED
    assert told == [0, 2, 4, 6, 7]
    answer_lines(Shouts(), TEXT, tmp_path / "out.gz", {"model": 1})
    assert gzip.decompress((tmp_path / "out.gz").read_bytes()).decode() == WANTED
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.gz", "out.txt"]


def test_an_interrupted_text_is_continued(tmp_path: Path) -> None:
    target, part = tmp_path / "out.txt", tmp_path / "out.txt.part"
    with pytest.raises(KeyboardInterrupt):
        answer_lines(Shouts(patience=3), TEXT, target, {"model": 1})
    assert not target.exists()
    part.write_bytes(part.read_bytes() + b"half of a li")  # as a kill would leave it
    rest = Shouts()
    answer_lines(rest, TEXT, target, {"model": 1})
    assert rest.asked == ["four", "five"]
    assert target.read_text() == WANTED
    assert not part.exists()


@pytest.mark.parametrize("other", ["model", "input"])
def test_what_another_model_began_is_not_continued(tmp_path: Path, other: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        answer_lines(Shouts(patience=1), TEXT, tmp_path / "out.txt", {"model": 1})
    text, about = (TEXT, {"model": 2}) if other == "model" else ([*TEXT, "six"], {"model": 1})
    with pytest.raises(ConfigError, match="was begun with another model, input or settings"):
        answer_lines(Shouts(), text, tmp_path / "out.txt", about)


def test_a_fingerprint_is_of_the_weights() -> None:
    first, second = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    assert fingerprint(first) != fingerprint(second)
    second.load_state_dict(first.state_dict())
    assert fingerprint(first) == fingerprint(second.to(torch.float32))
    assert fingerprint(first) != fingerprint(second.to(torch.bfloat16))
