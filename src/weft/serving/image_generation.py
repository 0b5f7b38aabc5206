"""Images in the form of OpenAI's: /v1/images/generations. A prompt is empty, or the name of a class that the model was taught.

An image is a function of the seed and of its number among those that are asked for together; it is what `weft sample` draws.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
import time
from collections.abc import Generator
from typing import Any, Literal

import torch
from fastapi import APIRouter, Request, Response
from pydantic import Field, model_validator

from weft.core.errors import ConfigError
from weft.serving.errors import ApiError, Json
from weft.serving.image_size import LARGEST, Canvas
from weft.serving.schemas import Body
from weft.serving.service import ServedModel, Service
from weft.serving.streams import attended, left
from weft.visual.grids import class_number, draw_keys, keys, pngs

MOST_IMAGES = 64
TOGETHER = 8
"""Images that are drawn at once; between, other work has its turn, and what nobody waits for is left off."""
MOST_PIXELS = 1 << 24
"""Of all images of an answer together."""


class ImageRequest(Body):
    prompt: str = Field("", max_length=1000)
    """Empty, or a class by its name or number."""
    n: int = Field(1, ge=1, le=MOST_IMAGES)
    size: str = Field("auto", max_length=20, json_schema_extra={"pattern": "^(auto|[0-9]{1,4}x[0-9]{1,4})$"})
    """auto for the model's own size, or a whole number of times as large."""
    response_format: Literal["b64_json"] = "b64_json"
    output_format: Literal["png"] = "png"
    seed: int | None = Field(None, ge=-(1 << 63), lt=1 << 64)
    stream: bool = False

    @model_validator(mode="after")
    def check_stream(self) -> ImageRequest:
        if self.stream:
            raise ValueError("stream is not offered for images: they come all at once")
        return self


def image_routes(service: Service) -> APIRouter:
    router = APIRouter()

    @router.post("/v1/images/generations")
    async def images(body: ImageRequest, http: Request) -> Response:
        return await drawn(service, http, body)

    return router


async def drawn(service: Service, http: Request, body: ImageRequest) -> Response:
    model = service.find(body.model)
    model.need("images")
    assert model.canvas is not None
    label, scale = label_of(model, model.canvas, body.prompt), scale_of(model.canvas, body.size, body.n)
    seed = body.seed if body.seed is not None else secrets.randbits(53)  # as many bits as a number in JavaScript has
    limit = service.limits.timeout
    deadline = asyncio.get_running_loop().time() + limit
    found = await attended(http, model.worker.run(drawing(model, body.n, seed, label, scale)), limit, deadline)
    if found is None:
        return left()
    data = [{"b64_json": base64.b64encode(image).decode()} for image in found]
    about: dict[str, Any] = {"created": int(time.time()), "data": data, "output_format": "png"}
    return Json({**about, "model": model.name, "seed": seed})


def label_of(model: ServedModel, canvas: Canvas, prompt: str) -> int | None:
    """The number of the class that is asked for; None for any."""
    if not prompt.strip():
        return None
    if not canvas.labels:
        message = f"prompt must be empty: the model {model.name!r} draws images without being told what"
        raise ApiError(400, message, param="prompt")
    try:
        return class_number(prompt.strip(), canvas.labels, len(canvas.labels))
    except ConfigError as error:
        raise ApiError(400, f"prompt: {error}", param="prompt") from error


def scale_of(canvas: Canvas, size: str, n: int) -> int:
    scale = canvas.scale(size)
    if scale is None:
        message = f"size must be auto, {canvas.size} or a whole number of times as large, up to {LARGEST} pixels, not {size!r}"
        raise ApiError(400, message, param="size")
    if (pixels := n * scale**2 * canvas.height * canvas.width) > MOST_PIXELS:
        raise ApiError(400, f"these are {pixels:,} pixels, and at most {MOST_PIXELS:,} are drawn at once; ask for fewer images", param="n")
    return scale


def drawing(model: ServedModel, n: int, seed: int, label: int | None, scale: int) -> Generator[None, None, list[bytes]]:
    """PNG files of n images, in the worker's thread."""
    found: list[bytes] = []
    for some in torch.split(keys(model.model, n, seed), TOGETHER):
        found += pngs(draw_keys(model.model, some, label), scale)
        yield
    return found
