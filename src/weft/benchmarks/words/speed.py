"""How fast word vectors are trained, in how much memory, and whether the number of threads changes a bit."""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from weft.benchmarks.timing import synchronise
from weft.benchmarks.words.peer import SCRIPT, Peer
from weft.core.config import override
from weft.data.base import DataLoader
from weft.models.language.word2vec import Word2VecConfig
from weft.recipes.base import Recipe
from weft.recipes.base import recipe as find_recipe
from weft.runs.assemble import build
from weft.training import execution
from weft.training.trainer import Trainer

Row = dict[str, Any]
WIDTH = 100
LENGTH, LIMIT = 4096, 64
"""Words of a passage on a GPU, and gradients of a row that count in full."""
THREADS = (1, 2, 16)
"""With which the bytes are compared."""
RECIPES = {"skip_gram": "word2vec/text", "cbow": "word2vec/cbow"}


def recipe_of(architecture: str, corpus: Path, options: Namespace, **changes: Any) -> Recipe:
    """The recipe on the text: as it is, or with a passage for an update, as a GPU wants it."""
    length = options.length or (LENGTH if options.device != "cpu" else 0)
    gpu = {"data.length": length, "objective.centres": length, "objective.row_limit": LIMIT} if length else {}
    given = {"data.path": str(corpus), "data.validation": 0.0, "train.eval_every": 0, "train.device": options.device}
    return override(find_recipe(RECIPES[architecture]), {**given, **gpu, **changes})


def trainer_of(recipe: Recipe, cache: dict[Any, Any]) -> tuple[Trainer, int]:
    """What trains a recipe, without a run's files, and how many passages its text has."""
    if recipe.data not in cache:
        cache.clear()
        cache[recipe.data] = recipe.data.build()
    data = cache[recipe.data]
    resolved = recipe.resolve(data.info)
    torch.manual_seed(resolved.train.seed)
    model, objective = build(resolved)
    plan = execution.choose(resolved.train, model, objective)
    source = DataLoader(data.train, resolved.train.seed, plan.device)
    trainer = Trainer(model, objective, source, resolved.train, resolved.optim, plan)  # type: ignore[arg-type]
    return trainer, len(data.train)


def words_of(corpus: Path) -> int:
    with corpus.open("rb") as lines:
        return sum(len(line.split()) for line in lines)


def share_of(corpus: Path, share: float) -> tuple[Path, int]:
    """Every so many lines of the text as a file, and its words."""
    every, path = max(1, round(1 / share)), corpus.with_name("share.txt")
    with corpus.open("rb") as lines, path.open("wb") as out:
        out.writelines(line for number, line in enumerate(line for line in lines if line.strip()) if number % every == 0)
    return path, words_of(path)


def speed(options: Namespace, corpus: Path, peer: Peer | None) -> Iterator[Row]:
    """Words of the text a second, rare and subsampled ones counted, of contenders that take turns on as much text."""
    part, words = share_of(corpus, options.share)
    whole = words_of(corpus)
    counts = (1, 2) if options.device == "cpu" else (0,)
    cache: dict[Any, Any] = {}
    for architecture in options.architectures:
        recipe = recipe_of(architecture, corpus, options)
        trainer, passages = trainer_of(recipe, cache)
        steps = max(1, round(passages * options.share / recipe.train.batch))
        mine = whole * steps * recipe.train.batch / passages
        taken: dict[str, list[tuple[float, float]]] = {}
        for turn in range(options.rounds + 1):
            for threads in counts:
                found = ours(trainer, steps, threads)
                taken.setdefault(f"weft {threads}", []).append((mine / found[0], mine / found[1]))
            if peer:
                given = {"corpus": str(corpus), "part": str(part), "words": words, "skip_gram": architecture == "skip_gram", "width": WIDTH}
                answer = peer.ask("time", **given)
                taken.setdefault("gensim 1", []).append((words / answer["seconds"], words / answer["cpu_seconds"]))
            if turn == 0:  # it warms up
                taken.clear()
        yield from rows_of(architecture, taken, options.device)


