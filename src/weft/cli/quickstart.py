"""`weft quickstart`: the birthplace experiment on made-up people, with a table, a figure and what to type next."""

from __future__ import annotations

from pathlib import Path

from weft.cli import console
from weft.cli.options import flags
from weft.core import installation
from weft.projects.birthplace.page import quickstart_page
from weft.projects.birthplace.quickstart import Options, Result, quickstart
from weft.report.progress import Progress
from weft.training.checkpoint import files

ABOUT = """Four systems are asked where people were born whom no training question was about: the commonest place, a model that
learned from questions alone, one that had read about everybody before, and a Perceiver that had. About four minutes on two cores;
the same command again continues where it stopped."""


def main(words: list[str]) -> int:
    console.show_warnings()
    options, _ = flags.parse(Options(), words, "weft quickstart", "", ABOUT)
    results = quickstart(options, lambda line: print(line, flush=True), lambda: [Progress()])
    commands = following(results)
    report = Path(options.out) / "report.html"
    files.deliver(report, quickstart_page(results, commands).encode())
    print(f"\n{console.table(table(results))}\n\nreport: {report}\nnext:")
    print("\n".join(f"  {command}" for command in commands))
    return 0


def table(results: list[Result]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("system", "right about others", "about its own questions", "training")]
    for r in results:
        own = "" if r.fitted is None else f"{100 * r.fitted:.1f} %"
        rows.append((r.name, f"{100 * r.accuracy:.1f} %", own, f"{r.seconds:.0f} s" if r.seconds else ""))
    return rows


def following(results: list[Result]) -> list[str]:
    """Commands that go on from here: ask it, serve it, look at its training, use a corpus of one's own."""
    best = max((r for r in results if r.folders), key=lambda r: r.accuracy)
    weft = installation.command()
    return [
        f'{weft} birthplace ask {best.folders[-1]} "{best.answers[0].question}"',
        f"{weft} serve {best.folders[-1]}",
        f"{weft} report {' '.join(str(folder) for folder in best.folders)}",
        f"{weft} birthplace pretrain rotary my_biographies.txt --writing_params_path my.pretrained",
    ]
