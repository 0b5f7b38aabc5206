"""Engines of the `tokenizers` library for GPT-2, BERT and our own subwords, and splitting of large texts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from weft.core.errors import require
from weft.core.untrusted import checked
from weft.data.io.files import reason
from weft.data.tokenizers import growth

WORDS = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""GPT-2's pre-tokenization. Letters, digits and signs never share a word, so no piece can be a special token or the name of a byte."""
LINE_END = re.compile(r"(?<=\S)\n")
PART_LENGTH = 1 << 12
"""Characters encoded at once, up to the end of their line; few enough that the library stays within the processor's cache."""


def library() -> Any:
    return require("tokenizers", "text")


def byte_level(model: Any, prefix: bool = False) -> Any:
    """A byte-level engine; `prefix` adds a space before the text."""
    engine = library().Tokenizer(model)
    engine.pre_tokenizer = library().pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    engine.decoder = library().decoders.ByteLevel()
    return engine


def byte_fallback(model: Any) -> Any:
    """An engine over characters with byte fallback."""
    engine, decoders = library().Tokenizer(model), library().decoders
    engine.pre_tokenizer = library().pre_tokenizers.Split(library().Regex(WORDS), "isolated")
    engine.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    return engine


def bert(vocabulary: Mapping[str, int], lower: bool = True, accents: bool | None = None, chinese: bool = True) -> Any:
    """BERT's WordPiece: accents are dropped where `accents` is true or, left open, case is; Chinese characters stand alone."""
    engine = library().Tokenizer(library().models.WordPiece(dict(vocabulary), unk_token="[UNK]"))
    engine.normalizer = library().normalizers.BertNormalizer(lowercase=lower, strip_accents=accents, handle_chinese_chars=chinese)
    engine.pre_tokenizer = library().pre_tokenizers.BertPreTokenizer()
    engine.decoder = library().decoders.WordPiece(prefix="##")
    if "[CLS]" in vocabulary and "[SEP]" in vocabulary:
        engine.post_processor = library().processors.TemplateProcessing(
            single="[CLS]:0 $A:0 [SEP]:0",
            pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
            special_tokens=[(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")],
        )
    return engine


def split_text(text: str) -> Iterator[str]:
    """Split a text at line breaks that follow a character other than space, which no word crosses."""
    start = 0
    while start < len(text):
        match = LINE_END.search(text, start + PART_LENGTH)
        end = match.start() if match else len(text)
        yield text[start:end]
        start = end


def last_line_end(text: str) -> int:
    """The last position at which `split_text` may split a text, 0 where there is none."""
    position = text.rfind("\n")
    while position > 0 and text[position - 1].isspace():
        position = text.rfind("\n", 0, position)
    return max(position, 0)


def separable(content: dict[str, Any]) -> bool:
    """Whether the parts of `split_text` have the same ids as the whole text, which holds for the engines above."""
    normalizer, split = content["normalizer"], content["pre_tokenizer"] or {"type": ""}
    splittable = {
        "BertPreTokenizer": True,
        "ByteLevel": split.get("use_regex") and not split.get("add_prefix_space"),
        "Split": split.get("pattern") == {"Regex": WORDS} and split.get("behavior") == "Isolated" and not split.get("invert"),
    }
    plain = normalizer is None or normalizer["type"] == "BertNormalizer"
    return plain and bool(splittable.get(split["type"])) and all(token["special"] for token in content["added_tokens"])


def parse(content: Any) -> Any:
    """An engine from the content of its file, without dropout, truncation or padding; a ValueError says what is wrong."""
    checked(content, {"model": {"vocab": lambda vocab: isinstance(vocab, (dict, list))}})
    for part in ("normalizer", "pre_tokenizer", "decoder", "post_processor"):
        growth.check(content.get(part), part)
    model = {**content["model"], **{chance: None for chance in ("dropout", "alpha") if chance in content["model"]}}
    content = {**content, "truncation": None, "padding": None, "model": model}
    if isinstance(model["vocab"], dict):
        check_ids(model["vocab"])
        check_merges(model["vocab"], model.get("merges", []), model.get("continuing_subword_prefix") or "")
    read = library().Tokenizer.from_str
    try:
        return read(json.dumps(content))
    except Exception as error:  # the library raises nothing narrower
        raise ValueError(reason(error)) from error


def check_ids(vocabulary: Mapping[str, Any]) -> None:
    """Refuse invalid ids, and those so large that the library would loop for hours."""
    largest = 2 * len(vocabulary) + 1000
    for piece, number in vocabulary.items():
        if type(number) is not int or not 0 <= number <= largest:
            raise ValueError(
                f"the piece {piece!r} has the id {number!r}; for {len(vocabulary)} pieces it is a whole number up to {largest}"
            )
    if len(set(vocabulary.values())) < len(vocabulary):
        raise ValueError("two pieces have the same id")


def check_merges(vocabulary: Mapping[str, Any], merges: Iterable[Any], prefix: str = "") -> None:
    """Refuse merges of or into missing pieces, on which the library fails."""
    for merge in merges:
        left, right = map(str, merge.split(" ") if isinstance(merge, str) else merge)
        for piece in (left, right, left + right.removeprefix(prefix)):
            if piece not in vocabulary or not right.startswith(prefix):
                raise ValueError(f"the merge of {left!r} and {right!r} needs the piece {piece!r}, which is not in the vocabulary")
