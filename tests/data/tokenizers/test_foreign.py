"""Tokenizer files of others: ids as their reference implementation gives them; bad files in one sentence."""

from __future__ import annotations

import base64
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from weft.core.errors import CapabilityError, DataError
from weft.data.tokenizers import base as tokenizers
from weft.data.tokenizers.base import ByteTokenizer
from weft.data.tokenizers.foreign import foreign_files, read_foreign, write_foreign
from weft.data.tokenizers.subwords import BPE, ByteBPE, Subwords, Unigram, WordPiece

library = pytest.importorskip("tokenizers")

REAL = Path(os.environ.get("WEFT_DATA", ""), "tokenizers")
TEXT = "flightless birds, 鸟会飞。 Low lower lowest!\n"
GPT2 = {"vocab.json": {"l": 0, "o": 1, "w": 2, "Ġ": 3, "lo": 4, "low": 5, "Ġlow": 6, "<|endoftext|>": 7}}
GPT2_MERGES = "#version: 0.2\nl o\nlo w\nĠ low\n"
GPT1 = {"vocab.json": {"<unk>": 0, "l": 1, "o": 2, "w</w>": 3, "lo": 4, "low</w>": 5, "o</w>": 6, "l</w>": 7, "w": 8}}
GPT1_MERGES = "#version: 0.2\nl o\nlo w</w>\n"
BERT = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nlow\n##er\nLow\nnaive\nna\n##ïve\n鸟\n"


def write(folder: Path, *contents: dict[str, Any]) -> Path:
    for content in contents:
        for name, value in content.items():
            (folder / name).write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return folder


def read(folder: Path) -> Subwords:
    found = read_foreign(folder)
    assert found is not None
    return found


def test_gpt2_files(tmp_path: Path) -> None:
    tokenizer = read(write(tmp_path, GPT2, {"merges.txt": GPT2_MERGES}))
    assert isinstance(tokenizer, ByteBPE)
    assert tokenizer.encode("low low lo").tolist() == [5, 6, 3, 4]
    assert tokenizer.special_tokens == {"start": 7, "end": 7}
    (tmp_path / "vocab.json").rename(tmp_path / "encoder.json")
    (tmp_path / "merges.txt").rename(tmp_path / "vocab.bpe")
    assert read(tmp_path).to_json() == tokenizer.to_json()
    write(tmp_path, {"tokenizer_config.json": {"add_prefix_space": True, "pad_token": {"content": "<|endoftext|>"}, "bos_token": None}})
    assert read(tmp_path).encode("low").tolist() == [6]
    assert read(tmp_path).special_tokens["padding"] == 7


def test_gpt1_files(tmp_path: Path) -> None:
    tokenizer = read(write(tmp_path, GPT1, {"merges.txt": GPT1_MERGES}))
    assert isinstance(tokenizer, BPE)
    assert tokenizer.encode("Low lo 鸟").tolist() == [5, 1, 6, 0]
    assert tokenizer.decode([5, 1, 6]) == "low lo"
    assert tokenizer.special_tokens == {"unknown": 0}


def test_bert_files(tmp_path: Path) -> None:
    tokenizer = read(write(tmp_path, {"vocab.txt": BERT}))
    assert isinstance(tokenizer, WordPiece)
    assert tokenizer.encode("LOWER naïve鸟会[MASK]").tolist() == [5, 6, 8, 11, 1, 1, 1, 1]
    assert tokenizer.special_tokens == {"padding": 0, "unknown": 1, "cls": 2, "sep": 3, "mask": 4}
    write(tmp_path, {"tokenizer_config.json": {"do_lower_case": False}})
    assert read(tmp_path).encode("Low naïve").tolist() == [7, 9, 10]


REPLACE = {"type": "Replace", "pattern": {"String": "a"}, "content": "aaaaaaaaaa"}


