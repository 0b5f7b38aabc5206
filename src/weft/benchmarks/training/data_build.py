"""Text to token shards beside the tokenizers library alone, on the same documents and cores, in turns.

Run: python -m weft bench data-build [--record results/data_build.json]
The library encodes batches of documents that lie in memory, with as many threads as there are cores, and its ids are thrown away.
`weft data build` starts its processes, reads JSONL, encodes, hashes every document, and writes shards with index and sha256; all of
that is timed. The documents are the source code of this Python installation, a module each.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from weft.benchmarks.arguments import Arguments, at_least
from weft.benchmarks.record import measurements, write_record
from weft.data.io.files import locate
from weft.data.shards.builder import BuildConfig, build
from weft.data.shards.input_chunks import ReadOptions
from weft.data.shards.workers import cores
from weft.data.text.python_source import python_files
from weft.data.tokenizers import base as tokenizers
from weft.data.tokenizers.foreign import read_foreign
from weft.data.tokenizers.training import train_tokenizer

BATCH = 1000
"""Documents that the library gets at once."""


def now() -> np.ndarray:
    """Seconds that have passed, and those that processors have worked for this process and its ended children."""
    used = os.times()
    both: np.ndarray = np.array([time.perf_counter(), used.user + used.system + used.children_user + used.children_system])
    return both


def write_corpus(path: Path, megabytes: float) -> float:
    """Modules as JSONL, again from the first where there are too few; the bytes of their text."""
    files, size = python_files(packages=True), 0
    with open(path, "w") as out:
        while size < 1e6 * megabytes:
            for file in files:
                text = file.read_text(errors="replace")
                size += len(text.encode())
                out.write(json.dumps({"text": text}) + "\n")
                if size >= 1e6 * megabytes:
                    break
    return size


def library(path: str, tokenizer: bytes, method: str, wire: Any) -> None:
    """A process of its own: what the library takes for all documents."""
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    engine: Any = tokenizers.load(tokenizer).engine  # type: ignore[attr-defined]
    with open(path) as file:
        texts = [json.loads(line)["text"] for line in file]
    call = getattr(engine, method)
    begin = now()
    for first in range(0, len(texts), BATCH):
        call(texts[first : first + BATCH], add_special_tokens=False)
    wire.send(now() - begin)


def timed_library(path: Path, tokenizer: bytes, method: str) -> np.ndarray:
    spawn = multiprocessing.get_context("spawn")
    mine, other = spawn.Pipe()
    process = spawn.Process(target=library, args=(str(path), tokenizer, method, other))
    process.start()
    took: np.ndarray = mine.recv()
    process.join()
    return took


def timed_build(path: Path, tokenizer: bytes, workers: int) -> np.ndarray:
    with tempfile.TemporaryDirectory() as out:
        begin = now()
        build([str(path)], Path(out, "shards"), tokenizers.load(tokenizer), BuildConfig(), workers)
        took: np.ndarray = now() - begin
    return took


def main(arguments: list[str] | None = None) -> None:
    parser = Arguments(__doc__, "data-build")
    parser.add_argument("--megabytes", type=at_least(0.1), default=48.0 * cores(), help="text to encode; much, so the start counts little")
    parser.add_argument("--rounds", type=at_least(1), default=3, help="turns of each contender; the median counts")
    parser.add_argument("--tokenizer", default="", help="folder of a tokenizer, such as GPT-2's; without it 32,000 pieces are learned")
    parser.add_argument("--record", default="", help="write the rows to this JSON file")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "corpus.jsonl")
        size = write_corpus(path, options.megabytes)
        chosen = (
            read_foreign(locate(options.tokenizer))
            if options.tokenizer
            else train_tokenizer("byte_bpe", 32_000, [str(path)], ReadOptions())
        )
        tokenizer = tokenizers.dump(chosen)  # type: ignore[arg-type]
        contenders: dict[str, Callable[[], np.ndarray]] = {
            "tokenizers encode_batch": lambda: timed_library(path, tokenizer, "encode_batch"),
            "tokenizers encode_batch_fast": lambda: timed_library(path, tokenizer, "encode_batch_fast"),
            "weft data build": lambda: timed_build(path, tokenizer, cores()),
        }
        took: dict[str, list[np.ndarray]] = {name: [] for name in contenders}
        for _ in range(options.rounds):
            for name, run in contenders.items():
                took[name].append(run())
                wall, work = size / 1e6 / took[name][-1]
                print(f"{name:30} {wall:8.2f} MB/s   {work:8.2f} MB per second of a core", flush=True)
    rows = {name: size / 1e6 / np.median(turns, axis=0) for name, turns in took.items()}
    ratios = {name: rows["weft data build"] / rates for name, rates in rows.items() if name.startswith("tokenizers")}
    for name, (wall, work) in ratios.items():
        print(f"weft data build: {wall:.2f} x {name} ({work:.2f} x by work of the processors)")
    if options.record:
        table = [
            {"contender": name, "megabytes_per_second": float(rates[0]), "per_core_second": float(rates[1])}
            | {f"{kind}_ratio": float(ratio) for kind, ratio in zip(("wall", "work"), ratios.get(name, ()))}
            for name, rates in rows.items()
        ]
        details = {"cores": cores(), "megabytes": size / 1e6, "tokenizer": Path(options.tokenizer).name or "learned"}
        write_record(options.record, measurements(table, ("contender",)), **parser.run(options), details=details)


if __name__ == "__main__":
    main()
