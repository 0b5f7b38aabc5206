"""What was wrong with data: counted, and the first few named with their place."""

from __future__ import annotations

from dataclasses import dataclass, field

NAMED = 10
"""Places that are kept for each kind of problem."""


@dataclass
class Problems:
    """Rows, files or bytes that could not be used, each counted and the first few named with their place."""

    counts: dict[str, int] = field(default_factory=dict)
    places: dict[str, list[str]] = field(default_factory=dict)

    def add(self, reason: str, place: str, number: int = 1) -> None:
        self.counts[reason] = self.counts.get(reason, 0) + number
        named = self.places.setdefault(reason, [])
        if len(named) < NAMED:
            named.append(place)

    def include(self, other: Problems) -> None:
        """Those of another part of the same data besides."""
        for reason, count in other.counts.items():
            for place in other.places[reason]:
                self.add(reason, place, 0)
            self.counts[reason] += count

    def told(self) -> str:
        """The same behind an error, in brackets; nothing where there is nothing."""
        return f" ({'; '.join(self.lines())})" if self.counts else ""

    def lines(self) -> list[str]:
        """One sentence per kind of problem."""
        return [
            f"{count} × {reason}: {', '.join(self.places[reason][:3])}{', …' if count > 3 else ''}" for reason, count in self.counts.items()
        ]
