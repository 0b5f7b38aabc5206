"""What sources of annotated texts share: the same settings, and one way to hold examples out."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from weft.core import registry
from weft.core.errors import ConfigError
from weft.data.annotated.base import AnnotatedConfig
from weft.data.base import Data, Problems, TensorDataset
from weft.data.tokenizers.base import Tokenizer
from weft.data.tokenizers.encoder_tokens import MIN_CONTEXT

SOURCES = ("labelled_texts", "choices", "tagged", "spans", "gpt_finetuning_texts", "gpt_finetuning_choices")


@dataclass(frozen=True, kw_only=True)
class Lines(AnnotatedConfig):
    """Lines of a file, each of the class that its first letter names."""

    def read(self, path: str, problems: Problems) -> list[str]:
        return Path(path).read_text().split()

    def classes_of(self, examples: list[str]) -> np.ndarray:
        return np.array([ord(line[0]) for line in examples])

    def prepare(self, train: list[str], held: list[str], known: Tokenizer | None, problems: Problems) -> Data:
        first, second = (TensorDataset({"line": torch.zeros(size)}) for size in (len(train), 0))
        return self.finish(first, second, Tokenizer(), problems, {"lines": train, "held": held})


def test_every_source_has_the_same_settings() -> None:
    common = {field.name for field in dataclasses.fields(AnnotatedConfig)}
    assert common == {"path", "validation_path", "validation", "tokenizer", "vocabulary", "context", "encoding"}
    for name in SOURCES:
        made = registry.find("data", name)()
        assert isinstance(made, AnnotatedConfig)
        assert (made.path, made.validation_path, made.validation, made.vocabulary) == ("", "", 0.1, 0)
        assert made.tokenizer == ("byte_bpe" if name.startswith("gpt_finetuning") else "wordpiece")
        assert made.context == (256 if name == "spans" else 128)


def test_a_share_is_held_out_but_no_whole_class(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text(" ".join(f"a{i}" for i in range(20)) + " b0")
    data = Lines(path=str(path), validation=0.3).build()
    lines, held = data.info["lines"], data.info["held"]
    assert sorted(lines + held) == sorted(path.read_text().split())
    assert 5 <= len(held) <= 6
    assert "b0" in lines
    assert data.validation is None, "nothing was made of what is held"
    (tmp_path / "other").write_text("c0 c1")
    other = Lines(path=str(path), validation_path=str(tmp_path / "other")).build()
    assert (len(other.info["lines"]), other.info["held"]) == (21, ["c0", "c1"])


@pytest.mark.parametrize("wrong", [{"validation": 1.0}, {"context": MIN_CONTEXT - 1}, {"vocabulary": -1}])
def test_settings_are_checked_before_anything_is_read(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=f"--data.{next(iter(wrong))}"):
        Lines(path="no such file", **wrong).build()  # type: ignore[arg-type]
