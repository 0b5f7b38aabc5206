"""Fills the tables of README.md and docs/ from results/: `python docs/generate.py`, or `--check` to see whether they are current."""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from pathlib import Path
from typing import Any

from weft import registry, verbs

ROOT = Path(__file__).resolve().parent.parent


def records() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for path in sorted((ROOT / "results").glob("*.json")):
        content = json.loads(path.read_text())
        found += content if isinstance(content, list) else [content]
    return found


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
    measured = {r["recipe"]: r for r in records() if "recipe" in r and "value" in r}
    rows = ["| recipe | what | year | measured (validation) | trivial method | cost |", "|---|---|---|---|---|---|"]
    for name, entry in registry.RECIPES.items():
        r = measured.get(name)
        score = f"{r['metric']} {r['value']:.4g}{spread(r)}" if r else ""
        cost = f"{r['seconds']:.0f} s, {r['hardware']}" if r else ""
        rows.append(f"| `{name}` | {entry.summary} | {entry.year} | {score} | {r.get('baseline', '') if r else ''} | {cost} |")
    return "\n".join(rows)


def matrix() -> str:
    """A row per kind of trained model: what each verb does with it."""
    head = (
        "model",
        "trained for",
        "recipes",
        "`train`, `train --init`, `evaluate`, `report`",
        "`sample`",
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
        cells = [uses.sample, "yes" if uses.continues else "", ", ".join(uses.serve), convert]
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
    for found in (r for r in records() if r.get("name") == "engine-cpu"):
        rows = ["| model | contender | tokens/s | loss after 200 steps |", "|---|---|---|---|"]
        for row in found["rows"]:
            loss = "" if row["loss"] is None else f"{row['loss']:.4f}"
            rows.append(f"| {row['model']} | {row['contender']} | {row['tokens_per_second']:,.0f} | {loss} |")
        where = f"{found['hardware']}, torch {found['versions']['torch']}, {found['date']}."
        tables.append("\n".join([*rows, "", where, *cpu_losses(found.get("losses", []))]))
    return "\n\n".join(tables) or "Not measured yet."


def cpu_losses(rows: list[dict[str, Any]]) -> list[str]:
    """How far apart the losses are for each seed of weights and batches."""
    from weft.benchmarks.engine_cpu import COMPARED, ROUNDED, apart

    names = dict.fromkeys(row["model"] for row in rows)
    own = {name: [row for row in rows if row["model"] == name] for name in names}
    lines = [f"- {name}: {apart(own[name], kind)}" for name in names for kind in (COMPARED[1], ROUNDED)]
    return ["", "Losses above those of transformers in fp32, for each seed of weights and batches:", *lines] if rows else []


def quickstart() -> str:
    """Every system of the quickstart over its seeds."""
    found = next((r for r in records() if r.get("name") == "quickstart"), None)
    if found is None:
        return "Not measured yet."
    seeds = sorted({row["seed"] for row in found["rows"]})
    rows = [f"| system | {' | '.join(f'seed {seed}' for seed in seeds)} | its own questions | training |", "|---" * (len(seeds) + 3) + "|"]
    for name in dict.fromkeys(row["system"] for row in found["rows"]):
        own = [row for row in found["rows"] if row["system"] == name]
        fitted = "" if own[0]["own_questions"] is None else f"{100 * min(row['own_questions'] for row in own):.1f} % or more"
        took = max(row["training_seconds"] for row in own)
        scores = " | ".join(f"{100 * row['accuracy']:.1f} %" for row in own)
        rows.append(f"| {name} | {scores} | {fitted} | {f'{took:.0f} s' if took else ''} |")
    whole = max(row["quickstart_seconds"] for row in found["rows"])
    where = f"{found['hardware']}, torch {found['versions']['torch']}, {found['date']}"
    return "\n".join([*rows, "", f"The whole quickstart took {whole:.0f} s at most. {where}."])


TIMES = (("step_ms", 2, ""), ("compiled_seconds", 1, " s"))


def birthplace() -> str:
    """Accuracy of every system on the development set."""
    found = [r for r in records() if r.get("name") == "birthplace"]
    if not found:
        return "Not measured yet."
    rows = [
        "| system | parameters | dev accuracy | seeds | steps | ms a step | pretraining after compilation |",
        "|---|---|---|---|---|---|---|",
    ]
    for record in sorted(found, key=lambda record: statistics.fmean(row["accuracy"] for row in record["rows"])):
        own = record["rows"]
        scores = [100 * row["accuracy"] for row in own]
        shown = f"{statistics.fmean(scores):.1f} %" + (f" ± {statistics.stdev(scores):.1f}" if len(scores) > 1 else "")
        cells = [", ".join([own[0]["system"], *record["changed"]]), f"{own[0]['parameters']:,}" if "parameters" in own[0] else "", shown]
        cells += [", ".join(f"{score:.1f}" for score in scores), f"{own[0]['steps']:,}" if "steps" in own[0] else ""]
        alone = "note" not in record
        cells += [f"{min(row[key] for row in own):.{digits}f}{unit}" if alone and key in own[0] else "" for key, digits, unit in TIMES]
        rows.append(f"| {' | '.join(cells)} |")
    first = found[0]
    notes = [f"{record['rows'][0]['system']}: {record['note']}." for record in found if "note" in record]
    return "\n".join(
        [*rows, "", *(f"- {note}" for note in notes), "", f"{first['hardware']}, torch {first['versions']['torch']}, {first['date']}."]
    )


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
    found = sorted((r for r in records() if r.get("name") == "transformers"), key=lambda r: str(r["rows"][0]["experiment"]))
    if not found:
        return "Not measured yet."
    rows = ["| experiment | recipe | starts from | measured on | result | seeds |", "|---|---|---|---|---|---|"]
    for record in found:
        own = record["rows"]
        name = own[0]["experiment"]
        wanted = SHOWN.get(name.partition("-")[0], ("accuracy", "token_accuracy", "pair_accuracy"))
        cells = []
        for key in [key for key in wanted if key in own[0]] or ["perplexity"]:
            what, scale = TOLD[key]
            values = [row[key] * scale for row in own]
            cells.append(f"{what} {statistics.fmean(values):.1f}{deviation(values)}")
            if key in ("accuracy", "exact") and "commonest_class" in own[0]:
                cells[-1] += f" (commonest class {100 * own[0]['commonest_class']:.1f})"
        where = "report data" if record["report"] else "held-out training data"
        recipe = ", ".join([record["recipe"], *record["changed"]])
        rows.append(f"| {name} | {recipe} | {started(record)} | {where} | {', '.join(cells)} | {len(own)} |")
    first = found[0]
    return "\n".join([*rows, "", f"{first['hardware']}, torch {first['versions']['torch']}, {first['date']}."])


def started(record: dict[str, Any]) -> str:
    """What an experiment starts from, and whose answers it learns."""
    if record.get("teacher"):
        return f"answers of {record['teacher']}"
    steps = record["rows"][0].get("start_steps")
    return f"{record['start']} after {steps:,} steps" if steps else record["start"] or "nothing"


def deviation(values: list[float]) -> str:
    return f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""


def parity() -> str:
    """The largest difference of converted models from transformers: of each family's random ones, and of every published one."""
    found = next((r for r in records() if r.get("name") == "parity"), None)
    if found is None:
        return "Not measured yet."
    rows = ["| family | compared | parameters | largest difference | there and back |", "|---|---|---|---|---|"]
    random = [row for row in found["rows"] if "wheel" not in row]
    for family in dict.fromkeys(row["family"] for row in random):
        own = [row for row in random if row["family"] == family]
        sizes = [row["parameters"] for row in own]
        worst = {way: max(row[way] for row in own) for way in ("import", "round_trip")}
        rows.append(difference(family, f"{len(own)} configurations, random weights", f"{min(sizes):,} to {max(sizes):,}", worst))
    published = [row for row in found["rows"] if "wheel" in row]
    rows += [
        difference(row["family"], f"{row['configuration']} up to {row['largest_value']:.0f}", f"{row['parameters']:,}", row)
        for row in published
    ]
    said = [f"Both continue “{row['prompt']}” with “{' '.join(row['continuation'].split())}”." for row in published if "prompt" in row]
    where = f"fp32, {found['hardware']}, torch {found['versions']['torch']}, transformers {found['transformers']}, {found['date']}."
    return "\n".join([*rows, "", *said, where])


def difference(family: str, compared: str, parameters: str, row: dict[str, Any]) -> str:
    ways = " | ".join(f"{row[way]:.1e}" if row[way] else "0" for way in ("import", "round_trip"))
    return f"| {registry.CONVERTERS[family].summary} | {compared} | {parameters} | {ways} |"


def planned() -> str:
    """What the plan said of a step, and what the step took."""
    found = next((r for r in records() if r.get("name") == "plan"), None)
    if found is None:
        return "Not measured yet."
    rows = ["| model | batch | memory planned | measured | off | step planned | measured | off | MFU |", "|---" * 9 + "|"]
    for row in found["rows"]:
        memory = [f"{row[key] / 2**30:.1f} GiB" for key in ("planned_bytes", "measured_bytes")] + [f"{100 * row['memory_off']:+.1f} %"]
        times = [f"{1e3 * row[key]:.1f} ms" for key in ("planned_seconds", "measured_seconds")] + [f"{100 * row['step_off']:+.1f} %"]
        cells = [row["model"], str(row["batch"]), *memory, *times, f"{100 * row['measured_mfu']:.1f} %"]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join([*rows, "", f"{found['hardware']}, torch {found['versions']['torch']}, {found['date']}."])


def layouts() -> str:
    """GPT-3 on many GPUs."""
    found = next((r for r in records() if r.get("name") == "plan-layouts"), None)
    if found is None:
        return "Not planned yet."
    rows = ["| GPUs | layout | memory each | weights each, built | step | MFU | days | energy |", "|---" * 8 + "|"]
    for row in found["rows"]:
        sizes = f"{row['memory']['total'] / 2**30:.0f} GiB | {max(row['built_bytes']) / 1e9:.3f} GB"
        times = f"{row['step_seconds']:.1f} s | {100 * row['mfu']:.0f} % | {row['days']:.1f} | {row['kwh'] / 1e3:,.0f} MWh"
        rows.append(f"| {row['gpus']:,} | {row['words']} | {sizes} | {times} |")
    return "\n".join(rows)


def growth() -> str:
    """The GPTs, counted from their configurations."""
    from weft.planning import telling

    head, *rows = telling.growth()
    return "\n".join([f"| {' | '.join(head)} |", "|---" * len(head) + "|", *(f"| {' | '.join(row)} |" for row in rows)])


def spread(record: dict[str, Any]) -> str:
    return f" ± {record['spread']:.2g} ({len(record['seeds'])} seeds)" if record.get("spread") else ""


def building() -> str:
    """Text to token shards, beside the library that does the encoding."""
    found = next((r for r in records() if r.get("name") == "data-build"), None)
    if found is None:
        return "Not measured yet."
    rows = ["| contender | MB/s | MB per second of a core |", "|---|---|---|"]
    rows += [f"| {row['contender']} | {row['megabytes_per_second']:.2f} | {row['per_core_second']:.2f} |" for row in found["rows"]]
    ratios = ", ".join(f"{ratio['wall']:.2f} x {name}" for name, ratio in found["ratios"].items())
    what = f"{found['megabytes']:.0f} MB of Python source, tokenizer {found['tokenizer']}, {found['cores']} cores"
    return "\n".join([*rows, "", f"`weft data build` is {ratios}. {what}, {found['hardware']}, {found['date']}."])


def training() -> str:
    """How fast GPT-2 is trained beside nanoGPT, and where the time of both goes."""
    found = next((r for r in records() if r.get("name") == "training_gpu"), None)
    if found is None:
        return "Not measured yet."
    rows = ["| size, batch | contender | ms a step | tokens/s | times nanoGPT | of the ceiling | GiB |", "|---" * 7 + "|"]
    for row in found["rows"]:
        for name, one in [("nanoGPT", row["nanogpt"]), *((f"weft {v['variant']}", v) for v in row["variants"])]:
            share = f"{row['ceiling']['ms'] / one['ms']:.3f}"
            cells = (f"{row['size']}, {row['batch']}", name, f"{one['ms']:.1f}", f"{one['tokens_per_second']:,.0f}")
            rows.append(f"| {' | '.join(cells)} | {row['nanogpt']['ms'] / one['ms']:.3f} | {share} | {one['gib']:.1f} |")
    where = f"{found['hardware']}, torch {found['versions']['torch']}, {found['date']}. {found.get('note', '')}"
    names = list(found["rows"][0]["kernel_ms"])
    rows += ["", where, "", f"| kernels, ms a step | {' | '.join(names)} |", "|---" * (1 + len(names)) + "|"]
    kinds = {kind: None for one in found["rows"][0]["kernel_ms"].values() for kind in one}
    for kind in kinds:
        times = [one.get(kind) for one in found["rows"][0]["kernel_ms"].values()]
        rows.append(f"| {kind} | " + " | ".join("" if time is None else f"{time:.1f}" for time in times) + " |")
    return "\n".join(rows)


def race() -> str:
    """How long two recipes take to the same loss."""
    found = [r for r in records() if r.get("name") == "speedrun" and r["results"]]
    if not found:
        return "Not measured yet."
    head = "| size | seed | classical: M tokens, rate, loss, seconds | speedrun: seconds to that loss | share | its final loss |"
    rows = [head, "|---" * 6 + "|"]
    for record in found:
        chosen = next(run for run in record["runs"] if run["loss"] == record["results"][0]["classical_loss"])
        for row in record["results"]:
            read = f"{chosen['tokens'] / 1e6:.0f}, {chosen['lr']:g}"
            classical = f"{read}, {row['classical_loss']:.4f}, {row['classical_seconds']:.1f}"
            reached = f"{row['reached_seconds']:.1f} | {row['share']:.3f}" if row["share"] else "not reached |"
            rows.append(f"| {record['size']} | {row['seed']} | {classical} | {reached} | {row['speedrun_final_loss']:.4f} |")
    first, corpus = found[0], found[0]["corpus"]
    what = f"{corpus['train']['bytes'] / 1e6:.0f} MB of Python source, sha256 {corpus['sha256'][:12]}"
    return "\n".join([*rows, "", f"{what}; {first['hardware']}, torch {first['versions']['torch']}, {first['date']}."])


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
    r"commonest_class": "commonest class {percent:.2f} %",
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


def images(*families: str) -> str:
    """What models of these families reached on real images or the ring, beside what was hoped for or published."""
    found = [r for r in records() if r.get("name") == "images" and r["recipe"].partition("/")[0] in families]
    if not found:
        return "Not measured yet."
    rows = ["| experiment | measured on | result | hoped for or published | parameters | training | seeds |", "|---" * 7 + "|"]
    for record in sorted(found, key=lambda record: str(record["rows"][0]["experiment"])):
        own = record["rows"]
        numbers = [name for name, value in own[0].items() if isinstance(value, int | float)]
        mean = {name: statistics.fmean(row[name] for row in own) for name in numbers}
        kept = f"{own[0]['examples']:,} training images held out"
        where = "the ring" if record["recipe"].endswith("/ring") else "test images" if record["report"] else kept
        took = f"{max(row['train_seconds'] for row in own):.0f} s"
        changed = f" ({', '.join(record['changed'])})" if record.get("changed") else ""
        cells = (f"{own[0]['experiment']}{changed}", where, told(mean), record["bar"], f"{own[0]['parameters']:,}", took, str(len(own)))
        rows.append(f"| {' | '.join(cells)} |")
    places = sorted({f"{r['hardware']}, torch {r['versions']['torch']}, {r['date']}" for r in found})
    return "\n".join([*rows, "", f"{'; '.join(places)}."])


def pace() -> str:
    """Training steps of a VAE and a DCGAN against plain loops over the same networks."""
    found = [r for r in records() if r.get("name") == "images_gpu"]
    if not found:
        return "Not measured yet."
    rows = ["| model | batch | weft | plain loop | compiled plain loop |", "|---" * 5 + "|"]
    for row in found[0]["rows"]:
        loops = [f"{row[f'{kind}_ms']:.2f} ms, {row[f'times_{kind}']:.2f} x" for kind in ("eager", "compiled")]
        rows.append(f"| {row['model']} | {row['batch']} | {row['weft_ms']:.2f} ms | {' | '.join(loops)} |")
    first = found[0]
    return "\n".join([*rows, "", f"{first['hardware']}, torch {first['versions']['torch']}, {first['date']}."])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    pages = {
        ROOT / "README.md": {"families": families()},
        ROOT / "docs" / "engine.md": {"cpu": cpu(), "training": training(), "race": race()},
    }
    pages[ROOT / "docs" / "recipes.md"] = {"recipes": recipes()}
    pages[ROOT / "docs" / "verbs.md"] = {"verbs": matrix()}
    pages[ROOT / "docs" / "birthplace.md"] = {"quickstart": quickstart(), "birthplace": birthplace()}
    pages[ROOT / "docs" / "transformers.md"] = {"parity": parity(), "results": transformers()}
    pages[ROOT / "docs" / "plan.md"] = {"planned": planned(), "layouts": layouts(), "growth": growth()}
    pages[ROOT / "docs" / "data.md"] = {"building": building()}
    pages[ROOT / "docs" / "flows.md"] = {"images": images("realnvp", "maf", "pixelcnn", "gated_pixelcnn")}
    pages[ROOT / "docs" / "energy.md"] = {"images": images("rbm")}
    pages[ROOT / "docs" / "vae.md"] = {"images": images("vae", "classifier")}
    games = images("gan", "dcgan", "wgan", "wgan_gp", "bigan", "pix2pix", "cyclegan")
    pages[ROOT / "docs" / "gan.md"] = {"images": games, "pace": pace()}
    stale = 0
    for path, parts in pages.items():
        old = new = path.read_text()
        for name, content in parts.items():
            new = fill(new, name, content)
        if new != old:
            stale += 1
            print(f"{path.name} {'is not what results/ say; run python docs/generate.py' if check else 'written'}")
            if not check:
                path.write_text(new)
    return int(check and stale > 0)


if __name__ == "__main__":
    sys.exit(main())
