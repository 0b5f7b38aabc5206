"""ResNet and DenseNet by the names of torchvision, which timm has too: files of weights (.pth, .pt, .th), and timm's folders.

What the tensors are says what the network is, so that no list of known names is needed.
"""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from weft.convert.family import Family, setting
from weft.convert.folder import Foreign
from weft.convert.table import Ignore, Rename, Row, Table
from weft.core import untrusted
from weft.core.errors import CheckpointError
from weft.core.untrusted import parsing
from weft.models.vision import densenet, resnet
from weft.models.vision.densenet import DenseNetConfig
from weft.models.vision.resnet import ResNetConfig

LARGEST = 4 << 30
IMAGENET_MEAN, IMAGENET_STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
NORM = ("weight", "bias", "running_mean", "running_var")
ROOTS = {"timm-densenet": "features.conv0.weight", "timm-resnet": "conv1.weight"}
"""The first tensor of each family; the layers of a DenseNet have a conv1, too."""
HEADS = ("fc", "linear", "classifier")


def read(path: Path) -> Foreign:
    """A file of weights, which PyTorch reads as data only (weights_only), running none of it."""
    with parsing(path, CheckpointError, ": holds no weights that can be read as data"), untrusted.open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > LARGEST:
            raise ValueError(f"larger than {LARGEST >> 30} GiB")
        content = torch.load(file, map_location="cpu", weights_only=True)
        for name in ("state_dict", "model_state", "model"):
            if isinstance(content, dict) and isinstance(content.get(name), dict):
                content = content[name]
        tensors = {name: value for name, value in dict(content).items() if isinstance(name, str) and isinstance(value, Tensor)}
    found = recognised(tensors)
    if found is None:
        raise CheckpointError(f"{path}: of such files weft knows those of ResNet and DenseNet, by torchvision's names")
    return found


