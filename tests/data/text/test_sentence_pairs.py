from __future__ import annotations

from pathlib import Path

import pytest
import torch

from weft.core import random
from weft.core.errors import ConfigError, DataError
from weft.data.base import Data
from weft.data.text.sentence_pairs import CLS, PAD, SEP, SPECIAL_TOKENS, UNKNOWN, BERTWordTokenizer, SentencePairs, SentencePairsConfig
from weft.data.tokenizers import base as tokenizers
from weft.data.tokenizers.encoder_tokens import SpecialTokens


def text(documents: int = 30) -> str:
    """Documents of one to five sentences; each word tells its document and its sentence."""
    parts = [
        " ".join(" ".join([f"d{d}s{s}"] * (2 + (d + s) % 5)) + "." for s in range(1 + d % 5))  # "d3s0 d3s0 d3s0."
        for d in range(documents)
    ]
    return "\n\n".join(parts)


def build_file(tmp_path: Path) -> str:
    path = tmp_path / "my.txt"
    path.write_text(text())
    return str(path)


def build(tmp_path: Path) -> Data:
    path = build_file(tmp_path)
    return SentencePairsConfig(path=path, validation_path=path, context=32).build()


def words(data: Data, ids: torch.Tensor) -> list[str]:
    return [data.tokenizer.words[i] for i in ids.tolist()]


def documents_of(data: Data, ids: torch.Tensor) -> set[str]:
    return {word.split("s")[0] for word in words(data, ids) if word.startswith("d")}


def drawn(data: Data, number: int) -> dict[str, torch.Tensor]:
    index = torch.arange(number) % len(data.train)
    return data.train.batch(index, random.keys(0, torch.arange(number)))


def test_packing(tmp_path: Path) -> None:
    data = build(tmp_path)
    batch = drawn(data, 200)
    for ids, segments, length in zip(batch["ids"], batch["segments"], batch["lengths"].tolist(), strict=True):
        assert ids[0] == CLS
        assert ids[length - 1] == SEP
        assert (ids[:length] == SEP).sum() == 2
        assert (ids[length:] == PAD).all()
        assert (ids[:length] != PAD).all()
        first = ids[:length].tolist().index(SEP)
        assert segments.tolist() == [0] * (first + 1) + [1] * (length - first - 1) + [0] * (32 - length)
    assert len(set(batch["lengths"].tolist())) > 5


def test_true_pairs_meet_and_others_are_of_another_document(tmp_path: Path) -> None:
    data = build(tmp_path)
    batch = drawn(data, 1000)
    assert 0.45 < float(batch["pair"].float().mean()) < 0.55
    for ids, segments, pair in zip(batch["ids"], batch["segments"], batch["pair"].tolist(), strict=True):
        first, second = ids[(segments == 0) & (ids > SEP)], ids[(segments == 1) & (ids > SEP)]
        if pair == 1:
            assert not documents_of(data, first) & documents_of(data, second)
        else:
            assert documents_of(data, first) == documents_of(data, second)
            ends = [word for word in words(data, first) if word.startswith("d")][-1], words(data, second)[0]
            number, following = (int(word.split("s")[1]) for word in ends)
            assert following == number + 1


def test_half_of_the_pairs_are_true_within_half_a_percent(tmp_path: Path) -> None:
    assert float(drawn(build(tmp_path), 100_000)["pair"].float().mean()) == pytest.approx(0.5, abs=0.005)


PRINTED = {
    "[CLS] the man went to [MASK] store [SEP] he bought a gallon [MASK] milk [SEP]": 0,
    "[CLS] the man [MASK] to the store [SEP] penguin [MASK] are flight ##less birds [SEP]": 1,
}


def test_the_two_examples_of_the_paper() -> None:
    """Devlin et al., 2018, appendix A.2: both are among what is drawn from two small documents, with the class they are printed with."""
    pytest.importorskip("tokenizers")
    from weft.data.tokenizers.subword_engines import bert
    from weft.data.tokenizers.subwords import WordPiece
    from weft.objectives.language.mlm_nsp import MLMNSPConfig

    words = "the man went to store he bought a gallon of milk penguin ##s are flight ##less birds they swim"
    pieces = [*SPECIAL_TOKENS, *words.split(" ")]
    tokenizer = WordPiece(bert({piece: number for number, piece in enumerate(pieces)}), {"unknown": UNKNOWN})
    texts = ["The man went to the store", "he bought a gallon of milk", "Penguins are flightless birds", "they swim"]
    sentences = [torch.from_numpy(tokenizer.encode(text)) for text in texts]
    starts = torch.tensor([0, *map(len, sentences)]).cumsum(0)
    mates = torch.tensor([[0, 2], [0, 2], [2, 3], [3, 4]])  # of the second document the printed example has one sentence
    pairs = SentencePairs(torch.cat(sentences), starts, mates, torch.tensor([1]), 16, SpecialTokens(CLS, SEP, PAD, UNKNOWN))
    key = random.keys(0, torch.arange(4000))
    batch = {**pairs.batch(torch.zeros(4000, dtype=torch.int64), key), "key": key}
    shown = MLMNSPConfig(vocabulary=len(pieces), special_tokens=len(SPECIAL_TOKENS), mask=4).build().corrupt(batch)[0]
    found = {
        " ".join(pieces[i] for i in ids[:length]): pair
        for ids, length, pair in zip(shown.tolist(), batch["lengths"].tolist(), batch["pair"].tolist(), strict=True)
    }
    assert PRINTED.items() <= found.items()


