"""What a block computes again in its backward pass changes no number."""

from __future__ import annotations

from typing import Literal

import pytest
import torch
from torch import Tensor

from weft.kernels.select import install_chosen
from weft.kernels.usage import UsageSpec
from weft.models.language.gpt import GPTConfig


def gradients(kept: Literal["none", "selective", "full"], dropout: float) -> list[Tensor]:
    torch.manual_seed(0)
    shares = dict.fromkeys(("embedding_dropout", "attention_dropout", "residual_dropout"), dropout)
    model = GPTConfig(vocabulary=11, context=8, layers=2, heads=2, width=16, **shares).build()  # type: ignore[arg-type]
    install_chosen(model, UsageSpec(no_blocks="plain", checkpointing=kept))
    torch.manual_seed(1)
    model(torch.arange(8)[None]).square().sum().backward()
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


@pytest.mark.parametrize("kept", ["selective", "full"])
@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_gradients_are_the_same(kept: Literal["selective", "full"], dropout: float) -> None:
    for one, other in zip(gradients("none", dropout), gradients(kept, dropout), strict=True):
        torch.testing.assert_close(one, other)


def bytes_kept(kept: Literal["none", "selective", "full"]) -> int:
    block = GPTConfig(vocabulary=11, context=8, layers=1, heads=2, width=16).build().blocks[0]
    install_chosen(block, UsageSpec(no_blocks="plain", checkpointing=kept))
    seen: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        seen[tensor.data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        block(torch.randn(64, 8, 16, requires_grad=True))
    return sum(seen.values())


def test_only_the_input_is_kept() -> None:
    assert bytes_kept("full") < bytes_kept("none") / 8
