"""Weight-only quantization for decoding: weights of fewer bits take less memory, and are sooner read on a CPU."""

from __future__ import annotations

from typing import Literal

from torch import nn

from weft.core.errors import ConfigError
from weft.kernels.int8_linear import quantize_weights
from weft.kernels.known import check_known, described
from weft.models.base import EncoderDecoder, NextTokenLogits, offers

Precision = Literal["fp32", "bf16", "int8"]


def quantize_model(model: nn.Module, precision: Precision) -> None:
    """Change a model in place. int8: the linear layers by `kernels.int8_linear`, the rest as it was, and no training afterwards."""
    if precision == "fp32":
        return
    if not offers(model, NextTokenLogits) or offers(model, EncoderDecoder):
        raise ConfigError(f"--precision {precision} is for GPT, Llama and their like, and this is {type(model).__name__}; leave it out")
    if precision == "bf16":
        model.bfloat16()
    elif next(model.parameters()).is_cpu:
        check_linears(model)
        quantize_weights(model)
    else:
        raise ConfigError("--precision int8 is for a CPU; on a GPU take --precision bf16, or give --device cpu")


def check_linears(model: nn.Module) -> None:
    """Refuse a model with linear layers that do more than multiply by a matrix, as that would be lost."""
    for name, layer in model.named_modules():
        if isinstance(layer, nn.Linear) and (why := described(check_known, layer, name, nn.Linear)):
            raise ConfigError(f"--precision int8 is for plain linear layers, and {why}; leave it out, or take --precision bf16")
