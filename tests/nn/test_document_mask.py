"""Documents side by side in one row."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import pytest
import torch
from torch import Tensor

from tests.gpt_configs import gpt_config
from weft.kernels.select import use_attention
from weft.models.language.llama import LlamaConfig
from weft.nn import document_mask as module
from weft.nn.attention import explicit_attention
from weft.nn.document_mask import BLOCK, causal_blocks, document_positions, same_document


def rows(lengths: list[list[int]]) -> Tensor:
    """The numbers of documents of such lengths (B, T)."""
    return torch.stack([torch.repeat_interleave(torch.arange(len(own)), torch.tensor(own)) for own in lengths])


def test_a_token_is_placed_in_its_document() -> None:
    assert document_positions(rows([[2, 3], [5]])).tolist() == [[0, 1, 0, 1, 2], [0, 1, 2, 3, 4]]
    assert document_positions(torch.tensor([[4, 4, 7]])).tolist() == [[0, 1, 0]], "numbers may begin anywhere and leave some out"


@pytest.mark.parametrize("position", ["rotary", "learned", "sinusoidal"])
@pytest.mark.parametrize("window", [0, 3])
@pytest.mark.parametrize("backend", ["fused", "explicit"])
def test_documents_in_a_row_are_read_as_if_alone(position: Literal["rotary"], window: int, backend: str) -> None:
    torch.manual_seed(1)
    modern = {"qk_norm": True, "embedding_norm": True, "embedding_skips": True} if position == "rotary" else {}
    model = gpt_config(
        vocabulary=50, context=16, layers=2, heads=2, width=16, position_embedding=position, sliding_window=window, **modern
    ).build()
    use_attention(model, backend)
    lengths = [[5, 1, 10], [16], [1, 1, 14]]
    ids = torch.randint(50, (3, 16))
    packed = model.hidden(ids, documents=rows(lengths))
    for row, own in enumerate(lengths):
        alone = torch.cat([model.hidden(part[None])[0] for part in ids[row].split(own)])
        torch.testing.assert_close(packed[row], alone, rtol=0, atol=2e-5)


def test_heads_that_share_keys_stay_within_documents_too() -> None:
    torch.manual_seed(1)
    model = LlamaConfig(vocabulary=50, context=12, layers=2, heads=4, kv_heads=2, width=16).build()
    ids = torch.randint(50, (1, 12))
    alone = torch.cat([model.hidden(part) for part in ids.split([5, 7], dim=1)], dim=1)
    torch.testing.assert_close(model.hidden(ids, documents=rows([[5, 7]])), alone, rtol=0, atol=2e-5)


LENGTHS = [[3 * BLOCK], [BLOCK, BLOCK, BLOCK], [1, 2 * BLOCK, BLOCK - 1], [40, 100, 3, 17, 3 * BLOCK - 160], [*[1] * 384]]


def test_blocks_show_what_the_mask_shows() -> None:
    from torch.nn.attention import flex_attention as flex

    numbers = rows(LENGTHS)
    torch.manual_seed(1)
    q, k, v = torch.randn(3, len(numbers), 2, 3 * BLOCK, 16)
    blocks = causal_blocks(numbers, flex)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # uncompiled, it is slow, and says so
        found = flex.flex_attention(q, k, v, block_mask=blocks)
    torch.testing.assert_close(found, explicit_attention(q, k, v, same_document(numbers), causal=True))


def test_a_block_is_visited_only_where_somebody_sees_it() -> None:
    from torch.nn.attention import flex_attention as flex

    numbers = rows(LENGTHS)
    blocks = causal_blocks(numbers, flex)
    seen = (same_document(numbers)[:, 0] & torch.ones(3 * BLOCK, 3 * BLOCK, dtype=torch.bool).tril()).view(-1, 3, BLOCK, 3, BLOCK)
    visited = seen.any(4).any(2)
    for count, which, wanted in (
        (blocks.kv_num_blocks, blocks.kv_indices, visited),
        (blocks.q_num_blocks, blocks.q_indices, visited.mT),
    ):
        assert (count[:, 0] == wanted.sum(-1)).all()
        for row, most in enumerate(count[:, 0].tolist()):
            for line, number in enumerate(most):
                found = which[row, 0, line, :number].tolist()
                assert found == wanted[row, line].nonzero().flatten().tolist()
                assert found == list(range(found[0], found[0] + number)), "the kernel goes from block to block"


def test_blocks_pass_through_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a GPU compiles, traced without making kernels: the blocks are built inside the compiled function."""
    from torch.nn.attention import flex_attention as flex

    monkeypatch.setattr(module, "FLEX", flex)
    numbers = rows(LENGTHS[:3])
    q, k, v = torch.randn(3, 3, 2, 3 * BLOCK, 16)

    def attend(numbers: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return module.block_attention(q, k, v, causal_blocks(numbers, flex))

    with torch.no_grad():
        found = torch.compile(attend, backend="aot_eager", fullgraph=True, dynamic=False)(numbers, q, k, v)
    torch.testing.assert_close(found, explicit_attention(q, k, v, same_document(numbers), causal=True))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_compiled_blocks_train_as_the_mask_does() -> None:
    torch.manual_seed(1)
    settings = {"qk_norm": True, "embedding_norm": True, "position_embedding": "rotary", "bias": False}
    model = gpt_config(vocabulary=50, context=3 * BLOCK, layers=2, heads=2, width=128, **settings).build().cuda()
    numbers = rows(LENGTHS).cuda()
    ids, direction = torch.randint(50, numbers.shape, device="cuda"), torch.randn(*numbers.shape, 128, device="cuda")

    def gradients(function: Any) -> tuple[Tensor, list[Tensor]]:
        model.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = (function(ids, documents=numbers).float() * direction).mean()
        loss.backward()
        return loss.detach(), [p.grad.clone() for p in model.parameters() if p.grad is not None]

    plain, compiled = gradients(model.hidden), gradients(torch.compile(model.hidden, dynamic=False, fullgraph=True))
    torch.testing.assert_close(compiled[0], plain[0], rtol=0, atol=1e-3)
    for mine, theirs in zip(compiled[1], plain[1], strict=True):
        assert (mine - theirs).norm() < 0.03 * theirs.norm()
