"""`weft sample CKPT [PROMPT…]`: text that continues a prompt, what a model tells of a text or image, images, points, nearest words."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from weft.cli import answering, console, pictures
from weft.cli.console import quoted
from weft.cli.options import flags
from weft.cli.speech import transcribing
from weft.core.config import Config
from weft.core.errors import CapabilityError, ConfigError
from weft.inference.beam import Beam
from weft.inference.generate import Generation, can_continue, generate, need_continuing
from weft.inference.mask_predict import MaskPredict
from weft.inference.neighbours import neighbours
from weft.inference.predict import find
from weft.inference.predict.base import Predictor
from weft.inference.predict.run import tell
from weft.inference.predict.transcripts import Transcripts
from weft.inference.quantize import Precision, quantize_model
from weft.inference.request import GREEDY
from weft.inference.speech.recognise import Decoding
from weft.inference.translate import can_answer
from weft.models.base import Detects, Embeds, NextTokenLogits, NonAutoregressiveDecoder, Samples, TranslatesImages, offers
from weft.runs.load import Loaded, load
from weft.training.checkpoint import files

ABOUT = """Draws from a trained model: a language model continues PROMPT, an image model draws a grid or fills in what is missing of
an image, a density in the plane is drawn as points, word vectors give neighbours. A model that was trained to tell something is asked:
a text or two, a text and its choices, a question and a paragraph, image files, sounds. One that translates images is given them by --input.
CKPT is a run (its best checkpoint), RUN@last or RUN@1000."""


@dataclass(frozen=True, kw_only=True)
class Options(Config):
    n: int = 0
    """How many: texts (0 is 1), images (0 is 64, or 1 for each that is completed), points (0 is 2000), neighbours of a word (0 is 10)."""
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
    beams: int = 0
    """Search for the likeliest texts with so many hypotheses, of which --n are shown; 0 draws, and is 5 for a model that answers a text."""
    length_penalty: float = 0.6
    """Exponent by which beam search favours longer texts; 0 compares log-probabilities."""
    coverage_penalty: float = 0.0
    """How much it counts in beam search that an answer left parts of its source unattended."""
    stream: bool = False
    """Print a text token by token as it is made, which a terminal gets in any case."""
    seed: int = 0
    """Of the draws; the same seed gives the same samples."""
    label: str = ""
    """Class of the images to draw, by name or number, for a model that draws the class it is asked for."""
    latents: Literal["none", "interpolate", "traverse"] = "none"
    """interpolate: each row of images goes from one latent to another; traverse: each row moves one dimension of a latent."""
    inpaint: str = ""
    """Image file, or a folder of them, of which the part that --mask names is filled in (inpainting)."""
    mask: str = "lower"
    """What is missing: lower, upper, left or right half, middle, or an image file that is white there."""
    direction: Literal["a2b", "b2a"] = "a2b"
    """Direction in which an image translation model of two domains a and b translates."""
    stop: str = ""
    """Text at which a continuation ends; it is left out."""
    out: str = ""
    """File to write; empty prints text, and puts images into RUN/samples/."""
    input: str = ""
    """Text file with a text on each line, for a model that answers; the answers become the lines of --out. Or an image or a folder of
    images, for a model that translates them, where what it makes of each goes to the folder --out, or that finds objects in them."""
    iterations: int = 0
    """Passes of a model that makes all tokens of an answer at once; 0 is as many as its recipe says."""
    length_factor: float = 1.0
    """Such an answer gets its predicted length times this; 2 is twice as many tokens."""
    times: bool = False
    """Of speech: tell when each word was said, where the model has a head for CTC."""
    fusion: str = ""
    """Of speech: a run of a language model over the same tokens, whose opinion counts in beam search (shallow fusion)."""
    fusion_weight: float = 0.3
    """How much its log-probabilities count beside the recogniser's."""
    fusion_bonus: float = 0.0
    """What each token adds to a hypothesis, as a language model alone favours short texts."""
    draft: str = ""
    """A smaller draft model of the same tokens for speculative decoding; the distribution of the text is the same, sooner."""
    precision: Precision = "fp32"
    """Of the weights of a model that continues a text: bf16 takes half the memory, int8 (quantized, on a CPU) a quarter; sooner done."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:1."""


DRAWING = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")
SAMPLING = ("max_new_tokens", *DRAWING, "seed", "stop", "beams", "length_penalty")


