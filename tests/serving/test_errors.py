"""Hostile and mistaken requests: always an error in OpenAI's form, never one of the server."""

from __future__ import annotations

import http.client
import json
import socket
from typing import Any
from urllib.parse import urlparse

import httpx
import hypothesis
import pytest
from hypothesis import strategies as st

from tests.serving.conftest import Live, running
from tests.serving.fake import toy, toy_service


def check(reply: httpx.Response, status: int = 400) -> dict[str, Any]:
    assert reply.status_code == status, reply.text
    body = reply.json()
    assert list(body) == ["error"]
    assert list(body["error"]) == ["message", "type", "param", "code"]
    assert body["error"]["message"]
    error: dict[str, Any] = body["error"]
    return error


@pytest.mark.parametrize(
    ("body", "param", "said"),
    [
        ({}, "prompt", "Field required"),
        ({"prompt": []}, "prompt", "not empty"),
        ({"prompt": 5}, "prompt", "must be a text"),
        ({"prompt": {"a": 1}}, "prompt", "must be a text"),
        ({"prompt": [[]]}, "prompt", "none of them empty"),
        ({"prompt": [[97], []]}, "prompt", "none of them empty"),
        ({"prompt": ["a", 5]}, "prompt", "texts only"),
        ({"prompt": [True]}, "prompt", "texts only"),
        ({"prompt": [1.5]}, "prompt", "texts only"),
        ({"prompt": [[[97]]]}, "prompt", "texts only"),
        ({"prompt": [-1]}, "prompt", "-1 is no token of this model; tokens are from 0 to 256"),
        ({"prompt": [257]}, "prompt", "257 is no token"),
        ({"prompt": [10**30]}, "prompt", "is no token"),
        ({"prompt": ["a"] * 2049}, "prompt", "at most 2048"),
        ({"prompt": ["a"] * 69}, None, "69 answers were asked for at once, and the server takes 68"),
        ({"n": 0}, "n", "greater than or equal to 1"),
        ({"n": 10**9}, "n", "less than or equal to 128"),
        ({"n": "2"}, "n", "valid integer"),
        ({"n": True}, "n", "valid integer"),
        ({"best_of": 1, "n": 2}, "best_of", "at least n"),
        ({"best_of": 3, "stream": True}, "best_of", "known only at the end"),
        ({"temperature": -1}, "temperature", "temperature must be from"),
        ({"temperature": 1e9}, "temperature", "temperature must be from"),
        ({"temperature": "hot"}, "temperature", "valid number"),
        ({"top_p": 1.5}, "top_p", "less than or equal to 1"),
        ({"top_k": -2}, "top_k", "greater than or equal to -1"),
        ({"min_p": 2}, "min_p", "min_p must be from"),
        ({"repetition_penalty": 0}, "repetition_penalty", "repetition_penalty must be above 0"),
        ({"presence_penalty": 1e6}, "presence_penalty", "presence_penalty must be from"),
        ({"logprobs": 6}, "logprobs", "less than or equal to 5"),
        ({"logprobs": True}, "logprobs", "valid integer"),
        ({"stop": ["a"] * 5}, "stop", "at most 4"),
        ({"stop": ""}, "stop", "1 to 1000 characters"),
        ({"stop": ["a", ""]}, "stop", "1 to 1000 characters"),
        ({"stop": ["a" * 1001]}, "stop", "1 to 1000 characters"),
        ({"stop": [1]}, "stop", "a text or a list of texts"),
        ({"max_tokens": -1}, "max_tokens", "greater than or equal to 0"),
        ({"max_tokens": 0}, "max_tokens", "only with echo"),
        ({"max_tokens": 5000}, "max_tokens", "at most 4096"),
        ({"max_tokens": 1.5}, "max_tokens", "valid integer"),
        ({"logit_bias": {"x": 1}}, "logit_bias", "'x' is no token"),
        ({"logit_bias": {"999": 1}}, "logit_bias", "'999' is no token"),
        ({"logit_bias": {"-1": 1}}, "logit_bias", "'-1' is no token"),
        ({"logit_bias": {"5": 101}}, "logit_bias", "from -100 to 100"),
        ({"seed": 1 << 64}, "seed", "less than 18446744073709551616"),
        ({"suffix": "end"}, "suffix", "not offered"),
        ({"stream_options": {"include_usage": True}}, "stream_options", "only where stream is true"),
        ({"stream": "yes"}, "stream", "valid boolean"),
        ({"stop_token_ids": [-1]}, "stop_token_ids", "greater than or equal to 0"),
        ({"prompt": [97] * 4096}, "prompt", "4096 tokens, but 4097 tokens (4096 in the prompt, 1 for the answer)"),
        ({"prompt": [97] * 4000, "max_tokens": 100}, "max_tokens", "4096 tokens, but 4100 tokens (4000 in the prompt, 100 for the answer)"),
    ],
)
def test_completions_that_are_refused(live: Live, body: dict[str, Any], param: str | None, said: str) -> None:
    given = body if "prompt" in body or not body else {"prompt": "a", **body}
    error = check(live.post("/v1/completions", model="toy", **given))
    assert said in error["message"]
    assert error["param"] == param
    assert error["type"] == "invalid_request_error"
    if "maximum context length" in error["message"]:
        assert error["code"] == "context_length_exceeded"


