"""What a recipe makes of its weights, its validation and its samples, as sha256, by nothing but what weft offers its users.

`python fingerprint.py JOB` runs inside one checkout, for compare_commits.py: JOB is a JSON file of cases, and a line of JSON is
appended to its "results" for each of them.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import inspect
import io
import json
import os
import random
import runpy
import shutil
import struct
import sys
import tempfile
import time
import traceback
import zlib
from pathlib import Path
from typing import Any

PNG = "an image"
PROMPTS = ("the cat", "12", "abba", "import", "a")
TEXTS: dict[str, list[str]] = {
    "greedy": ["--temperature", "0", "--max-new-tokens", "40"],
    "drawn": ["--seed", "7", "--max-new-tokens", "40"],
    "drawn among few": ["--seed", "8", "--top-k", "12", "--top-p", "0.9", "--min-p", "0.01", "--max-new-tokens", "40", "--n", "3"],
    "repetitions penalised": ["--temperature", "0.5", "--repetition-penalty", "1.3", "--max-new-tokens", "40"],
    "beams": ["--temperature", "0.8", "--beams", "4", "--n", "2", "--max-new-tokens", "16"],
    "length penalty": ["--beams", "3", "--length-penalty", "1.2", "--max-new-tokens", "16"],
    "stopped": ["--seed", "9", "--stop", "e", "--max-new-tokens", "40"],
    "bf16 weights": ["--temperature", "0", "--weights", "bf16", "--max-new-tokens", "24"],
    "int8 weights": ["--temperature", "0", "--weights", "int8", "--max-new-tokens", "24"],
    "drafted": ["--seed", "7", "--draft", "run", "--max-new-tokens", "40"],
    "one beam": ["--beams", "1"],
    "six beams": ["--beams", "6", "--n", "4"],
    "coverage penalty": ["--beams", "3", "--coverage-penalty", "0.4"],
    "one pass": ["--iterations", "1"],
    "longer": ["--length-factor", "1.5", "--n", "2"],
}
FEW = ["--seed", "3", "--n", "9"]
SHEETS: dict[str, list[str]] = {
    "another seed": ["--seed", "4", "--n", "9"],
    "of a class": ["--label", "1", "--n", "9"],
    "between": ["--walk", "between", "--n", "16"],
    "along": ["--walk", "along", "--n", "16"],
    "completed": ["--complete", "image.png", "--n", "3"],
}
TOLD: dict[str, list[str]] = {
    "of two texts": ["the cat likes rain.", "a dog sees rain."],
    "of a choice": ["my friend 3", "likes the moon", "hates a tree", "likes rain"],
    "of a question": ["what is near the cat ?", "a moon near the cat . a tree near the dog ."],
    "of an image": ["image.png"],
    "of numbers": ["0.5 -0.25"],
    "of two numbers": ["0.5", "-0.25"],
}


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def tensors(path: Path) -> list[tuple[str, str, str]]:
    """Name, kind with shape, and sha256 of each tensor of a safetensors file, in the order of the file."""
    content = path.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    header = {name: told for name, told in json.loads(content[8 : 8 + size]).items() if name != "__metadata__"}
    body = memoryview(content)[8 + size :]
    return [
        (name, f"{told['dtype']} {told['shape']}", digest(bytes(body[slice(*told["data_offsets"])])))
        for name, told in sorted(header.items(), key=lambda entry: entry[1]["data_offsets"])
    ]


def write_image(path: Path) -> None:
    """A PNG file of 28 by 28 grey pixels with a bright band."""
    chance, side = random.Random(0), 28
    rows = b"".join(b"\0" + bytes(min(255, chance.randrange(60) + 180 * (9 < y < 18)) for _ in range(side)) for y in range(side))
    parts = (b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")
    chunks = (struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))


class Sampler:
    """`weft sample` of the run in the working folder, within this process."""

    def __init__(self, renamed: dict[str, str]):
        self.renamed = renamed
        self.outputs: dict[str, dict[str, Any]] = {}
        write_image(Path("image.png"))
        Path("text.txt").write_text("the cat sees rain .\ntwelve\nabba\n")

    def command(self, title: str, words: list[str], out: str = "") -> bool:
        """Run one command and keep what it gives: the content of --out, or what it prints; whether it was not refused."""
        shutil.rmtree("out", ignore_errors=True)
        Path("out").mkdir()
        asked = [*words, "--device", "cpu", *(["--out", f"out/{out}"] if out else [])]
        code, printed, said = called(["weft", "sample", "run", *(self.renamed.get(word, word) for word in asked)])
        written = sorted(path for path in Path("out").rglob("*") if path.is_file())
        content = b"".join(path.read_bytes() for path in written) if written else printed.encode()
        told: dict[str, Any] = {"code": code}
        begin = PNG if content.startswith(b"\x89PNG") else content[:400].decode(errors="replace")
        told |= {"sha256": digest(content), "begin": begin} if code == 0 else {"message": said[-400:]}
        self.outputs[title] = told
        return code == 0

    def all(self) -> dict[str, dict[str, Any]]:
        """Every way of sampling that the model may offer; what it refuses is kept as refused."""
        if self.command("sheet", FEW, "sheet.png") and self.outputs["sheet"]["begin"] == PNG:
            for title, words in SHEETS.items():
                self.command(title, words, "sheet.png")
            return self.outputs
        if self.command("points", FEW, "points.svg") and self.outputs["points"]["begin"].startswith("<"):
            return self.outputs
        answers = self.command("answers to a file", ["--input", "text.txt"], "answers.txt")
        if not answers and self.command("restyled there", ["--input", "image.png", "--way", "there"], "images"):
            self.command("restyled back", ["--input", "image.png", "--way", "back"], "images")
            return self.outputs
        for title, words in TOLD.items():
            self.command(title, words)
        for prompt in PROMPTS:
            if self.command(f"prompt {prompt!r}", [prompt]):
                for title, words in TEXTS.items():
                    self.command(title, [prompt, *words])
                break
        self.command("no prompt", ["--seed", "5"])
        return self.outputs


def called(words: list[str]) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of `python -m weft …`, without another process."""
    printed, said, before = io.StringIO(), io.StringIO(), sys.argv
    code: Any = 0
    sys.argv = words
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(said):
            runpy.run_module("weft", run_name="__main__", alter_sys=False)
    except SystemExit as ended:
        code = ended.code
    except Exception:
        code, _ = 1, said.write(traceback.format_exc())
    finally:
        sys.argv = before
    return int(code or 0), printed.getvalue(), said.getvalue()


