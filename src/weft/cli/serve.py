"""`weft serve [CKPT…]`: an OpenAI-compatible server; without a checkpoint it serves the quickstart's model, trained first if need be."""

from __future__ import annotations

import logging
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from weft.cli import console
from weft.cli.options import flags
from weft.core.config import Config
from weft.core.errors import ConfigError, require

ABOUT = """Serves models of text in OpenAI's form: completions, chat, embeddings, and what belongs to them (/v1/models, /tokenize,
/detokenize, /tokenizer_info, /health, /metrics), models that draw images (/v1/images/generations) and those that tell
classes, numbers, tags or answers (/v1/predictions), with a page to try them.
CKPT is a run (its best checkpoint), RUN@last or RUN@1000; without one the model of `weft quickstart` is served, and trained first where
it is not there. SIGTERM ends what runs, then the server."""
log = logging.getLogger("weft")
LOCAL = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, kw_only=True)
class Options(Config):
    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 for all of this machine's."""
    port: int = 8000
    """Port to listen on; 0 for any that is free."""
    api_key: str = ""
    """Key that clients must send; may be given several times. WEFT_API_KEY in the environment is one more."""
    allowed_hosts: str = ""
    """Name by which clients may call the server (example.org), beside --host, loopback names and addresses, and whose pages may use it; may
    be given several times. It keeps away sites that somebody looks at in a browser, so with an --api-key any name will do. *: any."""
    max_connections: int = 2048
    """Open connections. Beyond them the one that has waited longest for its request is dropped; fewer where fewer files may be open."""
    name: str = ""
    """What clients call a model, once for each CKPT; empty for the name of its folder."""
    slots: int = 32
    """Answers that a model makes at the same time."""
    batch_invariant: Literal["auto", "on", "off"] = "auto"
    """Batch invariance: an answer is the same to the last bit beside any others, in every precision. auto: where it costs at most 15 %."""
    precision: Literal["fp32", "bf16", "int8"] = "fp32"
    """Of the weights: bf16 takes half the memory, int8 (quantized, on a CPU) a quarter; answers come sooner and change a little."""
    max_queue: int = 256
    """Requests that may wait for a slot; beyond it clients are told to come back (429)."""
    max_body_bytes: int = 4 << 20
    """Largest request, in bytes."""
    max_tokens: int = 4096
    """Longest answer, in tokens."""
    timeout: float = 600.0
    """Seconds after which a request is given up."""
    grace: float = 30.0
    """Seconds that running answers have to end after SIGTERM."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:1."""


def main(words: list[str]) -> int:
    console.show_log()
    words, keys = taken("--api-key", words)
    words, hosts = taken("--allowed-hosts", words)
    hosts = [name for given in hosts for name in given.split(",") if name]
    words, names = taken("--name", words)
    options, checkpoints = flags.parse(Options(), words, "weft serve", "[CKPT…]", ABOUT)
    check(options)
    for package in ("fastapi", "uvicorn", "jinja2"):
        require(package, "serve")
    from weft.inference.invariance import choose
    from weft.inference.quantize import quantize_model
    from weft.runs.load import load  # what needs a model is imported when there is one, so that --help is quick
    from weft.serving import process, service

    name_all(checkpoints or [""], names)  # before anything takes time
    with process.bind(options.host, options.port) as listening:
        if not checkpoints:
            checkpoints, names = [trained_quickstart(options.device)], names or ["quickstart"]
        models, costs = {}, list[str]()
        for name, path in zip(name_all(checkpoints, names), checkpoints, strict=True):
            loaded = load(path, options.device)
            quantize_model(loaded.model, options.precision)
            batch_invariant = None if options.batch_invariant == "auto" else options.batch_invariant == "on"
            models[name] = service.serve_model(
                name, loaded, slots=options.slots, max_queue=options.max_queue, batch_invariant=batch_invariant
            )
            if batch_invariant is None and models[name].continues and (line := choose(loaded.model, options.slots).line):
                costs.append(f"{name}: {line}")
        limits = service.Limits(options.max_body_bytes, options.max_tokens, timeout=options.timeout, connections=options.max_connections)
        keys += [key for key in [os.environ.get("WEFT_API_KEY", "")] if key]
        if not keys and options.host not in LOCAL:
            log.warning("%s can be reached from other machines, and no --api-key is set: anybody there can use it", options.host)
        route = next(iter(models.values())).offers[0]
        said = "\n".join([opening(process.address(listening), list(models), route), *costs])
        named = () if keys and not hosts else (options.host, *hosts)
        served = service.Service(models, limits, tuple(keys), named)
        received = process.serve(served, listening, grace=options.grace, ready=lambda: print(said, flush=True))
    print("stopped", flush=True)
    return 128 + received if received == signal.SIGINT else 0


def taken(flag: str, words: list[str]) -> tuple[list[str], list[str]]:
    """The words without a flag that may be given several times, and its values."""
    rest: list[str] = []
    found: list[str] = []
    remaining = iter(words)
    for word in remaining:
        name, equals, value = word.partition("=")
        if name.replace("_", "-") != flag:
            rest.append(word)
        elif value := value if equals else next(remaining, ""):
            found.append(value)
        else:
            raise ConfigError(f"{flag}: a value is missing")
    return rest, found


def check(options: Options) -> None:
    for name, least in (("slots", 1), ("max_queue", 0), ("max_body_bytes", 1), ("max_tokens", 1), ("max_connections", 4), ("grace", 0)):
        if not getattr(options, name) >= least:
            raise ConfigError(f"--{name.replace('_', '-')} must be at least {least}, not {getattr(options, name)}")
    if not options.timeout > 0:
        raise ConfigError(f"--timeout must be above 0, not {options.timeout}")


def name_all(checkpoints: list[str], names: list[str]) -> list[str]:
    """A name for each checkpoint, no two alike."""
    if names and len(names) != len(checkpoints):
        raise ConfigError(f"--name: {len(names)} names for {len(checkpoints)} checkpoints; give one for each, or none")
    found = names or [Path(path).name or path for path in checkpoints]
    if twice := next((name for name in found if found.count(name) > 1), None):
        raise ConfigError(f"two models would be called {twice!r}; give each one a --name")
    return found


def trained_quickstart(device: str) -> str:
    """The quickstart's model that had read before it learned to answer, trained as far as it is not."""
    from weft.projects.birthplace import quickstart
    from weft.report.progress import Progress

    options = quickstart.Options(device=device)
    print(f"no checkpoint was named: the quickstart's model, in {options.out}", flush=True)
    stages = quickstart.train_stages(
        quickstart.READER, quickstart.people_of(options), options, lambda line: print(line, flush=True), lambda: [Progress()]
    )
    return f"{stages[-1]}@last"


def opening(where: str, names: list[str], route: str) -> str:
    """What is served where, and a command to try it."""
    field = {"completions": '"prompt": "…"', "embeddings": '"input": "…"', "images": '"n": 1', "predictions": '"rows": ["…"]'}[route]
    body = f'{{"model": "{names[0]}", {field}}}'
    command = f"curl {where}/v1/{'images/generations' if route == 'images' else route} -H 'Content-Type: application/json' -d '{body}'"
    return f"serving {', '.join(names)} at {where}\n  {command}\nCtrl-C ends it"
