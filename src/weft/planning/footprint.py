"""The work of a training step as a function of layers and examples, from a few small traces.

Layers are alike, and so are examples: bytes and FLOPs are f + a L + b B + c L B. Four traces, of few and of more layers, with some
and with more examples, give the four numbers; a model without a number of layers is traced whole, with L = 1. With many
examples the most memory is needed where the backward pass begins, before there are gradients; these are added later (memory.py).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from weft.core.errors import ConfigError
from weft.planning.count import Counts, count
from weft.planning.fake_tensors import build, fake_tensors
from weft.planning.subject import Subject
from weft.planning.trace import Work, trace
from weft.training.execution_options import head_size, refused

SOME, MANY = 32, 64
"""Examples of the traces."""


def shallow(subject: Subject) -> tuple[int, int]:
    """Layers of the traces; even where layers of two kinds take turns. (0, 0) for a model that is traced whole."""
    layers = getattr(subject.model, "layers", 0)
    pair = (2, 4) if getattr(subject.model, "sliding_window", 0) else (1, 2)
    if not isinstance(layers, int) or layers <= pair[1]:
        return 0, 0
    try:
        with fake_tensors():
            build(thinner(subject, pair[0]))
    except ConfigError:  # a model that has a kind of layer only once, such as a Perceiver
        return 0, 0
    return pair


@dataclass(frozen=True)
class LinearFit:
    fixed: float
    per_layer: float
    per_example: float
    per_both: float

    def at(self, layers: float, examples: float) -> float:
        return self.fixed + self.per_layer * layers + (self.per_example + self.per_both * layers) * examples


@dataclass(frozen=True)
class Footprint:
    counts: Counts
    layers: int
    """Blocks that can be cut apart; 1 where the model is taken whole."""
    growth: dict[str, LinearFit]
    """Of each number of a trace."""
    compiled: bool
    """Whether the compiler's graphs could be read; otherwise memory is what plain autograd keeps."""
    logits: int = 0
    """Logits of an example that are made in chunks; 0 where they are made whole, and so among the traced."""

    def work(self, examples: float, layers: float = 0) -> Work:
        return Work(**{name: growth.at(layers or self.layers, examples) for name, growth in self.growth.items()})


def measure(subject: Subject, compiled: bool = True) -> Footprint:
    """From traces of the compiled step or, where a step is not compiled, from what plain autograd keeps."""
    counts, depths = counts_of(subject), shallow(subject)
    layers: int = subject.model.layers if depths[1] else 1  # type: ignore[attr-defined]
    if not compiled:
        return Footprint(counts, 1, plain(counts, subject), False)
    grid = {(depth, n): traced(subject, depth, n) for depth in set(depths) for n in (SOME, MANY)}
    if any(work is None for work in grid.values()):
        return Footprint(counts, 1, plain(counts, subject), False)
    growth = {f.name: fit({place: getattr(work, f.name) for place, work in grid.items()}, depths) for f in dataclasses.fields(Work)}
    return Footprint(counts, layers, growth, True, chunked(subject))


def fit(values: dict[tuple[int, int], float], depths: tuple[int, int]) -> LinearFit:
    """The four numbers from values at (layers, examples)."""
    few, more = depths
    slopes = {depth: (values[depth, MANY] - values[depth, SOME]) / (MANY - SOME) for depth in depths}
    starts = {depth: values[depth, SOME] - slope * SOME for depth, slope in slopes.items()}
    if few == more:
        return LinearFit(starts[few], 0.0, slopes[few], 0.0)
    both, layer = ((part[more] - part[few]) / (more - few) for part in (slopes, starts))
    return LinearFit(starts[few] - layer * few, layer, slopes[few] - both * few, both)


def thinner(subject: Subject, layers: int) -> Subject:
    return dataclasses.replace(subject, model=dataclasses.replace(subject.model, layers=layers)) if layers else subject  # type: ignore[call-arg]


def traced(subject: Subject, layers: int, examples: int) -> Work | None:
    """The work of so many layers and examples; None where the compiler cannot read the step."""
    small = thinner(subject, layers)
    try:
        with fake_tensors():
            model, objective = build(small, gpu=True)
            return trace(model, objective, small.make(examples)) if not refused(model, objective, "compile") else None
    except (RuntimeError, NotImplementedError, TypeError, AssertionError):  # numbers are asked for where there are none
        return None


def chunked(subject: Subject) -> int:
    with fake_tensors():
        model, objective = build(subject, gpu=True)
    return head_size(model) * subject.tokens if getattr(objective, "logits_backend", "whole") == "chunked" else 0


def counts_of(subject: Subject) -> Counts:
    """Exact counts; of a deep model from two shallow ones, as everything grows by the same amount with each layer."""
    few, more = shallow(subject)
    if not more:
        return count(subject)
    layers: int = subject.model.layers  # type: ignore[attr-defined]
    small, large = count(thinner(subject, few)), count(thinner(subject, more))

    def grown(a: Any, b: Any) -> Any:
        if isinstance(a, dict):
            return {name: grown(a[name], b[name]) for name in a}
        found = a + (b - a) * (layers - few) / (more - few)
        return round(found) if isinstance(a, int) else float(found)

    return Counts(**{f.name: grown(getattr(small, f.name), getattr(large, f.name)) for f in dataclasses.fields(Counts)})


def plain(counts: Counts, subject: Subject) -> dict[str, LinearFit]:
    """Without the compiler: what autograd keeps, written once and read twice, and the counted FLOPs."""
    nothing = LinearFit(0.0, 0.0, 0.0, 0.0)
    kept, flops = LinearFit(0.0, 0.0, counts.kept, 0.0), LinearFit(0.0, 0.0, counts.total * subject.tokens, 0.0)
    travel = dataclasses.replace(kept, per_example=3 * counts.kept)
    calls = LinearFit(counts.calls, 0.0, 0.0, 0.0)
    known = {"saved": kept, "peak": kept, "products": flops, "traffic": travel, "kernels": calls}
    return {f.name: known.get(f.name, nothing) for f in dataclasses.fields(Work)}
