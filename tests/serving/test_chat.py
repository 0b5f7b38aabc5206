"""Chat: messages, streams, log-probabilities, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from tests.serving.conftest import Live, running
from tests.serving.fake import toy, toy_service
from weft.data.tokenizers.base import CharacterTokenizer

HELLO = [{"role": "user", "content": "hello"}]


def ask(live: Live, **body: Any) -> dict[str, Any]:
    reply = live.post("/v1/chat/completions", **{"model": "toy", "messages": HELLO, "temperature": 0, **body})
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    ChatCompletion.model_validate(found)
    return found


def test_a_whole_answer(live: Live) -> None:
    found = ask(live, max_tokens=4)
    assert found["id"].startswith("chatcmpl-")
    assert found["object"] == "chat.completion"
    message = {"role": "assistant", "content": "abcd", "refusal": None}
    assert found["choices"] == [{"index": 0, "message": message, "logprobs": None, "finish_reason": "length"}]
    prompt = len("User: hello\nAssistant:")
    assert found["usage"] == {"prompt_tokens": prompt, "completion_tokens": 4, "total_tokens": prompt + 4}


def test_it_answers_to_its_end_where_nobody_says_how_long(live: Live) -> None:
    found = ask(live)["choices"][0]
    assert (found["message"]["content"], found["finish_reason"]) == ("abcdefghijklmnopqrstuvwxyz", "stop")


def test_the_newer_name_of_max_tokens_counts(live: Live) -> None:
    assert ask(live, max_completion_tokens=2, max_tokens=9)["choices"][0]["message"]["content"] == "ab"


def test_messages_in_parts_and_a_developer(live: Live) -> None:
    parts = [{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]
    plain = [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hello"}, {"role": "assistant", "content": None}]
    same = [{"role": "developer", "content": "be kind"}, {"role": "user", "content": parts}, {"role": "assistant"}]
    counts = [ask(live, messages=messages, max_tokens=1)["usage"]["prompt_tokens"] for messages in (plain, same)]
    assert counts == [len("be kind\nUser: hello\nAssistant: \nAssistant:")] * 2


def test_logprobs(live: Live) -> None:
    found = ask(live, max_tokens=1, logprobs=True, top_logprobs=2)["choices"][0]["logprobs"]
    half = {"token": "bytes:\\xe2", "logprob": -2.0, "bytes": [0xE2]}
    own = {"token": "a", "logprob": -0.125, "bytes": [97]}
    assert found == {"content": [{**own, "top_logprobs": [own, half]}], "refusal": None}
    assert ask(live, max_tokens=1, logprobs=True)["choices"][0]["logprobs"]["content"][0]["top_logprobs"] == []


def test_a_stream(live: Live) -> None:
    body = {"model": "toy", "messages": HELLO, "temperature": 0, "max_tokens": 2, "stream": True, "stream_options": {"include_usage": True}}
    with live.http.stream("POST", "/v1/chat/completions", json=body) as reply:
        lines = reply.read().decode().removesuffix("\n\n").split("\n\n")
    assert lines[-1] == "data: [DONE]"
    found = [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
    for chunk in found:
        ChatCompletionChunk.model_validate(chunk)
    deltas = [(chunk["choices"][0]["delta"], chunk["choices"][0]["finish_reason"]) for chunk in found[:-1]]
    assert deltas == [({"role": "assistant", "content": ""}, None), ({"content": "a"}, None), ({"content": "b"}, None), ({}, "length")]
    assert (found[-1]["choices"], found[-1]["usage"]["completion_tokens"]) == ([], 2)
    assert len({chunk["id"] for chunk in found}) == 1


@pytest.mark.parametrize(
    ("body", "param", "said"),
    [
        ({"tools": [{"type": "function"}]}, "tools", "tools are not offered"),
        ({"functions": [{}]}, "tools", "tools are not offered"),
        ({"response_format": {"type": "json_object"}}, "response_format", "only be of the type text"),
        ({"modalities": ["audio"]}, "modalities", "only hold text"),
        ({"top_logprobs": 3}, "top_logprobs", "needs logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs", "less than or equal to 20"),
        ({"messages": []}, "messages", "at least 1"),
        ({"messages": None}, "messages", "Field required"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages", "'system', 'developer', 'user' or 'assistant'"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages", "not 'image_url'"),
        ({"max_tokens": 0}, "max_tokens", "greater than or equal to 1"),
        ({"max_tokens": 4000, "messages": [{"role": "user", "content": "x" * 200}]}, "max_tokens", "maximum context length is 4096"),
        ({"messages": [{"role": "user", "content": "x" * 5000}]}, "messages", "maximum context length is 4096"),
        ({"temperature": -1}, "temperature", "must be from 0.0 to 100.0"),
    ],
)
def test_what_is_refused(live: Live, body: dict[str, Any], param: str, said: str) -> None:
    reply = live.post("/v1/chat/completions", **{"model": "toy", "messages": HELLO, **body})
    assert reply.status_code == 400
    error = reply.json()["error"]
    assert said in error["message"]
    assert error["param"] == param
    assert error["type"] == "invalid_request_error"


def test_what_asks_for_nothing_special_is_taken(live: Live) -> None:
    more = {"tools": [], "response_format": {"type": "text"}, "user": "me", "store": True, "metadata": {}, "tool_choice": "none"}
    assert ask(live, max_tokens=1, **more)["choices"][0]["message"]["content"] == "a"


def test_a_model_without_the_letters_of_a_chat_says_so_and_completes() -> None:
    letters = toy("letters", tokenizer=CharacterTokenizer("abcdefghijklmnopqrstuvwxyz"))
    with running(toy_service(letters, toy())) as live:
        listed = {model["id"]: (model["offers"], model.get("template")) for model in live.http.get("/v1/models").json()["data"]}
        assert listed == {"letters": (["completions", "embeddings"], None), "toy": (["completions", "chat", "embeddings"], "plain")}
        for path in ("/v1/chat/completions", "/tokenize"):
            reply = live.post(path, model="letters", messages=HELLO)
            assert (reply.status_code, reply.json()["error"]["code"]) == (400, "unsupported_model")
            assert "continues a text at /v1/completions" in reply.json()["error"]["message"]
        assert live.http.get("/tokenizer_info", params={"model": "letters"}).json()["chat_template"] is None
        assert live.post("/v1/completions", model="letters", prompt="a", max_tokens=1).status_code == 200
