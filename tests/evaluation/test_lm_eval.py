"""The adapter for lm-evaluation-harness, over the harness where it is installed and else over a stub of its base class."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.evaluation.fewshot.conftest import bigram, tiny
from weft.core.errors import CapabilityError, MissingExtra
from weft.core.installation import install_command
from weft.evaluation import lm_eval
from weft.evaluation.fewshot.scoring import Scorer

INSTALLED = importlib.util.find_spec("lm_eval") is not None


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, type]]:
    """What was registered with the harness."""
    found: dict[str, type] = {}
    names = ("lm_eval", "lm_eval.api", "lm_eval.api.model", "lm_eval.api.registry")
    modules: dict[str, Any] = {name: ModuleType(name) for name in names}
    modules["lm_eval.api.model"].TemplateLM = type("TemplateLM", (), {})
    modules["lm_eval.api.registry"].register_model = lambda name: lambda kind: found.setdefault(name, kind)
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    lm_eval.register.cache_clear()
    yield found
    lm_eval.register.cache_clear()


def asked(*arguments: Any) -> SimpleNamespace:
    return SimpleNamespace(args=arguments)


def test_without_the_harness_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lm_eval", None)  # as if it were not installed
    monkeypatch.delitem(sys.modules, "lm_eval.api.model", raising=False)
    lm_eval.register.cache_clear()
    with pytest.raises(MissingExtra, match=re.escape(install_command("eval"))):
        lm_eval.adapter(tiny())


def test_likelihoods_are_the_scorers(known: dict[str, type]) -> None:
    loaded = tiny()
    model = lm_eval.adapter(loaded, batch_size="auto")
    assert type(model) is known["weft"]
    pairs = [("The quick", " brown"), ("The quick ", "brown"), ("", "start"), ("line\n", "next")]
    found = model.loglikelihood([asked(*pair) for pair in pairs])
    expected = Scorer(loaded).score([("The quick", " brown"), ("The quick", " brown"), ("", "start"), ("line", "\nnext")])
    assert found == [(pytest.approx(score.logprob, abs=1e-5), score.greedy) for score in expected]
    assert model.tok_decode(model.tok_encode("né")) == "né"
    assert (model.max_length, model.prefix_token_id, model.eot_token_id) == (48, 10, 10)


def test_whole_texts_are_scored_in_windows(known: dict[str, type]) -> None:
    loaded = tiny()
    model = lm_eval.adapter(loaded)
    texts = ["short", "", "a longer text than the model can see at once, and some more of it at the end" * 2]
    found = model.loglikelihood_rolling([asked(text) for text in texts])
    expected = [Scorer(loaded).score([("", text)])[0].logprob if text else 0.0 for text in texts]
    assert found == pytest.approx(expected, abs=1e-4)


def test_texts_are_written_until_told_to_stop(known: dict[str, type]) -> None:
    model = lm_eval.adapter(bigram("abcd\n"))
    requests = [asked("a", {"until": ["\n"]}), asked("a", {"until": "d", "max_gen_toks": 8}), asked("a", {"max_gen_toks": 3, "until": []})]
    assert model.generate_until(requests) == ["bcd", "bc", "bcd"]
    assert model.generate_until([asked("a", {"until": ["\n", "c"], "do_sample": False, "temperature": 0.0})]) == ["b"]
    with pytest.raises(CapabilityError, match="do_sample=False"):
        model.generate_until([asked("a", {"until": ["\n"], "do_sample": True, "temperature": 0.7})])


@pytest.mark.skipif(not INSTALLED, reason="lm_eval is not installed")
def test_the_harness_accepts_it() -> None:
    kind = lm_eval.register()
    assert importlib.import_module("lm_eval.api.registry").get_model("weft") is kind
    assert lm_eval.adapter(tiny()).loglikelihood([asked("a", "b")])[0][0] < 0
