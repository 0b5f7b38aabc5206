"""Classes, numbers, tags and answers through the server: the same as `weft predict` tells."""

from __future__ import annotations

import base64
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import weft
from tests.contracts.tiny import tiny
from tests.serving.conftest import Live, running
from tests.serving.fake import toy_service
from tests.serving.small import served_gpt
from weft.runs.assemble import assemble
from weft.runs.load import Loaded
from weft.serving.service import serve_model

image = pytest.importorskip("PIL.Image")
NAMES = {"texts": "bert/classify", "table": "regression/table", "images": "vit/images", "sounds": "audio_classifier/digits"}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Loaded]:
    found = {}
    for name, recipe in NAMES.items():
        folder = tmp_path_factory.mktemp(name)
        assemble(tiny(recipe, folder, {"train.device": "cpu", "train.eval_every": 0, "train.steps": 2}), folder / "run").trainer.fit()
        found[name] = weft.load(folder / "run", "cpu")
    return found


@pytest.fixture(scope="module")
def told(loaded: dict[str, Loaded]) -> Iterator[Live]:
    with running(toy_service(*(serve_model(name, model) for name, model in loaded.items()), served_gpt())) as found:
        yield found


def test_rows_are_told_as_elsewhere(told: Live, loaded: dict[str, Loaded]) -> None:
    for name, rows in (("texts", ["a dog likes rain.", {"text": "the cat hates rain."}]), ("table", [{"x": 0.5, "y": "0.1"}] * 70)):
        reply = told.post("/v1/predictions", model=name, rows=rows)
        assert reply.status_code == 200, reply.text
        data = reply.json()["data"]
        assert [one["index"] for one in data] == list(range(len(rows)))
        for one, expected in zip(data, loaded[name].predict(rows), strict=True):
            assert one["prediction"] == pytest.approx(expected["prediction"])
    about = {one["id"]: one for one in told.http.get("/v1/models").json()["data"]}
    assert about["table"]["predictions"]["kind"] == "number"
    assert about["texts"]["offers"] == ["embeddings", "predictions"]


def test_images_come_as_base64_and_no_file_of_the_server_is_read(told: Live, loaded: dict[str, Loaded], tmp_path: Path) -> None:
    image.new("L", (9, 9), 200).save(tmp_path / "a.png")
    packed = base64.b64encode((tmp_path / "a.png").read_bytes()).decode()
    [expected] = loaded["images"].predict([str(tmp_path / "a.png")])
    damaged = base64.b64encode(b"no image").decode()
    reply = told.post("/v1/predictions", model="images", rows=[packed, f"data:image/png;base64,{packed}", {"image": packed}, damaged])
    assert reply.status_code == 200, reply.text
    *good, bad = reply.json()["data"]
    assert all(one["prediction"] == expected["prediction"] for one in good)
    assert "cannot be read" in bad["error"]
    for row in (str(tmp_path / "a.png"), {"file": str(tmp_path / "a.png")}):
        assert told.post("/v1/predictions", model="images", rows=[row]).status_code == 400


def test_sounds_come_as_base64(told: Live, loaded: dict[str, Loaded], tmp_path: Path) -> None:
    for name in ("a.wav", "b.wav"):
        with wave.open(str(tmp_path / name), "wb") as sound:
            sound.setparams((1, 2, 8000, 0, "NONE", ""))
            sound.writeframes(bytes(range(256)) * 20)
    packed = base64.b64encode((tmp_path / "a.wav").read_bytes()).decode()
    first, second = loaded["sounds"].predict([str(tmp_path / "a.wav"), str(tmp_path / "b.wav")])
    assert first == second
    reply = told.post("/v1/predictions", model="sounds", rows=[packed, {"sound": packed}, base64.b64encode(b"no sound").decode()])
    assert reply.status_code == 200, reply.text
    *good, bad = reply.json()["data"]
    assert [one["prediction"] for one in good] == [first["prediction"]] * 2
    assert "the sound cannot be read" in bad["error"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"model": "texts", "rows": []}, "rows"),
        ({"model": "texts", "rows": "a"}, "rows"),
        ({"model": "texts", "rows": [1]}, "rows[0]: must be a text"),
        ({"model": "texts", "rows": [["a", 2]]}, "rows[0]: must be a text"),
        ({"model": "texts", "rows": ["a"] * 5000}, "rows may be at most"),
        ({"model": "table", "rows": [{"x": 1}]}, "lacks 'y'"),
        ({"model": "table", "rows": ["a"]}, "lacks 'x', 'y'"),
        ({"model": "gpt", "rows": ["a"]}, "cannot tell a class, a number, tags or an answer"),
        ({"model": "images", "rows": ["%%%"]}, "must be an image file in base64"),
        ({"model": "sounds", "rows": ["seven.wav"]}, "must be a sound file in base64"),
    ],
)
def test_what_is_refused(told: Live, body: dict[str, Any], said: str) -> None:
    reply = told.post("/v1/predictions", **body)
    assert reply.status_code == 400, reply.text
    assert said in reply.json()["error"]["message"]


def test_a_row_of_which_nothing_can_be_told_says_why(told: Live) -> None:
    reply = told.post("/v1/predictions", model="texts", rows=["fine", " "])
    assert [("error" in one) for one in reply.json()["data"]] == [False, True]
