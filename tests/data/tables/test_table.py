from __future__ import annotations

import gzip
import json
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from weft.core.config import from_dict, to_dict
from weft.core.errors import ConfigError, DataError
from weft.data.base import Data, DataLoader, Dataset, Problems
from weft.data.io import records
from weft.data.io.records import Records, read_records
from weft.data.tables.table import TableConfig
from weft.data.tokenizers import base as tokenizers


def write(path: Path, content: str | bytes) -> str:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def rows_of(path: Path, content: str | bytes, problems: Problems | None = None) -> Records:
    return read_records(write(path, content), problems or Problems())


def everything(dataset: Dataset | None) -> dict[str, torch.Tensor]:
    assert dataset is not None
    index = torch.arange(len(dataset))
    return dataset.batch(index, index)


def reviews(number: int = 60) -> str:
    words = ("good fine", "bad awful")
    return "".join(f"a {words[i % 2]} film number {i}\t{('pos', 'neg')[i % 2]}\n" for i in range(number))


def test_text_and_label(tmp_path: Path) -> None:
    data = TableConfig(path=write(tmp_path / "pairs.tsv", reviews())).build()
    assert data.info["class_names"] == ["neg", "pos"]
    assert (data.info["features"], data.info["classes"], data.info["columns"]) == (4096, 2, {"1": "text"})
    assert (data.info["training_examples"], data.info["validation_examples"]) == (54, 6)
    batch = DataLoader(data.train, 0, torch.device("cpu")).batch(0, 8)
    assert batch["x"].shape == (8, 4096)
    used = (batch["x"] > 0).sum(1)
    assert torch.allclose((batch["x"] ** 2).sum(1), used.float(), rtol=1e-5)
    assert not data.problems.counts


def test_the_words_of_a_class_are_what_its_rows_share(tmp_path: Path) -> None:
    batch = everything(TableConfig(path=write(tmp_path / "pairs.tsv", reviews()), validation=0.0).build().train)
    centres = torch.stack([batch["x"][batch["label"] == label].mean(0) for label in (0, 1)])
    guess = (batch["x"] @ (centres[1] - centres[0])) > 0
    assert (guess.long() == batch["label"]).float().mean() > 0.95


def test_a_table_of_numbers_is_standardised_by_its_training_rows(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    numbers = random.normal([10, -3, 1e6], [2, 0.1, 1e5], (200, 3))
    lines = [f"{a},{b},{c},{'xy'[i % 2]}" for i, (a, b, c) in enumerate(numbers)]
    data = TableConfig(path=write(tmp_path / "t.csv", "width,height,cost,kind\n" + "\n".join(lines))).build()
    assert data.info["columns"] == {"width": "number", "height": "number", "cost": "number"}
    x = everything(data.train)["x"]
    assert x.shape == (180, 3)
    assert torch.allclose(x.mean(0), torch.zeros(3), atol=1e-5)
    assert torch.allclose(x.std(0, unbiased=False), torch.ones(3), atol=1e-4)
    assert abs(float(everything(data.validation)["x"].mean())) > 1e-4


def test_numbers_and_text_together_from_json(tmp_path: Path) -> None:
    rows = [{"age": i, "note": f"word{i % 2}", "label": bool(i % 2), "gone": None} for i in range(30)]
    data = TableConfig(path=write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows))), hash_buckets=64).build()
    assert data.info["features"] == 1 + 1 + 64
    assert data.info["columns"] == {"age": "number", "note": "text", "gone": "number"}
    assert data.info["class_names"] == ["False", "True"]
    assert data.problems.counts == {"empty cells in a column of numbers, taken as its mean": 30}


