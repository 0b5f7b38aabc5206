"""BERT against transformers, beyond what `weft bench parity` compares: a model without heads, and a hundred steps of pretraining."""

from __future__ import annotations

import pytest
import torch

from tests.convert.parity import close, imported
from tests.training import toys
from weft.benchmarks.references import CASES, reference
from weft.convert.bert import FAMILY
from weft.core.errors import CheckpointError
from weft.data.base import IGNORE
from weft.objectives.language.mlm_nsp import MLMNSP, MLMNSPConfig
from weft.training.optimizer.settings import AdamW

BertConfig = pytest.importorskip("transformers").BertConfig
SMALL = CASES["bert"]["2 layers of 32"]


@torch.no_grad()
def test_a_model_without_heads_is_read_and_its_heads_start_afresh() -> None:
    theirs = reference("bert", SMALL, "BertModel")
    ours = imported(theirs, FAMILY)
    ids = torch.randint(0, 120, (3, 20))
    close(ours.hidden(ids), theirs(ids).last_hidden_state)
    close(ours.pooled(ours.hidden(ids)), theirs(ids).pooler_output)


def test_a_hundred_steps_of_pretraining_equal_those_of_the_reference() -> None:
    """Same weights, masked batches, both losses and AdamW: the same loss at every step."""
    theirs = reference("bert", {**SMALL, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}).train()
    ours = imported(theirs, FAMILY).train()
    ids = (torch.arange(40)[:, None] * 7 + torch.arange(24) * 3) % 100 + 10  # something to learn
    lengths = 12 + torch.arange(40) % 13
    tensors = {"ids": ids, "segments": (torch.arange(24) > 8).long().expand(40, -1), "lengths": lengths, "pair": torch.arange(40) % 2}
    objective = MLMNSP(MLMNSPConfig(vocabulary=120, special_tokens=10, mask=4))
    optim = AdamW(lr=4e-3, betas=(0.9, 0.98), weight_decay=0.01, clip_norm=1.0)
    trainer = toys.trainer(ours, objective, tensors, optim, batch=8, micro_batch=3, steps=100, device=torch.device("cpu"))
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


def test_what_we_do_not_have_is_refused() -> None:
    config = BertConfig(**SMALL, architectures=["BertForMaskedLM"], num_labels=3).to_dict()
    with pytest.raises(CheckpointError, match="tie_word_embeddings is False"):
        FAMILY.settings({**config, "tie_word_embeddings": False})
    numbers = {**config, "architectures": ["BertForSequenceClassification"], "problem_type": "regression"}
    with pytest.raises(CheckpointError, match="problem_type is 'regression' with 3 labels"):
        FAMILY.settings(numbers)
