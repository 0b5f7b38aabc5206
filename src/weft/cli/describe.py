"""What a training run says before its first step and after its last."""

from __future__ import annotations

from typing import Any

from weft.generation.decode import can_continue
from weft.models.base import Answers, Embeds, Samples, offers
from weft.report.words import number
from weft.run import Run


def opening(run: Run) -> list[str]:
    """What is about to happen: model, data, how it is executed and why."""
    where = f"continues after step {run.trainer.step:,}" if run.trainer.step else "starts"
    size = sum(p.numel() for p in run.trainer.model.parameters())
    facts = [f"{name.replace('_', ' ')} {shown}" for name, value in run.data.info.items() if (shown := fact(value))]
    return [
        f"{run.recipe.name or 'a recipe of your own'} {where} in {run.folder}",
        f"model: {type(run.trainer.model).__name__}, {size:,} parameters",
        f"data: {', '.join(facts)}",
        *(f"plan: {line}" for line in run.trainer.plan.lines()),
    ]


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
    if run.signals.received:
        return [f"stopped after step {trainer.step:,} ({trainer.stop_reason}); the same command continues", *lines]
    if trainer.stop_reason:
        lines.insert(0, f"stopped early: {trainer.stop_reason}")
    commands = [*samples(run), f"weft evaluate {run.folder}"]
    return [*lines, f"run: {run.folder}", f"report: {run.folder / 'report.html'}", "next:", *(f"  {command}" for command in commands)]


def samples(run: Run) -> list[str]:
    """The command that samples from the model, if it can be sampled from."""
    model, tokenizer = run.trainer.model, run.data.tokenizer
    if can_continue(model, tokenizer):
        return [f'weft sample {run.folder} "a prompt"']
    if offers(model, Answers):
        return [f'weft sample {run.folder} "a text"']
    if offers(model, Samples):
        return [f"weft sample {run.folder}"]
    return [f"weft sample {run.folder} WORD"] if offers(model, Embeds) and tokenizer is not None else []
