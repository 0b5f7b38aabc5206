"""Text applications on real data, beside their baselines, over several seeds; data are found through WEFT_DATA.

python -m weft bench applications parsing --seeds 1 2 3 --record results/applications-parsing.json
python -m weft bench applications labels --small                        what a core does in a few minutes
"""

from __future__ import annotations

import importlib
from pathlib import Path

from weft.benchmarks.applications.base import Task, trained
from weft.benchmarks.arguments import Arguments
from weft.benchmarks.record import Row, measurements, write_record
from weft.core.errors import ConfigError
from weft.core.registry import nearest
from weft.results import Baseline

TASKS = ("parsing", "labels", "summaries", "questions", "dialogue")


def shown(row: Row) -> str:
    return "  ".join(f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in row.items())


def baselines_of(rows: list[Row], metric: str) -> tuple[Baseline, ...]:
    return tuple(Baseline(name=row["model"], value=row[metric]) for row in rows if metric in row)


def main(arguments: list[str] | None = None) -> None:
    parser = Arguments(__doc__, "applications")
    parser.add_names("task", TASKS)
    parser.add_argument("--models", nargs="+", default=[], metavar="NAME", help="which of the task's; all by default")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--small", action="store_true", help="models and data that a core trains on in a few minutes")
    parser.add_argument("--runs", type=Path, default=Path("runs/applications"), help="folder of the runs; what is finished is not repeated")
    parser.add_argument("--record", type=Path, help="file to write the record to")
    options = parser.parse_args(arguments)
    task: Task = importlib.import_module(f"weft.benchmarks.applications.{options.task}").TASK
    for name in options.models:
        if name not in task.contenders:
            raise ConfigError(f"{options.task} has no model {name!r}{nearest(name, list(task.contenders))}")
    folder = options.runs / (options.task + "-small" * options.small)
    folder.mkdir(parents=True, exist_ok=True)
    files = task.prepare(folder, options)
    plain, rows = task.baselines(files, options), list[Row]()
    for row in plain:
        print(shown(row), flush=True)
    for name in options.models or task.contenders:
        for seed in options.seeds:
            out = folder / f"{name.replace(', ', '-').replace(' ', '_')}-{seed}"
            loaded = trained(task.contenders[name], files, seed, out, options)
            rows.append({"model": name, "seed": seed, **task.measure(loaded, files, options)})
            print(shown(rows[-1]), flush=True)
    if options.record:
        own = {"task": options.task, "size": "small" if options.small else "whole"}
        names = dict.fromkeys(metric for row in rows for metric in row)
        beside = {metric: {"baselines": baselines_of(plain, metric)} for metric in names if baselines_of(plain, metric)}
        found = measurements([own | row for row in rows], of=("task", "size", "model"), split="test", beside=beside)
        write_record(options.record, found, **parser.run(options))


if __name__ == "__main__":
    main()
