"""Word vectors as the first rows of a token embedding, of any model of words; frozen rows stay as they are to the bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import weft
from tests.contracts.tiny import tags, text_file, tiny
from weft.convert.convert import convert
from weft.core.errors import CapabilityError, ConfigError, WeftError
from weft.runs.assemble import assemble
from weft.runs.load import load

SHORT = {"train.steps": 4, "train.batch": 4, "train.eval_every": 0, "train.device": "cpu", "train.compile": "off"}


def vectors(folder: Path, width: int) -> str:
    """Vectors of three words that the texts have, and of one that they have not."""
    rows = [
        f"{word} {' '.join(str(place + column / 8) for column in range(width))}\n"
        for place, word in enumerate(("The", "dog", "moon", "zebra"))
    ]
    (folder / "v.txt").write_text("".join(rows).replace("The", "the"))
    convert(str(folder / "v.txt"), folder / "vectors")
    return str(folder / "vectors")


def sentences(folder: Path, **changes: Any) -> Any:
    sizes = {"data.tokenizer": "words", "data.context": 8, "model.layers": 1, "model.heads": 2, "model.width": 16}
    changed = {name.replace("__", ".", 1): value for name, value in changes.items()}
    return weft.recipe("gpt/text", {"data.path": str(text_file(folder)), **sizes, **SHORT, **changed})


@pytest.mark.parametrize("freeze", [False, True])
def test_rows_begin_with_the_vectors_of_their_words(freeze: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = vectors(tmp_path, 16)
    made = sentences(tmp_path, train__embedding=run, train__freeze_embedding=freeze)
    built = assemble(made, tmp_path / "run")
    words, table = built.data.tokenizer.words, built.trainer.model.embed.weight
    rows = [words.index(word) for word in ("the", "dog", "moon")]
    wanted = load(run, "cpu").model.centre.weight[1:4]
    assert table[rows].tolist() == wanted.tolist()
    assert f"embedding: 3 of {len(words)} tokens begin with the vectors of {run}" in caplog.text
    before = table.detach().clone()
    built.trainer.fit()
    changed = (table.detach() != before).any(1)
    assert changed[rows].any() != freeze
    assert changed[words.index(".")]
    frozen = (before[rows] == table.detach()[rows]).all()
    assert bool(frozen) == freeze


def test_a_tagger_of_words_takes_them(tmp_path: Path) -> None:
    changes = {name: value for name, value in tags(tmp_path).items() if name != "data.path"}
    made = tiny("bert/tags", tmp_path, {**changes, **SHORT, "train.embedding": vectors(tmp_path, 32)})
    built = assemble(made, tmp_path / "run")
    row = built.data.tokenizer.tokens.words.index("moon")
    torch.testing.assert_close(built.trainer.model.embed.weight[row], load(tmp_path / "vectors", "cpu").model.centre.weight[3])


@pytest.mark.parametrize(
    ("width", "changes", "message"),
    [
        (12, {}, "its vectors have 12 dimensions, and the model's embedding 16; make them equal"),
        (16, {"data__tokenizer": "bytes"}, "none of the model's 256 tokens is one of its 4 words"),
    ],
)
def test_what_does_not_fit_is_refused(width: int, changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    made = sentences(tmp_path, train__embedding=vectors(tmp_path, width), **changes)
    with pytest.raises(ConfigError, match=message):
        assemble(made, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_models_without_an_embedding_and_settings_without_vectors(tmp_path: Path) -> None:
    run = vectors(tmp_path, 16)
    with pytest.raises(CapabilityError, match="MLP has no embedding of tokens"):
        assemble(weft.recipe("classifier/digits", {**SHORT, "train.embedding": run}), tmp_path / "run")
    with pytest.raises(WeftError, match=r"--train.freeze_embedding needs --train.embedding"):
        assemble(sentences(tmp_path, train__freeze_embedding=True), tmp_path / "run")
