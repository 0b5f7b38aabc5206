"""`weft start [PATH|KIND]`: looks at what one has, proposes a recipe, its size and how long it takes, and writes the command."""

from __future__ import annotations

import logging
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.cli import console
from weft.cli.begin import have
from weft.cli.begin.look import Proposal, look
from weft.cli.options import flags
from weft.core import config, installation
from weft.core.config import Config
from weft.core.errors import ConfigError
from weft.core.units import duration

ABOUT = """PATH is your data or a model: a text, a folder of texts or images, a table, pairs of texts. It is looked at, a few steps
are made to see how long they take here, and the command to train with is written. Without PATH, three questions are asked on a
terminal."""
EPOCHS = {
    "gpt/text": (40, 128),
    "classifier/images": (60, 1),
    "transformer/pairs": (100, 1),
    "vae/images": (200, 1),
    "audio_classifier/digits": (60, 1),
}
"""How often the data is seen at most, and the characters of an example, so that little data is not learned by heart for long."""
LEAST = 200
"""Fewest steps that are proposed."""
SMALLER: dict[str, dict[str, Any]] = {
    "transformer/pairs": {"model.layers": 2, "model.width": 128, "model.ffn_width": 256, "train.batch": 64},
    "gpt/shards": {"model.layers": 4, "model.heads": 4, "model.width": 128, "data.context": 128, "train.batch": 32},
    "gpt/text": {"model.layers": 4, "model.heads": 4, "model.width": 128, "data.context": 128},
}
"""Settings for a CPU where a run would take longer than it may."""
PATIENCE = 30.0
"""Minutes that a run may take on a CPU where nothing is said."""
TRIED = 3.0
"""Seconds of steps that are made to see how long one takes; what by the plan takes longer is not tried."""
REACHED = 0.3
"""Share of a device's peak that a step is assumed to reach where none is tried."""


@dataclass(frozen=True, kw_only=True)
class Options(Config):
    minutes: float = 0.0
    """How long it may take; steps are left out to fit. 0 takes the recipe's own number."""
    run: bool = False
    """Run the command, too."""
    look_only: bool = False
    """Write the command without making a step to see how long it takes."""


@dataclass(frozen=True)
class Pace:
    """How long a step of a recipe takes here."""

    model: str
    parameters: int
    seconds: float
    tried: int
    """Steps that were made to know; 0 where it is a plan."""
    device: str


def main(words: list[str]) -> int:
    console.show_warnings()
    options, free = flags.parse(Options(), words, "weft start", "[PATH]", ABOUT)
    asking = sys.stdin.isatty() and sys.stdout.isatty()
    what, minutes = (free[0], options.minutes) if free else questions() if asking else ("", 0.0)
    if not what:
        raise ConfigError("name your data, as in weft start my.txt or weft start photos/, or what it is: " + ", ".join(have.HAVE))
    if not Path(what).exists() and (kind := have.kind_of(what)):
        print("\n".join(have.lines((kind,))))
        return 0
    found = look(what)
    print(found.what)
    weft = installation.command()
    steps = proposal(found, minutes, options.look_only)
    commands = [f"{weft} {line}" for line in found.before]
    if found.recipe:
        commands.append(train_command(weft, found, steps))
    print("\n" + "\n".join(f"  {line}" for line in commands))
    following(found, weft)
    if options.run or (asking and found.recipe and yes("\nrun it now? [y/N] ")):
        return carry_out(commands)
    return 0


def questions() -> tuple[str, float]:
    """What, where and how long."""
    print("What do you have? A path, or one of: " + ", ".join(have.HAVE))
    what = input("> ").strip()
    minutes = 0.0
    if (kind := have.kind_of(what)) and not Path(what).exists():
        if not have.HAVE[kind].ways or kind == "nothing":
            return what, 0.0
        print("\n".join(have.lines((kind,))))
        what = input("Where is it? A file or a folder\n> ").strip()
    answer = input("How many minutes may it take? Empty for as many as the recipe takes\n> ").strip()
    try:
        minutes = float(answer) if answer else 0.0
    except ValueError:
        raise ConfigError(f"minutes are a number, not {answer!r}") from None
    return str(Path(what).expanduser()) if what else "", minutes


def yes(question: str) -> bool:
    return input(question).strip().lower() in ("y", "yes")


