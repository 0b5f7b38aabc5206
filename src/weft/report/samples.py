"""What a model can show of itself at the end of a run: a text, a sheet of images, or the neighbours of a few words."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from weft.core import html
from weft.core.errors import WeftError
from weft.data.base import DataLoader
from weft.data.tokenizers.base import ClassNames
from weft.models.base import Embeds, Samples, TranslatesImages, offers
from weft.report import plane
from weft.visual.grids import draw as draw_images
from weft.visual.grids import png
from weft.visual.image_translation import source_and_translation

if TYPE_CHECKING:
    from weft.runs.load import Loaded

TOKENS, IMAGES, POINTS, WORDS, TRANSLATED = 300, 40, 1000, 8, 8


@dataclass(frozen=True, repr=False)
class Sample:
    """A title, and text, rows of a table, or an image as a data URI."""

    title: str
    text: str = ""
    rows: tuple[tuple[str, str], ...] = ()
    image: str = ""

    def __repr__(self) -> str:
        return f"Sample({self.title}{f': {self.text}' if self.text else ''})"

    def _repr_html_(self) -> str:
        drawn = f'<img src="{self.image}" alt="{escape(self.title)}">' if self.image else ""
        return (html.pairs(self.title, self.rows) if self.rows else f"<b>{escape(self.title)}</b><br>{drawn}") + html.text("", self.text)

    def words(self) -> str:
        """The text, or the rows of the table; nothing of an image."""
        return self.text or "\n".join("\t".join(row) for row in self.rows)

    @property
    def png(self) -> bytes:
        """The image, where it is one of pixels."""
        start = "data:image/png;base64,"
        return base64.b64decode(self.image.removeprefix(start)) if self.image.startswith(start) else b""


def draw(loaded: Loaded) -> list[Sample]:
    """Samples of whatever kind the model offers; none where it offers none, or where a needed package is missing."""
    step = f"after step {loaded.metrics.get('step', 0):,}"
    tokenizer = None if isinstance(loaded.tokenizer, ClassNames) else loaded.tokenizer  # names of classes are no text
    try:
        if tokenizer is not None and (text := written(loaded, step)):
            return [text]
        if offers(loaded.model, Samples) and plane.dimensions(loaded.recipe.model):
            cloud = base64.b64encode(plane.drawn(draw_images(loaded.model, POINTS)).encode()).decode()
            return [Sample(f"Points drawn {step}", image=f"data:image/svg+xml;base64,{cloud}")]
        if offers(loaded.model, Samples):
            sheet = base64.b64encode(png(draw_images(loaded.model, IMAGES), columns=10)).decode()
            return [Sample(f"Images drawn {step}", image=f"data:image/png;base64,{sheet}")]
        if offers(loaded.model, TranslatesImages):
            sheet = base64.b64encode(png(translated(loaded), columns=6)).decode()
            title = f"Images, what became of them {step}, and what they should be (or are, brought back again)"
            return [Sample(title, image=f"data:image/png;base64,{sheet}")]
        if offers(loaded.model, Embeds) and tokenizer is not None:
            return [Sample(f"Nearest words {step}", rows=tuple(near_words(loaded)))]
    except WeftError as error:
        return [Sample("No samples", text=str(error))]
    return []


def written(loaded: Loaded, step: str) -> Sample | None:
    """A text, or answers to texts, of a model that writes."""
    from weft.inference.generate import can_continue, generate  # a model that draws images does without
    from weft.inference.translate import can_answer

    if can_continue(loaded.model, loaded.tokenizer):
        made = generate(loaded.model, loaded.tokenizer, max_new_tokens=TOKENS, temperature=0.8)[0]
        return Sample(f"Text written {step}, temperature 0.8", text=made.text)
    return Sample(f"Answers {step}", rows=tuple(answered(loaded))) if can_answer(loaded.model) else None


def translated(loaded: Loaded) -> Tensor:
    """The first images that were not trained on, each with its translation and what it should be, or what comes back of it."""
    data = loaded.recipe.data.build_with(loaded.tokenizer)
    held = data.validation or data.train
    source = DataLoader(held, loaded.recipe.train.seed, next(loaded.model.parameters()).device, shuffle=False)
    return source_and_translation(loaded.model, source.batch(0, min(TRANSLATED, len(held))))


def answered(loaded: Loaded) -> list[tuple[str, str]]:
    """The first sources of the data that was not trained on, and what the model makes of them."""
    from weft.inference.translate import answer

    data = loaded.recipe.data.build_with(loaded.tokenizer)
    held = data.validation or data.train
    index, texts = torch.arange(min(WORDS, len(held))), getattr(held, "texts", None)
    if texts is None:
        sources = [loaded.tokenizer.decode(row.tolist()) for row in held.batch(index, torch.zeros_like(index))["source"][:WORDS]]
    else:
        sources = [source for source, _ in texts[:WORDS]]
    return list(zip(sources, answer(loaded.model, loaded.tokenizer, sources), strict=True))


def near_words(loaded: Loaded) -> list[tuple[str, str]]:
    """A few words, each with its nearest."""
    from weft.inference.neighbours import known_words, neighbours

    found = neighbours(loaded.model, loaded.tokenizer, " ".join(known_words(loaded.tokenizer, WORDS)), number=5)
    return [(word, ", ".join(other for other, _ in near)) for word, near in found.items()]
