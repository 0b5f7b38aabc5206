"""Training speed of BERT-base and of a translator, against transformers' models compiled, both in one run.

Run: python -m weft bench encoders-gpu [--models bert marian] [--steps 100] [--record results/encoders_gpu.json]

Both train on the same batches with the same AdamW, bf16 products and dropout 0.1; the median step is compared. The loss is
compared apart, from the same weights with dropout off.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from weft.benchmarks.arguments import Arguments, at_least
from weft.benchmarks.record import measurements, write_record
from weft.benchmarks.timing import timed
from weft.convert.bert import FAMILY as BERT
from weft.convert.family import Family
from weft.convert.marian import FAMILY as MARIAN
from weft.core.errors import require
from weft.data.base import IGNORE, Batch, DataLoader, TensorDataset
from weft.models.base import ModelConfig
from weft.models.language.bert import BERTConfig
from weft.models.language.transformer import TransformerConfig
from weft.objectives.base import Objective
from weft.objectives.language.mlm_nsp import MLMNSP, MLMNSPConfig
from weft.objectives.language.seq2seq import Seq2Seq, Seq2SeqConfig
from weft.training import execution
from weft.training.optimizer.settings import AdamW
from weft.training.settings import Train
from weft.training.trainer import Trainer

OPTIM = AdamW(lr=1e-4, betas=(0.9, 0.98), weight_decay=0.01, clip_norm=1.0)


@dataclass
class Contest:
    """A model of ours and its twin: what both learn from, and the twin's loss on a batch of ours."""

    model: ModelConfig
    family: Family
    twin: str
    objective: Objective
    examples: dict[str, Tensor]
    batch: int
    tokens: int
    loss: Callable[[Any, Batch], Tensor]