@pytest.mark.parametrize(
    ("content", "names", "number"),
    [
        ("sentence\tlabel\nso good\t1\nso bad\t0\n", ["sentence", "label"], 2),
        ("so good\t1\nso bad\t0\n", ["1", "2"], 2),
        ("a,b,kind\n1,2,x\n3,4,y\n", ["a", "b", "kind"], 2),
        ("1,2,x\n3,4,y\n", ["1", "2", "3"], 2),
        (",a,label\n0,2,x\n1,4,y\n", ["1", "a", "label"], 2),
        ("review;mood\n" + "fine;up\nsad;down\n" * 6, ["review", "mood"], 12),
        ("fine;up\nsad;down\n" * 6, ["1", "2"], 12),
    ],
)
def test_headers_are_detected(tmp_path: Path, content: str, names: list[str], number: int) -> None:
    rows = rows_of(tmp_path / "a.txt", content)
    assert (rows.names, len(rows.cells)) == (names, number)


def test_a_column_whose_name_is_taken_is_called_by_its_number(tmp_path: Path) -> None:
    problems = Problems()
    rows = rows_of(tmp_path / "a.csv", "x,x,label\n1,2,a\n3,4,b\n", problems)
    assert rows.names == ["x", "2", "label"]
    assert rows.cells == [["1", "2", "a"], ["3", "4", "b"]]
    assert "called by their number" in problems.lines()[0]


def test_a_guessed_header_is_told_and_can_be_overruled(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "review,mood\n" + "fine,up\nsad,down\n" * 6)
    assert "--data.header no" in TableConfig(path=path).build().problems.lines()[0]
    assert TableConfig(path=path, header="no", validation=0.0).build().info["class_names"] == ["down", "mood", "up"]
    named = TableConfig(path=write(tmp_path / "b.csv", "1,2\n5,x\n6,y\n"), header="yes", validation=0.0).build()
    assert named.info["training_examples"] == 2


def test_quotes_run_over_lines_and_a_lost_one_costs_its_line_only(tmp_path: Path) -> None:
    problems = Problems()
    content = 'text,label\n"a, ""quoted""\nthing",x\n5" pipe,y\n"never closed,z\nplain,x\n"bad"quote,y\n"last",y'
    rows = rows_of(tmp_path / "a.csv", content, problems)
    assert rows.cells == [['a, "quoted"\nthing', "x"], ['5" pipe', "y"], ["plain", "x"], ["last", "y"]]
    assert rows.lines == [2, 4, 6, 8]
    assert problems.counts == {"rows with misplaced quotes, left out": 2}
    assert f"{tmp_path / 'a.csv'}:5" in problems.lines()[0]


