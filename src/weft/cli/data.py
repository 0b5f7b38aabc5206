"""`weft data build|python|show|verify`: token shards from files of text, a corpus for them, what they hold, whether they are whole."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from weft.cli import console
from weft.cli.options import flags
from weft.cli.options.tokenizer import find_tokenizer
from weft.cli.tasks import Meter
from weft.core import installation, registry
from weft.core.config import Config
from weft.core.errors import ConfigError
from weft.core.units import duration
from weft.core.untrusted import kept, natural
from weft.data.io.files import show
from weft.data.shards.builder import BuildConfig, build
from weft.data.shards.shard_files import Shards, find_damage, read_json
from weft.data.shards.workers import cores
from weft.data.text.python_corpus import CorpusConfig, build_corpus
from weft.training.checkpoint import files

USAGE = """usage: weft data build INPUT… --out DIR --tokenizer WHAT [SETTINGS]
       weft data python --out DIR [--folder PATH…]
       weft data show DIR [--documents N]
       weft data verify DIR

build   text, JSONL or parquet files as memory-mapped token shards; killed and repeated, it goes on to the same bytes
python  the Python files that are installed, cleaned and without copies, whole packages held out, as two JSONL files
show    what shards hold: counts, sources, problems, a few documents
verify  whether every shard still has its sha256; a line for each that has not

  weft data build corpus/*.jsonl --out shards --tokenizer path/to/gpt2 --dedupe
  weft train gpt/shards --data.path shards"""
ABOUT = """INPUT is a text, JSONL or parquet file (text and JSONL also .gz) or a folder of them. The shards depend on input and settings
alone, not on the number of workers; a build that was ended goes on when the command is given again."""


@dataclass(frozen=True, kw_only=True)
class Build(BuildConfig):
    out: str = ""
    """Folder of the shards."""
    tokenizer: str = ""
    """bytes; a folder or tokenizer.json of a model (GPT-2's files, too), a run, or other shards; or, to be learned from the
    input, byte_bpe, bpe or unigram."""
    vocabulary: int = 0
    """Pieces of a tokenizer that is learned; 0 is 10,000."""
    workers: int = 0
    """Processes that read and encode; 0 is one for each core."""


@dataclass(frozen=True, kw_only=True)
class Python(CorpusConfig):
    out: str = ""
    """Folder of train.jsonl, held_out.jsonl and corpus.json."""
    folder: tuple[str, ...] = ()
    """Folders of packages to read instead of what is installed."""


@dataclass(frozen=True, kw_only=True)
class Show(Config):
    documents: int = 3
    """Documents to print, spread over all."""
    characters: int = 300
    """Characters of each; 0 for all."""


@dataclass(frozen=True, kw_only=True)
class Verify(Config):
    pass


def main(words: list[str]) -> int:
    console.show_warnings()
    if not words or words[0] in flags.HELP:
        print(USAGE)
        return 0 if words else 2
    verbs = {"build": build_shards, "python": gather_python, "show": show_shards, "verify": verify_shards}
    if words[0] not in verbs:
        raise ConfigError(f"weft data has no verb {words[0]!r}{registry.nearest(words[0], list(verbs))}")
    return verbs[words[0]](words[1:])


def build_shards(words: list[str]) -> int:
    options, inputs = flags.parse(Build(), words, "weft data build", "INPUT [INPUT…]", ABOUT)
    if not options.out:
        raise ConfigError("name a folder with --out; see weft data build --help")
    if not options.tokenizer:
        raise ConfigError("name what makes tokens with --tokenizer: bytes, a run, the folder of a model, or byte_bpe, bpe or unigram")
    files.check_folder(Path(options.out))
    tokenizer = find_tokenizer(options.tokenizer, options.vocabulary, inputs, options, options.out)
    begin = time.perf_counter()
    with Meter("data") as meter:
        started: list[int] = []

        def progress(done: int, total: int) -> None:
            started.append(done)
            made = done - started[0]
            meter.title = f"{made / 1e6 / (time.perf_counter() - begin):.1f} MB/s, megabytes"
            if made:
                meter(max(1, made >> 20), (total - started[0] >> 20) + 1)

        shards = build(inputs, options.out, tokenizer, options, options.workers or cores(), progress)
    print("\n".join(described(shards)))
    following = f"{installation.command()} train gpt/shards --data.path {console.quoted(options.out)}"
    print(f"built in {duration(time.perf_counter() - begin)}; next:\n  {following}")
    return 0


def gather_python(words: list[str]) -> int:
    options, _ = flags.parse(Python(), words, "weft data python", "", "The Python files of this installation as a corpus.")
    if not options.out:
        raise ConfigError("name a folder with --out; see weft data python --help")
    files.check_folder(Path(options.out))
    made = build_corpus(options.out, options.folder, options)
    for name in ("train", "held"):
        print(f"{name}: {made[name]['files']:,} files of {made[name]['packages']:,} packages, {made[name]['bytes'] / 1e6:,.1f} MB")
    print("left out: " + ", ".join(f"{count:,} {what}" for what, count in made["left_out"].items()))
    following = f"{installation.command()} data build {console.quoted(options.out)}/train.jsonl --out shards --tokenizer byte_bpe"
    print(f"sha256 {made['sha256']}; next:\n  {following}")
    return 0


def show_shards(words: list[str]) -> int:
    options, (folder,) = flags.parse(Show(), words, "weft data show", "DIR", "What a folder of shards holds.")
    shards = Shards(folder)
    print("\n".join(described(shards)))
    sources = shards.manifest["sources"]
    rows = [(source["path"], f"{source['documents']:,}", f"{source['tokens']:,}") for source in sources[:20]]
    print(console.table([("source", "documents", "tokens"), *rows]) + (f"\n  and {len(sources) - 20:,} more" if len(sources) > 20 else ""))
    number, tokenizer = shards.manifest["counts"]["documents"], shards.tokenizer
    shown = min(options.documents, number)
    for chosen in (place * number // shown for place in range(shown)):
        ids = shards.document(chosen)
        text = tokenizer.decode(ids.tolist())
        cut = text if not options.characters or len(text) <= options.characters else text[: options.characters] + "…"
        print(f"\ndocument {chosen:,}, {len(ids):,} tokens:\n{cut}")
    return 0


def verify_shards(words: list[str]) -> int:
    _, (folder,) = flags.parse(Verify(), words, "weft data verify", "DIR", "Whether every file of a folder of shards has its sha256.")
    found = list(find_damage(folder))
    print("\n".join(found) if found else f"{show(folder)}: all {len(Shards(folder).shards)} shards are whole")
    return 1 if found else 0


def described(shards: Shards) -> list[str]:
    """What shards hold, and what was wrong with their input."""
    counts, tokenizer = shards.manifest["counts"], shards.manifest["tokenizer"]
    lines = [
        f"{show(shards.folder)}: {counts['documents']:,} documents, {counts['tokens']:,} tokens in {len(shards.shards):,} "
        f"shard{'s' * (len(shards.shards) != 1)}, {counts['bytes'] / counts['tokens']:.2f} bytes a token; "
        f"tokenizer {tokenizer['type']} of {tokenizer['size']:,}"
    ]
    if counts["duplicates"]:
        lines.append(f"{counts['duplicates']:,} duplicates left out")
    path = shards.folder / "problems.json"
    if counts["problems"] and path.is_file():
        problems = kept(read_json(path), {"counts": {str: natural}, "places": {str: [str]}})
        places = problems.get("places", {})
        lines += [f"{count:,} × {what}: {', '.join(places.get(what, [])[:2])}" for what, count in problems.get("counts", {}).items()]
        lines.append(f"all of this in {show(path)}")
    return lines
