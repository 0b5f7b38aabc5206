"""A reference model of images through its files, whose names are not those of its modules: what it saves, and what it loads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from tests.convert.parity import close
from weft.convert.family import Family
from weft.training.checkpoint import load_weights


def imported(reference: Any, family: Family, folder: Path) -> Any:
    """Our model, from the files that a reference writes."""
    reference.save_pretrained(folder / "theirs")
    settings = family.settings(json.loads((folder / "theirs" / "config.json").read_text()))
    model = settings.build()
    tensors = family.table(settings).to_own(load_file(folder / "theirs" / "model.safetensors"))
    fresh = {name: value for name, value in model.state_dict().items() if name.startswith(family.fresh)}
    load_weights(model, {**fresh, **tensors}, "reference")
    return model.eval()


def exported(model: Any, family: Family, kind: Any, folder: Path) -> Any:
    """A new reference model, from files that we write."""
    made = folder / "ours"
    made.mkdir()
    tensors = family.table(model.config).to_foreign(dict(model.named_parameters()))
    whole = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    save_file(whole, made / "model.safetensors", metadata={"format": "pt"})
    (made / "config.json").write_text(json.dumps(family.describe(model.config)))
    again, report = kind.from_pretrained(made, output_loading_info=True)
    assert not any(report.values()), report
    return again.eval()


@torch.no_grad()
def check_both_directions(reference: Any, family: Family, image: Tensor, folder: Path) -> None:
    """The same logits and last states from the same weights, and the same logits from the weights that went back."""
    ours = imported(reference, family, folder)
    close(ours(image), reference(image).logits)
    close(ours.hidden(image), reference.base_model(image).last_hidden_state)
    close(exported(ours, family, type(reference), folder)(image).logits, reference(image).logits)
