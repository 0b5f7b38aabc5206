"""Models with an encoder and a decoder answer alike here and in transformers, which needs the same tokens, starts and ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import weft
from weft.benchmarks.references import CASES, reference
from weft.convert.convert import convert
from weft.core.errors import CheckpointError
from weft.data.text.sentinels import SentinelTokenizer
from weft.data.tokenizers.foreign import foreign_files, read_foreign
from weft.data.tokenizers.subwords import BPE, ByteBPE, Subwords, Unigram
from weft.inference.beam_models import translate
from weft.inference.translate import start_and_end

transformers = pytest.importorskip("transformers")
MOST = 30
TEXTS = ["one two three", "two", "three three one two one"]
SIZES = {"model.layers": 1, "model.heads": 2, "model.width": 16, "model.ffn_width": 32}
MARIAN = {"model.norm": "post", "model.interleaved_positions": False, "model.output_bias": True}
OURS = {"t5/pairs": {"model.head_dim": 8}, "transformer/pairs": MARIAN}


def theirs(folder: Path) -> list[list[int]]:
    """The tokens of greedy answers, without the start, and without the last one that there is room for, which Marian makes an end."""
    kind = json.loads((folder / "config.json").read_text())["architectures"][0]
    model = getattr(transformers, kind).from_pretrained(folder).eval()
    tokens = transformers.AutoTokenizer.from_pretrained(folder)
    asked = [tokens([text], return_tensors="pt")["input_ids"] for text in TEXTS]
    return [model.generate(input_ids=ids, max_new_tokens=MOST, do_sample=False, num_beams=1)[0, 1:MOST].tolist() for ids in asked]


def ours(run: Path) -> list[list[int]]:
    found, loaded = [], weft.load(run, "cpu")
    start, end = start_and_end(loaded.tokenizer)
    for text in TEXTS:
        source = torch.tensor([[*loaded.tokenizer.encode(text).tolist(), end]])
        found.append(
            translate(loaded.model, source, torch.tensor([source.size(1)]), start, end, beams=1, longest=MOST)[0][0].ids[: MOST - 1]
        )
    return found


@pytest.mark.parametrize("name", OURS)
def test_a_run_of_ours_answers_alike_in_transformers(name: str, tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("".join(f"{text}\t{text[::-1]}\n" for text in TEXTS * 4))
    changes = {
        "data.path": str(tmp_path / "pairs.tsv"),
        "data.tokenizer": "byte_bpe",
        "train.steps": 40,
        "optim.lr": 0.01,
        "data.max_length": 30,
    }
    weft.train(weft.recipe(name, {**changes, **SIZES, **OURS[name]}), out=tmp_path / "run")
    done = convert(str(tmp_path / "run"), tmp_path / "theirs")
    assert done.tokenizer
    convert(str(tmp_path / "theirs"), tmp_path / "again")
    said = theirs(tmp_path / "theirs")
    assert name != "t5/pairs" or any(len(row) < MOST for row in said), "one ends before there is no more room"
    assert ours(tmp_path / "run") == ours(tmp_path / "again") == said


def foreign(folder: Path, family: str, **changes: Any) -> Path:
    reference(family, {**next(iter(CASES[family].values())), "vocab_size": 300}).save_pretrained(folder)
    engine = Unigram.train(" ".join(TEXTS * 9), 300, special_tokens=["padding", "end"])
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))
    for name, data in foreign_files(engine).items():
        (folder / name).write_bytes(data)
    return folder


def test_the_marks_are_those_that_the_folder_names(tmp_path: Path) -> None:
    folder = foreign(tmp_path / "theirs", "t5", decoder_start_token_id=1, eos_token_id=[0])
    convert(str(folder), tmp_path / "ours")
    found = weft.load(tmp_path / "ours", "cpu").tokenizer
    assert (found.start, found.end) == (1, 0)
    convert(str(tmp_path / "ours"), tmp_path / "back")
    told = json.loads((tmp_path / "back" / "config.json").read_text())
    assert (told["decoder_start_token_id"], told["eos_token_id"], told["pad_token_id"]) == (1, 0, 0)
    with pytest.raises(CheckpointError, match="eos_token_id is 99999, which is no token"):
        convert(str(foreign(tmp_path / "wrong", "t5", eos_token_id=99999)), tmp_path / "no")


@pytest.mark.parametrize("kind", [ByteBPE, BPE, Unigram])
def test_sentinels_and_marks_keep_their_ids(kind: type[Subwords], tmp_path: Path) -> None:
    tokenizer = SentinelTokenizer(kind.train(" ".join(TEXTS * 9), 300), 3)
    for name, data in foreign_files(tokenizer).items():
        (tmp_path / name).write_bytes(data)
    their = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert their(TEXTS[0])["input_ids"] == [*tokenizer.encode(TEXTS[0]).tolist(), 2]
    assert their.convert_tokens_to_ids(["<pad>", "<s>", "</s>", "<X2>", "<X0>"]) == [0, 1, 2, tokenizer.size - 3, tokenizer.size - 1]
    again = read_foreign(tmp_path)
    assert again is not None
    assert again.encode("one <s> 你好").tolist() == tokenizer.encode("one <s> 你好").tolist()
    assert again.size == tokenizer.size
