from __future__ import annotations

import gzip
import json
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings

from tests.data.test_fuzz import JSON_LINES, TABLES, use
from weft.core.config import from_dict, to_dict
from weft.core.errors import ConfigError, DataError
from weft.data.annotated.label_tokens import LabelledTokenizer
from weft.data.annotated.labelled_texts import LabelledTextsConfig
from weft.data.base import Batch, Dataset
from weft.data.text.sentence_pairs import BERTWordTokenizer
from weft.data.tokenizers import base as tokenizers
from weft.data.tokenizers.base import WordTokenizer


def write(path: Path, content: str | bytes) -> str:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def config(path: str, **settings: object) -> LabelledTextsConfig:
    return LabelledTextsConfig(path=path, **{"tokenizer": "bert_words", "validation": 0.0, "context": 16, **settings})  # type: ignore[arg-type]


def everything(dataset: Dataset | None) -> Batch:
    assert dataset is not None
    return dataset.batch(torch.arange(len(dataset)), torch.arange(len(dataset)))


def shown(tokenizer: LabelledTokenizer, batch: Batch) -> list[str]:
    return [tokenizer.decode(row[:length].tolist()) for row, length in zip(batch["ids"], batch["lengths"].tolist(), strict=True)]


def reviews(number: int = 40) -> str:
    return "".join(f"a {('fine', 'poor')[i % 2]} film number {i}\t{('pos', 'neg')[i % 2]}\n" for i in range(number))


def test_texts_and_their_classes(tmp_path: Path) -> None:
    data = config(write(tmp_path / "a.tsv", reviews()), validation=0.1).build()
    assert (data.info["classes"], data.info["class_names"], data.info["context"]) == (2, ["neg", "pos"], 16)
    assert (data.info["training_examples"], data.info["validation_examples"]) == (36, 4)
    assert data.info["vocabulary"] == data.tokenizer.size == 5 + 5 + 36, "words of the training rows alone, after the marks"
    batch = everything(data.train)
    assert batch["ids"].shape == (36, 7)
    assert data.info["tokens"] == 7
    assert batch["label"].dtype == torch.int64
    for text, label in zip(shown(data.tokenizer, batch), batch["label"].tolist(), strict=True):
        assert ("poor", "fine")[label] in text
    assert not data.problems.counts


GLUE = {
    "CoLA": ("gj04\t1\t\tthe cat sat\ngj04\t0\t*\tcat the sat\n", {"header": "no", "text": "4", "label": "2"}, ["the cat sat"], 1),
    "SST-2": ("sentence\tlabel\nso good \t1\nso bad \t0\n", {}, ["so good"], 1),
    "MRPC": (
        '\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\t"so he\tsaid "so\n0\t7\t8\tone\ttwo\n',
        {"text": "#1 String", "second": "#2 String", "label": "Quality"},
        ['" so he', 'said " so'],
        1,
    ),
    "RTE": ("index\tsentence1\tsentence2\tlabel\n0\tit rains\tis wet\tno\n1\tb\tc\tyes\n", {}, ["it rains", "is wet"], 0),
    "QNLI": ("index\tquestion\tsentence\tlabel\n0\twho\tme\tno\n1\tb\tc\tyes\n", {}, ["who", "me"], 0),
    "QQP": ("id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n0\t1\t2\twho\tme\t0\n1\t2\t3\tb\tc\t1\n", {}, ["who", "me"], 0),
    "MNLI": ("index\tpairID\tsentence1\tsentence2\tlabel1\tgold_label\n0\tx\twho\tme\ta\tb\n1\tx\tb\tc\tb\ta\n", {}, ["who", "me"], 1),
    "nameless": ("it rains\tis wet\tno\nb\tc\tyes\n", {}, ["it rains", "is wet"], 0),
    "own names": ("id,review,mood\n1,it rains,up\n2,sun,down\n", {}, ["it rains"], 1),
    "json": (
        '{"second": "is wet", "label": true, "text": "it rains"}\n{"text": "b", "second": "c", "label": false}',
        {},
        ["it rains", "is wet"],
        1,
    ),
}


