"""What may be typed for a setting: its last name alone (`--lr`), the word that other libraries have for it (`--batch-size`), a file.

A name alone is that of the one setting that has it, or of all optimisers of a recipe with several; where it could be two settings they
are both named in the error, and one that is nowhere is answered with the nearest.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from weft.core import untrusted
from weft.core.errors import ConfigError, DataError

SUFFIXES = (".json", ".yaml", ".yml", ".toml")
SAME = {
    "lr": ("learning_rate", "base_lr", "max_lr"),
    "batch": ("batch_size", "bs", "train_batch_size", "per_device_train_batch_size", "device_batch_size"),
    "steps": ("max_steps", "max_iters", "iters", "iterations", "num_steps", "num_iterations", "total_steps", "max_train_steps"),
    "weight_decay": ("wd",),
    "warmup": ("warmup_steps", "warmup_iters", "num_warmup_steps"),
    "clip_norm": ("grad_clip", "max_grad_norm", "gradient_clip_val", "clip_grad_norm", "grad_norm_clip"),
    "optim.type": ("optimizer", "optimiser", "opt"),
    "layers": ("n_layer", "n_layers", "num_layers", "num_hidden_layers", "depth"),
    "heads": ("n_head", "n_heads", "num_heads", "num_attention_heads"),
    "model.width": ("n_embd", "hidden_size", "d_model", "dim", "embed_dim", "model_dim"),
    "data.context": (
        "context",
        "block_size",
        "seq_len",
        "seq_length",
        "sequence_length",
        "max_seq_len",
        "max_seq_length",
        "context_length",
    ),
    "data.path": ("path", "data", "dataset", "data_dir", "data_path", "train_file", "train_data", "input", "dataset_name"),
    "train.seed": ("seed", "random_seed"),
    "data.vocabulary": ("vocabulary", "vocab_size"),
    "eval_every": ("eval_interval", "eval_steps", "val_check_interval"),
    "log_every": ("log_interval", "logging_steps", "log_every_n_steps"),
    "save_every": ("save_interval", "save_steps", "ckpt_interval"),
    "validation": ("val_split", "validation_split", "val_fraction"),
    "patience": ("early_stopping", "early_stopping_patience"),
    "out": ("output_dir", "out_dir", "output", "save_dir", "logdir"),
    "init": ("init_from", "pretrained", "checkpoint", "model_name_or_path", "finetune_from"),
    "explain": ("verbose",),
}
"""Words of other libraries by the name, or the last name, of the setting that means the same."""
OF_SCHEDULES = ("warmup", "min_lr_ratio")
"""Settings of a schedule that are meant by their last name alone; others, such as width and every, mean something else to most."""
OTHERS = {word: name for name, words in SAME.items() for word in words}
ANSWERS = {
    **dict.fromkeys(
        ("epochs", "epoch", "num_epochs", "max_epochs", "n_epochs", "num_train_epochs"),
        "a run is as long as --train.steps says, in updates of --train.batch examples; an epoch is the number of training examples, which "
        "stands in the first lines of a run, over --train.batch",
    ),
    **dict.fromkeys(
        ("gradient_accumulation_steps", "accumulate_grad_batches", "grad_accum", "grad_accum_steps"),
        "--train.batch is the batch of an update; --train.micro-batch is how many of its examples are in memory at once",
    ),
    **dict.fromkeys(("fp16", "bf16", "amp", "mixed_precision"), "choose with --train.precision: auto, fp32, tf32 or bf16"),
    **dict.fromkeys(("gpu", "cuda", "gpus", "use_cuda"), "choose with --train.device: auto, cpu, cuda or cuda:1"),
    **dict.fromkeys(("resume", "resume_from_checkpoint", "continue"), "the same command again continues where it stopped"),
}
"""Words of other libraries for what is said in another way."""


def spelled(words: list[str], known: Iterable[str], prog: str) -> list[str]:
    """The words with every flag under its full name; `known` are the full names."""
    full, result = set(known), list[str]()
    last: dict[str, list[str]] = {}
    for name in sorted(full):
        part, _, own = name.rpartition(".")
        if own in OF_SCHEDULES or not part.endswith("schedule"):
            last.setdefault(own, []).append(name)
    for number, word in enumerate(words):
        if word == "--":
            return [*result, *words[number:]]
        if word == "-v":
            word = "--explain"
        if not word.startswith("--") or word == "--help":
            result.append(word)
            continue
        name, equals, value = word[2:].partition("=")
        names = meant(name.replace("-", "_"), full, last, prog)
        values = [value] if equals else [] if len(names) == 1 else following(words[number + 1 :])
        for chosen in names[:-1]:  # of several, all but the last get their own copy of the values
            result += [f"--{chosen}={value}"] if equals else [f"--{chosen}", *values]
        result.append(f"--{names[-1]}{equals}{value}")
    return result


def following(words: list[str]) -> list[str]:
    """The values after a flag."""
    end = next((number for number, word in enumerate(words) if word.startswith("--")), len(words))
    return words[:end]


def meant(name: str, full: set[str], last: Mapping[str, list[str]], prog: str) -> list[str]:
    """The full names of the settings that a flag is for; as it stands where it is one, or has a dot, and so is told of later."""
    if name in full or "." in name:
        return [name]
    if (positive := name.removeprefix("no_")) != name and positive in full:
        return [name]
    wanted = OTHERS.get(name, name) if name not in last or OTHERS.get(name) in full else name
    part, _, own = wanted.rpartition(".")
    found = [wanted] if wanted in full else [one for one in last.get(own, []) if one.startswith(part)]
    if len(found) == 1 or (found and all(one.startswith("optim.") for one in found)):
        return found
    if found := found or [one for own, names in last.items() if own.endswith(f"_{name}") for one in names]:
        raise ConfigError(f"--{shown(name)} could be {' or '.join(f'--{shown(one)}' for one in found)}; name the one you mean")
    if positive != name and len(last.get(positive, [])) == 1:
        stem, _, end = last[positive][0].rpartition(".")
        return [f"{stem}.no_{end}" if stem else f"no_{end}"]
    if name in ANSWERS:
        raise ConfigError(f"--{shown(name)}: {ANSWERS[name]}")
    near = difflib.get_close_matches(name, [*last, *OTHERS], n=1, cutoff=0.78)
    names = [one for word in near for one in meant(word, full, last, prog)] if near and near[0] not in ANSWERS else []
    hint = f"did you mean --{shown(names[0])}?" if names else f"see {prog} --help"
    raise ConfigError(f"--{shown(name)}: there is no such setting; {hint}")


def shown(name: str) -> str:
    return name.replace("_", "-")


# -- settings from a file ---------------------------------------------------------------------------------------------------


def is_file(word: str) -> bool:
    """Whether what stands for a recipe is the name of a file."""
    return word.lower().endswith(SUFFIXES)


def read(path: str) -> dict[str, Any]:
    """The settings in a JSON, YAML or TOML file."""
    try:
        text = untrusted.read_bytes(path).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read as settings ({getattr(error, 'strerror', None) or 'it is not text'})") from error
    try:
        found = parsed(text, Path(path).suffix.lower())
    except (ValueError, RecursionError) as error:
        said = "nested too deep" if isinstance(error, RecursionError) else " ".join(str(error).splitlines()[:1])
        raise DataError(f"{path}: is not valid {Path(path).suffix[1:].upper()} ({said})") from error
    if not isinstance(found, dict):
        raise DataError(f"{path}: should hold settings by name, such as model.width: 256, not {type(found).__name__}")
    return {str(name): value for name, value in found.items()}


def parsed(text: str, suffix: str) -> Any:
    if suffix == ".json":
        return untrusted.parse_json(text)
    if suffix == ".toml":
        return tomllib.loads(text)
    import yaml

    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, yaml.SafeLoader)):  # a few lines may mean gigabytes
            raise ValueError("*names of other parts are not followed; write them out")
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error


def as_flags(settings: Mapping[str, Any], kinds: Mapping[str, str], prefix: str = "") -> list[str]:
    """Settings by name, nested or dotted, as flags; the type of a part that has it already is left out. kinds: type by part."""
    words: list[str] = []
    for name, value in settings.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping):
            words += as_flags(value, kinds, f"{path}.")
        elif path.endswith(".type") and kinds.get(path.removesuffix(".type")) == value:
            continue
        elif isinstance(value, list) and value:
            words += [f"--{path}", *map(str, value)]
        else:
            words.append(f"--{path}={'' if value == [] else value}")
    return words
