from __future__ import annotations

import tempfile
from pathlib import Path
from typing import get_args

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

from tests.data.test_fuzz import TEXTS, use
from weft.core import random
from weft.core.config import from_dict, to_dict
from weft.core.errors import ConfigError, DataError
from weft.data.base import IGNORE, Batch, Data, DataConfig, DataLoader, Dataset
from weft.data.text.biographies import ALPHABET, BiographiesConfig
from weft.data.text.questions import QuestionsConfig
from weft.data.text.span_corruption import Lengths, SpanCorruption, SpanCorruptionConfig, first_sentence_length
from weft.data.tokenizers.birthplace_characters import MASK, PAD, BirthplaceCharacters

FEW = BiographiesConfig(people=30, variants=4)
DRAWS = 20_000


def write(path: Path, content: str) -> str:
    path.write_text(content, encoding="utf-8")
    return str(path)


def drawn(dataset: Dataset, number: int, seed: int = 0) -> Batch:
    index = torch.arange(number) % len(dataset)
    return dataset.batch(index, random.keys(seed, torch.arange(number)))


def restore(data: Data, ids: torch.Tensor) -> str:
    """The text that a sequence was made of."""
    prefix, suffix, hidden, *_ = data.tokenizer.decode(ids.tolist()).rstrip("□").split("⁇")
    return str(prefix + hidden + suffix)


def long_lines(tmp_path: Path) -> str:
    """Lines of 150 characters, so that no truncation is cut short."""
    return write(tmp_path / "long.txt", "\n".join((chr(97 + i) + "0123456789") * 13 + "abcdefg" for i in range(5)) + "\n")


def test_one_example_exactly(tmp_path: Path) -> None:
    config = SpanCorruptionConfig(path=write(tmp_path / "a.txt", "abc\n"), context=8, min_length=3, max_length=3)
    batch = drawn(config.build().train, 20)
    a, b, c = 3, 4, 5  # 2 is the newline
    assert batch["ids"].tolist() == [[a, MASK, c, MASK, b, PAD, PAD]] * 20
    assert batch["targets"].tolist() == [[MASK, c, MASK, b, IGNORE, IGNORE, IGNORE]] * 20
    closing = SpanCorruptionConfig(**{**vars(config), "final_mask": True, "predicted_tokens": 2})
    batch = drawn(closing.build().train, 20)
    assert batch["ids"].tolist() == [[a, MASK, c, MASK, b, MASK, PAD]] * 20
    assert batch["targets"].tolist() == [[IGNORE] * 3 + [b, MASK, IGNORE, IGNORE]] * 20


@given(
    st.lists(st.text("abcdefgh", max_size=30), min_size=1, max_size=6).filter(any),
    st.integers(1, 20),
    st.integers(0, 20),
    st.sampled_from(get_args(Lengths)),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.integers(0, 4),
)
def test_documents_come_back_and_targets_follow(
    lines: list[str], shortest: int, more: int, lengths: Lengths, inside: bool, closing: bool, empty: bool, predicted: int
) -> None:
    longest = shortest + more
    config = SpanCorruptionConfig(
        context=longest + 3,
        min_length=shortest,
        max_length=longest,
        lengths=lengths,
        keep_ends=inside,
        final_mask=closing,
        empty=empty,
        predicted_tokens=predicted,
    )
    with tempfile.TemporaryDirectory() as folder:
        data = SpanCorruptionConfig(**{**vars(config), "path": write(Path(folder) / "a.txt", "\n".join(lines) + "\n")}).build()
    documents = [*lines, ""] if empty else [line for line in lines if line]
    assert len(data.train) == len(documents)
    assert data.info["empty_documents"] == (0 if empty else lines.count("") + 1)
    assert isinstance(data.train, SpanCorruption)
    batch = drawn(data.train, 12)
    for row, (ids, targets) in enumerate(zip(batch["ids"], batch["targets"], strict=True)):
        document = documents[row % len(documents)]
        sequence = torch.cat((ids, targets[-1:].clamp(min=PAD)))  # the last character is a target or PAD
        kept = restore(data, sequence)
        assert document.startswith(kept)
        assert min(shortest, len(document)) <= len(kept) <= longest
        marks = (sequence == MASK).nonzero().flatten().tolist()
        assert len(marks) == 2 + (closing and kept != "")
        hidden = len(kept) + 1 - marks[1]
        assert hidden >= min(1, len(kept))
        if inside and len(kept) > 2:
            assert marks[0] > 0
            assert marks[1] - marks[0] > 1
        first = len(kept) + 2 + closing - predicted if predicted else 1
        assert targets.tolist() == [id_ if place >= first and id_ != PAD else IGNORE for place, id_ in enumerate(sequence.tolist())][1:]


