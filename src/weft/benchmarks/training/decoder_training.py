"""What it costs that a decoder reads its own tokens in training: steps of `transformer/numbers` by objective, beside teacher forcing.

Run: python -m weft bench decoder-training [--record results/decoder_training.json]
All objectives take turns on the same batches of one model, so that what else the machine does slows all of them.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import torch

from weft.benchmarks.arguments import Arguments, at_least
from weft.benchmarks.record import measurements, write_record
from weft.core.config import override
from weft.data.base import DataLoader
from weft.objectives.language.minimum_risk import MinimumRiskConfig
from weft.objectives.language.policy_gradient import PolicyGradientConfig
from weft.objectives.language.scheduled_sampling import ScheduledSamplingConfig
from weft.objectives.language.seq2seq import Seq2SeqConfig
from weft.recipes.base import recipe

CONTENDERS: dict[str, Seq2SeqConfig] = {
    "teacher forcing": Seq2SeqConfig(label_smoothing=0.0),
    "scheduled sampling, two passes": ScheduledSamplingConfig(label_smoothing=0.0, decay="linear", decay_steps=1.0),
    "scheduled sampling, four passes": ScheduledSamplingConfig(label_smoothing=0.0, decay="linear", decay_steps=1.0, passes=3),
    "minimum risk, 4 samples": MinimumRiskConfig(samples=4),
    "policy gradient, 4 samples": PolicyGradientConfig(samples=4),
}


def main(arguments: list[str] | None = None) -> None:
    parser = Arguments(__doc__, "decoder-training")
    parser.add_argument("--batch", type=at_least(1), default=32, help="pairs of a step")
    parser.add_argument("--width", type=at_least(8), default=128, help="of the model")
    parser.add_argument("--rounds", type=at_least(1), default=7, help="steps of each objective; the median counts")
    parser.add_argument("--record", default="", help="write the rows to this JSON file")
    options = parser.parse_args(arguments)
    made = override(recipe("transformer/numbers"), {"model.width": options.width})
    data = made.data.build()
    made = made.resolve(data.info)
    torch.manual_seed(0)
    model: Any = made.model.build().train()
    optim, source = torch.optim.Adam(model.parameters(), lr=1e-4), DataLoader(data.train, 0, torch.device("cpu"))
    objectives = {name: override(config, {name: data.info[name] for name in ("start", "end")}) for name, config in CONTENDERS.items()}
    built = {name: config.build() for name, config in objectives.items()}  # type: ignore[attr-defined]
    taken: dict[str, list[float]] = {name: [] for name in built}
    for turn in range(options.rounds + 1):
        batch = source.batch(turn * options.batch, options.batch)
        for name, objective in built.items():
            objective.after_update(model, "")  # from the second step on nothing but own tokens is read
            begun = time.perf_counter()
            optim.zero_grad()
            terms, counts = objective(model, batch, ""), objective.counts(batch)
            torch.stack([value / counts[term] for term, value in terms.sums.items()]).sum().backward()  # type: ignore[no-untyped-call]
            optim.step()
            taken[name] += [time.perf_counter() - begun] if turn else []
    base = statistics.median(taken["teacher forcing"])
    rows = []
    for name, times in taken.items():
        ratio = statistics.median(one / other for one, other in zip(times, taken["teacher forcing"], strict=True))
        rows.append({"objective": name, "ms": round(1e3 * statistics.median(times), 2), "ratio": round(ratio, 3)})
        print(f"{name:34} {rows[-1]['ms']:9.1f} ms   {ratio:6.2f} x teacher forcing ({1e3 * base:.1f} ms)", flush=True)
    if options.record:
        write_record(options.record, measurements(rows, ["objective"]), recipe="transformer/numbers", **parser.run(options))


if __name__ == "__main__":
    main()
