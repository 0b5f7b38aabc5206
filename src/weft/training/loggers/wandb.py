"""Weights & Biases. Where the run goes is said in its own way: WANDB_PROJECT, WANDB_ENTITY, WANDB_MODE=offline, `wandb login`."""

from __future__ import annotations

import io
import os
from html import escape
from pathlib import Path
from typing import Any

from weft.core.errors import ConfigError, require
from weft.training.loggers.base import Logger, identity, remember, run_name


class WandB(Logger):
    """A run of the same name as the folder; continued, it is the same run there."""

    def __init__(self) -> None:
        self.wandb: Any = require("wandb", "wandb")
        self.run: Any = None

    def open(self, run: Path, recipe: dict[str, Any], step: int) -> None:
        about = {
            "project": os.environ.get("WANDB_PROJECT", "weft"),
            "name": os.environ.get("WANDB_NAME", run_name(run)),
            "id": identity(run, "wandb") or None,
            "resume": "allow",
            "dir": str(run),
            "config": recipe,
        }
        try:
            self.run = self.wandb.init(**about)
        except (self.wandb.Error, OSError) as error:
            said = " ".join(str(error).split())
            raise ConfigError(f"--train.log wandb: {said.rstrip('.')}; WANDB_MODE=offline keeps the run on this machine") from error
        remember(run, "wandb", self.run.id)

    def numbers(self, step: int, values: dict[str, float]) -> None:
        self.run.log(values, step=step)

    def text(self, step: int, name: str, text: str) -> None:
        self.run.log({name: self.wandb.Html(f"<pre>{escape(text)}</pre>", inject=False)}, step=step)

    def image(self, step: int, name: str, png: bytes) -> None:
        pillow: Any = require("PIL.Image", "images")
        self.run.log({name: self.wandb.Image(pillow.open(io.BytesIO(png)))}, step=step)

    def page(self, name: str, path: Path) -> None:
        self.run.log({name: self.wandb.Html(path.read_text(encoding="utf-8"), inject=False)})

    def close(self, ended: bool) -> None:
        self.run.finish(exit_code=0 if ended else 1)