def proposal(found: Proposal, minutes: float, look_only: bool) -> int:
    """The number of steps to make, 0 for the recipe's own; tells what is proposed."""
    if not found.recipe:
        return 0
    from weft.recipes.base import recipe as find_recipe

    train = find_recipe(found.recipe, found.settings_of("train.")).train
    wanted = enough(found, train.steps, train.batch)
    if found.before or look_only:
        print(f"{found.recipe}: {wanted:,} steps; how long they take is told when it begins")
        return wanted if wanted != train.steps else 0
    pace = measure(found)
    if pace.device == "cpu" and wanted * pace.seconds > 60 * (minutes or PATIENCE) and make_smaller(found):
        pace = measure(found)
    if minutes:
        wanted = min(wanted, int(60 * minutes / pace.seconds))
    known = f"{pace.tried} were tried" if pace.tried else "by the plan, none was tried"
    takes = f"about {duration(wanted * pace.seconds)} here ({pace.seconds:.3g} s a step on {pace.device}, {known})"
    print(f"{found.recipe}: {pace.model} of {pace.parameters:,} parameters, {wanted:,} steps, {takes}")
    if wanted < LEAST:
        print("so few steps teach little: give it more minutes, or train on a GPU")
    return wanted if wanted != train.steps else 0


def make_smaller(found: Proposal) -> bool:
    """Give the model the size for a CPU, naming only what is not the recipe's own; False where it is as small already."""
    from weft.recipes.base import recipe as find_recipe

    own = {name: value for name, (_, value) in config.leaves(find_recipe(found.recipe)).items()}
    before, wanted = own | found.settings, found.settings | SMALLER.get(found.recipe, {})
    found.settings = {name: value for name, value in wanted.items() if own.get(name) != value}
    return own | found.settings != before


def enough(found: Proposal, steps: int, batch: int) -> int:
    """Fewer steps than the recipe's where there is little data."""
    epochs, size = EPOCHS.get(found.recipe, (0, 1))
    if not epochs or not found.examples:
        return steps
    return min(steps, max(LEAST, int(epochs * found.examples / (size * batch)) // 10 * 10))


def measure(found: Proposal) -> Pace:
    """How long a step takes: by the plan and, where that is short, by making a few."""
    from weft.cli.train import parse
    from weft.planning import cost
    from weft.runs.assemble import assemble

    settings = {**found.settings, "train.compile": "off", "train.eval_every": 0}
    with tempfile.TemporaryDirectory() as folder:
        recipe, place = parse(found.recipe, as_words(settings))
        log = logging.getLogger("weft")
        level = log.level
        log.setLevel(logging.ERROR)  # what there is to say of the data is said when it is trained on
        try:
            run = assemble(recipe, Path(folder) / "run", place.init or None)
        finally:
            log.setLevel(level)
        trainer = run.trainer
        machine = cost.machine(trainer.plan.device, 1, trainer.plan.precision)
        flops = cost.flops_of_draw(run.recipe, run.data, trainer.objective) * recipe.train.batch
        planned, tried = flops / (REACHED * machine.peak), 0
        if planned < TRIED:
            trainer.run_step()  # the first warms up
            begun = time.perf_counter()
            while tried < 20 and (not tried or time.perf_counter() - begun < TRIED):
                trainer.run_step()
                tried += 1
            trainer.means.read()  # waits for the device
            planned = (time.perf_counter() - begun) / tried
        return Pace(type(trainer.model).__name__, run.size, planned, tried, str(trainer.plan.device))


def as_words(settings: dict[str, object]) -> list[str]:
    return [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def train_command(weft: str, found: Proposal, steps: int) -> str:
    settings = {**found.settings, **({"train.steps": steps} if steps else {})}
    return " ".join([f"{weft} train {found.recipe}", *map(console.quoted, as_words(settings))])


def following(found: Proposal, weft: str) -> None:
    """What else there is to do."""
    if found.also:
        print("\nalso:\n" + "\n".join(f"  {weft} {line}" for line in found.also))
    if found.recipe:
        print(f"\nevery setting: {weft} train {found.recipe} --help")


def carry_out(commands: list[str]) -> int:
    """Run the commands one after the other, each as if it had been typed; the first that fails ends it."""
    own = shlex.split(installation.command())
    for command in commands:
        print(f"\n$ {command}", flush=True)
        if code := subprocess.call([sys.executable, "-m", "weft", *shlex.split(command)[len(own) :]]):
            return code
    return 0