def test_a_large_file_full_of_lost_quotes_is_read_in_time(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", 'text,label\n"lost,x\n' + "fine,y\n" * 20_000 + '"a",x\n' * 20_000)
    start = time.perf_counter()
    assert len(read_records(path, Problems()).cells) > 20_000
    assert time.perf_counter() - start < 3


def test_a_line_longer_than_any_record_is_refused_before_it_is_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MAX_LINE", 1000)
    rows = "text,label\n" + "some words,x\nother words,y\n" * 60
    assert len(read_records(write(tmp_path / "a.csv", rows), Problems()).cells) == 120
    for name, long in (("b.csv", "word " * 400 + ",x\n"), ("c.jsonl", '{"text": "' + "word " * 400 + '"}\n')):
        with pytest.raises(DataError, match=rf"{name}: a line of it is longer than 1,000 bytes .*; cut long texts into several rows"):
            read_records(write(tmp_path / name, rows + long + rows), Problems())


@pytest.mark.timeout(30)
def test_many_columns_do_not_take_the_square_of_their_number(tmp_path: Path) -> None:
    """100,000 columns and 10 rows once had no end in 80 seconds."""
    rows = [",".join(f"{row}.{column}" for column in range(20_000)) + f",{'ab'[row % 2]}" for row in range(10)]
    header = ",".join(f"c{column}" for column in range(20_000)) + ",label"
    assert TableConfig(path=write(tmp_path / "a.csv", "\n".join([header, *rows]))).build().info["features"] == 20_000
    assert len(read_records(write(tmp_path / "b.csv", "\n".join(["x," * 100_000, *rows])), Problems()).names) == 100_001


def test_every_unusable_row_is_counted_and_named(tmp_path: Path) -> None:
    content = b"text\tlabel\ngood\tx\nragged\n\none\ttwo\tthree\nno label\t \nbad\ty\r\ngood again\tx\nfine\ty\n\t\n"
    path = write(tmp_path / "a.tsv", b"\xef\xbb\xbf" + content.replace(b"fine", b"fin\xe9 \0"))
    data = TableConfig(path=path, validation=0.0, encoding="utf-8").build()
    assert data.info["training_examples"] == 4
    told = data.problems.lines()
    assert told == [
        f"1 × bytes that are not UTF-8, replaced by U+FFFD: {path}:9 (byte 74)",
        f"2 × empty rows, left out: {path}:4, {path}:10",
        f"2 × rows that do not have 2 cells, left out: {path}:3 (1), {path}:5 (3)",
        f"1 × rows without a label, left out: {path}:6",
    ]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "utf-32"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    data = TableConfig(path=write(tmp_path / "a.tsv", reviews().replace("\n", "\r\n").encode(encoding)), validation=0.0).build()
    assert data.info["training_examples"] == 60
    assert not data.problems.counts


def test_bad_json_rows_are_counted_and_named(tmp_path: Path) -> None:
    good = ['{"text": "fine", "label": "a"}', '{"text": "poor", "label": "b"}'] * 3
    bad = [
        "{",
        "17",
        "[" * 5000,
        '{"text": "no label"}',
        "",
        "{}",
        '{"text": {"deep": 1}, "label": "a"}',
        '{"text": "\\ud800", "label": "a"}',
        "NaN",
    ]
    data = TableConfig(
        path=write(tmp_path / "a.jsonl", "\n".join([*good, *bad, '["x", "y"]', '{"label": ' + "9" * 5000 + "}"])), validation=0.0
    ).build()
    assert data.info["training_examples"] == 8
    told = "\n".join(data.problems.lines())
    for line in (7, 8, 9, 11, 12, 13, 14):
        assert f"a.jsonl:{line}" in told


def test_cells_that_are_no_number_become_the_mean(tmp_path: Path) -> None:
    cells = ["1", "2", "3", "", "oops", "1e999", "nan", *map(str, range(40))]
    data = TableConfig(
        path=write(tmp_path / "a.csv", "".join(f"{cell},{'ab'[i % 2]}\n" for i, cell in enumerate(cells))), validation=0.0
    ).build()
    x = everything(data.train)["x"]
    assert torch.equal(x[3:7], torch.zeros(4, 1))
    assert torch.isfinite(x).all()
    assert data.problems.counts == {
        "empty cells in a column of numbers, taken as its mean": 1,
        "cells that are not a number in a column of numbers, taken as its mean": 3,
    }
    assert "a.csv:5 (column '1')" in data.problems.lines()[1]


def test_columns_by_name_and_number(tmp_path: Path) -> None:
    path = write(tmp_path / "cola.tsv", "src\t1\t\tthe cat sat\nsrc\t0\t*\tcat the sat\n" * 4)
    data = TableConfig(path=path, label="2", columns=("4",), validation=0.0).build()
    assert data.info["class_names"] == ["0", "1"]
    assert data.info["columns"] == {"4": "text"}
    with pytest.raises(ConfigError, match=r"--data\.label: .*no column 'lable'"):
        TableConfig(path=path, label="lable").build()
    with pytest.raises(ConfigError, match="is the label"):
        TableConfig(path=path, label="2", columns=("2",)).build()


def test_new_rows_are_treated_as_those_of_training(tmp_path: Path) -> None:
    train = write(tmp_path / "a.csv", "x,y,label\n" + "".join(f"{i},{i * i},{'ab'[i % 2]}\n" for i in range(20)))
    other = write(tmp_path / "b.csv", "y,x,label\n400,20,b\n1,1,zebra\n")
    first = TableConfig(path=train, validation_path=other).build()
    assert len(first.train) == 20
    assert everything(first.validation)["label"].tolist() == [1]
    assert "b.csv:3 ('zebra')" in first.problems.lines()[0]
    saved = tokenizers.load(tokenizers.dump(first.tokenizer))
    again = TableConfig(path=other, validation=0.0).build_with(saved)
    assert torch.equal(everything(again.train)["x"], everything(first.validation)["x"])
    assert again.info["classes"] == 2
    with pytest.raises(DataError, match="no row of a class that the model knows"):
        TableConfig(path=write(tmp_path / "c.csv", "x,y,label\n1,2,new\n3,4,newer\n")).build_with(saved)
    with pytest.raises(ConfigError, match="no column"):
        TableConfig(path=write(tmp_path / "d.csv", "z,label\n1,a\n3,b\n")).build_with(saved)


def test_features_do_not_depend_on_the_process_or_on_other_rows(tmp_path: Path) -> None:
    """crc32 of the words, so a checkpoint means the same in every process."""
    path = write(tmp_path / "a.tsv", "Hello hello\tx\nother words\ty\n")
    x = everything(TableConfig(path=path, validation=0.0, char_ngram=0, hash_buckets=32, header="no").build().train)["x"]
    assert x[0].nonzero().tolist() == [[16]]
    assert float(x[0].max()) == 1.0


def test_one_class_and_one_row(tmp_path: Path) -> None:
    data = TableConfig(path=write(tmp_path / "a.tsv", "hello\tx\n")).build()
    assert len(data.train) == 1
    assert data.validation is None
    assert data.info["class_names"] == ["x"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("one\ntwo\n", "one column only"),
        ("text\tlabel\n", "no row has a label"),
        ("a\t\nb\t\n", "no row has a label"),
        ("".join(f"{i}\t{i * 0.37}\n" for i in range(50)), "cannot be the class"),
        ('"', "holds no usable record"),
    ],
)
def test_nothing_usable_is_one_sentence(tmp_path: Path, content: str, said: str) -> None:
    with pytest.raises(DataError, match=said) as caught:
        TableConfig(path=write(tmp_path / "a.csv", content)).build()
    assert "\n" not in str(caught.value)


