"""Honest files of every format that weft reads, small, each with the command or the reader that it is for."""

from __future__ import annotations

import contextlib
import gzip
import io
import itertools
import json
import random
import wave
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from foreign_specimens import models, vectors, weights
from specimen import QUIET, SENTENCES, TEXT, TINY, Files, Specimen, command, quietly, read_files, told

from weft.core import registry
from weft.core.errors import require
from weft.data.base import DataConfig
from weft.data.shards.build_state import BuildConfig
from weft.data.shards.builder import ShardBuilder, build
from weft.data.tokenizers.base import ByteTokenizer

# -- runs ---------------------------------------------------------------------------------------------------------------


def runs(folder: Path) -> list[Specimen]:
    """A language model with three checkpoints, read by every verb; and a classifier of digits."""
    (folder / "text.txt").write_text(TEXT)
    words = ["train", "gpt/text", "--data.path", str(folder / "text.txt"), "--data.tokenizer", "byte_bpe", "--data.vocabulary", "270"]
    words += [*QUIET, *TINY, "--train.save_every", "2", "--train.eval_every", "3", "--train.keep_checkpoints", "3"]
    quietly([*words, "--train.steps", "6", "--out", str(folder / "run")])
    files = read_files(folder / "run")
    again = [*words, "--train.steps", "7", "--out", "{}"]
    quietly(["train", "classifier/digits", *QUIET, "--train.steps", "2", "--out", str(folder / "digits")])
    digits = read_files(folder / "digits")
    last = sorted(name for name in files if name.startswith("checkpoints/"))[-1].rpartition("/")[0]
    return [
        Specimen("run: train", files, command(*again), must_work=last + "/"),
        Specimen("run: sample", files, command("sample", "{}", "the ", "--max-new-tokens", "4", "--device", "cpu")),
        Specimen("run: report", files, command("report", "{}")),
        Specimen("run: evaluate", files, command("evaluate", "{}", "--device", "cpu")),
        Specimen("run: convert", files, command("convert", "{}", "{}-out")),
        Specimen("run: --init", files, command(*words, "--train.steps", "1", "--init", "{}", "--out", "{}-out")),
        Specimen("run: plan", {"recipe.json": files["recipe.json"]}, command("plan", "{}/recipe.json")),
        Specimen("digits: sample", digits, command("evaluate", "{}", "--device", "cpu")),
    ]


# -- shards -------------------------------------------------------------------------------------------------------------


class Interrupted(BaseException):
    pass


