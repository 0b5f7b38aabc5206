"""Model folders as Hugging Face writes them. Nothing in one is ever unpickled or run."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as pack
from torch import Tensor

from weft.core import untrusted
from weft.core.errors import CheckpointError
from weft.data.tokenizers.base import Tokenizer
from weft.data.tokenizers.foreign import read_foreign

PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".msgpack", ".h5")
LARGEST_HEADER = 100 << 20
LARGEST_TEMPLATE = 1 << 20
INDEX = "model.safetensors.index.json"
CHAT_TEMPLATE = "chat_template.jinja"


@dataclass
class Foreign:
    """A model of another project: its settings, its weights, and its tokenizer, if it has one.

    `preprocessor`: its preprocessor_config.json, which a model of images has. `chat_template`: how messages become its prompt.
    """

    config: dict[str, Any]
    tensors: dict[str, Tensor]
    tokenizer: Tokenizer | None = None
    preprocessor: dict[str, Any] | None = None
    chat_template: str = ""


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object; anything else is a CheckpointError."""
    try:
        found = untrusted.read_json(path, finite=False)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise CheckpointError(f"{path}: is no JSON ({untrusted.short(error)})") from error
    if not isinstance(found, dict):
        raise CheckpointError(f"{path}: holds no JSON object")
    return found


def read(folder: Path) -> Foreign:
    """A folder with config.json and safetensors, in one file or in several."""
    if not (folder / "config.json").is_file():
        raise CheckpointError(f"{folder}: is no model folder, as it holds no config.json")
    config = read_json(folder / "config.json")
    if "auto_map" in config:
        raise CheckpointError(f"{folder}: config.json asks to run the model's own code (auto_map); weft runs no code from a model folder")
    tensors: dict[str, Tensor] = {}
    for path in weight_files(folder):
        part = read_weights(path)
        if twice := sorted(set(part) & set(tensors)):
            raise CheckpointError(f"{path}: {twice[0]!r} is in another file too")
        tensors |= part
    if lost := sorted(set(weight_map(folder)) - set(tensors)):
        raise CheckpointError(f"{folder / INDEX}: names {lost[0]!r}, which none of its files holds")
    preprocessor = folder / "preprocessor_config.json"
    shown = read_json(preprocessor) if preprocessor.is_file() else None
    return Foreign(config, tensors, read_foreign(folder), shown, read_chat_template(folder))


def read_chat_template(folder: Path) -> str:
    """The default template, from its own file or from the tokenizer's settings; it is kept as text, and not run here."""
    own, settings = folder / CHAT_TEMPLATE, folder / "tokenizer_config.json"
    if own.is_file():
        try:
            return untrusted.read_bytes(own, LARGEST_TEMPLATE).decode()
        except (OSError, UnicodeDecodeError) as error:
            raise CheckpointError(f"{own}: cannot be read ({error})") from error
    found = read_json(settings).get("chat_template") if settings.is_file() else None
    if isinstance(found, list):  # several by name
        named = [one for one in found if isinstance(one, dict) and one.get("name") == "default"]
        found = named[0].get("template") if named else None
    return found if isinstance(found, str) else ""


def weight_map(folder: Path) -> dict[str, str]:
    """Tensors and the file that each is in, as the index of several files has them; nothing where there is none."""
    index = folder / INDEX
    if not index.is_file():
        return {}
    named = read_json(index).get("weight_map")
    if not isinstance(named, dict) or not all(isinstance(name, str) for name in named.values()):
        raise CheckpointError(f"{index}: holds no weight_map from tensors to files")
    return named


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a folder: those its index names, or the only one."""
    if (folder / INDEX).is_file():
        named = set(weight_map(folder).values())
        for name in named:
            if Path(name).name != name or "\\" in name or not name.endswith(".safetensors"):
                raise CheckpointError(f"{folder / INDEX}: names the file {name!r}; only safetensors files beside it are read")
        return [folder / name for name in sorted(named)]
    found = sorted(folder.glob("*.safetensors"))
    if len(found) == 1:
        return found
    if found:
        raise CheckpointError(f"{folder}: holds {len(found)} safetensors files but no {INDEX}")
    if pickled := sorted(path.name for path in folder.iterdir() if path.suffix in PICKLES):
        raise CheckpointError(
            f"{folder}: its weights are only in {pickled[0]!r}, a format that can run code when it is read;"
            " weft reads safetensors. Its authors' tools can save it so (save_pretrained)"
        )
    raise CheckpointError(f"{folder}: holds no weights (model.safetensors)")


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file."""
    try:
        with untrusted.open_regular(path) as file:
            size = int.from_bytes(file.read(8), "little")
            if size > min(LARGEST_HEADER, os.fstat(file.fileno()).st_size):
                raise CheckpointError(f"{path}: its header claims {size:,} bytes; the file is damaged or hostile")
            untrusted.parse_json(file.read(size))
        return load_file(path)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror})") from error
    except (SafetensorError, ValueError, RuntimeError, KeyError) as error:
        raise CheckpointError(f"{path}: is no safetensors file ({error})") from error


def content(config: dict[str, Any], tensors: dict[str, Tensor]) -> dict[str, bytes]:
    """The files of a folder that Hugging Face's tools load."""
    dtype = next(iter(tensors.values())).dtype
    described = {**config, "dtype": str(dtype).removeprefix("torch.")}
    whole = {name: tensor.detach().to(torch.device("cpu")).contiguous() for name, tensor in tensors.items()}
    return {
        "config.json": json.dumps(described, indent=2).encode() + b"\n",
        "model.safetensors": pack(whole, metadata={"format": "pt"}),
    }
