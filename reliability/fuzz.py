"""Requests that a machine makes up from the server's own schema, right ones and wrong ones: none is answered with a server error.

Schemathesis (a command, in this environment or named with --schemathesis) asks every operation of a real server with small models: one
that continues texts, one that makes answers at once, one that draws images. Without it the campaign is skipped. Operations that take no
input, such as /health, have one question only. The schema is narrowed to the models that are served, so that right questions are
answered and not refused for a name or a token that there is not.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from campaign import Campaign, arguments, workplace

from weft.benchmarks.inference.serving import write_model
from weft.core import config
from weft.data.text.pairs import Seq2SeqTokenizer
from weft.data.tokenizers import base as tokenizers
from weft.data.tokenizers.base import ByteTokenizer, ClassNames, Tokenizer
from weft.models.base import ModelConfig
from weft.models.generative.conditional_vae import ConditionalVAEConfig
from weft.models.language.nonautoregressive import NonAutoregressiveConfig
from weft.recipes.base import recipe as find_recipe
from weft.training.checkpoint import checkpoint

SMALL = {"context": 64, "layers": 2, "heads": 2, "width": 32}
WHOLE = NonAutoregressiveConfig(vocabulary=259, context=64, layers=1, heads=2, width=32)
PICTURES = ConditionalVAEConfig(features=64, image=(1, 8, 8), classes=3, latent=4, hidden=(16,))
MODELS = {"ImageRequest": ["pictures"], "CompletionRequest": ["", "model", "whole"], "AttentionRequest": ["", "model", "whole"]}
LONGEST = 32
MODES = ("positive", "negative")


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The address of a server with a small model."""
    write_model(folder / "model", SMALL)
    write_other(folder / "whole", "nat/numbers", WHOLE, Seq2SeqTokenizer(ByteTokenizer()))
    write_other(folder / "pictures", "vae/conditional_digits", PICTURES, ClassNames(["cat", "dog", "7"]))
    paths = [str(folder / name) for name in ("model", "whole", "pictures")]
    words = [sys.executable, "-m", "weft", "serve", *paths, "--port", "0", "--device", "cpu", "--max-tokens", str(LONGEST)]
    with open(folder / "said.txt", "w") as said:
        child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=said, text=True)
        try:
            assert child.stdout is not None
            yield child.stdout.readline().split()[-1], child
        finally:
            child.send_signal(signal.SIGTERM)
            child.wait(60)


def write_other(folder: Path, recipe: str, settings: ModelConfig, tokenizer: Tokenizer) -> None:
    """A checkpoint of a model with random weights."""
    content = {
        "recipe.json": checkpoint.encode(config.to_dict(replace(find_recipe(recipe), model=settings))),
        "model.safetensors": checkpoint.pack(settings.build().state_dict()),
        "metrics.json": checkpoint.encode({"step": 0}),
        "tokenizer.json": tokenizers.dump(tokenizer),
    }
    checkpoint.save(folder, content)


def fetched(address: str) -> Any:
    with urllib.request.urlopen(address, timeout=10) as reply:
        return json.load(reply)


def narrowed(schema: Any) -> Any:
    """A schema that names the model, its tokens, and how long its answers may be."""
    if isinstance(schema, list):
        return [narrowed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: narrowed(part) for name, part in schema.items()}
    for name, part in found.get("properties", {}).items():
        if name == "model":
            found["properties"][name] = {"enum": MODELS.get(found.get("title", ""), ["", "model"])}
        for choice in part.get("anyOf", []) if name.endswith("max_tokens") else ():
            choice |= {"maximum": LONGEST} if choice.get("type") == "integer" else {}
    items = found.get("items")
    if isinstance(items, dict) and items.get("type") == "integer" and items.get("minimum") == 0:
        items["maximum"] = 255
    return found


def operations(schema: Any) -> list[str]:
    return [f"{method.upper()} {path}" for path, methods in schema["paths"].items() for method in methods]


def attack(tool: str, url: str, folder: Path, operation: str, mode: str, options: argparse.Namespace) -> dict[str, Any]:
    """What schemathesis reports of an operation."""
    report = folder / "report.json"
    report.unlink(missing_ok=True)
    words = [tool, "run", str(folder / "schema.json"), "--url", url, "--include-name", operation, "--mode", mode]
    words += ["--phases", "examples,coverage,fuzzing", "--max-examples", str(options.cases), "--checks", "not_a_server_error"]
    words += ["--seed", str(options.seed), "--request-timeout", "60", "--suppress-health-check", "all", "--no-shrink"]
    words += ["--workers", "2", "--continue-on-failure", "--warnings", "off", "--report", "json", "--report-json-path", str(report)]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    if not report.exists():
        return {"code": done.returncode, "said": (done.stdout + done.stderr)[-2000:]}
    found: dict[str, Any] = json.loads(report.read_text())
    return found


def look(campaign: Campaign, operation: str, mode: str, found: dict[str, Any]) -> None:
    """A row for what an operation was asked, and what it answered."""
    what = f"{operation}, {mode}"
    campaign.check("test_cases" in found, f"{what}: schemathesis failed: {found.get('said')}")
    cases = found.get("test_cases", {})
    rates = [phase for phases in found.get("valid_rates", {}).values() for phase in phases.values()]
    accepted = {"accepted": sum(rate["accepted"] for rate in rates)} if mode == "positive" else {}
    told = {"cases": cases.get("generated"), "server_errors": cases.get("with_failures"), **accepted}
    campaign.row(operation=operation, mode=mode, **told, seconds=round(found.get("running_time", 0.0), 1))
    failures = [str(failure)[:500] for failure in found.get("failures", []) + found.get("errors", [])]
    campaign.check(not failures and not cases.get("with_failures") and not cases.get("errored"), f"{what}: {failures[:3]}")


def main() -> int:
    parser = arguments("fuzz", __doc__)
    parser.add_argument("--cases", type=int, default=2000, help="for each operation, right and wrong each")
    parser.add_argument("--schemathesis", default=shutil.which("schemathesis") or "", help="the command, where it is not in the path")
    parser.add_argument("--only", default="", help="operations whose name holds this text")
    parser.add_argument("--modes", nargs="+", default=list(MODES), choices=MODES)
    options = parser.parse_args()
    if not options.schemathesis:
        print("fuzz: skipped, as schemathesis is not installed; pip install schemathesis, or name the command with --schemathesis")
        return 0
    campaign = Campaign("fuzz", options.device, options.record)
    with workplace() as folder, served(folder) as (url, child):
        schema = narrowed(fetched(f"{url}/openapi.json"))
        (folder / "schema.json").write_text(json.dumps(schema))
        for operation in operations(schema):
            for mode in options.modes if options.only in operation else ():
                look(campaign, operation, mode, attack(options.schemathesis, url, folder, operation, mode, options))
        campaign.check(fetched(f"{url}/health")["status"] == "ok", "the server is not well any more")
        campaign.check(child.poll() is None, "the server ended")
        campaign.check("Traceback" not in (folder / "said.txt").read_text(), "the server printed a traceback")
    return campaign.end()


if __name__ == "__main__":
    sys.exit(main())
