"""Rows that a benchmark has measured as a record in the one form that weft.results describes."""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
import platform
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

import weft
from weft.core.errors import DataError
from weft.results import Baseline, Hardware, Measurement, Record, check, to_json
from weft.runs.environment import processor

Row = dict[str, Any]
Direction = Literal["higher", "lower"]
HIGHER: Direction = "higher"
LOWER: Direction = "lower"
KINDS: tuple[tuple[str, str | None, Direction | None], ...] = (
    (r".*_real", None, None),
    (r"planned_mfu", "share", None),
    (r"planned_seconds", "s", None),
    (r"planned_bytes", "bytes", None),
    (r"memory_ratio", "times", LOWER),
    (r"ratio", "times", None),
    (r".*mfu", "share", HIGHER),
    (r"(.*_)?ms(_.*)?", "ms", LOWER),
    (r"(.*_)?seconds(_.*)?", "s", LOWER),
    (r"(.*_)?tokens_per_second", "tokens/s", HIGHER),
    (r"words_per_(cpu_)?second", "words/s", HIGHER),
    (r"rows_per_second", "rows/s", HIGHER),
    (r"rows_per_core_second", "rows per second of a core", HIGHER),
    (r"megabytes_per_second", "MB/s", HIGHER),
    (r"per_core_second", "MB per second of a core", HIGHER),
    (r"gib", "GiB", LOWER),
    (r".*_bytes", "bytes", LOWER),
    (r".*_ratio|times_.*", "times", HIGHER),
    (r".*accuracy(_.*)?|exact(_match)?|f1|nearest_neighbour.*|classified-.*|translated-.*|recalled|good|own_questions", "share", HIGHER),
    (r"(precision|recall|exact|f1|rougeL)-.*", "share", HIGHER),
    (r".*_f1|bracket_.*|valid_trees|exact_tree|no_crossing|rouge.*|recall_at_.*|copied", "share", HIGHER),
    (r"bleu.*|token_bleu|chrf|matthews|IS-.*", None, HIGHER),
    (r"modes|correct", None, HIGHER),
    (r"bits_per_dim", "bits/dim", LOWER),
    (r"bits_per_byte", "bits/byte", LOWER),
    (r"log_likelihood.*|pseudo_log_likelihood", "nats", HIGHER),
    (r"log_loss|iwae_.*|bound|chosen_on|classical_loss|speedrun_final_loss", "nats", LOWER),
    (r"loss|perplexity|FID-.*|frechet.*|.*error|failures|reconstruction|imbalance", None, LOWER),
    (r"import|round_trip|apart|.*_apart|largest_difference|differ.*", None, LOWER),
)
"""Unit and direction of metrics by their name; the first that fits."""
NATS = re.compile(
    r"(gpt|llama|birthplace|pixelcnn|gated_pixelcnn|maf|realnvp|iaf|planar|vae|classifier|transformer|t5|bert|vit|swin|word2vec)/.*"
)
"""Recipes whose loss is counted in nats."""
COSTS = {
    "ms",
    "s",
    "tokens/s",
    "words/s",
    "MB/s",
    "MB per second of a core",
    "rows/s",
    "rows per second of a core",
    "GiB",
    "bytes",
    "times",
}
"""Units of what is not measured on a split of the data."""
RIGHT = ("accuracy", "exact")
"""Metrics beside which the share of the commonest class stands, where an evaluation tells it."""
UNMINIMISED = re.compile(r"(rbm|boltzmann)/.*")
"""Recipes of which only the gradient of the loss has a meaning."""


@dataclass(frozen=True)
class Measured:
    """What rows of numbers are in a record."""

    seeds: tuple[int, ...] | None
    measurements: tuple[Measurement, ...]
    rows: list[Row]
    """What of the rows is no number, for details."""