@pytest.mark.parametrize("task", GLUE)
def test_files_as_they_are_published(tmp_path: Path, task: str) -> None:
    content, flags, texts, label = GLUE[task]
    name = {"own names": "a.csv", "json": "a.jsonl", "MRPC": "a.txt.gz"}.get(task, "a.tsv")
    data = config(write(tmp_path / name, gzip.compress(content.encode()) if name.endswith("gz") else content), **flags).build()
    batch = everything(data.train)
    assert shown(data.tokenizer, batch)[0] == f"[CLS] {' [SEP] '.join(texts)} [SEP]"
    assert batch["label"].tolist() == [label, 1 - label]
    assert not data.problems.counts


def test_numbers_are_counted_in_deviations_and_come_back(tmp_path: Path) -> None:
    rows = "".join(f"text {i}\tother {i}\t{1000 + 10 * i}\n" for i in range(20))
    data = config(write(tmp_path / "a.tsv", rows + "text\tother\tmany\n"), number=True).build()
    label = everything(data.train)["label"]
    assert label.dtype == torch.float32
    assert (data.info["classes"], data.info["training_examples"]) == (1, 20)
    assert float(label.mean()) == pytest.approx(0, abs=1e-6)
    assert float(label.std(unbiased=False)) == pytest.approx(1, abs=1e-6)
    known = data.tokenizer
    torch.testing.assert_close(label * known.deviation + known.mean, torch.arange(1000, 1200, 10).float())
    assert data.info["scale"] == pytest.approx(np.arange(0, 200, 10).std())
    assert data.problems.lines() == [f"1 × rows whose label is not a number, left out: {tmp_path / 'a.tsv'}:21 ('many')"]
    assert "class_names" not in data.info


def test_classes_and_tokens_survive_a_checkpoint(tmp_path: Path) -> None:
    first = config(write(tmp_path / "a.tsv", reviews())).build()
    saved = tokenizers.load(tokenizers.dump(first.tokenizer))
    assert isinstance(saved, LabelledTokenizer)
    assert (saved.classes, saved.to_json()) == (["neg", "pos"], first.tokenizer.to_json())
    other = config(write(tmp_path / "b.tsv", "a fine film\tpos\nnothing\tpos\nwhat\tzebra\n")).build_with(saved)
    assert everything(other.train)["label"].tolist() == [1, 1]
    assert other.info["class_names"] == ["neg", "pos"]
    assert shown(saved, everything(other.train)) == ["[CLS] a fine film [SEP]", "[CLS] [UNK] [SEP]"]
    assert f"{tmp_path / 'b.tsv'}:3 ('zebra')" in other.problems.lines()[0]
    numbers = config(write(tmp_path / "c.tsv", "one\t1\ntwo\t2\n"), number=True).build()
    assert tokenizers.load(tokenizers.dump(numbers.tokenizer)).to_json() == numbers.tokenizer.to_json()


def test_a_model_of_another_task_gives_its_tokens_alone(tmp_path: Path) -> None:
    tokens = BERTWordTokenizer.train(reviews(), 12)
    path = write(tmp_path / "a.tsv", reviews())
    plain = config(path).build_with(tokens)
    assert (plain.info["vocabulary"], plain.info["class_names"]) == (12, ["neg", "pos"])
    scored = LabelledTokenizer(tokens, [], mean=3.0)
    assert config(path).build_with(scored).info["class_names"] == ["neg", "pos"]
    others = LabelledTokenizer(tokens, ["yes", "no"])
    with pytest.raises(DataError, match=r"no row of a class that the model knows \(yes, no\).*--data\.class-names"):
        config(path).build_with(others)
    renamed = config(path, class_names=("pos", "neg")).build_with(others)
    assert renamed.info["class_names"] == ["pos", "neg"]
    assert renamed.info["vocabulary"] == 12
    with pytest.raises(DataError, match="'words' has no special token for cls"):
        config(path).build_with(WordTokenizer(["<unk>"]))


def test_a_file_of_its_own_to_validate_on(tmp_path: Path) -> None:
    held = write(tmp_path / "b.tsv", "good\tpos\nstrange\tzebra\n")
    data = config(write(tmp_path / "a.tsv", reviews()), validation_path=held).build()
    assert (data.info["training_examples"], data.info["validation_examples"]) == (40, 1)
    assert "b.tsv:2 ('zebra')" in data.problems.lines()[0]


