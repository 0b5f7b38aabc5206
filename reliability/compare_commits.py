"""Whether a rebuilding changed no behaviour: the same weights, validation and samples of every recipe at two commits.

    python reliability/compare_commits.py OLD [NEW]        NEW is the working tree where it is left out

Each recipe is trained for a few steps on the CPU: with its own settings where it brings its data, and as small as its contract makes
it (tests/contracts/tiny.py of OLD, which also makes the files) in any case. Compared are the bytes of every weight, the state of the
optimisers, what validation reports and, of the small ones, what every way of `weft sample` gives. Names of weights may differ.

Both sides are checked out below --keep and have their results there, a line for each recipe: the same command goes on where it
stopped, and OLD is ready for another NEW. A commit compared with itself is run again in the opposite order, which shows what is not
stable.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

Case = dict[str, Any]
HERE = Path(__file__).resolve().parent
VERSION = 1
"""Of what fingerprint.py gives: results that another version has left are not looked at."""
CODE = ("src", "projects")
"""Folders of a commit that hold code of weft and are put on the path."""
SMALL = " (small)"
"""Ends the names of cases in which the recipe is made small; these are also sampled from."""
CHUNK, PATIENCE = 10, 900
"""Cases that one process runs, and the seconds it may take."""
DIED = "the process died"
"""Begins an error that need not be the commit's fault, so that it is tried again."""
SMALL_BATCH = {"gpt/bytes": 1, **dict.fromkeys(("gpt", "llama", "perceiver", "birthplace", "t5", "transformer", "nat"), 4)}
"""Batches of recipes and families whose own would take a minute."""
CASES = """
import json, sys
from pathlib import Path
from tests.contracts.tiny import SHRINK
import weft
folder, wanted, batch = Path(sys.argv[1]), json.loads(sys.argv[2]), json.loads(sys.argv[3])
found = []
for name, shrink in SHRINK.items():
    own = folder / name.replace("/", "-")
    own.mkdir(parents=True, exist_ok=True)
    small = shrink(own)
    try:
        weft.recipe(name).data.build()
        found.append((name, name, {**wanted, **{"train.batch": batch[key] for key in (name.split("/")[0], name) if key in batch}}))
    except Exception as error:
        print(f"{name}: only small ({error})", file=sys.stderr)
    found.append((f"{name} (small)", name, {"train.batch": 8, **small, **wanted}))
print(json.dumps([(title, name, repr(changes)) for title, name, changes in sorted(found, key=lambda case: case[0] != case[1])]))
"""


def git(*words: str, **settings: Any) -> str:
    printed: str = subprocess.run(["git", *words], cwd=HERE.parent, check=True, capture_output=True, text=True, **settings).stdout
    return printed.strip()


def tree(commit: str | None, keep: Path) -> str:
    """The tree of a commit, or of all that git does not ignore in the working tree."""
    if commit:
        return git("rev-parse", f"{commit}^{{tree}}")
    environment = {**os.environ, "GIT_INDEX_FILE": str(keep / "index")}
    git("read-tree", "HEAD", env=environment)
    git("add", "--all", ":/", env=environment)
    return git("write-tree", env=environment)


def key(found: str) -> str:
    """Of the code in a tree: commits that differ in documents or tests alone have the same."""
    rows = git("ls-tree", found, *(f"{name}" for name in CODE)).splitlines()
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()[:12]


def machine() -> str:
    """What bits may depend on besides the code."""
    about = Path("/proc/cpuinfo")
    flags = next((line for line in about.read_text().splitlines() if line.startswith("flags")), "") if about.is_file() else ""
    return f"{version('torch')} {flags}"


def environment(checkout: Path, threads: int) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("WEFT_DATA", "PYTHONDONTWRITEBYTECODE")}
    paths = [*(str(checkout / name) for name in CODE if (checkout / name).is_dir()), str(checkout)]
    compiled = str(checkout.parent.parent / "compiled")
    numbers = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    return {**kept, **numbers, "PYTHONPATH": os.pathsep.join(paths), "PYTHONPYCACHEPREFIX": compiled}


