"""Every verb with every kind of trained model: what the matrix of docs/verbs.md says works does, and the rest is one sentence."""

from __future__ import annotations

import csv
import wave
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome, weft_command
from tests.contracts.test_recipes import trained
from tests.contracts.tiny import Changes, tiny
from weft.cli import verbs
from weft.cli.verbs import USES, Uses
from weft.core.errors import CapabilityError
from weft.runs.assemble import adopt, assemble
from weft.runs.load import load
from weft.serving.templates import template_for

KINDS = verbs.recipes()
SHORT: Changes = {"train.steps": 2, "train.eval_every": 1, "train.eval_examples": 4, "train.device": "cpu"}
TYPED = {
    verbs.CONTINUES: ("--max-new-tokens", "4"),
    verbs.ANSWERS: ("seven",),
    verbs.DRAWS: ("--n", "2"),
    verbs.POINTS: ("--n", "5"),
    verbs.TRANSLATES_IMAGES: ("--input", "picture.png", "--out", "restyled"),
    verbs.WORDS: ("the",),
    verbs.PICTURE: ("picture.png",),
    verbs.SOUND: ("sound.wav",),
    verbs.TEXT: ("the cat likes rain.", "a dog sees rain."),
    verbs.DETECTS: ("--n", "2"),
    verbs.LABELS: ("the cat likes rain.",),
    "regression": ("the cat likes rain.", "a dog sees rain."),
    "multiple choice": ("my friend", "likes rain", "hates rain"),
    "extractive question answering": ("what is near the cat ?", "a tree near the cat ."),
    "token classification": ("may sees the moon",),
    "regression of a row": ("x=0.5", "y=-0.5"),
    verbs.SPEECH: ("sound.wav",),
}
"""What to type after the name of a run to be given what `weft sample` has."""
ROWS = {
    verbs.TEXT: "text\tanother\n" + "the cat likes rain.\ta dog sees rain.\n" * 3,
    "regression": "text\tanother\n" + "the cat likes rain.\ta dog sees rain.\n" * 3,
    "regression of a row": "x\ty\n0.5\t-0.5\n1\t2\n3\t4\n",
    "multiple choice": "context\tchoice1\tchoice2\n" + "my friend\tlikes rain\thates rain\n" * 3,
    "extractive question answering": "question\tcontext\n" + "what is near the cat ?\ta tree near the cat .\n" * 3,
    verbs.PICTURE: "file\n" + "picture.png\n" * 3,
    verbs.SOUND: "file\n" + "sound.wav\n" * 3,
    verbs.SPEECH: "file\n" + "sound.wav\n" * 3,
}
"""Three rows for `weft predict`; others are given a text."""
PAIRS = (verbs.TEXT, "regression")
"""What is told of a text or of a pair of them, as in training."""
TOLD = {
    verbs.DRAWS: "written to",
    verbs.DETECTS: "written to",
    verbs.POINTS: "written to",
    verbs.TRANSLATES_IMAGES: "translated",
}


def test_every_model_and_objective_has_a_row() -> None:
    assert set(KINDS) == set(USES)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a picture, a sound and a question in it."""
    image = pytest.importorskip("PIL.Image")
    image.new("L", (8, 8), 128).save(tmp_path / "picture.png")
    with wave.open(str(tmp_path / "sound.wav"), "wb") as sound:
        sound.setparams((1, 2, 8000, 0, "NONE", ""))
        sound.writeframes(bytes(range(256)) * 20)
    (tmp_path / "question.txt").write_text("a {answer}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WEFT_DATA", raising=False)
    return tmp_path


def works(*words: str) -> str:
    done = weft_command(*words)
    assert done.code == 0, f"weft {' '.join(words)}: {done.err}"
    return done.out


def refused(done: Outcome) -> None:
    """One sentence, and nothing else."""
    assert done.code in (1, 2), done.out
    assert done.err.startswith("weft: ")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("kind", list(KINDS), ids="-".join)
def test_verbs(kind: tuple[str, str], place: Path) -> None:
    uses, name = USES[kind], KINDS[kind][0]
    made = tiny(name, place, SHORT | uses.where)
    trained(made, place / "run")
    assemble(adopt(made, "run"), place / "finetuned", init="run").trainer.fit()
    works("evaluate", "run", "--examples", "4")
    assert "report.html" in works("report", "run", *(["--no-samples"] if kind[0] == "boltzmann" else []))
    check_sample(uses)
    check_predict(uses, place)
    check_prompt(uses)
    check_serve(uses)
    check_convert(uses)


def check_sample(uses: Uses) -> None:
    if uses.sample:
        words = TYPED[uses.sample]
        out = works("sample", "run", *(words[: texts_of("run")] if uses.sample in PAIRS else words))
        assert TOLD.get(uses.sample, "") in out
        assert out.strip()
    else:
        refused(weft_command("sample", "run"))


def check_predict(uses: Uses, place: Path) -> None:
    (place / "rows.tsv").write_text(ROWS.get(uses.predict, "text\n" + "the cat\n" * 3))
    asked = ("predict", "run", "rows.tsv", "--out", "told.csv", "--header", "yes")
    if not uses.predict:
        refused(weft_command(*asked))
        return
    columns = ("--columns", "text") if uses.predict in PAIRS and texts_of("run") == 1 else ()
    assert "3 rows," in works(*asked, *columns)
    told = list(csv.DictReader((place / "told.csv").read_text().splitlines()))
    assert len(told) == 3
    assert not any(row["error"] for row in told)
    assert all(list(row.values())[-2] for row in told)


def texts_of(run: str) -> int:
    texts: int = load(run, "cpu").tokenizer.texts
    return texts


def check_prompt(uses: Uses) -> None:
    asked = ("prompt", "question.txt", "--ask", "run", "--max-new-tokens", "2")
    if uses.continues:
        assert works(*asked).startswith("a")
    else:
        refused(weft_command(*asked))
        refused(weft_command("evaluate", "run", "copa", "--data.path", "question.txt"))


def check_serve(uses: Uses) -> None:
    """The routes of a model; that each route answers is for tests/serving to show."""
    service = pytest.importorskip("weft.serving.service")
    if uses.serve:
        loaded = load("run", "cpu")
        unwritten = {"chat"} if uses.continues and template_for(loaded.tokenizer) is None else set()  # a tiny text may lack its letters
        assert tuple(service.serve_model("it", loaded).offers) == tuple(route for route in uses.serve if route not in unwritten)
    else:
        with pytest.raises(CapabilityError, match="neither text nor images to serve") as caught:
            service.serve_model("it", load("run", "cpu"))
        assert "\n" not in str(caught.value)


def check_convert(uses: Uses) -> None:
    """Out and in again; that both give the same numbers is for tests/convert to show."""
    if not uses.convert:
        refused(weft_command("convert", "run", "theirs"))
        return
    theirs = "theirs.bin" if uses.convert == ("word vectors",) else "theirs"
    assert works("convert", "run", theirs).startswith(uses.convert[0])
    assert works("convert", theirs, "ours").startswith(uses.convert[0])
    assert [p.shape for p in load("ours", "cpu").model.parameters()] == [p.shape for p in load("run", "cpu").model.parameters()]
