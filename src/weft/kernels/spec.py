"""What a model's layers compute, described so that a kernel can say whether it computes exactly that.

Default deny: a description is made of modules of exactly known types, with nothing on them that their type does not have. A subclass, a
hook, a parametrization, an attribute, weight or submodule more, or mathematics that changed since the kernels were checked against it
(`kernels.mathematics`) gives no description but the reason why there is none, and the plain layers serve. Shapes: D width.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as hooks

from weft.kernels import mathematics
from weft.kernels.int8_linear import Int8Linear
from weft.kernels.usage import Machine, UsageSpec
from weft.nn import attention, norm
from weft.nn.attention import SelfAttention
from weft.nn.block import Block, Blocks
from weft.nn.dropout import Dropout, DropPath
from weft.nn.feed_forward import ACTIVATIONS, FeedForward, GatedFeedForward
from weft.nn.recurrent import STEPS, RecurrentLayer

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
    RecurrentLayer: {"weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr", "peephole_i", "peephole_f", "peephole_o"},
}
PLAIN_ACTIVATIONS, PLAIN_STEPS = dict(ACTIVATIONS), dict(STEPS)
PLAIN_TENSORS = (Tensor, nn.Parameter)
"""Whose numbers can be read where they lie; not a part of something that processes share."""


UNCHANGED: set[Any] = set()
"""Types whose mathematics was looked at in the description that is being made."""


class Unknown(Exception):
    """Why there is no description."""


@dataclass(frozen=True, kw_only=True)
class AttentionSpec:
    kind: str
    width: int = 0
    heads: int = 1
    kv_heads: int = 1
    head_dim: int = 0
    causal: bool = False
    qk_norm: bool = False
    dropout: float = 0.0
    packed: bool = False
    """Whether it is exactly `SelfAttention`, whose queries, keys and values come of one product."""

    def __str__(self) -> str:
        if not self.packed:
            return self.kind
        more = [f"groups {self.kv_heads}"] * (self.kv_heads != self.heads) + ["causal"] * self.causal
        return f"{self.kind}({', '.join([f'width {self.width}', f'heads {self.heads}', *more])})"


@dataclass(frozen=True, kw_only=True)
class BlockSpec:
    """A `Block` in every detail that changes what it computes."""

    attention: AttentionSpec
    ffn_width: int
    gated: bool
    activation: str
    order: str
    norm: str
    """layer, rms or none."""
    eps: tuple[float, float]
    norm_weights: str
    """Which of the norms' scales and shifts there are: all, scales, or some."""
    bias: str
    """Which of the linear layers have a bias: all, none or some."""
    dropout: float
    drop_path: float
    positions: str = ""
    """Position embedding of its attention: rope, none, or nothing where each call may say."""
    window: int = 0
    """Tokens that it looks back at, by a mask; 0 for all."""
    linear: str = "linear"
    """linear, int8, or mixed."""
    dtypes: frozenset[str] = frozenset({"float32"})
    """Of its weights."""
    contiguous: bool = True
    plain_tensors: bool = True
    alignment: int = 16
    """Bytes of which the place of every weight is a multiple, 16 at most."""
    use: UsageSpec = field(default_factory=UsageSpec)

    def __str__(self) -> str:
        a = self.attention
        kind = [f"width {a.width}", f"heads {a.heads}", *[f"groups {a.kv_heads}"] * (a.kv_heads != a.heads)]
        kind += [f"{'gated ' * self.gated}{self.activation}", *[f"{self.norm} norm"] * (self.norm != "layer")]
        kind += ["post-norm"] * (self.order == "post") + [f"window {self.window}"] * (self.window > 0)
        return f"Block({', '.join(kind)})"


