"""An entry of a registry table: what is known of an object before it is imported."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    target: str
    """"module:attribute" of a config class, a recipe function, a study or a task."""
    year: int
    summary: str
