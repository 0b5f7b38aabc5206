"""`weft data`: shards are built, shown, verified and trained from by commands alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome
from tests.data.text.test_python_corpus import packages
from weft.cli import data
from weft.data.shards import builder

Command = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything in this process."""
    monkeypatch.setattr(data, "cores", lambda: 0)


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    lines = [json.dumps({"body": f"Text number {number}: {'the fox runs ' * (number % 9 + 1)}"}) for number in range(300)]
    path.write_text("\n".join([*lines, "broken", lines[0]]))
    return path


def test_help_and_wrong_use(command: Command, tmp_path: Path, rows: Path) -> None:
    assert command("data", "--help").out.startswith("usage: weft data build INPUT")
    assert command("data").code == 2
    assert "did you mean 'build'" in command("data", "buidl").err
    assert "--piece-bytes" in command("data", "build", "--help").out
    for words, message in (
        (["build"], "expected INPUT"),
        (["build", str(rows)], "a folder with --out"),
        (["build", str(rows), "--out", "x"], "--tokenizer"),
        (["build", str(rows), "--out", "x", "--tokenizer", "nothing"], "nothing is no file or folder"),
        (["build", str(rows), "--out", "x", "--tokenizer", str(tmp_path)], "holds no tokenizer"),
        (["build", str(rows), "--out", "x", "--tokenizer", "bytes", "--shard-tokens", "0"], "--shard-tokens must be at least 1"),
        (["show", str(tmp_path)], "is no folder of shards"),
        (["verify", "nowhere"], "is no folder of shards"),
    ):
        done = command("data", *words)
        assert done.code == 2 and message in done.err, words
        assert done.err.count("\n") == 1
    assert not Path("x").exists()


def test_build_show_verify_train(command: Command, tmp_path: Path, rows: Path) -> None:
    out = str(tmp_path / "shards")
    words = ["--field", "body", "--tokenizer", "byte_bpe", "--vocabulary", "300", "--dedupe"]
    built = command("data", "build", str(rows), "--out", out, *words)
    assert built.code == 0, built.err
    assert "300 documents" in built.out and "1 duplicates left out" in built.out
    assert f"1 × rows that are not JSON, left out: {rows}:301" in built.out
    assert f"weft train gpt/shards --data.path {out}" in built.out
    shown = command("data", "show", out, "--documents", "2")
    assert "document 0," in shown.out and "document 150," in shown.out and "Text number 150: the fox" in shown.out
    assert command("data", "verify", out).out.endswith("shards are whole\n")
    every = command("data", "show", out, "--documents", "700", "--characters", "20").out
    assert [f"document {number}, " in every for number in range(301)] == [True] * 300 + [False]
    again = command("data", "build", str(rows), "--out", str(tmp_path / "other"), "--field", "body", "--tokenizer", out)
    assert again.code == 0, again.err
    flags = "--data.context 16 --data.validation 0.1 --model.layers 1 --model.heads 2 --model.width 16 --train.steps 4 --train.batch 4"
    small = [*flags.split(), "--train.micro_batch", "0", "--train.eval-every", "2", "--optim.schedule.warmup", "1"]
    mixed = ["--data.path", out, str(tmp_path / "other"), "--data.weights", "3", "1"]
    run = tmp_path / "run"
    trained = command("train", "gpt/shards", "--out", str(run), *mixed, *small)
    assert trained.code == 0, trained.err
    assert "epochs" in trained.out and "75.00 %" in trained.out
    shares = json.loads((run / "environment.json").read_bytes())["shares"]
    assert sum(share["drawn"] for share in shares) == 4 * 4 * 16
    assert [share["epochs"] for share in shares] == [share["drawn"] / share["tokens"] for share in shares]
    evaluated = command("evaluate", str(run), "--data.path", out)
    assert evaluated.code == 0, evaluated.err
    assert "bits_per_byte" in evaluated.out
    path = tmp_path / "shards" / "shard-00000.bin"
    path.write_bytes(b"\0" + path.read_bytes()[1:])
    damaged = command("data", "verify", out)
    assert damaged.code == 1
    assert damaged.out.count("\n") == 1 and "shard-00000.bin: has the sha256" in damaged.out
    path.write_bytes(b"\xff" * path.stat().st_size)
    for words in (["train", "gpt/shards", "--out", str(tmp_path / "second"), "--data.path", out, *small], ["data", "show", out]):
        refused = command(*words)
        assert refused.code == 2 and "shard-00000.bin: is damaged, it holds the token 65535" in refused.err
        assert refused.err.count("\n") == 1 and f"weft data verify {out}" in refused.err


