"""The text of an answer delta by delta: the whole text, whatever the tokenizer, the tokens and the cuts between deltas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain, pairwise
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from weft.core import random, registry
from weft.data.annotated.gpt_finetuning import GPTFinetuningTokenizer
from weft.data.annotated.label_set_pairs import LabelSetTokenizer
from weft.data.annotated.label_tokens import LabelledTokenizer
from weft.data.annotated.tagged import TagTokenizer
from weft.data.tables.columns import Columns
from weft.data.text.sentence_pairs import BERTWordTokenizer
from weft.data.text.sentinels import SentinelTokenizer
from weft.data.tokenizers.base import ByteTokenizer, CharacterTokenizer, ClassNames, Tokenizer, WhitespaceTokenizer, WordTokenizer
from weft.data.tokenizers.birthplace_characters import BirthplaceCharacters
from weft.data.tokenizers.character_ngrams import FastTextTokenizer, SpacedWords, SubwordTokenizer
from weft.data.tokenizers.extended_vocabulary import ExtendedVocabulary
from weft.data.tokenizers.special_tokens import END, ForeignSeq2SeqTokenizer, Seq2SeqTokenizer
from weft.data.tokenizers.subword_engines import bert, library
from weft.data.tokenizers.subwords import BPE, ByteBPE, Subwords, Unigram, WordPiece
from weft.data.tokenizers.tagger_words import TaggerWordTokenizer
from weft.data.tokenizers.two_sided import TwoSidedTokenizer
from weft.data.tokenizers.word_characters import BiLMTokenizer, WordCharacters
from weft.data.tokenizers.word_shapes import WordShapes
from weft.data.trees.tree_tokens import TreeTokenizer
from weft.inference import detokenizer
from weft.inference.detokenizer import LONGEST, REPLACEMENT, Detokenizer

pytest.importorskip("tokenizers")

TEXT = "the birds, don't fly! (they) walk \n\n\n naïve 鸟会飞。😀 x_y \n. a\n a ' b\r\n [SEP] 12\n" * 2


def sentencepiece() -> Subwords:
    """Decoded as Llama's is: spaces are part of deltas, the first is dropped, rare characters are spelled in bytes."""
    deltas = [f"<0x{byte:02X}>" for byte in range(256)] + ["▁", "▁the", "▁bird", "s", "a", "\n", "▁▁", "鸟"]
    engine, decoders = library().Tokenizer(library().models.Unigram([(delta, -1.0) for delta in deltas], 0, True)), library().decoders
    engine.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return Unigram(engine, {})


def metaspace() -> Subwords:
    """As T5's."""
    engine = library().Tokenizer(library().models.Unigram([("<unk>", 0.0), ("▁", -1.0), ("▁the", -1.0), ("s", -1.0), ("▁▁a", -1.0)], 0))
    engine.decoder = library().decoders.Metaspace()
    return Unigram(engine, {})


def endings() -> Subwords:
    """As GPT-1's: a delta says that its word ends."""
    engine = library().Tokenizer(library().models.BPE({"a": 0, "b": 1, "a</w>": 2, "b</w>": 3, ".</w>": 4}, []))
    engine.decoder = library().decoders.BPEDecoder("</w>")
    return BPE(engine, {})


def pieces_of_words() -> Subwords:
    vocabulary = ["[UNK]", "the", "##s", "##", "####", "a", ".", "'", "n't", "do", "not", "##.", "[SEP]", "鸟"]
    return WordPiece(bert({delta: number for number, delta in enumerate(vocabulary)}), {})


