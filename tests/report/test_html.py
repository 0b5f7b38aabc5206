"""The page of a run: everything inside it, honest about what is missing, and a command that makes the run again."""

from __future__ import annotations

import json
import re
import shlex
from html.parser import HTMLParser
from pathlib import Path

import pytest

import weft
from weft.cli import train as train_verb
from weft.core import config
from weft.core.errors import CheckpointError
from weft.core.units import duration, number, title
from weft.report.html import comparison_page, run_page
from weft.report.samples import Sample, draw
from weft.runs.record import command, read, show

TINY = {"train.steps": 8, "train.log_every": 2, "train.eval_every": 4, "train.batch": 8, "train.eval_examples": 32}


@pytest.fixture(scope="module")
def vae(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("sklearn")
    folder = tmp_path_factory.mktemp("runs") / "vae"
    weft.train(weft.recipe("vae/digits", {**TINY, "model.hidden": [24, 12], "optim.weight_decay": 0.25}), out=folder)
    return folder


@pytest.fixture(scope="module")
def gan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("sklearn")
    folder = tmp_path_factory.mktemp("runs") / "gan"
    weft.train(weft.recipe("gan/digits", {**TINY, "optim.generator.lr": 1e-3}), out=folder)
    return folder


class Balanced(HTMLParser):
    """Notes every element that is closed out of turn."""

    VOID = ("meta", "img", "path", "br")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID and (not self.open or self.open.pop() != tag):
            self.wrong.append(tag)


@pytest.mark.parametrize("kind", ["vae", "gan", "both"])
def test_pages_are_whole_and_refer_to_nothing_outside(kind: str, vae: Path, gan: Path) -> None:
    page = (
        comparison_page([read(vae), read(gan)]) if kind == "both" else (vae if kind == "vae" else gan).joinpath("report.html").read_text()
    )
    parser = Balanced()
    parser.feed(page)
    assert parser.wrong == []
    assert parser.open == []
    assert all(link.startswith("data:") for link in parser.links)
    assert "http" not in re.sub(r"data:[^\"]*", "", page)
    assert "prefers-color-scheme: dark" in page
    assert 'name="viewport"' in page


def test_the_page_shows_numbers_curves_samples_settings_and_where_it_ran(vae: Path) -> None:
    pytest.importorskip("PIL")
    page = (vae / "report.html").read_text()
    run = read(vae)
    best = run.best()
    assert best is not None
    assert number(best[1]) in page
    for piece in (
        "generalisation gap",
        "KL divergence",
        "learning rate",
        "gradient norm",
        "examples per second",
        "Images drawn after step",
    ):
        assert piece in page
    assert "data:image/png;base64," in page
    assert f"{run.environment['parameters']:,}" in page
    assert run.environment["versions"]["torch"] in page
    assert "None were found." in page
    assert re.search(r"<tr class=changed><th>hidden</th><td>24 12</td>", page)


def test_every_number_of_a_gan_has_its_figure(gan: Path) -> None:
    page = (gan / "report.html").read_text()
    run = read(gan)
    for name in {*run.names("train"), *run.names("validation")}:
        assert f"<b>{title(name)}</b>" in page


@pytest.mark.parametrize("kind", ["vae", "gan"])
def test_the_command_makes_the_same_recipe_again(kind: str, vae: Path, gan: Path) -> None:
    run = read(vae if kind == "vae" else gan)
    words = shlex.split(command(run))
    assert words[:3] == ["weft", "train", f"{kind}/digits"]
    again, _ = train_verb.parse(words[2], words[3:])
    assert config.to_dict(again.resolve(run.environment["data"])) == run.recipe
    assert len(words) <= 20


def test_a_recipe_that_is_not_registered_here_still_has_a_page(vae: Path, tmp_path: Path) -> None:
    run = read(vae)
    run.recipe = {**run.recipe, "name": "gone/away <b>"}
    page = run_page(run)
    assert "gone/away &lt;b&gt;" in page
    assert "not registered here" in page


def test_a_run_that_has_logged_nothing_or_nonsense_has_a_page(vae: Path, tmp_path: Path) -> None:
    for name in ("recipe.json", "environment.json"):
        (tmp_path / name).write_bytes((vae / name).read_bytes())
    assert "Nothing is logged yet." in run_page(read(tmp_path))
    lines = [
        '{"step": 1, "train": {"loss": NaN}, "seconds": 1}',
        "cut off {",
        '{"step": 2, "train": {"loss": 3.0}, "validation": {"loss": Infinity}}',
    ]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines))
    run = read(tmp_path)
    assert run.points("train", "loss") == [(2, 3.0)]
    assert run.best() is None
    assert "<svg" in run_page(run)
    (tmp_path / "metrics.jsonl").write_text(lines[0] + '\n{"step": "two"}\n{"step": 3, "train": 4}\n[5]')
    (tmp_path / "environment.json").write_text("{")
    assert "0 of" not in run_page(read(tmp_path)), "a run of which no number was ever finite has a page"
    with pytest.raises(CheckpointError, match="no run here"):
        read(tmp_path / "nowhere")


@pytest.mark.parametrize("content", ["[]", "{}", '{"train": 5}', '{"train": {}, "progress": {"metric": "loss", "goal": "min"}}'])
def test_a_recipe_that_is_none_is_one_sentence(content: str, tmp_path: Path) -> None:
    (tmp_path / "recipe.json").write_text(content)
    with pytest.raises(CheckpointError, match="no run here"):
        read(tmp_path)


def test_samples_follow_what_a_model_offers(vae: Path) -> None:
    pytest.importorskip("PIL")
    assert [bool(sample.image) for sample in draw(weft.load(vae))] == [True]
    page = run_page(read(vae), [Sample("words", rows=(("<cat>", "dog"),)), Sample("text", text="a < b")])
    assert "&lt;cat&gt;" in page
    assert "a &lt; b" in page


def test_a_failing_report_does_not_fail_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("sklearn")

    def fail(*arguments: object) -> None:
        raise RuntimeError("no page today")

    monkeypatch.setattr("weft.api.html.write", fail)
    weft.train(weft.recipe("classifier/digits", TINY), out=tmp_path)
    assert weft.load(tmp_path).metrics["step"] == 8
    assert "no page today" in caplog.text


def test_words_for_numbers() -> None:
    assert [number(x) for x in (3, 0.12345, 12345.6, 1e-5, 0)] == ["3", "0.1235", "12,346", "1e-05", "0"]
    assert [duration(s) for s in (4.6, 75, 3 * 3600 + 7, 90_000)] == ["0:05", "1:15", "3:00:07", "1 d 1:00:00"]
    assert title("discriminator_lr") == "discriminator learning rate"
    assert show(list(range(20))) == "0 1 2 3 … (20 values)"
    assert config.flat({"a": {"type": "x", "b": 1}, "c": [1]}) == {"a": "x", "a.b": 1, "c": [1]}
    assert json.loads(json.dumps(config.flat({"a": 1}))) == {"a": 1}
