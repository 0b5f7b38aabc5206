"""Problems of input data: counted by kind, the first few listed with file and line."""

from __future__ import annotations

from dataclasses import dataclass, field

LISTED = 10
"""Locations that are kept for each kind of problem."""


@dataclass(kw_only=True)
class Problems:
    """Counts of rows, files or bytes that could not be used, with the locations of the first few of each kind."""

    encoding: str = ""
    """Encoding of the files, as the user named it; "" to detect it."""
    counts: dict[str, int] = field(default_factory=dict)
    places: dict[str, list[str]] = field(default_factory=dict)

    def add(self, reason: str, location: str, number: int = 1) -> None:
        self.counts[reason] = self.counts.get(reason, 0) + number
        locations = self.places.setdefault(reason, [])
        if len(locations) < LISTED:
            locations.append(location)

    def include(self, other: Problems) -> None:
        """Add the problems of another part of the data."""
        for reason, count in other.counts.items():
            for location in other.places[reason]:
                self.add(reason, location, 0)
            self.counts[reason] += count

    def summary(self) -> str:
        """All problems in brackets, to append to an error message; empty where there are none."""
        return f" ({'; '.join(self.lines())})" if self.counts else ""

    def lines(self) -> list[str]:
        """One sentence per kind of problem."""
        return [
            f"{count} × {reason}: {', '.join(self.places[reason][:3])}{', …' if count > 3 else ''}" for reason, count in self.counts.items()
        ]
