"""Plays the newcomer: `python3.11 -m reliability.newcomer [--minutes 15] [--keep FOLDER]`.

A fresh clone of what is committed, an empty HOME, no Python but this one: every command and Python block of README.md in order, with
small data made for the names that it uses, then whether every command of docs/ resolves in the environment that `make run` made. Exits
with 1 where a command fails, asks for an extra, or everything together takes longer than it may. `make test` is left out: it is the suite.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from reliability.blocks import ROOT, blocks, commands

LEFT_OUT = ("make test",)
PASSED_ON = ("PIP_", "SSL_", "CURL_CA", "REQUESTS_CA", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
"""Beginnings of what of the environment says where packages come from; nothing else is handed on."""
BAD = ("Traceback (most recent call last)", "install it with:")
LONGEST = 1800.0
"""Seconds that one command may take before it is given up."""


@dataclass
class Step:
    line: str
    seconds: float
    code: int
    said: str

    @property
    def failed(self) -> bool:
        return self.code != 0 or any(bad in self.said for bad in BAD)


def environment(home: Path) -> dict[str, str]:
    """That of somebody who has Python and git, and has never used this machine before."""
    kept = {name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)}
    path = f"{Path(sys.executable).resolve().parent}:/usr/local/bin:/usr/bin:/bin"
    return {**kept, "HOME": str(home), "PATH": path, "LANG": "C.UTF-8", "TERM": "dumb"}


# -- small data under the names that the README uses ---------------------------------------------------------------------------


def make_data(folder: Path) -> None:
    chance = random.Random(1)
    who, does, what = (
        ("the cat", "a dog", "my friend", "Ann's owl"),
        ("sees", "likes", "hears"),
        ("the moon", "a tree", "old songs", "rain"),
    )

    def prose(lines: int) -> str:
        return "".join(f"Once upon a time {chance.choice(who)} {chance.choice(does)} {chance.choice(what)}.\n" for _ in range(lines))

    (folder / "my.txt").write_text(prose(4000))
    (folder / "other.txt").write_text(prose(200) + "It isn't so: “déjà vu”, said ten owls @ 7 o'clock.\n")
    (folder / "texts").mkdir()
    for number in range(3):
        (folder / "texts" / f"{number}.txt").write_text(prose(500))
    rows = [(chance.uniform(-1, 1), chance.uniform(-1, 1)) for _ in range(300)]
    table = "".join(f"{x:.3f}\t{y:.3f}\t{'up' if x + y > 0 else 'down'}\n" for x, y in rows)
    (folder / "rows.tsv").write_text("x\ty\tlabel\n" + table)
    for label, channel in (("reds", 0), ("greens", 1), ("blues", 2)):
        (folder / "photos" / label).mkdir(parents=True)
        for number in range(40):
            pixels = [chance.randrange(120) + (100 if place % 3 == channel else 0) for place in range(40 * 40 * 3)]
            (folder / "photos" / label / f"{number}.png").write_bytes(png(40, 40, bytes(pixels)))


def png(width: int, height: int, pixels: bytes) -> bytes:
    """An image of three bytes a pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    head = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes((8, 2, 0, 0, 0))
    rows = b"".join(b"\0" + pixels[row * width * 3 : (row + 1) * width * 3] for row in range(height))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


# -- what is typed -------------------------------------------------------------------------------------------------------------


def typed(readme: Path) -> Iterator[str]:
    """Commands and Python programs in the order in which they stand."""
    found = {int(command.place.partition(":")[2]): [] for command in commands(readme)}
    for command in commands(readme):
        found[int(command.place.partition(":")[2])].append(command.line)
    programs = {line: "\n".join(lines) for line, language, lines in blocks(readme.read_text(encoding="utf-8")) if language == "python"}
    for line in sorted({**found, **programs}):
        if line in programs:
            yield f"python - <<'END'\n{programs[line]}\nEND"
        else:
            yield from found[line]


def run(line: str, before: list[str], clone: Path, home: Path) -> Step:
    """Type a line into a shell in which the lines before it were typed that change the shell itself."""
    program = "\n".join(["set -e", *before, line])
    begun = time.perf_counter()
    process = subprocess.Popen(
        ["bash", "-c", program],
        cwd=clone,
        env=environment(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        if " serve" in line:
            serving(process)
        said = process.communicate(timeout=LONGEST)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said = process.communicate()[0] + f"\ngiven up after {LONGEST:.0f} s"
    code = 0 if " serve" in line and process.returncode in (0, 130) and "given up" not in said else process.returncode
    return Step(line, time.perf_counter() - begun, code, said)


def serving(process: subprocess.Popen[str]) -> None:
    """Wait until the server answers, look at its page, and press Ctrl-C; where it never does, it is ended as a failure."""
    deadline = time.monotonic() + 300
    while process.poll() is None:
        with contextlib.suppress(OSError):
            for page in ("health", ""):
                urllib.request.urlopen(f"http://127.0.0.1:8000/{page}", timeout=10).read()
            os.killpg(process.pid, signal.SIGINT)
            return
        if time.monotonic() > deadline:
            os.killpg(process.pid, signal.SIGKILL)
        time.sleep(0.2)


def play(folder: Path) -> list[Step]:
    """Everything, from the clone on; each step is told as it ends."""
    clone, home = folder / "weft", folder / "home"
    home.mkdir(parents=True)
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
    make_data(clone)
    steps, before = [], list[str]()
    for line in [*typed(clone / "README.md"), "python -m reliability.documents"]:
        if line in LEFT_OUT:
            continue
        steps.append(run(line, before, clone, home))
        if line.startswith("source "):
            before.append(line)
        tell(steps[-1])
    return steps


def tell(step: Step) -> None:
    first = step.line.splitlines()[0]
    print(f"{'FAILED' if step.failed else 'ok':6}  {step.seconds:7.1f} s  {first}", flush=True)
    if step.failed:
        print("\n".join(f"        {line}" for line in step.said.splitlines()[-15:]), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=15.0, help="all that it may take")
    parser.add_argument("--keep", help="folder to play in and to keep; else one that is removed")
    options = parser.parse_args()
    folder = Path(options.keep or tempfile.mkdtemp(prefix="newcomer-"))
    try:
        steps = play(folder)
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    failed, seconds = sum(step.failed for step in steps), sum(step.seconds for step in steps)
    print(f"{len(steps)} commands, {failed} failed, {seconds / 60:.1f} minutes of {options.minutes:g}")
    return int(failed > 0 or seconds > 60 * options.minutes)


if __name__ == "__main__":
    sys.exit(main())