@pytest.mark.parametrize(
    "step",
    [
        {"normalizer": {"type": "Sequence", "normalizers": [REPLACE] * 40}},
        {"normalizer": REPLACE | {"content": "a" * 5000}},
        {"normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "a" * 40}] * 2}},
        {"normalizer": {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(bytes(4) + b"a" * 2000).decode()}},
        {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Whitespace"}] * 100}},
        {"post_processor": {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}}] * 1000, "pair": []}},
        {"normalizer": 3},
    ],
)
def test_a_tokenizer_that_makes_texts_far_longer_is_refused(tmp_path: Path, step: dict[str, Any]) -> None:
    model = {"type": "BPE", "vocab": {"a": 0}, "merges": []}
    with pytest.raises(DataError, match="is no tokenizer"):
        read(write(tmp_path, {"tokenizer.json": {"model": model, "added_tokens": [], **step}}))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"tokenizer.json": "{"}, "tokenizer.json: is not JSON"),
        ({"tokenizer.json": []}, "tokenizer.json: holds a list where an object"),
        ({"tokenizer.json": {}}, "tokenizer.json: is no tokenizer .model is missing"),
        (
            {"tokenizer.json": {"model": {"type": "BPE", "vocab": {"a": 9**20}}}},
            "tokenizer.json: is no tokenizer .*the id 12157665459056928801",
        ),
        ({"tokenizer.json": {"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}}}, "is no tokenizer|the model WordLevel"),
        ({"tokenizer_config.json": 3, "vocab.txt": BERT}, "tokenizer_config.json: holds a int"),
        ({"vocab.txt": "a\nb\n"}, "vocab.txt: has no piece .UNK."),
        ({"vocab.json": {"a": "b"}, "merges.txt": ""}, "vocab.json: the piece 'a' has the id 'b'"),
        ({"vocab.json": {"a": 0, "b": 0}, "merges.txt": "a b"}, "vocab.json: two pieces have the same id"),
        ({"vocab.json": {"a": 0}, "merges.txt": "#version: 0.2\na b c\n"}, r"merges.txt:2: 'a b c' is not two pieces"),
        (
            {"vocab.json": {"a": 0}, "merges.txt": "a b\n"},
            "merges.txt: the merge of 'a' and 'b' .* vocab.json",
        ),
        ({"vocab.json": {"a": 0, "b": 1}, "merges.txt": "a b\n"}, "needs the piece 'ab'"),
        ({"vocab.json": {"a</w>": 0, "a": 1}, "merges.txt": "#version: 0.2"}, "vocab.json: has no piece <unk>"),
    ],
)
def test_bad_files_are_named(tmp_path: Path, content: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError, match=said):
        read_foreign(write(tmp_path, content))


def test_other_folders(tmp_path: Path) -> None:
    assert read_foreign(tmp_path) is None
    (tmp_path / "vocab.txt").write_bytes(b"[UNK]\n\xff\n")
    with pytest.raises(DataError, match=r"vocab.txt: is not UTF-8 text \(byte 6\)"):
        read_foreign(tmp_path)
    with pytest.raises(DataError, match="no such folder"):
        read_foreign(tmp_path / "none")
    assert foreign_files(ByteTokenizer()) == {}
    with pytest.raises(CapabilityError, match="no format for the tokenizer bytes"):
        write_foreign(ByteTokenizer(), tmp_path)
    with pytest.raises(DataError, match="cannot be written"):
        write_foreign(ByteBPE.train("a"), tmp_path / "vocab.txt")


def sentence_pieces() -> dict[str, Any]:
    """A tokenizer like T5's: its model holds the marks as pieces that cost nothing; it drops pieces by chance and cuts long texts."""
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *((piece, -3.0) for piece in ("▁", "a", "b", "s", "<", ">", "/", "▁ab"))]
    engine = library.Tokenizer(library.models.Unigram(pieces, 2))
    engine.pre_tokenizer = library.pre_tokenizers.Metaspace()
    engine.decoder = library.decoders.Metaspace()
    engine.add_special_tokens(["<pad>", "</s>", "<unk>"])
    engine.enable_truncation(3)
    engine.enable_padding(length=20)
    content: dict[str, Any] = json.loads(engine.to_str())
    return content


def test_a_model_that_would_take_text_for_marks(tmp_path: Path) -> None:
    tokenizer = read(write(tmp_path, {"tokenizer.json": sentence_pieces()}))
    assert isinstance(tokenizer, Unigram)
    assert tokenizer.special_tokens == {"padding": 0, "unknown": 2, "end": 1}
    assert tokenizer.encode("ab ab").tolist() == [10, 10]
    for text in ("</s>", "ab</s>ab", "a </s> b", "<pad></s><pad>"):
        assert not {0, 1} & set(tokenizer.encode(text).tolist())
        assert tokenizer.decode(tokenizer.encode(text.replace("<pad>", "")).tolist()) == text.replace("<pad>", "")
    again = tokenizers.load(tokenizers.dump(tokenizer))
    assert again.encode("ab</s>").tolist() == tokenizer.encode("ab</s>").tolist() == [10, 7, 9, 6, 8]