def test_places_that_are_no_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is a folder"):
        TableConfig(path=str(tmp_path)).build()
    with pytest.raises(DataError, match=r"--data\.path"):
        TableConfig(path=str(tmp_path / "none.tsv")).build()
    with pytest.raises(DataError, match="JSON object per line"):
        TableConfig(path=write(tmp_path / "a.json", "[1,\n2]")).build()


def test_objects_that_all_bring_their_own_names(tmp_path: Path) -> None:
    lines = "\n".join(json.dumps({f"name{i}": 1, "label": "x"}) for i in range(8000))
    with pytest.raises(DataError, match="different field names"):
        TableConfig(path=write(tmp_path / "a.jsonl", lines)).build()


def test_compressed_files_and_settings_as_json(tmp_path: Path) -> None:
    config = TableConfig(path=write(tmp_path / "a.tsv.gz", gzip.compress(reviews().encode())), columns=("1",))
    assert config.build().info["training_examples"] == 54
    assert from_dict(to_dict(config), TableConfig) == config
    with pytest.raises(ConfigError, match=r"--data\.hash_buckets"):
        TableConfig(path=config.path, hash_buckets=0).build()


def test_rows_without_words(tmp_path: Path) -> None:
    data: Data = TableConfig(path=write(tmp_path / "a.tsv", "word\tx\n \ty\n\u200b\tx\nmore\ty\n"), validation=0.0, header="no").build()
    assert everything(data.train)["x"].shape == (4, 4096)
    assert everything(data.train)["x"][1].abs().sum() == 0


@pytest.mark.gpu
def test_on_a_gpu(tmp_path: Path) -> None:
    train = TableConfig(path=write(tmp_path / "pairs.tsv", reviews())).build().train
    torch.use_deterministic_algorithms(True)
    there = train.to(torch.device("cuda"))
    index = torch.arange(len(there), device="cuda")
    assert torch.equal(there.batch(index, index)["x"].cpu(), everything(train)["x"])