@pytest.mark.parametrize("lengths", get_args(Lengths))
@pytest.mark.parametrize("inside", [True, False])
def test_a_quarter_is_hidden_and_every_length_occurs(tmp_path: Path, lengths: Lengths, inside: bool) -> None:
    data = SpanCorruptionConfig(path=long_lines(tmp_path), lengths=lengths, keep_ends=inside).build()
    assert isinstance(data.train, SpanCorruption)
    key = random.keys(1, torch.arange(DRAWS))
    piece = data.train.masked_span(torch.arange(DRAWS) % 5, key)
    length, before, hidden = piece.length, piece.before, piece.hidden
    assert torch.equal(length.unique(), torch.arange(4, 113, dtype=length.dtype))
    assert length.bincount(minlength=113)[4:].float().std() < 3 * (DRAWS / 109) ** 0.5
    assert abs(float((hidden / length).mean()) - 0.25) < 0.02
    edge = int(inside)
    assert bool(((hidden >= 1) & (before >= edge) & (length - hidden - before >= edge)).all())
    place = (before - edge) / (length - hidden + 1 - 2 * edge)  # evenly over [0, 1), but for whole numbers
    assert 0.4 < float(place[length > 40].mean()) < 0.5
    assert int(before.min()) == edge
    assert int((length - hidden - before).min()) == edge


@given(
    st.lists(st.from_regex(r"[ab1][ab1 .]{0,39}", fullmatch=True), min_size=1, max_size=6), st.booleans(), st.sampled_from([0.0, 0.5, 1.0])
)
def test_whole_words_are_hidden_and_what_stands_around_them_is_thinned(lines: list[str], inside: bool, thinned: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / "a.txt", "\n".join(lines) + "\n")
        config = SpanCorruptionConfig(
            path=path, context=40, min_length=8, max_length=37, keep_ends=inside, whole_words=True, context_dropout=thinned, final_mask=True
        )
        data = config.build()
    documents, number = [line[:37] for line in lines], 24
    index, key = torch.arange(number) % len(documents), random.keys(0, torch.arange(number))
    assert isinstance(data.train, SpanCorruption)
    piece, batch = data.train.masked_span(index, key), drawn(data.train, number)
    for row in range(number):
        text, edge = documents[row % len(documents)], int(inside)
        length, before, hidden = int(piece.length[row]), int(piece.before[row]), int(piece.hidden[row])
        kept, left_out = (int(part[row]) for part in piece.skipped) if piece.skipped else (0, 0)
        first, last = before + left_out, before + left_out + hidden
        starts_word = first <= edge or not (text[first - 1].isalnum() and text[first].isalnum())
        ends_word = left_out > 0 or length - before - hidden <= edge or not (text[last - 1].isalnum() and text[last].isalnum())
        assert hidden > 0 and starts_word and (thinned or ends_word)
        prefix, suffix, moved, *_ = data.tokenizer.decode(batch["ids"][row].tolist()).split("⁇")
        assert moved == text[first:last]
        assert prefix == (text[:kept] + text[kept + left_out : first] if left_out else text[:first])
        assert text[last:].startswith(suffix) and len(suffix) == length - before - hidden
        if thinned == 0.0:
            assert left_out == 0 and len(prefix + moved + suffix) >= min(8, len(text))


def test_the_first_sentence_ends_after_a_word() -> None:
    assert [first_sentence_length(text) for text in ("Ada King. She", "J. R. R. Tolkien. He", "No end", "", "Dr. X.", "end.")] == [
        9,
        17,
        0,
        0,
        3,
        0,
    ]


def test_the_distributions_are_what_they_are_called(tmp_path: Path) -> None:
    path = long_lines(tmp_path)

    def hidden(lengths: Lengths) -> torch.Tensor:
        data = SpanCorruptionConfig(path=path, lengths=lengths, min_length=80, max_length=80).build()
        assert isinstance(data.train, SpanCorruption)
        return data.train.masked_span(torch.arange(DRAWS) % 5, random.keys(2, torch.arange(DRAWS))).hidden.double()

    expected = {"uniform": (10, 30, 5.8), "half": (1, 39, 11.3), "gaussian": (1, 78, 9.8), "binomial": (3, 40, 3.87), "beta": (1, 78, 15.3)}
    for name, (least, most, spread) in expected.items():
        found = hidden(name)  # type: ignore[arg-type]
        assert least <= int(found.min()) <= int(found.max()) <= most
        assert float(found.mean()) == pytest.approx(20, abs=0.5)
        assert float(found.std()) == pytest.approx(spread, rel=0.04)
    assert hidden("uniform").unique().tolist() == list(range(10, 31))


