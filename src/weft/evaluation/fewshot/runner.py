"""A language model on a task, with or without worked examples in its prompt (Brown et al., 2020, section 2)."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.core import registry
from weft.core.errors import ConfigError
from weft.data.base import Problems
from weft.data.io.files import locate, show
from weft.evaluation.evaluate import Evaluation, TaskMetrics
from weft.evaluation.fewshot import records
from weft.evaluation.fewshot.intervals import estimate
from weft.evaluation.fewshot.request_types import Outcome
from weft.evaluation.fewshot.scoring import Progress, Scorer
from weft.evaluation.fewshot.tasks import Task
from weft.evaluation.fewshot.templates import Prompt, Template
from weft.runs.load import Loaded, load

ORIGIN = "other records of the same file, since no file of training records was named"


@dataclass(frozen=True, kw_only=True)
class TaskEvaluation(Evaluation):
    """The result of a task: its first metric is the task's own."""

    task: str
    shots: int
    seed: int
    template: str
    intervals: dict[str, tuple[float, float]]
    """95 % of each metric, by the bootstrap over the examples."""
    published: dict[str, Any] | None
    """What GPT-3 reached."""


def run_task(
    model: Loaded | str | Path,
    name: str,
    *,
    shots: int = 0,
    examples: int = 0,
    seed: int = 0,
    template: str | Path = "",
    data: str = "",
    train: str = "",
    batch: int = 64,
    progress: Progress | None = None,
) -> TaskEvaluation:
    """A model on the task of a name.

    shots: worked examples in front of each question, drawn by the seed. examples: questions to ask, 0 for all. template: a file
    (see templates.py) instead of the task's own. data: a folder of data sets or the task's file, instead of $WEFT_DATA. train: a
    file of the same layout to draw the worked examples from, instead of the other records of the task's file.
    """
    if min(shots, examples) < 0 or batch < 1:
        raise ConfigError(f"shots and examples must not be negative and batch at least 1, not {shots}, {examples} and {batch}")
    task: Task = registry.find("tasks", name)
    form = Template.read(template) if template else Template.parse(task.template)
    problems = Problems()
    path = records.find(task, data)
    items = records.read(task, path, problems)
    pool = records.read(task, locate(train, "--data.train"), problems) if train else []
    form.check(items[0], show(template) if template else name)
    loaded = model if isinstance(model, Loaded) else load(model)
    scorer = Scorer(loaded, batch, progress)
    begin = time.perf_counter()
    numbers = records.asked(len(items), examples, seed)
    prompts = [form.prompt(items[number], records.shown(number, items, shots, seed, pool)) for number in numbers]
    outcomes = task.request_type(loaded, scorer, prompts)
    found = {metric: estimate(metric, [one.statistics[metric] for one in outcomes], seed) for metric in outcomes[0].statistics}
    metrics = {metric: value for metric, (value, _) in found.items()}
    if cut := sum(one.truncated_tokens > 0 for one in outcomes):
        problems.add(f"prompts longer than the context of {scorer.context} tokens, whose beginning was left out", name, cut)
    return TaskEvaluation(
        checkpoint=str(loaded.path),
        data={"file": str(path), "records": len(items), "shown": (train or ORIGIN) if shots else ""},
        examples=len(prompts),
        metrics=metrics,
        seconds=time.perf_counter() - begin,
        problems=problems.lines(),
        findings=TaskMetrics(metrics, said(numbers, prompts, outcomes), ".json"),
        task=name,
        shots=shots,
        seed=seed,
        template=str(form),
        intervals={metric: interval for metric, (_, interval) in found.items()},
        published=dataclasses.asdict(task.published) if task.published else None,
    )


def said(numbers: Sequence[int], prompts: Sequence[Prompt], outcomes: Sequence[Outcome]) -> str:
    """Every prompt with what came of it, as JSON."""
    rows = [
        {
            "record": number,
            "prompt": prompt.text,
            "right": list(prompt.item.references) or prompt.item.answer,
            "said": outcome.said,
            "statistics": outcome.statistics,
            "truncated_tokens": outcome.truncated_tokens,
            **outcome.details,
        }
        for number, prompt, outcome in zip(numbers, prompts, outcomes, strict=True)
    ]
    return json.dumps(rows, ensure_ascii=False, indent=1) + "\n"
