"""Which predictor a model has."""

from __future__ import annotations

from typing import Any, Literal

from weft.core.errors import CapabilityError, ConfigError
from weft.core.registry import name_of
from weft.data.annotated.choices import ChoicesConfig
from weft.data.annotated.label_sets import LabelSetsConfig
from weft.data.annotated.labelled_texts import LabelledTextsConfig
from weft.data.annotated.spans import SpansConfig
from weft.data.annotated.tagged import TaggedConfig
from weft.data.audio.clips import ClipsConfig
from weft.data.audio.speech import SpeechConfig
from weft.data.images.pixels import ImagesConfig
from weft.data.tables.columns import Columns
from weft.data.tables.table import TableConfig
from weft.data.tokenizers.base import ClassNames
from weft.inference.generate import can_continue
from weft.inference.predict.base import Predictor, Trained
from weft.inference.predict.images import ImageClasses
from weft.inference.predict.language import Embedding, LogLikelihood
from weft.inference.predict.sounds import SoundClasses
from weft.inference.predict.tables import TableRows
from weft.inference.predict.texts import Choices, LabelSets, TextLabels
from weft.inference.predict.transcripts import Transcripts
from weft.inference.predict.words import Spans, Tags
from weft.inference.translate import can_answer
from weft.models.base import States, offers

What = Literal["auto", "embedding", "log-likelihood"]
OF_DATA: dict[type, type[Predictor]] = {
    LabelSetsConfig: LabelSets,
    LabelledTextsConfig: TextLabels,
    ChoicesConfig: Choices,
    TaggedConfig: Tags,
    SpansConfig: Spans,
    TableConfig: TableRows,
    ClipsConfig: SoundClasses,
}
RECOGNITION = ("ctc", "rnnt", "ctc_attention")
"""Objectives by which a model learns what is said."""


def predictor_of(recipe: Any) -> type[Predictor] | None:
    """What the models of a recipe were trained to tell of something new; None where they were not."""
    data = getattr(recipe, "data", None)
    for kind, found in OF_DATA.items():
        if isinstance(data, kind):
            return found
    if isinstance(data, SpeechConfig) and name_of(type(recipe.objective)) in RECOGNITION:
        return Transcripts
    of_images = isinstance(data, ImagesConfig) or getattr(data, "file_source", "") == "images"
    return ImageClasses if of_images and name_of(type(recipe.objective)) == "classification" else None


def find(trained: Trained, what: What = "auto") -> Predictor:
    """The predictor of a model: what it was trained to tell, else how likely a text is, else the vector of a text."""
    own = predictor_of(trained.recipe)
    if what == "auto" and own:
        return own(trained)
    text = trained.tokenizer is not None and not isinstance(trained.tokenizer, ClassNames | Columns)
    likely = text and can_continue(trained.model, trained.tokenizer) and not can_answer(trained.model)
    embeds = text and offers(trained.model, States) and not can_answer(trained.model)
    if likely and what in ("auto", "log-likelihood"):
        return LogLikelihood(trained)
    if embeds and what in ("auto", "embedding"):
        return Embedding(trained)
    kind = f"{type(trained.model).__name__} ({trained.recipe.name})"
    if what != "auto":
        able = [name for name, found in (("auto", own), ("log-likelihood", likely), ("embedding", embeds)) if found]
        raise ConfigError(f"--what {what}: {kind} cannot tell it; take {' or '.join(able) or 'another model'}")
    other = "answer a text: weft sample RUN --input FILE --out FILE" if can_answer(trained.model) else "be sampled: weft sample RUN"
    raise CapabilityError(f"{kind} tells no class, number, tags, answer or vector of a row; it can {other}")
