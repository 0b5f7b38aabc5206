"""`weft sample CKPT [PROMPT…]`: text that continues a prompt, what a model tells of a text or image, a PNG of images, nearest words."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from torch import Tensor

from weft.cli import answering, console, flags
from weft.cli.console import quoted
from weft.config import Config
from weft.errors import CapabilityError, ConfigError
from weft.evaluation import telling
from weft.generation import walk
from weft.generation.answer import can_answer
from weft.generation.decode import can_continue, generate, need_continuing
from weft.generation.grid import draw, png
from weft.generation.neighbours import neighbours
from weft.generation.parallel import Filling
from weft.models.base import Embeds, Samples, SamplesClass, Scores, need, offers
from weft.run import Loaded, load
from weft.training import files

ABOUT = """Draws from a trained model: a language model continues PROMPT, an image model draws a grid, word vectors give neighbours.
A model that was trained to tell something is asked: a text or two, a text and its choices, a question and a paragraph, image files.
CKPT is a run (its best checkpoint), RUN@last or RUN@1000."""


@dataclass(frozen=True, kw_only=True)
class Options(Config):
    n: int = 0
    """How many: texts (0 is 1), images to draw (0 is 64) or neighbours of each word (0 is 10)."""
    max_new_tokens: int = 200
    """Longest continuation, in tokens."""
    temperature: float = 0.8
    """Divides the logits; 0 takes the likeliest token each time."""
    top_k: int = 0
    """Draw among this many likeliest tokens; 0 for all."""
    top_p: float = 1.0
    """Draw among the likeliest tokens that hold this share of the probability."""
    min_p: float = 0.0
    """Leave out tokens less likely than this share of the likeliest."""
    repetition_penalty: float = 1.0
    """Above 1, tokens that occurred already become less likely."""
    seed: int = 0
    """Of the draws; the same seed gives the same samples."""
    label: str = ""
    """Class of the images to draw, by name or number, for a model that draws the class it is asked for."""
    walk: Literal["none", "between", "along"] = "none"
    """between: each row of images goes from one latent to another; along: each row moves one dimension of a latent."""
    stop: str = ""
    """Text at which a continuation ends; it is left out."""
    out: str = ""
    """File to write; empty prints text, and puts images into RUN/samples/."""
    input: str = ""
    """Text file with a text on each line, for a model that answers; the answers become the lines of --out."""
    iterations: int = 0
    """Passes of a model that makes all tokens of an answer at once; 0 is as many as its recipe says."""
    length_factor: float = 1.0
    """Such an answer gets its foretold length times this; 2 is twice as many tokens."""
    draft: str = ""
    """A smaller run of the same tokens that guesses ahead; the text is the same, sooner."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:1."""


SAMPLING = ("max_new_tokens", "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed", "stop")


def main(words: list[str]) -> int:
    console.show_warnings()
    options, free = flags.parse(Options(), words, "weft sample", "CKPT [PROMPT…]", ABOUT)
    loaded, prompts = load(free[0], options.device), free[1:]
    if options.input and not can_answer(loaded.model):
        raise ConfigError(f"--input is for models that answer a text, and {type(loaded.model).__name__} ({loaded.recipe.name}) does not")
    if found := telling.teller(loaded.recipe):
        return told(loaded, found, prompts)
    if len(prompts) > 1:
        raise ConfigError(f"expected one PROMPT, found {' '.join(prompts)}; put it into quotes")
    prompt = prompts[0] if prompts else ""
    if can_continue(loaded.model, loaded.tokenizer):
        return texts(loaded, prompt, options)
    if can_answer(loaded.model):
        filling = Filling(iterations=options.iterations, length_factor=options.length_factor)
        if options.input:
            return answering.answers_to_file(loaded, prompt, options.input, options.out, filling)
        return answering.answers(loaded, prompt, filling)
    if offers(loaded.model, Samples):
        return images(loaded, prompt, options)
    if offers(loaded.model, Embeds) and loaded.tokenizer is not None:
        return words_near(loaded, prompt, options)
    if offers(loaded.model, Scores):
        need_continuing(loaded.model, loaded.tokenizer)
    raise CapabilityError(
        f"{type(loaded.model).__name__} ({loaded.recipe.name}) has nothing to sample: it offers none of Scores (continues a text), "
        "Samples (draws examples) and Embeds (vectors of words)"
    )