def main(words: list[str]) -> int:
    console.show_warnings()
    options, free = flags.parse(Options(), words, "weft sample", "CKPT [PROMPT…]", ABOUT)
    loaded, prompts = load(free[0], options.device), free[1:]
    quantize_model(loaded.model, options.precision)
    if options.input and not (can_answer(loaded.model) or offers(loaded.model, TranslatesImages) or offers(loaded.model, Detects)):
        raise ConfigError(
            "--input is for models that answer a text, translate images or find objects, unlike "
            f"{type(loaded.model).__name__} ({loaded.recipe.name})"
        )
    if options.inpaint:
        return pictures.inpainted(loaded, prompts, options.inpaint, options.mask, options.n or 1, options.seed, options.out)
    if find.predictor_of(loaded.recipe) is Transcripts:
        fusion = transcribing.fusion(loaded, options.fusion, options.fusion_weight, options.fusion_bonus, options.device)
        return transcribing.transcribed(loaded, prompts, Decoding(options.beams or 1, fusion), options.times, options.out)
    refuse(options, ("times", "fusion", "fusion_weight", "fusion_bonus"), "is for models that recognise speech")
    if find.predictor_of(loaded.recipe):
        return show_predictions(loaded, find.find(loaded), prompts)
    if len(prompts) > 1:
        raise ConfigError(f"expected one PROMPT, found {' '.join(prompts)}; put it into quotes")
    prompt = prompts[0] if prompts else ""
    if can_continue(loaded.model, loaded.tokenizer):
        return texts(loaded, prompt, options)
    if can_answer(loaded.model):
        refuse(options, (*DRAWING, "max_new_tokens", "stop", "draft"), "is for models that continue a text, and this one answers it")
        if offers(loaded.model, NonAutoregressiveDecoder):
            refuse(options, ("beams", "length_penalty", "coverage_penalty"), "needs beam search, and this model makes all tokens at once")
        how = answering.DecodingOptions(
            MaskPredict(iterations=options.iterations, length_factor=options.length_factor),
            Beam(options.beams or answering.BEAMS, options.length_penalty, options.coverage_penalty),
        )
        if options.input:
            return answering.answers_to_file(loaded, prompt, options.input, options.out, how)
        return answering.answers(loaded, prompt, how, options.n or 1)
    if offers(loaded.model, Detects):
        return pictures.detected(loaded, prompt, options.n, options.input, options.out)
    if offers(loaded.model, TranslatesImages):
        return pictures.translated(loaded, prompt, options.input, options.direction, options.out)
    if offers(loaded.model, Samples):
        if prompt:
            raise ConfigError(f"{type(loaded.model).__name__} draws images and takes no prompt, but was given {prompt!r}")
        return pictures.drawn(loaded, options.n, options.seed, options.label, options.latents, options.out)
    if offers(loaded.model, Embeds) and loaded.tokenizer is not None:
        return words_near(loaded, prompt, options)
    if offers(loaded.model, NextTokenLogits):
        need_continuing(loaded.model, loaded.tokenizer)
    raise CapabilityError(
        f"{type(loaded.model).__name__} ({loaded.recipe.name}) has nothing to sample: it offers none of NextTokenLogits (continues a "
        "text), Samples (draws examples), TranslatesImages (one domain into another) and Embeds (vectors of words)"
    )


def refuse(options: Options, names: Iterable[str], why: str) -> None:
    """Name a setting that would change nothing, rather than leave it unused."""
    for name in names:
        if getattr(options, name) != getattr(Options(), name):
            raise ConfigError(f"--{name.replace('_', '-')} {why}; leave it out")


def texts(loaded: Loaded, prompt: str, options: Options) -> int:
    refuse(options, ("iterations", "length_factor"), "is for models that make all tokens of an answer at once")
    if options.beams:
        drawn = DRAWING[1:] if options.temperature == GREEDY else DRAWING
        refuse(options, drawn, "changes what is drawn, and --beams draws nothing")
    else:
        refuse(options, ("length_penalty",), "needs beam search, and there is none without --beams")
    if options.coverage_penalty:
        raise ConfigError("--coverage-penalty is for models that answer a text: one that continues it has no source to cover")
    if options.out:
        files.check_file(Path(options.out))
    settings = {name: getattr(options, name) for name in SAMPLING}
    draft = load(options.draft, options.device).model if options.draft else None
    streams = (options.stream or sys.stdout.isatty()) and not (options.out or options.beams or draft) and options.n in (0, 1)
    show = Streamed(prompt) if streams else None
    made = generate(loaded.model, loaded.tokenizer, prompt, n=options.n or 1, draft=draft, on_text=show, **settings)
    text = "\n\n---\n\n".join(map(str, made))
    if options.out:
        files.deliver(Path(options.out), (text + "\n").encode())
    print(f"written to {options.out}" if options.out else show.rest(text) if show else text, flush=True)
    print(f"({', '.join(map(summary, made))}; {f'{options.beams} beams' if options.beams else f'seed {options.seed}'})", file=sys.stderr)
    return 0


class Streamed:
    """A text that is printed as it comes, behind its prompt."""

    def __init__(self, prompt: str):
        self.next, self.size = prompt, 0

    def __call__(self, piece: str) -> None:
        print(self.next + piece, end="", flush=True)
        self.size += len(self.next + piece)
        self.next = ""

    def rest(self, text: str) -> str:
        """What has not been printed of the whole text."""
        return text[self.size :]


def summary(one: Generation) -> str:
    """How a text came about."""
    searched = "" if one.logprob is None else f", log-probability {one.logprob:.5f}, score {one.score:.5f}"
    return f"{one.tokens} tokens, ended by {one.finish_reason}{searched}"


def show_predictions(loaded: Loaded, predictor: Predictor, prompts: list[str]) -> int:
    if not all(prompt.strip() for prompt in prompts or [""]):
        example = " ".join(map(quoted, predictor.asked))
        raise ConfigError(f"{type(loaded.model).__name__} ({loaded.recipe.name}) must be asked, for example: weft sample CKPT {example}")
    for title, rows in tell(predictor, prompts).items():
        print(title)
        print(console.table(rows))
    return 0


def words_near(loaded: Loaded, prompt: str, options: Options) -> int:
    if not prompt:
        raise ConfigError(f"{type(loaded.model).__name__} needs a word, for example: weft sample CKPT list")
    for word, near in neighbours(loaded.model, loaded.tokenizer, prompt, options.n or 10).items():
        print(word)
        print(console.table([(other, f"{cosine:.3f}") for other, cosine in near]))
    return 0
