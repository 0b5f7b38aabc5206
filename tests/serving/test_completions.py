"""Completions: all forms of a prompt, echo, log-probabilities, several answers, and streams byte by byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types import Completion

from tests.serving.conftest import Live
from tests.serving.fake import LIKELY, UNLIKELY, ToyTokenizer
from weft.inference.request import Delta, Request, Sampling, Token
from weft.serving.replies import CompletionReply, PartialAnswer
from weft.serving.tokens import TokenTexts


def ask(live: Live, **body: Any) -> dict[str, Any]:
    reply = live.post("/v1/completions", **{"model": "toy", "temperature": 0, **body})
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    validate(found)
    return found


def validate(found: dict[str, Any]) -> None:
    """With the client's own types, which do not know that a prompt's first token has no probability (OpenAI itself says null)."""
    copy = json.loads(json.dumps(found))
    for told in [choice["logprobs"] for choice in copy["choices"] if choice["logprobs"]]:
        if told["token_logprobs"] and told["token_logprobs"][0] is None:
            told["token_logprobs"][0] = 0.0
            told["top_logprobs"] = told["top_logprobs"] and [{}, *told["top_logprobs"][1:]]
    Completion.model_validate(copy, strict=True)


def texts(found: dict[str, Any]) -> list[str]:
    assert [choice["index"] for choice in found["choices"]] == list(range(len(found["choices"])))
    return [choice["text"] for choice in found["choices"]]


def test_a_whole_answer(live: Live) -> None:
    found = ask(live, prompt="ab", max_tokens=3)
    assert found["id"].startswith("cmpl-")
    assert (found["object"], found["model"]) == ("text_completion", "toy")
    assert isinstance(found["created"], int)
    assert found["choices"] == [{"index": 0, "text": "cde", "logprobs": None, "finish_reason": "length"}]
    assert found["usage"] == {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        ("ab", ["cd"]),
        (["ab", "x"], ["cd", "yz"]),
        ([97, 98], ["cd"]),
        ([[97, 98], [120], [97, 98, 99, 100]], ["cd", "yz", "ef"]),
        ("", ["ab"]),
    ],
)
def test_every_form_of_a_prompt(live: Live, prompt: Any, said: list[str]) -> None:
    assert texts(ask(live, prompt=prompt, max_tokens=2)) == said


def test_it_stops_at_the_end_at_a_text_and_at_a_token(live: Live) -> None:
    ended = ask(live, prompt="w", max_tokens=9)
    assert (texts(ended), ended["choices"][0]["finish_reason"], ended["usage"]["completion_tokens"]) == (["xyz"], "stop", 4)
    for stop in ("ef", ["q", "ef"]):
        found = ask(live, prompt="a", max_tokens=9, stop=stop)
        assert (texts(found), found["choices"][0]["finish_reason"]) == (["bcd"], "stop")
    assert texts(ask(live, prompt="a", max_tokens=9, stop_token_ids=[ord("d")])) == ["bc"]
    assert texts(ask(live, prompt="y", max_tokens=4, ignore_eos=True)) == ["zab"]


def test_sixteen_tokens_where_nobody_says_and_fewer_where_the_context_ends(live: Live) -> None:
    assert texts(ask(live, prompt="a")) == ["bcdefghijklmnopq"]
    assert texts(ask(live, prompt=[97] * 4094)) == ["bc"]


def test_several_answers_differ_and_a_seed_repeats_them(live: Live) -> None:
    found = texts(ask(live, prompt=["a", "k"], n=3, temperature=1, seed=1, max_tokens=2))
    assert found == ["ce", "dg", "ei", "mo", "nq", "os"]
    assert texts(ask(live, prompt=["a", "k"], n=3, temperature=1, seed=1, max_tokens=2)) == found
    assert ask(live, prompt="a", n=3, max_tokens=2)["usage"] == {"prompt_tokens": 1, "completion_tokens": 6, "total_tokens": 7}


def test_the_best_of_several(live: Live) -> None:
    """Skipping no letter is likeliest: that is the answer whose seed and number are a multiple of five."""
    found = ask(live, prompt="a", best_of=5, n=1, temperature=1, seed=3, max_tokens=2)
    assert texts(found) == ["bc"]
    assert found["choices"][0]["logprobs"] is None
    assert found["usage"]["completion_tokens"] == 10


def test_logprobs(live: Live) -> None:
    found = ask(live, prompt="ab", max_tokens=2, logprobs=3)["choices"][0]["logprobs"]
    assert found["tokens"] == ["c", "d"]
    assert found["token_logprobs"] == [LIKELY, LIKELY]
    assert found["text_offset"] == [0, 1]
    assert found["top_logprobs"][0] == {"c": LIKELY, "bytes:\\xe2": -2.0, "bytes:\\x82": -3.0}
    own = ask(live, prompt="ab", max_tokens=2, logprobs=0)["choices"][0]["logprobs"]
    assert (own["token_logprobs"], own["top_logprobs"]) == ([LIKELY, LIKELY], None)


def test_echo(live: Live) -> None:
    assert texts(ask(live, prompt=["ab", "xy"], max_tokens=1, echo=True)) == ["abc", "xyz"]
    found = ask(live, prompt="ab", max_tokens=0, echo=True)
    assert (texts(found), found["usage"]["completion_tokens"]) == (["ab"], 0)
    found = ask(live, prompt="axy", max_tokens=1, echo=True, logprobs=1)["choices"][0]
    assert found["text"] == "axyz"
    assert found["logprobs"]["tokens"] == ["a", "x", "y", "z"]
    assert found["logprobs"]["token_logprobs"] == [None, UNLIKELY, LIKELY, LIKELY]
    assert found["logprobs"]["top_logprobs"] == [None, {"b": LIKELY, "x": UNLIKELY}, {"y": LIKELY}, {"z": LIKELY}]
    assert found["logprobs"]["text_offset"] == [0, 1, 2, 3]


def test_what_lm_eval_sends_and_reads(live: Live) -> None:
    """Loglikelihood of the end of each prompt: sums over [ctxlen:-1], and whether each token is the likeliest, by equal floats."""
    prompts = [[97, 98, 99, 100], [97, 98, 120], [121, 122]]
    found = ask(live, prompt=prompts, max_tokens=1, logprobs=1, seed=1234, echo=True)
    for prompt, choice, greedy in zip(prompts, found["choices"], [True, False, True], strict=True):
        told = choice["logprobs"]
        assert len(told["token_logprobs"]) == len(told["top_logprobs"]) == len(prompt) + 1  # one more, also where it is END
        context = len(prompt) - 1
        values, tops = told["token_logprobs"][context:-1], told["top_logprobs"][context:-1]
        assert [value == max(top.values()) for value, top in zip(values, tops, strict=True)] == [greedy]
        assert sum(values) == (LIKELY if greedy else UNLIKELY)


def stream(live: Live, **body: Any) -> list[bytes]:
    with live.http.stream("POST", "/v1/completions", json={"model": "toy", "temperature": 0, "stream": True, **body}) as reply:
        assert reply.status_code == 200
        assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
        whole = reply.read()
    assert whole.endswith(b"\n\n")
    return whole.removesuffix(b"\n\n").split(b"\n\n")


def chunks(lines: list[bytes]) -> list[dict[str, Any]]:
    assert lines[-1] == b"data: [DONE]"
    found = [json.loads(line.removeprefix(b"data: ")) for line in lines[:-1]]
    for chunk in found:
        validate({**chunk, "choices": [{**choice, "finish_reason": choice["finish_reason"] or "stop"} for choice in chunk["choices"]]})
    return found


def test_a_stream_byte_by_byte(live: Live) -> None:
    first, second, last = stream(live, prompt="a", max_tokens=2)
    about = json.loads(first.removeprefix(b"data: "))
    begin = f'data: {{"id":"{about["id"]}","object":"text_completion","created":{about["created"]},"model":"toy",'
    begin += f'"system_fingerprint":"{about["system_fingerprint"]}","choices":'
    assert first.decode() == begin + '[{"index":0,"text":"b","logprobs":null,"finish_reason":null}]}'
    assert second.decode() == begin + '[{"index":0,"text":"c","logprobs":null,"finish_reason":"length"}]}'
    assert last == b"data: [DONE]"


def test_a_stream_with_usage(live: Live) -> None:
    found = chunks(stream(live, prompt="a", max_tokens=2, stream_options={"include_usage": True}))
    assert [chunk["usage"] for chunk in found] == [None, None, {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}]
    assert found[-1]["choices"] == []
    assert all("usage" not in chunk for chunk in chunks(stream(live, prompt="a", max_tokens=2)))


@pytest.mark.parametrize("more", [{}, {"echo": True}, {"echo": True, "logprobs": 2}, {"stop": "fg"}, {"n": 3, "temperature": 1}])
def test_streams_say_what_whole_answers_say(live: Live, more: dict[str, Any]) -> None:
    body = {"prompt": ["ab", "tuv"], "max_tokens": 8, "seed": 4, **more}
    whole = ask(live, **body)["choices"]
    deltas = chunks(stream(live, **body))
    for choice in whole:
        mine = [chunk["choices"][0] for chunk in deltas if chunk["choices"][0]["index"] == choice["index"]]
        assert "".join(delta["text"] for delta in mine) == choice["text"]
        assert [delta["finish_reason"] for delta in mine if delta["finish_reason"]] == [choice["finish_reason"]]
        if "logprobs" in more:
            for key, values in choice["logprobs"].items():
                assert [value for delta in mine if delta["logprobs"] for value in delta["logprobs"][key]] == values


def test_offsets_of_a_stream_count_what_is_held_back() -> None:
    """The beginning of a stop text is not told until it is none; the token after it begins where it does in the whole answer."""
    draft = PartialAnswer(Request((97,), Sampling()))
    reply = CompletionReply("toy", TokenTexts(ToyTokenizer()), [draft], top=0, keep=1, count=1)
    found = []
    for text, letter in (("", "b"), ("", "c"), ("bcd", "d"), ("e", "e")):
        delta = Delta(text, (Token(ord(letter), LIKELY),))
        draft.add(delta)
        found += [chunk["choices"][0]["logprobs"]["text_offset"] for chunk in reply.chunks(0, delta)]
    assert found == [[0], [1], [2], [3]]
    assert reply.whole()["choices"][0]["logprobs"]["text_offset"] == [0, 1, 2, 3]