MAKERS: dict[str, Callable[[], Tokenizer]] = {
    "bytes": ByteTokenizer,
    "characters": lambda: CharacterTokenizer.train(TEXT + REPLACEMENT),
    "words": lambda: WordTokenizer.train(TEXT + REPLACEMENT),
    "whitespace": lambda: WhitespaceTokenizer.train(TEXT + REPLACEMENT),
    "byte_bpe": lambda: ByteBPE.train(TEXT, 300, ("end",)),
    "bpe": lambda: BPE.train(TEXT, 300),
    "wordpiece": lambda: WordPiece.train(TEXT, 80),
    "unigram": lambda: Unigram.train(TEXT, 300),
    "bert_words": lambda: BERTWordTokenizer.train(TEXT),
    "labelled": lambda: LabelledTokenizer(made("words"), ["a"]),
    "gpt_finetuning": lambda: GPTFinetuningTokenizer(made("words")),
    "classes": lambda: ClassNames(["a", "b, c", ""]),
    "tagged": lambda: TagTokenizer(made("wordpiece"), ["a"]),
    "table": lambda: Columns("label", ["a", "b"], [], 0, 0),
    "seq2seq": lambda: Seq2SeqTokenizer(made("byte_bpe")),
    "foreign_seq2seq": lambda: ForeignSeq2SeqTokenizer(made("unigram"), 5, 9),
    "sentinels": lambda: SentinelTokenizer(made("words"), 3),
    "birthplace_characters": lambda: BirthplaceCharacters.train(TEXT),
    "framed bytes": lambda: GPTFinetuningTokenizer(made("bytes")),
    "extended_vocabulary": lambda: ExtendedVocabulary(made("words"), 4, ("new", "words")),  # type: ignore[arg-type]
    "spaced_words": lambda: SpacedWords.train(TEXT + REPLACEMENT),
    "subwords": lambda: SubwordTokenizer(["the", "birds,", "don't"], 2, 3, 8),
    "fasttext": lambda: FastTextTokenizer(["the", "birds,", "don't"], 2, 3, 8, None, 2),
    "tagger_words": lambda: TaggerWordTokenizer.train(TEXT),
    "word_characters": WordCharacters,
    "bilm": lambda: BiLMTokenizer(["the", "birds,"]),
    "two_sided": lambda: TwoSidedTokenizer(made("characters"), made("words")),
    "word_shapes": lambda: WordShapes.train(TEXT),
    "trees": lambda: TreeTokenizer(made("word_shapes"), WhitespaceTokenizer(["<unk>", "(S", ")S", "(NP", ")NP"]), words=["the", "birds,"]),
    "label_set": lambda: LabelSetTokenizer(made("words"), ClassNames(["a", "b c", "d"])),
    "pairs of words": lambda: Seq2SeqTokenizer(made("words")),
    "sentencepiece": sentencepiece,
    "metaspace": metaspace,
    "endings": endings,
    "deltas of words": pieces_of_words,
}


@cache
def made(name: str) -> Tokenizer:
    return MAKERS[name]()


def told(tokenizer: Any, ids: Sequence[int], stop: Sequence[str] = (), cuts: Sequence[int] = ()) -> tuple[str, int, bool]:
    """Text, number of tokens read and whether a stop text came, of tokens that come in deltas."""
    reader = Detokenizer(tokenizer, stop)
    edges = [0, *sorted(cuts), len(ids)]
    text = "".join(reader.push(ids[first:last]) for first, last in pairwise(edges))
    return text + reader.finish(), reader.read, reader.stopped


def searched(tokenizer: Any, ids: list[int], stop: Sequence[str]) -> tuple[str, int, bool]:
    """The same, from all that came before decoded again at each token. Characters that may not be whole yet count at the end only."""
    text = tokenizer.decode(ids)
    for number in range(1, len(ids) + 2):
        text = tokenizer.decode(ids[:number])
        seen = text.rstrip(REPLACEMENT) if number <= len(ids) else text
        if found := [place for one in stop if (place := seen.find(one)) >= 0]:
            return text[: min(found)], min(number, len(ids)), True
    return text, len(ids), False


def takes_back(tokenizer: Any, ids: list[int]) -> bool:
    """Whether the tokenizer gives up characters that were whole, because of a broken one behind them."""
    texts = [tokenizer.decode(ids[:number]).rstrip(REPLACEMENT).removesuffix(" \n") for number in range(len(ids) + 1)]
    return not all(later.startswith(text) for text, later in pairwise(texts))


