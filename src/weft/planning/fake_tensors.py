"""Tensors that have a shape, a type and a device, and no numbers: any model is built and run at once, whatever its size.

They pretend to live on a CPU. What a GPU would do otherwise is put in its place: attention stays one kernel with a mask or
dropout, too, and dropout keeps no mask, as a compiled step draws it again from its seed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from weft.core.tensor_cache import uncached
from weft.kernels.usage import has_layers_with_kernels
from weft.nn.dropout import Dropout
from weft.objectives.base import Objective
from weft.planning.subject import Subject
from weft.training import execution_options

HERE = threading.local()
"""Only this thread pretends: another may be answering questions meanwhile."""


@contextmanager
def fake_tensors() -> Iterator[None]:
    """Everything that this thread makes inside has no numbers."""
    before, HERE.fake = getattr(HERE, "fake", False), True
    try:
        with uncached(), FakeTensorMode():
            yield
    finally:
        HERE.fake = before


def one_kernel(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    dropout: float = 0.0,
    bias: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """Attention with the memory and FLOPs of a GPU's kernel; a bias that is learned is the exception, which has a gradient of its own."""
    from weft.nn.attention import fused_attention

    if not getattr(HERE, "fake", False):
        return fused_attention(q, k, v, mask, causal, dropout, bias, scale)
    if bias is not None:
        return fused_attention(q, k, v, None, causal, 0.0, bias, scale)
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal and q.size(-2) == k.size(-2), scale=scale)


def build(subject: Subject, backend: str = "fused", gpu: bool = False) -> tuple[nn.Module, Objective]:
    """Model and objective, ready to train, with attention as the trainer would choose it and, for a `gpu`, its logits."""
    model, objective = subject.model.build().train(), subject.objective.build()
    if has_layers_with_kernels(model):
        from weft.kernels import select

        select.use_attention(model, backend)
    for module in model.modules():
        if hasattr(type(module), "attention_fn") and backend == "fused":
            setattr(module, "attention_fn", one_kernel)  # noqa: B010
        if isinstance(module, Dropout):
            module.share = 0.0
        if hasattr(module, "static_shapes"):
            setattr(module, "static_shapes", True)  # noqa: B010
    if hasattr(objective, "logits_backend"):
        chosen = execution_options.resolve(subject.train.cross_entropy, execution_options.of_cross_entropy(gpu, model, objective))[0]
        setattr(objective, "logits_backend", chosen)  # noqa: B010
    return model, objective
