"""How a trained model keeps its weights while it continues texts: in fewer bits they take less memory, and are sooner read on a CPU."""

from __future__ import annotations

from typing import Any, Literal

from weft.core.errors import ConfigError
from weft.kernels.int8_linear import round_weights

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
        round_weights(model)
    else:
        raise ConfigError("--weights int8 is for a CPU; on a GPU take --weights bf16, or give --device cpu")
