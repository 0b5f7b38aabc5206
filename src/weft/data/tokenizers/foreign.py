"""Tokenizers in the files of others: tokenizer.json, GPT-2's and GPT-1's vocabulary and merges, BERT's vocab.txt."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from weft.core.errors import CapabilityError, DataError
from weft.data.io.files import read_bytes, reason, show, unix_lines, well_formed
from weft.data.tokenizers.base import Tokenizer
from weft.data.tokenizers.special_tokens import END, MARKS, PAD, AnsweringTokenizer, MarkedTokenizer
from weft.data.tokenizers.subword_engines import bert, byte_level, check_ids, check_merges, library, parse
from weft.data.tokenizers.subwords import BPE, ByteBPE, Subwords, Unigram, WordPiece

VOCABULARIES = ("vocab.json", "encoder.json", "encoder_bpe_40000.json")
MERGES = ("merges.txt", "vocab.bpe", "vocab_40000.bpe")
END_OF_WORD = "</w>"
PAIR_MARKS = {"padding": "<pad>", "start": "<s>", "end": "</s>"}
"""How the marks of pairs are written for others, in the order of their ids."""
ROLES = {
    "padding": ("pad_token", "[PAD]", "<pad>"),
    "unknown": ("unk_token", "[UNK]", "<unk>"),
    "start": ("bos_token", "<s>", "<|endoftext|>"),
    "end": ("eos_token", "</s>", "<|endoftext|>"),
    "cls": ("cls_token", "[CLS]"),
    "sep": ("sep_token", "[SEP]"),
    "mask": ("mask_token", "[MASK]", "<mask>"),
}
"""What a mark is for: its key in tokenizer_config.json, and what it usually looks like."""


def read_foreign(folder: str | Path) -> Subwords | None:
    """The tokenizer a folder holds, with the ids of its reference implementation; None where there is none."""
    place = Path(folder)
    if not place.is_dir():
        raise DataError(f"{show(place)}: no such folder; name one that holds a tokenizer")
    settings = {**read_settings(place / "special_tokens_map.json"), **read_settings(place / "tokenizer_config.json")}
    vocabulary, merges = first_of(place, VOCABULARIES), first_of(place, MERGES)
    if (place / "tokenizer.json").is_file():
        return read_fast(place / "tokenizer.json", settings)
    if vocabulary and merges:
        return read_pairs(vocabulary, merges, settings)
    return read_bert(place / "vocab.txt", settings) if (place / "vocab.txt").is_file() else None


def read_fast(path: Path, settings: dict[str, Any]) -> Subwords:
    """The format of the tokenizers library."""
    content = read_json(path)
    try:
        engine = parse(content)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(f"{show(path)}: is no tokenizer ({type(error).__name__}: {reason(error)})") from error
    model, ways = type(engine.model).__name__, json.dumps([content.get("pre_tokenizer"), content.get("decoder")])
    kinds = {"BPE": ByteBPE if '"ByteLevel"' in ways else BPE, "WordPiece": WordPiece, "Unigram": Unigram}
    if model not in kinds:
        raise DataError(f"{show(path)}: holds the model {model}; accepted are {', '.join(kinds)}")
    return finish(kinds[model], engine, settings, special_tokens(engine), path)


def read_pairs(vocabulary_file: Path, merges_file: Path, settings: dict[str, Any]) -> Subwords:
    """GPT-2's files, or GPT-1's, whose pieces say where a word ends."""
    vocabulary, merges = read_vocabulary(vocabulary_file), read_merges(merges_file)
    ending = any(piece.endswith(END_OF_WORD) for piece in vocabulary)
    options = {"end_of_word_suffix": END_OF_WORD, "unk_token": "<unk>"} if ending else {}
    try:
        check_merges(vocabulary, merges)
    except ValueError as error:
        raise DataError(f"{show(merges_file)}: {error} {vocabulary_file.name}") from error
    model = library().models.BPE(vocabulary, merges, **options)
    if not ending:
        return finish(ByteBPE, byte_level(model, settings.get("add_prefix_space") is True), settings, list(vocabulary), vocabulary_file)
    if "<unk>" not in vocabulary:
        raise DataError(f"{show(vocabulary_file)}: has no piece <unk>, which stands for characters that have no other")
    engine = library().Tokenizer(model)
    engine.normalizer = library().normalizers.BertNormalizer(lowercase=True)
    engine.pre_tokenizer = library().pre_tokenizers.BertPreTokenizer()
    engine.decoder = library().decoders.BPEDecoder(suffix=END_OF_WORD)
    return finish(BPE, engine, settings, list(vocabulary), vocabulary_file)


def read_bert(path: Path, settings: dict[str, Any]) -> Subwords:
    """BERT's list of pieces, one a line."""
    pieces = read_lines(path)
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    if "[UNK]" not in vocabulary:
        raise DataError(f"{show(path)}: has no piece [UNK], which stands for words that have no other; is this a vocabulary of BERT?")
    lower, accents, chinese = (settings.get(key) for key in ("do_lower_case", "strip_accents", "tokenize_chinese_chars"))
    accents = accents if isinstance(accents, bool) else None
    return finish(WordPiece, bert(vocabulary, lower is not False, accents, chinese is not False), settings, pieces, path)


