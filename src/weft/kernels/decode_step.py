"""One more token of every row of a decoder on a GPU, as one launch: `kernels.triton.decode_kernels`, captured as a CUDA graph.

A graph serves a number of rows (a power of two, the rest idle) and a number of positions of the cache. Capturing takes milliseconds, as
nothing is compiled but the kernels themselves, once a machine. A single row may have a kernel of its own, `kernels.cuda.megakernel`.
"""

from __future__ import annotations

import importlib.util
import logging
from typing import Any

import torch
from torch import Tensor, nn

from weft.core.cuda_graph import capturing
from weft.core.errors import WeftError
from weft.kernels.cuda import decode_rows, megakernel
from weft.kernels.cuda.megakernel import Megakernel
from weft.kernels.implementation import Implementation
from weft.kernels.spec import StackSpec
from weft.kernels.usage import UsageSpec
from weft.nn.feed_forward import GatedFeedForward
from weft.nn.state import KVCache

log = logging.getLogger("weft")
KERNELS: Any = None
if torch.cuda.is_available() and importlib.util.find_spec("triton"):
    from weft.kernels.triton import decode_kernels as KERNELS  # type: ignore[no-redef]
NO_NORM = ("none", None, None, 0.0)
BUSY = 192
"""Programs that keep a GPU's memory busy; a product with fewer outputs is cut along its inputs."""
WARM_UP = 2


class GPUStep(Implementation):
    name, file, slot, where = "captured decode step", "kernels/decode_step.py", "", ""

    def refuses(self, spec: StackSpec, use: UsageSpec) -> str:
        machine = use.machine
        missing = "it is for a GPU" if machine.device != "cuda" else "" if machine.triton else "Triton is not installed"
        return missing or refuses_stack(spec, use)

    def install(self, module: Any, use: UsageSpec) -> None: ...


def refuses_stack(spec: StackSpec, use: UsageSpec) -> str:
    """What no step serves, on whichever device."""
    blocks = spec.blocks
    norms = [(spec.norm, spec.norm_weights), *((block.norm, block.norm_weights) for block in blocks)]
    reasons = {
        "it is for decoding": use.mode != "decode",
        "there are no blocks": not blocks,
        "blocks have embedding skips": spec.skips,
        "attention is not causal": not all(block.attention.causal for block in blocks),
        "it uses QK-norm": any(block.attention.qk_norm for block in blocks),
        "the blocks differ in their heads": len({(b.attention.heads, b.attention.kv_heads, b.attention.head_dim) for b in blocks}) > 1,
        "some blocks are pre-norm and others post-norm": len({block.order for block in blocks}) > 1,
        "a norm has no scale": any(norm != "none" and weights not in ("all", "scales") for norm, weights in norms),
        "a block has no norm": any(block.norm == "none" for block in blocks),
        "weights do not lie row after row": not spec.contiguous,
        "linear layers are of several kinds": any(block.linear != spec.head for block in blocks),
        "weights are not tensors of one device": spec.devices != 1 or not spec.plain_tensors,
    }
    return next((why for why, holds in reasons.items() if holds), "")


def norm_of(module: nn.Module) -> tuple[Any, ...]:
    """What the kernels need of a norm: its kind, scale, shift and the least variance."""
    if isinstance(module, nn.LayerNorm):
        return ("layer", module.weight, module.bias, module.eps)
    if isinstance(module, nn.RMSNorm):
        return ("rms", module.weight, None, torch.finfo(module.weight.dtype).eps if module.eps is None else module.eps)
    return NO_NORM


