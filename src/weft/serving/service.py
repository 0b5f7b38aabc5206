"""What a server holds: models with their workers, limits, keys and counters."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from weft.core.config import to_dict
from weft.core.errors import CapabilityError, ConfigError
from weft.core.registry import nearest
from weft.data.tables.columns import Columns
from weft.data.tokenizers.base import ClassNames
from weft.inference.encoder_decoder import EncoderDecoderEngine
from weft.inference.engine import Engine as TextEngine
from weft.inference.generate import can_continue
from weft.inference.mask_predict import MaskPredict
from weft.inference.non_autoregressive import NonAutoregressiveEngine
from weft.inference.predict.base import Predictor
from weft.inference.predict.find import find, predictor_of
from weft.inference.translate import can_answer
from weft.models.base import EncoderDecoder, NonAutoregressiveDecoder, States, offers
from weft.runs.load import Loaded
from weft.serving.connections import Connections
from weft.serving.errors import ApiError
from weft.serving.image_size import Canvas, canvas_of
from weft.serving.metrics import Metrics, of_models, samples
from weft.serving.templates import ChatTemplate, Renderer, template_for
from weft.serving.tokens import TokenTexts
from weft.serving.worker import Engine, Worker

LONG = 10_000
"""Characters from which on encoding is left to a thread, so that the event loop goes on."""

ENCODED_AT_ONCE = 2
MOST_TOKENS = 1 << 16
"""Tokens of a text where the model does not say how many it takes."""
LONGEST_NAME = 100
"""Characters of a model's name that an error repeats."""


@dataclass(frozen=True)
class Limits:
    """What one request may ask for."""

    body_bytes: int = 4 << 20
    max_tokens: int = 4096
    """Tokens of an answer."""
    prompts: int = 2048
    """Prompts of a request."""
    timeout: float = 600.0
    """Seconds from a request to the end of its answer."""
    connections: int = 2048
    """Open connections."""


LACKS = {
    "completions": "continue a text",
    "chat": "hold a conversation",
    "embeddings": "give a text a vector",
    "images": "draw images",
    "predictions": "tell a class, a number, tags or an answer",
}


@dataclass
class ServedModel:
    name: str
    tokenizer: Any
    model: Any
    worker: Worker
    template: ChatTemplate | None
    """How a conversation becomes a prompt; None where it can hold none."""
    continues: bool
    embeds: bool
    answers: bool = False
    """A prompt is a source, and what comes back another text."""
    mask_predict: MaskPredict | None = None
    """How such an answer is made at once, where it is not made token by token."""
    canvas: Canvas | None = None
    """What its images are like, where it draws any."""
    predictor: Predictor | None = None
    """What it tells of a row, where it was trained to."""
    created: int = field(default_factory=lambda: int(time.time()))

    def __post_init__(self) -> None:
        self._tokens = TokenTexts(self.tokenizer) if self.continues or self.embeds or self.answers else None

    @property
    def tokens(self) -> TokenTexts:
        if self._tokens is None:
            instead = "draws images" if self.canvas else "reads no text"
            message = f"the model {self.name!r} has no tokens: it {instead}"
            raise ApiError(400, message, param="model", code="unsupported_model")
        return self._tokens

    @property
    def context(self) -> int:
        """Most tokens of prompt and answer together; 0 for any number."""
        found: int = self.worker.engine.context if self.worker.engine else getattr(getattr(self.model, "config", None), "context", 0)
        return found

    @property
    def most_tokens(self) -> int:
        """Tokens from which on it need not be known how many a text has."""
        return self.context or MOST_TOKENS

    @property
    def offers(self) -> list[str]:
        """What may be asked of it."""
        able: dict[str, Any] = {
            "completions": self.continues or self.answers,
            "chat": self.template and (self.continues or (self.answers and self.template.own)),
        }
        able |= {"embeddings": self.embeds, "images": self.canvas, "predictions": self.predictor}
        return [name for name, found in able.items() if found]

    def need(self, what: Literal["completions", "chat", "embeddings", "images", "predictions"]) -> None:
        if what not in self.offers:
            lacks = LACKS[what]
            other = "; it turns one text into another, at /v1/completions" if what == "chat" and self.answers else ""
            if what == "chat" and self.continues:
                other = "; it came with no chat template and cannot write 'User:' and 'Assistant:', but continues a text at /v1/completions"
            other = "; it draws images, at /v1/images/generations" if self.canvas else other
            other = f"; it tells {self.predictor.kind}, at /v1/predictions" if self.predictor else other
            raise ApiError(400, f"the model {self.name!r} cannot {lacks}{other}", param="model", code="unsupported_model")

    def need_template(self) -> ChatTemplate:
        self.need("chat")
        assert self.template
        return self.template

    def describe(self) -> dict[str, Any]:
        about: dict[str, Any] = {"id": self.name, "object": "model", "created": self.created, "owned_by": "weft", "answers": self.answers}
        if "chat" in self.offers and self.template:
            about["template"] = "own" if self.template.own else "plain"
        if self.mask_predict:
            about["mask_predict"] = {
                **vars(self.mask_predict),
                "fixed": bool(self.model.config.fixed_length),
                "longest": self.model.longest,
            }
        if self.canvas:
            about["images"] = self.canvas.describe()
        if self.predictor:
            about["predictions"] = {"kind": self.predictor.kind, "asked": list(self.predictor.asked)}
        return {**about, "max_model_len": self.context or None, "offers": self.offers}

    def check_ids(self, ids: Sequence[int], param: str) -> None:
        least, most = (min(ids), max(ids)) if ids else (0, 0)
        if least < 0 or most >= self.tokens.size:
            message = f"{param}: {least if least < 0 else most} is no token of this model; tokens are from 0 to {self.tokens.size - 1}"
            raise ApiError(400, message, param=param)


