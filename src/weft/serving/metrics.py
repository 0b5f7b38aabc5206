"""What the server counts, in the text format that Prometheus reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

BOUNDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""Upper ends, in seconds, of the classes into which durations are sorted."""


class Durations:
    """A histogram."""

    def __init__(self) -> None:
        self.counts = [0] * len(BOUNDS)
        self.total, self.number = 0.0, 0

    def add(self, seconds: float) -> None:
        self.total += seconds
        self.number += 1
        for place, bound in enumerate(BOUNDS):
            self.counts[place] += seconds <= bound

    def lines(self, name: str, meaning: str) -> list[str]:
        classes = [f'{name}_bucket{{le="{bound:g}"}} {count}' for bound, count in zip(BOUNDS, self.counts, strict=True)]
        ends = [f'{name}_bucket{{le="+Inf"}} {self.number}', f"{name}_sum {self.total:.6f}", f"{name}_count {self.number}"]
        return [*heading(name, meaning, "histogram"), *classes, *ends]


class Metrics:
    """Touched by the event loop only."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()
        """By route and status."""
        self.prompt_tokens: Counter[str] = Counter()
        self.answer_tokens: Counter[str] = Counter()
        """By model."""
        self.until_first, self.whole = Durations(), Durations()

    def lines(self) -> list[str]:
        requests = {f'route="{quoted(route)}",status="{status}"': count for (route, status), count in self.requests.items()}
        return [
            *samples("weft_requests_total", "Requests answered.", "counter", requests),
            *samples("weft_prompt_tokens_total", "Tokens of prompts.", "counter", of_models(self.prompt_tokens)),
            *samples("weft_generation_tokens_total", "Tokens made.", "counter", of_models(self.answer_tokens)),
            *self.until_first.lines("weft_time_to_first_token_seconds", "From the request to its first token."),
            *self.whole.lines("weft_request_duration_seconds", "From the request to its last token."),
        ]


def heading(name: str, meaning: str, kind: str) -> list[str]:
    return [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]


def samples(name: str, meaning: str, kind: str, values: dict[str, float] | dict[str, int]) -> list[str]:
    return [*heading(name, meaning, kind), *(f"{name}{{{labels}}} {value}" for labels, value in values.items())]


def of_models(values: dict[str, int] | Iterable[tuple[str, int]]) -> dict[str, int]:
    return {f'model="{quoted(name)}"': value for name, value in dict(values).items()}


def quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