def ours(trainer: Trainer, steps: int, threads: int) -> tuple[float, float]:
    """Seconds of the wall and of the processor for so many steps."""
    if threads:
        torch.set_num_threads(threads)
    synchronise()
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(steps):
        trainer.run_step()
    synchronise()
    return time.perf_counter() - wall, time.process_time() - cpu


def rows_of(architecture: str, taken: dict[str, list[tuple[float, float]]], device: str) -> Iterator[Row]:
    """Medians of the turns; ratios are the medians of the turns' ratios."""
    for contender, turns in taken.items():
        name, threads = contender.split()
        row: Row = {"part": "speed", "architecture": architecture, "contender": name, "device": device, "width": WIDTH}
        row |= {"threads": int(threads)} if device == "cpu" else {}
        row["words_per_second"] = statistics.median(wall for wall, _ in turns)
        if device == "cpu":
            row["words_per_cpu_second"] = statistics.median(cpu for _, cpu in turns)
        beside = {"weft 1": ("gensim 1",), "weft 2": ("gensim 1", "weft 1")}.get(contender, ())
        for other in (one for one in beside if one in taken):
            title = other.replace(" ", "_") + "_thread"
            row[f"times_{title}"] = statistics.median(a / b for (a, _), (b, _) in zip(turns, taken[other], strict=True))
            row[f"times_{title}_by_cpu_time"] = statistics.median(a / b for (_, a), (_, b) in zip(turns, taken[other], strict=True))
        yield {**row, "turns": [[round(wall), round(cpu)] for wall, cpu in turns]}


def same_bytes(options: Namespace, corpus: Path, peer: Peer | None) -> Iterator[Row]:
    """Both tables behind some steps, by the number of threads."""
    cache: dict[Any, Any] = {}
    for architecture in options.architectures:
        digests = {}
        for threads in THREADS:
            trainer, passages = trainer_of(recipe_of(architecture, corpus, options), cache)
            ours(trainer, max(1, passages // 64 // 10), threads)
            assert isinstance(trainer.model.config, Word2VecConfig)
            tables = (p.detach().cpu().numpy().tobytes() for p in trainer.model.parameters())
            digests[threads] = hashlib.sha256(b"".join(tables)).hexdigest()
        differ = len(set(digests.values())) - 1
        yield {"part": "threads", "architecture": architecture, "contender": "weft", "width": WIDTH, "differ": differ, "sha256": digests}


def memory(options: Namespace, corpus: Path, peer: Peer | None) -> Iterator[Row]:
    """Largest memory of a process that makes vectors of one epoch of the file, and the seconds that it takes from file to file."""
    with tempfile.TemporaryDirectory() as folder:
        steps = -(-words_of(corpus) // 64_000)
        given = ["--data.path", str(corpus), "--data.validation", "0", "--train.steps", str(steps), "--train.eval-every", "0"]
        own = [sys.executable, "-m", "weft", "train", "word2vec/text", *given, "--train.log", "none", "--out", f"{folder}/run"]
        question = {
            "do": "train",
            "corpus": str(corpus),
            "skip_gram": True,
            "width": WIDTH,
            "epochs": 1,
            "until": 1,
            "out": f"{folder}/peer",
        }
        commands = {"weft": (own, "")} | ({"gensim": ([options.gensim, str(SCRIPT)], json.dumps(question))} if peer else {})
        for contender, (command, said) in commands.items():
            peak, seconds = watched(command, said)
            row = {"part": "memory", "architecture": "skip_gram", "contender": contender, "threads": 1, "width": WIDTH}
            yield {**row, "peak_bytes": peak, "whole_seconds": seconds}


def watched(command: list[str], said: str) -> tuple[int, float]:
    """The largest resident memory of a process of one thread, and its seconds."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryFile() as out:
        begin = time.perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=out, env=environment)
        assert process.stdin
        process.stdin.write(said.encode())
        process.stdin.close()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        if process.returncode:
            raise RuntimeError(f"{command[0]} ended with {process.returncode}: {out.read().decode()[-2000:]}")
    return usage.ru_maxrss * 1024, time.perf_counter() - begin
