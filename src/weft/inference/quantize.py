"""How a trained model keeps its weights while it continues texts: in fewer bits they take less memory, and are sooner read on a CPU."""

from __future__ import annotations

from typing import Any, Literal

from torch import nn

from weft.core.errors import ConfigError
from weft.kernels.int8_linear import round_weights
from weft.kernels.spec import check_known, described

Weights = Literal["fp32", "bf16", "int8"]


def keep_weights(model: Any, kind: Weights) -> None:
    """Change a model in place. int8: the linear layers by `kernels.int8_linear`, the rest as it was, and no training afterwards."""
    if kind == "fp32":
        return
    if not hasattr(model, "decoder_stack"):
        raise ConfigError(f"--weights {kind} is for GPT, Llama and their like, and this is {type(model).__name__}; leave it out")
    if kind == "bf16":
        model.bfloat16()
    elif next(model.parameters()).is_cpu:
        check_linears(model)
        round_weights(model)
    else:
        raise ConfigError("--weights int8 is for a CPU; on a GPU take --weights bf16, or give --device cpu")


def check_linears(model: nn.Module) -> None:
    """Refuse a model with linear layers that do more than multiply by a matrix, as that would be lost."""
    for name, layer in model.named_modules():
        if isinstance(layer, nn.Linear) and (why := described(check_known, layer, name, nn.Linear)):
            raise ConfigError(f"--weights int8 is for plain linear layers, and {why}; leave it out, or take --weights bf16")