@dataclass(frozen=True, kw_only=True)
class RecurrentSpec:
    """A `RecurrentLayer`: a cell, its sizes and weights."""

    cell: str
    inputs: int
    width: int
    projection: int
    clipped: bool
    """Whether its cell or its projection has bounds."""
    dtypes: frozenset[str]
    contiguous: bool
    plain_tensors: bool
    alignment: int
    use: UsageSpec

    def __str__(self) -> str:
        more = [f"projection {self.projection}"] * (self.projection > 0) + ["clipped"] * self.clipped
        return f"RecurrentLayer({', '.join([self.cell, f'inputs {self.inputs}', f'width {self.width}', *more])})"


@dataclass(frozen=True, kw_only=True)
class StackSpec:
    """A decoder: tokens and their positions, blocks, a norm and a head."""

    model: str
    width: int
    vocabulary: int
    blocks: tuple[BlockSpec, ...]
    norm: str
    eps: float
    norm_weights: str
    positions: str
    """learned, sinusoidal or rotary."""
    embedding_norm: bool
    skips: bool
    head: str
    """linear or int8."""
    head_bias: bool
    even_inputs: bool
    """Whether every linear layer has an even number of inputs."""
    linear_dtypes: frozenset[str]
    """Of the weights of linear layers that are not of 8 bits."""
    dtypes: frozenset[str]
    contiguous: bool
    plain_tensors: bool
    alignment: int
    devices: int
    """How many devices hold weights."""
    use: UsageSpec

    def __str__(self) -> str:
        kinds = dict.fromkeys(str(block) for block in self.blocks)
        return f"{self.model}({len(self.blocks)} × {', '.join(kinds)})"


# -- describing --------------------------------------------------------------------------------------------------------


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
    check_unchanged(kind)


def check_unchanged(kind: Any) -> None:
    if kind not in UNCHANGED:
        if changed := mathematics.changed(kind):
            raise Unknown(changed)
        UNCHANGED.add(kind)


def check_own(module: Any, name: str, attributes: set[str], children: set[str] | None) -> None:
    """Raise Unknown where a module has hooks, or attributes and submodules (None: any) besides."""
    own = vars(module)
    if any(own[kind] for kind in HOOKS) or any(getattr(hooks, f"_global{kind}", ()) for kind in HOOKS):
        raise Unknown(f"{name} has a hook")
    if more := own.keys() - INTERNALS - attributes - own.get("implementations", {}).keys():
        raise Unknown(f"{name} has {min(more)} of its own")
    if children is not None and (wrong := module._modules.keys() ^ children):
        raise Unknown(f"{name} has {min(wrong)} besides" if wrong & module._modules.keys() else f"{name} has no {min(wrong)}")


def a(noun: str) -> str:
    return f"{'an' if noun[0] in 'AEIOU' else 'a'} {noun}"


def describe_attention(module: Any, name: str = "attention") -> AttentionSpec:
    check_known(module, name, SelfAttention)
    linear = [module.qkv, module.out]
    for layer, title in zip(linear, ("qkv", "out"), strict=True):
        check_known(layer, f"{name}.{title}", nn.Linear, Int8Linear)
    if SelfAttention.attention_fn is not attention.fused_attention:
        raise Unknown("the core of SelfAttention was replaced")
    width, rows = module.heads * module.head_dim, (module.heads + 2 * module.kv_heads) * module.head_dim
    if [(layer.in_features, layer.out_features) for layer in linear] != [(width, rows), (width, width)]:
        raise Unknown(f"{name} has layers of other sizes than its heads")
    return AttentionSpec(
        kind="SelfAttention",
        width=width,
        heads=module.heads,
        kv_heads=module.kv_heads,
        head_dim=module.head_dim,
        causal=bool(module.causal),
        qk_norm=bool(module.qk_norm),
        dropout=float(module.dropout),
        packed=True,
    )


