"""The openai package, as it is: what its users write works here."""

from __future__ import annotations

import asyncio
import threading
import time

import openai
import pytest

from tests.serving.conftest import Live, running
from tests.serving.fake import toy, toy_service


def test_completions(live: Live) -> None:
    with live.client() as client:
        found = client.completions.create(model="toy", prompt="a", max_tokens=3, temperature=0, logprobs=2)
        assert found.choices[0].text == "bcd"
        assert found.choices[0].logprobs is not None
        assert found.choices[0].logprobs.tokens == ["b", "c", "d"]
        assert found.usage is not None
        assert found.usage.total_tokens == 4
        assert found._request_id is not None
        assert found._request_id.startswith("req_")
        parts = client.completions.create(model="toy", prompt="a", max_tokens=3, temperature=0, stream=True)
        assert "".join(part.choices[0].text for part in parts) == "bcd"


def test_chat(live: Live) -> None:
    with live.client() as client:
        messages: list[openai.types.chat.ChatCompletionMessageParam] = [{"role": "user", "content": "hello"}]
        whole = client.chat.completions.create(model="toy", messages=messages, max_tokens=3, temperature=0)
        assert whole.choices[0].message.content == "abc"
        with client.chat.completions.stream(
            model="toy", messages=messages, stop="d", temperature=0, stream_options={"include_usage": True}
        ) as stream:
            parts = [event.delta for event in stream if event.type == "content.delta"]
            final = stream.get_final_completion()
        assert "".join(parts) == "abc"
        assert final.choices[0].message.content == "abc"
        assert final.usage is not None
        assert final.usage.completion_tokens == 4


def test_embeddings_and_models(live: Live) -> None:
    """The client asks for base64 by itself and unpacks it."""
    with live.client() as client:
        found = client.embeddings.create(model="toy", input=["ab", "cd"])
        assert [len(one.embedding) for one in found.data] == [8, 8]
        assert abs(sum(value * value for value in found.data[0].embedding) - 1) < 1e-5
        assert [model.id for model in client.models.list()] == ["toy"]
        assert client.models.retrieve("toy").owned_by == "weft"


def test_many_at_once(live: Live) -> None:
    async def work() -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{live.url}/v1", api_key="none", max_retries=0) as client:

            async def whole() -> str:
                found = await client.completions.create(model="toy", prompt="a", max_tokens=3, temperature=0)
                return found.choices[0].text

            async def parts() -> str:
                stream = await client.completions.create(model="toy", prompt="a", max_tokens=3, temperature=0, stream=True)
                return "".join([part.choices[0].text async for part in stream])

            return await asyncio.gather(*(whole() for _ in range(20)), *(parts() for _ in range(20)))

    assert asyncio.run(work()) == ["bcd"] * 40


def test_errors_have_their_classes(live: Live) -> None:
    with live.client() as client:
        with pytest.raises(openai.BadRequestError, match="at most 4 texts") as wrong:
            client.completions.create(model="toy", prompt="a", stop=list("abcde"))
        assert wrong.value.param == "stop"
        with pytest.raises(openai.NotFoundError) as missing:
            client.completions.create(model="none", prompt="a")
        assert missing.value.code == "model_not_found"
        with pytest.raises(openai.InternalServerError):
            client.completions.create(model="toy", prompt="!boom")


def test_a_wrong_key() -> None:
    with running(toy_service(keys=("right",))) as locked:
        with locked.client(api_key="wrong") as client, pytest.raises(openai.AuthenticationError) as refused:
            client.models.list()
        assert refused.value.code == "invalid_api_key"
        with locked.client(api_key="right") as client:
            assert client.completions.create(model="toy", prompt="a", max_tokens=1, temperature=0).choices[0].text == "b"


def test_an_error_inside_a_stream() -> None:
    with running(toy_service(toy(delay=0.05), timeout=0.3)) as slow, slow.client() as client:
        stream = client.completions.create(model="toy", prompt="a", max_tokens=4000, stream=True, extra_body={"ignore_eos": True})
        with pytest.raises(openai.APIError, match=r"took longer than 0\.3 seconds"):
            list(stream)


def test_it_comes_back_when_the_queue_was_full() -> None:
    """Two requests fill a server of one slot and one place; the third is told to wait, and its client does."""
    with running(toy_service(toy(slots=1, max_queue=1, delay=0.02))) as small:
        body = {"prompt": " ", "max_tokens": 30, "ignore_eos": True}
        others = [threading.Thread(target=small.post, args=("/v1/completions",), kwargs=body) for _ in range(2)]
        for thread in others:
            thread.start()
        while small.service.models["toy"].worker.open < 2:
            time.sleep(0.005)
        begin = time.perf_counter()
        refused = small.post("/v1/completions", prompt="a")
        assert time.perf_counter() - begin < 1.0
        assert refused.status_code == 429
        assert refused.headers["retry-after"] == "1"
        assert refused.json()["error"]["type"] == "rate_limit_error"
        with small.client(max_retries=0) as hasty, pytest.raises(openai.RateLimitError):
            hasty.completions.create(model="toy", prompt="a")
        with small.client(max_retries=2) as patient:
            assert patient.completions.create(model="toy", prompt="a", max_tokens=1, temperature=0).choices[0].text == "b"
        assert time.perf_counter() - begin > 1.0
        for thread in others:
            thread.join()
