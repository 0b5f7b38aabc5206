"""The attention weights of a model as it runs, layer by layer, without a change to its layers.

Fused kernels keep no weights. While a recorder is entered, each call of PyTorch's kernel in this thread is intercepted, and the weights are
worked out a second time from the very queries, keys and masks that the kernel got. A layer that returns its weights, as those of recurrent
decoders do, is asked for them; one that is called step by step is read from its first call to its last.

Shapes: B batch, H heads, T query time, S key time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from weft.core.errors import CapabilityError


def kernel_weights(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """What the kernel, called with these arguments, multiplies its values by: (B, H, T, S), each row summing to 1."""
    scores = (q.float() * (q.size(-1) ** -0.5 if scale is None else scale)) @ k.float().mT
    if is_causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, float("-inf")) if attn_mask.dtype == torch.bool else scores + attn_mask.float()
    return scores.softmax(dim=-1)


class Recorder(TorchFunctionMode):
    """`with Recorder(model) as recorder: model(…)` leaves the weights of the last call of each attention layer in `weights`, by name."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.layers = {name: module for name, module in model.named_modules() if attends(module)}
        self.weights: dict[str, Tensor] = {}
        self._inside = ""
        self._hooks: list[Any] = []

    def __enter__(self) -> Recorder:
        for name, layer in self.layers.items():
            if getattr(type(layer), "returns_weights", False):
                self._hooks.append(layer.register_forward_hook(self._returned(name)))
            else:
                self._hooks.append(layer.register_forward_pre_hook(self._entering(name)))
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.scaled_dot_product_attention and self._inside:
            self.weights[self._inside] = kernel_weights(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))

    def of(self, names: list[str]) -> list[Tensor]:
        """The weights of layers by name; refused where another kernel than PyTorch's was used, whose calls are not intercepted."""
        if missing := [name for name in names if name not in self.weights]:
            raise CapabilityError(f"the attention of {missing[0]} ran in a kernel that keeps no weights")
        return [self.weights[name] for name in names]

    def _entering(self, name: str) -> Callable[..., None]:
        def note(*_: Any) -> None:
            self._inside = name

        return note

    def _returned(self, name: str) -> Callable[..., None]:
        def note(layer: Any, inputs: Any, output: tuple[Tensor, Tensor]) -> None:
            weights = output[1].unsqueeze(1)  # one head
            before = self.weights.get(name)
            self.weights[name] = weights if before is None else torch.cat([before, weights], 2)

        return note


def attends(module: nn.Module) -> bool:
    """Whether a layer has attention weights to record."""
    return hasattr(type(module), "attention_fn") or getattr(type(module), "returns_weights", False)