def raw(live: Live, content: bytes, kind: str = "application/json") -> httpx.Response:
    return live.http.post("/v1/completions", content=content, headers={"content-type": kind})


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"5",
        b"null",
        b'"text"',
        b'{"prompt": "a", "temperature": NaN}',
        b'{"prompt": "a", "temperature": Infinity}',
        b'{"prompt": "a", "temperature": 1e999}',
        b'{"prompt": "a", "temperature": ' + b"9" * 400 + b"}",
        b'{"prompt": "a", "seed": ' + b"9" * 5000 + b"}",
        b'{"prompt": "a", "logit_bias": {"' + b"9" * 5000 + b'": 1}}',
        b'{"prompt": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        b'{"prompt": "\xff\xfe"}',
        b"\xff\xfe\x00\x00",
        b"\x00" * 1000,
        b'{"prompt": ["a", ' + b"1, " * 300_000 + b"1]}",
    ],
    ids=lambda content: repr(content[:24]),
)
def test_bodies_that_are_refused(live: Live, content: bytes) -> None:
    check(raw(live, content))


def test_a_body_that_is_not_called_json(live: Live) -> None:
    assert "application/json" in check(raw(live, b'{"prompt": "a"}', "text/plain"))["message"]


def test_odd_texts_are_answered(live: Live) -> None:
    """Lone surrogates, NUL and half an emoji come back as something that can be sent."""
    for text in (r"\ud800", r"a\u0000b", r"\udfff x", r"\ud83d"):
        for more in ('"echo": true', '"echo": true, "logprobs": 2', '"stop": "' + text + '"', '"model": "' + text + '"'):
            reply = raw(live, f'{{"prompt": "{text}", "max_tokens": 2, {more}}}'.encode())
            assert reply.status_code in (200, 400, 404)
            reply.json()


def test_routes_and_methods_that_do_not_exist(live: Live) -> None:
    check(live.http.get("/v1/nothing"), 404)
    check(live.http.get("/v1/completions"), 405)
    check(live.http.delete("/v1/models"), 405)


def test_a_body_that_is_too_large() -> None:
    with running(toy_service(body_bytes=1000)) as small:
        error = check(small.post("/v1/completions", prompt="a" * 2000), 413)
        assert (error["code"], "1,000 bytes" in error["message"]) == ("body_too_large", True)

        def parts() -> Any:
            yield b'{"prompt": "'
            for _ in range(50):
                yield b"a" * 100

        check(small.http.post("/v1/completions", content=parts()), 413)
        assert small.post("/v1/completions", prompt="a").status_code == 200


