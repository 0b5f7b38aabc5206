"""The birthplace experiment end to end on made-up people: what reading adds to asking.

Four systems answer where people were born whom no training question was about: the commonest place, a model that learned
from questions alone, one that had read about everybody before, and a Perceiver that had.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from weft.api import fit
from weft.core.config import Config, override
from weft.data.base import Problems
from weft.data.text.biographies import BiographiesConfig
from weft.data.text.questions import QuestionsConfig
from weft.projects.birthplace.answers import Answer, always, ask, commonest, score
from weft.projects.birthplace.knowledge import Knowledge, examine
from weft.recipes.base import Recipe
from weft.recipes.base import recipe as find_recipe
from weft.runs.assemble import adopt, assemble
from weft.runs.load import load
from weft.training.hooks import Hook

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Options(Config):
    people: int = 500
    """Number of made-up people, half of them asked about in training."""
    places: int = 100
    """Number of places where they may be born."""
    seed: int = 1
    """Of the people, the weights and all noise."""
    out: str = "runs/quickstart"
    """Folder of the runs and of report.html."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:1."""


@dataclass(frozen=True)
class System:
    name: str
    note: str
    stages: tuple[str, ...]
    """Recipes one after the other, each from the weights of the one before."""


READER = System(
    "pretrained + finetuned", "read about everybody, then learned to answer", ("birthplace/made_up", "birthplace/made_up_questions")
)
SYSTEMS = (
    System("finetuned only", "learned the training questions, read nothing", ("birthplace/made_up_only",)),
    READER,
    System("perceiver", "the same with 64 latents", ("birthplace/made_up_perceiver", "birthplace/made_up_questions")),
)


@dataclass(frozen=True)
class Result:
    name: str
    note: str
    answers: tuple[Answer, ...]
    """To the questions about people it was never asked about."""
    fitted: float | None
    """Share of its own training questions that it answers."""
    seconds: float
    folders: tuple[Path, ...] = ()
    knowledge: Knowledge | None = None

    @property
    def accuracy(self) -> float:
        total, correct = score(self.answers)
        return correct / total


def quickstart(options: Options, say: Say = print, hooks: Callable[[], Sequence[Hook]] = tuple) -> list[Result]:
    """Train and ask every system; what is finished already is not trained again."""
    people = people_of(options)
    rows, held = QuestionsConfig(biographies=people).rows(Problems())
    trained, asked = [[(row.question, row.place) for row in part] for part in (rows, held)]
    place = commonest([place for _, place in trained])
    results = [Result("commonest place", f"always {place}", tuple(always(place, asked)), None, 0.0)]
    for system in SYSTEMS:
        say(f"\n{system.name}: {system.note}")
        results.append(train(system, people, options, trained, asked, say, hooks))
        say(f"{system.name}: {100 * results[-1].accuracy:.1f} % right about people it was never asked about")
    return results


def train(
    system: System,
    people: BiographiesConfig,
    options: Options,
    trained: list[tuple[str, str]],
    asked: list[tuple[str, str]],
    say: Say,
    hooks: Callable[[], Sequence[Hook]],
) -> Result:
    folders = train_stages(system, people, options, say, hooks)
    seconds = sum(spent(folder) for folder in folders)
    loaded = load(f"{folders[-1]}@last", options.device)
    answers = ask(loaded.model, loaded.tokenizer, asked)
    known = score(ask(loaded.model, loaded.tokenizer, trained))
    knowledge = examine(loaded, answers, trained)
    return Result(system.name, system.note, tuple(answers), known[1] / known[0], seconds, tuple(folders), knowledge)


def train_stages(system: System, people: BiographiesConfig, options: Options, say: Say, hooks: Callable[[], Sequence[Hook]]) -> list[Path]:
    """Train what is not finished yet of a system -> the folders of its stages."""
    folders: list[Path] = []
    for stage in system.stages:
        folder = Path(options.out) / f"{system.name.replace(' + ', '-').replace(' ', '-')}-{stage.rpartition('/')[2]}"
        before = f"{folders[-1]}@last" if folders else None
        recipe = fitted(find_recipe(stage), people, options)
        made = assemble(adopt(recipe, before) if before else recipe, folder, before, hooks())
        if made.trainer.step < made.trainer.settings.steps:
            say(f"  {stage} in {folder}")
            fit(made)
        folders.append(folder)
        if made.signals.received:
            say(f"stopped after step {made.trainer.step:,}; the same command continues")
            raise SystemExit(128 + made.signals.received)
    return folders


def people_of(options: Options) -> BiographiesConfig:
    return BiographiesConfig(people=options.people, places=options.places, seed=options.seed)


def fitted(recipe: Recipe, people: BiographiesConfig, options: Options) -> Recipe:
    """A recipe for these people, this seed and this device."""
    people_ = {f"data.biographies.{name}": value for name, value in dataclasses.asdict(people).items()}
    return override(recipe, {**people_, "train.seed": options.seed, "train.device": options.device})


def spent(folder: Path) -> float:
    """Seconds a run has trained, over all its starts."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return float(json.loads(lines[-1])["seconds"]) if lines else 0.0