def drawn() -> str:
    """Every bit of what `weft.load(run)` draws; empty where it draws nothing."""
    import weft

    try:
        return digest(weft.load("run", device="cpu").sample(8, seed=5).contiguous().numpy().tobytes())
    except Exception:  # whatever its way to say that it draws no examples
        return ""


def fingerprint(case: dict[str, Any], renamed: dict[str, str]) -> dict[str, Any]:
    """Train one recipe in the working folder and look at what comes of it."""
    import weft

    changes = {renamed.get(name, name): value for name, value in ast.literal_eval(case["changes"]).items()}
    with contextlib.redirect_stderr(io.StringIO()):
        quiet = {"progress": False} if "progress" in inspect.signature(weft.train).parameters else {}  # older commits show none
        weft.train(weft.recipe(renamed.get(case["recipe"], case["recipe"]), changes), out="run", **quiet)
    last = max(Path("run/checkpoints").iterdir(), key=lambda path: path.name)
    training = sorted((kind, sha) for _, kind, sha in tensors(last / "training.safetensors"))
    found = {
        "step": int(last.name),
        "weights": tensors(last / "model.safetensors"),
        "training": digest(json.dumps(training).encode()),
        "validation": json.loads((last / "metrics.json").read_text()),
    }
    return {**found, "outputs": Sampler(renamed).all(), "drawn": drawn()} if case["samples"] else found


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text())
    import weft

    if not Path(weft.__file__).resolve().is_relative_to(Path(job["tree"]).resolve()):
        raise SystemExit(f"weft was imported from {weft.__file__}, not from {job['tree']}")
    for case in job["cases"]:
        began, folder = time.process_time(), tempfile.mkdtemp(dir=job["room"])
        os.chdir(folder)
        try:
            found = fingerprint(case, job["renamed"])
        except Exception as error:
            found = {"error": f"{type(error).__name__}: {error}"[:600]}
        line = {"id": case["id"], "case": case["case"], **found, "seconds": round(time.process_time() - began, 2)}
        with open(job["results"], "a") as file:
            file.write(json.dumps(line) + "\n")
        os.chdir(job["room"])
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
