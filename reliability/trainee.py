"""The process the campaigns interrupt: `weft.train` of a recipe with changes, ending as the command line does.

    python reliability/trainee.py gpt/quickstart RUN '{"train.steps": 300}'

Three changes are not the recipe's: "largest_file" limits the size of files, "user" gives up the rights of the superuser, and "pause"
waits so many seconds after each step, as a fast machine would have ended before anybody could interrupt it.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import sys
import time
from dataclasses import dataclass

import torch

import weft
from weft.core.errors import WeftError
from weft.training.hooks import Hook
from weft.training.trainer import Trainer


@dataclass
class Pause(Hook):
    seconds: float

    def after_step(self, trainer: Trainer) -> None:
        time.sleep(self.seconds)


def main() -> int:
    name, folder, changes = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    torch.set_num_threads(1)
    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    limits = {limit: changes.pop(limit, 0) for limit in ("largest_file", "user", "pause")}
    recipe, train = weft.recipe(name, changes), weft.train  # imported while everything may still be read
    if size := limits["largest_file"]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    if user := limits["user"]:
        os.setuid(user)
    try:
        run = train(recipe, folder, extra=[Pause(limits["pause"])])
    except WeftError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 128 + run.signals.received if run.signals.received else 0


if __name__ == "__main__":
    sys.exit(main())
