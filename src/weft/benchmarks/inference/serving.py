"""What the server holds under load: streams that are left, a full queue, slow clients, and its pace against the engine's own.

Run: python -m weft bench serving [--only pace leaving] [--threads 1] [--record results/serving.json]
A GPT with random weights is written as a checkpoint and served by the real command, `weft serve`, in a process of its own. Clients are
another process that speaks HTTP over plain sockets (serving_clients.py). On a machine of two cores both compete with the engine, so
the model is large enough for the engine to dominate, as it does where serving is worth measuring. With --threads 1 the engine, in the
server and alone, is left one core, and clients and connections the other; without it, torch takes all of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from weft.benchmarks.arguments import Arguments, at_least
from weft.benchmarks.record import measurements, write_record
from weft.core import config
from weft.data.tokenizers import base as tokenizers
from weft.inference.engine import Engine, generate_all
from weft.inference.request import Request, Sampling
from weft.models.language.gpt import GPTConfig
from weft.recipes.base import recipe as find_recipe
from weft.runs.load import load as load_run
from weft.training.checkpoint import checkpoint

SIZES: dict[str, Any] = {"context": 512, "layers": 8, "heads": 8, "width": 512, "position_embedding": "rotary"}
PROMPT = "The weft is drawn through the warp, over one thread and under the next, "
STAYED, LEFT = 16, 400
"""Tokens of the answers that are waited for, and of those that are not."""
PACE_CLIENTS, PACE_TOKENS = 64, 64
Row = dict[str, Any]


@dataclass
class Server:
    """`weft serve` as a process."""

    child: subprocess.Popen[str]
    host: str
    port: int

    def clients(self, scenario: str, **settings: Any) -> subprocess.Popen[str]:
        words = [
            sys.executable,
            "-m",
            "weft.benchmarks.inference.serving_clients",
            self.host,
            str(self.port),
            scenario,
            json.dumps(settings),
        ]
        return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def load(self, scenario: str, **settings: Any) -> Row:
        """What the clients of a scenario tell at its end."""
        said, _ = self.clients(scenario, **settings).communicate(timeout=600)
        found: Row = json.loads(said)
        return found

    def rest(self) -> None:
        """Wait until all that was asked for is made."""
        while self.load("waiting")["requests"]:
            time.sleep(0.5)

    def memory(self) -> int:
        """Bytes of the process that are in memory."""
        lines = Path(f"/proc/{self.child.pid}/status").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("VmRSS:")).split()[1])

    def seconds(self) -> float:
        """Of the processors, that the process has used."""
        fields = Path(f"/proc/{self.child.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def serving(folder: Path, slots: int, max_queue: int) -> Iterator[Server]:
    words = [sys.executable, "-m", "weft", "serve", str(folder), "--port", "0", "--device", "cpu"]
    words += ["--slots", str(slots), "--max-queue", str(max_queue), "--grace", "0"]
    threads = {"OMP_NUM_THREADS": str(torch.get_num_threads())}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env={**os.environ, **threads}) as child:
        try:
            assert child.stdout is not None
            host, _, port = child.stdout.readline().split()[-1].removeprefix("http://").rpartition(":")
            yield Server(child, host, int(port))
        finally:
            child.send_signal(signal.SIGTERM)


def write_model(folder: Path, sizes: dict[str, Any] = SIZES) -> None:
    """A checkpoint of a GPT with random weights."""
    settings = GPTConfig(vocabulary=256, **sizes)
    torch.manual_seed(0)
    made = replace(find_recipe("gpt/bytes"), model=settings)
    content = {
        "recipe.json": checkpoint.encode(config.to_dict(made)),
        "model.safetensors": checkpoint.pack(settings.build().state_dict()),
        "metrics.json": checkpoint.encode({"step": 0}),
        "tokenizer.json": tokenizers.dump(tokenizers.ByteTokenizer()),
    }
    checkpoint.save(folder, content)


def body(tokens: int, **more: Any) -> Row:
    settings = {"stream": True, "stream_options": {"include_usage": True}} if more.pop("stream", True) else {}
    return {"prompt": PROMPT, "max_tokens": tokens, "ignore_eos": True, **settings, **more}


def percentile(values: list[float], share: float) -> float:
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))]


def leaving(folder: Path, streams: int = 500, rounds: int = 3, warm_up: int = 2) -> Row:
    """Many streams, half of which are left; rounds that count for nothing come first, for memory to grow as far as it will."""
    found, after = [], []
    with serving(folder, slots=64, max_queue=streams) as server:
        first = server.memory()
        for _ in range(warm_up + rounds):
            found.append(server.load("half_leave", clients=streams, body=body(STAYED), endless=body(LEFT)))
            time.sleep(2)
            after.append(server.memory())
    before, after = after[warm_up - 1], after[warm_up:]
    complete, of = sum(row["complete"] for row in found), sum(row["of"] for row in found)
    return {
        "streams": streams,
        "rounds": len(found),
        "completed_share_of_the_rest": complete / of,
        "seconds_until_no_slot_is_held": max(row["idle_after"] for row in found),
        "memory_at_the_start_MB": first / 1e6,
        "memory_before_MB": before / 1e6,
        "memory_after_MB": [size / 1e6 for size in after],
        "memory_growth": after[-1] / before - 1,
        "holds": complete == of and max(row["idle_after"] for row in found) < 2.0 and after[-1] / before < 1.05,
    }


def refusing(folder: Path, tries: int = 100) -> Row:
    """A full queue, while the engine is busy with all its slots."""
    with serving(folder, slots=32, max_queue=32) as server:
        found = server.load("refused", held=64, tries=tries, endless=body(LEFT))
    slowest = max(found["latencies"])
    settings = {"statuses": found["statuses"], "retry_after": found["retry_after"], "tries": tries}
    holds = found["statuses"] == [429] and all(found["retry_after"]) and slowest < 0.1
    return {**settings, "median_seconds": statistics.median(found["latencies"]), "slowest_seconds": slowest, "holds": holds}


def beside_slow(folder: Path, rounds: int = 4) -> Row:
    """Eight clients that ask for short answers, in turns alone and beside slow ones, whose own answers are made before."""
    times: dict[str, list[float]] = {"alone": [], "beside slow": []}
    asked = {"clients": 8, "requests": 12, "body": body(8, stream=False)}
    with serving(folder, slots=64, max_queue=256) as server:
        server.load("repeated", **asked)
        for _ in range(rounds):
            times["alone"] += server.load("repeated", **asked)["latencies"]
            slow = server.clients("slow", readers=50, askers=50, body=body(48, logprobs=5))
            time.sleep(3)
            server.rest()
            times["beside slow"] += server.load("repeated", **asked)["latencies"]
            slow.communicate(timeout=30)
            time.sleep(1)
    p95 = {name: percentile(found, 0.95) for name, found in times.items()}
    ratio = p95["beside slow"] / p95["alone"]
    return {"p95_seconds": p95, "requests_each": len(times["alone"]), "ratio": ratio, "holds": ratio <= 1.2}


def offline(folder: Path, requests: int, tokens: int) -> Callable[[], float]:
    """Tokens a second of the engine alone, with the same requests all known from the beginning."""
    loaded = load_run(folder, "cpu")
    engine = Engine(loaded.model, loaded.tokenizer, slots=PACE_CLIENTS)
    texts = [loaded.tokenizer.encode(f"{seed:05d} {PROMPT}").tolist() for seed in range(requests)]
    settings = [Sampling(max_new_tokens=tokens, ignore_end=True, seed=seed) for seed in range(requests)]
    asked = [Request(tuple(ids), sampling) for ids, sampling in zip(texts, settings, strict=True)]

    def measure() -> float:
        begin = time.perf_counter()
        made = sum(len(answer.tokens) for answer in generate_all(engine, asked))
        return made / (time.perf_counter() - begin)

    return measure


def pace(folder: Path, turns: int = 2, rounds: int = 3) -> Row:
    """Clients that each ask again as soon as they are answered, streamed and whole, in turns with the engine alone."""
    alone = offline(folder, PACE_CLIENTS * turns, PACE_TOKENS)
    rates: dict[str, list[float]] = {"offline": [], "streamed": [], "whole": []}
    used: dict[str, float] = {"streamed": 0.0, "whole": 0.0}
    with serving(folder, slots=PACE_CLIENTS, max_queue=PACE_CLIENTS) as server:
        for number in range(rounds + 1):
            found = {"offline": alone()}
            for name in used:
                before = server.seconds()
                settings = server.load("repeated", clients=PACE_CLIENTS, requests=turns, body=body(PACE_TOKENS, stream=name == "streamed"))
                found[name] = settings["tokens"] / settings["seconds"]
                used[name] = (server.seconds() - before) / max(1, settings["tokens"])
            for name, rate in found.items() if number else ():  # the first time counts for nothing
                rates[name].append(rate)
    best = {name: max(values) for name, values in rates.items()}
    ratios = {name: best[name] / best["offline"] for name in used}
    about = {"clients": PACE_CLIENTS, "tokens_each": turns * PACE_TOKENS, "rounds": rounds}
    facts = {"tokens_per_second": rates, "ratio_of_the_best": ratios, "processor_seconds_a_token": used}
    return {**about, **facts, "holds": min(ratios.values()) >= 0.7}


BARS: dict[str, Callable[[Path], Row]] = {"leaving": leaving, "refusing": refusing, "slow": beside_slow, "pace": pace}


def main(arguments: list[str] | None = None) -> None:
    parser = Arguments(__doc__, "serving")
    parser.add_names("--only", BARS, nargs="+", default=list(BARS))
    parser.add_argument("--threads", type=at_least(0), default=0, help="of the engine; 0 for as many as torch takes by itself")
    parser.add_argument("--record", default="", help="JSON file to write")
    options = parser.parse_args(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    rows: dict[str, Row] = {}
    with tempfile.TemporaryDirectory(prefix="weft-") as place:
        folder = Path(place) / "gpt"
        write_model(folder)
        for name in options.only:
            rows[name] = BARS[name](folder)
            print(json.dumps({name: rows[name]}), flush=True)
    if options.record:
        about = {"model": {"parameters": sum(p.numel() for p in GPTConfig(vocabulary=256, **SIZES).build().parameters()), **SIZES}}
        how = (__doc__ or "").partition("\n")[2].strip()
        own = {**parser.run(options), "command": f"weft bench serving --only {' '.join(options.only)} --threads {torch.get_num_threads()}"}
        found = measurements([{"bar": name, **row} for name, row in rows.items()], ("bar",))
        write_record(options.record, found, **own, details={"how": how, **about})


if __name__ == "__main__":
    main()
