"""The log is JSON that any reader takes, whatever the numbers."""

from __future__ import annotations

import json
import math

from weft.training.log import strict


def test_what_is_not_finite_becomes_null() -> None:
    line = {"step": 3, "train": {"loss": math.nan, "grad_norm": math.inf, "lr": 0.1}, "seconds": 1.5}
    told = json.loads(json.dumps(strict(line), allow_nan=False))
    assert told == {"step": 3, "train": {"loss": None, "grad_norm": None, "lr": 0.1}, "seconds": 1.5}
