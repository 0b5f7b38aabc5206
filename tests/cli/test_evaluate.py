"""`weft evaluate`: a table, a JSON file in the run, other data, other checkpoints."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.cli.conftest import Outcome


def test_evaluate_prints_and_writes_the_metrics(command: Callable[..., Outcome], text_run: Path) -> None:
    done = command("evaluate", str(text_run))
    assert done.code == 0, done.err
    assert "perplexity" in done.out
    best = sorted((text_run / "checkpoints").iterdir())[-1].name
    record = json.loads((text_run / "evaluations" / f"{best}.json").read_bytes())
    assert record["recipe"] == "gpt/text"
    assert record["metrics"]["loss"] > 0
    assert f"{record['metrics']['loss']:.4f}" in done.out


def test_named_metrics_other_data_and_flags_before_the_checkpoint(command: Callable[..., Outcome], text_run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text("a lazy fox.\n" * 20)
    done = command("evaluate", "--batch", "2", str(text_run), "loss", "--data.path", str(other))
    assert done.code == 0, done.err
    assert "perplexity" not in done.out
    record = next(json.loads(p.read_bytes()) for p in (text_run / "evaluations").glob("*-other.json"))
    assert record["data"]["path"] == record["data"]["validation_path"] == str(other)
    assert "did you mean 'loss'" in command("evaluate", str(text_run), "los").err


def test_metrics_asked_for_one_by_one_stand_together(command: Callable[..., Outcome], text_run: Path) -> None:
    def written(*words: str) -> set[str]:
        done = command("evaluate", str(text_run), *words)
        assert done.code == 0, done.err
        target = Path(done.out.rpartition("written to ")[2].strip())
        return set(json.loads(target.read_bytes())["metrics"])

    assert written("loss", "--batch", "2") >= {"loss"}
    assert written("perplexity") >= {"loss", "perplexity"}
    assert written("loss", "--examples", "1") == {"loss"}, "numbers of other examples do not stand beside these"
    for path in (text_run / "evaluations").iterdir():
        path.write_text("[]")
    assert written("loss") == {"loss"}, "whatever lay there"


def test_wrong_names_are_explained(command: Callable[..., Outcome], text_run: Path) -> None:
    assert command("evaluate", f"{text_run}@7").code == 1
    assert "no checkpoint of step 7" in command("evaluate", f"{text_run}@7").err
    assert command("evaluate", str(text_run), "--data.contxt", "3").code == 2
    assert "--data.context" in command("evaluate", str(text_run), "--help").out
    assert "Ω" not in command("evaluate", str(text_run), "--data.path", "/nowhere").out
    assert "Or was the task 'copa' meant?" in command("evaluate", str(text_run), "cop").err