def test_a_short_document_is_drawn_from_by_its_own_length(tmp_path: Path) -> None:
    data = SpanCorruptionConfig(path=write(tmp_path / "a.txt", "abcdefgh\n"), lengths="half").build()
    assert isinstance(data.train, SpanCorruption)
    piece = data.train.masked_span(torch.zeros(2000, dtype=torch.int64), random.keys(0, torch.arange(2000)))
    length, hidden = piece.length, piece.hidden
    assert float((length == 8).float().mean()) > 0.9
    assert hidden[length == 8].unique().tolist() == [1, 2, 3]


def test_a_batch_does_not_depend_on_how_it_was_cut_and_changes_with_the_key() -> None:
    train, key = (
        SpanCorruptionConfig(biographies=FEW, questions=0.3, whole_words=True, context_dropout=0.5).build().train,
        random.keys(0, torch.arange(20)),
    )
    whole, part = train.batch(torch.arange(20), key), train.batch(torch.arange(5, 9), key[5:9])
    assert all(torch.equal(whole[name][5:9], part[name]) for name in part)
    again = train.batch(torch.arange(20), key + 1)
    assert sum(not torch.equal(a, b) for a, b in zip(whole["ids"], again["ids"], strict=True)) > 15


@pytest.mark.parametrize("lengths", get_args(Lengths))
def test_nothing_of_a_batch_is_read_by_the_host(lengths: Lengths) -> None:
    """The meta device has shapes but no values: what needs one cannot be part of a captured graph."""
    meta = torch.device("meta")
    config = SpanCorruptionConfig(
        biographies=FEW, questions=0.3, lengths=lengths, final_mask=True, predicted_tokens=5, whole_words=True, context_dropout=0.5
    )
    index = torch.zeros(6, dtype=torch.int64, device=meta)
    batch = config.build().train.to(meta).batch(index, index)
    assert {name: (tensor.shape, tensor.dtype) for name, tensor in batch.items()} == {
        "ids": (torch.Size([6, 127]), torch.int64),
        "targets": (torch.Size([6, 127]), torch.int64),
    }


@pytest.mark.gpu
def test_a_captured_graph_gives_the_same_batch() -> None:
    train = SpanCorruptionConfig(biographies=FEW, questions=0.3, whole_words=True, context_dropout=0.5).build().train
    expected = drawn(train, 64)
    resident, index = train.to(torch.device("cuda")), (torch.arange(64) % len(train)).cuda()
    key = torch.zeros(64, dtype=torch.int64, device="cuda")
    resident.batch(index, key)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        batch = resident.batch(index, key)
    key.copy_(random.keys(0, torch.arange(64)))
    graph.replay()
    assert all(torch.equal(batch[name].cpu(), expected[name]) for name in expected)


def test_training_questions_are_mixed_in(tmp_path: Path) -> None:
    config = SpanCorruptionConfig(biographies=FEW, questions=0.25, questions_held_out=5, final_mask=True)
    data = config.build()
    assert data.info["mixed_questions"] == 10
    batch = drawn(data.train, 4000)
    answering = QuestionsConfig(biographies=FEW, held_out=5).build_with(data.tokenizer)
    known = answering.train.batch(torch.arange(10), torch.arange(10))
    examples = {(tuple(ids), tuple(targets)) for ids, targets in zip(known["ids"].tolist(), known["targets"].tolist(), strict=True)}
    found = [
        pair
        for pair in zip(map(tuple, batch["ids"].tolist()), map(tuple, batch["targets"].tolist()), strict=True)
        if data.tokenizer.decode(list(pair[0])).split("⁇")[0].endswith("born?")
    ]
    assert set(found) == examples, "those held for the choice of a model are never shown"
    assert 0.22 < len(found) / 4000 < 0.28
    with pytest.raises(ConfigError, match=r"--data\.questions-path"):
        SpanCorruptionConfig(path=long_lines(tmp_path), questions=0.1).build()
    with pytest.raises(DataError, match="every question has a character that the documents lack"):
        SpanCorruptionConfig(path=long_lines(tmp_path), questions=0.1, questions_path=write(tmp_path / "q.tsv", "Q?\tR\n")).build()


