"""The tab for predictions, in front of a server that answers as /v1/predictions does."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.serving.browser import complaints
from tests.serving.conftest import Open

PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
Answer = Callable[[dict[str, Any]], dict[str, Any]]


@pytest.fixture
def predicting(visit: Open) -> Callable[..., Any]:
    """Opens the page of a model of some kind; what it was asked is kept in `rows`."""

    def opened(kind: str, asked: list[str], answer: Answer, **settings: Any) -> Any:
        page = visit("about:blank", **settings)
        page.rows = []

        def predictions(route: Any) -> None:
            body = route.request.post_data_json
            page.rows += body["rows"]
            route.fulfill(json={"object": "list", "model": body["model"], "kind": kind, "data": [answer(row) for row in body["rows"]]})

        model = {"id": "model", "object": "model", "offers": ["predictions"], "predictions": {"kind": kind, "asked": asked}}
        page.route("**/v1/models", lambda route: route.fulfill(json={"object": "list", "data": [model]}))
        page.route("**/v1/predictions", predictions)
        return page

    return opened


def classes(row: dict[str, Any]) -> dict[str, Any]:
    good = 0.75 if "good" in str(row) else 0.25
    probabilities = {"bad": 1 - good, "good": good}
    return {"prediction": max(probabilities, key=lambda name: probabilities[name]), "probability": 0.75, "probabilities": probabilities}


def test_the_class_of_a_text(predicting: Any, small: Any) -> None:
    page = predicting("class", ["a text"], classes)
    page.goto(small.url)
    assert [tab.text_content() for tab in page.get_by_role("tab").all() if tab.is_visible()] == ["Predict"]
    page.get_by_label("text", exact=True).fill("a <b>good</b> one")
    page.keyboard.press("Control+Enter")
    assert page.locator(".result .label").text_content() == "good"
    assert [each.text_content() for each in page.locator(".result .bar").all()] == ["good75.0 %", "bad25.0 %"]
    assert page.rows == [{"text": "a <b>good</b> one"}]


def test_a_row_of_a_table_and_a_file_of_rows(predicting: Any, small: Any, tmp_path: Path) -> None:
    page = predicting("class", ["length=1.5", "colour=words"], classes)
    page.goto(small.url)
    page.get_by_label("length", exact=True).fill("1.5")
    page.get_by_label("colour", exact=True).fill("good")
    page.keyboard.press("Enter")
    page.locator(".result .label").wait_for()
    assert page.rows == [{"length": "1.5", "colour": "good"}]
    (tmp_path / "rows.csv").write_text('id,colour,length\n7,"good, ""red""",2\n8,blue,3\n')
    page.locator("#predict [type=file]").set_input_files(tmp_path / "rows.csv")
    page.locator("td").first.wait_for()
    assert page.rows[1:] == [{"id": "7", "colour": 'good, "red"', "length": "2"}, {"id": "8", "colour": "blue", "length": "3"}]
    with page.expect_download() as file:
        page.get_by_role("button", name="Save as CSV").click()
    lines = Path(file.value.path()).read_text().splitlines()
    assert lines == ["id,colour,length,prediction,probability", '7,"good, ""red""",2,good,0.7500', "8,blue,3,bad,0.7500"]
    (tmp_path / "rows.jsonl").write_text('{"length": 1, "colour": "x"}\n{')
    page.locator("#predict [type=file]").set_input_files(tmp_path / "rows.jsonl")
    page.get_by_role("alert").filter(has_text="Line 2 is no JSON").wait_for()


def test_a_long_file_is_asked_a_part_at_a_time(predicting: Any, small: Any) -> None:
    page = predicting("class", ["a text", "another text"], classes)
    page.goto(small.url)
    content = "\n".join(f"one {number},good" for number in range(600)).encode()
    with page.expect_request(lambda request: request.url.endswith("predictions") and len(request.post_data_json["rows"]) == 88):
        page.locator("#predict [type=file]").set_input_files({"name": "a.csv", "mimeType": "text/csv", "buffer": content})
    page.get_by_text("600 rows in").wait_for()
    assert page.rows[-1] == {"text1": "one 599", "text2": "good"}
    assert page.locator("tbody tr").count() == 200