def fuzzed(number: int) -> list[str]:
    """Strings of words, digits, spaces, signs, scripts, control characters and look-alikes of marks."""
    chance = random.Random(0)
    parts = [
        "Hello",
        "the quick",
        "don't",
        "we'LL",
        "unaffable",
        "flightless",
        "12345",
        "3.14",
        "²",
        "½",
        "Ⅷ",
        "x" * 120,
        "##ing",
        "'",
        "_",
    ]
    parts += [" ", "  ", "\n", "\t", "\r\n", "\x00", "\x07", "\x7f", "\u200b", "\u00ad", "\u3000", "\xa0", "\u2028", "\ufeff", "\ufffd"]
    parts += [
        "你好",
        "世界",
        "繁體字",
        "日本語",
        "かな",
        "한국어",
        "𠀀",
        "é",
        "e\u0301",
        "ÀÉ",
        "ß",
        "İ",
        "ﬁ",
        "Ω",
        "привет",
        "مرحبا",
        "हिन्दी",
    ]
    parts += [
        "😀",
        "👨‍👩‍👧",
        "🇩🇪",
        "<|endoftext|>",
        "[CLS]",
        "[SEP]",
        "[PAD]",
        "[UNK]",
        "[MASK]",
        "<unk>",
        "<pad>",
        "</s>",
        "</w>",
        "[mask]",
    ]
    ranges = [(32, 126), (32, 126), (0, 0x2FF), (0x300, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x10FFFF)]
    found: dict[str, None] = {}
    while len(found) < number:
        some = [chance.choice(parts) if chance.random() < 0.6 else chr(chance.randint(*chance.choice(ranges))) for _ in range(14)]
        found["".join(some[: chance.randint(0, 14)])] = None
    return list(found)


@pytest.mark.parametrize("kind", [ByteBPE, BPE, Unigram, WordPiece])
def test_written_files_are_read_by_transformers(tmp_path: Path, kind: type[Subwords]) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizer = kind.train(TEXT * 20, 400, special_tokens=("padding", "mask"))
    write_foreign(tokenizer, tmp_path)
    assert read(tmp_path).to_json() == tokenizer.to_json()
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert (len(theirs), theirs.pad_token_id, theirs.mask_token_id) == (
        tokenizer.size,
        tokenizer.special_tokens["padding"],
        tokenizer.special_tokens["mask"],
    )
    texts = [TEXT, *fuzzed(300)]
    expected = theirs(texts, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    assert [tokenizer.encode(text).tolist() for text in texts] == expected
    assert theirs.decode(expected[0], clean_up_tokenization_spaces=False) == tokenizer.decode(expected[0])


@pytest.mark.skipif(not REAL.is_dir(), reason="needs the real files below WEFT_DATA")
@pytest.mark.parametrize(
    ("name", "size", "cls", "files"),
    [
        ("gpt2", 50_257, "GPT2Tokenizer", {"vocab": "encoder.json", "merges": "vocab.bpe"}),
        ("gpt1", 40_478, "OpenAIGPTTokenizer", {"vocab": "encoder_bpe_40000.json", "merges": "vocab_40000.bpe"}),
        ("bert_uncased", 30_522, "BertTokenizer", {"vocab": "vocab.txt"}),
    ],
)
def test_ten_thousand_strings_as_transformers(name: str, size: int, cls: str, files: dict[str, str]) -> None:
    """Equal to the reference that takes look-alikes of marks for text, and to its usual setting on every string without one."""
    transformers = pytest.importorskip("transformers")
    tokenizer, theirs = read(REAL / name), getattr(transformers, cls)(**{key: str(REAL / name / file) for key, file in files.items()})
    assert tokenizer.size == size
    texts = fuzzed(10_000)
    ours = [tokenizer.encode(text).tolist() for text in texts]
    if name == "gpt2":  # made of bytes, so that nothing is lost
        assert [tokenizer.decode(ids) for ids in ours] == texts
    assert ours == theirs(texts, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    usual = theirs(texts, add_special_tokens=False)["input_ids"]
    looks = [tokenizer.engine.id_to_token(number) for number in tokenizer.special_tokens.values()]
    assert [
        text for text, one, other in zip(texts, ours, usual, strict=True) if one != other and not any(look in text for look in looks)
    ] == []
