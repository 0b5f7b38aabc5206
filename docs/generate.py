"""Fills the tables of README.md and docs/ from results/, and the index of what --help prints: `python docs/generate.py`.

`--check` says whether they are current.
"""

from __future__ import annotations

import argparse
import functools
import json
import re
import statistics
import sys
from pathlib import Path
from typing import Any

from weft import results
from weft.cli import verbs
from weft.cli.options import help
from weft.core import registry
from weft.recipes.base import recipe
from weft.results import Measurement, Record

ROOT = Path(__file__).resolve().parent.parent


@functools.cache
def records() -> list[Record]:
    return [results.read(path) for path in results.files([ROOT / "results"])]


def of(benchmark: str) -> list[Record]:
    return [record for record in records() if record.benchmark == benchmark]


def one(name: str) -> Record | None:
    return next((record for record in records() if record.name == name), None)


def changes(record: Record) -> list[str]:
    """Settings that were changed, as NAME=VALUE."""
    shown = {name.rpartition(":")[2]: value if isinstance(value, str) else json.dumps(value) for name, value in record.changed.items()}
    return [f"{name}={value}" for name, value in shown.items()]


def families() -> str:
    """A row per family: its recipes, and when its idea was published."""
    groups: dict[str, list[str]] = {}
    for name in registry.RECIPES:
        groups.setdefault(name.partition("/")[0], []).append(name)
    rows = ["| family | since | recipes |", "|---|---|---|"]
    for family, names in groups.items():
        since = min(registry.RECIPES[name].year for name in names)
        rows.append(f"| {family} | {since} | {', '.join(f'`{name}`' for name in names)} |")
    return "\n".join(rows)


def recipes() -> str:
    """A row per recipe: what it is, its measured score, what a trivial method reaches, and the cost."""
    measured = {record.recipe: record for record in records() if record.plain_recipe}
    rows = ["| recipe | what | year | measured (validation) | trivial method | cost |", "|---|---|---|---|---|---|"]
    for name, entry in registry.RECIPES.items():
        r = measured.get(name)
        score, cost, trivial = "", "", ""
        if r:
            first = r.measurements[0]
            score = f"{first.metric} {first.mean:.4g}{spread(first)}"
            cost = f"{r.seconds:.0f} s, {r.hardware}"
            trivial = ", ".join([*map(str, first.baselines), *(f"published figure of {p.source} {p.value}" for p in first.published)])
            trivial = trivial or (f"target {first.target:g}" if first.target is not None else "")
        rows.append(f"| `{name}` | {entry.summary} | {entry.year} | {score} | {trivial} | {cost} |")
    return "\n".join(rows)


def matrix() -> str:
    """A row per kind of trained model: what each verb does with it."""
    head = (
        "model",
        "trained for",
        "recipes",
        "`train`, `train --init`, `evaluate`, `report`",
        "`sample`",
        "`predict`",
        "`prompt`, tasks",
        "`serve`",
        "`convert`",
    )
    rows = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for (model, objective), names in verbs.recipes().items():
        uses = verbs.USES[model, objective]
        families = dict.fromkeys(name.partition("/")[0] for name in names)
        where = " ".join(f"`{flag(name, value)}`" for name, value in uses.where.items() if uses.convert)
        convert = ", ".join(uses.convert) + (f" with {where}" if where else "")
        cells = [uses.sample, uses.predict, "yes" if uses.continues else "", ", ".join(uses.serve), convert]
        shown = [f"`{model}`", f"`{objective}`", ", ".join(families), "yes"]
        rows.append(f"| {' | '.join([*shown, *(cell or '–' for cell in cells)])} |")
    return "\n".join(rows)


def flag(name: str, value: object) -> str:
    """A setting as the command takes it."""
    stem, _, last = name.replace("_", "-").rpartition(".")
    return f"--{stem}.{'no-' if value is False else ''}{last}" + ("" if isinstance(value, bool) else f" {value}")