def finish(kind: type[Subwords], engine: Any, settings: dict[str, Any], pieces: list[str], path: Path) -> Subwords:
    """The tokenizer with the marks that its settings name, or that look as usual and are among some pieces."""
    marks = {}
    for role, (key, *usual) in ROLES.items():
        named = settings.get(key)
        named = named.get("content") if isinstance(named, dict) else named
        found = [well_formed(named)] if isinstance(named, str) else [content for content in usual if content in pieces]
        if found and engine.token_to_id(found[0]) is not None:
            marks[role] = found[0]
    try:
        tokenizer = kind.marked(engine, marks)
        tokenizer.encode("a")
        return kind(engine, tokenizer.marks) if keep_apart(engine) else tokenizer
    except Exception as error:  # the library raises nothing narrower
        raise DataError(f"{show(path)}: is no tokenizer that works ({reason(error)})") from error


def keep_apart(engine: Any) -> bool:
    """Whether the model itself, as Unigram does, takes text for marks; if so, such text is from now on cut before the model sees it."""
    risky = [content for content in special_tokens(engine) if len(content) > 1 and taken(engine, content)]
    if risky:
        inside = "|".join(f"{re.escape(content[0])}(?={re.escape(content[1:])})" for content in risky)
        ways = library().pre_tokenizers
        split = ways.Split(library().Regex(inside), "isolated")
        engine.pre_tokenizer = ways.Sequence([engine.pre_tokenizer, split]) if engine.pre_tokenizer else split
    return bool(risky)


def taken(engine: Any, content: str) -> bool:
    """Whether a text that looks like a mark has its id."""
    for text in (content, f"a{content}a", f" {content} "):
        found = engine.encode(text, add_special_tokens=False)
        sizes = [end - start for number, (start, end) in zip(found.ids, found.offsets) if number == engine.token_to_id(content)]
        if max(sizes, default=0) >= len(content):
            return True
    return False


def special_tokens(engine: Any) -> list[str]:
    return [token.content for token in engine.get_added_tokens_decoder().values() if token.special]


