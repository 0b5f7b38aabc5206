"""Pages about what a model knows."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from weft.projects.birthplace.answers import Answer
from weft.projects.birthplace.knowledge import Knowledge
from weft.projects.birthplace.quickstart import Result
from weft.report.curves import Curve
from weft.report.html import COPY
from weft.report.page import page
from weft.report.parts import bars, card, cards, rows
from weft.report.svg import chart
from weft.runs.record import read


def percent(share: float, digits: int = 0) -> str:
    return f"{100 * share:.{digits}f} %"


def knowledge_page(name: str, known: Knowledge, answers: Sequence[Answer]) -> str:
    """What one model answered."""
    top = f"<header><h1>What it knows and what it makes up</h1><p>{escape(name)}</p></header>"
    return page("What it knows", [top, *knowledge_parts(known, answers)])


def quickstart_page(results: Sequence[Result], commands: Sequence[str]) -> str:
    """All systems beside each other, and what the best one knows."""
    best = max((r for r in results if r.knowledge), key=lambda r: r.accuracy)
    assert best.knowledge is not None
    asked, places = len(best.answers), len({answer.place for answer in best.answers})
    claim = f"{asked} questions about people whom no training question was about, born in {places} places. Only who has read can know."
    head = ("system", "", "right about others", "right about its own questions", "training")
    body = [
        (f"<b>{escape(r.name)}</b>", escape(r.note), percent(r.accuracy, 1), "" if r.fitted is None else percent(r.fitted, 1),
         f"{r.seconds:.0f} s" if r.seconds else "")
        for r in results
    ]  # fmt: skip
    parts = [
        f"<header><h1>Where were they born?</h1><p>{escape(claim)}</p></header>",
        card("<h3>right answers about people never asked about</h3>" + bars([(r.name, r.accuracy) for r in results])),
        card(rows(body, head)),
        reading(results),
        f"<h2>What “{escape(best.name)}” knows and what it makes up</h2>",
        *knowledge_parts(best.knowledge, best.answers),
        f'<h2>Go on</h2><section class="card command"><pre>{escape(chr(10).join(commands))}</pre>{COPY}</section>',
    ]
    return page("Where were they born?", parts)


def reading(results: Sequence[Result]) -> str:
    """The loss of every run of every system."""
    curves: list[Curve] = []
    for result in results:
        for folder in result.folders[:-1]:
            curves.append(Curve(f"{result.name}, reading", read(folder).points("train", "loss"), f"c{len(curves)}"))
    return chart("loss while reading, by step", curves, tall=True)


def knowledge_parts(known: Knowledge, answers: Sequence[Answer]) -> list[str]:
    numbers = [
        ("right answers", percent(known.accuracy, 1), f"{known.correct} of {known.total}"),
        ("sure when right", percent(known.sure_right), "median confidence"),
        ("sure when wrong", percent(known.sure_wrong), "median confidence"),
        ("tells them apart", percent(known.separation), "a right answer is surer than a wrong one"),
        ("calibration error", percent(known.calibration_error, 1), "confidence against accuracy"),
    ]
    return [
        cards(numbers),
        calibration(known),
        "<h2>People nobody wrote about</h2>",
        f"<p>{escape(invented(known))}</p>",
        card(listed(known.invented[:12])),
        '<h2>Some answers</h2><div class="grid">',
        card("<h3>wrong, and sure of it</h3>" + listed(surest([a for a in answers if a.place is not None and not a.right]))),
        card("<h3>right, and unsure</h3>" + listed(surest([a for a in answers if a.right], last=True))),
        "</div>",
    ]


def calibration(known: Knowledge) -> str:
    """Accuracy of answers by how sure the model was; on the diagonal it means what it says."""
    diagonal = [(10.0 * i, 10.0 * i) for i in range(11)]
    found = [(100 * b.confidence, 100 * b.accuracy) for b in known.bins]
    curves = [Curve("as sure as right", diagonal, "c7"), Curve("this model", found, "c0")]
    head = ("confidence", "answers", "mean confidence", "right")
    body = [
        (f"{percent(b.low)} to {percent(b.high)}", str(b.answers), percent(b.confidence), percent(b.accuracy)) for b in reversed(known.bins)
    ]
    return chart("share of right answers (%), by confidence (%)", curves, tall=True, across="confidence") + card(rows(body, head))


def invented(known: Knowledge) -> str:
    """What the answers about people who do not exist say, in words."""
    if not known.invented:
        return "None were asked about: no question reads like “Where was NAME born?”."
    return (
        f"Asked about {len(known.invented)} names put together from two real ones, it names a place it was trained on in "
        f"{percent(known.real_places)} of the cases, with a median confidence of {percent(known.sure_invented)} "
        f"({percent(known.sure_right)} where it is right, {percent(known.sure_wrong)} where it is wrong): nothing taught it to "
        "say that it does not know. The place is that of a trained person of the same first name with a chance of "
        f"{percent(known.by_first_name, 1)}, of the same last name {percent(known.by_last_name, 1)}, and of any trained person "
        f"{percent(known.by_chance, 1)}."
    )


def surest(answers: Sequence[Answer], last: bool = False, most: int = 8) -> list[Answer]:
    """The answers a model is surest of, or the least."""
    return sorted(answers, key=lambda answer: answer.confidence, reverse=not last)[:most]


def listed(answers: Sequence[Answer]) -> str:
    """Question, answer, confidence and, where it is known, the truth."""
    truth = any(answer.place is not None for answer in answers)
    head = ("question", "answer", "confidence", *(("truth",) if truth else ()))
    body = [
        tuple(map(escape, (a.question, a.text or "(nothing)", percent(a.confidence, 1), *((a.place or "",) if truth else ()))))
        for a in answers
    ]
    return rows(body, head) if body else "<p>None.</p>"