def test_a_build_inside_its_input_goes_on(command: Command, tmp_path: Path, rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["data", "build", str(tmp_path), "--field", "body", "--tokenizer", "byte_bpe", "--vocabulary", "300", "--out"]
    with monkeypatch.context() as patch:
        patch.setattr(builder.ShardBuilder, "merge", lambda *given: sys.exit(9))
        assert command(*words, str(tmp_path / "shards")).code == 9
    assert (tmp_path / "shards" / "sources.jsonl").exists()
    (tmp_path / "shards" / "sources.jsonl").write_text(json.dumps({"body": "quick brown " * 100}) + "\n")  # as a build leaves it later
    done = command(*words, str(tmp_path / "shards"))
    assert "301 documents" in done.out, done.err


def test_tokenizers_of_runs_and_of_others(command: Command, tmp_path: Path, text_run: Path, rows: Path) -> None:
    text = tmp_path / "fox.txt"
    text.write_text("the lazy dog\nand runs away.")
    done = command("data", "build", str(text), "--out", str(tmp_path / "a"), "--split", "lines", "--tokenizer", str(text_run))
    assert "2 documents" in done.out, done.err
    command("data", "build", str(rows), "--out", str(tmp_path / "b"), "--field", "body", "--tokenizer", "byte_bpe", "--vocabulary", "300")
    held = json.loads((tmp_path / "b" / "tokenizer.json").read_bytes())
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "tokenizer.json").write_text(json.dumps(held["tokenizer"]))
    for number, name in enumerate(("foreign", "foreign/tokenizer.json", "b/tokenizer.json")):
        out = tmp_path / f"c{number}"
        done = command("data", "build", str(rows), "--out", str(out), "--field", "body", "--tokenizer", str(tmp_path / name))
        assert done.code == 0, done.err
        assert (out / "shard-00000.bin").read_bytes() == (tmp_path / "b" / "shard-00000.bin").read_bytes()


LIMITED = """
import resource, sys
from weft.__main__ import run
code = run(sys.argv[1:])
own = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print("peak", max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(code)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
def test_memory_does_not_grow_with_the_input(tmp_path: Path) -> None:
    """One document of 60 MB: no process takes much more than what Python and numpy take (about 45 MB)."""
    path = tmp_path / "large.txt"
    line = b"a line of a text that is far too long to be held in memory as a whole\n"
    path.write_bytes(line * (60_000_000 // len(line)))
    words = ["data", "build", str(path), "--out", str(tmp_path / "out"), "--tokenizer", "bytes", "--workers", "1"]
    done = subprocess.run([sys.executable, "-c", LIMITED, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) < 100_000, "kilobytes"
    assert sum(path.stat().st_size for path in (tmp_path / "out").glob("*.bin")) > 59_000_000


def test_python_files_become_a_corpus(command: Command, tmp_path: Path) -> None:
    out = str(tmp_path / "corpus")
    done = command(
        "data", "python", "--out", out, "--folder", str(packages(tmp_path / "in")), "--held-out", "0.3", "--max-package-share", "0.5"
    )
    assert done.code == 0, done.err
    assert "train: " in done.out and "held: " in done.out and f"weft data build {out}/train.jsonl" in done.out
    assert "a folder with --out" in command("data", "python").err