def cpu() -> str:
    """Tokens per second of each contender, and the losses that must agree, on each processor."""
    tables = []
    for found in of("engine-cpu"):
        rows = ["| model | contender | tokens/s | loss after 200 steps |", "|---|---|---|---|"]
        for row in found.table():
            loss = f"{row['loss']:.4f}" if "loss" in row else ""
            rows.append(f"| {row['model']} | {row['contender']} | {row['tokens_per_second']:,.0f} | {loss} |")
        tables.append("\n".join([*rows, "", f"{found.where()}.", *cpu_losses(found.details.get("losses", []))]))
    return "\n\n".join(tables) or "Not measured yet."


def cpu_losses(rows: list[dict[str, Any]]) -> list[str]:
    """How far apart the losses are for each seed of weights and batches."""
    from weft.benchmarks.training.engine_cpu import COMPARED, ROUNDED, apart

    names = dict.fromkeys(row["model"] for row in rows)
    own = {name: [row for row in rows if row["model"] == name] for name in names}
    lines = [f"- {name}: {apart(own[name], kind)}" for name in names for kind in (COMPARED[1], ROUNDED)]
    return ["", "Losses above those of transformers in fp32, for each seed of weights and batches:", *lines] if rows else []


def quickstart() -> str:
    """Every system of the quickstart over its seeds."""
    found = one("quickstart")
    if found is None:
        return "Not measured yet."
    table, seeds = found.table(), found.seeds or ()
    rows = [f"| system | {' | '.join(f'seed {seed}' for seed in seeds)} | its own questions | training |", "|---" * (len(seeds) + 3) + "|"]
    for name in dict.fromkeys(row["system"] for row in table):
        own = [row for row in table if row["system"] == name]
        fitted = f"{100 * min(row['own_questions'] for row in own):.1f} % or more" if "own_questions" in own[0] else ""
        took = max(row["training_seconds"] for row in own)
        scores = " | ".join(f"{100 * row['accuracy']:.1f} %" for row in own)
        rows.append(f"| {name} | {scores} | {fitted} | {f'{took:.0f} s' if took else ''} |")
    whole = max(row["quickstart_seconds"] for row in table)
    return "\n".join([*rows, "", f"The whole quickstart took {whole:.0f} s at most. {found.where()}."])


TIMES = (("step_ms", 2, ""), ("compiled_seconds", 1, " s"))


def birthplace() -> str:
    """Accuracy of every system on the development set."""
    found = of("birthplace")
    if not found:
        return "Not measured yet."
    rows = [
        "| system | parameters | dev accuracy | seeds | steps | ms a step | pretraining after compilation |",
        "|---|---|---|---|---|---|---|",
    ]
    for record in sorted(found, key=lambda record: statistics.fmean(row["accuracy"] for row in record.table())):
        own, about = record.table(), record.details
        scores = [100 * row["accuracy"] for row in own]
        shown = f"{statistics.fmean(scores):.1f} %" + (f" ± {statistics.stdev(scores):.1f}" if len(scores) > 1 else "")
        cells = [", ".join([about["system"], *changes(record)]), f"{about['parameters']:,}" if "parameters" in about else "", shown]
        cells += [", ".join(f"{score:.1f}" for score in scores), f"{about['steps'][0]:,}" if "steps" in about else ""]
        alone = record.note is None
        cells += [f"{min(row[key] for row in own):.{digits}f}{unit}" if alone and key in own[0] else "" for key, digits, unit in TIMES]
        rows.append(f"| {' | '.join(cells)} |")
    notes = [f"{record.details['system']}: {record.note}." for record in found if record.note]
    return "\n".join([*rows, "", *(f"- {note}" for note in notes), "", f"{found[0].where()}."])


TOLD = {
    "bleu": ("BLEU", 1.0), "exact_match": ("exact match", 100.0), "f1": ("F1", 100.0), "matthews": ("Matthews", 100.0),
    "perplexity": ("perplexity", 1.0), "bits_per_byte": ("bits per byte", 1.0), "exact": ("right", 100.0),
    "pair_accuracy": ("pairs right", 100.0), "token_accuracy": ("masked tokens right", 100.0), "accuracy": ("accuracy", 100.0),
}  # fmt: skip
"""Metrics worth a cell, with what they are multiplied by; those of a whole answer first."""
SHOWN = {
    "cola": ("matthews",),
    "squad": ("exact_match", "f1"),
    "mrpc": ("accuracy", "f1"),
    "multi30k": ("bleu", "perplexity"),
    "gpt": ("perplexity", "bits_per_byte"),
    "t5": ("exact", "perplexity"),
}
"""Those of a task that are customary; accuracies where none is named."""
PASSES = {f"bleu_{number}": (f"in {number} passes", 1.0) for number in (1, 2, 4, 10)}
"""BLEU of targets made at once."""
TOLD |= PASSES
SHOWN["nat"] = ("bleu", *PASSES)


