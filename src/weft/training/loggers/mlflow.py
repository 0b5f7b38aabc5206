"""MLflow. Where the run goes is said in its own way: MLFLOW_TRACKING_URI (a folder, a database or a server), MLFLOW_EXPERIMENT_NAME."""

from __future__ import annotations

import io
import os
import time
from pathlib import Path
from typing import Any

from weft.core import config
from weft.core.errors import ConfigError, require
from weft.training.loggers.base import Logger, identity, remember, run_name

AT_ONCE, LONGEST = 100, 500
"""Settings that MLflow takes in one call, and characters of one."""


class MLflow(Logger):
    """A run of the same name as the folder; continued, it is the same run there, and each step is in it once."""

    def __init__(self) -> None:
        self.mlflow: Any = require("mlflow", "mlflow")
        self.client: Any = None
        self.id, self.last = "", 0

    def open(self, run: Path, recipe: dict[str, Any], step: int) -> None:
        try:
            self.client = self.mlflow.MlflowClient()
            self.id = identity(run, "mlflow")
            if self.id:
                self.last = max((metric.step for metric in self.client.get_metric_history(self.id, "step")), default=0)
                self.client.update_run(self.id, status="RUNNING")
            else:
                self.id = self.begin(run, recipe)
                remember(run, "mlflow", self.id)
        except (self.mlflow.exceptions.MlflowException, OSError) as error:
            said = " ".join(str(error).split())
            raise ConfigError(f"--train.log mlflow: {said}; name another store or server in MLFLOW_TRACKING_URI") from error

    def begin(self, run: Path, recipe: dict[str, Any]) -> str:
        """A new run with the recipe's settings; its name there."""
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "weft")
        found = self.client.get_experiment_by_name(name)
        experiment = found.experiment_id if found else self.client.create_experiment(name)
        made: str = self.client.create_run(experiment, run_name=run_name(run)).info.run_id
        param = self.mlflow.entities.Param
        settings = [param(key, str(value)[:LONGEST]) for key, value in config.flat(recipe).items()]
        for first in range(0, len(settings), AT_ONCE):
            self.client.log_batch(made, params=settings[first : first + AT_ONCE])
        return made

    def numbers(self, step: int, values: dict[str, float]) -> None:
        if step <= self.last:  # logged before the run was interrupted
            return
        now, metric = int(1000 * time.time()), self.mlflow.entities.Metric
        self.client.log_batch(self.id, metrics=[metric(name, value, now, step) for name, value in {**values, "step": step}.items()])
        self.last = step

    def text(self, step: int, name: str, text: str) -> None:
        self.client.log_text(self.id, text, f"{name}/{step}.txt")

    def image(self, step: int, name: str, png: bytes) -> None:
        pillow: Any = require("PIL.Image", "images")
        self.client.log_image(self.id, pillow.open(io.BytesIO(png)), f"{name}/{step}.png")

    def page(self, name: str, path: Path) -> None:
        self.client.log_artifact(self.id, str(path))

    def close(self, ended: bool) -> None:
        self.client.set_terminated(self.id, "FINISHED" if ended else "FAILED")
