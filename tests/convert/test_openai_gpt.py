"""GPT-1 against transformers: the same logits from the same weights, in both directions."""

from __future__ import annotations

import pytest
import torch

from tests.convert.parity import close, exported, imported, shaken
from weft.convert.openai_gpt import FAMILY

transformers = pytest.importorskip("transformers")


@pytest.mark.parametrize(("layers", "heads", "width"), [(2, 2, 32), (3, 4, 64), (1, 3, 48)])
@torch.no_grad()
def test_logits_are_equal_in_both_directions(layers: int, heads: int, width: int) -> None:
    torch.manual_seed(0)
    config = transformers.OpenAIGPTConfig(n_layer=layers, n_head=heads, n_embd=width, vocab_size=77, n_positions=40)
    theirs = shaken(transformers.OpenAIGPTLMHeadModel(config))
    ours = imported(theirs, FAMILY)
    ids = torch.randint(0, 77, (4, 40))
    close(ours(ids), theirs(ids).logits)
    close(ours(ids), exported(ours, FAMILY, theirs)(ids).logits)