def test_the_made_up_people_need_no_file() -> None:
    data = SpanCorruptionConfig().build()
    assert data.tokenizer.size == data.info["vocabulary"] == len(ALPHABET) + 2
    assert {"documents": 10_000, "context": 128, "tokens": 127, "validation_documents": 0}.items() <= data.info.items()
    assert data.problems.lines() == []
    batch = DataLoader(data.train, 0, torch.device("cpu")).batch(0, 8)
    assert batch["ids"].shape == batch["targets"].shape == (8, 127)
    config = SpanCorruptionConfig(lengths="beta", biographies=FEW)
    assert from_dict(to_dict(config), SpanCorruptionConfig) == config


def test_documents_may_be_kept_for_validation(tmp_path: Path) -> None:
    data = SpanCorruptionConfig(biographies=FEW, validation=0.1).build()
    assert (data.info["documents"], data.info["validation_documents"]) == (108, 12)
    assert data.validation is not None
    assert len(data.validation) == 12
    path = long_lines(tmp_path)
    data = SpanCorruptionConfig(path=path, validation_path=path).build()
    assert (data.info["documents"], data.info["validation_documents"]) == (5, 5)


def test_empty_lines_are_counted_but_not_the_end_of_the_file(tmp_path: Path) -> None:
    data = SpanCorruptionConfig(path=write(tmp_path / "a.txt", "one\n\ntwo\n\n\n")).build()
    assert len(data.train) == 2
    assert data.problems.lines() == ["3 × empty lines, left out: line 2, line 4, line 5"]
    assert data.info["empty_documents"] == 4
    kept = SpanCorruptionConfig(path=str(tmp_path / "a.txt"), empty=True).build()
    assert len(kept.train) == 6
    assert kept.train.batch(torch.tensor([5]), torch.tensor([5]))["ids"][0].tolist() == [MASK, MASK] + [PAD] * 125


def test_the_tokens_of_a_model_are_kept(tmp_path: Path) -> None:
    known = BirthplaceCharacters.train("abcdefghijklmnopqrstuvwxyz0123456789")
    assert SpanCorruptionConfig(path=long_lines(tmp_path)).build_with(known).info["vocabulary"] == 38
    with pytest.raises(DataError, match=r"holds no character that the model knows \(6 × characters that"):
        SpanCorruptionConfig(path=write(tmp_path / "b.txt", "123\n456\n")).build_with(BirthplaceCharacters.train("abc"))
    some = SpanCorruptionConfig(path=write(tmp_path / "c.txt", "a1b2c3\n" * 9)).build_with(BirthplaceCharacters.train("abc"))
    assert some.info["documents"] + some.info["validation_documents"] == 9 and some.info["unknown_per_token"] == 27 / (4 * 9)
    assert some.problems.counts["characters that the model does not know, left out"] == 27
    with pytest.raises(DataError, match="which stands for padding"):
        SpanCorruptionConfig(path=write(tmp_path / "a.txt", "a□b\n")).build_with(known)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"context": 3}, "--data.context must be at least 4"),
        ({"context": 5}, "--data.min_length is 4 and --data.max_length 3; in a context of 5"),
        ({"min_length": 0}, "--data.min_length is 0"),
        ({"min_length": 113}, "--data.min_length is 113"),
        ({"max_length": 127}, "--data.max_length 127"),
        ({"max_length": 126, "final_mask": True}, "from 1 to 125"),
        ({"max_length": -1}, "--data.max_length -1"),
        ({"predicted_tokens": -1}, "--data.predicted_tokens"),
        ({"questions": 1.5}, "--data.questions must"),
        ({"questions": float("nan")}, "--data.questions must"),
        ({"questions": 0.5, "questions_held_out": 15}, "--data.questions-held-out must be from 0 to 14"),
        ({"validation": 1.0}, "--data.validation must"),
    ],
)
def test_settings_that_make_no_sense(wrong: dict[str, float], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        SpanCorruptionConfig(biographies=FEW, **wrong).build()  # type: ignore[arg-type]


@given(TEXTS)
def test_any_bytes_work_or_are_one_sentence(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "a.txt"
        file.write_bytes(content)
        configs: list[DataConfig] = [
            SpanCorruptionConfig(path=str(file), context=16, validation=0.3),
            SpanCorruptionConfig(path=str(file), context=16, empty=True, final_mask=True, validation_path=str(file)),
        ]
        for config in configs:
            use(config)