def transformers() -> str:
    """What the recipes of the Transformer family reached on real data."""
    found = sorted(of("transformers"), key=lambda record: str(record.details["experiment"]))
    if not found:
        return "Not measured yet."
    rows = ["| experiment | recipe | starts from | measured on | result | seeds |", "|---|---|---|---|---|---|"]
    for record in found:
        own, name = {measured.metric: measured for measured in record.measurements}, record.details["experiment"]
        wanted = SHOWN.get(name.partition("-")[0], ("accuracy", "token_accuracy", "pair_accuracy"))
        cells = []
        shown = [key for key in wanted if key in own] or ["perplexity"]
        for key in shown:
            what, scale = TOLD[key]
            values = [value * scale for value in own[key].known]
            trivial = [f" ({base.name} {100 * base.value:.1f})" for base in own[key].baselines if not isinstance(base.value, tuple)]
            cells.append(f"{what} {statistics.fmean(values):.1f}{deviation(values)}{''.join(trivial)}")
        where = "held-out training data" if own[shown[0]].split == "validation" else "report data"
        recipe = ", ".join([record.recipe or "", *changes(record)])
        rows.append(f"| {name} | {recipe} | {started(record)} | {where} | {', '.join(cells)} | {len(record.seeds or ())} |")
    return "\n".join([*rows, "", f"{found[0].where()}."])


def started(record: Record) -> str:
    """What an experiment starts from, and whose answers it learns."""
    about = record.details
    if "teacher" in about:
        return f"answers of {about['teacher']}"
    steps, start = about.get("start_steps"), about.get("start", "nothing")
    return f"{start} after {steps:,} steps" if steps else start


def deviation(values: list[float]) -> str:
    return f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""


def parity() -> str:
    """The largest difference of converted models from transformers: of each family's random ones, and of every published one."""
    found = one("parity")
    if found is None:
        return "Not measured yet."
    table = found.table()
    rows = ["| family | compared | parameters | largest difference | there and back |", "|---|---|---|---|---|"]
    random = [row for row in table if "wheel" not in row]
    for family in dict.fromkeys(row["family"] for row in random):
        own = [row for row in random if row["family"] == family]
        sizes = [row["parameters"] for row in own]
        worst = {way: max(row[way] for row in own) for way in ("import", "round_trip")}
        rows.append(difference(family, f"{len(own)} configurations, random weights", f"{min(sizes):,} to {max(sizes):,}", worst))
    published = [row for row in table if "wheel" in row]
    rows += [
        difference(row["family"], f"{row['configuration']} up to {row['largest_value']:.0f}", f"{row['parameters']:,}", row)
        for row in published
    ]
    said = [f"Both continue “{row['prompt']}” with “{' '.join(row['continuation'].split())}”." for row in published if "prompt" in row]
    versions = f"torch {found.versions['torch']}, transformers {found.versions['transformers']}"
    where = f"fp32, {found.hardware}, {versions}, {found.date}."
    return "\n".join([*rows, "", *said, where])


def difference(family: str, compared: str, parameters: str, row: dict[str, Any]) -> str:
    ways = " | ".join(f"{row[way]:.1e}" if row[way] else "0" for way in ("import", "round_trip"))
    return f"| {registry.CONVERTERS[family].summary} | {compared} | {parameters} | {ways} |"