def describe_block(block: Any, use: UsageSpec, positions: str = "", window: int = 0) -> BlockSpec:
    """positions and window: where the model is known to say them."""
    check_known(block, "the block", Block)
    attending, feed, norms = describe_attention(block.attention), block.feedforward, [block.norm1, block.norm2]
    check_known(feed, "feedforward", FeedForward, GatedFeedForward)
    check_known(block.dropout, "dropout", Dropout)
    check_known(block.drop_path, "drop_path", DropPath)
    gated, up = type(feed) is GatedFeedForward, feed.up_proj
    for layer, title in ((up, "up"), (feed.down, "down")):
        check_known(layer, f"feedforward.{title}", nn.Linear, Int8Linear)
    if ACTIVATIONS.get(feed.activation) is not PLAIN_ACTIVATIONS.get(feed.activation, ...):
        raise Unknown(f"the activation {feed.activation} is unknown")
    ffn_width, width = feed.down.in_features, attending.width
    if (up.in_features, up.out_features, feed.down.out_features) != (width, (2 if gated else 1) * ffn_width, width):
        raise Unknown("feedforward has layers of other sizes than the block")
    linear = [block.attention.qkv, block.attention.out, up, feed.down]
    kinds, eps, norm_weights = describe_norms(norms, width)
    return BlockSpec(
        attention=attending,
        ffn_width=ffn_width,
        gated=gated,
        activation=feed.activation,
        order=block.order,
        norm=kinds,
        eps=(eps[0], eps[1]),
        norm_weights=norm_weights,
        bias=some_of([layer.bias is not None for layer in linear], "all", "none"),
        dropout=float(block.dropout.share),
        drop_path=float(block.drop_path.share),
        positions=positions,
        window=window,
        linear=some_of([type(layer) is nn.Linear for layer in linear], "linear", "int8"),
        **of_weights(block),
        use=use,
    )


def describe_norms(norms: list[Any], width: int) -> tuple[str, list[float], str]:
    """What kind of norms they are, what each adds to the variance, and which weights they have."""
    kinds, eps, weights = [], [], []
    for module in norms:
        check_known(module, "a norm", norm.LayerNorm, nn.LayerNorm, norm.RMSNorm, nn.RMSNorm, nn.Identity)
        kinds.append("layer" if isinstance(module, nn.LayerNorm) else "rms" if isinstance(module, nn.RMSNorm) else "none")
        if kinds[-1] == "none":
            eps.append(0.0)
            continue
        if module.normalized_shape != (width,):
            raise Unknown(f"a norm is of {module.normalized_shape} and not of the width {width}")
        weight, bias = module.weight, module.bias if kinds[-1] == "layer" else None
        least = torch.finfo(torch.float32 if weight is None else weight.dtype).eps
        eps.append(float(least if module.eps is None else module.eps))
        weights.append("all" if weight is not None and bias is not None else "scales" if weight is not None else "none")
    if len({*kinds}) > 1:
        raise Unknown("norms are of several kinds")
    return kinds[0], eps, weights[0] if len({*weights}) == 1 else "some" if weights else "none"


def describe_recurrent(layer: Any, use: UsageSpec) -> RecurrentSpec:
    check_known(layer, "the recurrent layer", RecurrentLayer)
    if STEPS.get(layer.cell) is not PLAIN_STEPS.get(layer.cell, ...):
        raise Unknown(f"the cell {layer.cell} is unknown")
    return RecurrentSpec(
        cell=layer.cell,
        inputs=layer.inputs,
        width=layer.width,
        projection=layer.projection,
        clipped=layer.cell_clip is not None or layer.projection_clip is not None,
        **of_weights(layer),
        use=use,
    )


def some_of(facts: list[bool], all_of: str, none_of: str) -> str:
    return all_of if all(facts) else "some" if any(facts) else none_of


def of_weights(module: nn.Module) -> dict[str, Any]:
    """What is true of all of a module's weights."""
    tensors = [tensor for tensor in all_of(module)[0] if isinstance(tensor, nn.Parameter)]
    return {
        "dtypes": frozenset(map(dtype_name, tensors)),
        "contiguous": all(tensor.is_contiguous() for tensor in tensors),
        "plain_tensors": all(type(tensor) in PLAIN_TENSORS for tensor in tensors),
        "alignment": alignment(tensors),
    }


