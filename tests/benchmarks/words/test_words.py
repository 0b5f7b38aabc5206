"""`weft bench words`: a small text, measured in parts, goes on where it was cut and makes one record."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

from weft.benchmarks.words import gensim_peer, pool, words
from weft.benchmarks.words.speed import recipe_of, share_of, words_of
from weft.core.errors import DataError
from weft.results import read

TEXT = "the king rules the land and the queen rules the sea while a man and a woman walk by the river to the town "


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pool.write(tmp_path / "pool.txt", {"one": iter([TEXT * 60]), "two": iter([TEXT.upper() * 40, "Words, 2 more!"])})
    (tmp_path / "questions.txt").write_text(": family\nking queen man woman\nqueen king woman man\nking queen frog toad\n")
    return tmp_path


def test_both_programs_cut_the_text_alike(folder: Path) -> None:
    lines = (folder / "pool.txt").read_text().split("\n\n")
    assert [len(line.split()) for line in lines] == [1000, 440, 962, 0]
    assert lines[2].endswith("town words more")
    part, number = share_of(folder / "pool.txt", 0.5)
    assert (number, words_of(folder / "pool.txt")) == (1962, 2402)
    assert part.read_bytes().split(b"\n")[0] == lines[0].encode()


def test_parts_make_one_record(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.benchmarks.words.analogies.EPOCHS", {"skip_gram": 2, "cbow": 2})
    common = ["--out", str(folder), "--questions", str(folder / "questions.txt"), "--rounds", "1", "--share", "1.0"]
    threads = torch.get_num_threads()
    try:
        words.main([*common, "--parts", "speed", "threads", "--record", str(folder / "words.json")])
        words.main([*common, "--parts", "analogies", "--architectures", "cbow", "--record", str(folder / "analogies.json")])
    finally:
        torch.set_num_threads(threads)
    rows = words.kept(folder / "rows.jsonl")
    assert [row["part"] for row in rows] == ["speed"] * 4 + ["threads"] * 2 + ["analogies"]
    assert all(row["differ"] == 0 for row in rows if row["part"] == "threads")
    both = [one for name in ("words", "analogies") for one in read(folder / f"{name}.json").measurements]
    found = {(one.metric, one.of["part"], one.of.get("architecture"), one.of.get("threads")): one for one in both}
    assert found["words_per_second", "speed", "skip_gram", 1].unit == "words/s"
    assert found["times_weft_1_thread", "speed", "cbow", 2].better == "higher"
    assert found["accuracy", "analogies", "cbow", None].examples == 2
    with pytest.raises(SystemExit):
        words.main([*common, "--parts", "speed", "analogies", "--record", str(folder / "words.json")])
    words.main([*common, "--parts", "analogies", "--architectures", "cbow"])
    assert words.kept(folder / "rows.jsonl")[-1]["accuracy"] == rows[-1]["accuracy"], "the run is there already"


def test_what_is_missing_is_one_sentence(folder: Path) -> None:
    with pytest.raises(DataError, match="name the Python of an environment that has gensim"):
        words.main(["--out", str(folder), "--gensim", str(folder / "none"), "--parts", "files"])
    with pytest.raises(DataError, match=r"--questions questions-words\.txt"):
        words.main(["--out", str(folder), "--parts", "analogies"])
    with pytest.raises(DataError, match="the process with gensim ended at 'make'"):
        words.main(["--out", str(folder), "--gensim", sys.executable, "--parts", "files"])


def test_an_update_of_a_gpu_is_a_whole_passage(folder: Path) -> None:
    from argparse import Namespace

    recipe = recipe_of("cbow", folder / "pool.txt", Namespace(length=4096, device="cpu"))
    assert (recipe.data.length, recipe.objective.centres, recipe.objective.row_limit) == (4096, 4096, 64)  # type: ignore[attr-defined]
    assert recipe_of("cbow", folder / "pool.txt", Namespace(length=0, device="cuda")).objective == recipe.objective


def test_the_rate_of_gensim_falls_over_all_epochs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Epochs are made one at a time, each from the rate where the one before ended."""
    rates: list[tuple[float, float]] = []

    class Model:
        corpus_total_words = corpus_count = 10
        wv = type("Vectors", (), {"save_word2vec_format": lambda *a, **k: None})()

        def train(self, start_alpha: float, end_alpha: float, **given: object) -> None:
            rates.append((start_alpha, end_alpha))

        def save(self, path: str) -> None: ...

    monkeypatch.setattr(gensim_peer, "model_of", lambda *given: Model())
    gensim_peer.train("text", True, 10, 2, 2, str(tmp_path / "run"))
    assert rates == [(0.025, 0.0125), (0.0125, 2.5e-6)]
    assert json.loads((tmp_path / "run" / "epochs.json").read_text())["epochs"] == 2