def test_every_tokenizer_is_tested() -> None:
    assert set(registry.TOKENIZERS) <= set(MAKERS)


@pytest.mark.parametrize("name", MAKERS)
@given(st.data())
def test_pieces_make_up_the_text_until_the_first_stop_text(name: str, data: st.DataObject) -> None:
    tokenizer = made(name)
    parts = st.lists(st.integers(0, tokenizer.size - 1), max_size=12)
    if name in ("bytes", "byte_bpe", "bpe", "unigram", "words", "wordpiece", "gpt_finetuning"):
        places = st.tuples(st.integers(0, len(TEXT)), st.integers(1, 20))
        parts |= places.map(lambda place: tokenizer.encode(TEXT[place[0] :][: place[1]]).tolist())
    ids = list(chain.from_iterable(data.draw(st.lists(parts, max_size=5))))
    cuts = data.draw(st.lists(st.integers(0, len(ids)), max_size=8))
    whole = tokenizer.decode(ids)
    places = st.tuples(st.integers(0, len(whole)), st.integers(1, 6)).map(lambda place: whole[place[0] :][: place[1]])
    stop = data.draw(st.lists((places | st.sampled_from(["\n", "a", " b", REPLACEMENT, "[S"])).filter(len), max_size=3))
    plain, found = told(tokenizer, ids, (), cuts), told(tokenizer, ids, stop, cuts)
    assert plain == told(tokenizer, ids)
    assert found == told(tokenizer, ids, stop, range(len(ids)))
    if not takes_back(tokenizer, ids):
        assert plain == (whole, len(ids), False)
        assert found == searched(tokenizer, ids, stop)


@given(st.text(max_size=30), st.sampled_from(["bytes", "byte_bpe", "bpe", "unigram"]), st.lists(st.integers(0, 60), max_size=5))
def test_texts_come_back(text: str, name: str, cuts: list[int]) -> None:
    ids = made(name).encode(text).tolist()
    assert told(made(name), ids, (), [min(cut, len(ids)) for cut in cuts])[0] == made(name).decode(ids) == text


BROKEN = st.sampled_from([0x41, 0xFF, *"鸟😀é".encode(), 0xF0, 0xE0, 0xED, 0xC0, 0x80]), st.sampled_from([0xF0, 0x9F, 0x98, 0xFF])