class Side:
    """One of the two commits: its checkout and what is known of it."""

    def __init__(self, commit: str | None, options: argparse.Namespace, again: bool = False):
        self.options, self.again, found = options, again, tree(commit, options.keep)
        self.title = f"{commit or 'working tree'}{' again' if again else ''}"
        self.key = key(found)
        self.checkout = options.keep / "trees" / self.key
        if not self.checkout.exists():
            half = self.checkout.with_name(f"{self.key}.half")
            half.mkdir(parents=True, exist_ok=True)
            archive = subprocess.run(["git", "archive", found], cwd=HERE.parent, check=True, capture_output=True).stdout
            subprocess.run(["tar", "-x", "-C", str(half)], input=archive, check=True)
            half.rename(self.checkout)
        how = f"{VERSION} {options.steps} {options.threads} {machine()} {sorted(options.renamed.items())}"
        self.results = options.keep / f"{self.key}-{hashlib.sha256(how.encode()).hexdigest()[:8]}{'-again' if again else ''}.jsonl"

    def known(self) -> dict[str, dict[str, Any]]:
        lines = self.results.read_text().splitlines() if self.results.exists() else []
        return {line["case"]: line for line in map(json.loads, lines)}

    def cases(self) -> list[Case]:
        """Recipes and their settings, with the files they need; made once for a commit."""
        path = self.options.keep / f"{self.key}-steps{self.options.steps}.cases.json"
        if not path.exists():
            steps = self.options.steps
            wanted = {"steps": steps, "device": "cpu", "compile": "off", "log_every": steps, "eval_every": steps, "save_every": 0}
            settings = {f"train.{name}": value for name, value in {**wanted, "eval_examples": 16}.items()}
            files = self.options.keep / "files" / self.key
            words = [sys.executable, "-c", CASES, str(files), json.dumps(settings), json.dumps(SMALL_BATCH)]
            with open(path.with_suffix(".log"), "w") as said:
                surroundings = environment(self.checkout, 1)
                printed = subprocess.run(
                    words, env=surroundings, cwd=self.checkout, check=True, stdout=subprocess.PIPE, stderr=said, text=True
                ).stdout
            path.write_text(printed)
        rows = json.loads(path.read_text())
        made = [{"id": title, "recipe": name, "changes": changes, "samples": title.endswith(SMALL)} for title, name, changes in rows]
        return [{**case, "case": hashlib.sha256(json.dumps(case).encode()).hexdigest()[:16]} for case in made]

    def run(self, cases: list[Case], renamed: dict[str, str]) -> None:
        """Everything that is not known yet, in some processes at a time."""
        known = self.known()
        wanted = [case for case in cases if str(known.get(case["case"], {"error": DIED}).get("error", "")).startswith(DIED)]
        wanted = wanted[::-1] if self.again else wanted
        chunks: queue.SimpleQueue[list[Case]] = queue.SimpleQueue()
        for start in range(0, len(wanted), CHUNK):
            chunks.put(wanted[start : start + CHUNK])
        workers = [threading.Thread(target=self.work, args=(chunks, renamed, number)) for number in range(self.options.jobs)]
        began = time.time()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        print(f"{self.title}: {len(wanted)} of {len(cases)} cases run in {time.time() - began:.0f} s, the others were known", flush=True)

    def work(self, chunks: queue.SimpleQueue[list[Case]], renamed: dict[str, str], number: int) -> None:
        room = self.options.keep / f"room-{os.getpid()}-{self.results.stem}-{number}"
        room.mkdir()
        while True:
            try:
                left = chunks.get_nowait()
            except queue.Empty:
                break
            while left:
                left = self.chunk(left, renamed, room)
            print(f"{self.title}: {len(self.known())} cases known", flush=True)
        subprocess.run(["rm", "-r", str(room)], check=True)

    def chunk(self, cases: list[Case], renamed: dict[str, str], room: Path) -> list[Case]:
        """Run some cases in one process; what is left to do where it died, of which the first is then known to be deadly."""
        job = room / "job.json"
        told = {"cases": cases, "renamed": renamed, "room": str(room), "tree": str(self.checkout), "results": str(self.results)}
        job.write_text(json.dumps(told))
        words = [sys.executable, str(HERE / "fingerprint.py"), str(job)]
        try:
            done = subprocess.run(
                words, env=environment(self.checkout, self.options.threads), cwd=room, capture_output=True, text=True, timeout=PATIENCE
            )
            said = f"{DIED}: code {done.returncode}: {done.stderr[-400:]}"
        except subprocess.TimeoutExpired:
            said = f"{DIED}: it took more than {PATIENCE} s"
        known = self.known()
        left = [case for case in cases if case["case"] not in known]
        if left:
            with open(self.results, "a") as file:
                file.write(json.dumps({"id": left[0]["id"], "case": left[0]["case"], "error": said, "seconds": 0}) + "\n")
        return left[1:]


