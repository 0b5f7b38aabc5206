"""Every registered recipe in a form that trains in a second: how it is shrunk, and the files it needs."""

from __future__ import annotations

import dataclasses
import json
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import weft
from weft.data.shards.builder import BuildConfig, build
from weft.data.text.biographies import BiographiesConfig
from weft.data.tokenizers.base import ByteTokenizer
from weft.data.tokenizers.training import train_tokenizer
from weft.recipes.base import Recipe

Changes = dict[str, Any]
TRAIN: Changes = {
    "train.steps": 12,
    "train.batch": 8,
    "train.log_every": 3,
    "train.eval_every": 4,
    "train.eval_examples": 24,
    "train.save_every": 5,
    "train.compile": "off",
}


def text_file(folder: Path) -> Path:
    """Sentences of a small grammar in paragraphs, about 20,000 characters."""
    path = folder / "text.txt"
    if not path.exists():
        chance = random.Random(0)
        who, does, what = ("the cat", "a dog", "my friend"), ("sees", "likes", "hears"), ("the moon", "a tree", "old songs", "rain")
        sentences = [f"{chance.choice(who)} {chance.choice(does)} {chance.choice(what)}." for _ in range(900)]
        path.write_text("\n\n".join(" ".join(sentences[i : i + 9]) for i in range(0, 900, 9)))
    return path


def word_files(folder: Path) -> Changes:
    """Files of words to train and to validate on."""
    path = str(text_file(folder))
    return {"data.path": path, "data.validation_path": path, "data.validation_context": 64}


def marked_shards(folder: Path) -> tuple[str, ...]:
    """Shards of tokens with a mark behind each document."""
    settings, text = BuildConfig(split="blank_lines"), [str(text_file(folder))]
    return (str(build(text, folder / "marked", train_tokenizer("byte_bpe", 300, text, settings), settings).folder),)


def shards_folders(folder: Path) -> tuple[str, ...]:
    """Shards of the same text, a document per paragraph, once without copies."""
    plain = BuildConfig(split="blank_lines", shard_tokens=8000)
    settings = {"several": plain, "one": dataclasses.replace(plain, shard_tokens=10**6, dedupe=True)}
    return tuple(str(build([str(text_file(folder))], folder / name, ByteTokenizer(), own).folder) for name, own in settings.items())


def table_file(folder: Path) -> Path:
    path = folder / "table.tsv"
    chance = random.Random(0)
    rows = [(chance.uniform(-1, 1), chance.uniform(-1, 1)) for _ in range(200)]
    path.write_text("x\ty\tlabel\n" + "".join(f"{x:.4f}\t{y:.4f}\t{'up' if x + y > 0 else 'down'}\n" for x, y in rows))
    return path


def numbers_file(folder: Path) -> Path:
    """Rows whose number is a sum of the others, in its own unit."""
    path = folder / "numbers.csv"
    chance = random.Random(0)
    rows = [(chance.uniform(-1, 1), chance.uniform(-1, 1)) for _ in range(200)]
    path.write_text("x,y,price\n" + "".join(f"{x:.4f},{y:.4f},{1000 + 50 * x + 20 * y:.3f}\n" for x, y in rows))
    return path


def pairs_file(folder: Path) -> Path:
    """A few words and the same words in capitals, again and again."""
    path = folder / "pairs.tsv"
    chance = random.Random(0)
    words = ["".join(chance.choice("abcd") for _ in range(size)) for size in (4, 5, 6, 4, 5, 6)]
    rows = [chance.choice(words) for _ in range(120)]
    path.write_text("source\ttarget\n" + "".join(f"{word}\t{word.upper()}\n" for word in rows))
    return path


def label_sets_file(folder: Path) -> Path:
    """Texts of a few words, each of which is a label too."""
    chance = random.Random(0)
    texts = [chance.sample(("moon", "rain", "tree", "song"), chance.randint(1, 3)) for _ in range(150)]
    lines = [json.dumps({"text": f"the {' and the '.join(words)}", "labels": [word.upper() for word in words]}) for words in texts]
    (folder / "sets.jsonl").write_text("\n".join(lines))
    return folder / "sets.jsonl"


def orders_file(folder: Path) -> Path:
    """Three to five numbers and the order in which they grow."""
    chance = random.Random(0)
    rows = [[chance.uniform(0, 1) for _ in range(chance.randint(3, 5))] for _ in range(150)]
    orders = [sorted(range(1, len(row) + 1), key=lambda place: row[place - 1]) for row in rows]
    lines = [f"{' '.join(f'{x:.3f}' for x in row)}\t{' '.join(map(str, order))}\n" for row, order in zip(rows, orders, strict=True)]
    (folder / "orders.tsv").write_text("inputs\torder\n" + "".join(lines))
    return folder / "orders.tsv"


def labelled_file(folder: Path, row: str, header: str = "") -> Path:
    """Rows whose verb gives the label, 1 or 0, as {label}."""
    chance = random.Random(0)
    who, what = ("the cat", "a dog", "my friend"), ("the moon", "a tree", "old songs", "rain")
    rows = []
    for number in range(150):
        text, second = (f"{chance.choice(who)} {verb} {chance.choice(what)}." for verb in (("hates", "likes")[number % 2], "sees"))
        rows.append(row.format(text=text, second=second, label=number % 2, number=number))
    (folder / "labelled.tsv").write_text(header + "".join(rows))
    return folder / "labelled.tsv"


def labelled_texts(folder: Path, row: str, header: str = "") -> Changes:
    """What makes a recipe small that tells something of a text."""
    return BERT | {"data.path": str(labelled_file(folder, row, header)), "data.tokenizer": "bert_words"}


def choices_file(folder: Path) -> Path:
    """What goes on is what is liked."""
    chance = random.Random(0)
    things = ("the moon", "a tree", "old songs", "rain")
    lines = []
    for number in range(150):
        three = chance.sample(things, 3)
        record = {
            "context": f"my friend {number}",
            "choices": [f"{'likes' if i == number % 3 else 'hates'} {t}" for i, t in enumerate(three)],
        }
        lines.append(json.dumps({**record, "label": number % 3}))
    (folder / "choices.jsonl").write_text("\n".join(lines))
    return folder / "choices.jsonl"


