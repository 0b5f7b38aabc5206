"""Several documents in one row, of which each token looks at its own alone. B batch, T time.

documents (B, T) are the numbers of the documents of the tokens, which never fall along a row. Attention takes them as a mask: written
out, or, where a compiler makes the kernel, as blocks of which those that no token may see are never visited.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
from torch import Tensor

FLEX: ModuleType | None = None
"""Attention that is compiled for a mask, where there is a GPU; it takes a second to import."""
if torch.cuda.is_available():
    from torch.nn.attention import flex_attention as FLEX
BLOCK = 128
"""Tokens on a side of a block."""


def same_document(documents: Tensor) -> Tensor:
    """True (B, 1, T, T) where a query and a key are of one document."""
    return (documents[:, :, None] == documents[:, None, :]).unsqueeze(1)


def document_positions(documents: Tensor) -> Tensor:
    """Where each token stands in its document, or in what the row has of it (B, T)."""
    positions = torch.arange(documents.size(1), device=documents.device)
    begins = torch.zeros_like(documents)
    begins[:, 1:] = torch.where(documents[:, 1:] != documents[:, :-1], positions[1:], 0)
    return positions - begins.cummax(dim=1).values


def document_mask(documents: Tensor, blocks: bool) -> Any:
    """What causal attention takes to stay within documents; as blocks where these are wanted and can be had."""
    if blocks and FLEX and documents.is_cuda and torch.compiler.is_compiling() and documents.size(1) % BLOCK == 0:
        return causal_blocks(documents, FLEX)
    return same_document(documents)


def causal_blocks(documents: Tensor, flex: ModuleType) -> Any:
    """The same as a causal BlockMask (B, 1, T, T). As numbers never fall, the ends of two blocks tell what lies between."""
    first, last = documents[:, ::BLOCK], documents[:, BLOCK - 1 :: BLOCK]  # (B, N) of N blocks
    number = torch.arange(first.size(1), device=documents.device)
    seen = (number[:, None] >= number) & (last[:, None, :] >= first[:, :, None])  # (B, N queries, N keys)
    (keys, which_keys), (queries, which_queries) = listed(seen), listed(seen.mT)

    def sees(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return (q >= k) & (documents[b, q] == documents[b, k])

    return flex.BlockMask(
        seq_lengths=(documents.size(1), documents.size(1)),
        kv_num_blocks=keys,
        kv_indices=which_keys,
        full_kv_num_blocks=None,
        full_kv_indices=None,
        q_num_blocks=queries,
        q_indices=which_queries,
        full_q_num_blocks=None,
        full_q_indices=None,
        BLOCK_SIZE=(BLOCK, BLOCK),
        mask_mod=sees,
    )


def listed(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """blocks (B, N, N) -> how many each row has (B, 1, N), and which, those it has not behind them (B, 1, N, N)."""
    chosen = blocks.to(torch.int32).unsqueeze(1)
    order = chosen.argsort(dim=-1, descending=True, stable=True)
    return chosen.sum(-1, dtype=torch.int32), order.to(torch.int32).contiguous()


def is_blocks(mask: Any) -> bool:
    return mask is not None and not isinstance(mask, Tensor)


def block_attention(q: Tensor, k: Tensor, v: Tensor, blocks: Any) -> Tensor:
    """q, k and v (B, H, T, K) -> (B, H, T, K)."""
    assert FLEX is not None
    # the blocks of a query, and those of a key, follow one another, so the kernel need not look up which comes next. That is faster, and
    # with look-ups 2 of 5 trainings ended in a read where nothing is (heads of 128, torch 2.11 on an H200)
    mixed: Tensor = FLEX.flex_attention(q, k, v, block_mask=blocks, kernel_options={"BLOCKS_ARE_CONTIGUOUS": True})
    return mixed