def test_an_answer_that_takes_too_long() -> None:
    with running(toy_service(toy(delay=0.05), timeout=0.3)) as slow:
        reply = slow.post("/v1/completions", prompt=" ", max_tokens=4000, ignore_eos=True)
        assert check(reply, 503)["code"] == "timeout"
        assert reply.headers["x-should-retry"] == "false"
        assert slow.idle()
        body = {"prompt": " ", "max_tokens": 4000, "ignore_eos": True, "stream": True}
        with slow.http.stream("POST", "/v1/completions", json=body) as lines:
            said = lines.read().decode().strip().split("\n\n")
        assert said[-1] == "data: [DONE]"
        assert json.loads(said[-2].removeprefix("data: "))["error"]["code"] == "timeout"
        assert slow.idle()


def test_an_engine_that_breaks_is_made_anew(live: Live) -> None:
    error = check(live.post("/v1/completions", prompt="!boom", max_tokens=2), 500)
    assert (error["type"], error["code"]) == ("server_error", "engine_failed")
    assert live.post("/v1/completions", prompt="a", max_tokens=2, temperature=0).json()["choices"][0]["text"] == "bc"
    assert live.idle()


def test_requests_that_are_not_http(live: Live) -> None:
    place = urlparse(live.url)
    negative = b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n"
    for data in (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", b"GET /\r\n\r\n", b"A" * 100_000, negative):
        with socket.create_connection((place.hostname, place.port), timeout=5) as raw_socket:
            raw_socket.sendall(data)
            assert raw_socket.recv(1000).startswith(b"HTTP/1.1 400")
    assert live.http.get("/health").status_code == 200


def test_a_header_and_a_path_full_of_rubbish(live: Live) -> None:
    place = urlparse(live.url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port or 0, timeout=5)
    for path in ("/%ff%fe", "/v1/models/%00", "/v1/models/..%2f..%2fetc", "/?" + "a" * 5000, "/tokenizer_info?model=%ff"):
        connection.request("GET", path, headers={"x-request-id": "\xff", "authorization": "Bearer \xff"})
        reply = connection.getresponse()
        reply.read()
        assert reply.status in (200, 404)
    connection.close()


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda ffn_width: st.lists(ffn_width, max_size=4) | st.dictionaries(st.text(max_size=8), ffn_width, max_size=4),
    max_leaves=8,
)
SAMPLED = "model max_tokens temperature top_p n stop seed stream stream_options logit_bias top_k min_p repetition_penalty ignore_eos"
SEARCHED = "beams length_penalty coverage_penalty iterations length_factor"
FIELDS = {
    "/v1/completions": f"prompt best_of logprobs echo suffix stop_token_ids {SAMPLED} {SEARCHED}".split(),
    "/v1/chat/completions": f"messages max_completion_tokens logprobs top_logprobs tools response_format modalities {SAMPLED}".split(),
    "/v1/embeddings": ["input", "encoding_format", "dimensions", "model"],
    "/tokenize": ["prompt", "messages", "add_special_tokens", "parse_special", "model"],
    "/detokenize": ["tokens", "model"],
}
GOOD: dict[str, dict[str, Any]] = {
    "/v1/completions": {"prompt": "a", "max_tokens": 2},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "a"}], "max_tokens": 2},
    "/v1/embeddings": {"input": "a"},
    "/tokenize": {"prompt": "a"},
    "/detokenize": {"tokens": [97]},
}


@pytest.mark.parametrize("path", FIELDS)
@hypothesis.given(data=st.data())
@hypothesis.settings(max_examples=150, suppress_health_check=list(hypothesis.HealthCheck))
def test_whatever_is_sent_the_server_is_not_at_fault(live: Live, path: str, data: st.DataObject) -> None:
    changes = data.draw(st.dictionaries(st.sampled_from(FIELDS[path]), anything, max_size=3))
    reply = live.http.post(path, content=json.dumps({**GOOD[path], **changes}).encode(), headers={"content-type": "application/json"})
    assert reply.status_code in (200, 400, 404), (changes, reply.text)
    if reply.status_code != 200:
        check(reply, reply.status_code)
