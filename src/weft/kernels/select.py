"""The one door to the kernels: which of them computes a model's blocks, attention and decoding, and why not another.

Every block, attention and decoder is described (`kernels.describe`), and each implementation says whether it computes exactly that. What is
true of the model is decided here, once; what only a call can say (lengths, masks, the type of the stream) an implementation looks at
itself, and falls back to the plain layer. Whoever changes a model afterwards asks again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from weft.kernels import mathematics
from weft.kernels.attention import ALL_CORES, PACKED
from weft.kernels.c.cpu_decode_step import CPUDecodeStep, CPUStep
from weft.kernels.c.decode_stack import CDecode
from weft.kernels.c.gpt_block_cpu import CPUBlock
from weft.kernels.c.recurrent_cpu import CPURecurrent
from weft.kernels.cuda.megakernel import MegakernelDecode
from weft.kernels.cuda.recurrent import CUDARecurrent
from weft.kernels.decode_step import DecodeStep, GPUStep
from weft.kernels.describe import decoding, describe_attention, describe_block, describe_recurrent, describe_stack
from weft.kernels.gpt_block_cuda import CUDABlock
from weft.kernels.implementation import Implementation, install, uninstall
from weft.kernels.known import Unknown, a, check_known, check_own, check_unchanged, described
from weft.kernels.library_recurrent import LibraryRecurrent
from weft.kernels.narrow_blocks import NarrowBlocks
from weft.kernels.spec import AttentionSpec, BlockSpec, RecurrentSpec, StackSpec
from weft.kernels.usage import Machine, UsageSpec, is_block, is_recurrent
from weft.nn import attention
from weft.nn.attention import SelfAttention, fused_attention
from weft.nn.block import Block, Blocks
from weft.nn.checkpointed import checkpointed

STACKS: tuple[Implementation, ...] = (NarrowBlocks(),)
BLOCKS: tuple[Implementation, ...] = (CUDABlock(), CPUBlock())
DECODERS: tuple[Implementation, ...] = (GPUStep(), CPUStep())
SINGLE_ROW: tuple[Implementation, ...] = (MegakernelDecode(), CDecode())
RECURRENT: tuple[Implementation, ...] = (CPURecurrent(), CUDARecurrent(), LibraryRecurrent())
IMPLEMENTATIONS: tuple[Implementation, ...] = (*STACKS, *BLOCKS, *PACKED, *ALL_CORES, *DECODERS, *SINGLE_ROW, *RECURRENT)
"""All there are; for each kind of thing the first that does not refuse is chosen."""
PLAIN = "plain"


@dataclass(frozen=True)
class Choice:
    """What computes one kind of thing in a model."""

    what: str
    """blocks, attention, recurrence or decoder."""
    kind: str
    """Which of them, described."""
    number: int
    chosen: tuple[str, ...]
    """Names of implementations: each serves the calls that those before it do not; the plain layer serves the rest."""
    where: str
    """Which calls are served, where not all."""
    reasons: tuple[tuple[str, str], ...]
    """Why each other implementation was not chosen."""

    def line(self) -> str:
        kind = f"{self.number} × {self.kind}" if self.number > 1 else self.kind
        if self.chosen:
            return f"{kind}: {self.where}"
        given = dict.fromkeys(reason for _, reason in self.reasons)
        near = [reason for reason in given if not reason.startswith("it is for a ")] or [*given]
        apart = ", ".join(f"{name}: {reason}" for name, reason in self.reasons if reason in near)
        return f"{kind}: {PLAIN}" + (f", as {near[0]}" if len(near) == 1 else f" ({apart})" if near else "")

    def table(self) -> list[dict[str, str]]:
        """One row for each implementation, and the reason why it was not chosen, or nothing."""
        given = {**dict.fromkeys(self.chosen, ""), **dict(self.reasons)}
        common = {"what": self.what, "kind": self.kind, "number": str(self.number)}
        return [{**common, "implementation": name, "refused": reason} for name, reason in given.items()]


def choose(model: nn.Module, use: UsageSpec) -> list[Choice]:
    """What would compute each kind of block and attention of a model."""
    return [*_choices(model, use, install_them=False)]


def install_chosen(model: nn.Module, use: UsageSpec) -> list[Choice]:
    """Put what is chosen in the place of a model's plain blocks and attention, and of what was there before."""
    uninstall(model)
    for module in model.modules():
        if hasattr(type(module), "fp32_stream"):
            module.fp32_stream = use.machine.device == "cpu" and use.mode == "train" and not use.no_blocks  # type: ignore[assignment]
    return [*_choices(model, use, install_them=True)]


def _choices(model: nn.Module, use: UsageSpec, install_them: bool) -> Iterator[Choice]:
    within: dict[int, tuple[str, ...]] = {}
    yield from _chosen_blocks(model, use, stack_positions(model), install_them, within)
    yield from _chosen_attention(model, use, install_them, within)
    yield from _chosen_recurrent(model, use, install_them)


