"""Tasks for language models as data: the file, what its records hold, how they are asked, and what GPT-3 reached.

Names and summaries stand in the registry (`weft list tasks`); files lie below $WEFT_DATA or --data.path.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from weft.evaluation.fewshot.metrics import first_number, last_number, same_text, translation
from weft.evaluation.fewshot.request_types import GenerateUntil, LogLikelihood, MultipleChoice, RequestType
from weft.evaluation.fewshot.templates import Item

Record = dict[str, Any]


@dataclass(frozen=True)
class Published:
    """What GPT-3 with 175 billion parameters reached (Brown et al., 2020, arXiv:2005.14165), in the units of the task's metric."""

    zero: float | None
    one: float | None
    few: float | None
    shots: int
    """Examples in the few-shot setting."""
    note: str = ""

    def at(self, shots: int) -> float | None:
        """The number of the setting that is nearest to so many examples; None where this form of the task was not used for it."""
        return (self.zero, self.one, self.few)[min(shots, 2)]


@dataclass(frozen=True)
class Task:
    file: str
    """Where the records are, below the folder of data sets."""
    read: Callable[[Record], Item]
    """What a record holds."""
    template: str
    """How it is asked; see templates.py."""
    request_type: RequestType
    published: Published | None = None


def choices(record: Record) -> Item:
    return Item({"query": record["query"].strip()}, tuple(record["choices"]), record["gold"])


def schema(record: Record) -> Item:
    """Which of two beginnings makes sense of an ending; a sentence and its twin, which has another ending, are of one group."""
    ending, options = record["continuation"], tuple(record["context_options"])
    gap = "" if re.match(r"[.,;:!?']", ending) else " "
    return Item({"ending": gap + ending}, options, record["gold"], group="\n".join(sorted(options)))


def last_word(record: Record) -> Item:
    context, word = record["text"].rsplit(None, 1)
    return Item({"context": context}, (word,))


def video(record: Record) -> Item:
    """HellaSwag without the marks of WikiHow, from which a part of it was made."""
    context = f"{record['ctx_a']} {record['ctx_b'].capitalize()}" if record["ctx_b"] else record["ctx_a"]
    fields = {"activity": unmarked(record["activity_label"]), "context": unmarked(context)}
    return Item(fields, tuple(map(unmarked, record["endings"])), int(record["label"]), group=record["source_id"])


def unmarked(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"\[.*?\]", "", text.replace(" [title]", ". "))).strip()


def story(record: Record) -> Item:
    sentences = " ".join(record[f"InputSentence{number}"] for number in range(1, 5))
    endings = record["RandomFifthSentenceQuiz1"], record["RandomFifthSentenceQuiz2"]
    return Item({"context": sentences}, endings, int(record["AnswerRightEnding"]) - 1)


def trivia(record: Record) -> Item:
    return Item({"context": record["context"]}, (record["answer"],), references=(record["answer"], *record["aliases"]))


def question(record: Record) -> Item:
    return Item({"question": record["question"]}, (record["answer"][0],), references=tuple(record["answer"]))


def continued(record: Record) -> Item:
    return Item({"context": record["context"]}, (record["continuation"],), references=(record["continuation"],))


def word_problem(record: Record) -> Item:
    number = record["answer"].replace(",", "")
    float(number)
    return Item({"context": record["context"]}, (f"{record['chain_of_thought']}\n#### {number}",), references=(number,))


def pair(source: str, target: str) -> Callable[[Record], Item]:
    def read(record: Record) -> Item:
        return Item({"source": record[source]}, (record[target],), references=(record[target],))

    return read


def local(name: str) -> str:
    return f"fewshot/{name}.jsonl.gz"


LAMBADA_FILE = "lambada/lambada_test_even.jsonl.gz"
LAMBADA_NOTE = "people reach about 95 % (figure 3.2); the 86.0 % that is sometimes quoted for them is not in the paper"
SUPERGLUE = "zero- and one-shot on the development set, few-shot on the test set"
WMT14_FILE = "wmt14/newstest2014.en-fr.jsonl.gz"
WMT14_NOTE = "39.5 and 40.2, sometimes quoted for English and French, are Romanian to English and a supervised German to English system"
QUESTION = "{query}\nAnswer: {answer}"
RUNNING = "{query} {answer}"