def bert(model: BERTConfig, batch: int, time_: int) -> Contest:
    """Masked tokens and sentence pairs of full length."""
    ids = torch.randint(1000, model.vocabulary, (16 * batch, time_), generator=torch.Generator().manual_seed(0))
    segments = (torch.arange(time_) >= time_ // 2).long().expand(len(ids), -1).contiguous()
    examples = {"ids": ids, "segments": segments, "lengths": torch.full((len(ids),), time_), "pair": torch.arange(len(ids)) % 2}
    objective = MLMNSP(MLMNSPConfig(vocabulary=model.vocabulary, special_tokens=999, mask=103))

    def loss(twin: Any, given: Batch) -> Tensor:
        shown, place, truth = objective.corrupt(given)
        labels = torch.full_like(shown, IGNORE).scatter(1, place, truth)
        # full rows need no mask, which spares the twin the slower attention
        found: Tensor = twin(shown, token_type_ids=given["segments"], labels=labels, next_sentence_label=given["pair"]).loss
        return found

    return Contest(model, BERT, "BertForPreTraining", objective, examples, batch, time_, loss)


def marian(model: TransformerConfig, batch: int, time_: int) -> Contest:
    """Pairs of equally long texts."""
    draw = torch.Generator().manual_seed(0)
    source, target = (torch.randint(3, model.vocabulary - 1, (16 * batch, time_), generator=draw) for _ in range(2))
    target = torch.cat([torch.full((len(target), 1), model.vocabulary - 1), target], dim=1)
    lengths = {"source_length": torch.full((len(source),), time_), "target_length": torch.full((len(source),), time_ + 1)}

    def loss(twin: Any, given: Batch) -> Tensor:
        shown, wanted = given["target"][:, :-1], given["target"][:, 1:].contiguous()  # the twin asks for a view
        found: Tensor = twin(input_ids=given["source"], decoder_input_ids=shown, labels=wanted).loss
        return found

    objective = Seq2Seq(Seq2SeqConfig(label_smoothing=0.0, decode=False))
    return Contest(model, MARIAN, "MarianMTModel", objective, {"source": source, "target": target, **lengths}, batch, 2 * time_, loss)


CONTESTS: dict[str, Callable[[], Contest]] = {
    "bert": lambda: bert(BERTConfig(vocabulary=30522, context=512), batch=32, time_=512),
    "marian": lambda: marian(
        TransformerConfig(vocabulary=32000, context=128, activation="silu", interleaved_positions=False, output_bias=True),
        batch=128,
        time_=64,
    ),
    "toy": lambda: bert(BERTConfig(vocabulary=1100, context=16, layers=1, heads=2, width=32), batch=4, time_=16),
}


def ours(contest: Contest, settings: Train, dropout: bool) -> Trainer:
    torch.manual_seed(0)
    model = changed(contest.model, dropout).build()
    plan = execution.choose(settings, model, contest.objective, OPTIM)
    source = DataLoader(TensorDataset(contest.examples), settings.seed, plan.device)
    return Trainer(model, contest.objective, source, settings, OPTIM, plan, tokens=contest.tokens)


def changed(model: ModelConfig, dropout: bool) -> ModelConfig:
    return model if dropout else dataclasses.replace(model, dropout=0.0, attention_dropout=0.0)  # type: ignore[call-arg]


def theirs(contest: Contest, own: Trainer, dropout: bool, compiled: bool) -> Callable[[], Tensor]:
    """The usual step of the twin with our weights, on our batches."""
    transformers = require("transformers", "hf")
    kind = getattr(transformers, contest.twin)
    twin: Any = kind(kind.config_class(**contest.family.describe(changed(contest.model, dropout))))
    tensors = contest.family.table(contest.model).to_foreign({name: p.detach().cpu() for name, p in own.model.named_parameters()})
    twin.load_state_dict(tensors, strict=False)
    twin = twin.to(own.plan.device).train()
    groups = [
        {"params": [p for p in twin.parameters() if (p.ndim > 1) == decayed], "weight_decay": 0.01 * decayed} for decayed in (True, False)
    ]
    optimizer = torch.optim.AdamW(groups, lr=OPTIM.lr, betas=OPTIM.betas, fused=own.plan.device.type == "cuda")
    source, number = DataLoader(TensorDataset(contest.examples), own.settings.seed, own.plan.device), [0]
    run = torch.compile(twin) if compiled else twin

    def step() -> Tensor:
        batch = source.batch(number[0], contest.batch)
        number[0] += contest.batch
        with torch.autocast(own.plan.device.type, torch.bfloat16):
            loss = contest.loss(run, batch)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(twin.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    return step


def contend(name: str, steps: int) -> dict[str, Any]:
    """Step times of both, and their losses after the same steps without dropout."""
    contest = CONTESTS[name]()
    settings = Train(steps=10_000, batch=contest.batch, precision="bf16")
    trainer = ours(contest, settings, dropout=True)
    compiled = trainer.plan.compile
    mine = timed(trainer.run_step, steps, warm=10)
    other = timed(theirs(contest, trainer, True, compiled), steps, warm=10)
    del trainer
    quiet = ours(contest, dataclasses.replace(settings, compile="off"), dropout=False)  # the same numbers, without the wait
    step = theirs(contest, quiet, False, compiled=False)
    losses = []
    for _ in range(20):
        quiet.means.clear()
        quiet.run_step()
        losses.append((quiet.means.read()["loss"], float(step())))
    apart = max(abs(a - b) / b for a, b in losses)
    return {"model": name, "weft_ms": mine, "transformers_ms": other, "ratio": other / mine, "losses": losses[-1], "apart": apart}


def main(arguments: list[str] | None = None) -> None:
    parser = Arguments(__doc__, "encoders-gpu")
    parser.add_names("--models", CONTESTS, nargs="+", default=["bert", "marian"])
    parser.add_argument("--steps", type=at_least(1), default=100)
    parser.add_argument("--record", default="", help="JSON file to write")
    options = parser.parse_args(arguments)
    rows = []
    for name in options.models:
        rows.append(contend(name, options.steps))
        print(json.dumps(rows[-1]), flush=True)
    if options.record:
        write_record(options.record, measurements(rows, ("model",)), **parser.run(options))


if __name__ == "__main__":
    main()
