"""Which tokens a model looks at: the attention weights of a text, or of a source and the model's own answer to it.

Shapes: H heads, T rows (the tokens that look), S columns (those looked at).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from fastapi import APIRouter, Response
from pydantic import Field
from torch import Tensor

from weft.core.errors import CapabilityError
from weft.inference.attention_weights import Recorder
from weft.inference.beam_models import translate
from weft.inference.mask_predict import MaskPredict, mask_predict
from weft.inference.translate import END, PAD, START, start_and_end
from weft.models.base import Subsamples, offers
from weft.serving.errors import ApiError, packed, timed_out
from weft.serving.request_params import opened
from weft.serving.schemas import Body
from weft.serving.service import ServedModel, Service

MOST_TOKENS = 256
MOST_NUMBERS = 1 << 22
"""Weights in one answer, which as text are about 25 MB."""
LONGEST_TEXT = 20_000
DIGITS = 3


class AttentionRequest(Body):
    text: str = Field(min_length=1, max_length=LONGEST_TEXT)
    layer: int | None = Field(None, ge=0)
    """Only this layer; all of them where it is left out."""


@dataclass(frozen=True)
class View:
    """One kind of attention: who looks at whom, with weights (H, T, S) for each layer."""

    name: str
    rows: list[int]
    columns: list[int]
    layers: list[Tensor]


def attention_routes(service: Service) -> APIRouter:
    router = APIRouter()

    @router.post("/inspect/attention")
    async def attention(body: AttentionRequest) -> Response:
        try:
            async with asyncio.timeout(service.limits.timeout):
                return await inspected(service, body)
        except TimeoutError:
            raise timed_out(service.limits.timeout) from None

    return router


async def inspected(service: Service, body: AttentionRequest) -> Response:
    model = service.find(body.model)
    ids = (
        [*model.tokens.encode(body.text, special=False), start_and_end(model.tokenizer)[1]]
        if model.answers
        else tokens_of(model, body.text)
    )
    check_length(model, ids)
    compute = partial(attention_of_filled, how=model.mask_predict) if model.mask_predict else attention_of_text
    if model.answers and not model.mask_predict:
        start, end = start_and_end(model.tokenizer)
        compute = partial(attention_of_translation, start=start, end=end)
    views = await model.worker.call(partial(compute, model.model, ids))
    content = await asyncio.to_thread(lambda: packed(as_json(model, views, body.layer)))
    return Response(content, media_type="application/json")


def tokens_of(model: ServedModel, text: str) -> list[int]:
    """A text to be continued is still open; one that is read from both sides is whole."""
    return opened(model, text, True) if model.continues else model.tokens.encode(text)


def check_length(model: ServedModel, ids: Sequence[int]) -> None:
    most = min(MOST_TOKENS, model.context or MOST_TOKENS)
    if len(ids) > most:
        raise ApiError(400, f"attention is shown for at most {most} tokens, but this text has {len(ids)}", param="text")
    if not ids:
        raise ApiError(400, "a text without a token has no attention", param="text")


@torch.inference_mode()
def attention_of_text(model: Any, ids: list[int]) -> list[View]:
    """In the worker's thread, as everything that runs the model."""
    with Recorder(model) as recorder:
        model.hidden(torch.tensor([ids], device=next(model.parameters()).device))
    layers = [weights[0].cpu() for weights in recorder.of(list(recorder.layers))]
    if not layers or any(weights.shape[1:] != (len(ids), len(ids)) for weights in layers):
        raise CapabilityError(f"{type(model).__name__} has no attention from every token to every other that could be shown")
    return [View("text", ids, ids, layers)]


