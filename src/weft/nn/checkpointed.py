"""What a Transformer block keeps for its backward pass, and what it computes again (Chen et al., 2016, arXiv:1604.06174).

"none" keeps whatever PyTorch would. "selective" keeps what matrix products, attention and random numbers gave: norms and
activations, which are cheap, are computed again, for about five eighths of the memory (`gpt_block_cuda` only does so for activations, in a
pass that it makes anyway: three quarters). "full" keeps only what enters a block, and computes the whole block again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

Checkpointing = Literal["none", "selective", "full"]
SHARE = {"none": 1.0, "selective": 3 / 4}
"""Memory of a block, about, of that of all. Of GPT's 16 widths for each token, the activation is 4."""
PRODUCTS = ("mm", "addmm", "product", "feed_forward")
COSTLY = (*PRODUCTS, "native_dropout", "randint", "scaled_dot_product", "short_attention", "packed_attention")
"""How the names of the operations begin whose results are kept."""


def policy(context: Any, operation: Any, *given: Any, **named: Any) -> CheckpointPolicy:
    name = str(operation).split(".")[1].lstrip("_")  # aten._scaled_dot_product_cudnn_attention.default
    return CheckpointPolicy.MUST_SAVE if name.startswith(COSTLY) else CheckpointPolicy.PREFER_RECOMPUTE


def checkpointed(kept: Checkpointing, function: Callable[..., Tensor], *given: Any) -> Tensor:
    """Call a function whose backward pass finds only what `kept` says."""
    if kept == "none" or not torch.is_grad_enabled():
        return function(*given)
    some: dict[str, Any] = {"context_fn": partial(create_selective_checkpoint_contexts, policy)} if kept == "selective" else {}
    found: Tensor = checkpoint(function, *given, use_reentrant=False, **some)
    return found
