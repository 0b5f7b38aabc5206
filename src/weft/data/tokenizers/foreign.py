"""Tokenizers in the formats of other libraries: tokenizer.json, GPT-2's and GPT-1's vocabulary and merges, BERT's vocab.txt."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from weft.core import untrusted
from weft.core.errors import CapabilityError, DataError
from weft.core.untrusted import parsing
from weft.data.io.files import read_bytes, reason, show, unix_lines, well_formed
from weft.data.tokenizers.base import Tokenizer
from weft.data.tokenizers.special_tokens import END, NUM_SPECIAL, PAD, ForeignSeq2SeqTokenizer, Seq2SeqTokenizer
from weft.data.tokenizers.subword_engines import bert, byte_level, check_ids, check_merges, library, parse
from weft.data.tokenizers.subwords import BPE, ByteBPE, Subwords, Unigram, WordPiece

VOCABULARIES = ("vocab.json", "encoder.json", "encoder_bpe_40000.json")
MERGES = ("merges.txt", "vocab.bpe", "vocab_40000.bpe")
END_OF_WORD = "</w>"
SEQ2SEQ_TOKENS = {"padding": "<pad>", "start": "<s>", "end": "</s>"}
"""The texts of the special tokens of `Seq2SeqTokenizer`, in the order of their ids."""
ROLES = {
    "padding": ("pad_token", "[PAD]", "<pad>"),
    "unknown": ("unk_token", "[UNK]", "<unk>"),
    "start": ("bos_token", "<s>", "<|endoftext|>"),
    "end": ("eos_token", "</s>", "<|endoftext|>"),
    "cls": ("cls_token", "[CLS]"),
    "sep": ("sep_token", "[SEP]"),
    "mask": ("mask_token", "[MASK]", "<mask>"),
}
"""Roles of special tokens: the key in tokenizer_config.json, and the usual texts."""


def read_foreign(folder: str | Path) -> Subwords | None:
    """The tokenizer a folder holds, with the ids of its reference implementation; None where there is none."""
    folder_path = Path(folder)
    if not folder_path.is_dir():
        raise DataError(f"{show(folder_path)}: no such folder; name one that holds a tokenizer")
    settings = {**read_settings(folder_path / "special_tokens_map.json"), **read_settings(folder_path / "tokenizer_config.json")}
    vocabulary, merges = first_existing(folder_path, VOCABULARIES), first_existing(folder_path, MERGES)
    if (folder_path / "tokenizer.json").is_file():
        return read_tokenizer_json(folder_path / "tokenizer.json", settings)
    if vocabulary and merges:
        return read_vocabulary_and_merges(vocabulary, merges, settings)
    return read_vocab_txt(folder_path / "vocab.txt", settings) if (folder_path / "vocab.txt").is_file() else None


def read_tokenizer_json(path: Path, settings: dict[str, Any]) -> Subwords:
    """The tokenizer.json of the tokenizers library."""
    content = read_json(path)
    with parsing(show(path), fault=": is no tokenizer"):
        engine = parse(content)
    model, steps = type(engine.model).__name__, json.dumps([content.get("pre_tokenizer"), content.get("decoder")])
    kinds = {"BPE": ByteBPE if '"ByteLevel"' in steps else BPE, "WordPiece": WordPiece, "Unigram": Unigram}
    if model not in kinds:
        raise DataError(f"{show(path)}: holds the model {model}; accepted are {', '.join(kinds)}")
    return finish(kinds[model], engine, settings, special_tokens(engine), path)


def read_vocabulary_and_merges(vocabulary_file: Path, merges_file: Path, settings: dict[str, Any]) -> Subwords:
    """The vocabulary and merges of GPT-2, or of GPT-1, whose pieces have an end-of-word suffix."""
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


def read_vocab_txt(path: Path, settings: dict[str, Any]) -> Subwords:
    """The vocab.txt of BERT, one piece a line."""
    pieces = read_lines(path)
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    if "[UNK]" not in vocabulary:
        raise DataError(f"{show(path)}: has no piece [UNK], which stands for words that have no other; is this a vocabulary of BERT?")
    lower, accents, chinese = (settings.get(key) for key in ("do_lower_case", "strip_accents", "tokenize_chinese_chars"))
    accents = accents if isinstance(accents, bool) else None
    return finish(WordPiece, bert(vocabulary, lower is not False, accents, chinese is not False), settings, pieces, path)


def finish(kind: type[Subwords], engine: Any, settings: dict[str, Any], pieces: list[str], path: Path) -> Subwords:
    """The tokenizer with the special tokens of its settings, else those of the usual texts that are among the pieces."""
    special = {}
    for role, (key, *defaults) in ROLES.items():
        content = settings.get(key)
        content = content.get("content") if isinstance(content, dict) else content
        candidates = [well_formed(content)] if isinstance(content, str) else [text for text in defaults if text in pieces]
        if candidates and engine.token_to_id(candidates[0]) is not None:
            special[role] = candidates[0]
    with parsing(show(path), fault=": is no tokenizer that works"):
        tokenizer = kind.with_special_tokens(engine, special)
        tokenizer.encode("a")
        return kind(engine, tokenizer.special_tokens) if protect_from_special_tokens(engine) else tokenizer


def protect_from_special_tokens(engine: Any) -> bool:
    """Whether the model, as Unigram does, encodes text as special tokens; if so, add a pre-tokenizer that splits such text."""
    unsafe = [content for content in special_tokens(engine) if len(content) > 1 and is_encoded_as_special(engine, content)]
    if unsafe:
        pattern = "|".join(f"{re.escape(content[0])}(?={re.escape(content[1:])})" for content in unsafe)
        steps = library().pre_tokenizers
        split = steps.Split(library().Regex(pattern), "isolated")
        engine.pre_tokenizer = steps.Sequence([engine.pre_tokenizer, split]) if engine.pre_tokenizer else split
    return bool(unsafe)


def is_encoded_as_special(engine: Any, content: str) -> bool:
    """Whether a text that looks like a special token gets its id."""
    for text in (content, f"a{content}a", f" {content} "):
        encoding = engine.encode(text, add_special_tokens=False)
        sizes = [end - start for number, (start, end) in zip(encoding.ids, encoding.offsets) if number == engine.token_to_id(content)]
        if max(sizes, default=0) >= len(content):
            return True
    return False


def special_tokens(engine: Any) -> list[str]:
    return [token.content for token in engine.get_added_tokens_decoder().values() if token.special]


def foreign_files(tokenizer: Tokenizer) -> dict[str, bytes]:
    """The files of a tokenizer for transformers; none for one that does not run in the tokenizers library."""
    if isinstance(tokenizer, Seq2SeqTokenizer):
        tokenizer = tokenizer.inner if isinstance(tokenizer, ForeignSeq2SeqTokenizer) else as_library_tokenizer(tokenizer)
    if not isinstance(tokenizer, Subwords):
        return {}
    special = {ROLES[role][0]: tokenizer.engine.id_to_token(number) for role, number in tokenizer.special_tokens.items()}
    settings: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False, **special}
    if {"cls", "sep"} <= set(tokenizer.special_tokens):  # a model with segment ids
        settings["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
    return {"tokenizer.json": tokenizer.engine.to_str().encode(), "tokenizer_config.json": json.dumps(settings, indent=2).encode()}


def as_library_tokenizer(tokenizer: Seq2SeqTokenizer) -> Tokenizer:
    """A library tokenizer with the ids of ours: special tokens first, then all pieces, sentinels last, and END after each text."""
    inner = tokenizer.inner
    if not isinstance(inner, Subwords):
        return inner
    content = json.loads(inner.engine.to_str())
    model, count = content["model"], getattr(tokenizer, "sentinels", 0)
    sentinels = [f"<X{number}>" for number in reversed(range(count))]
    special_ids = {token: number for number, token in enumerate(SEQ2SEQ_TOKENS.values())}
    special_ids |= {token: number for number, token in enumerate(sentinels, tokenizer.size - count)}
    if set(special_ids) & set(inner.engine.get_vocab()):
        return tokenizer  # a piece that looks like a special token would have two ids
    if isinstance(model["vocab"], dict):
        model["vocab"] = special_ids | {piece: number + NUM_SPECIAL for piece, number in model["vocab"].items()}
    else:
        model["vocab"] = [[token, 0.0] for token in SEQ2SEQ_TOKENS.values()] + model["vocab"] + [[token, 0.0] for token in sentinels]
        model["unk_id"] += NUM_SPECIAL
    added = [{**token, "id": token["id"] + NUM_SPECIAL} for token in content["added_tokens"]]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    content["added_tokens"] = added + [{"id": number, "content": token, **flags} for token, number in special_ids.items()]
    content["added_tokens"].sort(key=lambda token: token["id"])
    engine, end = parse(content), SEQ2SEQ_TOKENS["end"]
    engine.post_processor = library().processors.TemplateProcessing(
        single=f"$A {end}", pair=f"$A {end} $B {end}", special_tokens=[(end, END)]
    )
    return type(inner)(engine, {role: special_ids[token] for role, token in SEQ2SEQ_TOKENS.items()})


def padding_of(tokenizer: Seq2SeqTokenizer) -> int:
    """The id of the padding."""
    if not isinstance(tokenizer, ForeignSeq2SeqTokenizer):
        return PAD
    return int(getattr(tokenizer.inner, "special_tokens", {}).get("padding", tokenizer.start))


def write_foreign(tokenizer: Tokenizer, folder: str | Path) -> None:
    """Write a tokenizer into a folder in the format of transformers."""
    content = foreign_files(tokenizer)
    if not content:
        raise CapabilityError(f"transformers has no format for the tokenizer {tokenizer.name}")
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for name, data in content.items():
            Path(folder, name).write_bytes(data)
    except OSError as error:
        raise DataError(f"{show(folder)}: cannot be written ({reason(error)})") from error


def first_existing(folder: Path, names: tuple[str, ...]) -> Path | None:
    return next((folder / name for name in names if (folder / name).is_file()), None)


def read_lines(path: Path) -> list[str]:
    try:
        return unix_lines(read_bytes(path).decode("utf-8-sig")).removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{show(path)}: is not UTF-8 text (byte {error.start})") from error


def read_json(path: Path) -> dict[str, Any]:
    try:
        content = untrusted.read_json(path)
    except OSError as error:
        raise DataError(f"{show(path)}: cannot be read ({reason(error)})") from error
    except ValueError as error:
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
