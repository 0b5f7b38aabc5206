"""ResNet and DenseNet of torchvision: logits that it computed from the same weights, files of weights, timm's folders, both ways."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import weft
from weft.convert import torchvision
from weft.convert.convert import convert
from weft.core.errors import CheckpointError
from weft.models.vision import densenet, resnet
from weft.training.checkpoint import checkpoint

FIXTURE = Path(__file__).parent.parent / "fixtures" / "torchvision" / "logits.json"
PRESETS = {"resnet18": resnet.PRESETS, "resnet50": resnet.PRESETS, "densenet121": densenet.PRESETS}


def table(config: Any) -> Any:
    return (torchvision.resnet_table if isinstance(config, resnet.ResNetConfig) else torchvision.densenet_table)(config)


def filled(model: nn.Module) -> dict[str, Tensor]:
    """Weights by torchvision's names, each drawn from its name."""
    foreign = table(model.config).to_foreign(model.state_dict())
    for name, tensor in foreign.items():
        drawn = torch.randn(tensor.shape, generator=torch.Generator().manual_seed(zlib.crc32(name.encode())))
        if name.endswith("running_var"):
            drawn = 1 + drawn.abs()
        elif tensor.ndim > 1:
            drawn *= (2 / tensor[0].numel()) ** 0.5
        else:
            drawn = 0.1 * drawn + (1.0 if name.endswith("weight") else 0.0)
        foreign[name] = drawn
    return foreign


@torch.no_grad()
@pytest.mark.parametrize("name", list(PRESETS))
def test_logits_are_those_of_torchvision(name: str) -> None:
    model = PRESETS[name][name].build().eval()
    checkpoint.load_weights(model, table(model.config).to_own(filled(model)), "the fixture")
    image = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    wanted = torch.tensor(json.loads(FIXTURE.read_text())["logits"][name]["logits"])
    torch.testing.assert_close(model(image)[:, : wanted.size(1)], wanted, rtol=1e-4, atol=1e-4)


def small(kind: str) -> nn.Module:
    torch.manual_seed(1)
    config: Any = {
        "resnet": resnet.ResNetConfig(image=(3, 32, 32), classes=5, blocks=(1, 2), channels=(4, 8), block="bottleneck"),
        "all projections": resnet.ResNetConfig(image=(3, 32, 32), classes=5, blocks=(2, 2), channels=(4, 8), shortcut="all_projections"),
        "zeros": resnet.ResNetConfig(
            image=(3, 32, 32), classes=5, blocks=(1, 2), channels=(4, 8), stem="cifar", shortcut="pad", pad_both_sides=True
        ),
        "densenet": densenet.DenseNetConfig(image=(3, 32, 32), classes=5, layers=(2, 3), growth=4, channels=8),
        "densenet of cifar": densenet.DenseNetConfig(
            image=(3, 32, 32), classes=5, layers=(2, 3), growth=4, channels=8, stem="cifar", bottleneck=0, compression=1.0
        ),
    }[kind]
    model: nn.Module = config.build()
    with torch.no_grad():
        for buffer in model.buffers():
            buffer += torch.rand_like(buffer)
    return model.eval()


@torch.no_grad()
@pytest.mark.parametrize("kind", ["resnet", "all projections", "zeros", "densenet", "densenet of cifar"])
def test_a_file_of_weights_says_what_network_it_is(kind: str, tmp_path: Path) -> None:
    model = small(kind)
    tensors = {f"module.{name}": tensor for name, tensor in table(model.config).to_foreign(model.state_dict()).items()}
    torch.save({"state_dict": tensors, "best_prec1": 91.5}, tmp_path / "weights.pth")
    convert(str(tmp_path / "weights.pth"), tmp_path / "run")
    loaded: Any = weft.load(tmp_path / "run", "cpu")
    image = torch.rand(2, 3, 32, 32)
    assert torch.equal(loaded(image), model(image))
    shown = json.loads((tmp_path / "run" / "recipe.json").read_text())["data"]
    assert shown["mean"] == pytest.approx(torchvision.IMAGENET_MEAN)
    assert shown["crop_size"] == (0 if "cifar" in (kind.rpartition(" ")[2], getattr(model.config, "stem", "")) else 224)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["resnet", "densenet"])
def test_folders_as_timm_has_them_go_out_and_come_back(kind: str, tmp_path: Path) -> None:
    """Running statistics too; a folder of timm names its network and how images are shown."""
    model = small(kind)
    (tmp_path / "timm").mkdir()
    save_file(table(model.config).to_foreign(model.state_dict()), tmp_path / "timm" / "model.safetensors")
    described = {"input_size": [3, 48, 48], "mean": [0.5, 0.5, 0.5], "std": [0.25, 0.25, 0.25], "crop_pct": 0.75}
    (tmp_path / "timm" / "config.json").write_text(json.dumps({"architecture": kind, "num_classes": 5, "pretrained_cfg": described}))
    convert(str(tmp_path / "timm"), tmp_path / "run")
    data = json.loads((tmp_path / "run" / "recipe.json").read_text())["data"]
    assert (data["size"], data["crop_size"], data["std"]) == (64, 48, pytest.approx([0.25, 0.25, 0.25]))
    convert(str(tmp_path / "run"), tmp_path / "out")
    back, sent = load_file(tmp_path / "out" / "model.safetensors"), load_file(tmp_path / "timm" / "model.safetensors")
    assert back.keys() == sent.keys()
    assert all(torch.equal(back[name], sent[name]) for name in sent)
    convert(str(tmp_path / "out"), tmp_path / "again")
    image = torch.rand(2, 3, 48, 48)
    assert torch.equal(weft.load(tmp_path / "again", "cpu")(image), model(image))  # type: ignore[operator]


def test_old_names_of_dense_layers_are_read() -> None:
    model = small("densenet")
    tensors = table(model.config).to_foreign(model.state_dict())
    old = {name.replace(".norm1.", ".norm.1.").replace(".conv2.", ".conv.2."): tensor for name, tensor in tensors.items()}
    found = torchvision.recognised(old)
    assert found is not None
    assert found.tensors.keys() == tensors.keys()


def test_other_files_are_one_sentence(tmp_path: Path) -> None:
    torch.save({"weight": torch.zeros(3)}, tmp_path / "other.pth")
    with pytest.raises(CheckpointError, match="those of ResNet and DenseNet"):
        convert(str(tmp_path / "other.pth"), tmp_path / "run")
    (tmp_path / "bad.pth").write_bytes(b"PK nothing")
    with pytest.raises(CheckpointError, match="no weights that can be read as data"):
        convert(str(tmp_path / "bad.pth"), tmp_path / "run")
    torch.save({"conv1.weight": torch.zeros(4, 3, 7, 7), "layer1.0.conv1.weight": torch.zeros(4, 4, 3, 3)}, tmp_path / "cut.pth")
    with pytest.raises(CheckpointError):
        convert(str(tmp_path / "cut.pth"), tmp_path / "run")


def test_networks_without_a_foreign_form_are_not_written() -> None:
    with pytest.raises(CheckpointError, match="shortcuts"):
        torchvision.describe_resnet(resnet.ResNetConfig(shortcut="none"))
