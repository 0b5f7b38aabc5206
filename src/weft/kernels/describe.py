"""What known layers compute (`kernels.spec`), read off them; `Unknown` says why it cannot be told. Shapes: D width."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.kernels.int8_linear import Int8Linear
from weft.kernels.known import PLAIN_TENSORS, Unknown, a, all_of, check_checked, check_known, check_own
from weft.kernels.spec import AttentionSpec, BlockSpec, RecurrentSpec, StackSpec
from weft.kernels.usage import Machine, UsageSpec
from weft.nn import attention, feed_forward, norm, recurrent
from weft.nn.attention import SelfAttention
from weft.nn.block import Block, Blocks
from weft.nn.dropout import Dropout, DropPath
from weft.nn.feed_forward import ACTIVATIONS, FeedForward, GatedFeedForward
from weft.nn.recurrent import STEPS, RecurrentLayer

STEP_OF = {"rnn": "rnn_step", "lstm": "lstm_step", "peephole": "peephole_step", "coupled": "coupled_step"}
STEP_OF |= {"gru": "gru_step", "cho_gru": "cho_gru_step", "layer_norm": "layer_norm_step", "mogrifier": "mogrifier_step"}
"""Which function of `nn.recurrent` a cell is."""


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
    if not is_plain_activation(feed.activation):
        raise Unknown(f"the activation {feed.activation} is unknown")
    ffn_width, width = feed.down.in_features, attending.width
    if (up.in_features, up.out_features, feed.down.out_features) != (width, (2 if gated else 1) * ffn_width, width):
        raise Unknown("feedforward has layers of other sizes than the block")
    if any(module.training != block.training for module in (block.attention, block.dropout, block.drop_path)):
        raise Unknown("parts of the block that drop something are in another mode than the block")
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


def is_plain_activation(name: str) -> bool:
    """Whether the table of activations still has the function that the kernels know by this name."""
    held = ACTIVATIONS.get(name)
    if name == "gelu_tanh":
        return isinstance(held, partial) and (held.func, held.args, held.keywords) == (F.gelu, (), {"approximate": "tanh"})
    plain = {"gelu": F.gelu, "relu": F.relu, "silu": F.silu, "squared_relu": feed_forward.squared_relu}
    return held is plain.get(name, ...)


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
    if layer.cell not in STEP_OF or STEPS.get(layer.cell) is not getattr(recurrent, STEP_OF[layer.cell]):
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


def drops(module: Any) -> bool:
    """Whether a module drops anything as it is now."""
    share = module.share if isinstance(module, Dropout) else module.dropout if type(module) is SelfAttention else 0.0
    return bool(module.training and share)


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
    """Of a model of a class that the kernels were checked against, which says of what parts it is made (`decoder_stack`)."""
    kind = type(model)
    if "decoder_stack" not in vars(kind):
        what = "a subclass of a known decoder" if hasattr(kind, "decoder_stack") else "no stack of blocks between an embedding and a head"
        raise Unknown(f"{kind.__name__} is {what}")
    check_checked(kind)
    stack = model.decoder_stack()
    attributes, parts = {"config", "fp32_stream", *stack.attributes}, {"embed", "blocks", "norm", "head", *stack.parts}
    check_own(model, kind.__name__, attributes, None)
    if more := {*model._modules} - parts | {*model._parameters, *model._buffers} - {*stack.weights}:
        raise Unknown(f"{kind.__name__} has {min(more)} besides")
    if any(map(drops, all_of(model)[1])):
        raise Unknown("something is dropped, as the model or a part of it is in training mode")
    check_known(model.embed, "embed", nn.Embedding)
    if model.embed.max_norm is not None:
        raise Unknown(f"embed gives its vectors a norm of {model.embed.max_norm:g} at most")
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
