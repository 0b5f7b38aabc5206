"""`weft sample` of models of images and of points: images filled in and translated, points drawn, and what is refused."""

from __future__ import annotations

import xml.etree.ElementTree as xml
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.cli.conftest import Outcome
from tests.contracts.tiny import tiny
from weft.cli import pictures
from weft.core.config import override

Command = Callable[..., Outcome]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small runs by their family, and two pictures to work on."""
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("sklearn")
    folder = tmp_path_factory.mktemp("pictures")
    for name in ("rbm/digits", "vae/inpainting", "pixelcnn/digits", "realnvp/moons", "gan/digits", "pix2pix/digits", "cyclegan/digits"):
        recipe = override(tiny(name, folder), {"train.steps": 2, "train.device": "cpu"})
        weft.train(recipe, out=folder / name.partition("/")[0])
    (folder / "in" / "more").mkdir(parents=True)
    pixels = np.random.default_rng(0).integers(0, 256, (2, 8, 8), dtype=np.uint8)
    image.fromarray(pixels[0]).save(folder / "in" / "one.png")
    image.fromarray(pixels[1]).resize((20, 10)).save(folder / "in" / "more" / "two.png")
    image.fromarray(np.eye(8, dtype=np.uint8) * 255).save(folder / "mask.png")
    image.new("L", (8, 8)).save(folder / "black.png")
    (folder / "empty").mkdir()
    return folder


def size(path: Path) -> tuple[int, int]:
    image = pytest.importorskip("PIL.Image")
    with image.open(path) as opened:
        found: tuple[int, int] = opened.size
    return found


@pytest.mark.parametrize("run", ["rbm", "vae", "pixelcnn"])
def test_what_is_missing_is_filled_in(command: Command, runs: Path, tmp_path: Path, run: str) -> None:
    image = pytest.importorskip("PIL.Image")
    out = tmp_path / "sheet.png"
    done = command("sample", str(runs / run), "--inpaint", str(runs / "in"), "--n", "2", "--out", str(out))
    assert done.code == 0, done.err
    assert size(out) == (3 * 68 + 4, 2 * 68 + 4)  # what was left and two completions, of two pictures
    with image.open(out) as opened:
        sheet = np.asarray(opened.convert("L"))
    given, made = sheet[4:36, 4:68], sheet[4:36, 72:136]
    assert np.array_equal(given, made)  # the upper half stays as it was
    assert set(np.unique(sheet[40:60, 4:68])) == {128}  # the lower half was hidden


def test_masks_from_a_file_and_a_file_of_its_own(command: Command, runs: Path) -> None:
    done = command("sample", str(runs / "rbm"), "--inpaint", str(runs / "in" / "one.png"), "--mask", str(runs / "mask.png"))
    assert done.code == 0, done.err
    assert size(runs / "rbm" / "samples" / "00000002-inpaint-one-seed0.png") == (2 * 68 + 4, 68 + 4)


def test_points_of_the_plane_are_drawn(command: Command, runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "points.svg"
    assert command("sample", str(runs / "realnvp"), "--n", "300", "--out", str(out)).code == 0
    root = xml.fromstring(out.read_text())
    assert "300 points" in "".join(root.itertext())
    first = out.read_text()
    assert command("sample", str(runs / "realnvp"), "--n", "300", "--out", str(out)).code == 0
    assert out.read_text() == first
    assert "data:image/svg+xml" in (runs / "realnvp" / "report.html").read_text()


@pytest.mark.parametrize(("run", "ways"), [("pix2pix", ["a2b"]), ("cyclegan", ["a2b", "b2a"])])
def test_images_are_translated(command: Command, runs: Path, tmp_path: Path, run: str, ways: list[str]) -> None:
    for way in ways:
        done = command("sample", str(runs / run), "--input", str(runs / "in"), "--direction", way, "--out", str(tmp_path / way))
        assert done.code == 0, done.err
        assert "2 images translated" in done.out
        assert size(tmp_path / way / "one.png") == size(tmp_path / way / "more" / "two.png") == (8, 8)
    assert command("sample", str(runs / run), "--input", str(runs / "in" / "one.png"), "--out", str(tmp_path / "alone")).code == 0
    assert (tmp_path / "alone" / "one.png").read_bytes() == (tmp_path / "a2b" / "one.png").read_bytes()  # alone or beside others


@pytest.mark.parametrize(
    ("run", "words", "said"),
    [
        ("pixelcnn", ["--inpaint", "in", "--mask", "left"], "only the end of an image"),
        ("gan", ["--inpaint", "in"], "does not offer Inpaints"),
        ("rbm", ["--inpaint", "in", "--mask", "everything"], "expected lower, upper, left, right, middle or an image file"),
        ("rbm", ["--inpaint", "in", "--mask", "black.png"], "nothing is missing"),
        ("rbm", ["--inpaint", "nowhere"], "no such file or folder"),
        ("rbm", ["--inpaint", "empty"], "holds no image"),
        ("rbm", ["--inpaint", "in", "word"], "no room for 'word'"),
        ("rbm", ["--inpaint", "in", "--out", "sheet.jpg"], "ends in .png"),
        ("rbm", ["--inpaint", "in", "--n", "-1"], "n must be at least 1"),
        ("rbm", ["--input", "in"], "--input is for models that answer a text, translate images or find objects"),
        ("realnvp", ["--inpaint", "in"], "does not offer Inpaints"),
        ("realnvp", ["--latents", "traverse"], "RealNVP draws points"),
        ("realnvp", ["--out", "points.png"], "written as SVG"),
        ("pix2pix", [], "translates images: --input FILE_OR_FOLDER --out FOLDER"),
        ("pix2pix", ["--input", "in"], "--out must name a folder"),
        ("pix2pix", ["--input", "in", "--out", "mask.png"], "mask.png is a file"),
        ("pix2pix", ["--input", "in", "--out", "made", "--direction", "b2a"], "one direction only"),
    ],
)
def test_what_is_refused_is_one_line(
    command: Command, runs: Path, monkeypatch: pytest.MonkeyPatch, run: str, words: list[str], said: str
) -> None:
    monkeypatch.chdir(runs)
    done = command("sample", run, *words)
    assert done.code in (1, 2)
    assert said in done.err
    assert done.err.startswith("weft: ")
    assert done.err.count("\n") == 1


def test_the_same_is_drawn_from_python(runs: Path) -> None:
    loaded = weft.load(runs / "realnvp", device="cpu")
    drawn = loaded.sample(5, seed=3)
    assert drawn.shape == (5, 2)
    assert (drawn == loaded.sample(9, seed=3)[:5]).all()


def test_a_place_that_cannot_be_is_told_before_anything_is_drawn(runs: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "draw", None)
    for name, wrong in (("gan", "sheet.jpg"), ("realnvp", "points.png"), ("gan", "folder.png")):
        (runs / "folder.png").mkdir(exist_ok=True)
        done = command("sample", str(runs / name), "--out", str(runs / wrong))
        assert done.code == 2 and wrong in done.err
