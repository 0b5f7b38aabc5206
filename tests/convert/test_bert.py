"""BERT against transformers: the same states and logits from the same weights, in both directions, with ragged padding."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.convert.parity import close, exported, imported, shaken
from tests.training import toys
from weft.convert.bert import FAMILY
from weft.data.base import IGNORE
from weft.objectives.masked_pair import MaskedPair, MaskedPairConfig
from weft.training.optim import AdamW

transformers = pytest.importorskip("transformers")
SIZES: list[dict[str, Any]] = [
    {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 32, "intermediate_size": 64},
    {"num_hidden_layers": 3, "num_attention_heads": 4, "hidden_size": 48, "intermediate_size": 100, "hidden_act": "gelu_new"},
    {"num_hidden_layers": 1, "num_attention_heads": 6, "hidden_size": 96, "intermediate_size": 384, "layer_norm_eps": 1e-5},
]


def reference(size: dict[str, Any], kind: str = "BertForPreTraining") -> Any:
    torch.manual_seed(0)
    return shaken(getattr(transformers, kind)(transformers.BertConfig(vocab_size=120, max_position_embeddings=40, **size)))


@pytest.mark.parametrize("size", SIZES)
@torch.no_grad()
def test_logits_are_equal_in_both_directions(size: dict[str, Any]) -> None:
    theirs = reference(size)
    ours: Any = imported(theirs, FAMILY)
    ids, segments = torch.randint(0, 120, (5, 40)), torch.randint(0, 2, (5, 40))
    lengths = torch.tensor([40, 3, 17, 39, 8])
    seen = torch.arange(40) < lengths[:, None]
    for other in (theirs, exported(ours, FAMILY, theirs)):
        expected = other(ids, attention_mask=seen.long(), token_type_ids=segments)
        close(ours(ids, segments, lengths)[seen], expected.prediction_logits[seen])
        close(ours.pair(ours.hidden(ids, segments, lengths)), expected.seq_relationship_logits)


@torch.no_grad()
def test_a_model_without_heads_is_read_and_its_heads_start_afresh() -> None:
    theirs = reference(SIZES[0], "BertModel")
    ours: Any = imported(theirs, FAMILY)
    ids = torch.randint(0, 120, (3, 20))
    close(ours.hidden(ids), theirs(ids).last_hidden_state)
    close(ours.pooled(ours.hidden(ids)), theirs(ids).pooler_output)


def test_a_hundred_steps_of_pretraining_equal_those_of_the_reference() -> None:
    """Same weights, masked batches, both losses and AdamW: the same loss at every step."""
    size = {**SIZES[0], "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    theirs = reference(size).train()
    ours: Any = imported(theirs, FAMILY).train()
    ids = (torch.arange(40)[:, None] * 7 + torch.arange(24) * 3) % 100 + 10  # something to learn
    lengths = 12 + torch.arange(40) % 13
    tensors = {"ids": ids, "segments": (torch.arange(24) > 8).long().expand(40, -1), "lengths": lengths, "pair": torch.arange(40) % 2}
    objective = MaskedPair(MaskedPairConfig(vocabulary=120, marks=10, mask=4))
    optim = AdamW(lr=4e-3, betas=(0.9, 0.98), weight_decay=0.01, clip_norm=1.0)
    trainer = toys.trainer(ours, objective, tensors, optim, batch=8, micro=3, steps=100, device=torch.device("cpu"))
    decays = {False: [], True: []}  # type: dict[bool, list[Any]]
    for name, parameter in theirs.named_parameters():
        decays[parameter.ndim == 2 and "embeddings" not in name].append(parameter)
    groups = [{"params": decays[True], "weight_decay": 0.01}, {"params": decays[False], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=4e-3, betas=(0.9, 0.98), foreach=False)
    losses: list[tuple[float, float]] = []
    for _ in range(100):
        batch = trainer.source.batch(trainer.cursor, 8)
        shown, place, truth = objective.corrupt(batch)
        labels = torch.full_like(shown, IGNORE).scatter(1, place, truth)
        trainer.run_step()
        seen = (torch.arange(24) < batch["lengths"][:, None]).long()
        loss = theirs(shown, attention_mask=seen, token_type_ids=batch["segments"], labels=labels, next_sentence_label=batch["pair"]).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(theirs.parameters(), 1.0)
        optimizer.step()
        losses.append((trainer.means.read()["loss"], float(loss.detach())))
        trainer.means.clear()
    assert max(abs(mine - other) / other for mine, other in losses) < 1e-4
    assert sum(other for _, other in losses[-10:]) < 0.9 * sum(other for _, other in losses[:10])
