"""Whether an answer is the same to the last bit beside any others: what that costs where, and what is done where nobody says.

In 16 bits the sums of a matrix product depend on how many rows are multiplied at once, so two tokens that are nearly as likely may swap
ranks. An engine is batch invariant where each prompt is prefilled by itself and a step of decoding adds up in an order that does not know
the number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from weft.kernels import select
from weft.kernels.decode_step import GPUStep
from weft.kernels.int8_linear import Int8Linear

MOST = 0.15
"""Share of the speed that batch invariance may cost and still be the default."""
CPU_COST = {
    torch.float32: "64 % of the speed (without it no greedy answer differed)",
    torch.bfloat16: "19 % of the speed (without it 2 of 8 greedy answers differed)",
}
"""GPT-2 of 124 M, 8 answers at once, one thread: `weft bench generation --divergence --device cpu --precision … --prompts 8 --added 12
--batches 8 --threads 1`. In 8 bits it cost nothing."""


GPU_COST = "22 % of the speed at 8 answers at once and 51 % at 32 (without it 0 of 200 greedy answers differed)"
"""SmolLM2-135M in bf16 on an H200 (results/generation_divergence.json). Prompts are prefilled one by one; steps of decoding are the same
with and without, but for a row that is alone in a model like GPT-2, which has a kernel of its own."""


@dataclass(frozen=True)
class Invariance:
    on: bool
    cost: str = ""
    """What it would cost, where it is off and answers are made beside others."""

    @property
    def line(self) -> str:
        """For those who start an engine without it."""
        said = "batch invariance is off, so beside others an answer may differ in its last bits"
        return f"{said}; --batch-invariant on makes it the same and cost {self.cost} where measured" if self.cost else ""


def choose(model: nn.Module, slots: int) -> Invariance:
    """What is done where nobody says: on where it costs at most `MOST`. An engine of one slot has nothing beside an answer."""
    if slots == 1:
        return Invariance(False)
    if isinstance(getattr(model, "head", None), Int8Linear):
        return Invariance(True)  # sums of 8 bits have no order
    if GPUStep.name in select.choose_decoder(model).chosen:
        return Invariance(False, GPU_COST)
    weight = next(model.parameters())
    if weight.is_cuda:
        return Invariance(False, "as much time for each answer as one takes alone")
    return Invariance(False, CPU_COST.get(weight.dtype, CPU_COST[torch.bfloat16]))
