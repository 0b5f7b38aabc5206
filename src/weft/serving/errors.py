"""Errors as OpenAI's clients expect them: {"error": {"message", "type", "param", "code"}} with a status that says who is to blame."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from weft.core.errors import WeftError
from weft.serving.worker import Closed, EngineFailed, Full

log = logging.getLogger("weft")
Headers = Mapping[str, str]
NO_HEADERS: Headers = {}
TYPES = {401: "authentication_error", 429: "rate_limit_error"}
"""What kind of error a status is; others are the request's fault below 500 and the server's from there on."""

LONGEST_FIELD = 100
"""Characters of the name of a field that an error repeats."""


class ApiError(Exception):
    """A request that gets no answer, and what the client is told instead."""

    def __init__(self, status: int, message: str, *, param: str | None = None, code: str | None = None, headers: Headers = NO_HEADERS):
        super().__init__(message)
        self.status, self.message, self.param, self.code, self.headers = status, message, param, code, dict(headers)

    def body(self) -> dict[str, Any]:
        kind = TYPES.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    def response(self) -> Json:
        return Json(self.body(), self.status, self.headers)


class Json(Response):
    """JSON that can always be sent: lone surrogates, which a client's own text may hold, are replaced."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return packed(content)


def packed(content: Any) -> bytes:
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", errors="replace")


def timed_out(seconds: float) -> ApiError:
    """Asking again would cost as much again, so clients are told not to."""
    message = f"the answer took longer than {seconds:g} seconds, the server's --timeout"
    return ApiError(503, message, code="timeout", headers={"x-should-retry": "false"})


def api_error(error: Exception) -> ApiError:
    """What a client hears of an error."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, Full):
        return ApiError(429, str(error), code="queue_full", headers={"retry-after": "1"})
    if isinstance(error, Closed):
        return ApiError(503, str(error), code="closing", headers={"retry-after": "5"})
    if isinstance(error, EngineFailed):
        return ApiError(500, str(error), code="engine_failed")
    if isinstance(error, WeftError):
        return ApiError(400, str(error))
    if isinstance(error, RequestValidationError):
        return invalid(error.errors())
    if isinstance(error, HTTPException):
        return ApiError(error.status_code, str(error.detail), headers=dict(error.headers or {}))
    log.error("a request failed", exc_info=error)
    return ApiError(500, "something went wrong in the server; its log says what")


def invalid(problems: Sequence[Any]) -> ApiError:
    """The first of the problems that a request has."""
    first = problems[0]
    place = [str(part)[:LONGEST_FIELD] for part in first["loc"] if part != "body"]
    if first["type"] == "json_invalid":
        return ApiError(400, f"the body is no JSON: {first['ctx']['error']} at character {place[0]}")
    message = first["msg"].removeprefix("Value error, ")
    if place:
        return ApiError(400, f"{'.'.join(place[:4])}: {message}", param=place[0])
    if first["type"] == "value_error":  # fields that do not go together; the sentence begins with one of them
        return ApiError(400, message, param=message.split()[0])
    return ApiError(400, "the body must be a JSON object, sent as application/json")


def register(app: FastAPI) -> None:
    async def answer(request: Request, error: Exception) -> Response:
        return api_error(error).response()

    for kind in (ApiError, Full, Closed, EngineFailed, WeftError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, answer)
