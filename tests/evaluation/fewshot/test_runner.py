"""Tasks from file to result: what is asked and shown, that it can be repeated, and what is said of what cannot be used."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.evaluation.fewshot.conftest import CONTEXT, RECORDS, tiny, write
from weft.core import registry
from weft.core.errors import ConfigError, DataError
from weft.data.base import Problems
from weft.evaluation.fewshot import records
from weft.evaluation.fewshot.runner import run_task
from weft.evaluation.fewshot.tasks import Published, Task
from weft.evaluation.fewshot.templates import Item, Template

PROMPTS = {
    "lambada": ("She had 0 apples and ate one more", " ", "apple"),
    "lambada_fill_in": ("She had 0 apples and ate one more ____. →", " ", "apple"),
    "hellaswag_val_1000": ("Rowing: A man rows boat 0. He", " ", "rows on."),
    "storycloze": ("Sentence 1. Sentence 2. Sentence 3. It was day 0.", " ", "No, wait."),
    "arc_easy": ("Question: is 0 even?\nAnswer:", " ", "yes"),
    "copa": ("Question: is 0 even?", " ", "yes"),
    "winogrande": ("", "", "Ann 0 saw Bob, so Bob"),
    "triviaqa_sm_sub": ("Question: who is 0?\nAnswer:", " ", "Ann"),
    "nq_open_dev": ("Question: when was 0?\nAnswer:", " ", "1972"),
    "jeopardy_all": ("HISTORY: He was number 0\nAnswer:", " ", "Adams"),
    "simple_arithmetic_nospaces": ("0+1=", "", "1"),
    "gsm8k": ("Question: What is 0 and 1,000?\nAnswer:", " ", "Add them.\n#### 1000"),
    "wmt14_en_fr": ("English: The house number 0.\nFrench:", " ", "La maison numéro 0."),
}


def items_of(name: str) -> list[Item]:
    return [registry.find("tasks", name).read(record) for record in RECORDS[name]]


@pytest.mark.parametrize("name", PROMPTS)
def test_records_become_prompts(name: str) -> None:
    task: Task = registry.find("tasks", name)
    item = items_of(name)[0]
    prompt = Template.parse(task.template).prompt(item)
    assert (prompt.text, prompt.gap, item.answer) == PROMPTS[name]


@pytest.mark.parametrize("name", [name for name, entry in registry.TABLES["tasks"].items() if "fewshot" in entry.target])
def test_every_task_runs_on_its_layout(data: Path, name: str) -> None:
    if name.startswith("wmt14"):
        pytest.importorskip("sacrebleu")
    result = run_task(tiny(), name, shots=2, examples=4, seed=3)
    if name != "simple_arithmetic_nospaces":
        assert f"4 × prompts longer than the context of {CONTEXT} tokens, whose beginning was left out" in result.problems[0]
    assert (result.task, result.shots, result.seed, result.examples, result.data["records"]) == (name, 2, 3, 4, 6)
    assert result.data["shown"].startswith("other records of the same file")
    assert all(low <= result.metrics[metric] <= high for metric, (low, high) in result.intervals.items() if metric != "bleu")
    assert result.findings is not None
    rows = json.loads(result.findings.content)
    assert len(rows) == 4
    assert all(row["prompt"] and row["statistics"] for row in rows)
    assert Template.parse(result.template) == Template.parse(registry.find("tasks", name).template)


def test_nothing_depends_on_the_batch_and_all_on_the_seed(data: Path) -> None:
    whole, single, other = (run_task(tiny(), "arc_easy", shots=1, seed=seed, batch=batch) for seed, batch in ((0, 64), (0, 1), (1, 64)))
    assert whole.findings and single.findings and other.findings
    one, two, three = (json.loads(found.findings.content) for found in (whole, single, other))  # type: ignore[union-attr]
    assert [row["prompt"] for row in one] == [row["prompt"] for row in two] != [row["prompt"] for row in three]
    for a, b in zip(one, two, strict=True):
        assert a["said"] == b["said"]
        assert a["scores"]["sum"] == pytest.approx(b["scores"]["sum"], abs=1e-5)
    assert whole.metrics.keys() == {"accuracy", "accuracy_sum", "accuracy_token", "accuracy_byte", "accuracy_unconditional"}


def test_examples_are_other_records_drawn_by_seed() -> None:
    items = items_of("arc_easy")
    for number, item in enumerate(items):
        shown = records.shown(number, items, 4, 0)
        assert item not in shown
        assert len({one.fields["query"] for one in shown}) == 4
        assert shown == records.shown(number, items, 4, 0)
    drawn = {tuple(one.fields["query"] for one in records.shown(0, items, 2, seed)) for seed in range(20)}
    assert len(drawn) > 5
    with pytest.raises(ConfigError, match="--shots 6: the file has only 5 other records"):
        records.shown(0, items, 6, 0)


def test_examples_may_come_from_training_records(data: Path, tmp_path: Path) -> None:
    train = [{"query": f"Training question {number}?", "choices": ["yes", "no"], "gold": 0} for number in range(5)]
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in [*train, RECORDS["copa"][0]]))
    result = run_task(tiny(), "copa", shots=5, train=str(path))
    assert result.data["shown"] == str(path)
    assert result.findings is not None
    for number, row in enumerate(json.loads(result.findings.content)):
        asked = RECORDS["copa"][number]["query"]
        assert row["prompt"].count("Training question") + row["prompt"].count(RECORDS["copa"][0]["query"]) == 5 + (number == 0)
        assert row["prompt"].endswith(asked)
    with pytest.raises(ConfigError, match="only 5 other records"):  # the first question stands among the training records too
        run_task(tiny(), "copa", shots=6, train=str(path))
    with pytest.raises(DataError, match=r"no such file.*--data\.train"):
        run_task(tiny(), "copa", shots=1, train=str(tmp_path / "none.jsonl"))


def test_twins_and_copies_are_not_shown() -> None:
    read = registry.find("tasks", "winograd_wsc").read
    options = ["The trophy is in the bag because the trophy", "The trophy is in the bag because the bag"]
    twins = [read({"context_options": options, "continuation": end, "gold": gold}) for end, gold in ((".", 0), ("is big.", 1))]
    others = items_of("winograd_wsc")
    assert [item.fields["ending"] for item in twins] == [".", " is big."]
    assert twins[1] not in records.shown(0, [*twins, *others], 6, 0)
    same = items_of("piqa")[:1] * 3
    with pytest.raises(ConfigError, match="only 0 other"):
        records.shown(0, same, 1, 0)


def test_the_questions_are_drawn_by_seed() -> None:
    assert records.asked(5, 0, 0) == records.asked(5, 9, 0) == [0, 1, 2, 3, 4]
    some = records.asked(1000, 10, 0)
    assert some == sorted(set(some)) and len(some) == 10
    assert some != records.asked(1000, 10, 1)


def test_files_are_found_or_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEFT_DATA", raising=False)
    task: Task = registry.find("tasks", "copa")
    with pytest.raises(DataError, match=r"fewshot/copa\.jsonl\.gz: no such file.*WEFT_DATA.*not set.*--data\.path"):
        records.find(task)
    path = write(tmp_path, "copa", RECORDS["copa"])
    assert records.find(task, str(tmp_path)) == records.find(task, str(path.parent)) == records.find(task, str(path)) == path
    monkeypatch.setenv("WEFT_DATA", str(tmp_path))
    assert records.find(task) == path
    with pytest.raises(DataError, match=r"does not hold fewshot/piqa\.jsonl\.gz; put it there"):
        records.find(registry.find("tasks", "piqa"), str(tmp_path))


def test_records_that_cannot_be_used_are_counted(tmp_path: Path) -> None:
    good = json.dumps({"query": "a\u2028b", "choices": ["c", "d"], "gold": 1}, ensure_ascii=False)
    bad = ['{"query": "a"}', "nonsense", "[]", json.dumps({"query": "a", "choices": ["c"], "gold": 1}), '{"query": 1}']
    path = tmp_path / "copa.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join([good, *bad, "", good, ""]).encode()))
    problems = Problems()
    items = records.read(registry.find("tasks", "copa"), path, problems)
    assert len(items) == 2
    assert problems.lines()[0].startswith("5 × records that are not what this task is made of, left out: ")
    path.write_bytes(gzip.compress(b""))
    with pytest.raises(DataError, match="has no record that this task can use"):
        records.read(registry.find("tasks", "copa"), path, Problems())


def test_a_template_of_ones_own(data: Path, tmp_path: Path) -> None:
    path = tmp_path / "prompt.txt"
    path.write_text("Say yes or no.\n---\n{query} Well: {answer}\n")
    result = run_task(tiny(), "copa", shots=1, examples=1, template=path)
    assert result.findings is not None
    prompt = json.loads(result.findings.content)[0]["prompt"]
    assert prompt.startswith("Say yes or no.\nQuestion: is ") and prompt.endswith(" even? Well:")
    assert result.template == "Say yes or no.\n---\n{query} Well: {answer}"
    path.write_text("{quary} {answer}")
    with pytest.raises(ConfigError, match=r"no field \{quary\}; did you mean 'query'"):
        run_task(tiny(), "copa", template=path)


def test_wrong_settings_are_refused(data: Path) -> None:
    with pytest.raises(ConfigError, match="must not be negative"):
        run_task(tiny(), "copa", shots=-1)
    with pytest.raises(ConfigError, match="no task is called 'copas'; did you mean 'copa'"):
        run_task(tiny(), "copas")


def test_published_numbers_are_those_of_the_paper() -> None:
    expected = {
        "lambada": (0.762, None, None),
        "lambada_fill_in": (None, 0.725, 0.864),
        "storycloze": (0.832, 0.847, 0.877),
        "triviaqa_sm_sub": (0.643, 0.680, 0.712),
        "nq_open_dev": (0.146, 0.230, 0.299),
        "wmt14_en_fr": (25.2, 28.3, 32.6),
        "wmt14_fr_en": (21.2, 33.7, 39.2),
    }
    for name, numbers in expected.items():
        published: Published = registry.find("tasks", name).published
        assert tuple(published.at(shots) for shots in (0, 1, 64)) == numbers
