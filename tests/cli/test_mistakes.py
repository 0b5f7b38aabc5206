"""Mistakes of a first hour, and files in the encodings that people have: one clear sentence each, and none in silence."""

from __future__ import annotations

import codecs
import shlex
import zipfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from tests.cli.conftest import TEXT, Outcome, weft_command
from weft.data.text.token_windows import TextConfig

TINY = "--data.context 16 --model.layers 1 --model.heads 2 --model.width 16 --train.batch 4 --train.steps 1 --train.eval_examples 4"
MISTAKES = {
    "tran gpt/text": "no verb is called 'tran'; did you mean 'train'?",
    "chat run": "no verb is called 'chat'; weft serve is: ",
    "train gpt/txt": "no recipe is called 'gpt/txt'; did you mean 'gpt/text'?",
    "train my.txt": "my.txt: is no recipe; weft start my.txt looks at such data",
    "train gpt/text my.txt": "data are named with a flag: weft train gpt/text --data.path my.txt",
    "train gpt/text --data.path nope.txt": "nope.txt: no such file or folder",
    "train gpt/text --data.path https://example.com/a.txt": "is an address, and weft fetches nothing; download it",
    "train gpt/text --data.path photos": "photos: the folder holds no text file (.txt",
    "train gpt/text --data.path empty.txt": "empty.txt: holds no text; name another",
    "train gpt/text --data.path doc.pdf": "doc.pdf: is a PDF, not a text file; take its text out first",
    "train gpt/text --data.path essay.docx": "essay.docx: is a Word document, not a text file; save it as plain text",
    "train gpt/text --data.path my.txt --model.widht 32": "--model.widht: gpt has no setting 'widht'; did you mean 'width'?",
    "train gpt/text --data.path my.txt --width 30 --heads 4": "30",
    "train gpt/text --data.path my.txt --train.steps many": "--train.steps: 'many' is not an integer",
    "train gpt/text --data.path my.txt --batch-size 0": "--train.batch must be at least 1, not 0",
    "train gpt/text --data.path my.txt --optim.lr -1": "--optim.lr must be at least 0",
    "train gpt/text --data.path my.txt --epochs 3": "--epochs: a run is as long as --train.steps says",
    "train gpt/text --data.path my.txt --train.device gpu": "'gpu' is not a device; use auto, cpu, cuda",
    f"train gpt/text --data.path my.txt {TINY} --model.layers 2 --out run": "run holds a run of another recipe; continue it with",
    f"train gpt/text --data.path my.txt {TINY} --init table --out new": "a classifier of tables (classifier/table) cannot start a language",
    f"train gpt/text --data.path my.txt {TINY} --out my.txt": "my.txt: cannot be written (Not a directory)",
    "train gpt/text --config broken.yaml": "broken.yaml: is not valid YAML",
    "train gpt/text --config bomb.yaml": "*names of other parts are not followed; write them out",
    "train classifier/table --data.path rows.xlsx": "rows.xlsx: is an Excel workbook, not a text file; save the sheet as CSV",
    "train classifier/table --data.path rows.csv --data.label lable": "rows.csv has no column 'lable'; did you mean 'label'?",
    "train classifier/table --data.path prices.csv": "to predict it as a number, train regression/table",
    "train regression/table --data.path rows.csv": "are not numbers; classes are predicted by classifier/table",
    "train classifier/images --data.path one": "one: all its examples are of one class",
    "train classifier/images --data.path photos/a": "give images of each class a folder of their own",
    "train classifier/images --data.path 'photos/*.png'": "name the folder: --data.path photos",
    "train transformer/pairs --data.path my.txt": "my.txt: has one column only; a source and a target are needed",
    "sample gpt/text hello": "gpt/text: is a recipe; train it with: weft train gpt/text, and name its run, runs/gpt-text",
    "sample table hello": "a row is typed as x=1.5 y=1.5",
    "evaluate run --data.path photos": "photos: the folder holds no text file",
    "predict table rows.csv": "--out names the file to write to, for example: weft predict table rows.csv --out",
    "predict table photos --out out.csv": "the model learned from the columns x, y, and the input lacks",
    "convert weights.ckpt new": "weights.ckpt: pickles are never opened, as they can run code",
    "convert gpt2 new": "gpt2: no such file or folder; weft fetches only packages",
    "serve rows.csv": "rows.csv: is a file; a run is named by its folder",
    "report rows.csv": "rows.csv: is a file; a run is named by its folder",
}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of what somebody has, and two runs."""
    image = pytest.importorskip("PIL.Image")
    folder = tmp_path_factory.mktemp("desk")
    (folder / "my.txt").write_text(TEXT)
    (folder / "empty.txt").write_text("")
    (folder / "doc.pdf").write_bytes(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n<<>>\nendobj\n")
    for name, member in (("rows.xlsx", "xl/workbook.xml"), ("essay.docx", "word/document.xml")):
        with zipfile.ZipFile(folder / name, "w") as archive:
            archive.writestr(member, "<x/>")
    rows = [(i % 7, i % 5) for i in range(80)]
    (folder / "rows.csv").write_text("x,y,label\n" + "".join(f"{x},{y},{'up' if x > 3 else 'down'}\n" for x, y in rows))
    (folder / "prices.csv").write_text("x,y,price\n" + "".join(f"{x},{y},{i * 1.37:.2f}\n" for i, (x, y) in enumerate(rows)))
    for place in ("photos/a", "photos/b", "one/a"):
        (folder / place).mkdir(parents=True)
        for number in range(4):
            image.new("RGB", (8, 8), (number * 9, 90, 3)).save(folder / place / f"{number}.png")
    (folder / "broken.yaml").write_text("model:\n  width: [1\n")
    bomb = [f"{name}: &{name} [*{before}, *{before}]\n" for before, name in pairwise("abcdefg")]
    (folder / "bomb.yaml").write_text("a: &a [1, 1]\n" + "".join(bomb))
    (folder / "weights.ckpt").write_bytes(b"PK\3\4")
    flags = shlex.split(TINY)
    assert weft_command("train", "gpt/text", "--data.path", str(folder / "my.txt"), *flags, "--out", str(folder / "run")).code == 0
    table = ["train", "classifier/table", "--data.path", str(folder / "rows.csv"), "--train.steps", "1"]
    assert weft_command(*table, "--out", str(folder / "table")).code == 0
    return folder


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_one_sentence_that_helps(
    line: str, desk: Path, command: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(desk)
    monkeypatch.delenv("WEFT_DATA", raising=False)
    done = command(*shlex.split(line))
    assert done.code in (1, 2)
    sentences = [one for one in done.err.splitlines() if one.startswith("weft: ")]
    assert len(sentences) == 1 and MISTAKES[line] in sentences[0], done.err
    assert "Traceback" not in done.err + done.out
    assert not caplog.records


ENGLISH = "The fox runs, and the dog sleeps. It isn’t far – “home”, says déjà vu.\n"
FRENCH = "Le garçon a mangé un gâteau très sucré à la fête de Noël, où sa sœur rêvait.\n".replace("œ", "oe")
CHINESE = "学而时习之，不亦说乎？有朋自远方来，不亦乐乎？人不知而不愠，不亦君子乎？\n"
TRADITIONAL = "學而時習之，不亦說乎？有朋自遠方來，不亦樂乎？人不知而不慍，不亦君子乎？\n"
JAPANESE = "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。\n"
ENCODINGS = {
    "UTF-8": (ENGLISH, "utf-8", b"", ""),
    "UTF-8 with a mark": (ENGLISH, "utf-8", codecs.BOM_UTF8, ""),
    "UTF-16, little end first": (ENGLISH, "utf-16-le", codecs.BOM_UTF16_LE, ""),
    "UTF-16, big end first": (ENGLISH, "utf-16-be", codecs.BOM_UTF16_BE, ""),
    "GB18030": (CHINESE, "gb18030", b"", "files read as GB18030, which was detected"),
    "Big5": (TRADITIONAL, "big5", b"", "files read as BIG5, which was detected"),
    "Latin-1": (FRENCH, "latin-1", b"", "files read as Windows-1252 (Latin-1), which was detected"),
    "Shift-JIS": (JAPANESE, "shift_jis", b"", "files read as Shift-JIS, which was detected"),
}


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_text_is_the_same_in_every_encoding(name: str, tmp_path: Path) -> None:
    text, encoding, mark, said = ENCODINGS[name]
    (tmp_path / "a.txt").write_bytes(mark + (text * 40).encode(encoding))
    (tmp_path / "b.txt").write_text(text * 40, encoding="utf-8")
    found, same = (TextConfig(path=str(tmp_path / one), context=16).build() for one in ("a.txt", "b.txt"))
    assert found.tokenizer.characters == same.tokenizer.characters
    assert found.info == same.info
    told = [line for line in found.problems.lines() if "files read as" in line]
    assert len(told) == bool(said) and all(said in line for line in told)


@pytest.mark.parametrize("name", ENCODINGS)
def test_an_encoding_that_is_named_is_read_without_a_word(name: str, tmp_path: Path) -> None:
    text, encoding, mark, _ = ENCODINGS[name]
    (tmp_path / "a.txt").write_bytes(mark + (text * 40).encode(encoding))
    found = TextConfig(path=str(tmp_path / "a.txt"), context=16, encoding=encoding).build()
    assert set(found.tokenizer.characters) == set(text)
    assert not found.problems.lines()
