"""Images through the server: OpenAI's form, classes, sizes, seeds, and who is refused what."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import hypothesis
import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from openai.types import ImagesResponse

from tests.serving.conftest import Live, running
from tests.serving.fake import toy_service
from tests.serving.small import served, served_gpt, served_images
from tests.serving.test_errors import anything
from weft.core.errors import CapabilityError
from weft.data.tokenizers.base import ClassNames
from weft.models.generative.gan import GANConfig
from weft.models.generative.pixelcnn import PixelCNNConfig
from weft.models.generative.vae import VAEConfig
from weft.recipes.base import Recipe
from weft.runs.load import Loaded
from weft.serving.service import serve_model
from weft.visual.grids import as_images, draw

image = pytest.importorskip("PIL.Image")
PATH = "/v1/images/generations"


@pytest.fixture(scope="module")
def small() -> Iterator[Live]:
    torch.manual_seed(0)
    plain = served("plain", VAEConfig(features=48, image=(3, 4, 4), latent=4, hidden=(8,)).build().eval(), None)
    slow = served("slow", PixelCNNConfig(image=(1, 12, 12), layers=1, width=8).build().eval(), None)
    with running(toy_service(served_images(), plain, slow, served_gpt())) as found:
        yield found


def pictures(reply: dict[str, Any]) -> list[np.ndarray]:
    """The pixels of an answer."""
    found = []
    for one in reply["data"]:
        with image.open(io.BytesIO(base64.b64decode(one["b64_json"]))) as opened:
            assert opened.format == "PNG"
            found.append(np.asarray(opened))
    return found


def test_images_are_those_that_are_drawn_elsewhere(small: Live) -> None:
    reply = small.post(PATH, model="digits", n=11, seed=5)
    assert reply.status_code == 200, reply.text
    ImagesResponse.model_validate(reply.json())
    assert reply.json()["seed"] == 5
    model = small.service.models["digits"].model
    expected = as_images(draw(model, 11, 5))[..., 0]
    assert np.array_equal(np.stack(pictures(reply.json())), expected)
    alone = small.post(PATH, model="digits", seed=5).json()
    assert np.array_equal(pictures(alone)[0], expected[0])  # alone or beside others
    for prompt, number in (("dog", 1), (" 7 ", 2), ("0", 0)):
        asked = small.post(PATH, model="digits", prompt=prompt, n=2, seed=5).json()
        assert np.array_equal(np.stack(pictures(asked)), as_images(draw(model, 2, 5, number))[..., 0])


def test_the_client_of_openai(small: Live) -> None:
    found = small.client().images.generate(model="digits", prompt="cat", n=2, size="16x16", response_format="b64_json")  # type: ignore[call-overload]
    assert len(found.data) == 2
    first = small.post(PATH, model="digits", prompt="cat", n=2, seed=found.seed).json()
    large = pictures(found.model_dump())
    assert large[0].shape == (16, 16)
    assert np.array_equal(large[1][::2, ::2], pictures(first)[1])
    assert np.array_equal(large[1], pictures(first)[1].repeat(2, 0).repeat(2, 1))


def test_colours_sizes_and_random_seeds(small: Live) -> None:
    first, second = (small.post(PATH, model="plain", prompt="", size="4x4").json() for _ in range(2))
    assert pictures(first)[0].shape == (4, 4, 3)
    assert first["seed"] != second["seed"]
    offers = {model["id"]: (model["offers"], model.get("images")) for model in small.http.get("/v1/models").json()["data"]}
    assert offers["digits"] == (["images"], {"size": "8x8", "labels": ["cat", "dog", "7"]})
    assert offers["plain"] == (["images"], {"size": "4x4", "labels": []})
    assert offers["gpt"] == (["completions", "chat", "embeddings"], None)


@pytest.mark.parametrize(
    ("body", "param", "said"),
    [
        ({"model": "plain", "prompt": "a cat"}, "prompt", "must be empty"),
        ({"prompt": "horse"}, "prompt", "'horse' is none of the classes, which are cat, dog, 7"),
        ({"prompt": "3"}, "prompt", "none of the classes"),
        ({"prompt": "9" * 500}, "prompt", "none of the classes"),
        ({"prompt": 7}, "prompt", "string"),
        ({"n": 0}, "n", "greater than or equal to 1"),
        ({"n": 65}, "n", "less than or equal to 64"),
        ({"size": "1024x1024", "n": 64}, "n", "at most 16,777,216 are drawn at once"),
        ({"size": "12x12"}, "size", "auto, 8x8 or a whole number of times as large"),
        ({"size": "8x16"}, "size", "not '8x16'"),
        ({"size": "4096x4096"}, "size", "up to 2048"),
        ({"size": "0x0"}, "size", "size must be"),
        ({"size": "８x８０"}, "size", "size must be"),
        ({"response_format": "url"}, "response_format", "b64_json"),
        ({"output_format": "jpeg"}, "output_format", "png"),
        ({"stream": True}, "stream", "not offered for images"),
        ({"seed": 1.5}, "seed", "integer"),
        ({"model": "gpt"}, "model", "the model 'gpt' cannot draw images"),
        ({"model": "none"}, "model", "no model is called"),
    ],
)
def test_what_is_refused(small: Live, body: dict[str, Any], param: str, said: str) -> None:
    reply = small.post(PATH, **{"model": "digits", **body})
    assert reply.status_code == (404 if body.get("model") == "none" else 400), reply.text
    assert reply.json()["error"]["param"] == param
    assert said in reply.json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", {"prompt": "a"}),
        ("/v1/completions", {"prompt": [1]}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}),
        ("/v1/embeddings", {"input": "a"}),
        ("/tokenize", {"prompt": "a"}),
        ("/tokenize", {"messages": [{"role": "user", "content": "hi"}]}),
        ("/detokenize", {"tokens": [1]}),
        ("/inspect/attention", {"text": "a"}),
    ],
)
def test_it_has_no_texts(small: Live, path: str, body: dict[str, Any]) -> None:
    reply = small.post(path, model="digits", **body)
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "unsupported_model"), reply.text
    assert "it draws images" in reply.json()["error"]["message"]
    assert small.http.get("/tokenizer_info", params={"model": "digits"}).status_code == 400


def test_a_client_that_leaves_is_not_drawn_for(small: Live) -> None:
    with pytest.raises(httpx.TimeoutException):
        small.http.post(PATH, json={"model": "slow", "n": 64}, timeout=0.05)
    assert small.idle(10)
    assert small.post(PATH, model="slow", n=2, seed=1).status_code == 200


@hypothesis.given(data=st.data())
@hypothesis.settings(max_examples=100, suppress_health_check=list(hypothesis.HealthCheck))
def test_whatever_is_sent_the_server_is_not_at_fault(small: Live, data: st.DataObject) -> None:
    fields = ["prompt", "n", "size", "response_format", "output_format", "seed", "stream", "model", "quality"]
    changes = data.draw(st.dictionaries(st.sampled_from(fields), anything, max_size=3))
    content = json.dumps({"model": "digits", **changes}).encode()
    reply = small.http.post(PATH, content=content, headers={"content-type": "application/json"})
    assert reply.status_code in (200, 400, 404), (changes, reply.text)


def test_it_needs_the_key() -> None:
    with running(toy_service(served_images(), keys=("secret",))) as locked:
        assert locked.post(PATH, model="digits").status_code == 401
        assert locked.http.post(PATH, json={}, headers={"Authorization": "Bearer secret"}).status_code == 200


def test_what_draws_no_images_is_not_served() -> None:
    for config in (GANConfig(features=2), GANConfig(features=3)):
        loaded = Loaded(Path(), Recipe.__new__(Recipe), config.build(), ClassNames(["a"]), {})
        with pytest.raises(CapabilityError, match="neither text nor images"):
            serve_model("points", loaded)