def planned() -> str:
    """What the plan said of a step, and what the step took."""
    found = one("plan")
    if found is None:
        return "Not measured yet."
    rows = ["| model | batch | memory planned | measured | off | step planned | measured | off | MFU |", "|---" * 9 + "|"]
    for row in found.table():
        memory = [f"{row[key] / 2**30:.1f} GiB" for key in ("planned_bytes", "measured_bytes")] + [f"{100 * row['memory_off']:+.1f} %"]
        times = [f"{1e3 * row[key]:.1f} ms" for key in ("planned_seconds", "measured_seconds")] + [f"{100 * row['step_off']:+.1f} %"]
        cells = [row["model"], str(row["batch"]), *memory, *times, f"{100 * row['measured_mfu']:.1f} %"]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join([*rows, "", f"{found.where()}."])


def layouts() -> str:
    """GPT-3 on many GPUs."""
    found = one("plan-layouts")
    if found is None:
        return "Not planned yet."
    rows = ["| GPUs | layout | memory each | weights each, built | step | MFU | days | energy |", "|---" * 8 + "|"]
    for row in found.table():
        sizes = f"{row['memory']['total'] / 2**30:.0f} GiB | {max(row['built_bytes']) / 1e9:.3f} GB"
        times = f"{row['step_seconds']:.1f} s | {100 * row['mfu']:.0f} % | {row['days']:.1f} | {row['kwh'] / 1e3:,.0f} MWh"
        rows.append(f"| {row['gpus']:,} | {row['words']} | {sizes} | {times} |")
    return "\n".join(rows)


def growth() -> str:
    """The GPTs, counted from their configurations."""
    from weft.planning import wording

    head, *rows = wording.growth()
    return "\n".join([f"| {' | '.join(head)} |", "|---" * len(head) + "|", *(f"| {' | '.join(row)} |" for row in rows)])


def spread(measured: Measurement) -> str:
    return f" ± {measured.spread:.2g} ({len(measured.known)} seeds)" if measured.spread else ""


def compared(name: str, column: str, **heads: str) -> str:
    """A record's measurements, a row for each value of `column`; heads: of the metrics that are shown, in this order."""
    if not (record := one(name)):
        return ""
    rows = [f"| {' | '.join((column.replace('_', ' '), *heads.values()))} |", "|---" * (1 + len(heads)) + "|"]
    found = {(m.of[column], m.metric): m for m in record.measurements}
    for value in dict.fromkeys(m.of[column] for m in record.measurements):
        cells = [shown(found[value, metric]) if (value, metric) in found else "" for metric in heads]
        rows.append(f"| {' | '.join((str(value), *cells))} |")
    return "\n".join([*rows, "", f"{record.hardware}, {record.date}, `results/{name}.json`."])


def shown(measured: Measurement) -> str:
    """Mean and standard deviation, of shares in percent."""
    values = [100 * value if measured.unit == "share" else value for value in measured.values if value is not None]
    digits = 2 if max(map(abs, values)) < 1000 else 0
    deviation = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.{digits}f}{deviation}{' %' if measured.unit == 'share' else ''}"


def building() -> str:
    """Text to token shards, beside the library that does the encoding."""
    found = one("data_build")
    if found is None:
        return "Not measured yet."
    table, about = found.table(), found.details
    rows = ["| contender | MB/s | MB per second of a core |", "|---|---|---|"]
    rows += [f"| {row['contender']} | {row['megabytes_per_second']:.2f} | {row['per_core_second']:.2f} |" for row in table]
    ratios = ", ".join(f"{row['wall_ratio']:.2f} x {row['contender']}" for row in table if "wall_ratio" in row)
    what = f"{about['megabytes']:.0f} MB of Python source, tokenizer {about['tokenizer']}, {about['cores']} cores"
    return "\n".join([*rows, "", f"`weft data build` is {ratios}. {what}, {found.hardware}, {found.date}."])


