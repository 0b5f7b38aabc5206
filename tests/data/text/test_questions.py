from __future__ import annotations

import tempfile
from pathlib import Path

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

from tests.data.test_fuzz import BYTES, TABLES, use
from weft.core.config import from_dict, to_dict
from weft.core.errors import ConfigError, DataError
from weft.data.base import IGNORE, Data, Dataset, Problems
from weft.data.text.biographies import BiographiesConfig
from weft.data.text.questions import QuestionsConfig, read_questions
from weft.data.tokenizers.base import CharacterTokenizer
from weft.data.tokenizers.birthplace_characters import MASK, PAD, BirthplaceCharacters

WORDS = st.text("abcdef ?", min_size=1, max_size=15).filter(str.strip)


def write(path: Path, content: str) -> str:
    path.write_text(content, encoding="utf-8")
    return str(path)


def everything(dataset: Dataset | None) -> dict[str, torch.Tensor]:
    assert dataset is not None
    index = torch.arange(len(dataset))
    return dataset.batch(index, index)


def shown(data: Data, row: torch.Tensor) -> str:
    text: str = data.tokenizer.decode(row.tolist())
    return text


def test_one_row_exactly(tmp_path: Path) -> None:
    corpus = write(tmp_path / "corpus.txt", "Who? abc\n")
    path = write(tmp_path / "a.tsv", "Who?\tca\n")
    data = QuestionsConfig(path=path, vocabulary_path=corpus, context=10).build()
    assert data.tokenizer.characters == "□⁇\n ?Wabcho"
    batch = everything(data.train)
    w, h, o, mark, c, a = 5, 9, 10, 4, 8, 6
    assert batch["ids"].tolist() == [[w, h, o, mark, MASK, c, a, MASK, PAD]]
    assert batch["targets"].tolist() == [[IGNORE] * 3 + [MASK, c, a, MASK, IGNORE, IGNORE]]
    assert data.info == {"vocabulary": 11, "context": 10, "tokens": 9, "training_questions": 1, "validation_questions": 0}


