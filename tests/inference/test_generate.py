"""Continuing a text: exact against a hand-written loop, a sliding context, stop texts, capabilities."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from weft.core.errors import CapabilityError, ConfigError
from weft.data.tokenizers.base import ByteTokenizer, CharacterTokenizer, WordTokenizer
from weft.data.tokenizers.subwords import ByteBPE
from weft.inference.engine import Engine, generate_all
from weft.inference.generate import can_continue, generate, open_prompt
from weft.inference.request import Request, Sampling
from weft.models.language.bert import TINY as TINY_BERT
from weft.models.language.gpt import GPT, TINY
from weft.models.mlp import TINY as TINY_MLP

TOKENS = CharacterTokenizer("\nabcdefgh ")


@pytest.fixture
def model() -> GPT:
    torch.manual_seed(0)
    return dataclasses.replace(TINY, vocabulary=TOKENS.size + 3, context=8).build().eval()


def test_greedy_equals_a_plain_loop_over_the_last_context_tokens(model: GPT) -> None:
    ids = TOKENS.encode("abc").tolist()
    with torch.no_grad():
        for _ in range(20):
            ids.append(int(model(torch.tensor([ids[-8:]]))[0, -1, : TOKENS.size].argmax()))
    made = generate(model, TOKENS, "abc", max_new_tokens=20, temperature=0)[0]
    assert str(made) == TOKENS.decode(ids)
    assert (made.prompt, made.tokens, made.finish_reason) == ("abc", 20, "length")


def test_each_of_several_texts_depends_on_seed_and_number_only(model: GPT) -> None:
    four = generate(model, TOKENS, "ab", n=4, max_new_tokens=12, seed=5)
    two = generate(model, TOKENS, "ab", n=2, max_new_tokens=12, seed=5)
    assert [one.text for one in four[:2]] == [one.text for one in two]
    assert len({one.text for one in four}) > 1
    assert all(one.seed == 5 for one in four)
    assert generate(model, TOKENS, "ab", max_new_tokens=12, seed=6)[0].text != two[0].text


def test_global_randomness_and_dropout_do_not_enter(model: GPT) -> None:
    first = generate(model, TOKENS, "ab", max_new_tokens=9)[0]
    torch.manual_seed(99)
    assert generate(model, TOKENS, "ab", max_new_tokens=9)[0] == first


def test_no_token_beyond_the_tokenizer_is_chosen(model: GPT) -> None:
    with torch.no_grad():
        model.embed.weight[TOKENS.size :] = 50.0
    assert generate(model, TOKENS, "", n=3, max_new_tokens=30, temperature=5.0)


def test_a_stop_text_ends_and_is_left_out(model: GPT) -> None:
    whole = generate(model, TOKENS, "a", max_new_tokens=40, seed=1)[0].text
    stop = whole[10:12]
    made = generate(model, TOKENS, "a", max_new_tokens=40, seed=1, stop=stop)[0]
    assert made.text == whole[: whole.index(stop)]
    assert made.finish_reason == "stop sequence"
    assert made.tokens == whole.index(stop) + 2


@pytest.mark.parametrize("tokenizer", [ByteTokenizer(), WordTokenizer(["<unk>", "a", "b", "."])])
def test_other_tokenizers_and_no_prompt(tokenizer: object) -> None:
    model = dataclasses.replace(TINY, vocabulary=256, context=8).build().eval()
    assert generate(model, tokenizer, max_new_tokens=5)[0].tokens == 5


def test_what_cannot_continue_a_text_says_so(model: GPT) -> None:
    with pytest.raises(CapabilityError, match="MLP does not offer NextTokenLogits"):
        generate(dataclasses.replace(TINY_MLP, features=4, classes=2).build(), TOKENS)
    with pytest.raises(CapabilityError, match="both sides"):
        generate(dataclasses.replace(TINY_BERT, vocabulary=10, context=8).build(), TOKENS)
    with pytest.raises(CapabilityError, match="no tokenizer"):
        generate(model, None)
    assert not can_continue(model, None)


def test_wrong_prompts_and_numbers_are_refused(model: GPT, caplog: pytest.LogCaptureFixture) -> None:
    assert generate(model, TOKENS, "az", temperature=0.0)[0].text == generate(model, TOKENS, "a", temperature=0.0)[0].text
    assert "prompt: 1 × characters that the model does not know, left out: 'z' (U+007A)" in caplog.messages
    with pytest.raises(ConfigError, match="at least 1"):
        generate(model, TOKENS, "a", n=0)


def test_a_model_of_others_gets_the_marks_it_is_used_to() -> None:
    """As the library puts them before a text, and as the server does."""
    processors = pytest.importorskip("tokenizers").processors
    tokenizer = ByteBPE.train("a b a b", 300, special_tokens=["start", "end"])
    model = dataclasses.replace(TINY, vocabulary=tokenizer.size, context=16).build().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)  # so that all that is read matters
    plain = generate(model, tokenizer, "ab", max_new_tokens=6, temperature=0.0)[0]
    tokenizer.engine.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)])
    assert open_prompt(tokenizer, "ab") == [0, *tokenizer.encode("ab").tolist()]
    assert open_prompt(tokenizer, "") == [0]
    marked = generate(model, tokenizer, "ab", max_new_tokens=6, temperature=0.0)[0]
    assert marked.text != plain.text
    assert marked.text == generate_all(Engine(model, tokenizer), [Request(tuple(open_prompt(tokenizer, "ab")), Sampling(6, 0.0))])[0].text