def training() -> str:
    """How fast GPT-2 is trained beside nanoGPT, and where the time of both goes."""
    found = one("training_gpu")
    if found is None:
        return "Not measured yet."
    rows = ["| size, batch | contender | ms a step | tokens/s | times nanoGPT | of the ceiling | GiB |", "|---" * 7 + "|"]
    table = found.table()
    timed = [row for row in table if "ms" in row]
    for size, batch in dict.fromkeys((row["size"], row["batch"]) for row in timed):
        own = {row["contender"]: row for row in timed if (row["size"], row["batch"]) == (size, batch)}
        ceiling = own.pop("ceiling")["ms"]
        for name, row in own.items():
            cells = (f"{size}, {batch}", name, f"{row['ms']:.1f}", f"{row['tokens_per_second']:,.0f}")
            shares = f"{own['nanoGPT']['ms'] / row['ms']:.3f} | {ceiling / row['ms']:.3f}"
            rows.append(f"| {' | '.join(cells)} | {shares} | {row['gib']:.1f} |")
    where = f"{found.where()}. {found.note or ''}"
    kernels = next(row["kernel_ms"] for row in table if "kernel_ms" in row)
    names = list(kernels)
    rows += ["", where, "", f"| kernels, ms a step | {' | '.join(names)} |", "|---" * (1 + len(names)) + "|"]
    for kind in dict.fromkeys(kind for own in kernels.values() for kind in own):
        times = [own.get(kind) for own in kernels.values()]
        rows.append(f"| {kind} | " + " | ".join("" if time is None else f"{time:.1f}" for time in times) + " |")
    return "\n".join(rows)


def race() -> str:
    """How long two recipes take to the same loss."""
    found = [record for record in of("speedrun") if any("classical_loss" in row for row in record.table())]
    if not found:
        return "Not measured yet."
    head = "| size | seed | classical: M tokens, rate, loss, seconds | speedrun: seconds to that loss | share | its final loss |"
    rows = [head, "|---" * 6 + "|"]
    for record in found:
        runs, ends = ([row for row in record.table() if key in row] for key in ("lr", "classical_loss"))
        chosen = next(run for run in runs if run["loss"] == ends[0]["classical_loss"])
        for row in ends:
            read = f"{chosen['tokens'] / 1e6:.0f}, {chosen['lr']:g}"
            classical = f"{read}, {row['classical_loss']:.4f}, {row['classical_seconds']:.1f}"
            reached = f"{row['reached_seconds']:.1f} | {row['share']:.3f}" if "share" in row else "not reached |"
            rows.append(f"| {record.details['size']} | {row['seed']} | {classical} | {reached} | {row['speedrun_final_loss']:.4f} |")
    corpus = found[0].details["corpus"]
    what = f"{corpus['train']['bytes'] / 1e6:.0f} MB of Python source, sha256 {corpus['sha256'][:12]}"
    return "\n".join([*rows, "", f"{what}; {found[0].where()}."])


def fill(text: str, name: str, content: str) -> str:
    """Put content between <!-- name --> and <!-- /name -->."""
    block = f"<!-- {name} -->\n{content}\n<!-- /{name} -->"
    return re.sub(rf"<!-- {name} -->.*?<!-- /{name} -->", lambda _: block, text, flags=re.DOTALL)


SAID = {
    r"loss": "{:.2f} nats",
    r"bound": "{:.2f} nats",
    r"bits_per_dim": "{:.3f} bits/dim",
    r"log_likelihood": "log p(x) {:.2f}",
    r"log_likelihood_reverse": "from the other end {:.2f}",
    r"iwae_(\d+)": "{:.2f} nats with {name} codes",
    r"accuracy": "{percent:.2f} % right",
    r"nearest_neighbour": "{percent:.2f} % right by the nearest neighbour",
    r"nearest_neighbour_code": "{percent:.2f} % by that of the code alone",
    r"classified-(.+)": "{percent:.1f} % taken for their class",
    r"translated-(.+)(?<!_real)": "{percent:.1f} % keep their class",
    r"pixel_error": "pixels wrong by {:.3f}",
    r"modes": "{:.3g} modes",
    r"good": "{percent:.1f} % good",
    r"(FID-.+)(?<!_real)": "{name} {:.1f}",
    r"(FID-.+)_real": "real images {:.1f}",
}
"""How a number of an experiment on images is told, by its name."""


