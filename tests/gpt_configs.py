"""GPTs with some of the settings of a speedrun: all that is not named is as in GPT-2."""

from __future__ import annotations

import dataclasses
from typing import Any

from weft.models.language.gpt import GPTConfig
from weft.models.language.speedrun_gpt import SpeedrunGPTConfig

ADDED = {field.name for field in dataclasses.fields(SpeedrunGPTConfig)} - {field.name for field in dataclasses.fields(GPTConfig)}


def gpt_config(**settings: Any) -> GPTConfig:
    if not ADDED & settings.keys():
        return GPTConfig(**settings)
    plain = {field.name: field.default for field in dataclasses.fields(GPTConfig)}
    return SpeedrunGPTConfig(**{**plain, **dict.fromkeys(ADDED, False), **settings})
