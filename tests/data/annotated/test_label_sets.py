"""Sets of labels: read from every kind of file, put in one order, told once each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from weft.core.errors import ConfigError
from weft.data.annotated.label_set_pairs import Ascending, LabelSetPairsConfig, LabelSetTokenizer
from weft.data.annotated.label_sets import LabelSetsConfig, canonical, labels_of
from weft.data.tokenizers.base import dump, load
from weft.data.tokenizers.special_tokens import END

ROWS = [("grain prices rise", ["grain", "wheat"]), ("oil", ["crude"]), ("wheat; corn", ["wheat", "grain", "corn"]), ("nothing", [])]


def jsonl(folder: Path) -> str:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps({"body": text, "topics": names}) + "\n" for text, names in ROWS))
    return str(path)


def table(folder: Path) -> str:
    path = folder / "rows.tsv"
    path.write_text("text\tlabels\n" + "".join(f"{text}\t{';'.join(names)}\n" for text, names in ROWS))
    return str(path)


@pytest.mark.parametrize("file", [jsonl, table])
def test_labels_of_a_list_or_a_cell(tmp_path: Path, file: object) -> None:
    path = file(tmp_path)  # type: ignore[operator]
    made = LabelSetsConfig(path=path, validation_path=path, min_examples=1).build()
    assert made.info["class_names"] == ["grain", "wheat", "corn", "crude"]
    label = made.train.batch(torch.arange(4), torch.zeros(4, dtype=torch.int64))["label"]
    assert label.tolist() == [[1, 1, 0, 0], [0, 0, 0, 1], [1, 1, 1, 0], [0, 0, 0, 0]]
    rare = LabelSetsConfig(path=path, validation_path=path).build()
    assert rare.info["class_names"] == ["grain", "wheat"] and "labels that the model does not know" in str(rare.problems.lines())


def test_pairs_have_labels_in_one_order(tmp_path: Path) -> None:
    made = LabelSetPairsConfig(path=jsonl(tmp_path), validation=0.0, min_examples=1).build()
    assert [target for _, target in made.train.texts] == ["grain; wheat", "crude", "wheat; grain; corn"]  # type: ignore[attr-defined]
    tokenizer = load(dump(made.tokenizer))
    assert isinstance(tokenizer, LabelSetTokenizer)
    ids = tokenizer.encode_target("wheat; unheard; corn; grain").tolist()
    assert tokenizer.decode([*ids, END, ids[0]]) == "grain; wheat; corn"
    constraint = tokenizer.constraint([])
    state = constraint.start()
    for number, token in enumerate([*ids, END]):
        assert constraint.allowed(state, 9)[token]
        state = constraint.advance(state, token)
        assert not constraint.allowed(state, 9)[ids[: number + 1]].any()
    assert Ascending(3, 6).allowed(3, 1).nonzero().tolist() == [[END]]


def test_small_things() -> None:
    assert labels_of(" a ; b;;a") == ["a", "b"]
    assert canonical([["b"], ["a", "b"], ["c"]], 1) == ["b", "a", "c"]
    with pytest.raises(ConfigError, match="label-separator"):
        LabelSetsConfig(label_separator="").build()


def test_without_a_file_there_are_mixed_paragraphs() -> None:
    made = LabelSetPairsConfig(mixtures=60, min_examples=1).build()
    sizes = {len(labels_of(names)) for _, names in made.train.texts}  # type: ignore[attr-defined]
    assert len(made.train) == 54 and sizes == {1, 2, 3}