def all_of(module: nn.Module) -> tuple[list[Tensor], list[nn.Module]]:
    """Parameters, buffers and modules, some of them twice; in a tenth of the time that PyTorch's own iterators take."""
    tensors: list[Tensor] = []
    modules = [module]
    for one in modules:  # which grows as it is gone through
        tensors += [tensor for tensor in (*one._parameters.values(), *one._buffers.values()) if tensor is not None]
        modules += [child for child in one._modules.values() if child is not None]
    return tensors, modules


def dtype_name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def alignment(tensors: Iterable[Tensor]) -> int:
    """The largest power of two, 16 at most, of which every address is a multiple."""
    least = 16
    for tensor in tensors:
        if type(tensor) in PLAIN_TENSORS:
            while tensor.data_ptr() % least:
                least //= 2
    return least


def describe_stack(model: Any, use: UsageSpec) -> StackSpec:
    """Of a model whose own class says of what parts it is made (`decoder_stack`); a subclass has to say so anew."""
    kind = type(model)
    if "decoder_stack" not in vars(kind):
        what = "a subclass of a known decoder" if hasattr(kind, "decoder_stack") else "no stack of blocks between an embedding and a head"
        raise Unknown(f"{kind.__name__} is {what}")
    check_unchanged(kind)
    stack = model.decoder_stack()
    attributes, parts = {"config", "fp32_stream", *stack.attributes}, {"embed", "blocks", "norm", "head", *stack.parts}
    check_own(model, kind.__name__, attributes, None)
    if more := {*model._modules} - parts | {*model._parameters, *model._buffers} - {*stack.weights}:
        raise Unknown(f"{kind.__name__} has {min(more)} besides")
    if model.training and stack.dropout:
        raise Unknown("the model is in training mode, with dropout")
    check_known(model.embed, "embed", nn.Embedding)
    if stack.positions == "learned":
        check_known(model.position, "position", nn.Embedding)
    if type(model.blocks) not in (nn.ModuleList, Blocks):
        raise Unknown(f"blocks are {a(type(model.blocks).__name__)}")
    check_own(model.blocks, "blocks", set(), None)
    head = model.head
    check_known(head, "head", nn.Linear, Int8Linear)
    width = model.embed.embedding_dim
    rope = "rope" if stack.positions == "rotary" else "none"
    blocks = [describe_block(block, use, rope, window) for block, window in zip(model.blocks, stack.windows, strict=True)]
    kinds, eps, weights = describe_norms([model.norm], width)
    if head.in_features != width or any(block.attention.width != width for block in blocks):
        raise Unknown("blocks and head are of several widths")
    tensors, modules = all_of(model)
    linears = [module for module in modules if isinstance(module, (nn.Linear, Int8Linear))]
    return StackSpec(
        model=kind.__name__,
        width=width,
        vocabulary=head.out_features,
        blocks=tuple(blocks),
        norm=kinds,
        eps=eps[0],
        norm_weights=weights,
        positions=stack.positions,
        embedding_norm=stack.embedding_norm,
        skips=stack.skips,
        head="linear" if type(head) is nn.Linear else "int8",
        head_bias=head.bias is not None,
        even_inputs=all(layer.in_features % 2 == 0 for layer in linears),
        linear_dtypes=frozenset(dtype_name(layer.weight) for layer in linears if isinstance(layer, nn.Linear)),
        devices=len({tensor.device for tensor in tensors}),
        **of_weights(model),
        use=use,
    )


def decoding(model: nn.Module) -> UsageSpec:
    """How a model is used that continues texts where it is."""
    first = next(model.parameters(), None)
    return UsageSpec(machine=Machine.of(torch.device("cpu") if first is None else first.device), mode="decode")


def with_use(spec: Any, **changes: Any) -> Any:
    """A description of the same layers used otherwise."""
    return dataclasses.replace(spec, use=dataclasses.replace(spec.use, **changes))
