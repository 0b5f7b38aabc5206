"""TensorBoard, Weights & Biases and MLflow: each gets every number once, the samples and the page, and cannot end a run.

Of the two services stand-ins have the few calls that are used; the real clients, off line, where they are installed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import weft
from weft.core.errors import ConfigError, MissingExtra
from weft.core.registry import LOGGERS
from weft.runs.run import Run
from weft.training.hooks import Hook
from weft.training.loggers import base
from weft.training.trainer import Trainer

SMALL = {
    "model.hidden": [12],
    "model.latent": 2,
    "train.steps": 6,
    "train.batch": 8,
    "train.eval_every": 3,
    "train.log_every": 2,
    "train.save_every": 2,
    "train.device": "cpu",
}


class Stop(Hook):
    def __init__(self, after: int):
        self.after = after

    def after_step(self, trainer: Trainer) -> None:
        if trainer.step == self.after:
            raise KeyboardInterrupt


def train(folder: Path, log: str, stop: int = 0, **changes: Any) -> Run:
    pytest.importorskip("PIL")
    recipe = weft.recipe("vae/digits", {**SMALL, "train.log": log, **changes})
    return weft.train(recipe, out=folder, progress=False, extra=[Stop(stop)] if stop else [])


def steps(folder: Path) -> list[int]:
    return [json.loads(line)["step"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


# -- stand-ins ----------------------------------------------------------------------------------------------------------------


class FakeWandB:
    """As wandb, of which a run drops what is logged for a step that it has left behind."""

    class Error(Exception): ...

    def __init__(self) -> None:
        self.runs: dict[str, Any] = {}
        self.started: list[dict[str, Any]] = []

    def init(self, **about: Any) -> Any:
        self.started.append(about)
        name = about["id"] or f"made{len(self.runs)}"
        self.run = self.runs.setdefault(name, SimpleNamespace(id=name, step=0, rows={}, media={}, code=None))
        self.run.log, self.run.finish = self.log, self.finish
        return self.run

    def log(self, values: dict[str, Any], step: int | None = None) -> None:
        run = self.run
        step = run.step if step is None else step
        if step >= run.step:
            run.step = step
            media = {name: value for name, value in values.items() if not isinstance(value, float)}
            run.media |= media
            run.rows.setdefault(step, {}).update({name: value for name, value in values.items() if name not in media})

    def finish(self, exit_code: int) -> None:
        self.run.code = exit_code

    @staticmethod
    def Html(page: str, inject: bool) -> tuple[str, str]:
        return "html", page

    @staticmethod
    def Image(picture: Any) -> tuple[str, Any]:
        return "image", picture.size


class FakeMLflow:
    """As mlflow, whose store keeps everything that it is given."""

    def __init__(self) -> None:
        self.exceptions = SimpleNamespace(MlflowException=type("MlflowException", (Exception,), {}))
        self.entities = SimpleNamespace(Param=lambda key, value: (key, value), Metric=self.metric)
        self.runs: dict[str, Any] = {}
        self.experiments: list[str] = []

    def MlflowClient(self) -> FakeMLflow:
        return self

    @staticmethod
    def metric(key: str, value: float, timestamp: int, step: int) -> Any:
        return SimpleNamespace(key=key, value=value, step=step)

    def get_experiment_by_name(self, name: str) -> Any:
        return SimpleNamespace(experiment_id=name) if name in self.experiments else None

    def create_experiment(self, name: str) -> str:
        self.experiments.append(name)
        return name

    def create_run(self, experiment: str, run_name: str) -> Any:
        name = f"id{len(self.runs)}"
        self.runs[name] = SimpleNamespace(name=run_name, metrics=[], params={}, artifacts={}, status="RUNNING")
        return SimpleNamespace(info=SimpleNamespace(run_id=name))

    def update_run(self, run: str, status: str) -> None:
        self.runs[run].status = status

    set_terminated = update_run

    def get_metric_history(self, run: str, key: str) -> list[Any]:
        return [metric for metric in self.runs[run].metrics if metric.key == key]

    def log_batch(self, run: str, metrics: Any = (), params: Any = ()) -> None:
        assert len(params) <= 100 and all(len(value) <= 500 for _, value in params)
        self.runs[run].metrics += metrics
        self.runs[run].params |= dict(params)

    def log_text(self, run: str, text: str, name: str) -> None:
        self.runs[run].artifacts[name] = text

    def log_image(self, run: str, picture: Any, name: str) -> None:
        self.runs[run].artifacts[name] = picture.size

    def log_artifact(self, run: str, path: str) -> None:
        self.runs[run].artifacts[Path(path).name] = Path(path).read_text()


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> FakeWandB:
    monkeypatch.setitem(sys.modules, "wandb", fake := FakeWandB())  # type: ignore[arg-type]
    return fake


@pytest.fixture
def mlflow(monkeypatch: pytest.MonkeyPatch) -> FakeMLflow:
    monkeypatch.setitem(sys.modules, "mlflow", fake := FakeMLflow())  # type: ignore[arg-type]
    return fake


# -- what each of them gets ---------------------------------------------------------------------------------------------------


def test_wandb_gets_numbers_settings_samples_and_the_page(wandb: FakeWandB, tmp_path: Path) -> None:
    run = train(tmp_path / "runs" / "mine", "wandb")
    [about], [there] = wandb.started, wandb.runs.values()
    assert (about["project"], about["name"], about["resume"]) == ("weft", "mine", "allow")
    assert about["config"]["train"]["steps"] == 6
    assert list(there.rows) == steps(run.path)
    assert there.rows[6]["validation/loss"] == run.history["validation/loss"][-1]
    assert there.media["samples"][0] == "image"
    assert "</html>" in there.media["report"][1]
    assert there.code == 0


def test_wandb_is_given_an_interrupted_run_again(wandb: FakeWandB, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "run", "wandb", stop=5)
    [there] = wandb.runs.values()
    assert there.code == 1
    run = train(tmp_path / "run", "wandb")
    assert len(wandb.runs) == 1 and wandb.started[1]["id"] == there.id
    assert list(there.rows) == steps(run.path)
    assert there.code == 0


def test_mlflow_gets_numbers_settings_samples_and_the_page(mlflow: FakeMLflow, tmp_path: Path) -> None:
    run = train(tmp_path / "runs" / "deep" / "mine", "mlflow")
    [there] = mlflow.runs.values()
    assert (mlflow.experiments, there.name, there.status) == (["weft"], "deep/mine", "FINISHED")
    assert there.params["train.steps"] == "6" and there.params["model"] == "vae"
    assert [metric.step for metric in there.metrics if metric.key == "step"] == steps(run.path)
    assert [m.value for m in there.metrics if m.key == "validation/loss"] == [v for v in run.history["validation/loss"] if v == v]
    assert there.artifacts.keys() == {"samples/6.png", "report.html"}


def test_mlflow_is_given_an_interrupted_run_again_and_each_step_once(mlflow: FakeMLflow, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "run", "mlflow", stop=5)
    [there] = mlflow.runs.values()
    assert there.status == "FAILED"
    run = train(tmp_path / "run", "mlflow")
    assert len(mlflow.runs) == 1
    assert [metric.step for metric in there.metrics if metric.key == "step"] == steps(run.path)
    assert there.status == "FINISHED"


def test_tensorboard_names_the_run_by_its_folder_and_gets_samples(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_multiplexer import EventMultiplexer

    run = train(tmp_path / "runs" / "mine", "tensorboard")
    found = EventMultiplexer().AddRunsFromDirectory(str(tmp_path / "runs")).Reload()
    assert list(found.Runs()) == ["mine"]
    assert [event.step for event in found.Scalars("mine", "train/loss")] == [1, 2, 4, 6]
    [image] = found.Images("mine", "samples")
    assert (image.step, image.encoded_image_string) == (6, run.samples[0].png)


def test_tensorboard_shows_texts_as_they_are(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    logger = weft.core.registry.find("loggers", "tensorboard")()
    logger.open(tmp_path, {}, 0)
    logger.text(3, "samples", "*no* markup\n# here")
    logger.close(ended=True)
    found = EventAccumulator(str(tmp_path))
    found.Reload()
    [event] = found.Tensors("samples/text_summary") if "samples/text_summary" in found.Tags()["tensors"] else found.Tensors("samples")
    assert event.tensor_proto.string_val[0] == b"    *no* markup\n    # here"


# -- choosing them, and what goes wrong ---------------------------------------------------------------------------------------


def test_several_at_once_or_none(wandb: FakeWandB, mlflow: FakeMLflow, tmp_path: Path) -> None:
    train(tmp_path / "both", "wandb,mlflow")
    assert len(wandb.runs) == len(mlflow.runs) == 1
    train(tmp_path / "none", "none")
    assert not list((tmp_path / "none").glob("events*")) and not (tmp_path / "none" / base.IDENTITIES).exists()


def test_another_logger_does_not_make_another_run(wandb: FakeWandB, tmp_path: Path) -> None:
    train(tmp_path / "run", "none", **{"train.steps": 3})
    train(tmp_path / "run", "wandb")
    [there] = wandb.runs.values()
    assert list(there.rows) == [4, 6]


def test_a_name_that_nobody_has(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no logger is called 'wandbb'; did you mean 'wandb'"):
        train(tmp_path / "run", "wandbb")


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_a_missing_client_is_named_before_anything_is_made(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match=rf"{name} is not installed; install it with: .*\[{name}\]"):
        train(tmp_path / "run", name)
    assert not (tmp_path / "run").exists()


def test_a_service_that_cannot_be_reached_is_one_sentence(wandb: FakeWandB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**_: Any) -> None:
        raise wandb.Error("no API key\nconfigured")

    monkeypatch.setattr(wandb, "init", init)
    with pytest.raises(ConfigError, match=r"--train\.log wandb: no API key configured; WANDB_MODE=offline keeps"):
        train(tmp_path / "run", "wandb")


def test_a_service_that_fails_later_does_not_end_training(
    wandb: FakeWandB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def log(values: Any, step: int) -> None:
        raise RuntimeError("the network\nis gone")

    monkeypatch.setattr(wandb, "log", log)
    run = train(tmp_path / "run", "wandb,tensorboard")
    assert run.trainer.step == 6 and list((tmp_path / "run").glob("events*"))
    assert [record.getMessage() for record in caplog.records] == ["WandB: RuntimeError: the network is gone; training goes on without it"]


# -- the real clients, off line -------------------------------------------------------------------------------------------------


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"{(tmp_path / 'store').as_uri()}")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in LOGGERS if name != "tensorboard"])
@pytest.mark.usefixtures("offline")
def test_the_real_client_takes_a_run_and_its_continuation(name: str, tmp_path: Path) -> None:
    client = pytest.importorskip(name)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "run", name, stop=5)
    known = base.identity(tmp_path / "run", name)
    run = train(tmp_path / "run", name)
    assert known and base.identity(run.path, name) == known
    if name == "mlflow":
        found = client.MlflowClient()
        assert [metric.step for metric in found.get_metric_history(known, "train/loss")] == [1, 2, 4, 6]
        assert found.get_run(known).info.status == "FINISHED"
        assert {file.path for file in found.list_artifacts(known)} == {"samples", "report.html"}
    else:
        assert len(list((run.path / "wandb").glob(f"offline-run-*-{known}"))) == 2
