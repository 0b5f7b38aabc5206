"""`weft sample CKPT TEXT` and `weft sample CKPT --input FILE --out FILE` for models that answer a text."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.core.config import to_dict
from weft.core.errors import ConfigError
from weft.core.units import duration
from weft.data.base import Problems
from weft.data.io.text import read_text
from weft.inference.beam import Beam
from weft.inference.mask_predict import MaskPredict
from weft.inference.translate import Seq2SeqOutput, best_answers
from weft.inference.translate_file import answer_lines, fingerprint
from weft.models.base import NonAutoregressiveDecoder, offers
from weft.runs.load import Loaded
from weft.training.checkpoint import files

BEAMS = 5
"""Where nobody says how many."""


@dataclass(frozen=True)
class DecodingOptions:
    """How answers are made, by models that make all tokens at once and by those that go token by token."""

    mask_predict: MaskPredict
    beam: Beam


def answers(loaded: Loaded, prompt: str, options: DecodingOptions, n: int = 1) -> int:
    """The best answers to one text, a line each; how they came about goes to stderr."""
    if not prompt:
        raise ConfigError(f"{type(loaded.model).__name__} answers a text; give it one, for example: weft sample CKPT 'a text'")
    most = 1 if offers(loaded.model, NonAutoregressiveDecoder) else options.beam.beams
    if not 1 <= n <= most:
        more = (
            "it makes one answer, all tokens at once"
            if offers(loaded.model, NonAutoregressiveDecoder)
            else f"{most} beams find at most {most} answers"
        )
        raise ConfigError(f"--n {n}: {more}")
    for said in reply(loaded, [prompt], options)[0][:n]:
        print(said.text, flush=True)
        sure = "" if said.logprob is None else f", log-probability {said.logprob:.5f}, score {said.score:.5f}"
        print(f"({said.tokens} tokens in {said.passes} passes, ended by {said.stop}{sure})", file=sys.stderr)
    return 0


def answers_to_file(loaded: Loaded, prompt: str, source: str, target: str, options: DecodingOptions) -> int:
    """An answer on a line of its own for every line of a text; a call that was interrupted continues."""
    if prompt:
        raise ConfigError(f"--input names a file of texts, so there is no room for the prompt {prompt!r}")
    if not target:
        raise ConfigError("--input needs --out, the file to write an answer to each line to")
    problems = Problems()
    lines = read_text(source, problems).removesuffix("\n").split("\n")
    for line in problems.lines():
        print(f"data: {line}", file=sys.stderr)
    files.check_file(Path(target))
    files.make_folder(Path(target).parent)
    about: dict[str, Any] = {
        "recipe": loaded.recipe.name,
        "weights": fingerprint(loaded.model),
        "mask_predict": vars(use(loaded, options.mask_predict)),
    }
    about |= {"beam": vars(options.beam)}
    with files.writing(Path(target).parent):
        answer_lines(
            lambda texts: [best[0].text for best in reply(loaded, texts, options)], lines, Path(target), about, predictor(len(lines))
        )
    print(f"{len(lines):,} answers written to {target}")
    return 0


def reply(loaded: Loaded, texts: Sequence[str], options: DecodingOptions) -> list[list[Seq2SeqOutput]]:
    gpu, beam = next(loaded.model.parameters()).is_cuda, options.beam
    settings = {
        "beams": beam.beams,
        "length_penalty": beam.length_penalty,
        "coverage_penalty": beam.coverage_penalty,
        "mask_predict": use(loaded, options.mask_predict),
    }
    return best_answers(loaded.model, loaded.tokenizer, texts, batch=256 if gpu else 64, **settings)  # type: ignore[arg-type]


def use(loaded: Loaded, mask_predict: MaskPredict) -> MaskPredict:
    """What was asked for, and what the recipe says where nothing was."""
    model = loaded.model
    if not offers(model, NonAutoregressiveDecoder):
        if mask_predict != MaskPredict():
            raise ConfigError(f"{type(model).__name__} answers token by token; --iterations and --length-factor are for others")
        return mask_predict
    return mask_predict.after(to_dict(loaded.recipe.objective)).resolve(model)


def predictor(total: int) -> Callable[[int], None]:
    """Says how far it is and how long it still takes, from the pace since it began."""
    begin: list[tuple[float, int]] = []

    def tell(done: int) -> None:
        now = time.perf_counter()
        begin.append((now, done))
        since, first = begin[0]
        left = f", {duration((now - since) / (done - first) * (total - done))} left" if done > first else ""
        print(f"{done:,} of {total:,} lines{left}", file=sys.stderr, flush=True)

    return tell