def answers(folder: Path) -> Changes:
    """What is hidden is named in front of the animal that is asked for."""
    chance = random.Random(0)
    paragraphs = []
    for number in range(60):
        hidden = [(chance.choice(("moon", "tree", "rain")), animal) for animal in ("cat", "dog", "hen")]
        text = " ".join(f"a {thing} near the {animal} ." for thing, animal in hidden)
        answer = {"text": hidden[number % 3][0], "answer_start": text.index(f"near the {hidden[number % 3][1]}") - 5}
        asked = {"id": str(number), "question": f"what is near the {hidden[number % 3][1]} ?", "answers": [answer]}
        paragraphs.append({"context": text, "qas": [asked]})
    (folder / "answers.json").write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    path = str(folder / "answers.json")
    return BERT | {"data.path": path, "data.validation_path": path, "data.tokenizer": "bert_words", "data.context": 24, "data.stride": 6}


def tags(folder: Path, slashes: bool = False) -> Changes:
    return BERT | {"data.path": str(tags_file(folder, slashes)), "data.tokenizer": "bert_words"}


def tags_file(folder: Path, slashes: bool = False) -> Path:
    """Words of a small grammar, where what comes after tells a name from a verb."""
    chance = random.Random(0)
    known = {"may": "B-who", "will": "B-who", "sees": "O", "likes": "O", "the": "O", "moon": "B-what", "rain": "B-what"}
    sentences = []
    for _ in range(120):
        words = [chance.choice(("may", "will")), chance.choice(("sees", "likes")), "the", chance.choice(("moon", "rain"))]
        sentences.append([(word, known[word]) for word in words])
    line, end = ("{0}/{1} ", "\n") if slashes else ("{0}\t{1}\n", "\n")
    (folder / "tags.txt").write_text("".join("".join(line.format(*word) for word in words) + end for words in sentences))
    return folder / "tags.txt"


def biographies(folder: Path) -> Path:
    """Lines about ten people, 40 of them, and one that has what a question needs."""
    path = folder / "people.txt"
    path.write_text(BiographiesConfig(people=10, places=4, variants=4).text() + "Where?\n")
    return path


def questions(folder: Path) -> Path:
    """Few enough questions to be learned by heart in a second."""
    path = folder / "questions.tsv"
    rows, _ = BiographiesConfig(people=10, places=4).questions()
    path.write_text("".join(f"{question}\t{place}\n" for question, place in rows))
    return path


def reads(folder: Path) -> Changes:
    """A recipe of the birthplace task that reads."""
    small = GPT | {"model.layers": 3, "data.context": 64, "data.min_length": 20, "data.max_length": 56}
    return small | {"data.path": str(biographies(folder)), "data.validation": 0.2}


def mixes(folder: Path) -> Changes:
    """One that meets questions while it reads."""
    return reads(folder) | {"data.questions_path": str(questions(folder))}


def learns_to_answer(folder: Path) -> Changes:
    path = str(questions(folder))
    sizes = {"model.layers": 2, "model.heads": 2, "model.width": 32, "data.context": 64, "data.vocabulary_path": str(biographies(folder))}
    return sizes | {"data.path": path, "data.validation_path": path}