@given(st.one_of(st.lists(kind, max_size=200) for kind in BROKEN))
def test_broken_bytes_are_replaced_as_in_the_whole(ids: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(detokenizer, "LONGEST", 8)
        assert told(ByteTokenizer(), ids)[0] == ByteTokenizer().decode(ids)


@pytest.mark.parametrize("many", range(LONGEST - 4, LONGEST + 4))
def test_a_character_is_whole_and_an_end_stays_the_end_after_very_many_tokens(many: int) -> None:
    ids = [0xFF] * many + list("😀!鸟a".encode())
    assert told(ByteTokenizer(), ids)[0] == REPLACEMENT * many + "😀!鸟a"
    ended = Seq2SeqTokenizer(ByteTokenizer())
    assert told(ended, [*ended.encode("!" * many), END, *ended.encode("a" * 500)])[0] == "!" * many


class Watched(Tokenizer):
    """Remembers how many tokens it was asked for at once."""

    def __init__(self, inner: Tokenizer):
        self.inner, self.most = inner, 0

    def decode(self, ids: list[int]) -> str:
        self.most = max(self.most, len(ids))
        return self.inner.decode(ids)


@pytest.mark.parametrize("name", [name for name in MAKERS if not made(name).needs_all_tokens])
def test_no_more_is_decoded_however_long_the_answer(name: str) -> None:
    inner = made(name)
    answers = [
        [int(random.mix(place) % inner.size) for place in range(1500)],
        *([number] * 300 for number in range(0, inner.size, inner.size // 8 + 1)),
    ]
    for ids in answers:
        tokenizer = Watched(inner)
        text = told(tokenizer, ids)[0]
        assert tokenizer.most <= 3 * LONGEST
        if "\n" not in text and not takes_back(inner, ids[:200]) and name not in ("bpe", "unigram", "sentencepiece"):
            assert text == inner.decode(ids)


def test_ordinary_tokens_are_told_at_once_and_decoded_with_few_before_them() -> None:
    tokenizer = Watched(made("byte_bpe"))
    ids = made("byte_bpe").encode("the birds walk, the birds fly. " * 20).tolist()
    assert steps(tokenizer, ids) == [*(tokenizer.inner.decode([number]) for number in ids), ""]
    assert tokenizer.most <= 4


def steps(tokenizer: Tokenizer, ids: Sequence[int], *stop: str) -> list[str]:
    """What each token tells, and the end."""
    reader = Detokenizer(tokenizer, stop)
    return [*(reader.push([number]) for number in ids), reader.finish()]


def test_characters_are_told_when_they_are_whole() -> None:
    assert steps(ByteTokenizer(), "é😀!".encode()) == ["", "é", "", "", "", "😀", "!", ""]
    assert steps(ByteTokenizer(), "é😀".encode()[:-1]) == ["", "é", "", "", "", REPLACEMENT]
    assert steps(ByteTokenizer(), b"a\xff\xffb") == ["a", "", "", REPLACEMENT * 2 + "b", ""]
    fallback = sentencepiece()
    assert steps(fallback, [257, *"鸟😀".encode(), 259]) == ["the", "", "", "鸟", "", "", "", "😀", "s", ""]
    assert steps(fallback, [*"鸟".encode(), 0xFF, 257]) == ["", "", "鸟", "", REPLACEMENT + " the", ""]


def test_what_may_become_a_stop_text_is_held_back() -> None:
    assert steps(ByteTokenizer(), b"xabdabc", "abc") == ["x", "", "", "abd", "", "", "", ""]
    assert steps(ByteTokenizer(), b"xaaab", "aab") == ["x", "", "", "a", "", ""]
    assert steps(ByteTokenizer(), b"xab", "abc") == ["x", "", "", "ab"]
    assert steps(ByteTokenizer(), "€\n".encode(), "\n") == ["", "", "€", "", ""]


def test_a_stop_text_inside_a_token_and_the_earliest_of_several() -> None:
    words = ClassNames(["one two three", "four"])
    reader = Detokenizer(words, ("three", "two", "four"))
    assert (reader.push([0, 1, 1]), reader.stopped, reader.read) == ("one ", True, 1)
    assert (reader.push([1]), reader.finish(), reader.read) == ("", "", 1)
    split = Detokenizer(words, ("e, f",))
    assert [split.push([0]), split.push([1]), split.finish()] == ["one two thre", "", ""]
    assert split.stopped and split.read == 2


def test_a_stop_text_counts_before_what_follows_could_change_it() -> None:
    words = WordTokenizer(["<unk>", "a", "b", "\n"])
    assert words.decode([1, 3, 2]) == "a\nb"
    assert steps(words, [1, 3, 2]) == ["a", "", "\nb", ""]
    assert told(words, [1, 3, 2], ["\n"]) == ("a ", 2, True)
    assert told(words, [1, 3, 2], ["\nb"]) == ("a", 3, True)
    assert told(ByteTokenizer(), b"a\xe2\x82", [REPLACEMENT]) == ("a", 3, True)


def test_an_answer_may_begin_with_the_space_after_its_prompt() -> None:
    for tokenizer, prompt, ids, text in (
        (WordTokenizer(["<unk>", "a", "b"]), [1], [2, 1], " b a"),
        (sentencepiece(), [257], [258, 259], " birds"),
        (made("bytes"), list(b"abc"), list(b"de"), "de"),
    ):
        reader = Detokenizer(tokenizer, (), prompt)
        assert reader.push(ids) + reader.finish() == text
        assert told(tokenizer, ids)[0] == text.lstrip()