def stack_positions(model: nn.Module) -> dict[int, tuple[str, int]]:
    """Of the blocks of a model that says how it is made: the position embedding to their attention, and their windows."""
    positions_of: dict[int, tuple[str, int]] = {}
    for module in model.modules():
        kind = type(module)
        if "decoder_stack" in vars(kind) and mathematics.is_checked(kind) and not mathematics.changed(kind):
            stack = module.decoder_stack()  # type: ignore[operator]
            rope = "rope" if stack.positions == "rotary" else "none"
            positions_of |= {id(block): (rope, window) for block, window in zip(module.blocks, stack.windows, strict=True)}  # type: ignore[arg-type]
    return positions_of


def _chosen_blocks(
    model: nn.Module, use: UsageSpec, positions_of: dict[int, tuple[str, int]], install_them: bool, within: dict[int, tuple[str, ...]]
) -> Iterator[Choice]:
    """within: is told which attention is computed within which blocks."""
    found: dict[tuple[Any, str], list[nn.Module]] = {}
    for module in model.modules():
        if is_block(module):
            spec = described(describe_block, module, use, *positions_of.get(id(module), ()))
            found.setdefault((spec, type(module).__name__), []).append(module)
    stacks = [*_chosen_stacks(model, use, positions_of, install_them)]
    for (spec, name), blocks in found.items():
        chosen, reasons = first_of(BLOCKS, spec, use, use.no_blocks)
        if install_them:
            for block in blocks:
                if chosen:
                    chosen.install(block, use)
                elif use.checkpointing != "none" and isinstance(block, Block) and "forward" not in vars(block):
                    install_checkpointing(block, use)
        over = [(stack, why) for stack, members, why in stacks if not {*map(id, blocks)} - members]
        serving = [*(stack for stack, why in over if not why), *[chosen] * bool(chosen)]
        within |= {id(block.attention): tuple(one.name for one in serving if one and one.whole) for block in blocks}
        reasons = [*((stack.name, why) for stack, why in over if why), *reasons]
        where = [f"{one.name} {one.where}".strip() for one in serving if one]
        kind = str(spec) if isinstance(spec, BlockSpec) else name
        names = tuple(one.name for one in serving if one)
        yield Choice("blocks", kind, len(blocks), names, ", else ".join([*where, PLAIN] if where else []), tuple(reasons))


def _chosen_stacks(
    model: nn.Module, use: UsageSpec, positions_of: dict[int, tuple[str, int]], install_them: bool
) -> Iterator[tuple[Implementation, set[int], str]]:
    """What computes whole stacks of blocks: the implementation, the blocks, and why it does not."""
    for module in model.modules():
        if isinstance(module, Blocks):
            spec = described(describe_blocks, module, use, positions_of)
            for one in STACKS:
                why = use.no_blocks or (spec if isinstance(spec, str) else one.refuses(spec, use))
                yield one, {*map(id, module)}, why
                if install_them and not why:
                    one.install(module, use)


def describe_blocks(blocks: Any, use: UsageSpec, positions_of: dict[int, tuple[str, int]]) -> tuple[BlockSpec, ...]:
    if type(blocks) is not Blocks:
        raise Unknown(f"the blocks are {a(type(blocks).__name__)}, not Blocks")
    check_own(blocks, "the stack of blocks", set(), None)
    return tuple(describe_block(block, use, *positions_of.get(id(block), ())) for block in blocks)


def install_checkpointing(block: Block, use: UsageSpec) -> None:
    """Have a block keep for its backward pass only what it is told to."""
    plain = type(block).forward

    def forward(block: Block, *given: Any, **named: Any) -> torch.Tensor:
        def run(*given: Any) -> torch.Tensor:
            return plain(block, *given, **named)

        return checkpointed(use.checkpointing, run, *given)

    install(block, CHECKPOINTING, forward)


class Checkpointing(Implementation):
    name, file, slot, where = "checkpointing", "nn/checkpointed.py", "forward", ""

    def refuses(self, spec: Any, use: Any) -> str:
        return ""

    def install(self, module: Any, use: Any) -> None: ...


CHECKPOINTING: Implementation = Checkpointing()


def _chosen_attention(model: nn.Module, use: UsageSpec, install_them: bool, within: dict[int, tuple[str, ...]]) -> Iterator[Choice]:
    found: dict[tuple[Any, str, tuple[str, ...]], list[nn.Module]] = {}
    for module in model.modules():
        if hasattr(type(module), "attention_fn"):
            spec = described(describe_any_attention, module)
            found.setdefault((spec, type(module).__name__, within.get(id(module), ())), []).append(module)
    for (spec, name, blocks), modules in found.items():
        packed, reasons = first_of(PACKED, spec, use)
        core, more = first_of(ALL_CORES, spec, use)
        if install_them:
            for module in modules:
                for one in (packed, core):
                    if one:
                        one.install(module, use)
        names = tuple(one.name for one in (packed, core) if one)
        where = ", else ".join(f"{one.name} {one.where}".strip() for one in (packed, core) if one)
        where = f"{where}, but {' and '.join(blocks)} has its own" if blocks else where
        kind = str(spec) if isinstance(spec, AttentionSpec) else name
        yield Choice("attention", kind, len(modules), names, where, (*reasons, *more))