def shards(folder: Path) -> list[Specimen]:
    """A finished folder of shards, and one whose build was interrupted."""
    (folder / "text.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in SENTENCES * 4))
    settings = BuildConfig(shard_tokens=2000, piece_bytes=600, dedupe=False)
    build([str(folder / "text.jsonl")], folder / "shards", ByteTokenizer(), settings, workers=1)
    whole = read_files(folder / "shards")
    builder = ShardBuilder(make(folder / "begun"), [str(folder / "text.jsonl")], ByteTokenizer(), settings)
    commits = 0

    def committed() -> None:
        nonlocal commits
        ShardBuilder.commit(builder)
        commits += 1
        if commits == 8:
            raise Interrupted

    builder.commit, builder.committed = committed, -1e9  # type: ignore[method-assign]
    merge = builder.merge

    def merged(*given: Any) -> None:
        builder.committed = -1e9
        merge(*given)

    builder.merge = merged  # type: ignore[method-assign]
    with contextlib.suppress(Interrupted):
        builder.run(1, lambda done, total: None)
    begun = read_files(folder / "begun")
    resume = told(lambda place: build([str(folder / "text.jsonl")], place, ByteTokenizer(), settings, workers=1))
    words = ["train", "gpt/shards", "--data.path", "{}", *QUIET, *TINY, "--train.steps", "1", "--out", "{}-out"]
    return [
        Specimen("shards: train", whole, command(*words)),
        Specimen("shards: show", whole, command("data", "show", "{}", "--documents", "3")),
        Specimen("shards: verify", whole, command("data", "verify", "{}")),
        Specimen("shards: resume", begun, resume),
    ]


def make(folder: Path) -> Path:
    folder.mkdir()
    return folder


# -- data ---------------------------------------------------------------------------------------------------------------


def built(kind: str, path: str = "{}", **settings: Any) -> Callable[[Path], int]:
    """Data of this kind, read and a batch of it drawn."""

    def act(folder: Path) -> None:
        source: DataConfig = registry.config_class(kind)(path=path.replace("{}", str(folder)), **settings)
        data = source.build()
        data.train.batch(
            require("torch", "").arange(min(4, len(data.train))), require("torch", "").zeros(4, dtype=require("torch", "").int64)
        )

    return told(act)


def images(folder: Path) -> list[Specimen]:
    library: Any = require("PIL.Image", "images")
    chance = np.random.default_rng(0)
    kinds = {"png": "PNG", "jpg": "JPEG", "bmp": "BMP", "gif": "GIF", "webp": "WEBP", "tif": "TIFF", "ppm": "PPM"}
    files: Files = {}
    for number in range(21):
        suffix, kind = list(kinds.items())[number % len(kinds)]
        target = io.BytesIO()
        library.fromarray(chance.integers(0, 255, (8, 16, 3), dtype=np.uint8)).save(target, kind)
        files[f"{'ab'[number % 2]}/{number}.{suffix}"] = target.getvalue()
    npz, sheet = io.BytesIO(), io.BytesIO()
    np.savez(npz, labels=np.arange(16) % 3)
    library.fromarray(chance.integers(0, 255, (32, 32, 3), dtype=np.uint8)).save(sheet, "WEBP", lossless=True)
    pixels, labels = chance.integers(0, 255, (30, 8, 8), dtype=np.uint8), chance.integers(0, 3, 30, dtype=np.uint8)
    sizes = [size.to_bytes(4, "big") for size in (30, 8, 8)]
    idx = {"train-images-idx3-ubyte": bytes((0, 0, 8, 3)) + b"".join(sizes) + pixels.tobytes()}
    idx |= {"train-labels-idx1-ubyte": bytes((0, 0, 8, 1)) + sizes[0] + labels.tobytes()}
    cifar = {f"data_batch_{n}.bin": b"".join(bytes((i % 10,)) + chance.bytes(3072) for i in range(10)) for n in (1, 2)}
    return [
        Specimen("images: folder", files, built("images", size=8)),
        Specimen("images: pairs", files, built("image_pairs", size=8, crop_size=8)),
        Specimen("images: sheets", {"train_labels.npz": npz.getvalue(), "train_0.webp": sheet.getvalue()}, built("images")),
        Specimen("images: idx", idx, built("images")),
        Specimen("images: cifar", {**cifar, "batches.meta.txt": "\n".join("abcdefghij").encode()}, built("images")),
    ]


def sounds(folder: Path) -> list[Specimen]:
    files = {}
    for number in range(6):
        target = io.BytesIO()
        with wave.open(target, "wb") as file:
            file.setnchannels(1 + number % 2)
            file.setsampwidth(2)
            file.setframerate(8000)
            file.writeframes(random.Random(number).randbytes(3200))
        files[f"{'ab'[number % 2]}/{number}.wav"] = target.getvalue()
    found = [Specimen(f"sounds: {name}", files, built(name)) for name in ("audio", "clips", "speech")]
    return [*found, Specimen("sounds: voices", compressed(), built("voices", seconds=0.2))]


def compressed() -> Files:
    """Sounds as FLAC, OGG and WAV of other kinds."""
    library: Any = require("soundfile", "audio")
    files, kinds = (
        {},
        (("flac", "FLAC", None), ("ogg", "OGG", None), ("wav", "WAV", "FLOAT"), ("wav", "WAV", "ULAW"), ("wav", "WAVEX", None)),
    )
    for number in range(10):
        suffix, form, kind = kinds[number % len(kinds)]
        target = io.BytesIO()
        library.write(target, np.random.default_rng(number).uniform(-0.5, 0.5, 3200), 16000, format=form, subtype=kind)
        files[f"{'ab'[number % 2]}/{number}.{suffix}"] = target.getvalue()
    return files


def texts(folder: Path) -> list[Specimen]:
    """Tables, pairs and annotated texts."""
    rows = [(line, "yes" if " a " in line else "no", str(number)) for number, line in enumerate(SENTENCES)]
    tsv = "\n".join("\t".join(row) for row in [("text", "label", "n"), *rows]).encode()
    csv = "\n".join(f'"{line}",{label},{number}' for line, label, number in [("text", "label", "n"), *rows]).encode()
    lines = "".join(json.dumps({"text": line, "label": label, "n": int(n)}) + "\n" for line, label, n in rows).encode()
    choices = "".join(json.dumps({"context": line, "choices": ["x y", "z"], "label": n % 2}) + "\n" for n, line in enumerate(SENTENCES))
    asked = [{"question": "who sees", "id": str(n), "answers": [{"text": "cat", "answer_start": 8}]} for n in range(2)]
    squad = {"data": [{"title": "x", "paragraphs": [{"context": "the old cat sees trees", "qas": asked}] * 6}]}
    tagged = "\n\n".join("\n".join(f"{word}\t{'B-X' if word == 'cat' else 'O'}" for word in line.split()) for line in SENTENCES)
    bert = {"tokenizer": "wordpiece", "vocabulary": 300, "context": 64}
    numbers = [random.Random(n).sample(range(30), 6) for n in range(30)]
    pointed = ["\t".join(" ".join(map(str, part)) for part in (row, sorted(range(1, 7), key=lambda i: row[i - 1]))) for row in numbers]
    fasttext = "\n".join(f"__label__{label} {line}" for line, label, _ in rows).encode()
    pairs = "".join(json.dumps({"source": line, "target": line.upper()}) + "\n" for line in SENTENCES).encode()
    paragraphs = "\n\n".join(f"{one.capitalize()}. {other.capitalize()}." for one, other in itertools.pairwise(SENTENCES))
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as members:
        for number, line in enumerate(SENTENCES):
            members.writestr(f"{number}.txt", line)
    return [
        Specimen("text: gz", {"a.txt.gz": gzip.compress(TEXT.encode(), mtime=0)}, built("text", "{}/a.txt.gz", context=16)),
        Specimen("text: zip", {"a.zip": archive.getvalue()}, built("text", "{}/a.zip", context=16)),
        Specimen("text: words", {"a.txt": TEXT.encode()}, built("passages", min_count=1, length=8)),
        Specimen("text: sentences", {"a.txt": TEXT.replace(". ", "\n").encode()}, built("bilm_sentences", context=8)),
        Specimen("text: sentence pairs", {"a.txt": paragraphs.encode()}, built("sentence_pairs", **bert)),
        Specimen("text: fasttext labels", {"a.txt": fasttext}, built("bags", "{}/a.txt")),
        Specimen("text: pairs jsonl", {"a.jsonl": pairs}, built("pairs", "{}/a.jsonl", tokenizer="characters")),
        Specimen("text: pointers", {"a.tsv": "\n".join(["inputs\torder", *pointed]).encode()}, built("pointing_sequences", "{}/a.tsv")),
        Specimen("text: plain", {"a.txt": TEXT.encode()}, built("text", context=16)),
        Specimen("text: table tsv", {"a.tsv": tsv}, built("table", "{}/a.tsv", label="label")),
        Specimen("text: table csv", {"a.csv": csv}, built("table", "{}/a.csv", label="label")),
        Specimen("text: table jsonl", {"a.jsonl": lines}, built("table", "{}/a.jsonl", label="label")),
        Specimen("text: labelled", {"a.csv": csv}, built("labelled_texts", "{}/a.csv", text="text", label="label", **bert)),
        Specimen("text: pairs", {"a.tsv": tsv}, built("pairs", "{}/a.tsv")),
        Specimen("text: choices", {"a.jsonl": choices.encode()}, built("choices", "{}/a.jsonl", **bert)),
        Specimen("text: squad", {"a.json": json.dumps(squad).encode()}, built("spans", "{}/a.json", **bert)),
        Specimen("text: tagged", {"a.txt": tagged.encode()}, built("tagged", "{}/a.txt", **bert)),
    ]


# -- what is given to a verb beside a run -----------------------------------------------------------------------------------


def given(folder: Path) -> list[Specimen]:
    """Rows to predict, and what an interrupted prediction leaves; settings; questions about word vectors; prompts; parquet."""
    rows = [(f"{x / 7:.3f}", f"{y / 5:.3f}", "up" if x + y > 6 else "down") for x in range(8) for y in range(6)]
    table, tabs = ("\n".join(map(separator.join, [("x", "y", "label"), *rows])).encode() for separator in ",\t")
    (folder / "a.csv").write_bytes(table)
    train = ["train", "classifier/table", "--data.path", str(folder / "a.csv"), *QUIET, "--train.steps", "2", "--out", str(folder / "run")]
    quietly(train)
    lines = "".join(json.dumps({"x": float(x), "y": float(y)}) + "\n" for x, y, _ in rows).encode()
    run = str(folder / "run")
    predict = command("predict", run, "{}/a.csv", "--out", "{}/out.csv", "--device", "cpu")
    vectors = str(folder / "vectors")
    quietly(["convert", str(FIXTURES / "gensim.bin"), vectors])
    (folder / "text.txt").write_text(TEXT)
    settings = {"data": {"path": str(folder / "text.txt"), "context": 16}, "train.steps": 1, "train": {"batch": 4, "eval_examples": 8}}
    settings |= {"train.device": "cpu", "model.layers": 1, "model.heads": 2, "model.width": 16}
    dotted = {**{f"data.{name}": value for name, value in settings.pop("data").items()}, "train.batch": 4, **settings}
    dotted.pop("train")
    toml = "".join(f"{json.dumps(name)} = {json.dumps(value)}\n" for name, value in dotted.items()).encode()
    yaml = "".join(f"{name}: {json.dumps(value)}\n" for name, value in dotted.items()).encode()
    found = {"a.json": json.dumps({**settings, "data": {"path": str(folder / "text.txt"), "context": 16}}).encode()}
    found |= {"a.toml": toml, "a.yaml": yaml}
    shots = "".join(json.dumps({"question": line, "answer": line[:3]}) + "\n" for line in SENTENCES).encode()
    template = b"Answers.\n---\nQ: {question}\nA: {answer}\n---\nQ: {question}\nA: {answer}"
    prompt = command("prompt", "{}/a.txt", "question=what", "--examples", "{}/a.jsonl", "--shots", "2")
    build = command("data", "build", "{}/a.parquet", "--out", "{}-out", "--tokenizer", "bytes", "--workers", "1")
    return [
        Specimen("predict: csv", {"a.csv": table}, predict),
        Specimen(
            "predict: tsv",
            {"a.tsv": tabs},
            command("predict", run, "{}/a.tsv", "--out", "{}/o.tsv"),
        ),
        Specimen("predict: jsonl", {"a.jsonl": lines}, command("predict", run, "{}/a.jsonl", "--out", "{}/o.jsonl")),
        Specimen("predict: continued", {"a.csv": table, **interrupted(folder, run)}, predict),
        *(Specimen(f"settings: {name[2:]}", {name: data}, told(partial(settings_of, name=name))) for name, data in found.items()),
        Specimen("words: analogies", {"q.txt": fixture("questions-words.txt")}, asked(vectors, "analogies", "q.txt")),
        Specimen("words: similarity", {"w.tsv": fixture("wordsim.tsv")}, asked(vectors, "similarity", "w.tsv")),
        Specimen("prompt: template", {"a.txt": template, "a.jsonl": shots}, prompt),
        Specimen("shards: parquet", {"a.parquet": parquet()}, build),
    ]


def settings_of(folder: Path, name: str) -> None:
    """What a file of settings asks for, which may be a training of any size, and so is not begun."""
    from weft.cli import train

    train.parse("gpt/text", ["--config", str(folder / name)])


def fixture(name: str) -> bytes:
    return (FIXTURES / name).read_bytes()


def asked(run: str, task: str, name: str) -> Callable[[Path], int]:
    return command("evaluate", run, task, "--data.path", f"{{}}/{name}", "--device", "cpu", "--out", "{}/out.json")


def parquet() -> bytes:
    library: Any = require("pyarrow", "data")
    tables: Any = require("pyarrow.parquet", "data")
    target = io.BytesIO()
    tables.write_table(library.table({"text": SENTENCES}), target)
    return target.getvalue()


def interrupted(folder: Path, run: str) -> Files:
    """The part and the state that a prediction leaves which is stopped after its first rows."""
    from weft.inference.predict import to_file

    real = to_file.save

    def save(state: Path, content: dict[str, Any]) -> None:
        real(state, content)
        raise Interrupted

    with mock.patch.object(to_file, "save", save), contextlib.suppress(Interrupted):
        quietly(["predict", run, str(folder / "a.csv"), "--out", str(folder / "out.csv"), "--device", "cpu"])
    return {name: (folder / name).read_bytes() for name in ("out.csv.part", "out.csv.state")}


FIXTURES = Path(__file__).parents[1] / "tests" / "fixtures" / "vectors"
MAKERS: dict[str, Callable[[Path], list[Specimen]]] = {
    "runs": runs,
    "models": models,
    "weights": weights,
    "shards": shards,
    "images": images,
    "sounds": sounds,
    "texts": texts,
    "vectors": vectors,
    "given": given,
}
