"""The routes of the server, in OpenAI's form, and beside them what vLLM offers: tokens, health, metrics."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from fastapi import FastAPI, Request, Response

from weft import __version__
from weft.serving import errors, request_params
from weft.serving.embeddings import alike, embed, encoded, shortened
from weft.serving.errors import ApiError, Json
from weft.serving.gate import Gate
from weft.serving.image_generation import image_routes
from weft.serving.inspection import attention_routes
from weft.serving.predictions import prediction_routes
from weft.serving.schemas import ChatRequest, CompletionRequest, DetokenizeRequest, EmbeddingRequest, TokenizeRequest
from weft.serving.service import MOST_TOKENS, ServedModel, Service
from weft.serving.static import page_routes


def make_app(service: Service) -> FastAPI:
    """The application; its models' threads start and end with it."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        for model in service.models.values():
            await asyncio.to_thread(model.worker.start)
        yield
        service.close()
        await asyncio.to_thread(service.stop)

    app = FastAPI(title="weft", version=__version__, docs_url=None, redoc_url=None, lifespan=lifespan)
    app.state.service = service
    app.add_middleware(Gate, service=service)
    errors.register(app)
    add_models(app, service)
    add_generation(app, service)
    add_tokens(app, service)
    add_state(app, service)
    app.include_router(image_routes(service))
    app.include_router(prediction_routes(service))
    app.include_router(attention_routes(service))
    app.include_router(page_routes())
    return app


def add_models(app: FastAPI, service: Service) -> None:
    @app.get("/v1/models")
    async def models() -> Response:
        return Json({"object": "list", "data": [model.describe() for model in service.models.values()]})

    @app.get("/v1/models/{name:path}")
    async def model(name: str) -> Response:
        return Json(service.find(name).describe())


def add_generation(app: FastAPI, service: Service) -> None:
    @app.post("/v1/completions")
    async def completions(body: CompletionRequest, http: Request) -> Response:
        return await request_params.complete(service, http, body)

    @app.post("/v1/chat/completions")
    async def chat(body: ChatRequest, http: Request) -> Response:
        return await request_params.chat(service, http, body)

    @app.post("/v1/embeddings")
    async def embeddings(body: EmbeddingRequest) -> Response:
        try:
            async with asyncio.timeout(service.limits.timeout):
                return await embedded(service, body)
        except TimeoutError:
            raise errors.timed_out(service.limits.timeout) from None


async def embedded(service: Service, body: EmbeddingRequest) -> Response:
    model = service.find(body.model)
    model.need("embeddings")
    rows = await request_params.prompts_of(service, model, body.input, "input", model.tokens.encode)
    for row in rows:
        if not row:
            raise ApiError(400, "input: a text without a token has no vector", param="input")
        if model.context and len(row) > model.context:
            message = f"this model's maximum context length is {model.context} tokens, but a text of the input has {len(row)}"
            raise ApiError(400, message, param="input", code="context_length_exceeded")
    vectors: list[Any] = [None] * len(rows)
    for places in alike(rows):
        found = await model.worker.call(partial(embed, model.model, [rows[place] for place in places]))
        for place, vector in zip(places, found.numpy(), strict=True):
            vectors[place] = vector
    size = len(vectors[0])
    if body.dimensions and body.dimensions > size:
        raise ApiError(400, f"dimensions may be at most {size}, not {body.dimensions}", param="dimensions")
    if body.dimensions:
        vectors = [shortened(vector, body.dimensions) for vector in vectors]
    data = [{"object": "embedding", "index": place, "embedding": encoded(v, body.encoding_format)} for place, v in enumerate(vectors)]
    count = sum(map(len, rows))
    service.metrics.prompt_tokens[model.name] += count
    return Json({"object": "list", "data": data, "model": model.name, "usage": {"prompt_tokens": count, "total_tokens": count}})


def add_tokens(app: FastAPI, service: Service) -> None:
    @app.post("/tokenize")
    async def tokenize(body: TokenizeRequest) -> Response:
        model = service.find(body.model)
        if body.messages:
            ids = await request_params.chat_prompt(service, model, [message.plain() for message in body.messages])
        else:
            ids = await request_params.encoded(service, partial(tokenized, model, body), len(body.prompt or ""), "prompt")
        return Json({"count": len(ids), "max_model_len": model.context or None, "tokens": ids})

    @app.post("/detokenize")
    async def detokenize(body: DetokenizeRequest) -> Response:
        model = service.find(body.model)
        model.check_ids(body.tokens, "tokens")
        text = await request_params.encoded(service, partial(model.tokens.decode, body.tokens), len(body.tokens), "tokens")
        return Json({"prompt": text if body.tokens else ""})

    @app.get("/tokenizer_info")
    async def tokenizer_info(model: str = "") -> Response:
        found = service.find(model)
        special_tokens = getattr(found.tokenizer, "special_tokens", {})
        looks = {name: found.tokens.decode([special_tokens[role]]) if role in special_tokens else None for name, role in ROLES.items()}
        about = {"tokenizer_class": found.tokens.inner.name, "vocab_size": found.tokens.size, "model_max_length": found.context or None}
        return Json({**about, **looks, "chat_template": found.template.source if found.template else None})


ROLES = {"eos_token": "end", "bos_token": "start", "pad_token": "padding", "unk_token": "unknown"}


def tokenized(model: ServedModel, body: TokenizeRequest) -> list[int]:
    text, most = body.prompt or "", max(model.context, MOST_TOKENS)
    ids = model.tokens.encode_special(text, most) if body.parse_special else model.tokens.encode(text, special=False, most=most)
    return [*model.tokens.before, *ids, *model.tokens.after] if body.add_special_tokens else ids


def add_state(app: FastAPI, service: Service) -> None:
    @app.get("/health")
    async def health() -> Response:
        failed = next((model.worker.closed for model in service.models.values() if model.worker.closed), "")
        return Json({"status": failed or "ok"}, 503 if failed else 200)

    @app.get("/metrics")
    async def metrics() -> Response:
        lines = [*service.metrics.lines(), *service.gauges()]
        return Response("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")

    @app.get("/version")
    async def version() -> Response:
        return Json({"version": __version__})