def _chosen_recurrent(model: nn.Module, use: UsageSpec, install_them: bool) -> Iterator[Choice]:
    found: dict[tuple[Any, str], list[nn.Module]] = {}
    for module in model.modules():
        if is_recurrent(module):
            found.setdefault((described(describe_recurrent, module, use), type(module).__name__), []).append(module)
    for (spec, name), layers in found.items():
        chosen, reasons = first_of(RECURRENT, spec, use, use.plain_recurrence)
        if install_them and chosen:
            for layer in layers:
                chosen.install(layer, use)
        kind = str(spec) if isinstance(spec, RecurrentSpec) else name
        where = f"{chosen.name} {chosen.where}".strip() if chosen else ""
        yield Choice("recurrence", kind, len(layers), (chosen.name,) if chosen else (), where, tuple(reasons))


def traced(model: nn.Module, use: UsageSpec) -> frozenset[int]:
    """Ids of the recurrent layers that PyTorch's compiler takes as single operations, where a loop over steps would be unrolled."""
    found = {id(layer): described(describe_recurrent, layer, use) for layer in model.modules() if is_recurrent(layer)}
    chosen = {layer: first_of(RECURRENT, spec, use)[0] for layer, spec in found.items()}
    return frozenset(layer for layer, one in chosen.items() if one and one.traced)


def describe_any_attention(module: nn.Module) -> AttentionSpec:
    """Of `SelfAttention` everything, of any other whose own class offers its core that it does."""
    if type(module) is SelfAttention:
        return describe_attention(module)
    kind = type(module)
    if "attention_fn" not in vars(kind) or kind.attention_fn is not fused_attention:  # type: ignore[attr-defined]
        raise Unknown(f"{kind.__name__} is not SelfAttention and offers no plain core of its own")
    own = vars(module)
    if "attention_fn" in own and own["attention_fn"] is not own.get("implementations", {}).get("attention_fn"):
        raise Unknown(f"{kind.__name__} has a core of its own")
    check_unchanged(attention)
    return AttentionSpec(kind=kind.__name__)


def first_of(
    implementations: tuple[Implementation, ...], spec: Any, use: UsageSpec, never: str = ""
) -> tuple[Implementation | None, list[tuple[str, str]]]:
    """The first that computes what is described; and why the others do not, or are not asked."""
    chosen, reasons = None, []
    for one in implementations:
        why = never or (spec if isinstance(spec, str) else one.refuses(spec, use))
        if chosen is None and not why:
            chosen = one
        else:
            reasons.append((one.name, why or f"{chosen.name if chosen else PLAIN} comes first"))
    return chosen, reasons


def use_attention(model: nn.Module, name: str, device: str = "cpu") -> None:
    """Have all attention of a model computed by a named core, where it can be."""
    asked = UsageSpec(machine=Machine(device=device), precision="bf16", attention=name, attention_asked=True)
    alone = "attention alone was chosen"
    install_chosen(model, dataclasses.replace(asked, no_blocks=alone, plain_recurrence=alone))


def head_refused(head: Any) -> str:
    """Why the loss cannot read a head's matrix itself (`chunked_cross_entropy`) instead of asking the head; nothing where it can."""
    if head is None:
        return "the model has no head"
    why = described(check_known, head, "the head", nn.Linear) or ""
    return why or ("the head has a bias" if head.bias is not None else "")


def for_evaluation(model: nn.Module, device: torch.device) -> list[Choice]:
    """Choose for a model that was trained and is now used."""
    return install_chosen(model, UsageSpec(machine=Machine.of(device), mode="evaluate"))


# -- decoding ----------------------------------------------------------------------------------------------------------


def choose_decoder(model: nn.Module) -> Choice:
    """What would continue texts with a model where it is, token by token."""
    use = decoding(model)
    spec = described(describe_stack, model, use)
    chosen, reasons = first_of(DECODERS, spec, use)
    single_row, more = first_of(SINGLE_ROW, spec, use) if chosen else (None, [])
    names = tuple(one.name for one in (single_row, chosen) if one)
    where = ", else ".join(f"{one.name} {one.where}".strip() for one in (single_row, chosen) if one)
    kind = str(spec) if isinstance(spec, StackSpec) else type(model).__name__
    return Choice("decoder", kind, 1, names, where, (*reasons, *more))


def decoder(model: nn.Module, *, batch_invariant: bool = False) -> DecodeStep | CPUDecodeStep | None:
    """What reads one more token of each row of a model; None where its own layers do."""
    chosen = choose_decoder(model).chosen
    if GPUStep.name in chosen:
        return DecodeStep(model, batch_invariant=batch_invariant)
    return CPUDecodeStep(model) if CPUStep.name in chosen else None