@dataclass
class Service:
    models: dict[str, ServedModel]
    limits: Limits = Limits()
    keys: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    """Names by which requests may call the server, beside loopback names and addresses; "*" for any."""
    connections: Connections = field(default_factory=lambda: Connections(Limits.connections))
    metrics: Metrics = field(default_factory=Metrics)
    renderer: Renderer = field(default_factory=Renderer)
    encoding: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(ENCODED_AT_ONCE))
    """Of long texts."""
    closing: bool = False

    def find(self, name: str) -> ServedModel:
        """A model by its name; the first where none is named."""
        if not name:
            return next(iter(self.models.values()))
        if name not in self.models:
            shown = name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…"
            raise ApiError(404, f"no model is called {shown!r}{nearest(name, list(self.models))}", param="model", code="model_not_found")
        return self.models[name]

    def close(self) -> None:
        """Take no more requests."""
        self.closing = True
        for model in self.models.values():
            model.worker.close()

    async def drained(self, seconds: float) -> bool:
        """Whether all that runs has ended within so many seconds."""
        end = time.monotonic() + seconds
        while any(model.worker.open for model in self.models.values()):
            if time.monotonic() > end:
                return False
            await asyncio.sleep(0.05)
        return True

    def stop(self) -> None:
        for model in self.models.values():
            model.worker.stop()
        self.renderer.close()

    def gauges(self) -> list[str]:
        """How busy the models are now."""
        workers = {name: model.worker for name, model in self.models.items()}
        active = {name: worker.engine.active if worker.engine else 0 for name, worker in workers.items()}
        waiting = {name: max(0, worker.open - active[name]) for name, worker in workers.items()}
        unknown = {name: model._tokens.unknown for name, model in self.models.items() if model._tokens}
        return [
            *samples("weft_unknown_characters_total", "Characters of requests without a token.", "counter", of_models(unknown)),
            *samples("weft_requests_active", "Requests in the engine's slots.", "gauge", of_models(active)),
            *samples("weft_requests_waiting", "Requests that wait for a slot.", "gauge", of_models(waiting)),
            *samples("weft_requests_cancelled_total", "Answers nobody waited for.", "counter", of_counts(workers, "cancelled")),
            *samples("weft_requests_refused_total", "Answers refused as too many waited.", "counter", of_counts(workers, "refused")),
        ]


def of_counts(workers: dict[str, Worker], name: str) -> dict[str, int]:
    return of_models({model: getattr(worker, name) for model, worker in workers.items()})


def serve_model(
    name: str,
    loaded: Loaded,
    *,
    slots: int = 32,
    max_queue: int = 256,
    batch_invariant: bool | None = None,
    make_engine: Callable[[], Engine] | None = None,
) -> ServedModel:
    """A loaded model with a worker that is not yet started; refused where it can do nothing with a text."""
    model, tokenizer = loaded.model, loaded.tokenizer
    text = tokenizer is not None and not isinstance(tokenizer, ClassNames | Columns)
    whole = mask_predict_of(loaded) if offers(model, NonAutoregressiveDecoder) and text else None
    answers = text and can_answer(model)
    continues = text and can_continue(model, tokenizer) and not answers
    two = answers or offers(model, EncoderDecoder)  # the states of a translator are those of two texts, or of a sound and a text
    embeds = text and offers(model, States) and not two
    canvas = canvas_of(loaded) if not text else None
    predictor = find(loaded) if predictor_of(loaded.recipe) else None
    if not (continues or embeds or answers or canvas or predictor):
        raise CapabilityError(f"{name}: {type(model).__name__} has neither text nor images to serve, which are what `weft serve` takes")
    if batch_invariant and not continues:
        raise ConfigError(f"{name}: --batch-invariant on is for models that continue a text; leave it out for {type(model).__name__}")
    engines: dict[str, Any] = {
        "whole": partial(NonAutoregressiveEngine, mask_predict=whole),
        "source": EncoderDecoderEngine,
        "text": partial(TextEngine, batch_invariant=batch_invariant),
    }
    kind = engines.get("whole" if whole else "source" if answers else "text" if continues else "none")
    make = make_engine or (partial(kind, model, tokenizer, slots=slots) if kind else None)
    worker = Worker(make, name=name, slots=slots, max_queue=max_queue)
    template = template_for(tokenizer, loaded.chat_template, own=getattr(getattr(loaded.recipe, "data", None), "chat_template", ""))
    return ServedModel(name, tokenizer, model, worker, template, continues, embeds, answers, whole, canvas, predictor)


def mask_predict_of(loaded: Loaded) -> MaskPredict:
    """How a model that makes all tokens at once does so, where nobody says."""
    objective = getattr(loaded.recipe, "objective", None)
    return MaskPredict().after(to_dict(objective) if objective else {}).resolve(loaded.model)
