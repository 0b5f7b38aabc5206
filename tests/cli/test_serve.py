"""`weft serve`: flags, names, and what it refuses; the server itself is tested in tests/serving."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import weft
from tests.cli.conftest import Outcome
from weft.cli import serve
from weft.core import errors
from weft.core.errors import ConfigError
from weft.core.installation import install_command
from weft.kernels.int8_linear import Int8Linear

process = pytest.importorskip("weft.serving.process", exc_type=ImportError)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What would be served, instead of serving it."""
    found: list[Any] = []

    def instead(service: Any, listening: Any, *, grace: float, ready: Callable[[], None]) -> int:
        listening.close()
        found.append(service)
        ready()
        return int(signal.SIGTERM)

    monkeypatch.setattr(process, "serve", instead)
    monkeypatch.delenv("WEFT_API_KEY", raising=False)
    return found


def test_flags_become_limits_keys_and_names(
    command: Callable[..., Outcome], text_run: Path, served: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEFT_API_KEY", "c")
    flags = [
        "--port",
        "0",
        "--api-key",
        "a",
        "--api-key=b",
        "--slots",
        "3",
        "--max-queue",
        "5",
        "--max-body-bytes",
        "99",
        "--timeout",
        "2.5",
        "--device",
        "cpu",
        "--precision",
        "int8",
    ]
    done = command("serve", *flags, str(text_run), f"{text_run}@last", "--max-tokens", "7", "--name", "best", "--name", "last")
    assert done.code == 0, done.err
    assert "serving best, last at http://127.0.0.1:" in done.out
    service = served[0]
    assert list(service.models) == ["best", "last"]
    assert service.keys == ("a", "b", "c")
    assert (service.limits.body_bytes, service.limits.max_tokens, service.limits.timeout) == (99, 7, 2.5)
    assert service.models["best"].worker.capacity == 8
    assert isinstance(service.models["best"].model.head, Int8Linear)


def test_a_model_is_called_like_its_folder(command: Callable[..., Outcome], text_run: Path, served: list[Any]) -> None:
    assert command("serve", str(text_run), "--port", "0").code == 0
    assert list(served[0].models) == ["fox"]
    assert served[0].keys == ()


def test_other_machines_without_a_key_are_warned_of(command: Callable[..., Outcome], text_run: Path, served: list[Any]) -> None:
    assert "no --api-key is set" in command("serve", str(text_run), "--port", "0", "--host", "0.0.0.0").err
    assert "no --api-key is set" not in command("serve", str(text_run), "--port", "0", "--host", "0.0.0.0", "--api-key", "x").err


def test_without_a_checkpoint_the_quickstarts_model_is_trained(
    command: Callable[..., Outcome], text_run: Path, served: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def train(system: Any, people: Any, options: Any, say: Any, hooks: Any) -> list[Path]:
        asked.append((system.name, people.people, options.out, len(hooks())))
        say("training")
        return [text_run]

    monkeypatch.setattr("weft.projects.birthplace.quickstart.train_stages", train)
    done = command("serve", "--port", "0")
    assert done.code == 0, done.err
    assert "training" in done.out
    assert asked == [("pretrained + finetuned", 500, "runs/quickstart", 1)]
    assert list(served[0].models) == ["quickstart"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--slots", "0"], "--slots must be at least 1, not 0"),
        (["--timeout", "0"], "--timeout must be above 0"),
        (["--timeout", "nan"], "--timeout must be above 0"),
        (["--max-queue", "-1"], "--max-queue must be at least 0"),
        (["--api-key"], "--api-key: a value is missing"),
        (["--port", "99999"], "cannot listen there"),
        (["no/such/run"], "no checkpoint here"),
        (["a", "b", "--name", "x"], "1 names for 2 checkpoints"),
        (["a/run", "b/run"], "two models would be called 'run'"),
    ],
)
def test_what_is_refused(command: Callable[..., Outcome], served: list[Any], words: list[str], said: str) -> None:
    done = command("serve", *([] if "--port" in words else ["--port", "0"]), *words)
    assert done.code in (1, 2)
    assert said in done.err
    assert not served


def test_a_missing_extra_prints_its_install_line(command: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(module: str, extra: str) -> Any:
        raise errors.missing_extra(module, extra)

    monkeypatch.setattr(serve, "require", missing)
    done = command("serve", "runs/x")
    assert (done.code, done.err) == (2, f"weft: fastapi is not installed; install it with: {install_command('serve')}\n")


def test_a_model_without_text_or_images_is_refused(command: Callable[..., Outcome], served: list[Any], tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    weft.train(weft.recipe("gan/ring", {"train.steps": 1, "train.eval_every": 0}), out=tmp_path / "ring")
    done = command("serve", str(tmp_path / "ring"), "--port", "0")
    assert done.code == 2
    assert "ring: GAN has neither text nor images to serve" in done.err


def test_flags_that_may_be_repeated() -> None:
    assert serve.taken("--name", ["a", "--name", "x", "b", "--name=y", "--names", "z"]) == (["a", "b", "--names", "z"], ["x", "y"])
    with pytest.raises(ConfigError):
        serve.taken("--name", ["--name="])
