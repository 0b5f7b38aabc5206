"""Whether a layer is exactly what it seems: default deny.

A known module is of exactly a known type, with nothing on it that its type does not have. A subclass, a hook, a parametrization, an
attribute, weight or submodule more, a weight of another size, a method or function that was replaced (`kernels.replaced`), or mathematics
that changed since the kernels were checked against it (`kernels.mathematics`) makes it unknown, and the plain layers serve.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.nn.modules import module as hooks

from weft.kernels import mathematics, replaced
from weft.kernels.int8_linear import Int8Linear
from weft.nn import norm
from weft.nn.attention import SelfAttention
from weft.nn.block import Block, Blocks
from weft.nn.dropout import Dropout, DropPath
from weft.nn.feed_forward import FeedForward, GatedFeedForward
from weft.nn.recurrent import GATES, ROUNDS, RecurrentLayer

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
INTERNALS = {*vars(nn.Module()), "implementations"}
"""Attributes that every module has."""
NORM = {"normalized_shape", "eps", "elementwise_affine"}
ATTRIBUTES: dict[type, set[str]] = {
    Block: {"order"},
    Blocks: set(),
    SelfAttention: {"heads", "kv_heads", "causal", "dropout", "qk_norm", "head_dim"},
    FeedForward: {"activation"},
    GatedFeedForward: {"activation"},
    Dropout: {"share"},
    DropPath: {"share"},
    norm.LayerNorm: NORM,
    norm.RMSNorm: NORM,
    nn.LayerNorm: NORM,
    nn.RMSNorm: NORM,
    nn.Identity: set(),
    nn.Linear: {"in_features", "out_features"},
    nn.Embedding: {"num_embeddings", "embedding_dim", "padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse"},
    Int8Linear: {"in_features", "out_features", "packed", "rows", "bias"},
    RecurrentLayer: {"cell", "inputs", "width", "projection", "cell_clip", "projection_clip", "state_shapes"},
}
"""Known types, and what each instance has besides."""
CHILDREN: dict[type, set[str]] = {
    Block: {"attention", "feedforward", "norm1", "norm2", "dropout", "drop_path"},
    SelfAttention: {"qkv", "out"},
    FeedForward: {"up", "down"},
    GatedFeedForward: {"gate_up", "down"},
}
WEIGHTS: dict[type, set[str]] = {
    **{kind: {"weight", "bias"} for kind in (nn.Linear, nn.LayerNorm, norm.LayerNorm, nn.RMSNorm, norm.RMSNorm)},
    nn.Embedding: {"weight"},
    Int8Linear: {"bias", "whole", "scale"},
    RecurrentLayer: {
        *("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr", "peephole_i", "peephole_f", "peephole_o"),
        *("norm_ih", "norm_hh", "norm_c", "bias_c", "mogrify_x", "mogrify_h"),
    },
}
PLAIN_TENSORS = (Tensor, nn.Parameter)
"""Whose numbers can be read where they lie; not a part of something that processes share."""
UNCHANGED: set[Any] = set()
"""Types and modules whose mathematics was looked at in the description that is being made."""


class Unknown(Exception):
    """Why there is no description."""


def described(describe: Callable[..., Any], *given: Any) -> Any:
    """What `describe` makes of something, or the reason why it is unknown, as text."""
    UNCHANGED.clear()
    try:
        return describe(*given)
    except Unknown as unknown:
        return str(unknown)
    finally:
        UNCHANGED.clear()


def check_known(module: Any, name: str, *kinds: type) -> None:
    """Raise Unknown where a module is not exactly of one of these types, or has anything that its type does not have."""
    kind = type(module)
    if kind not in kinds:
        raise Unknown(f"{name} is {a(kind.__name__)}, not {a(kinds[0].__name__)}")
    check_own(module, name, ATTRIBUTES[kind], CHILDREN.get(kind, set()) if kind is not Blocks else None)
    if more := {*module._parameters, *module._buffers} - WEIGHTS.get(kind, set()):
        raise Unknown(f"{name} has {min(more)} besides")
    check_weights(module, name)
    check_unchanged(kind)


def check_weights(module: Any, name: str) -> None:
    """Raise Unknown where a weight is not of the size that the layer says, or is read otherwise than it lies."""
    for title, size in sizes_of(module).items():
        weight = module._parameters.get(title)
        if weight is not None and weight.shape != size:
            raise Unknown(f"{name} has a {title} of {tuple(weight.shape)} and not of {size}")
    if any(weight.is_neg() for weight in module._parameters.values() if weight is not None):
        raise Unknown(f"{name} has a weight that is a view of its opposite")


def sizes_of(module: Any) -> dict[str, tuple[int, ...]]:
    """Of the weights of a layer of a known type."""
    if isinstance(module, (nn.Linear, Int8Linear)):
        return {"weight": (module.out_features, module.in_features), "bias": (module.out_features,)}
    if isinstance(module, nn.Embedding):
        return {"weight": (module.num_embeddings, module.embedding_dim)}
    if isinstance(module, (nn.LayerNorm, nn.RMSNorm)):
        return dict.fromkeys(("weight", "bias"), tuple(module.normalized_shape))
    if isinstance(module, RecurrentLayer):
        gates, outputs = GATES[module.cell] * module.width, module.projection or module.width
        sizes: dict[str, tuple[int, ...]] = {
            "weight_ih": (gates, module.inputs),
            "weight_hh": (gates, outputs),
            "weight_hr": (outputs, module.width),
        }
        sizes |= {"mogrify_x": ((ROUNDS + 1) // 2, module.inputs, outputs), "mogrify_h": (ROUNDS // 2, outputs, module.inputs)}
        of_gates, of_units = ("bias_ih", "bias_hh", "norm_ih", "norm_hh"), ("peephole_i", "peephole_f", "peephole_o", "norm_c", "bias_c")
        return {**sizes, **dict.fromkeys(of_gates, (gates,)), **dict.fromkeys(of_units, (module.width,))}
    return {}


def check_unchanged(kind: Any) -> None:
    if changed := (not UNCHANGED and replaced.of_torch()) or mathematics.changed(kind, UNCHANGED):
        raise Unknown(changed)


def check_checked(kind: type) -> None:
    """Raise Unknown where the kernels were not checked against a class, or it has changed since."""
    if not mathematics.is_checked(kind):
        raise Unknown(f"the kernels were not checked against {kind.__name__} (kernels/mathematics.py)")
    check_unchanged(kind)


def check_own(module: Any, name: str, attributes: set[str], children: set[str] | None) -> None:
    """Raise Unknown where a module has hooks, or attributes and submodules (None: any) besides."""
    own = vars(module)
    if has_hook(own) or any(getattr(hooks, f"_global{kind}", ()) for kind in HOOKS):
        raise Unknown(f"{name} has a hook")
    installed = {slot for slot, what in own.get("implementations", {}).items() if own.get(slot) is what}
    if more := own.keys() - INTERNALS - attributes - installed:
        raise Unknown(f"{name} has {min(more)} of its own")
    if children is not None and (wrong := module._modules.keys() ^ children):
        raise Unknown(f"{name} has {min(wrong)} besides" if wrong & module._modules.keys() else f"{name} has no {min(wrong)}")


def has_hook(own: dict[str, Any]) -> bool:
    """Whether something is called beside a module, whose attributes these are."""
    return bool(own["_forward_hooks"] or own["_forward_pre_hooks"] or own["_backward_hooks"] or own["_backward_pre_hooks"])


def hooked(block: nn.Module) -> bool:
    """Whether a layer within a block has had a hook since the block was described; one of the block itself is called around it."""
    return any(has_hook(vars(module)) for module in all_of(block)[1] if module is not block)


def a(noun: str) -> str:
    return f"{'an' if noun[0] in 'AEIOU' else 'a'} {noun}"


def all_of(module: nn.Module) -> tuple[list[Tensor], list[nn.Module]]:
    """Parameters, buffers and modules, some of them twice; in a tenth of the time that PyTorch's own iterators take."""
    tensors: list[Tensor] = []
    modules = [module]
    for one in modules:  # which grows as it is gone through
        tensors += [tensor for tensor in (*one._parameters.values(), *one._buffers.values()) if tensor is not None]
        modules += [child for child in one._modules.values() if child is not None]
    return tensors, modules
