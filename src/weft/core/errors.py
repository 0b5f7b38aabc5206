"""The exceptions weft raises.

WeftError
├── ConfigError       a recipe, flag or name is wrong                        exit code 2
├── DataError         a file is missing, empty or malformed                  exit code 2
├── CapabilityError   the model lacks what was requested                     exit code 2
├── MissingExtra      an optional package is not installed                   exit code 2
├── CheckpointError   a checkpoint is damaged, missing or of another recipe  exit code 1
├── NonFiniteError    a loss or gradient is NaN or infinite                  exit code 1
└── ProcessError      another process of the run ended or does not answer     exit code 1

A message names the thing, the value received, what is accepted, and what to do.
"""

from __future__ import annotations

import importlib
from types import ModuleType


class WeftError(Exception):
    exit_code = 1


class ConfigError(WeftError):
    exit_code = 2


class DataError(WeftError):
    exit_code = 2


class CapabilityError(WeftError):
    exit_code = 2


class MissingExtra(WeftError):
    exit_code = 2


class CheckpointError(WeftError):
    pass


class NonFiniteError(WeftError):
    pass


class ProcessError(WeftError):
    pass


def require(module: str, extra: str) -> ModuleType:
    """Import an optional package, or say which command installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise missing_extra(module.partition(".")[0], extra) from error


def missing_extra(package: str, extra: str) -> MissingExtra:
    from weft.core.installation import install_command  # only where something is missing

    return MissingExtra(f"{package} is not installed; install it with: {install_command(extra)}")
