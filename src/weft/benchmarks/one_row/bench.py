"""A step of one row of GPT-2 as one kernel that stays on a Hopper GPU, beside the step that serves: a trial, which serves nobody yet.

Run: python -m weft bench one-row [gpt2-xl gpt2] [--record FILE]
Each model in a process of its own, which is ended when it has been silent for too long, so that a kernel that waits for ever harms
nothing. First whether answers are right, then times, then where the time goes. What the kernel does is told in one_row.cu.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from typing import Any

import torch

from weft.benchmarks.arguments import Arguments
from weft.benchmarks.record import write_record
from weft.errors import CapabilityError, ProcessError

PRESETS = ("gpt2-xl", "gpt2")
SILENCE = 25.0
"""Seconds without a word after which a process is ended; today's step compiles for some of them the first time."""
HOPPER = 9


def check_gpu() -> None:
    found = "no GPU"
    if torch.cuda.is_available():
        major, minor = torch.cuda.get_device_capability()
        if major == HOPPER:
            return
        found = f"a {torch.cuda.get_device_name()} of compute capability {major}.{minor}"
    raise CapabilityError(f"bench one-row needs a Hopper GPU (compute capability 9.0), and here is {found}; run it on an H100 or H200")


def line(row: dict[str, Any]) -> str:
    ms = f"{row['ms']:8.4f} ms" if row["ms"] is not None else ""
    return f"{row['what']:<66} {ms:<11}  {row['result']}".rstrip()


def listen(command: list[str], silence: float = SILENCE) -> list[dict[str, Any]]:
    """The rows that a process prints, shown as they come; other lines are shown only."""
    rows: list[dict[str, Any]] = []
    ended: list[str] = []

    def end() -> None:
        ended.append(f"ended after {silence:g} s of silence")
        process.kill()

    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout
        text = "\n"
        while text:
            watchdog = threading.Timer(silence, end)
            watchdog.start()
            text = process.stdout.readline()
            watchdog.cancel()
            if text.startswith("{"):
                rows.append(json.loads(text))
                text = line(rows[-1]) + "\n"
            print(text, end="", flush=True)
    if process.returncode:
        rows.append({"what": f"{command[-1]}: FAILED", "ms": None, "result": (ended or [f"exit status {process.returncode}"])[0]})
    return rows


def main(arguments: list[str] | None = None) -> None:
    parser = Arguments(__doc__)
    parser.add_names("models", PRESETS, nargs="*", default=list(PRESETS))
    parser.add_argument("--record", default="", help="JSON file to write")
    options = parser.parse_args(arguments)
    check_gpu()
    begin = time.monotonic()
    rows = [row for model in options.models for row in listen([sys.executable, "-m", "weft.benchmarks.one_row.measure", model])]
    print("\n" + "\n".join(line(row) for row in rows if row["ms"] is not None or "FAILED" in row["what"] or "WRONG" in row["result"]))
    print(f"{time.monotonic() - begin:.0f} s")
    if options.record:
        write_record(options.record, "one_row", "weft bench one-row", {"rows": rows})
    if any("FAILED" in row["what"] or "WRONG" in row["result"] for row in rows):
        raise ProcessError("bench one-row: a kernel gave up or gave wrong answers; the rows above say which")


if __name__ == "__main__":
    main()
