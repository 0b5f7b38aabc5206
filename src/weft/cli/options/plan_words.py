"""The words of `weft plan`: its own flags, and those that change the recipe or the model it is about."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from weft.cli.options import flags
from weft.core import config
from weft.core.config import Config
from weft.core.errors import ConfigError

if TYPE_CHECKING:
    from weft.planning.subject import Subject

C = TypeVar("C", bound=Config)
ABOUT = """Parameters, FLOPs, memory per device, time, energy and a layout for a recipe (weft plan gpt/text) or a preset of a model
(weft plan gpt3-175b), or a refusal that names the nearest layout that fits. Nothing is allocated.

The settings of the recipe are flags too, as in weft plan gpt/text --model.width 512 --train.batch 64; weft train RECIPE --help has them."""

ALSO = {
    "batch": ("train.batch",),
    "micro_batch": ("train.micro_batch",),
    "context": ("data.context", "model.context"),
    "vocabulary": ("model.vocabulary",),
}
"""What a flag of the plan is called among the settings of a recipe."""
LARGEST = {int: 1 << 40, float: 1e24}
"""Sizes and amounts beyond which nothing is planned."""
DEEPEST = 10_000
"""Layers, which are built one by one."""


@dataclass(frozen=True, kw_only=True)
class Parallel(Config):
    replicate: int = 0
    """Copies of the model; 0 leaves it to the plan."""
    shard: int = 0
    """Devices that share weights, gradients and optimiser state; 0 leaves it to the plan."""
    tensor: int = 0
    """Devices that share the matrices of each block; 0 leaves it to the plan."""
    pipeline: int = 0
    """Stages of consecutive blocks; 0 leaves it to the plan."""


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    gpus: int = 1
    """Devices to spread the run over."""
    device: Literal["h200", "h100", "a100", "cpu"] = "h200"
    """Kind of device."""
    model: str = ""
    """Preset to plan, alone or in the place of the recipe's model: gpt3-175b, llama-7b, bert/base."""
    tokens: float = 0.0
    """Tokens to train on, such as 300e9; 0 is the recipe's own number, GPT-3's 300e9 or 20 for each parameter."""
    context: int = 0
    """Tokens of an example; 0 is the recipe's or the preset's."""
    batch: int = 0
    """Examples per update; 0 is the recipe's or, for a preset, about the batch of the GPT-3 of that size."""
    vocabulary: int = 0
    """Number of tokens; 0 takes it from the preset or from the data."""
    mfu: float = 0.0
    """Share of the device's peak that a run reaches, such as 0.4; 0 estimates it from the parts of a step."""
    micro_batch: int = 0
    """Examples of a micro-batch on one device; 0 leaves it to the plan."""
    activation_checkpointing: Literal["auto", "on", "off"] = "auto"
    """Recompute activations in the backward pass instead of keeping them."""
    parallel: Parallel = field(default_factory=Parallel)
    pue: float = 1.2
    """Energy of the data centre over that of its machines."""
    carbon: float = 0.4
    """Kilograms of CO2 per kWh."""
    price: float = 0.0
    """Price of one device for an hour, in any currency; 0 leaves the cost out."""
    growth: bool = False
    """Show how the GPTs grew, counted from their configurations, instead of a plan."""
    check: bool = False
    """Also build one device's part with PyTorch's own sharding and compare its bytes with the plan's."""
    json: str = ""
    """File to write the plan to."""


@dataclass(frozen=True, kw_only=True)
class Given:
    """What was typed: the subject, the plan's own flags, and the words that set the subject's."""

    name: str
    settings: Settings
    words: list[str]


def parse(words: list[str]) -> Given:
    own, others = divide(words)
    settings, names = flags.parse(Settings(), own, "weft plan", "[RECIPE]", ABOUT)
    return Given(name=names[0] if names else "", settings=settings, words=others)


def divide(words: list[str]) -> tuple[list[str], list[str]]:
    """The plan's words, and those of the recipe: flags with a dot but --parallel's, and the values behind them."""
    own: list[str] = []
    others: list[str] = []
    now = own
    for position, word in enumerate(words):
        if word == "--":
            return own + words[position:], others
        if word.startswith("-") and (word.startswith("--") or word in flags.HELP):
            part, dot, _ = word[2:].partition("=")[0].partition(".")
            now = others if dot and part != "parallel" else own
        now.append(word)
    return own, others


def subject_of(given: Given) -> Subject:
    """The recipe or the preset with its own settings changed."""
    from weft.planning import subject
    from weft.recipes.base import check

    settings = given.settings
    sizes = (settings.batch, settings.context, settings.vocabulary)
    recipe = subject.named(given.name, settings.model)
    if recipe is None:
        name = settings.model or given.name
        alone = Preset(model=subject.preset(name))
        refuse_others(given.words, name)
        return subject.of_preset(name, *sizes, changed(alone, given).model)
    recipe = changed(recipe, given)
    check(recipe)
    return subject.of_recipe(recipe, *sizes)


@dataclass(frozen=True, kw_only=True)
class Preset(Config):
    """A model without a recipe."""

    model: Any


def refuse_others(words: list[str], name: str) -> None:
    """Settings of a recipe where there is none."""
    for word in words:
        part, dot, _ = word.removeprefix("--").partition(".")
        if word.startswith("--") and dot and part in ("data", "objective", "optim", "train", "progress"):
            flag = word.partition("=")[0]
            raise ConfigError(
                f"{flag} is a setting of a recipe, and {name} is a model alone; leave it out, or plan a recipe with --model {name}"
            )


def changed(subject: C, given: Given) -> C:
    """A recipe or a model with the flags among the words applied; another kind of optimiser first, as the flags are its own."""
    _, found = config.separate(given.words, subject)
    subject = config.parse_flags([flag for flag in found if flag[0].partition("=")[0].endswith(".type")], subject)
    free, found = config.separate(given.words, subject)
    if free:
        raise ConfigError(f"expected flags only behind {given.words[0]}, found {' '.join(free)}; name the recipe first")
    subject = config.parse_flags(found, subject)
    known = config.leaves(subject)
    set_ = {name: known[name][1] for flag in found if (name := config.flag_name(flag[0], known)[0]) in known}
    refuse_twice(given.settings, set_)
    for name, value in set_.items():
        refuse_large(name, value)
    return subject


def refuse_large(flag: str, value: Any) -> None:
    most = DEEPEST if flag == "model.layers" else LARGEST.get(type(value), math.inf)
    if flag != "train.seed" and type(value) in LARGEST and value > most:
        raise ConfigError(f"--{flag} must be at most {most:,} for a plan, not {value}")


def refuse_twice(settings: Settings, set_: dict[str, Any]) -> None:
    """A size that two flags set differently."""
    for flag, others in ALSO.items():
        value = getattr(settings, flag)
        for other in others:
            if value and set_.get(other, value) != value:
                raise ConfigError(f"--{flag} {value} and --{other} {set_[other]} say different things; leave one of them out")
    kept = set_.get("train.activation_checkpointing", "auto")
    if "auto" not in (kept, settings.activation_checkpointing) and (kept == "full") != (settings.activation_checkpointing == "on"):
        raise ConfigError(
            f"--activation-checkpointing {settings.activation_checkpointing} and --train.activation_checkpointing {kept} "
            "say different things; leave one of them out"
        )