def differences(old: dict[str, Any], new: dict[str, Any]) -> tuple[list[str], list[str]]:
    """What differs between two fingerprints, and what is only worth a note."""
    if "error" in old or "error" in new:
        same = old.get("error") == new.get("error")
        return ([], [f"fails alike: {old['error']}"]) if same else ([f"{old.get('error', 'trained')} | {new.get('error', 'trained')}"], [])
    wrong, notes = weights(old["weights"], new["weights"])
    wrong += ["state of the optimisers"] if old["training"] != new["training"] else []
    if old["validation"] != new["validation"]:
        wrong.append(f"validation: {json.dumps(old['validation'])} | {json.dumps(new['validation'])}")
    wrong += ["drawn tensor"] if old.get("drawn") != new.get("drawn") else []
    for title in dict.fromkeys([*old.get("outputs", {}), *new.get("outputs", {})]):
        mine, other = (side.get("outputs", {}).get(title, {}) for side in (old, new))
        if mine.get("code") and (other.get("code") != mine["code"]):
            notes.append(f"sample, {title}: was refused, and is {'not' if other.get('code') == 0 else 'otherwise'}")
        elif mine.get("sha256") != other.get("sha256"):
            told = [side.get("begin") or side.get("message") or f"code {side.get('code')}" for side in (mine, other)]
            wrong.append(f"sample, {title}: {told[0]!r} | {told[1]!r}")
    return wrong, notes


def weights(old: list[list[str]], new: list[list[str]]) -> tuple[list[str], list[str]]:
    """Weights of which there is no equal, whatever they are called, and those that are called or ordered differently."""
    mine, other = (sorted(side, key=lambda row: (*row[1:], row[0])) for side in (old, new))
    if [row[1:] for row in mine] != [row[1:] for row in other]:
        wrong = []
        for title, rows, against in (("missing or changed", old, new), ("new or changed", new, old)):
            equals = [row[1:] for row in against]
            lost = [f"{name} ({kind})" for name, kind, sha in rows if [kind, sha] not in equals]
            wrong += [f"{len(lost)} of {len(rows)} weights are {title}: {', '.join(lost[:2])}"] if lost else []
        return wrong or ["a weight occurs more or less often"], []
    gone, come = ([row[0] for row in side if row not in against] for side, against in ((mine, new), (other, old)))
    names = [f"{before} -> {after}" for before, after in zip(gone, come, strict=True)]
    notes = [f"{len(names)} weights are called differently: {', '.join(names[:3])}"] if names else []
    return [], notes or (["the weights are in another order"] if old != new else [])


def compare(old: Side, new: Side, cases: list[Case]) -> int:
    """Print what differs; the exit code."""
    before, after = old.known(), new.known()
    counts = {"recipes": 0, "different": 0, "fail alike": 0, "weights": 0, "samples": 0, "refused": 0}
    for case in cases:
        mine, other = before[case["case"]], after[case["case"]]
        wrong, notes = differences(mine, other)
        counts["recipes"] += 1
        counts["different"] += bool(wrong)
        counts["fail alike"] += "error" in mine and not wrong
        counts["weights"] += len(mine.get("weights", []))
        codes = [output["code"] for output in mine.get("outputs", {}).values()]
        counts["samples"] += codes.count(0) + bool(mine.get("drawn"))
        counts["refused"] += len(codes) - codes.count(0)
        for line in wrong:
            print(f"DIFFERENT {case['id']}: {line}")
        for line in notes:
            print(f"note      {case['id']}: {line}")
    seconds = [sum(known[case["case"]]["seconds"] for case in cases) for known in (before, after)]
    print(
        f"{old.title} | {new.title}: {counts['recipes']} cases, {counts['different']} different, {counts['fail alike']} fail alike; "
        f"{counts['weights']} weights, {counts['samples']} samples and {counts['refused']} refusals compared; "
        f"CPU seconds: {seconds[0]:.0f} | {seconds[1]:.0f}"
    )
    return 1 if counts["different"] or not cases else 0


def pair(text: str) -> tuple[str, str]:
    old, _, new = text.partition(":")
    if not (old and new):
        raise argparse.ArgumentTypeError(f"{text!r} is not OLD:NEW, as in gpt/text:gpt/plain or train.log_every:log.every")
    return old, new


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("old", help="a commit")
    parser.add_argument("new", nargs="?", help="another; the working tree where it is left out")
    parser.add_argument("--recipes", default="*", help="pattern of names, as 'gpt/*'; with ' (small)' behind it those made small")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1, help="of each process")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--keep", type=Path, default=Path("/tmp/same"), help="folder of checkouts and results")
    about = "a recipe, setting or --flag that NEW calls differently"
    parser.add_argument("--renamed", type=pair, action="append", default=[], metavar="OLD:NEW", help=about)
    options = parser.parse_args()
    options.keep = options.keep.resolve()
    options.keep.mkdir(parents=True, exist_ok=True)
    options.renamed = dict(options.renamed)
    own = argparse.Namespace(**{**vars(options), "renamed": {}})
    old = Side(options.old, own)
    new = Side(options.new, options)
    if new.key == old.key:
        new = Side(options.new, options, again=True)
    patterns = [options.recipes, options.recipes + SMALL]
    cases = [case for case in old.cases() if any(fnmatch.fnmatchcase(case["id"], pattern) for pattern in patterns)]
    old.run(cases, {})
    new.run(cases, options.renamed)
    return compare(old, new, cases)


if __name__ == "__main__":
    sys.exit(main())