def parts_of(weight: Tensor) -> int:
    """Into how many sums a product is cut; by its shape alone, so that a row's sums are the same beside any others."""
    if found := decode_rows.cut_of(weight, whole=False):
        return found.parts
    outputs, inputs = weight.shape
    programs = -(-outputs // 32)
    return max(1, min(-(-BUSY // programs), inputs // 256, 8))


class DecodeStep:
    """Beside others, whichever, a row gets the same to the last bit; where that is asked for (batch_invariant), also when it is alone."""

    def __init__(self, model: Any, *, batch_invariant: bool = False):
        """batch_invariant: a row that is alone is read by the kernels for several, though `megakernel` is faster."""
        self.model = model
        self.alone: Megakernel | None = None
        self.tries_alone = not batch_invariant
        blocks = list(model.blocks)
        self.pre = all(block.order == "pre" for block in blocks)
        self.windows: list[int] = getattr(model, "windows", [0] * len(blocks))
        self.rotary: Tensor | None = getattr(model, "rotary", None)
        self.graphs: dict[Any, tuple[torch.cuda.CUDAGraph, Tensor]] = {}
        self.cache_at: Any = None
        self.inputs: dict[int, tuple[Tensor, Tensor, Tensor]] = {}
        self.known: list[int] = []
        """Lengths as the device has them."""

    def __call__(self, ids: Tensor, cache: KVCache) -> Tensor:
        """The last token of each row (R,), read and counted -> logits (R, V), which the next call overwrites."""
        if len(ids) == 1 and (logits := self._read_alone(ids, cache)) is not None:
            return logits
        rows, lengths = len(ids), cache.lengths
        bucket = 1 << (rows - 1).bit_length()
        cache.reserve(bucket, max(lengths) + 1)
        if (cache.kv.data_ptr(), cache.kv.shape) != self.cache_at:  # graphs know where it was
            self.graphs.clear()
            self.cache_at = (cache.kv.data_ptr(), cache.kv.shape)
        given, positions, alive = self._inputs(bucket, ids)
        if self.known != lengths or len(self.known) != rows:
            positions.copy_(torch.tensor(lengths + [0] * (bucket - rows)), non_blocking=True)
            alive.copy_(torch.tensor([1] * rows + [0] * (bucket - rows)), non_blocking=True)
        given[:rows].copy_(ids)
        parts = 1 << (-(-max(lengths) // KERNELS.SPLIT) - 1).bit_length() if max(lengths) > KERNELS.SPLIT else 1
        logits = self._replay(bucket, parts, cache)
        cache.count([1] * rows)
        self.known = list(cache.lengths)
        return logits[:rows]

    def _read_alone(self, ids: Tensor, cache: KVCache) -> Tensor | None:
        """By the kernel for one row, made when first asked for, and anew where weights have moved; nothing where it does not serve."""
        if not self.tries_alone or cache.lengths[0] >= cache.limit or cache.kv.dtype != torch.bfloat16:
            return None
        try:
            if self.alone is None or not self.alone.is_current(cache):
                self.alone = Megakernel(self.model) if megakernel.supports(self.model) else None
                self.tries_alone = self.alone is not None
            return self.alone(ids, cache) if self.alone else None
        except (WeftError, OSError) as error:
            log.warning("one row at a time is read by the kernels for several, which take longer: %s", error)
            self.tries_alone, self.alone = False, None
            return None

    def _inputs(self, bucket: int, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if bucket not in self.inputs:
            self.inputs[bucket] = (like.new_zeros(bucket), like.new_zeros(bucket), like.new_zeros(bucket))
            self.known = []
        return self.inputs[bucket]

    def _replay(self, bucket: int, parts: int, cache: KVCache) -> Tensor:
        key = (bucket, parts)
        if key not in self.graphs:
            _, positions, _ = self.inputs[bucket]
            before = positions.clone()
            side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(WARM_UP):
                    self._read(bucket, parts, cache)
            torch.cuda.current_stream().wait_stream(side)
            positions.copy_(before)
            graph = torch.cuda.CUDAGraph()
            with capturing(graph):
                logits = self._read(bucket, parts, cache)
            self.graphs[key] = (graph, logits)
        graph, logits = self.graphs[key]
        graph.replay()
        return logits

    def _read(self, bucket: int, parts: int, cache: KVCache) -> Tensor:
        ids, positions, alive = self.inputs[bucket]
        x: Tensor = self.model.embedded(ids[:, None], positions[:, None])[:, 0].contiguous()
        heads, head = self.model.blocks[0].attention.heads, self.model.blocks[0].attention.head_dim
        workspace = None
        if parts > 1:
            workspace = tuple(
                x.new_empty(shape, dtype=torch.float32) for shape in ((parts, bucket, heads, head), *[(parts, bucket, heads)] * 2)
            )
        layer_kvs = [(keys[:bucket], values[:bucket]) for keys, values in zip(*cache.kv, strict=True)]
        logits = self._blocks(x, layer_kvs, positions, workspace)
        positions.add_(alive)
        return logits

    def _attend(self, number: int, block: Any, qkv: Tensor, layer_kv: tuple[Tensor, Tensor], positions: Tensor, workspace: Any) -> Tensor:
        attn_out = qkv.new_empty(len(qkv), block.attention.heads * block.attention.head_dim)
        KERNELS.decode_attention(
            qkv, *layer_kv, positions, self.rotary, attn_out, workspace, window=self.windows[number], heads=block.attention.heads
        )
        return attn_out

    def _blocks(self, x: Tensor, layer_kvs: Any, positions: Tensor, workspace: Any) -> Tensor:
        blocks, rows, post = list(self.model.blocks), len(x), not self.pre
        y = torch.empty_like(x)
        KERNELS.add_and_norm(x, None, None, NO_NORM if post else norm_of(blocks[0].norm1), y)
        for number, block in enumerate(blocks):
            attention, feed = block.attention, block.feedforward
            qkv, hidden_units = x.new_empty(rows, attention.qkv.out_features), x.new_empty(rows, feed.down.in_features)
            KERNELS.read_many(y, attention.qkv.weight, attention.qkv.bias, qkv)
            attn_out = self._attend(number, block, qkv, layer_kvs[number], positions, workspace)
            self._branch(x, attn_out, attention.out, norm_of(block.norm1 if post else block.norm2), y, post)
            KERNELS.read_many(
                y, feed.up_proj.weight, feed.up_proj.bias, hidden_units, kind=feed.activation, gated=isinstance(feed, GatedFeedForward)
            )
            following = block.norm2 if post else blocks[number + 1].norm1 if number + 1 < len(blocks) else self.model.norm
            self._branch(x, hidden_units, feed.down, norm_of(following), y, post)
        logits = x.new_empty(rows, self.model.head.out_features)
        KERNELS.read_many(y, self.model.head.weight, self.model.head.bias, logits)
        return logits

    def _branch(self, x: Tensor, given: Tensor, layer: nn.Linear, norm: Any, y: Tensor, post: bool) -> None:
        """x + layer(given), and its norm in y."""
        parts = x.new_empty(parts_of(layer.weight), len(x), layer.out_features, dtype=torch.float32)
        KERNELS.read_many(given, layer.weight, None, parts, parts=len(parts))
        KERNELS.add_and_norm(x, parts, layer.bias, norm, y, post=post)
