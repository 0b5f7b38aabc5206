"""`weft evaluate CKPT TASK… --shots K`: a table, and every prompt and answer as JSON in the run's folder."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

import weft
from tests.cli.conftest import TEXT, TINY, Outcome

RECORDS = [{"query": f"Is {number} a number, therefore", "choices": ["it is.", "it is not."], "gold": 0} for number in range(8)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run over bytes, which any text has."""
    folder = tmp_path_factory.mktemp("tasks")
    (folder / "fox.txt").write_text(TEXT)
    changes = {**TINY, "data.path": str(folder / "fox.txt"), "data.tokenizer": "bytes", "train.steps": 2, "train.eval_every": 2}
    weft.train(weft.recipe("gpt/text", changes), out=folder / "run")
    return folder / "run"


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "fewshot"
    folder.mkdir()
    for name in ("copa", "piqa"):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    monkeypatch.delenv("WEFT_DATA", raising=False)
    return folder


def test_a_task_is_printed_and_written(command: Callable[..., Outcome], run: Path, data: Path) -> None:
    words = ["copa", "--shots", "2", "--examples", "5", "--seed", "1", "--data.path", str(data / "copa.jsonl")]
    done = command("evaluate", str(run), *words)
    assert done.code == 0, done.err
    assert "copa, 2-shot: 5 of 8 examples" in done.out
    assert "95 % interval" in done.out and "0.9200" in done.out  # GPT-3's few-shot accuracy
    [path] = (run / "evaluations").glob("*-copa-2shot.json")
    record = json.loads(path.read_bytes())
    assert (record["task"], record["shots"], record["seed"], record["examples"]) == ("copa", 2, 1, 5)
    assert record["template"] == "{query} {answer}"
    assert record["published"]["few"] == 0.92
    assert set(record["intervals"]) == set(record["metrics"])
    rows = json.loads(path.with_name(f"{path.stem}-predictions.json").read_bytes())
    assert len(rows) == 5
    assert rows[0]["prompt"].count("therefore") == 3
    assert len(rows[0]["scores"]["token"]) == 2


def test_flags_before_names_several_tasks_and_a_template(command: Callable[..., Outcome], run: Path, data: Path, tmp_path: Path) -> None:
    for name in ("copa", "piqa"):
        (data / f"{name}.jsonl.gz").write_bytes(gzip.compress((data / f"{name}.jsonl").read_bytes()))
    (tmp_path / "prompt.txt").write_text("{query}: {answer}\n")
    out = tmp_path / "out.json"
    flagged = ["--shots", "1", "--template", str(tmp_path / "prompt.txt"), "--data.path", str(tmp_path), "--out", str(out)]
    done = command("evaluate", *flagged, str(run), "copa", "piqa")
    assert done.code == 0, done.err
    for name in ("copa", "piqa"):
        record = json.loads((tmp_path / f"out-{name}.json").read_bytes())
        assert record["task"] == name
        assert record["template"] == "{query}: {answer}"


def test_what_is_wrong_is_one_sentence(command: Callable[..., Outcome], run: Path, tmp_path: Path) -> None:
    missing = command("evaluate", str(run), "copa")
    assert missing.code == 2
    assert missing.err.count("\n") == 1 and "fewshot/copa.jsonl.gz" in missing.err and "--data.path" in missing.err
    assert "did you mean 'copa'" in command("evaluate", str(run), "piqa", "copas").err
    assert "--shots and --template are for tasks" in command("evaluate", str(run), "--shots", "3").err
    assert "there is no such file" in command("evaluate", str(run), "copa", "--template", str(tmp_path / "none.txt")).err
    assert "--shots" in command("evaluate", str(run), "copa", "--help").out


def test_tasks_are_listed(command: Callable[..., Outcome]) -> None:
    done = command("list", "tasks")
    assert done.code == 0
    assert "winograd_wsc" in done.out and "lambada_fill_in" in done.out
