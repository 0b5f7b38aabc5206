"""What a training run says before its first step and after its last."""

from __future__ import annotations

from typing import Any

import torch

from weft.cli.console import quoted, table
from weft.core import installation
from weft.core.units import number
from weft.data.base import Data
from weft.data.text.packing import can_encode
from weft.models.base import Embeds, Samples, TranslatesImages, offers
from weft.planning import cost
from weft.runs.run import Run
from weft.training.parallel.processes import LAYOUT

MOST_TYPED = 12
"""Values that somebody may be asked to type; a row of more columns comes from a file."""


def opening(run: Run) -> list[str]:
    """What is about to happen: model, data, how it is executed and why."""
    layout, count = run.recipe.parallel, run.trainer.team.world_size
    where = f"continues after step {run.trainer.step:,}" if run.trainer.step else "starts"
    facts = [f"{name.replace('_', ' ')} {shown}" for name, value in run.data.info.items() if (shown := fact(value))]
    return [
        f"{run.recipe.name or 'a recipe of your own'} {where} in {run.folder}",
        f"model: {type(run.trainer.model).__name__}, {run.size:,} parameters",
        f"data: {', '.join(facts)}",
        *mixture(run.data.train.shares(run.trainer.end, run.recipe.train.seed)),
        *([f"plan: {count} processes: {', '.join(f'{name} {getattr(layout, name)}' for name in LAYOUT)}"] if count > 1 else []),
        f"plan: {run.trainer.plan.line()} (--explain says why)",
    ]


def explanation(run: Run) -> list[str]:
    """Every choice of execution with its reason, and every kernel for every kind of block and attention, and why it does not serve."""
    reasons = [f"plan: {line}" for line in run.trainer.plan.lines()]
    rows = [(f"{row['number']} × {row['kind']}", row["implementation"], row["refused"] or "serves") for row in run.trainer.plan.table()]
    known = table([("what", "kernel", "why not"), *rows]) if rows else "plan: the model has no block and no attention that kernels know"
    return [*reasons, known]


def mixture(shares: list[dict[str, Any]]) -> list[str]:
    """What the whole run sees of each source of its data."""
    rows = [(s["source"], f"{s['tokens']:,}", f"{100 * s['weight']:.2f} %", f"{s['drawn']:,}", f"{s['epochs']:.3g}") for s in shares]
    return [table([("source", "tokens", "weight", "drawn in all", "epochs"), *rows])] if rows else []


def fact(value: Any) -> str:
    """A fact of the data in a few words, nothing where it is long."""
    if isinstance(value, (tuple, list)):
        return " x ".join(map(str, value)) if len(value) <= 4 else ""
    return number(value) if isinstance(value, (int, float)) else str(value)


def finished(run: Run) -> str:
    """That a run has nothing left to do, or nothing."""
    held, step = run.validation, run.trainer.step
    if step >= run.trainer.settings.steps:
        return f"{run.folder} is finished: all {step:,} steps are made; train on with a larger --train.steps"
    if held and held.patience and held.waited >= held.patience:
        return f"{run.folder} is finished: it stopped early after step {step:,}"
    return ""


def closing(run: Run) -> list[str]:
    """How it ended, where it lies, and what to type next."""
    trainer, held = run.trainer, run.validation
    lines = [f"best validation {held.metric} {number(held.best)} (step {held.best_step:,})"] if held and held.best is not None else []
    refused = int(sum(float(updater.refused) for updater in trainer.updaters.values()))
    lines += [f"{refused:,} updates were not made, as a gradient was not finite"] if refused else []
    if run.signals.received:
        return [f"stopped after step {trainer.step:,} ({trainer.stop_reason}); the same command continues", *lines]
    if trainer.stop_reason:
        lines.insert(0, f"stopped early: {trainer.stop_reason}")
    asked, weft = prompts(run), installation.command()
    commands = [] if asked is None else [" ".join([f"{weft} sample", *map(quoted, (str(run.folder), *asked))])]
    if asked and len(asked) > MOST_TYPED:
        commands = [f"{weft} predict {quoted(str(run.folder))} rows.csv --out predictions.csv"]
    if run.data.validation:
        commands.append(f"{weft} evaluate {quoted(str(run.folder))}")
    following = ["next:", *(f"  {command}" for command in commands)] if commands else []
    return [*lines, *cost.lines(run.cost), f"run: {run.folder}", f"report: {run.folder / 'report.html'}", *following]


def prompts(run: Run) -> tuple[str, ...] | None:
    """What `weft sample` can be given after the folder of a run; None where there is nothing to sample."""
    model = run.trainer.model
    if offers(model, TranslatesImages):
        return "--input", "picture.png", "--out", "restyled"
    if offers(model, Samples):
        return ()
    return text_prompts(run)


def text_prompts(run: Run) -> tuple[str, ...] | None:
    """Of a model that reads something. One that draws is trained without importing what decodes texts."""
    from weft.inference.generate import can_continue
    from weft.inference.neighbours import known_words
    from weft.inference.predict import find
    from weft.inference.translate import can_answer

    if kind := find.predictor_of(run.recipe):
        return kind.asked_of(run.data.tokenizer)
    model, tokenizer = run.trainer.model, run.data.tokenizer
    if can_continue(model, tokenizer):
        return ("a prompt",) if can_encode("a prompt", tokenizer) else ()
    if can_answer(model):
        return ("a text",) if can_encode("a text", tokenizer) else (first_source(run.data),)
    words = known_words(tokenizer, 8)[:1] if offers(model, Embeds) and tokenizer is not None else []
    return tuple(words) or None


def first_source(data: Data) -> str:
    """A text of the kind that a model learned to answer."""
    first = torch.zeros(1, dtype=torch.int64)
    text: str = data.tokenizer.decode(data.train.batch(first, first)["source"][0].tolist())
    return text
