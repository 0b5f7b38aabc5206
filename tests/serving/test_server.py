"""The other routes: models, tokens, embeddings, state; and who may use them."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
from openai.types import CreateEmbeddingResponse, Model

from tests.serving.conftest import Live, running
from tests.serving.fake import toy, toy_service


@pytest.fixture(scope="module")
def locked() -> Iterator[Live]:
    """Two models behind two keys."""
    with running(toy_service(toy("first"), toy("runs/second", context=32), keys=("secret", "other"))) as found:
        yield found


def key(word: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {word}"}


def test_models(locked: Live) -> None:
    found = locked.http.get("/v1/models", headers=key("secret")).json()
    assert found["object"] == "list"
    assert [model["id"] for model in found["data"]] == ["first", "runs/second"]
    about = {
        "id": "first",
        "object": "model",
        "created": 1,
        "owned_by": "weft",
        "max_model_len": 4096,
        "answers": False,
        "template": "plain",
    }
    assert found["data"][0] == {**about, "offers": ["completions", "chat", "embeddings"]}
    one = locked.http.get("/v1/models/runs/second", headers=key("secret")).json()
    assert Model.model_validate(one).id == "runs/second"
    assert locked.http.get("/v1/models/thrid", headers=key("secret")).status_code == 404


def test_a_model_is_found_by_its_name(locked: Live) -> None:
    def ask(**body: Any) -> httpx.Response:
        return locked.http.post("/v1/completions", json={"prompt": "a", "max_tokens": 1, **body}, headers=key("other"))

    assert ask().json()["model"] == ask(model=None).json()["model"] == "first"
    assert ask(model="runs/second").json()["model"] == "runs/second"
    wrong = ask(model="frist")
    assert wrong.status_code == 404
    error = wrong.json()["error"]
    assert (error["code"], error["param"], error["type"]) == ("model_not_found", "model", "invalid_request_error")
    assert "did you mean 'first'" in error["message"]


def test_every_route_but_two_needs_the_key(locked: Live) -> None:
    """Also those that do not exist, so that nobody without a key learns which do."""
    paths = set(walk(locked.server.config.app.routes))  # type: ignore[union-attr]
    assert {"/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/metrics", "/openapi.json", "/health", "/"} <= paths
    values = ("Bearer", "Bearer secre", "Bearer secret2", "secret", "Basic secret")
    wrong: list[dict[str, str]] = [{}, *({"Authorization": value} for value in values)]
    for path in [*paths, "/nothing", "/health/", "/v1"]:
        for method in ("GET", "POST", "HEAD", "OPTIONS", "PUT"):
            for header in wrong:
                reply = locked.http.request(method, path.replace("{name:path}", "first"), headers=header)
                if path in ("/health", "/"):
                    assert reply.status_code in (200, 404, 405)
                    continue
                assert reply.status_code == 401, (method, path, header)
                if method != "HEAD":
                    assert reply.json()["error"]["code"] == "invalid_api_key"
    assert locked.http.get("/metrics", headers={"Authorization": "bearer other"}).status_code == 200


def walk(routes: Any) -> Iterator[str]:
    """The paths of all routes, those of included routers among them."""
    for route in routes:
        yield from walk(route.original_router.routes) if hasattr(route, "original_router") else [route.path]


def test_without_a_key_anything_is_taken(live: Live) -> None:
    for header in ({}, {"Authorization": "Bearer"}, key("EMPTY")):
        assert live.http.get("/v1/models", headers=header).status_code == 200


def test_tokens_there_and_back(live: Live) -> None:
    found = live.post("/tokenize", prompt="häß").json()
    assert found == {"count": 5, "max_model_len": 4096, "tokens": list("häß".encode())}
    assert live.post("/detokenize", tokens=found["tokens"]).json() == {"prompt": "häß"}
    assert live.post("/detokenize", tokens=[]).json() == {"prompt": ""}
    chat = live.post("/tokenize", messages=[{"role": "user", "content": "hi"}]).json()
    assert live.post("/detokenize", tokens=chat["tokens"]).json()["prompt"] == "User: hi\nAssistant:"
    assert live.post("/tokenize").status_code == 400
    assert live.post("/tokenize", prompt="a" * 20_000).json()["count"] == 20_000


def test_tokenizer_info(live: Live) -> None:
    found = live.http.get("/tokenizer_info").json()
    assert (found["vocab_size"], found["model_max_length"], found["eos_token"], found["bos_token"]) == (257, 4096, "", None)
    assert "messages" in found["chat_template"]
    assert live.http.get("/tokenizer_info", params={"model": "none"}).status_code == 404


@pytest.mark.parametrize(("given", "count"), [("ab", 2), (["ab", "cde"], 5), ([97, 98], 2), ([[97, 98], [99], [97, 98]], 5)])
def test_embeddings(live: Live, given: Any, count: int) -> None:
    found = live.post("/v1/embeddings", model="toy", input=given).json()
    CreateEmbeddingResponse.model_validate(found)
    assert found["usage"] == {"prompt_tokens": count, "total_tokens": count}
    vectors = np.array([one["embedding"] for one in found["data"]])
    assert [one["index"] for one in found["data"]] == list(range(len(vectors)))
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0)
    table = live.service.models["toy"].model.table.detach().numpy()
    mean = table[[97, 98]].mean(0)
    assert np.allclose(vectors[0], mean / np.linalg.norm(mean), atol=1e-6)
    packed = live.post("/v1/embeddings", model="toy", input=given, encoding_format="base64").json()
    assert np.array_equal(np.frombuffer(base64.b64decode(packed["data"][0]["embedding"]), "<f4"), vectors[0].astype(np.float32))


def test_embeddings_of_fewer_dimensions(live: Live) -> None:
    found = live.post("/v1/embeddings", model="toy", input="ab", dimensions=3).json()["data"][0]["embedding"]
    assert len(found) == 3
    assert np.isclose(np.linalg.norm(found), 1.0)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"input": ""}, "without a token"),
        ({"input": "a" * 5000}, "maximum context length is 4096 tokens, but a text of the input has 5000"),
        ({"input": ["a"] * 2049}, "at most 2048 texts"),
        ({"input": "a", "dimensions": 9}, "at most 8"),
        ({"input": "a", "encoding_format": "int8"}, "'float' or 'base64'"),
        ({"input": [300]}, "300 is no token"),
        ({}, "Field required"),
    ],
)
def test_embeddings_that_are_refused(live: Live, body: dict[str, Any], said: str) -> None:
    reply = live.post("/v1/embeddings", model="toy", **body)
    assert reply.status_code == 400
    assert said in reply.json()["error"]["message"]


def test_state(live: Live) -> None:
    assert live.http.get("/health").json() == {"status": "ok"}
    assert live.http.get("/version").json()["version"]
    assert live.http.get("/openapi.json").json()["paths"]["/v1/completions"]


def test_metrics_are_in_prometheus_form(live: Live) -> None:
    live.post("/v1/completions", model="toy", prompt="a", max_tokens=3)
    lines = live.http.get("/metrics").text.splitlines()
    values = {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}
    assert values['weft_requests_total{route="/v1/completions",status="200"}'] >= 1
    assert values['weft_generation_tokens_total{model="toy"}'] >= 3
    assert values['weft_requests_active{model="toy"}'] == values['weft_requests_waiting{model="toy"}'] == 0
    assert values["weft_request_duration_seconds_count"] == values['weft_request_duration_seconds_bucket{le="+Inf"}'] >= 1


def test_requests_have_numbers(live: Live) -> None:
    own = live.http.get("/health").headers["x-request-id"]
    assert own.startswith("req_")
    assert live.http.get("/nothing", headers={"x-request-id": "mine-1"}).headers["x-request-id"] == "mine-1"
    assert live.http.get("/health", headers={"x-request-id": "no spaces"}).headers["x-request-id"].startswith("req_")
