"""BLEU of many sentences at once: equal to that of one by one."""

from __future__ import annotations

import torch

from weft.metrics import batched_ngrams, ngrams


def test_statistics_and_bleu_are_those_of_single_sentences() -> None:
    generator = torch.Generator().manual_seed(0)
    rows, longest = 400, 9
    candidate, reference = (torch.randint(0, 4, (rows, longest), generator=generator) for _ in range(2))
    sizes, wanted = (torch.randint(0, longest + 1, (rows,), generator=generator) for _ in range(2))
    reference[:100], wanted[:100] = candidate[:100], sizes[:100]
    found = batched_ngrams.statistics(candidate, sizes, reference[:, :8], wanted.clamp(max=8))
    bleu = batched_ngrams.sentence_bleu(found)
    for row in range(rows):
        one, other = candidate[row, : sizes[row]].tolist(), reference[row, : min(8, int(wanted[row]))].tolist()
        assert torch.equal(found[row], ngrams.statistics(one, other)), row
        expected = ngrams.sentence_bleu(one, other)
        assert abs(float(bleu[row]) - expected) < 1e-9, row
    assert (bleu > 99.9).sum() > 50 and (bleu == 0).sum() > 10