def recognised(tensors: dict[str, Tensor], config: dict[str, Any] | None = None) -> Foreign | None:
    """The network that tensors of these names are, what stands before all of them left out, and how it is shown its images."""
    for kind, root in ROOTS.items():
        prefix = next((name.removesuffix(root) for name in sorted(tensors) if re.fullmatch(r"([\w.]+\.)?" + re.escape(root), name)), None)
        if prefix is None:
            continue
        own = {new_name(name.removeprefix(prefix)): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
        head = next((name for name in HEADS if f"{name}.weight" in own), None)
        with parsing(f"the {kind.removeprefix('timm-')}", CheckpointError, ": is none that weft has"):
            shapes = {name: tuple(tensor.shape) for name, tensor in own.items()}
            args = (resnet_args if kind == "timm-resnet" else densenet_args)(shapes, head or "")
            theirs = dict((config or {}).get("pretrained_cfg", {}))
            args["image"] = list(theirs.get("input_size", args["image"]))
            described = {**(config or {}), "model_type": kind, "model_args": args}
            return Foreign(described, renamed_head(own, kind, head), preprocessor=shown(theirs, args))
    return None


def new_name(name: str) -> str:
    """DenseNet's first files have denselayer1.norm.1, later ones denselayer1.norm1."""
    return re.sub(r"(denselayer\d+\.(?:norm|conv))\.([12])\.", r"\1\2.", name)


def renamed_head(tensors: dict[str, Tensor], kind: str, head: str | None) -> dict[str, Tensor]:
    """The head under the name that torchvision gives it."""
    wanted = "fc" if kind == "timm-resnet" else "classifier"
    if head in (None, wanted):
        return tensors
    return {name.replace(f"{head}.", f"{wanted}.", 1) if name.startswith(f"{head}.") else name: t for name, t in tensors.items()}


def numbers(shapes: dict[str, tuple[int, ...]], name: str) -> int:
    """How many parts there are whose names are numbered so."""
    expression = re.compile(re.escape(name).replace(r"\{i\}", r"(\d+)") + r"\..*")
    return len({match[1] for tensor in shapes if (match := expression.fullmatch(tensor))})


def resnet_args(shapes: dict[str, tuple[int, ...]], head: str) -> dict[str, Any]:
    stages = range(1, 1 + numbers(shapes, "layer{i}"))
    bottleneck = "layer1.0.conv3.weight" in shapes
    projected = [f"layer{stage}.{block}.downsample.0.weight" in shapes for stage in stages for block in (0, 1)]
    shortcut = "all_projections" if projected[1:2] == [True] else "projection" if any(projected) else "pad"
    kernel = shapes["conv1.weight"][-1]
    return {
        "blocks": [numbers(shapes, f"layer{stage}.{{i}}") for stage in stages],
        "channels": [shapes[f"layer{stage}.0.conv1.weight"][0] for stage in stages],
        "block": "bottleneck" if bottleneck else "basic",
        "stem": "imagenet" if kernel == 7 else "cifar",
        "shortcut": shortcut,
        "pad_both_sides": shortcut == "pad",  # as all known weights without projections have it
        "image": [shapes["conv1.weight"][1], *(2 * [224 if kernel == 7 else 32])],
        "classes": shapes[f"{head}.weight"][0] if head else 1000,
    }


def densenet_args(shapes: dict[str, tuple[int, ...]], head: str) -> dict[str, Any]:
    blocks = range(1, 1 + numbers(shapes, "features.denseblock{i}"))
    first, new = "features.denseblock1.denselayer1.", shapes["features.denseblock1.denselayer1.conv2.weight"]
    small = "features.norm0.weight" not in shapes
    kept = shapes["features.transition1.conv.weight"][:2] if len(blocks) > 1 else (1, 1)
    return {
        "layers": [numbers(shapes, f"features.denseblock{block}.denselayer{{i}}") for block in blocks],
        "growth": new[0],
        "channels": shapes["features.conv0.weight"][0],
        "bottleneck": new[1] // new[0] if f"{first}norm2.weight" in shapes else 0,
        "compression": kept[0] / kept[1],
        "stem": "cifar" if small else "imagenet",
        "image": [shapes["features.conv0.weight"][1], *(2 * [32 if small else 224])],
        "classes": shapes[f"{head}.weight"][0] if head else 1000,
    }


def shown(theirs: dict[str, Any], args: dict[str, Any]) -> dict[str, Any] | None:
    """How images are resized, cut and normed: as timm's pretrained_cfg says, else as torchvision shows them."""
    channels, side, _ = args["image"]
    mean, std = theirs.get("mean", IMAGENET_MEAN), theirs.get("std", IMAGENET_STD)
    share = theirs.get("crop_pct", 0.875) if args["stem"] == "imagenet" else 1.0
    if channels != len(mean):
        return None
    cut = {"do_center_crop": True, "crop_size": side, "size": {"shortest_edge": math.floor(side / share)}}
    return {"do_normalize": True, "image_mean": list(mean), "image_std": list(std), **(cut if share < 1 else {"size": side})}


def arguments(config: dict[str, Any]) -> dict[str, Any]:
    """Settings as `recognised` has found them."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in setting(config, "model_args").items()}


def resnet_settings(config: dict[str, Any]) -> ResNetConfig:
    return ResNetConfig(**arguments(config))


def densenet_settings(config: dict[str, Any]) -> DenseNetConfig:
    return DenseNetConfig(**arguments(config))


def described(c: Any, kind: str, presets: dict[str, Any], fields: tuple[str, ...]) -> dict[str, Any]:
    """timm's config.json: the published name where the network has one, and its settings."""
    published = next((name for name, preset in presets.items() if all(getattr(c, f) == getattr(preset, f) for f in fields)), kind)
    args = {name: getattr(c, name) for name in (*fields, "image", "classes")}
    size = {"input_size": list(c.image), "num_classes": c.classes}
    return {
        "architectures": [published],
        "architecture": published,
        "model_type": f"timm-{kind}",
        "model_args": args,
        "pretrained_cfg": size,
    }


def describe_resnet(c: ResNetConfig) -> dict[str, Any]:
    if c.shortcut == "none" or c.stride_first or (c.shortcut == "pad" and not c.pad_both_sides):
        raise CheckpointError("torchvision's names are for networks with shortcuts, strides in 3 x 3 convolutions, zeros on both sides")
    return described(c, "resnet", resnet.PRESETS, ("blocks", "channels", "block", "stem", "shortcut", "pad_both_sides"))


def describe_densenet(c: DenseNetConfig) -> dict[str, Any]:
    return described(c, "densenet", densenet.PRESETS, ("layers", "growth", "channels", "bottleneck", "compression", "stem"))


def same(foreign: str, own: str, parts: tuple[str, ...] = ("weight",)) -> list[Row]:
    """Rows of a module; of a norm also its running statistics."""
    rows: list[Row] = [Rename(f"{foreign}.{part}", f"{own}.{part}") for part in parts]
    return [*rows, Ignore(f"{foreign}.num_batches_tracked")] if parts == NORM else rows


def resnet_table(c: ResNetConfig) -> Table:
    rows = [*same("conv1", "stem.0"), *same("bn1", "stem.1", NORM), *same("fc", "head", ("weight", "bias"))]
    for stage in range(len(c.blocks)):
        foreign, own = f"layer{stage + 1}.{{j}}", f"stages.{stage}.{{j}}"
        rows += [*same(f"{foreign}.conv{{k}}", f"{own}.conv{{k}}"), *same(f"{foreign}.bn{{k}}", f"{own}.norm{{k}}", NORM)]
        rows += [*same(f"{foreign}.downsample.0", f"{own}.shortcut.0"), *same(f"{foreign}.downsample.1", f"{own}.shortcut.1", NORM)]
    return Table(rows)


def densenet_table(c: DenseNetConfig) -> Table:
    rows = [*same("features.conv0", "stem"), *same("features.norm5", "norm", NORM), *same("classifier", "head", ("weight", "bias"))]
    rows += same("features.norm0", "stem_norm", NORM)
    for block, layers in enumerate(c.layers):
        for layer in range(layers):
            foreign, own = f"features.denseblock{block + 1}.denselayer{layer + 1}", f"blocks.{block}.{layer}"
            for part in (1, 2):
                rows += [*same(f"{foreign}.norm{part}", f"{own}.norm{part}", NORM), *same(f"{foreign}.conv{part}", f"{own}.conv{part}")]
        foreign, own = f"features.transition{block + 1}", f"transitions.{block}"
        rows += [*same(f"{foreign}.norm", f"{own}.norm", NORM), *same(f"{foreign}.conv", f"{own}.conv")]
    return Table(rows)


RESNET = Family("resnet/images", ResNetConfig, resnet_settings, describe_resnet, resnet_table, fresh=("head.",))
DENSENET = Family("densenet/images", DenseNetConfig, densenet_settings, describe_densenet, densenet_table, fresh=("head.",))