def told(row: dict[str, Any]) -> str:
    """The numbers of one experiment that say how good it is."""
    if {"reconstruction", "kl"} <= {*row}:  # the bound, whatever weight the loss gives to each
        row = {**row, "loss": row["reconstruction"] + row["kl"]}
    no_bound = {"accuracy", "log_likelihood"} & {*row}  # a loss of several terms, or one that only its gradient has a meaning for
    names = [name for name in row if name != "loss" or not no_bound]
    found = []
    for pattern, form in SAID.items():
        for name in names:
            if match := re.fullmatch(pattern, name):
                found.append(form.format(row[name], percent=100 * row[name], name=(match.groups() or ("",))[0]))
    return ", ".join(found)


def trivial(record: Record) -> list[str]:
    """What the commonest class reaches, of records that tell classes."""
    known = {f"{base.name} {100 * base.value:.2f} %" for measured in record.measurements for base in measured.baselines
             if base.name == "commonest class" and isinstance(base.value, float)}  # fmt: skip
    return sorted(known)


def images(*families: str) -> str:
    """What models of these families reached on real images or the ring, beside what was hoped for or published."""
    found = [record for record in of("images") if (record.recipe or "").partition("/")[0] in families]
    if not found:
        return "Not measured yet."
    rows = ["| experiment | measured on | result | hoped for or published | parameters | training | seeds |", "|---" * 7 + "|"]
    for record in sorted(found, key=lambda record: str(record.details["experiment"])):
        about, mean = record.details, {measured.metric: measured.mean for measured in record.measurements}
        kept = f"{max(measured.examples or 0 for measured in record.measurements):,} training images held out"
        tested = any(measured.split == "test" for measured in record.measurements)
        where = "the ring" if (record.recipe or "").endswith("/ring") else "test images" if tested else kept
        took = f"{max(row['train_seconds'] for row in record.table()):.0f} s"
        changed = f" ({', '.join(changes(record))})" if record.changed else ""
        hoped = results.compared(record.measurements, about.get("expected", ""))
        seeds = str(len(record.seeds or ()))
        shown = ", ".join([told(mean), *trivial(record)])
        cells = (f"{about['experiment']}{changed}", where, shown, hoped, f"{about['parameters']:,}", took, seeds)
        rows.append(f"| {' | '.join(cells)} |")
    places = sorted({record.where() for record in found})
    return "\n".join([*rows, "", f"{'; '.join(places)}."])


def pace() -> str:
    """Training steps of a VAE and a DCGAN against plain loops over the same networks."""
    found = one("images_gpu")
    if found is None:
        return "Not measured yet."
    rows = ["| model | batch | weft | plain loop | compiled plain loop |", "|---" * 5 + "|"]
    for row in found.table():
        loops = [f"{row[f'{kind}_ms']:.2f} ms, {row[f'times_{kind}']:.2f} x" for kind in ("eager", "compiled")]
        rows.append(f"| {row['model']} | {row['batch']} | {row['weft_ms']:.2f} ms | {' | '.join(loops)} |")
    return "\n".join([*rows, "", f"{found.where()}."])


def words_speed() -> str:
    """Words a second beside gensim's."""
    if not (found := one("words_cpu")):
        return "Not measured yet."
    head = ("architecture", "program", "threads", "words/s", "times gensim", "times one thread", "times gensim, of processor time")
    rows = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row in (one for one in found.table() if one["part"] == "speed"):
        ratios = (row.get(f"times_{name}") for name in ("gensim_1_thread", "weft_1_thread", "gensim_1_thread_by_cpu_time"))
        cells = ["" if value is None else f"{value:.2f}" for value in ratios]
        start = (row["architecture"], row["contender"], str(row["threads"]), f"{row['words_per_second']:,.0f}")
        rows.append(f"| {' | '.join((*start, *cells))} |")
    return "\n".join([*rows, "", f"{found.where()}. {found.note or ''}".rstrip()])