LAMBADA = Task(LAMBADA_FILE, last_word, "{context} {answer}", LogLikelihood(), Published(0.762, None, None, 0, LAMBADA_NOTE))
FILL_IN = Task(LAMBADA_FILE, last_word, "{context} ____. → {answer}", LogLikelihood(), Published(None, 0.725, 0.864, 15, LAMBADA_NOTE))
HELLASWAG = Task(
    local("hellaswag_val_1000"), video, "{activity}: {context} {answer}", MultipleChoice("token"), Published(0.789, 0.781, 0.793, 20)
)
STORYCLOZE = Task(
    "storycloze/cloze_test_val__spring2016.csv", story, "{context} {answer}", MultipleChoice("token"), Published(0.832, 0.847, 0.877, 70)
)
COPA = Task(local("copa"), choices, RUNNING, MultipleChoice("token"), Published(0.91, 0.87, 0.92, 32, SUPERGLUE))
PIQA = Task(local("piqa"), choices, QUESTION, MultipleChoice("token"), Published(0.805, 0.805, 0.828, 50, "few-shot on the test set"))
ARC_EASY = Task(local("arc_easy"), choices, QUESTION, MultipleChoice("unconditional"), Published(0.688, 0.712, 0.701, 50))
ARC_CHALLENGE = Task(local("arc_challenge"), choices, QUESTION, MultipleChoice("unconditional"), Published(0.514, 0.532, 0.515, 50))
OPENBOOK_QA = Task(local("openbook_qa"), choices, RUNNING, MultipleChoice("unconditional"), Published(0.576, 0.588, 0.654, 100))
COMMONSENSE_QA = Task(local("commonsense_qa"), choices, RUNNING, MultipleChoice("sum"))
SIQA = Task(local("siqa"), choices, RUNNING, MultipleChoice("sum"))
BOOLQ = Task(local("boolq"), choices, QUESTION, MultipleChoice("sum"), Published(0.605, 0.767, 0.764, 32, SUPERGLUE))
WINOGRANDE = Task(local("winogrande"), schema, "{answer}{ending}", MultipleChoice("sum", partial=True), Published(0.702, 0.732, 0.777, 50))
WINOGRAD = Task(local("winograd_wsc"), schema, "{answer}{ending}", MultipleChoice("sum", partial=True), Published(0.883, 0.897, 0.886, 7))
TRIVIAQA = Task(local("triviaqa_sm_sub"), trivia, "{context} {answer}", GenerateUntil(same_text), Published(0.643, 0.68, 0.712, 64))
NATURAL_QUESTIONS = Task(
    local("nq_open_dev"), question, "Question: {question}?\nAnswer: {answer}", GenerateUntil(same_text), Published(0.146, 0.23, 0.299, 64)
)
JEOPARDY = Task(local("jeopardy_all"), continued, "{context}\nAnswer: {answer}", GenerateUntil(same_text))
ARITHMETIC = Task(local("simple_arithmetic_nospaces"), continued, "{context}{answer}", GenerateUntil(first_number, tokens=12))
GSM8K = Task(
    local("gsm8k"), word_problem, "Question: {context}\nAnswer: {answer}", GenerateUntil(last_number, tokens=256, until="Question:")
)
EN_FR = Task(
    WMT14_FILE,
    pair("en", "fr"),
    "English: {source}\nFrench: {answer}",
    GenerateUntil(translation, tokens=200),
    Published(25.2, 28.3, 32.6, 64, WMT14_NOTE),
)
FR_EN = Task(
    WMT14_FILE,
    pair("fr", "en"),
    "French: {source}\nEnglish: {answer}",
    GenerateUntil(translation, tokens=200),
    Published(21.2, 33.7, 39.2, 64, WMT14_NOTE),
)