def test_tags_are_marked_in_the_text(predicting: Any, small: Any) -> None:
    page = predicting("tags", ["a few words"], lambda row: {"words": row["words"].split(), "tags": ["O", "PER", "O", "O", "LOC"]})
    page.goto(small.url)
    page.get_by_label("words", exact=True).fill("𝄞 Marie lived in Paris")
    page.keyboard.press("Control+Enter")
    page.locator("mark").nth(1).wait_for()
    assert [each.text_content() for each in page.locator("mark").all()] == ["MariePER", "ParisLOC"]
    assert page.locator(".spans").text_content() == "𝄞 MariePER lived in ParisLOC"


def test_the_answer_is_marked_in_its_paragraph(predicting: Any, small: Any) -> None:
    def answer(row: dict[str, str]) -> dict[str, Any]:
        start = row["paragraph"].find("in 1815")
        return {"prediction": "in 1815" if start >= 0 else "", "start": max(0, start), "probability": 0.9, "no_answer": 0.25}

    page = predicting("answer", ["a question", "a paragraph with the answer"], answer)
    page.goto(small.url)
    page.get_by_label("paragraph", exact=True).fill("𝄞 It was fought in 1815 near Waterloo.")
    page.get_by_label("question", exact=True).fill("When?")
    page.get_by_role("button", name="Predict").click()
    assert page.locator("mark").text_content() == "in 1815"
    assert page.locator(".result .label").text_content() == "in 1815"
    page.get_by_label("paragraph", exact=True).fill("Nothing here.")
    page.get_by_role("button", name="Predict").click()
    page.locator(".result .label").filter(has_text="no answer").wait_for()


def test_images_are_dropped_chosen_and_shown(predicting: Any, small: Any, tmp_path: Path) -> None:
    page = predicting("class", ["picture.png"], classes)
    page.goto(small.url)
    for name in ("one.png", "two.png"):
        (tmp_path / name).write_bytes(PIXEL)
    page.locator("#predict [type=file]").set_input_files([tmp_path / "one.png", tmp_path / "two.png"])
    page.locator(".result img").nth(1).wait_for()
    assert [each.get_attribute("alt") for each in page.locator(".result img").all()] == ["two.png", "one.png"]  # the latest first
    assert [base64.b64decode(row["image"]) for row in page.rows] == [PIXEL, PIXEL]
    dropped = page.evaluate_handle(
        """bytes => {
          const carried = new DataTransfer();
          carried.items.add(new File([new Uint8Array(bytes)], "dropped.png", { type: "image/png" }));
          return carried;
        }""",
        list(PIXEL),
    )
    page.locator("#predict .drop").dispatch_event("dragover", {"dataTransfer": dropped})
    assert page.locator("#predict .drop.over").count() == 1
    page.locator("#predict .drop").dispatch_event("drop", {"dataTransfer": dropped})
    page.locator(".result img[alt='dropped.png']").wait_for()
    assert page.locator(".result").count() == 3


def test_numbers_and_refusals(predicting: Any, small: Any, visit: Open) -> None:
    page = predicting(
        "number", ["a text"], lambda row: {"prediction": 3.14159265} if row["text"] != "x" else {"error": "no text in 'text'"}
    )
    page.goto(small.url)
    for text, told in (("a", "3.1416"), ("x", "no text in 'text'")):
        page.get_by_label("text", exact=True).fill(text)
        page.keyboard.press("Control+Enter")
        page.locator(".result").filter(has_text=told).wait_for()
    refused = {"error": {"message": "the model cannot read this", "type": "invalid_request_error", "param": None, "code": None}}
    page.route("**/v1/predictions", lambda route: route.fulfill(status=400, body=json.dumps(refused)))
    page.get_by_label("text", exact=True).fill("b")
    page.keyboard.press("Control+Enter")
    page.get_by_role("alert").filter(has_text="the model cannot read this").wait_for()
    visit.complaints.clear()  # type: ignore[attr-defined]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_predictions(predicting: Any, small: Any, axe: str, scheme: str) -> None:
    tags = [f"KIND{place}" for place in range(6)]
    page = predicting(
        "tags", ["a few words"], lambda row: {"words": list("abcdef"), "tags": tags, "probabilities": {"a": 0.5}}, color_scheme=scheme
    )
    page.goto(small.url)
    page.get_by_label("words", exact=True).fill("a b c d e f")
    page.keyboard.press("Control+Enter")
    page.locator("mark").nth(5).wait_for()
    assert complaints(page, axe) == []
    page.locator("#predict [type=file]").set_input_files({"name": "a.txt", "mimeType": "text/plain", "buffer": b"one\ntwo"})
    page.locator("td").first.wait_for()
    assert complaints(page, axe) == []