def foreign_files(tokenizer: Tokenizer) -> dict[str, bytes]:
    """The files in which transformers reads a tokenizer; none for one that the tokenizers library does not run."""
    if isinstance(tokenizer, MarkedTokenizer):
        tokenizer = tokenizer.inner if isinstance(tokenizer, AnsweringTokenizer) else moved(tokenizer)
    if not isinstance(tokenizer, Subwords):
        return {}
    marks = {ROLES[role][0]: tokenizer.engine.id_to_token(number) for role, number in tokenizer.marks.items()}
    settings: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False, **marks}
    if {"cls", "sep"} <= set(tokenizer.marks):  # a model that tells the second of two texts by its segment
        settings["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
    return {"tokenizer.json": tokenizer.engine.to_str().encode(), "tokenizer_config.json": json.dumps(settings, indent=2).encode()}


def moved(tokenizer: MarkedTokenizer) -> Tokenizer:
    """A tokenizer of the library with the ids of one of ours: marks first, then all pieces, sentinels last, and an end after each text."""
    inner = tokenizer.inner
    if not isinstance(inner, Subwords):
        return inner
    content = json.loads(inner.engine.to_str())
    model, count = content["model"], getattr(tokenizer, "sentinels", 0)
    last = [f"<X{number}>" for number in reversed(range(count))]
    numbers = {mark: number for number, mark in enumerate(PAIR_MARKS.values())}
    numbers |= {mark: number for number, mark in enumerate(last, tokenizer.size - count)}
    if set(numbers) & set(inner.engine.get_vocab()):
        return tokenizer  # a piece that looks like a mark would have two ids
    if isinstance(model["vocab"], dict):
        model["vocab"] = numbers | {piece: number + MARKS for piece, number in model["vocab"].items()}
    else:
        model["vocab"] = [[mark, 0.0] for mark in PAIR_MARKS.values()] + model["vocab"] + [[mark, 0.0] for mark in last]
        model["unk_id"] += MARKS
    added = [{**token, "id": token["id"] + MARKS} for token in content["added_tokens"]]
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    content["added_tokens"] = added + [{"id": number, "content": mark, **plain} for mark, number in numbers.items()]
    content["added_tokens"].sort(key=lambda token: token["id"])
    engine, end = parse(content), PAIR_MARKS["end"]
    engine.post_processor = library().processors.TemplateProcessing(
        single=f"$A {end}", pair=f"$A {end} $B {end}", special_tokens=[(end, END)]
    )
    return type(inner)(engine, {role: numbers[mark] for role, mark in PAIR_MARKS.items()})


def padding_of(tokenizer: MarkedTokenizer) -> int:
    """The id that stands for nothing."""
    if not isinstance(tokenizer, AnsweringTokenizer):
        return PAD
    return int(getattr(tokenizer.inner, "marks", {}).get("padding", tokenizer.start))


def write_foreign(tokenizer: Tokenizer, folder: str | Path) -> None:
    """Put a tokenizer into a folder for transformers."""
    content = foreign_files(tokenizer)
    if not content:
        raise CapabilityError(f"transformers has no format for the tokenizer {tokenizer.name}")
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for name, data in content.items():
            Path(folder, name).write_bytes(data)
    except OSError as error:
        raise DataError(f"{show(folder)}: cannot be written ({reason(error)})") from error


def first_of(folder: Path, names: tuple[str, ...]) -> Path | None:
    return next((folder / name for name in names if (folder / name).is_file()), None)


def read_lines(path: Path) -> list[str]:
    try:
        return unix_lines(read_bytes(path).decode("utf-8-sig")).removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{show(path)}: is not UTF-8 text (byte {error.start})") from error


def read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(read_bytes(path))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{show(path)}: is not JSON ({reason(error)})") from error
    if not isinstance(content, dict):
        raise DataError(f"{show(path)}: holds a {type(content).__name__} where an object of JSON is expected")
    return content


def read_settings(path: Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}


def read_vocabulary(path: Path) -> dict[str, int]:
    vocabulary = read_json(path)
    try:
        check_ids(vocabulary)
    except ValueError as error:
        raise DataError(f"{show(path)}: {error}") from error
    return vocabulary


def read_merges(path: Path) -> list[tuple[str, str]]:
    merges = []
    for number, line in enumerate(read_lines(path), 1):
        left, _, right = line.partition(" ")
        if number == 1 and line.startswith("#version"):
            continue
        if not left or not right or " " in right:
            raise DataError(f"{show(path)}:{number}: {line!r} is not two pieces with a space between")
        merges.append((left, right))
    return merges
