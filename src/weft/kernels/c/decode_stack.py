"""One more token of one row of a decoder on a CPU, by a function in C (`kernels/c/decode.c`), where the machine has a compiler.

It reads weights of 16 bits where the model has them, so that changes of these are seen, and of 8 bits from a copy in the order of the
layer. Shapes: D width, L layers, G groups of heads, K head width, S positions of the cache, V vocabulary.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from weft.kernels.c import compiler
from weft.kernels.decode_step import norm_of, refuses_stack
from weft.kernels.describe import decoding, describe_stack
from weft.kernels.implementation import Implementation
from weft.kernels.int8_linear import Int8Linear
from weft.kernels.known import described
from weft.kernels.spec import StackSpec
from weft.kernels.usage import UsageSpec
from weft.nn.feed_forward import GatedFeedForward

SOURCE = Path(__file__).with_name("decode.c")
NORMS = ("none", "layer", "rms")
ACTIVATIONS = ("gelu", "gelu_tanh", "relu", "squared_relu", "silu")
Pointer, Number = ctypes.c_void_p, ctypes.c_int64


class Vector(ctypes.Structure):
    _fields_ = [("data", Pointer), ("half", Number)]


class Norm(ctypes.Structure):
    _fields_ = [("scale", Vector), ("shift", Vector), ("least", ctypes.c_double), ("kind", Number)]


class Linear(ctypes.Structure):
    _fields_ = [("weight", Pointer), ("scale", Pointer), ("bias", Vector), ("inputs", Number), ("outputs", Number)]


class LayerArgs(ctypes.Structure):
    _fields_ = [
        *[(name, Norm) for name in ("norm1", "norm2")],
        *[(name, Linear) for name in ("qkv", "out", "up", "down")],
        ("window", Number),
    ]


class StackArgs(ctypes.Structure):
    _fields_ = [
        ("layers", ctypes.POINTER(LayerArgs)),
        ("norm", Norm),
        ("head", Linear),
        *[(name, Number) for name in ("count", "width", "heads", "kv_heads", "head_width", "widest", "pre", "gated", "activation")],
    ]


class KVPointer(ctypes.Structure):
    _fields_ = [("parts", Pointer), *[(name, Number) for name in ("kind", "layer", "group", "length")]]


class Workspace(ctypes.Structure):
    shared, own = ("qkv", "mixed", "hidden", "middle", "end"), ("wide", "normed", "stream", "scores", "digits")
    _fields_ = [*[(name, Pointer) for name in (*shared, *own)], ("positions", Number)]


class CStack:
    """All that a token goes through behind its embedding."""

    def __init__(self, model: Any, function: Any):
        self.function, self.held = function, list[Tensor]()
        """Tensors whose addresses the function is told."""
        blocks = list(model.blocks)
        windows = getattr(model, "windows", [0] * len(blocks))
        layers = (LayerArgs * len(blocks))(*map(self._layer, blocks, windows))
        attention, feed = blocks[0].attention, blocks[0].feedforward
        linears = [module for module in model.modules() if isinstance(module, (nn.Linear, Int8Linear))]
        self.widest = max(module.in_features for module in linears)
        self.width, self.outputs = model.head.in_features, model.head.out_features
        self.shared = [attention.qkv.out_features, attention.out.in_features, feed.up_proj.out_features, self.width, self.width]
        self.stack = StackArgs(
            layers, self._norm(model.norm), self._linear(model.head), len(blocks), self.width,
            attention.heads, attention.kv_heads, attention.head_dim, self.widest,
            blocks[0].order == "pre", isinstance(feed, GatedFeedForward), ACTIVATIONS.index(feed.activation),
        )  # fmt: skip
        self.workspaces: dict[tuple[int, int], Workspace] = {}

    def __call__(self, x: Tensor, length: int, parts: Tensor, rope: Tensor | None) -> Tensor:
        """x (1, D) -> logits (1, V). parts: keys and values (2, L, 1, G, S, K), with room for one more than the length; it is written.
        rope: cosines and sines of its position (2, 1, K)."""
        threads = torch.get_num_threads()
        logits = x.new_empty(1, self.outputs)
        kind, layer, _, group = parts.stride()[:4]
        layer_kv, workspace = KVPointer(parts.data_ptr(), kind, layer, group, length), self._workspace(parts.size(4), threads)
        given = (x.data_ptr(), None if rope is None else rope.data_ptr(), logits.data_ptr())
        self.function(ctypes.byref(self.stack), ctypes.byref(layer_kv), ctypes.byref(workspace), *map(Pointer, given), Number(threads))
        return logits

    def _workspace(self, positions: int, threads: int) -> Workspace:
        if (positions, threads) not in self.workspaces:
            own = [threads * size for size in (self.widest, self.widest, self.width, positions)]
            self.tensors = [torch.empty(size) for size in self.shared + own]
            self.tensors.append(torch.empty(threads * 2 * self.widest, dtype=torch.int8))
            self.workspaces = {(positions, threads): Workspace(*(tensor.data_ptr() for tensor in self.tensors), positions)}
        return self.workspaces[positions, threads]

    def _layer(self, block: Any, window: int) -> LayerArgs:
        attention, feed = block.attention, block.feedforward
        norms = [self._norm(norm) for norm in (block.norm1, block.norm2)]
        return LayerArgs(*norms, *[self._linear(layer) for layer in (attention.qkv, attention.out, feed.up_proj, feed.down)], window)

    def _norm(self, module: nn.Module) -> Norm:
        kind, scale, shift, least = norm_of(module)
        if isinstance(module, nn.RMSNorm) and module.eps is None:
            least = torch.finfo(torch.float32).eps  # sums are of float32, whatever the scale is of
        return Norm(self._vector(scale), self._vector(shift), least, NORMS.index(kind))

    def _linear(self, layer: Any) -> Linear:
        bias = self._vector(layer.bias)
        if isinstance(layer, Int8Linear):
            weight, scale = layer.rows
            return Linear(self._address(weight), self._address(scale), bias, layer.in_features, layer.out_features)
        return Linear(self._address(layer.weight), None, bias, layer.in_features, layer.out_features)

    def _vector(self, tensor: Tensor | None) -> Vector:
        return Vector() if tensor is None else Vector(self._address(tensor), tensor.dtype == torch.bfloat16)

    def _address(self, tensor: Tensor) -> int:
        self.held.append(tensor.detach())
        return tensor.data_ptr()


class CDecode(Implementation):
    name, file, slot, where = "C decode step", "kernels/c/decode_stack.py", "", "for one row at a time"

    def refuses(self, spec: StackSpec, use: UsageSpec) -> str:
        kinds = {(b.order, b.attention.heads, b.attention.kv_heads, b.gated, b.activation, b.ffn_width, b.norm) for b in spec.blocks}
        reasons = {
            "it is for a CPU": use.machine.device != "cpu",
            "the blocks differ": len(kinds) != 1,
            "a layer has an odd number of inputs": not spec.even_inputs,
            "weights are neither of 8 nor of 16 bits": spec.linear_dtypes - {"bfloat16"},
            "norms and biases are neither of 16 nor of 32 bits": not spec.dtypes <= {"float32", "bfloat16"},
            "weights do not lie row after row, each where a word may begin": not spec.contiguous or spec.alignment < 4,
        }
        why = next((why for why, holds in reasons.items() if holds), "") or refuses_stack(spec, use)
        return why or ("" if compiler.load(SOURCE) else "no C compiler is found")

    def install(self, module: Any, use: UsageSpec) -> None: ...


def compiled(model: Any) -> CStack | None:
    """A model's step in C; None where nothing compiles it, or the model is of other parts."""
    spec = described(describe_stack, model, use := decoding(model))
    if not isinstance(spec, StackSpec) or CDecode().refuses(spec, use):
        return None
    library = compiler.load(SOURCE)
    assert library
    library.step.restype = None
    return CStack(model, library.step)