def pixels(chance: random.Random, label: int, side: int) -> bytes:
    """A dark image with a bright band whose place tells the class."""
    return bytes(min(255, chance.randrange(60) + (180 if row * 3 // side == label else 0)) for row in range(side) for _ in range(side))


def idx_folder(folder: Path, side: int = 28) -> Path:
    """MNIST's files with three classes."""
    made = folder / "mnist"
    made.mkdir(exist_ok=True)
    chance = random.Random(0)
    for part, number in (("train", 120), ("t10k", 60)):
        labels = [chance.randrange(3) for _ in range(number)]
        images = b"".join(pixels(chance, label, side) for label in labels)
        (made / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 0x803, number, side, side) + images)
        (made / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, number) + bytes(labels))
    return made


def cifar_folder(folder: Path) -> Path:
    """CIFAR-10's files with three of its classes."""
    made = folder / "cifar"
    made.mkdir(exist_ok=True)
    chance = random.Random(0)
    for name, number in (("data_batch_1", 60), ("test_batch", 30)):
        labels = [chance.randrange(3) for _ in range(number)]
        (made / f"{name}.bin").write_bytes(b"".join(bytes([label]) + 3 * pixels(chance, label, 32) for label in labels))
    return made


def image_folder(folder: Path) -> Path:
    """Two classes of small PNG files."""
    image = pytest.importorskip("PIL.Image")
    chance = random.Random(0)
    for name, label in (("high", 0), ("low", 2)):
        (folder / "images" / name).mkdir(parents=True, exist_ok=True)
        for number in range(30):
            image.frombytes("L", (9, 9), pixels(chance, label, 9)).save(folder / "images" / name / f"{number}.png")
    return folder / "images"


def halves_folder(folder: Path) -> Path:
    """Images of which the left half shows a band and the right half the same band, darker."""
    image = pytest.importorskip("PIL.Image")
    chance = random.Random(0)
    (folder / "halves").mkdir(exist_ok=True)
    for number in range(40):
        band = pixels(chance, number % 3, 12)
        rows = b"".join(band[i : i + 12] + bytes(value // 2 for value in band[i : i + 12]) for i in range(0, 144, 12))
        image.frombytes("L", (24, 12), rows).save(folder / "halves" / f"{number}.png")
    return folder / "halves"


def translation(folder: Path) -> Changes:
    """Two texts, line by line, in batches of tokens."""
    pairs = [line.split("\t") for line in pairs_file(folder).read_text().splitlines()[1:]]
    for name, side in (("source", 0), ("target", 1)):
        (folder / name).write_text("".join(pair[side] + "\n" for pair in pairs))
    paths = {"data.path": "source", "data.target_path": "target", "data.validation_path": "source", "data.validation_target_path": "target"}
    changes = {name: str(folder / file) for name, file in paths.items()}
    return {**changes, "data.max_length": 12, "data.batch_tokens": 64, "train.batch": 1}


GPT: Changes = {"model.layers": 2, "model.heads": 2, "model.width": 32, "data.context": 16, "optim.schedule.warmup": 5}
FRAMED: Changes = GPT | {"data.context": 32, "data.validation": 0.3, "data.tokenizer": "words"}
DROPOUT: Changes = {f"model.{place}_dropout": 0.1 for place in ("embedding", "attention", "residual")}
DIGITS: Changes = {"optim.schedule.warmup": 5}
CODE: Changes = DIGITS | {"model.hidden": (32,), "model.latent": 4}
CONV: Changes = DIGITS | {"model.channels": (4, 8), "model.blocks": 1}
SMOOTH: Changes = {"model.noise": 1.0}
VIT: Changes = {"model.layers": 1, "model.heads": 2, "model.width": 16, "model.init_std": 0.1}
CIFAR: Changes = {"data.validation": 0.3, "data.channels": 3, "data.augment.crop": 1}
STAGES: Changes = {"model.blocks": (1, 1), "model.channels": (4, 8), "model.stem": "cifar", "optim.schedule.kind": "constant"}
PREACT: Changes = {name: value for name, value in STAGES.items() if name != "model.stem"}
DENSE: Changes = {"model.layers": (1, 1), "model.growth": 4, "model.channels": 4, "model.stem": "cifar", "optim.schedule.kind": "constant"}
PHOTOGRAPHS: Changes = {"data.size": 10, "data.crop_size": 8}
SWIN: Changes = {"model.layers": (2, 1), "model.heads": (2, 2), "model.width": 8, "model.window": 2, "model.init_std": 0.1}
FLOW: Changes = {"model.layers": 2, "model.hidden": (16,), "data.examples": 500, "optim.schedule.warmup": 5}
REALNVP: Changes = {"model.scales": 2, "model.blocks": 1, "model.width": 4, "optim.schedule.warmup": 5}
PIXELCNN: Changes = {"model.layers": 1, "model.width": 6, "model.first_kernel": 5, "optim.schedule.warmup": 5}
PRETRAIN: Changes = {
    "model.layers": 1,
    "model.heads": 2,
    "model.width": 32,
    "model.context": 24,
    "data.vocabulary": 120,
    "optim.lr": 3e-3,
    "optim.schedule.warmup": 5,
}
SEQ2SEQ: Changes = {"model.layers": 1, "model.heads": 2, "model.width": 32, "data.tokenizer": "bytes"}
WORDS: Changes = {"model.layers": 1, "model.heads": 2, "model.width": 32, "optim.schedule.warmup": 5}
POINTER: Changes = {"model.width": 16, "optim.schedule.warmup": 5, "optim.lr": 1e-2}
RNN_SEQ2SEQ: Changes = {"model.width": 16, "model.embedding_width": 16, "data.tokenizer": "bytes", "optim.schedule.warmup": 5}
GAN: Changes = {"model.generator": (32,), "model.discriminator": (32,), "model.latent": 4}
RING: Changes = GAN | {"data.examples": 500}
DCGAN: Changes = {"model.width": 4, "model.latent": 4}
HALVES: Changes = {"model.width": 4, "model.patch_layers": 1, "data.size": 9, "data.crop_size": 8, "data.validation": 0.3}
CYCLE: Changes = {"model.width": 4, "model.downsamplings": 0, "model.blocks": 1, "model.patch_layers": 1}
SMALL_WINDOWS: Changes = {"data.size": 9, "data.crop_size": 8, "data.channels": 1, "model.patch_norm": False}
CUT: Changes = {"model.fixed_length": 8, "objective.fixed_length": 8, "data.batch_tokens": 32, "optim.schedule.warmup": 5}
T5: Changes = {"model.layers": 1, "model.heads": 2, "model.head_dim": 8, "model.width": 32, "optim.schedule.warmup": 5}
RBM: Changes = {"model.hidden": 16, "objective.particles": 20, "objective.sweeps": 2, "optim.lr": 0.1}
ELMO: Changes = {
    "model.kernels": (1, 2),
    "model.filters": (8, 8),
    "model.layers": 2,
    "model.width": 16,
    "model.projection": 8,
    "optim.schedule.warmup": 5,
}
TAGGER: Changes = {"data.validation": 0.3, "optim.schedule.warmup": 5}
BERT: Changes = {
    "model.layers": 1,
    "model.heads": 2,
    "model.width": 32,
    "model.init_std": 0.1,
    "data.context": 32,
    "data.validation": 0.3,
    "optim.schedule.warmup": 5,
}
PASSAGES: Changes = {"model.width": 16, "data.length": 40, "data.subsample": 0.0, "objective.centres": 8}
SPEECH: Changes = {
    "model.width": 16,
    "model.kernel": 3,
    "data.features.mels": 8,
    "data.features.hop": 0.02,
    "data.strings.number": 0,
    "data.made_up.voices": 4,
    "data.made_up.takes": 1,
    "data.max_length": 16,
    "optim.schedule.warmup": 5,
}
CONFORMER: Changes = SPEECH | {"model.layers": 1, "model.heads": 2, "model.subsampling": 2}
AED: Changes = CONFORMER | {"model.decoder_layers": 1}
LAS: Changes = SPEECH | {"model.layers": 2, "model.attention_width": 8}
PAIR_ROW = "{number}\t{text}\t{second}\t{label}\n"
RNN: Changes = {"model.layers": 1, "model.width": 16, "model.embedding_width": 16, "data.context": 8, "data.lanes": 32}
SHRINK: dict[str, Callable[[Path], Changes]] = {
    "fasttext/classify": lambda folder: (
        {"model.width": 8, "data.buckets": 60, "data.maxn": 3, "data.path": str(labelled_file(folder, "{text}\t{label}\n"))}
    ),
    "gpt/quickstart": lambda folder: GPT | {"data.megabytes": 0.1},
    "gpt/text": lambda folder: GPT | DROPOUT | {"data.path": str(text_file(folder))},
    "llama/text": lambda folder: GPT | {"model.kv_heads": 1, "data.path": str(text_file(folder))},
    "llama/python": lambda folder: GPT | {"model.kv_heads": 1, "data.megabytes": 0.1},
    "rnn/text": lambda folder: RNN | {"data.path": str(text_file(folder)), "optim.schedule.warmup": 5},
    "min_gru/text": lambda folder: {
        "model.layers": 1,
        "model.width": 16,
        "data.context": 8,
        "data.lanes": 32,
        "data.path": str(text_file(folder)),
        "optim.schedule.warmup": 5,
    },
    "lstm/python": lambda folder: RNN | {"data.megabytes": 0.1, "data.validation_context": 32, "optim.schedule.warmup": 5},
    "lstm/shakespeare_char": lambda folder: (
        RNN | {"data.path": str(text_file(folder)), "data.validation_context": 32, "optim.schedule.warmup": 5}
    ),
    "lstm/ptb": lambda folder: RNN | {"model.layers": 2} | word_files(folder),
    "lstm/ptb_char": lambda folder: RNN | word_files(folder),
    "lstm/ptb_cpu": lambda folder: RNN | word_files(folder) | {"optim.schedule.warmup": 5},
    "transformer/numbers": lambda folder: SEQ2SEQ | {"data.pairs": 200, "data.limit": 1000, "data.max_length": 30},
    **{
        f"transformer/numbers_{name}": lambda folder: SEQ2SEQ | {"data.pairs": 90, "data.limit": 100, "data.max_length": 16}
        for name in ("scheduled", "risk", "policy")
    },
    "transformer/multi30k_risk": lambda folder: SEQ2SEQ | translation(folder) | {"objective.samples": 2},
    "transformer/pairs": lambda folder: SEQ2SEQ | {"data.path": str(pairs_file(folder)), "data.max_length": 12},
    "transformer/multi30k": lambda folder: SEQ2SEQ | translation(folder),
    "summaries/pointer_generator": lambda folder: WORDS | {"data.path": str(pairs_file(folder)), "data.max_length": 12},
    "questions/pointer_generator": lambda folder: WORDS | {"data.paragraphs": 200, "data.max_length": 60},
    "questions/t5": lambda folder: T5 | {"data.paragraphs": 200, "data.max_length": 60, "data.vocabulary": 300},
    "dialogue/transformer": lambda folder: WORDS | {"data.dialogues": 300, "data.max_length": 40},
    "detr/shapes": lambda folder: {
        "model.layers": 1,
        "model.heads": 2,
        "model.width": 16,
        "model.channels": (8,),
        "model.queries": 4,
        "data.side": 24,
        "data.examples": 200,
        "optim.schedule.warmup": 5,
    },
    "t5/tasks": lambda folder: T5 | {"data.examples": 100, "data.max_length": 40, "data.vocabulary": 300},
    "labels/sigmoid": lambda folder: {"model.width": 8, "data.buckets": 60, "data.path": str(label_sets_file(folder))},
    "labels/generated": lambda folder: WORDS | {"data.path": str(label_sets_file(folder)), "data.max_length": 12},
    "parser/transformer": lambda folder: WORDS | {"data.trees": 120, "data.max_length": 60},
    "parser/rnn": lambda folder: {"model.width": 16, "data.trees": 120, "data.max_length": 60, "optim.schedule.warmup": 5},
    "pointer_generator/names": lambda folder: WORDS | {"data.pairs": 300},
    "pointer_generator/pairs": lambda folder: WORDS | {"data.path": str(pairs_file(folder)), "data.max_length": 12},
    "pointer/sort": lambda folder: POINTER,
    "pointer/hull": lambda folder: POINTER | {"model.layers": 1},
    "pointer/sequences": lambda folder: POINTER | {"data.path": str(orders_file(folder)), "data.validation": 0.3},
    "rnn_seq2seq/numbers": lambda folder: RNN_SEQ2SEQ | {"data.pairs": 200, "data.limit": 1000, "data.max_length": 30},
    "rnn_seq2seq/reverse": lambda folder: RNN_SEQ2SEQ | {"data.pairs": 200, "data.longest": 6},
    "rnn_seq2seq/pairs": lambda folder: RNN_SEQ2SEQ | {"data.path": str(pairs_file(folder)), "data.max_length": 12},
    "rnn_seq2seq/multi30k": lambda folder: RNN_SEQ2SEQ | translation(folder),
    "rnn_seq2seq/multi30k_risk": lambda folder: RNN_SEQ2SEQ | translation(folder) | {"objective.samples": 2, "train.seed": 2},
    "nat/numbers": lambda folder: SEQ2SEQ | {"data.pairs": 200, "data.limit": 1000, "data.max_length": 30, "objective.candidates": 2},
    "nat/pairs": lambda folder: SEQ2SEQ | {"data.path": str(pairs_file(folder)), "data.max_length": 12, "optim.schedule.warmup": 5},
    "nat/multi30k": lambda folder: SEQ2SEQ | translation(folder) | {"optim.schedule.warmup": 5},
    "nat/multi30k_cut": lambda folder: SEQ2SEQ | translation(folder) | CUT,
    "t5/text": lambda folder: T5 | {"data.path": str(text_file(folder)), "data.vocabulary": 300, "data.context": 24},
    "t5/novels": lambda folder: T5 | {"data.path": str(text_file(folder)), "data.vocabulary": 300, "data.context": 24},
    "t5/pairs": lambda folder: T5 | {"data.path": str(pairs_file(folder)), "data.max_length": 12, "data.tokenizer": "bytes"},
    "t5/sst2": lambda folder: T5 | {"data.path": str(pairs_file(folder)), "data.max_length": 12, "data.tokenizer": "bytes"},
    "gpt/bytes": lambda folder: GPT | {"data.megabytes": 0.1},
    "gpt/shakespeare_char": lambda folder: GPT | {"data.path": str(text_file(folder))},
    "gpt/shakespeare_cpu": lambda folder: GPT | {"data.path": str(text_file(folder))},
    "gpt/shards": lambda folder: (
        GPT | {"data.path": shards_folders(folder), "data.weights": (3.0, 1.0), "data.validation": 0.2, "train.micro_batch": 0}
    ),
    "gpt/classical": lambda folder: GPT | {"data.path": shards_folders(folder), "data.validation": 0.2},
    "gpt/speedrun": lambda folder: GPT | {"data.path": marked_shards(folder), "data.validation": 0.2},
    "gpt/novels": lambda folder: GPT | {"data.path": str(text_file(folder)), "data.tokenizer": "bytes"},
    "gpt/classify": lambda folder: (
        FRAMED | {"data.path": str(labelled_file(folder, "{text}\t{second}\t{label}\n")), "data.both_orders": True}
    ),
    "gpt/choose": lambda folder: FRAMED | {"data.path": str(choices_file(folder))},
    "classifier/digits": lambda folder: DIGITS | {"model.hidden": (16,)},
    "classifier/mnist": lambda folder: {"model.hidden": (16,), "data.path": str(idx_folder(folder))},
    "classifier/images": lambda folder: CONV | {"data.path": str(image_folder(folder)), "data.size": 8, "data.augment.crop": 1},
    "regression/table": lambda folder: {"model.hidden": (16,), "data.path": str(numbers_file(folder))},
    "classifier/table": lambda folder: {"model.hidden": (16,), "data.path": str(table_file(folder))},
    "resnet/digits": lambda folder: DIGITS | STAGES,
    "resnet/images": lambda folder: DIGITS | STAGES | PHOTOGRAPHS | {"data.path": str(image_folder(folder))},
    "resnet/cifar10": lambda folder: DIGITS | STAGES | CIFAR | {"data.path": str(cifar_folder(folder)), "data.size": 8},
    "preact_resnet/digits": lambda folder: DIGITS | PREACT,
    "preact_resnet/cifar10": lambda folder: DIGITS | PREACT | CIFAR | {"data.path": str(cifar_folder(folder)), "data.size": 8},
    "densenet/digits": lambda folder: DIGITS | DENSE,
    "densenet/images": lambda folder: DIGITS | DENSE | PHOTOGRAPHS | {"data.path": str(image_folder(folder))},
    "densenet/cifar10": lambda folder: DIGITS | DENSE | CIFAR | {"data.path": str(cifar_folder(folder)), "data.size": 8},
    "highway/digits": lambda folder: DIGITS | {"model.layers": 3, "model.channels": 4, "model.pool_every": 2},
    "vit/digits": lambda folder: DIGITS | VIT,
    "vit/images": lambda folder: DIGITS | VIT | {"data.path": str(image_folder(folder)), "data.size": 16},
    "vit/cifar10": lambda folder: DIGITS | VIT | CIFAR | {"data.path": str(cifar_folder(folder)), "data.size": 8},
    "swin/digits": lambda folder: DIGITS | SWIN,
    "swin/images": lambda folder: DIGITS | SWIN | {"data.path": str(image_folder(folder)), "data.size": 16},
    "swin/cifar10": lambda folder: DIGITS | SWIN | CIFAR | {"data.path": str(cifar_folder(folder)), "data.size": 8},
    "classifier/digits_extractor": lambda folder: CONV,
    "classifier/mnist_extractor": lambda folder: CONV | {"data.path": str(idx_folder(folder, 8)), "data.validation": 0.2},
    "classifier/fashion_extractor": lambda folder: CONV | {"data.path": str(idx_folder(folder, 8)), "data.validation": 0.2},
    "classifier/cifar10_extractor": lambda folder: CONV | {"data.path": str(cifar_folder(folder)), "data.size": 8, "data.augment.crop": 1},
    "vae/digits": lambda folder: DIGITS | {"model.hidden": (32,), "model.latent": 4},
    "vae/beta": lambda folder: DIGITS | {"model.hidden": (32,), "model.latent": 4},
    "vae/inpainting": lambda folder: DIGITS | {"model.hidden": (32,), "model.latent": 4},
    "vae/mnist_mlp": lambda folder: CODE | {"data.path": str(idx_folder(folder, 8))},
    "vae/mnist": lambda folder: CODE | CONV | {"data.path": str(idx_folder(folder, 8))},
    "vae/fashion": lambda folder: CODE | CONV | SMOOTH | {"data.path": str(idx_folder(folder, 8))},
    "vae/cifar10": lambda folder: CODE | CONV | SMOOTH | {"data.path": str(cifar_folder(folder)), "data.size": 8},
    "vae/images": lambda folder: CODE | CONV | SMOOTH | {"data.path": str(image_folder(folder)), "data.size": 8},
    "conformer_ctc/speech": lambda folder: CONFORMER,
    "conformer_ctc/digits": lambda folder: CONFORMER,
    "transducer/digits": lambda folder: CONFORMER,
    "transducer/pruned": lambda folder: CONFORMER,
    "las/digits": lambda folder: LAS,
    "conformer_aed/digits": lambda folder: AED,
    "conformer_aed/german": lambda folder: AED,
    "vae/conditional_digits": lambda folder: CODE,
    "vae/conditional_mnist": lambda folder: CODE | CONV | {"data.path": str(idx_folder(folder, 8))},
    "vae/m2_digits": lambda folder: CODE | {"data.labelled": 0.3},
    "vae/m2_mnist": lambda folder: (
        CODE
        | {"model.classifier_channels": (4, 8), "data.path": str(idx_folder(folder, 8)), "data.labelled": 0.3, "data.repeat_labelled": 2}
    ),
    "vae/semi_supervised": lambda folder: DIGITS | {"model.hidden": (32,), "model.latent": 4, "data.labelled": 0.3},
    "gan/digits": lambda folder: {"model.generator": (32,), "model.discriminator": (32,), "model.latent": 4, "model.dropout": 0.1},
    "gan/mnist": lambda folder: GAN | {"data.path": str(idx_folder(folder))},
    "gan/ring": lambda folder: RING,
    "gan/conditional_digits": lambda folder: GAN,
    "gan/conditional_mnist": lambda folder: DCGAN | {"data.path": str(idx_folder(folder, 8))},
    "gan/semi_digits": lambda folder: GAN | {"data.labelled": 0.3, "data.repeat_labelled": 2},
    "gan/semi_mnist": lambda folder: GAN | {"data.path": str(idx_folder(folder)), "data.labelled": 0.3, "data.repeat_labelled": 2},
    "wgan/ring": lambda folder: RING,
    "wgan/cifar10": lambda folder: DCGAN | {"data.path": str(cifar_folder(folder)), "data.size": 8},
    "wgan_gp/ring": lambda folder: RING,
    "wgan_gp/digits": lambda folder: GAN,
    "wgan_gp/fashion": lambda folder: DCGAN | {"data.path": str(idx_folder(folder, 8))},
    "wgan_gp/cifar10": lambda folder: DCGAN | {"data.path": str(cifar_folder(folder)), "data.size": 8},
    "wgan_gp/images": lambda folder: DCGAN | {"data.path": str(image_folder(folder)), "data.size": 8},
    "dcgan/digits": lambda folder: DCGAN,
    "dcgan/mnist": lambda folder: DCGAN | {"data.path": str(idx_folder(folder, 8))},
    "dcgan/fashion": lambda folder: DCGAN | {"data.path": str(idx_folder(folder, 8))},
    "dcgan/cifar10": lambda folder: DCGAN | {"data.path": str(cifar_folder(folder)), "data.size": 8},
    "dcgan/images": lambda folder: DCGAN | {"data.path": str(image_folder(folder)), "data.size": 8},
    "bigan/digits": lambda folder: {"model.hidden": (64, 64), "model.latent": 8},
    "bigan/mnist": lambda folder: {"model.hidden": (64, 64), "model.latent": 8, "data.path": str(idx_folder(folder, 8))},
    "pix2pix/digits": lambda folder: {"model.width": 4},
    "pix2pix/mnist": lambda folder: {"model.width": 4, "model.patch_layers": 1, "data.path": str(idx_folder(folder)), "data.size": 8},
    "pix2pix/facades": lambda folder: HALVES | {"data.path": str(halves_folder(folder))},
    "pix2pix/pairs": lambda folder: HALVES | {"data.path": str(halves_folder(folder))},
    "cyclegan/digits": lambda folder: {"model.width": 4, "model.blocks": 1},
    "cyclegan/mnist": lambda folder: CYCLE | {"data.path": "", "data.size": 0},
    "cyclegan/folders": lambda folder: CYCLE | SMALL_WINDOWS | {f"data.{place}": str(image_folder(folder)) for place in ("path", "other")},
    "rbm/digits": lambda folder: {"model.hidden": 16},
    "rbm/persistent": lambda folder: {"model.hidden": 16, "objective.particles": 20, "objective.sweeps": 2},
    "rbm/mnist": lambda folder: RBM | {"data.path": str(idx_folder(folder))},
    "rbm/images": lambda folder: RBM | {"data.path": str(image_folder(folder)), "data.size": 9, "data.validation": 0.3},
    "boltzmann/digits": lambda folder: {"model.hidden": 4, "objective.hidden": 4, "objective.particles": 20},
    "hopfield/patterns": lambda folder: {"data.units": 49, "data.patterns": 3, "data.copies": 8},
    "hopfield/digits": lambda folder: {},
    "realnvp/moons": lambda folder: FLOW,
    "maf/moons": lambda folder: FLOW,
    "iaf/lobes": lambda folder: FLOW | {"data.validation_examples": 64},
    "iaf/distilled": lambda folder: {
        "model.teacher.layers": 2,
        "model.student.layers": 2,
        "data.examples": 500,
        "optim.teacher.schedule.warmup": 5,
        "optim.student.schedule.warmup": 5,
    },
    "planar/lobes": lambda folder: {"model.layers": 4, "data.validation_examples": 64, "optim.schedule.warmup": 5},
    "maf/digits": lambda folder: DIGITS | {"model.layers": 2, "model.hidden": (32,)},
    "maf/mnist": lambda folder: DIGITS | {"model.layers": 2, "model.hidden": (32,), "data.path": str(idx_folder(folder, 6))},
    "realnvp/digits": lambda folder: REALNVP,
    "realnvp/mnist": lambda folder: REALNVP | {"data.path": str(idx_folder(folder, 12))},
    "realnvp/cifar10": lambda folder: REALNVP | {"data.path": str(cifar_folder(folder)), "data.size": 8, "data.validation": 0.3},
    "realnvp/images": lambda folder: REALNVP | {"data.path": str(image_folder(folder)), "data.size": 8, "data.validation": 0.3},
    "pixelcnn/digits": lambda folder: PIXELCNN,
    "pixelcnn/mnist": lambda folder: PIXELCNN | {"data.path": str(idx_folder(folder, 8))},
    "pixelcnn/images": lambda folder: PIXELCNN | {"data.path": str(image_folder(folder)), "data.size": 6, "data.validation": 0.3},
    "gated_pixelcnn/digits": lambda folder: PIXELCNN,
    "gated_pixelcnn/mnist": lambda folder: PIXELCNN | {"data.path": str(idx_folder(folder, 8))},
    "word2vec/source": lambda folder: {"model.width": 16, "data.path": str(text_file(folder)), "data.subsample": 0.0},
    "word2vec/text": lambda folder: PASSAGES | {"data.path": str(text_file(folder))},
    "word2vec/cbow": lambda folder: PASSAGES | {"data.path": str(text_file(folder))},
    "word2vec/hierarchical": lambda folder: PASSAGES | {"data.path": str(text_file(folder))},
    "word2vec/nce": lambda folder: {"model.width": 16, "data.path": str(text_file(folder)), "data.subsample": 0.0},
    "word2vec/softmax": lambda folder: {"model.width": 16, "data.path": str(text_file(folder)), "data.subsample": 0.0},
    "perceiver/source": lambda folder: GPT | DROPOUT | {"model.layers": 3, "model.latents": 8, "data.megabytes": 0.1},
    "birthplace/reference": reads,
    "birthplace/perceiver": lambda folder: reads(folder) | {"model.latents": 16},
    "birthplace/perceiver_ar": lambda folder: mixes(folder) | {"model.latents": 16, "data.predicted_tokens": 16, "data.max_length": 40},
    "birthplace/rotary": mixes,
    "birthplace/best": mixes,
    "birthplace/questions": learns_to_answer,
    "birthplace/questions_mixed": learns_to_answer,
    "birthplace/questions_perceiver": learns_to_answer,
    "birthplace/questions_only": learns_to_answer,
    "birthplace/made_up": reads,
    "birthplace/made_up_perceiver": lambda folder: (
        reads(folder) | {"model.latents": 16, "data.predicted_tokens": 16, "data.max_length": 40}
    ),
    "birthplace/made_up_questions": learns_to_answer,
    "birthplace/made_up_only": learns_to_answer,
    "bert/pretrain": lambda folder: PRETRAIN | {"data.path": str(text_file(folder)), "data.context": 24},
    "bert/pretrain_no_pairs": lambda folder: PRETRAIN | {"data.path": str(text_file(folder)), "data.context": 24},
    "bert/pretrain_left_to_right": lambda folder: PRETRAIN | {"data.path": str(text_file(folder)), "data.context": 24},
    "bert/pairs": lambda folder: {
        "model.layers": 1,
        "model.heads": 2,
        "model.width": 32,
        "data.context": 32,
        "data.path": str(text_file(folder)),
        "optim.schedule.warmup": 5,
    },
    "bert/classify": lambda folder: labelled_texts(folder, "{text}\t{label}\n"),
    "bert/score": lambda folder: labelled_texts(folder, "{text}\t{second}\t{label}.5\n"),
    "bert/sst2": lambda folder: labelled_texts(folder, "{text} \t{label}\n", "sentence\tlabel\n"),
    "bert/cola": lambda folder: (
        labelled_texts(folder, "gj04\t{label}\t\t{text}\n") | {"data.validation_path": str(folder / "labelled.tsv")}
    ),
    "bert/mrpc": lambda folder: labelled_texts(
        folder, "{label}\t7\t8\t{text}\t{second}\n", "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    ),
    "bert/rte": lambda folder: labelled_texts(folder, PAIR_ROW, "index\tsentence1\tsentence2\tlabel\n"),
    "bert/qnli": lambda folder: labelled_texts(folder, PAIR_ROW, "index\tquestion\tsentence\tlabel\n"),
    "bert/qqp": lambda folder: labelled_texts(
        folder, "{number}\t1\t2\t{text}\t{second}\t{label}\n", "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
    ),
    "bert/mnli": lambda folder: labelled_texts(
        folder, "{number}\tfiction\t{text}\t{second}\tneutral\t{label}\n", "index\tgenre\tsentence1\tsentence2\tlabel1\tgold_label\n"
    ),
    "bert/stsb": lambda folder: labelled_texts(folder, "{number}\t{text}\t{second}\t{label}.5\n", "index\tsentence1\tsentence2\tscore\n"),
    "bert/choice": lambda folder: BERT | {"data.path": str(choices_file(folder)), "data.tokenizer": "bert_words"},
    "bert/answers": answers,
    "bert/squad": answers,
    "bert/tags": tags,
    "bert/brown": lambda folder: tags(folder, slashes=True),
    "audio_classifier/digits": lambda folder: {
        "data.made_up.voices": 4,
        "data.made_up.takes": 1,
        "data.validation": 0.25,
        "data.seconds": 0.5,
        "data.features.mels": 16,
        "model.channels": (4, 8),
        "model.width": 16,
        "model.dropout": 0.0,
    },
    "speaker/voices": lambda folder: {
        "data.sample_rate": 8000,
        "data.seconds": 0.2,
        "data.speakers": 3,
        "data.utterances": 20,
        "data.validation": 0.3,
        "data.mels": 12,
        "model.width": 16,
        "model.embedding": 8,
    },
    "elmo/pretrain": lambda folder: ELMO | {"data.path": str(text_file(folder)), "data.vocabulary": 30},
    "tagger/elmo": lambda folder: (
        ELMO | TAGGER | {"data.path": str(tags_file(folder)), "model.tagger_width": 8, "model.frozen": False, "data.context": 64}
    ),
    "tagger/words": lambda folder: (
        TAGGER | {"data.path": str(tags_file(folder)), "model.embedding": 16, "model.width": 8, "data.context": 16}
    ),
}
"""What makes each recipe small; one that is missing here fails its contract with the advice to add it."""

BY_HEART: Changes = {"train.steps": 100, "optim.lr": 1e-2}
LEARN: dict[str, Changes] = {
    "gan/digits": {"train.steps": 150, "optim.discriminator.lr": 2e-3, "optim.generator.lr": 2e-3},
    "gan/mnist": {"train.steps": 150, "optim.discriminator.lr": 2e-3, "optim.generator.lr": 2e-3},
    "vae/semi_supervised": {"train.steps": 150, "optim.lr": 5e-3},
    "wgan/ring": {"train.steps": 30},
    "wgan/cifar10": {"train.steps": 40, "optim.lr": 1e-3, "train.batch": 16},
    **{f"wgan_gp/{name}": {"train.steps": 30, "optim.generator.lr": 3e-3, "optim.discriminator.lr": 3e-3} for name in ("digits", "ring")},
    **{
        f"wgan_gp/{name}": {"train.steps": 40, "optim.generator.lr": 5e-3, "optim.discriminator.lr": 5e-3, "train.batch": 16}
        for name in ("fashion", "cifar10", "images")
    },
    **{  # reconstructions, which no loss asks for, need more steps
        f"bigan/{name}": {
            "train.steps": 250,
            "train.batch": 64,
            "optim.generator.lr": 1e-3,
            "optim.discriminator.lr": 1e-3,
            "progress.metric": "frechet_pixels",
        }
        for name in ("digits", "mnist")
    },
    **{f"dcgan/{name}": {"train.steps": 40, "optim.generator.lr": 2e-3} for name in ("mnist", "fashion", "cifar10", "images")},
    **{
        f"cyclegan/{name}": {"train.steps": 100, "optim.generators.lr": 2e-3, "optim.discriminators.lr": 1e-3, "train.batch": 8}
        for name in ("digits", "mnist", "folders")
    },
    "rbm/persistent": {"train.steps": 100},
    "planar/lobes": {"optim.lr": 2e-2},
    **{f"realnvp/{name}": {"train.steps": 25, "optim.lr": 1e-2} for name in ("digits", "mnist", "cifar10", "images")},
    "bert/pairs": {"train.steps": 60},
    "transformer/numbers": {"optim.lr": 1e-2, "optim.schedule.warmup": 5},
    "transformer/numbers_scheduled": {"optim.lr": 1e-2, "optim.schedule.warmup": 5},
    **{
        f"transformer/numbers_{name}": {"optim.lr": 1e-2, "objective.samples": 2, "objective.cross_entropy_weight": 1.0}
        for name in ("risk", "policy")
    },
    "transformer/multi30k_risk": {"optim.lr": 5e-3, "model.dropout": 0.0, "train.batch": 1, "objective.cross_entropy_weight": 1.0},
    "transformer/pairs": {"optim.lr": 5e-3, "optim.schedule.kind": "constant", "optim.schedule.warmup": 5, "model.dropout": 0.0},
    "transformer/multi30k": {
        "optim.lr": 5e-3,
        "optim.schedule.kind": "constant",
        "optim.schedule.warmup": 5,
        "model.dropout": 0.0,
        "train.batch": 1,
    },
    **{
        f"pointer_generator/{name}": {"optim.lr": 1e-2, "model.dropout": 0.0, "progress.metric": metric}
        for name, metric in {"names": "token_bleu", "pairs": "exact"}.items()
    },
    "summaries/pointer_generator": {"optim.lr": 1e-2, "model.dropout": 0.0, "progress.metric": "exact"},
    "questions/pointer_generator": {"optim.lr": 1e-2, "progress.metric": "accuracy"},
    "questions/t5": {"optim.lr": 1e-2, "progress.metric": "accuracy"},
    "dialogue/transformer": {"optim.lr": 1e-2},
    "detr/shapes": {"optim.lr": 1e-2, "progress.metric": "giou", "progress.goal": "min"},
    "t5/tasks": {"optim.lr": 1e-2, "progress.metric": "accuracy"},
    "labels/sigmoid": {"train.steps": 60, "optim.lr": 3e-2},
    "labels/generated": {"train.steps": 60, "optim.lr": 1e-2, "model.dropout": 0.0},
    "parser/transformer": {"optim.lr": 1e-2},
    "parser/rnn": {"optim.lr": 2e-2},
    "rnn_seq2seq/numbers": {"optim.lr": 2e-2, "model.width": 32, "optim.schedule.kind": "constant"},
    "rnn_seq2seq/reverse": {"optim.lr": 2e-2, "model.width": 32, "optim.schedule.kind": "constant", "train.steps": 200},
    "rnn_seq2seq/pairs": {"optim.lr": 3e-2, "model.dropout": 0.0},
    "rnn_seq2seq/multi30k": {"optim.lr": 3e-2, "model.dropout": 0.0, "train.batch": 1},
    "rnn_seq2seq/multi30k_risk": {"optim.lr": 1e-2, "model.dropout": 0.0, "train.batch": 1, "objective.cross_entropy_weight": 1.0},
    **{f"nat/{name}": {"optim.lr": 5e-3, "model.dropout": 0.0} for name in ("numbers", "pairs")},
    **{f"nat/{name}": {"optim.lr": 5e-3, "model.dropout": 0.0, "train.batch": 1} for name in ("multi30k", "multi30k_cut")},
    "t5/pairs": {"optim.lr": 1e-2},
    "t5/sst2": {"optim.lr": 1e-2, "model.dropout": 0.0},
    "t5/novels": {"model.dropout": 0.0},
    **{f"classifier/{name}_extractor": {"optim.lr": 1e-2} for name in ("digits", "mnist", "fashion", "cifar10")},
    **{f"gpt/{name}": {"train.steps": 40, "optim.lr": 1e-2} for name in ("classify", "choose")},
    **{
        f"bert/{name}": {"train.steps": 40, "optim.lr": 3e-3}
        for name in ("classify", "score", "sst2", "cola", "mrpc", "rte", "qnli", "qqp", "mnli", "stsb", "choice")
    },
    **{f"bert/{name}": {"train.steps": 60, "optim.lr": 5e-3} for name in ("answers", "squad", "tags", "brown")},
    "speaker/voices": {"train.steps": 60, "optim.lr": 1e-2},
    "audio_classifier/digits": {"train.steps": 60, "optim.lr": 1e-2},
    "densenet/images": {"progress.metric": "loss", "progress.goal": "min"},  # untrained it is right about all six images
    "elmo/pretrain": {"train.steps": 30, "optim.lr": 1e-2},
    "tagger/elmo": {"train.steps": 40, "optim.lr": 1e-2},
    "tagger/words": {"train.steps": 60, "optim.lr": 2e-2},
    **{
        f"birthplace/{name}": {"train.steps": 100, "optim.lr": 1e-2}
        for name in ("questions", "questions_only", "questions_perceiver", "made_up_questions", "made_up_only")
    },
}
"""What a recipe needs to get visibly better in about two seconds, where 100 steps at its own rate are too few or too many."""


def tiny(name: str, folder: Path, changes: Changes | None = None) -> Recipe:
    """A registered recipe made small, its files in `folder`."""
    if name not in SHRINK:
        pytest.fail(f"{name}: say in tests/contracts/tiny.py how this recipe is made small")
    return weft.recipe(name, TRAIN | SHRINK[name](folder) | (changes or {}))


def without_dropout(recipe: Recipe) -> Changes:
    """What turns off every dropout of a recipe's model, that of whole branches too."""
    return {f"model.{name}": 0.0 for name in vars(recipe.model) if name.endswith(("dropout", "drop_path"))}