def measurements(
    rows: Iterable[Row],
    of: Sequence[str] = (),
    *,
    split: str | Mapping[str, str | None] | None = None,
    recipe: str | None = None,
    beside: Mapping[str, Mapping[str, Any]] | None = None,
) -> Measured:
    """Rows as measurements: what each is of (the columns `of`), its seed and number of examples where it has them, and metrics.

    split: of the data, for all metrics or by their names. beside: target, baselines and published figures by metric.
    """
    rows = list(rows)
    seeds = tuple(dict.fromkeys(row["seed"] for row in rows if "seed" in row)) or None
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(json.dumps({name: row[name] for name in of if name in row}), []).append(row)
    known = {*of, "seed", "examples", "majority_class"}
    found: list[Measurement] = []
    for name, group in groups.items():
        examples = {row.get("examples") for row in group}
        metrics = dict.fromkeys(key for row in group for key, value in row.items() if is_number(value) and key not in known)
        for metric in sorted(metrics, key=lambda name: kind(name, recipe)[0] in COSTS):
            by_seed = {row.get("seed"): row[metric] for row in group if is_number(row.get(metric))}
            unit, better = kind(metric, recipe)
            costs = unit in COSTS
            one = Measurement(
                metric=metric,
                split=None if costs else split.get(metric) if isinstance(split, Mapping) else split,  # type: ignore[arg-type]
                values=tuple(by_seed.get(seed) for seed in seeds or (None,)),
                of=json.loads(name),
                unit=unit,
                better=better,
                examples=None if costs or len(examples) > 1 else next(iter(examples)),
            )
            one = dataclasses.replace(one, **(beside or {}).get(metric, {}))
            if metric in RIGHT and not one.baselines and (share := group[0].get("majority_class")) is not None:
                one = dataclasses.replace(one, baselines=(Baseline(name="commonest class", value=share),))
            found.append(one)
    rest = [{"of": {k: row[k] for k in of if k in row}, **{k: row[k] for k in ("seed",) if k in row}, **words(row, known)} for row in rows]
    return Measured(seeds, tuple(found), [row for row in rest if row.keys() - {"of", "seed"}])


def words(row: Row, known: set[str]) -> Row:
    """What of a row is neither a number nor missing."""
    return {key: finite(value) for key, value in row.items() if key not in known and value is not None and not is_number(value)}


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def finite(value: Any) -> Any:
    """The same without numbers that JSON does not have, which are put as words."""
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def kind(metric: str, recipe: str | None) -> tuple[str | None, Direction | None]:
    """Unit and direction of a metric; the loss of some recipes is in nats, that of others has a meaning only by its gradient."""
    if metric == "loss" and recipe:
        if UNMINIMISED.fullmatch(recipe):
            return None, None
        return "nats" if NATS.fullmatch(recipe) else None, "lower"
    return next(((unit, better) for pattern, unit, better in KINDS if re.fullmatch(pattern, metric)), (None, None))


def hardware() -> Hardware:
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    gpu = torch.cuda.get_device_name() if gpus else None
    return Hardware(cpu=processor(), threads=torch.get_num_threads(), gpu=gpu, gpus=gpus)


def commit() -> str | None:
    """Of the checkout that this code stands in, if it does."""
    git = ("git", "-C", str(Path(weft.__file__).parent))
    try:
        head, changed = (
            subprocess.run([*git, *words], capture_output=True, text=True, check=True, timeout=30).stdout.strip()
            for words in (("rev-parse", "HEAD"), ("status", "--porcelain", "--untracked-files=no", "--", "."))
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return head + ("-dirty" if changed else "")


def write_record(
    path: str | Path,
    measured: Measured,
    *,
    command: str,
    benchmark: str | None = None,
    recipe: str | None = None,
    changed: Mapping[str, Any] | None = None,
    seconds: float | None = None,
    versions: Mapping[str, str] | None = None,
    details: Mapping[str, Any] | None = None,
    **other: Any,
) -> Record:
    """Write a record to a file that is named after it. versions: of what else took part. other: more fields, or what they are otherwise."""
    rows = {"rows": measured.rows} if measured.rows else {}
    own = {"python": platform.python_version(), "torch": torch.__version__, "weft": weft.__version__}
    record = Record(
        **{
            "name": Path(path).stem,
            "benchmark": benchmark,
            "recipe": recipe,
            "changed": dict(changed or {}),
            "command": command,
            "commit": commit(),
            "date": datetime.date.today().isoformat(),
            "hardware": hardware(),
            "versions": {**own, **(versions or {})},
            "seconds": seconds,
            "seeds": measured.seeds,
            "measurements": measured.measurements,
            "details": finite({**(details or {}), **rows}),
            **other,
        }
    )
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(to_json(record), encoding="utf-8")
    if problems := list(check(record, record.name)):  # written all the same: it may have taken hours to measure
        raise DataError("\n".join(f"{path}: {problem}" for problem in problems))
    return record