def test_every_unusable_row_is_counted_and_named(tmp_path: Path) -> None:
    content = b"sentence1\tsentence2\tlabel\ngood\tthing\tx\nragged\n\n\tempty\tx\nno label\there\t \nbad\tthing\ty\r\nfin\xe9\tb\tx\n"
    path = write(tmp_path / "a.tsv", content)
    data = config(path, encoding="utf-8").build()
    assert data.info["training_examples"] == 3
    assert data.problems.lines() == [
        f"1 × bytes that are not UTF-8, replaced by U+FFFD: {path}:8 (byte {content.index(0xE9)})",
        f"1 × empty rows, left out: {path}:4",
        f"1 × rows that do not have 3 cells, left out: {path}:3 (1)",
        f"1 × rows without a text, left out: {path}:5",
        f"1 × rows without a label, left out: {path}:6",
    ]


@pytest.mark.parametrize(
    ("content", "flags", "said"),
    [
        ("", {}, "is empty"),
        ("one\ntwo\n", {}, r"which of its columns \(1\) is the text"),
        ("a\tb\tc\td\n", {}, r"which of its columns \(1, 2, 3, 4\) is the text.*--data\.text"),
        ("text\tlabel\n", {}, "no row has all of 'text', 'label'"),
        ("text\tlabel\nhello\t\n", {}, "no row has all of"),
        ("text\tlabel\nhello\tred\n", {"number": True}, "labels, such as red, are not numbers; .* bert/classify"),
        ("".join(f"{i}\t{i * 0.37}\n" for i in range(50)), {}, r"50 different values in 50 rows.*--data\.number"),
        ("text\tlabel\na\tx\n", {"class_names": ("y",)}, "no row of a class that the model knows"),
    ],
)
def test_nothing_usable_is_one_sentence(tmp_path: Path, content: str, flags: dict[str, object], said: str) -> None:
    with pytest.raises(DataError, match=said) as caught:
        config(write(tmp_path / "a.tsv", content), **flags).build()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"text": "nope"}, r"--data\.text: .*no column 'nope'"),
        ({"label": "lable"}, r"--data\.label: .*no column 'lable'; did you mean 'label'"),
        ({"text": "label"}, "'label' is the label"),
        ({"second": "label"}, r"--data\.second needs --data\.text"),
        ({"context": 3}, r"--data\.context must be at least"),
        ({"validation": 1.5}, r"--data\.validation must be"),
        ({"vocabulary": -1}, r"--data\.vocabulary"),
    ],
)
def test_settings_that_cannot_work(tmp_path: Path, flags: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        config(write(tmp_path / "a.tsv", "text\tlabel\na\tx\nb\ty\n"), **flags).build()


def test_settings_as_json_and_pieces_of_words(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    made = config(write(tmp_path / "a.tsv", reviews()), tokenizer="wordpiece", vocabulary=120, class_names=("neg", "pos"))
    assert from_dict(json.loads(json.dumps(to_dict(made))), LabelledTextsConfig) == made
    data = made.build()
    assert data.info["vocabulary"] <= 120
    assert shown(data.tokenizer, everything(data.train))[0].startswith("[CLS] a fine film number 0 [SEP]")
    saved = tokenizers.load(tokenizers.dump(data.tokenizer))
    assert torch.equal(everything(made.build_with(saved).train)["ids"], everything(data.train)["ids"])


@pytest.mark.parametrize(("name", "number"), [("a.tsv", False), ("a.csv", True), ("a.jsonl", False)])
def test_any_bytes_work_or_are_one_sentence(tmp_path: Path, name: str, number: bool) -> None:
    @settings(max_examples=40)
    @given(st.one_of(JSON_LINES if name == "a.jsonl" else TABLES, st.binary(max_size=300)))
    def check(content: bytes) -> None:
        use(config(write(tmp_path / name, content), number=number, validation=0.2))

    check()


@pytest.mark.gpu
def test_on_a_gpu(tmp_path: Path) -> None:
    train = config(write(tmp_path / "a.tsv", reviews())).build().train
    index = torch.arange(len(train), device="cuda")
    there = train.to(torch.device("cuda")).batch(index, index)
    assert all(torch.equal(there[name].cpu(), part) for name, part in everything(train).items())