def words_analogies() -> str:
    """Right answers behind as many epochs."""
    if not (found := one("words_analogies")):
        return "Not measured yet."
    rows = ["| architecture | epochs | program | right answers, % |", "|---|---|---|---|"]
    metrics = {json.dumps(m.of): {} for m in found.measurements}  # type: ignore[var-annotated]
    for measured in found.measurements:
        metrics[json.dumps(measured.of)][measured.metric] = [100 * value for value in measured.known]
    for name, values in metrics.items():
        of = json.loads(name)
        right = f"{statistics.fmean(values['accuracy']):.2f}{deviation(values['accuracy'])}"
        rows.append(f"| {of['architecture']} | {of['epochs']} | {of['contender']} | {right} |")
    chance = max(value for each in metrics.values() for name in ("random_vectors", "most_frequent_word") for value in each[name])
    return "\n".join([*rows, f"| random vectors, or the most frequent word | | | {chance:.2f} |", "", f"{found.where()}."])


def tagging() -> str:
    """Taggers with and without context in the vectors of words."""
    found = one("elmo_brown")
    if found is None:
        return "Not measured yet."
    accuracies = [measured for measured in found.measurements if measured.metric == "accuracy"]
    rows = ["| what the tagger reads | right tags, % |", "|---|---|"]
    for measured in accuracies:
        values = [100 * value for value in measured.known]
        rows.append(f"| {measured.of['tagger']} | {statistics.fmean(values):.2f}{deviation(values)} |")
    rows += [f"| {baseline.name} | {100 * float(baseline.value):.2f} |" for baseline in accuracies[0].baselines]  # type: ignore[arg-type]
    return "\n".join([*rows, "", f"{found.where()}. {found.note or ''}".rstrip()])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    pages = {
        ROOT / "README.md": {"families": families()},
        ROOT / "docs" / "lab" / "engine.md": {"cpu": cpu(), "training": training(), "race": race()},
    }
    pages[ROOT / "docs" / "recipes.md"] = {"recipes": recipes()}
    pages[ROOT / "docs" / "verbs.md"] = {"verbs": matrix()}
    pages[ROOT / "docs" / "birthplace.md"] = {"quickstart": quickstart(), "birthplace": birthplace()}
    pages[ROOT / "docs" / "transformers.md"] = {"parity": parity()}
    pages[ROOT / "docs" / "lab" / "transformers.md"] = {"results": transformers()}
    pages[ROOT / "docs" / "plan.md"] = {"planned": planned(), "layouts": layouts(), "growth": growth()}
    pages[ROOT / "docs" / "sequence-training.md"] = {
        "minimum_risk": compared("minimum_risk", "objective", token_bleu="BLEU", log_loss="cross-entropy, nats", gain="BLEU gained"),
        "exposure_bias": compared(
            "exposure_bias",
            "trained_by",
            teacher_forced_error="error behind true tokens",
            free_running_error="free-running",
            exposure_bias="exposure bias",
            answer_error="answers with an error",
            propagated="of 12 tokens behind a wrong one, wrong more",
        ),
        "decoder_training": compared("decoder_training", "objective", ms="ms a step", ratio="times teacher forcing"),
    }
    pages[ROOT / "docs" / "elmo.md"] = {"elmo": tagging()}
    pages[ROOT / "docs" / "words.md"] = {"speed": words_speed(), "analogies": words_analogies()}
    pages[ROOT / "docs" / "data.md"] = {"building": building()}
    pages[ROOT / "docs" / "flows.md"] = {"images": images("realnvp", "maf", "pixelcnn", "gated_pixelcnn")}
    pages[ROOT / "docs" / "energy.md"] = {"images": images("rbm")}
    pages[ROOT / "docs" / "vae.md"] = {"images": images("vae", "classifier")}
    games = images("gan", "dcgan", "wgan", "wgan_gp", "bigan", "pix2pix", "cyclegan")
    pages[ROOT / "docs" / "lab" / "gan.md"] = {"images": games, "pace": pace()}
    texts = {help.INDEX: help.make_index({name: (recipe(name), registry.find("recipes", name)) for name in registry.RECIPES})}
    for path, parts in pages.items():
        texts[path] = path.read_text()
        for name, content in parts.items():
            texts[path] = fill(texts[path], name, content)
    stale = {path: text for path, text in texts.items() if not path.exists() or path.read_text() != text}
    for path, text in stale.items():
        print(f"{path.name} {'is not current; run python docs/generate.py' if check else 'written'}")
        if not check:
            path.write_text(text)
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