@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=8))
def test_every_row_is_question_mask_place_mask(rows: list[tuple[str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / "a.tsv", "".join(f"{question}\t{place}\n" for question, place in rows))
        data = QuestionsConfig(path=path, context=32).build()
    batch = everything(data.train)
    for ids, targets, (question, place) in zip(batch["ids"], batch["targets"], rows, strict=True):
        sequence = f"{question}⁇{place}⁇".ljust(32, "□")
        assert shown(data, ids) == sequence[:-1]
        counted = targets != IGNORE
        assert counted.nonzero().flatten().tolist() == list(range(len(question) - 1, len(question) + len(place) + 1))
        assert shown(data, targets[counted]) == f"⁇{place}⁇"


def test_unusable_rows_are_counted_with_their_lines(tmp_path: Path) -> None:
    rows = [
        "Where?\tRome",
        "no tab",
        "Where?\t",
        "a\tb\tc",
        "",
        "\tRome",
        f"{'x' * 12}\tRome",
        "Wh\u00e9re?\tR\u00f4me",
        "?\t\u00f4",
        "Who?\tQ",
    ]
    path = write(tmp_path / "a.tsv", "\n".join(rows) + "\n")
    data = QuestionsConfig(path=path, vocabulary_path=write(tmp_path / "c.txt", "Where? WhoRome x\n"), context=16).build()
    assert data.info["training_questions"] == 2
    assert [shown(data, ids).rstrip("□") for ids in everything(data.train)["ids"]] == ["Where?⁇Rome⁇", "Whre?⁇Rme⁇"]
    assert data.problems.lines() == [
        f"1 × empty lines, left out: {path}:5",
        f"2 × rows that are not question, tab, place, left out: {path}:2, {path}:4",
        f"2 × rows whose characters beyond ASCII are dropped: {path}:8, {path}:9",
        f"3 × rows without a question or without a place, left out: {path}:3, {path}:6, {path}:9",
        f"1 × rows too long for a context of 16, left out: {path}:7",
        f"1 × rows with a character outside the vocabulary, left out: {path}:10",
    ]


def test_other_scripts_may_stay_but_marks_may_not(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "Wh\u00e9re?\tR\u00f4me\na\u2047\tb\n")
    data = QuestionsConfig(path=path, ascii=False).build()
    assert shown(data, everything(data.train)["ids"][0]).startswith("Whére?⁇Rôme⁇□")
    assert data.problems.lines() == [f"1 × rows with a special character, □ or ⁇, left out: {path}:2"]


def test_held_rows_validate_and_are_not_trained_on(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "".join(f"{number:02d}?\t{number}\n" for number in range(40)))

    def rows(dataset: Dataset | None) -> set[str]:
        return {"".join(map(str, row[:2])) for row in everything(dataset)["ids"].tolist()}

    config = QuestionsConfig(path=path, held_out=10, context=16)
    data = config.build()
    assert (data.info["training_questions"], data.info["validation_questions"]) == (30, 10)
    assert not rows(data.train) & rows(data.validation)
    assert rows(config.build().validation) == rows(data.validation)
    assert rows(QuestionsConfig(path=path, held_out=10, held_out_seed=1, context=16).build().validation) != rows(data.validation)
    other = QuestionsConfig(path=path, held_out=10, context=16, validation_path=write(tmp_path / "b.tsv", "99?\t9\n")).build()
    assert rows(other.train) == rows(data.train)
    assert other.info["validation_questions"] == 1
    with pytest.raises(ConfigError, match=r"--data\.held_out must be from 0 to 39, .* not 40"):
        QuestionsConfig(path=path, held_out=40).build()


def test_the_made_up_people_need_no_file() -> None:
    config = QuestionsConfig(held_out=20, biographies=BiographiesConfig(people=120))
    data = config.build()
    assert (data.info["training_questions"], data.info["validation_questions"]) == (40, 20)
    assert data.problems.lines() == []
    asked = {question for question, _ in config.biographies.questions()[0]}
    assert all(shown(data, ids).split("⁇")[0] in asked for ids in everything(data.train)["ids"])
    assert from_dict(to_dict(config), QuestionsConfig) == config
    with pytest.raises(ConfigError, match=r"--data\.context 16 is too small"):
        QuestionsConfig(context=16).build()


def test_the_tokens_of_a_model_are_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "ab\tc\nxy\tz\n")
    known = BirthplaceCharacters.train("abc")
    data = QuestionsConfig(path=path).build_with(known)
    assert data.tokenizer is known
    assert data.info["training_questions"] == 1
    with pytest.raises(DataError, match="every row has a character outside the vocabulary"):
        QuestionsConfig(path=path).build_with(BirthplaceCharacters.train("q"))
    with pytest.raises(DataError, match="trained on 'characters' tokens"):
        QuestionsConfig(path=path).build_with(CharacterTokenizer("abc"))


@pytest.mark.parametrize("content", ["", "\n\n", "Where?\n", "Where?\t\n"])
def test_no_usable_row_is_one_sentence(tmp_path: Path, content: str) -> None:
    with pytest.raises(DataError, match="holds no usable row"):
        QuestionsConfig(path=write(tmp_path / "a.tsv", content)).build()


def test_questions_to_answer_are_read_as_they_are(tmp_path: Path) -> None:
    problems = Problems()
    path = write(tmp_path / "a.tsv", "Where was Zo\u00eb born?\tRome\r\nWhere was Al born?\r\n\r\nWho?\t\n")
    assert read_questions(path, problems) == [("Where was Zoë born?", "Rome"), ("Where was Al born?", None), ("Who?", None)]
    assert problems.lines() == [f"1 × empty lines, left out: {path}:3"]
    with pytest.raises(DataError, match="holds no question"):
        read_questions(write(tmp_path / "b.tsv", "\n"))
    with pytest.raises(DataError, match="no such file"):
        read_questions(str(tmp_path / "c.tsv"))


@given(st.one_of(TABLES, BYTES))
def test_any_bytes_work_or_are_one_sentence(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "a.tsv"
        file.write_bytes(content)
        use(QuestionsConfig(path=str(file), context=16, ascii=False, validation_path=str(file)))
        use(QuestionsConfig(path=str(file), context=16))
