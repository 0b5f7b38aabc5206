"""POST /v1/predictions: rows in, and for each what the model was trained to tell; the rows and results are those of `weft predict`.

A row is a text, a pair of texts, or an object from column to value; an image or a sound comes as base64, never as the name of a file.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Generator, Sequence
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import Field

from weft.inference.predict.base import BadRow, Predictor, Result, Row
from weft.inference.predict.run import as_row, compute, finish, prepare
from weft.serving.errors import ApiError, Json
from weft.serving.schemas import Body
from weft.serving.service import Service
from weft.serving.streams import attended, left

TOGETHER = 64
"""Rows that are told at once; between, other work has its turn, and what nobody waits for is left off."""


class PredictionRequest(Body):
    rows: list[Any] = Field(min_length=1)
    columns: list[str] = Field(default_factory=list)
    """Columns to read, where they have no usual name."""


def prediction_routes(service: Service) -> APIRouter:
    router = APIRouter()

    @router.post("/v1/predictions")
    async def predictions(body: PredictionRequest, http: Request) -> Response:
        return await predict(service, http, body)

    return router


async def predict(service: Service, http: Request, body: PredictionRequest) -> Response:
    model = service.find(body.model)
    model.need("predictions")
    predictor = model.predictor
    assert predictor is not None
    if len(body.rows) > service.limits.prompts:
        raise ApiError(400, f"rows may be at most {service.limits.prompts}, not {len(body.rows)}", param="rows")
    rows = [read_row(value, predictor, number) for number, value in enumerate(body.rows)]
    columns = predictor.choose(list(dict.fromkeys(name for row in rows for name in row.cells)), body.columns)
    limit = service.limits.timeout
    deadline = asyncio.get_running_loop().time() + limit
    found = await attended(http, model.worker.run(predictions(predictor, rows, columns)), limit, deadline)
    if found is None:
        return left()
    data = [{"object": "prediction", "index": index, **result} for index, result in enumerate(found)]
    return Json({"object": "list", "model": model.name, "kind": predictor.kind, "data": data})


def read_row(value: Any, predictor: Predictor, number: int) -> Row:
    """A row of a request; of an image or a sound its bytes, as no file of the server's is to be read."""
    if predictor.files:
        inside = next(iter(value.values()), "") if isinstance(value, dict) else value
        return Row({"file": content_of(inside, "a sound" if ".wav" in predictor.files else "an image", number)}, f"rows[{number}]")
    if not isinstance(value, str | dict) and not (isinstance(value, list) and all(isinstance(part, str) for part in value) and value):
        raise ApiError(400, f"rows[{number}]: must be a text, a list of texts or an object from column to value", param="rows")
    return Row(as_row(value, predictor.asked, number).cells, f"rows[{number}]")


def content_of(value: Any, what: str, number: int) -> bytes:
    """A file in base64, perhaps as a data URL."""
    try:
        return base64.b64decode(str(value).partition("base64,")[2] or str(value), validate=True)
    except (binascii.Error, ValueError):
        raise ApiError(400, f"rows[{number}]: must be {what} file in base64", param="rows") from None


def predictions(predictor: Predictor, rows: Sequence[Row], columns: Sequence[str]) -> Generator[None, None, list[Result]]:
    """The result of each row, in the worker's thread."""
    found: list[Result] = []
    for first in range(0, len(rows), TOGETHER):
        window = prepare(predictor, rows[first : first + TOGETHER], columns)
        found += [
            {"error": str(result)} if isinstance(result, BadRow) else result
            for result in finish(predictor, window, compute(predictor, window))
        ]
        yield
    return found