def test_sentences_of_other_documents_are_equally_likely(tmp_path: Path) -> None:
    data = build(tmp_path)
    assert isinstance(data.train, SentencePairs)
    cut = data.train.seconds[:1].expand(60_000)
    found = data.train.random_sentence(cut, random.keys(0, torch.arange(60_000))).bincount(minlength=len(data.train.document_ranges))
    begin, end = data.train.document_ranges[int(cut[0])].tolist()
    assert found[begin:end].sum() == 0
    others = torch.cat([found[:begin], found[end:]]).double() / 60_000
    assert (others - 1 / len(others)).abs().max() < 5 * (1 / len(others) / 60_000) ** 0.5


@pytest.mark.parametrize(("a", "b", "kept"), [(3, 4, (3, 4)), (30, 4, (9, 4)), (4, 30, (4, 9)), (30, 30, (7, 6)), (7, 8, (7, 6))])
def test_the_longer_part_is_cut_at_its_far_end(a: int, b: int, kept: tuple[int, int]) -> None:
    tokens = torch.arange(10, 10 + a + b)
    special_tokens = SpecialTokens(CLS, SEP, PAD, UNKNOWN)
    data = SentencePairs(tokens, torch.tensor([0, a, a + b]), torch.tensor([[0, 2], [0, 2]]), torch.tensor([1]), 16, special_tokens)
    ids = data.pack(torch.tensor([1]), torch.tensor([1]))["ids"][0].tolist()
    first, second = tokens[a - kept[0] : a].tolist(), tokens[a : a + kept[1]].tolist()
    assert ids == [CLS, *first, SEP, *second, SEP] + [PAD] * (13 - sum(kept))


def test_a_batch_does_not_depend_on_how_it_was_cut(tmp_path: Path) -> None:
    data, key = build(tmp_path).train, random.keys(0, torch.arange(20))
    whole, part = data.batch(torch.arange(20), key), data.batch(torch.arange(5, 9), key[5:9])
    assert all(torch.equal(whole[name][5:9], part[name]) for name in part)


def test_the_tokenizer_survives_saving_and_pad_is_nothing_else() -> None:
    tokenizer = BERTWordTokenizer.train("The cat.\nThe dog!", 100)
    again = tokenizers.load(tokenizers.dump(tokenizer))
    assert isinstance(again, BERTWordTokenizer)
    assert again.words[:6] == [*SPECIAL_TOKENS, "the"]
    assert again.encode("THE tree\n[PAD]").tolist() == [5, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN]
    assert again.size == len(SPECIAL_TOKENS) + 5
    assert BERTWordTokenizer.train("a b c d", 7).size == 7


def test_the_standard_library_has_pairs() -> None:
    data = SentencePairsConfig(vocabulary=1000).build()
    assert len(data.train) > 1000
    assert data.validation is not None
    assert len(data.validation) > 100
    assert {"vocabulary": 1000, "context": 64, "mask": 4, "special_tokens": 5}.items() <= data.info.items()


def test_the_words_of_another_model_are_kept(tmp_path: Path) -> None:
    known = BERTWordTokenizer([*SPECIAL_TOKENS, "d7s0", "d7s1"])
    data = SentencePairsConfig(path=build_file(tmp_path), validation=0.0).build_with(known)
    assert data.tokenizer is known
    assert data.info["vocabulary"] == 7
    assert data.validation is None
    assert set(drawn(data, 300)["ids"].flatten().tolist()) == {PAD, UNKNOWN, CLS, SEP, 5, 6}


def test_mistakes_are_named(tmp_path: Path) -> None:
    path = tmp_path / "my.txt"
    path.write_text("One paragraph. Of three sentences. And no more.")
    with pytest.raises(DataError, match="two paragraphs"):
        SentencePairsConfig(path=str(path)).build()
    with pytest.raises(ConfigError, match=r"data\.context"):
        SentencePairsConfig(path=str(path), context=4).build()


def test_pieces_of_words_and_no_swapping(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    path = build_file(tmp_path)
    data = SentencePairsConfig(path=path, tokenizer="wordpiece", vocabulary=200, negative_rate=0.0, validation=0.0).build()
    assert data.info["mask"] == data.tokenizer.special_tokens["mask"] < data.info["special_tokens"] == 5
    index = torch.arange(len(data.train))
    batch = data.train.batch(index, index)
    assert int(batch["pair"].sum()) == 0
    assert set(batch["ids"][:, 0].tolist()) == {data.tokenizer.special_tokens["cls"]}
    with pytest.raises(ConfigError, match=r"--data\.negative_rate must be from 0 to 1"):
        SentencePairsConfig(path=path, negative_rate=2.0).build()


def test_in_training_wrong_parts_may_come_from_the_same_long_document(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    path.write_text("\n\n".join(" ".join(f"d{d}s{s} d{d}s{s}." for s in range(60)) for d in range(4)))
    config = SentencePairsConfig(path=str(path), validation_path=str(path), context=16, negative_rate=1.0, same_document_rate=1.0)
    data = config.build()
    batch = drawn(data, 500)
    for ids, segments in zip(batch["ids"], batch["segments"], strict=True):
        first, second = ids[(segments == 0) & (ids > SEP)], ids[(segments == 1) & (ids > SEP)]
        assert documents_of(data, first) == documents_of(data, second)
        ends = [word for word in words(data, first) if word.startswith("d")][-1], words(data, second)[0]
        number, following = (int(word.split("s")[1]) for word in ends)
        assert following != number + 1
    assert isinstance(data.validation, SentencePairs)
    assert data.validation.same_document_rate == 0.0
    with pytest.raises(ConfigError, match=r"data\.same_document_rate"):
        SentencePairsConfig(path=str(path), same_document_rate=1.5).build()
