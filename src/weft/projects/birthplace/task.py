"""The reference task's commands as settings: what a variant is, how long each stage takes, and where its files lie."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from weft.core.config import Config, override
from weft.core.errors import ConfigError, DataError
from weft.core.registry import nearest
from weft.data.base import Data, DataConfig, Problems
from weft.data.io.files import locate
from weft.data.io.text import read_text
from weft.data.text.questions import QuestionsConfig
from weft.data.tokenizers.birthplace_characters import BirthplaceCharacters
from weft.models.base import ModelConfig
from weft.models.language.perceiver import PerceiverConfig
from weft.recipes.base import Recipe
from weft.recipes.base import recipe as find_recipe
from weft.runs.load import Loaded, load

VARIANTS: dict[str, Callable[[], Recipe]] = {
    "vanilla": lambda: as_reference("birthplace/reference"),
    "perceiver": lambda: as_reference("birthplace/perceiver"),
    "perceiver-ar": lambda: as_reference("birthplace/perceiver_ar"),
    "rotary": lambda: as_reference("birthplace/rotary"),
}
"""The reference's training for every one; the better training of ours stands in the recipes."""
PRETRAIN_EPOCHS, FINETUNE_EPOCHS, ONLY_EPOCHS = 650, 10, 75
"""The reference's: of pretraining, of finetuning after it, and of finetuning alone."""


@dataclass(frozen=True, kw_only=True)
class Options(Config):
    reading_params_path: str = ""
    """Checkpoint folder to start from (finetune) or to ask (evaluate)."""
    writing_params_path: str = ""
    """Checkpoint folder to write (pretrain, finetune)."""
    finetune_corpus_path: str = ""
    """Questions to learn from: question, tab, place on each line."""
    eval_corpus_path: str = ""
    """Questions to answer, with a tab and the place where it is known."""
    outputs_path: str = ""
    """File for the answers, one per line."""
    pretrain_lr: float = 6e-3
    """Peak learning rate of pretraining."""
    finetune_lr: float = 6e-4
    """Learning rate of finetuning."""
    bottleneck_dim: int = 0
    """Latents of a Perceiver; 0 is 32 for perceiver, as in the reference, and 96 for perceiver-ar."""
    tb_expt_name: str = "run"
    """Name of the run in the log."""
    steps: int = 0
    """Updates to make; 0 for as many as the reference makes."""
    seed: int = 1
    """Of the weights, the data order and all noise."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:1."""


def as_reference(name: str) -> Recipe:
    """A recipe's model with the reference's data and optimiser."""
    return dataclasses.replace(find_recipe("birthplace/reference"), model=find_recipe(name).model)


def fit_latents(data: DataConfig, latents: int) -> DataConfig:
    """documents cut so that they and their special tokens lie within the latents, which are all that is predicted."""
    longest = min(latents - 3, 112)
    if longest < 4:
        raise ConfigError(f"--bottleneck_dim must be at least 7 for perceiver-ar, not {latents}")
    return override(data, {"predicted": latents, "max_length": longest})


def variant(name: str) -> Recipe:
    """The pretraining recipe of a variant."""
    if name not in VARIANTS:
        raise ConfigError(f"no variant is called {name!r}{nearest(name, list(VARIANTS))}")
    return VARIANTS[name]()


def pretraining(name: str, corpus: str, options: Options) -> Recipe:
    recipe = override(variant(name), {"data.path": existing(corpus, "CORPUS")})
    recipe = dataclasses.replace(recipe, model=sized(recipe.model, options.bottleneck_dim))
    if getattr(recipe.model, "queries", "") == "last":
        recipe = dataclasses.replace(recipe, data=fit_latents(recipe.data, recipe.model.latents))  # type: ignore[attr-defined]
    steps = options.steps or PRETRAIN_EPOCHS * epoch(len(recipe.data.build().train), recipe.train.batch)
    return finish(recipe, options, options.pretrain_lr, steps)


