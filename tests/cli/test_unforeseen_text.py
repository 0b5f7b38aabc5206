"""Text that was not foreseen, end to end: a Chinese text in GB18030, and characters that a model never met."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome, tiny_flags
from tests.serving.conftest import running
from weft.runs.load import load
from weft.serving.service import Service, serve_model

ANALECTS = """学而时习之，不亦说乎？有朋自远方来，不亦乐乎？人不知而不愠，不亦君子乎？
其为人也孝弟，而好犯上者，鲜矣；不好犯上，而好作乱者，未之有也。君子务本，本立而道生。
吾日三省吾身：为人谋而不忠乎？与朋友交而不信乎？传不习乎？
"""
"""From the first book of the Analects."""


@pytest.fixture(scope="module")
def chinese(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("chinese") / "论语.txt"
    path.write_bytes((ANALECTS * 12).encode("gb18030"))
    return path


def test_chinese_is_trained_reported_evaluated_sampled_and_served(
    chinese: Path, command: Callable[..., Outcome], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = tmp_path / "run"
    trained = command("train", "gpt/text", *tiny_flags(chinese), "--out", str(run))
    assert trained.code == 0
    assert f"data: 1 × files read as GB18030, which was detected; --data.encoding names another: {chinese}" in caplog.messages
    assert load(run).tokenizer.characters == "".join(sorted(set(ANALECTS)))
    assert json.loads((run / "environment.json").read_bytes())["data"]["bytes_per_token"] == pytest.approx(2.9, abs=0.1)
    assert any(character in (run / "report.html").read_text("utf-8") for character in "学而时习之不亦说乎君子")

    other = tmp_path / "other.txt"
    other.write_text("君子不器。\n", encoding="utf-16")
    evaluated = command("evaluate", str(run), "--data.path", str(other))
    assert evaluated.code == 0 and "1 × characters that the model does not know, left out: '器' (U+5668)" in evaluated.out + evaluated.err

    caplog.clear()
    sampled = command("sample", str(run), "君子’", "--max-new-tokens", "8", "--temperature", "0")
    assert sampled.code == 0 and sampled.out.startswith("君子") and set(sampled.out.removeprefix("君子’")) <= set(ANALECTS)
    assert caplog.messages == ["prompt: 1 × characters that the model does not know, left out: '’' (U+2019)"]

    service = Service({"论语": serve_model("论语", load(run))})
    with running(service) as live:
        answer = live.post("/v1/completions", model="论语", prompt="君子’", max_tokens=8, temperature=0).json()
        assert answer["choices"][0]["text"] == sampled.out.removeprefix("君子’").removesuffix("\n")
        assert 'weft_unknown_characters_total{model="论语"} 1' in live.http.get("/metrics").text


def test_a_model_of_english_is_evaluated_on_an_apostrophe_it_never_met(
    text_run: Path, command: Callable[..., Outcome], tmp_path: Path
) -> None:
    other = tmp_path / "other.txt"
    other.write_text("the fox’s dog runs away over the lazy dog")
    done = command("evaluate", str(text_run), "--data.path", str(other), "--out", str(tmp_path / "found.json"))
    assert done.code == 0 and "1 × characters that the model does not know, left out: '’' (U+2019)" in done.out + done.err
    found = json.loads((tmp_path / "found.json").read_bytes())["metrics"]
    bits = found["loss"] / math.log(2) * 40 + math.log2(0x110000)
    assert found["bits_per_byte"] == pytest.approx(bits / 43, rel=1e-6)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("天地".encode("gb18030"), "is not UTF-8 (byte 0, line 1); it may be "),
        (b"a\nb \xb5\xed\xae\xfb\n\x00\x01", "is not UTF-8 (byte 4, line 2), nor like another encoding of text"),
    ],
)
def test_what_is_not_clear_is_refused_in_one_sentence(content: bytes, said: str, command: Callable[..., Outcome], tmp_path: Path) -> None:
    path = tmp_path / "my.txt"
    path.write_bytes(content)
    done = command("train", "gpt/text", *tiny_flags(path), "--out", str(tmp_path / "run"))
    assert done.code == 2 and said in done.err and "--data.encoding" in done.err and done.err.count("\n") == 1
    named = command("train", "gpt/text", *tiny_flags(path), "--data.encoding", "klingon", "--out", str(tmp_path / "run"))
    assert named.code == 2 and "--data.encoding 'klingon' is no encoding of text; utf-8," in named.err