@torch.inference_mode()
def attention_of_translation(model: Any, ids: list[int], start: int = START, end: int = END) -> list[View]:
    """The likeliest answer is searched first, then read once as a whole, which gives the weights that it was written with.

    A decoder looks around before it writes, so in the cross-attention each row is named after the token that it wrote.
    """
    device = next(model.parameters()).device
    source, lengths = torch.tensor([ids], device=device), torch.tensor([len(ids)], device=device)
    longest = min(3 * len(ids) + 50, MOST_TOKENS - 1)
    written = translate(model, source, lengths, start, end, longest=longest)[0][0].ids
    read = [start, *written[:-1]]
    encoded = model.encoded_lengths(lengths) if offers(model, Subsamples) else lengths
    with Recorder(model) as recorder:
        model.decode(torch.tensor([read], device=device), model.encode(source, lengths), encoded)
    return three_views(model, recorder, ids, written, read)


@torch.inference_mode()
def attention_of_filled(model: Any, ids: list[int], how: MaskPredict) -> list[View]:
    """An answer that was made at once, and then read once more with all its tokens known."""
    device = next(model.parameters()).device
    source, lengths = torch.tensor([ids], device=device), torch.tensor([len(ids)], device=device)
    written = mask_predict(model, source, lengths, START, END, how)[0].ids
    read = written if model.config.fixed_length else [*written, END]
    read = [*read, *[END] * (model.config.fixed_length - len(read))]
    if len(read) > MOST_TOKENS:
        raise ApiError(400, f"attention is shown for at most {MOST_TOKENS} tokens, but the answer has {len(read)}", param="text")
    with Recorder(model) as recorder:
        model.decode_parallel(torch.tensor([read], device=device), None, model.encode(source, lengths), lengths)
    return three_views(model, recorder, ids, read, read)


def three_views(model: Any, recorder: Recorder, source: list[int], written: list[int], read: list[int]) -> list[View]:
    """How an encoder and a decoder looked: at the source, and each at itself, where it does; a recurrent one does not."""

    def layers(*parts: str) -> list[Tensor]:
        names = [name for name in recorder.layers if name.startswith(parts[0]) and name.endswith(parts[1])]
        return [weights[0].cpu() for weights in recorder.of(names)]

    views = [
        View("cross", written, source, layers("decoder.", ".cross")),
        View("encoder", source, source, layers("encoder.", ".attention")),
        View("decoder", read, read, layers("decoder.", ".attention")),
    ]
    if not views[0].layers:
        raise CapabilityError(f"the attention of {type(model).__name__} cannot be shown: its decoder has none to the source")
    return [view for view in views if view.layers]


def as_json(model: ServedModel, views: Sequence[View], layer: int | None) -> dict[str, Any]:
    """As JSON: for each view the texts of its tokens and weights by layer, head, row and column."""
    deepest = max(len(view.layers) for view in views)
    if layer is not None and layer >= deepest:
        raise ApiError(400, f"layer must be from 0 to {deepest - 1}, not {layer}", param="layer")
    chosen = [view.layers if layer is None else view.layers[layer : layer + 1] for view in views]
    if (size := sum(weights.numel() for layers in chosen for weights in layers)) > MOST_NUMBERS:
        message = f"these are {size:,} weights, and at most {MOST_NUMBERS:,} are sent at once; ask for one layer, or a shorter text"
        raise ApiError(400, message, param="layer")
    written = next((view.rows for view in views if view.name == "cross"), None)
    return {
        "model": model.name,
        "answer": None if written is None else model.tokens.decode(written),
        "views": [
            {
                "name": view.name,
                "rows": [shown(model, number, written is not None) for number in view.rows],
                "columns": [shown(model, number, written is not None) for number in view.columns],
                "layers": len(view.layers),
                "weights": [weights.double().numpy().round(DIGITS).tolist() for weights in layers],
            }
            for view, layers in zip(views, chosen, strict=True)
        ],
    }


def shown(model: ServedModel, number: int, special: bool) -> str:
    """A token as text; what writes nothing has a name all the same."""
    start, end = start_and_end(model.tokenizer)
    names = {PAD: "⟨pad⟩", start: "⟨start⟩", end: "⟨end⟩"} if special else {}
    return model.tokens.text(number) or names.get(number) or f"⟨{number}⟩"