def sized(model: ModelConfig, bottleneck: int) -> ModelConfig:
    """A Perceiver with so many latents; by default 32 of a learned basis, as the reference has, or the recipe's last characters."""
    if not isinstance(model, PerceiverConfig) or not (bottleneck or model.queries == "learned"):
        return model
    return dataclasses.replace(model, latents=bottleneck or 32)


def finetuning(name: str, corpus: str, options: Options) -> Recipe:
    """Learning to answer, from a checkpoint or from nothing."""
    recipe = find_recipe("birthplace/questions")
    path = existing(options.finetune_corpus_path, "--finetune_corpus_path")
    data = QuestionsConfig(path=path, vocabulary_path=existing(corpus, "CORPUS"))
    model = sized(variant(name).model, options.bottleneck_dim)
    if options.reading_params_path:
        model = fitting(name, corpus, options.reading_params_path, "cpu").recipe.model
    built = data.build()
    refuse_bad_rows(built)
    epochs = FINETUNE_EPOCHS if options.reading_params_path else ONLY_EPOCHS
    steps = options.steps or epochs * epoch(len(built.train), recipe.train.batch)
    return finish(dataclasses.replace(recipe, data=data, model=model), options, options.finetune_lr, steps)


def finish(recipe: Recipe, options: Options, lr: float, steps: int) -> Recipe:
    train = {"train.steps": steps, "train.seed": options.seed, "train.device": options.device, "train.eval_every": 0}
    return override(dataclasses.replace(recipe, name=f"birthplace/{options.tb_expt_name}"), {"optim.lr": lr, **train})


def epoch(examples: int, batch: int) -> int:
    """Updates in which every example is seen once."""
    return -(-examples // batch)


def need(value: str, flag: str) -> str:
    if not value:
        raise ConfigError(f"{flag} is missing; name the file or folder with it")
    return value


def existing(value: str, flag: str) -> str:
    """A file that is there, by its path or below $WEFT_DATA."""
    try:
        locate(need(value, flag))
    except DataError as error:
        raise DataError(f"{flag}: there is no {value!r}; name a file that exists") from error
    return value


def refuse_bad_rows(data: Data) -> None:
    """Rows that would be left out are an error here: whoever grades by line number must not lose one."""
    for reason, places in data.problems.places.items():
        if reason.startswith("rows") and reason.endswith("left out"):
            raise DataError(f"{places[0]}: {reason.removesuffix(', left out')}; question, tab, place is expected on each line")


def fitting(name: str, corpus: str, path: str, device: str = "auto") -> Loaded:
    """A checkpoint of this variant and of this corpus' characters: the last weights, as the reference keeps them."""
    if not Path(path).exists():
        raise ConfigError(f"--reading_params_path: there is no {path!r}; pretrain or finetune first, with --writing_params_path {path}")
    loaded = load(f"{path}@last", device)
    if kind(loaded.recipe.model) != kind(variant(name).model):
        owner = next((other for other in VARIANTS if kind(VARIANTS[other]().model) == kind(loaded.recipe.model)), "another model")
        raise ConfigError(f"--reading_params_path: {path!r} holds {owner!r}, not {name!r}; name its own variant")
    vocabulary = BirthplaceCharacters.train(read_text(existing(corpus, "CORPUS"), Problems()))
    if loaded.tokenizer is None or loaded.tokenizer.to_json() != vocabulary.to_json():
        raise DataError(f"{path!r} was trained with other characters than {corpus} has; name the corpus that it was pretrained on")
    return loaded


def kind(model: ModelConfig) -> tuple[object, ...]:
    """What tells the variants apart."""
    return type(model), getattr(model, "queries", ""), getattr(model, "position_embedding", "")


def trained_rows(loaded: Loaded) -> list[tuple[str, str]]:
    """The questions a model was finetuned on, with their places; none where it was not, or where the file is gone."""
    data = loaded.recipe.data
    if not isinstance(data, QuestionsConfig):
        return []
    try:
        rows = data.rows(Problems())[0]
    except DataError:
        return []
    return [(row.question, row.place) for row in rows]