def texts(loaded: Loaded, prompt: str, options: Options) -> int:
    settings = {name: getattr(options, name) for name in SAMPLING}
    draft = load(options.draft, options.device).model if options.draft else None
    made = generate(loaded.model, loaded.tokenizer, prompt, n=options.n or 1, draft=draft, **settings)
    text = "\n\n---\n\n".join(map(str, made))
    if options.out:
        files.make_folder(Path(options.out).parent)
        files.replace(Path(options.out), (text + "\n").encode())
    print(f"written to {options.out}" if options.out else text, flush=True)
    print(f"({', '.join(f'{one.tokens} tokens, ended by {one.stop}' for one in made)}; seed {options.seed})", file=sys.stderr)
    return 0


def told(loaded: Loaded, teller: telling.Teller, prompts: list[str]) -> int:
    if not all(prompt.strip() for prompt in prompts or [""]):
        example = " ".join(map(quoted, teller.asked))
        raise ConfigError(f"{type(loaded.model).__name__} ({loaded.recipe.name}) must be asked, for example: weft sample CKPT {example}")
    for title, rows in telling.tell(loaded, prompts).items():
        print(title)
        print(console.table(list(rows)))
    return 0


def images(loaded: Loaded, prompt: str, options: Options) -> int:
    if prompt:
        raise ConfigError(f"{type(loaded.model).__name__} draws images and takes no prompt, but was given {prompt!r}")
    run = loaded.path.parent.parent if loaded.path.parent.name == "checkpoints" else loaded.path.parent
    what = f"-{quote(options.label, safe='')}" if options.label else f"-{options.walk}" if options.walk != "none" else ""
    target = Path(options.out) if options.out else run / "samples" / f"{loaded.path.name}{what}-seed{options.seed}.png"
    files.make_folder(target.parent)
    files.replace(target, png(pictures(loaded, options), columns=walk.STEPS if options.walk != "none" else 0))
    print(f"written to {target}")
    return 0


def pictures(loaded: Loaded, options: Options) -> Tensor:
    """Images drawn as the options say, (N, ...)."""
    if options.walk == "none":
        if options.label:
            need(loaded.model, SamplesClass)
        return draw(loaded.model, options.n or 64, options.seed, class_number(loaded, options.label) if options.label else None)
    if options.label:
        raise ConfigError("--label and --walk do not go together; choose one of them")
    rows = max(1, -(-options.n // walk.STEPS)) if options.n else 8
    return (walk.between if options.walk == "between" else walk.along)(loaded.model, rows, seed=options.seed)


def class_number(loaded: Loaded, label: str) -> int:
    """The number of a class that is given by its name or number."""
    names: list[str] = getattr(loaded.tokenizer, "names", [])
    number = names.index(label) if label in names else int(label) if label.isdecimal() else -1
    classes = getattr(loaded.recipe.model, "classes", 0)
    if not 0 <= number < classes:
        few = f"{', '.join(names[:10])}{', …' if len(names) > 10 else ''}"
        raise ConfigError(f"--label: {label!r} is none of the classes of {loaded.recipe.name}{f', which are {few}' if few else ''}")
    return number


def words_near(loaded: Loaded, prompt: str, options: Options) -> int:
    if not prompt:
        raise ConfigError(f"{type(loaded.model).__name__} needs a word, for example: weft sample CKPT list")
    for word, near in neighbours(loaded.model, loaded.tokenizer, prompt, options.n or 10).items():
        print(word)
        print(console.table([(other, f"{cosine:.3f}") for other, cosine in near]))
    return 0
