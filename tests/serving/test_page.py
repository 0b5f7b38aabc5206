"""The page at `/`: its files, and its story in a real browser."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.serving.browser import settle
from tests.serving.conftest import Live, Open, running
from tests.serving.fake import toy_service
from weft.serving.static import FILES


def test_files_have_types_and_a_strict_policy(live: Live) -> None:
    page = live.http.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    for name, kind in (("style.css", "text/css"), ("app.js", "text/javascript"), ("icon.svg", "image/svg+xml")):
        reply = live.http.get(f"/page/{name}")
        assert (reply.status_code, reply.headers["content-type"].split(";")[0]) == (200, kind)
        assert "default-src 'none'" in reply.headers["content-security-policy"]
    policy = page.headers["content-security-policy"]
    assert "unsafe" not in policy and "http" not in policy
    for wrong in ("none.js", "..%2fserver.py", "%2e%2e/server.py", "__init__.py"):
        assert live.http.get(f"/page/{wrong}").status_code == 404


def test_nothing_is_inline_and_nothing_comes_from_elsewhere() -> None:
    page = FILES["index.html"].decode()
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", page)
    for name, content in FILES.items():
        text = content.decode()
        assert not re.search(r"(?<!xmlns=\")https?://", text), name
        assert "innerHTML" not in text, name
        assert "insertAdjacentHTML" not in text, name
        for imported in re.findall(r'from "\./([^"]+)"', text):
            assert imported in FILES, name
    for address in re.findall(r'(?:src|href)="page/([^"]+)"', page):
        assert address in FILES
    scripts = {name for name in FILES if name.endswith(".js")}
    assert scripts == set(re.findall(r'(?:src|href)="page/([^"]+\.js)"', page)), "all are asked for at once, not one after another"


def test_it_stays_small() -> None:
    assert sum(map(len, FILES.values())) < 150_000
    assert all(content.count(b"\n") < 220 for content in FILES.values())


def test_the_files_need_no_key_and_the_rest_does() -> None:
    with running(toy_service(keys=("secret",))) as locked:
        for name in FILES:
            assert locked.http.get(f"/page/{name}").status_code == 200
        for path in ("/page/none.js", "/page/", "/page", "/page/{name}", "/v1/models"):
            assert locked.http.get(path).status_code == 401


def set_temperature(page: Any, value: str = "0") -> None:
    page.get_by_role("button", name="Settings").click()
    page.get_by_label("Temperature").fill(value)
    page.get_by_role("button", name="Done").click()


def test_type_watch_tokens_arrive_and_stop(visit: Open, small: Live) -> None:
    page = visit()
    set_temperature(page)
    page.locator("#prompt").fill("a")
    page.locator("#prompt").press("Control+Enter")
    tokens = page.locator("#complete .token")
    tokens.nth(2).wait_for()
    assert tokens.count() < 25
    page.get_by_role("button", name="Stop").click()
    settle(page, "complete")
    assert "stopped" in page.locator("#complete .status").text_content()
    early = tokens.count()
    assert 3 <= early < 25
    assert small.idle()
    page.get_by_role("button", name="Continue").click()
    settle(page, "complete")
    assert "ended by itself" in page.locator("#complete .status").text_content()
    assert page.locator("#complete .written").text_content() == "abcdefghijklmnopqrstuvwxyz⏹"
    page.reload()
    assert page.get_by_label("Temperature").input_value() == "0"


def test_a_translator_answers_below_the_text(visit: Open) -> None:
    page = visit()
    page.select_option("#model", "translator")
    assert page.locator("label[for=prompt]").text_content() == "Text to answer or translate"
    assert page.locator("#settings-summary").text_content() == "temperature 0"
    page.locator("#prompt").fill("zwei")
    page.get_by_role("button", name="Answer", exact=True).click()
    settle(page, "complete")
    assert page.locator("#complete .given").text_content() == "zwei\n"
    assert page.locator("#complete .token").count() > 0
    page.select_option("#model", "gpt")
    assert page.get_by_role("button", name="Continue", exact=True).is_visible()
    assert "temperature 0.8" in page.locator("#settings-summary").text_content()


def test_a_token_tells_what_else_was_likely(visit: Open) -> None:
    page = visit()
    set_temperature(page)
    page.locator("#prompt").fill("v")
    page.locator("#prompt").press("Control+Enter")
    settle(page, "complete")
    card, first = page.locator("#token-card"), page.locator("#complete .token").first
    assert card.is_hidden()
    first.hover()
    assert card.locator(".bar").count() >= 5
    assert card.locator(".title").text_content() == "w  88.2 %"
    assert card.locator(".bar.own").text_content() == "w88.2 %"
    assert r"bytes:\xe2" in card.text_content()
    page.mouse.move(0, 0)
    assert card.is_hidden()
    first.focus()
    assert card.is_visible()
    page.keyboard.press("ArrowRight")
    assert page.locator("#complete .token").nth(1).evaluate("each => each === document.activeElement")
    page.keyboard.press("Escape")
    assert card.is_hidden()


def test_attention_of_a_text(visit: Open) -> None:
    page = visit()
    page.locator("#tab-complete").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.select_option("#model", "gpt")
    page.locator("#text").fill("who looks")
    page.locator("#text").press("Control+Enter")
    pieces = page.locator(".looking .piece")
    pieces.nth(8).wait_for()
    assert page.locator(".head").count() == 3
    page.get_by_role("radio", name="2").click()
    pieces.nth(2).click()
    assert pieces.nth(2).get_attribute("aria-pressed") == "true"
    weights = [each.evaluate("each => each.style.getPropertyValue('--weight')") for each in pieces.all()]
    assert all(weight != "0%" for weight in weights[:3])
    assert set(weights[3:]) == {"0%"}
    page.keyboard.press("ArrowLeft")
    assert "looks most at" in page.locator("#strongest-title").text_content()
    assert page.locator(".bars .bar").count() == 2
    page.select_option("#layer", "2")
    page.locator("canvas.matrix[aria-label$='layer 2']").wait_for()
    page.locator("canvas.matrix").hover()
    assert re.search(r"“.” at “.”: 0\.\d{3}", page.locator(".under-pointer").text_content())


def test_cross_attention_of_a_translation(visit: Open) -> None:
    page = visit(color_scheme="dark")
    page.get_by_role("tab", name="Attention").click()
    page.select_option("#model", "translator")
    page.locator("#text").fill("zwei")
    page.get_by_role("button", name="Show attention").click()
    page.locator(".looked .piece").nth(4).wait_for()
    assert page.locator(".looked").text_content() == "zwei⟨end⟩"
    page.locator(".looking .piece").first.click()
    assert page.locator(".bars .bar").count() == 5
    page.select_option("#view", "source at source")
    page.select_option("#layer", "2")
    page.locator("canvas.matrix[aria-label$='layer 2']").wait_for()
    page.select_option("#view", "translation at source")  # its decoder has one layer only
    page.locator("canvas.matrix[aria-label$='layer 1']").wait_for()
    assert page.locator(".looking .piece").first.text_content() != "⟨start⟩"


def test_an_answer_that_is_made_at_once(visit: Open) -> None:
    page = visit()
    page.select_option("#model", "filler")
    assert not page.get_by_role("tab", name="Chat").is_visible()
    page.get_by_role("button", name="Settings").click()
    assert not page.get_by_label("Temperature").is_visible()
    assert page.get_by_label("Passes").get_attribute("placeholder") == "10"
    page.get_by_label("Passes").fill("1")
    page.get_by_label("Length ×").fill("2")
    assert "passes 1 · length × 2" in page.locator("#settings-summary").text_content()
    page.keyboard.press("Escape")
    page.locator("#prompt").fill("zwei")
    page.get_by_role("button", name="Answer", exact=True).click()
    settle(page, "complete")
    assert page.locator("#complete .token").count() % 2 == 0
    page.get_by_role("tab", name="Attention").click()
    page.locator("#text").fill("zwei")
    page.get_by_role("button", name="Show attention").click()
    page.locator(".looked .piece").nth(4).wait_for()
    page.select_option("#model", "gpt")
    page.get_by_role("tab", name="Complete").click()
    page.get_by_role("button", name="Settings").click()
    assert not page.get_by_label("Passes").is_visible()
    assert page.get_by_label("Temperature").is_visible()


@pytest.mark.parametrize("settings", [{}, {"color_scheme": "dark"}, {"viewport": {"width": 360, "height": 700}, "is_mobile": True}])
def test_images(visit: Open, settings: dict[str, Any]) -> None:
    pytest.importorskip("PIL.Image")
    page = visit(**settings)
    page.locator("#model option").first.wait_for(state="attached")
    assert not page.get_by_role("tab", name="Images").is_visible()
    page.select_option("#model", "digits")
    assert [tab.text_content() for tab in page.get_by_role("tab").all() if tab.is_visible()] == ["Images"]
    assert not page.get_by_role("button", name="Settings").is_visible()
    page.select_option("#label", "dog")
    page.get_by_label("How many").fill("5")
    page.locator("#image-seed").fill("7")
    page.get_by_role("button", name="Draw").click()
    images = page.locator(".sheet img")
    images.nth(4).wait_for()
    assert images.count() == 5
    assert images.nth(1).get_attribute("alt") == "Image 2 of 5, dog"
    assert images.nth(4).evaluate("each => each.complete && each.naturalWidth") == 8
    assert "5 images of 8 × 8 · seed 7" in page.locator("#images .status").text_content()
    assert page.locator("html").evaluate("each => each.scrollWidth") <= page.viewport_size["width"]
    first = images.first.get_attribute("src")
    page.get_by_label("How many").press("Enter")  # the same again
    page.locator("#images .status").filter(has_text="seed 7").wait_for()
    assert images.first.get_attribute("src") == first
    page.select_option("#model", "gpt")
    assert page.get_by_role("tab", name="Complete").get_attribute("aria-selected") == "true"
    assert images.count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_light_or_dark_as_the_system_is(visit: Open, scheme: str) -> None:
    page = visit(color_scheme=scheme)
    paper, ink = (
        page.locator("body").evaluate(f"each => getComputedStyle(each).{what}.match(/[0-9.]+/g).slice(0, 3).map(Number)")
        for what in ("backgroundColor", "color")
    )
    assert (sum(paper) > sum(ink)) == (scheme == "light")
    assert abs(sum(paper) - sum(ink)) > 400, "ink is easily told from paper"


def test_the_theme_that_was_chosen_stays(visit: Open) -> None:
    page = visit(color_scheme="light")
    dark = page.locator("html[data-theme=dark]")
    page.get_by_role("button", name="Dark").click()
    dark.wait_for()
    page.reload()
    dark.wait_for()
    page.get_by_role("button", name="Light").click()
    page.locator("html[data-theme=light]").wait_for()
    page.emulate_media(color_scheme="dark")  # it is as the system is again
    dark.wait_for()


def test_it_fits_a_phone(visit: Open) -> None:
    page = visit(viewport={"width": 360, "height": 700}, is_mobile=True, has_touch=True)
    page.select_option("#model", "gpt")
    page.get_by_role("tab", name="Attention").click()
    page.locator("#text").fill("a text that is longer than the screen of a phone is wide")
    page.get_by_role("button", name="Show attention").click()
    page.locator(".looking .piece").first.wait_for()
    for name in ("Attention", "Chat", "Complete"):
        page.get_by_role("tab", name=name).click()
        assert page.locator("html").evaluate("each => each.scrollWidth") <= 360


def test_errors_are_told_in_the_page(visit: Open) -> None:
    page = visit()
    page.select_option("#model", "translator")
    page.locator("#prompt").fill("a" * 30)
    page.locator("#prompt").press("Control+Enter")
    page.get_by_role("alert").filter(has_text="reads and writes at most 23 tokens").wait_for()
    assert page.get_by_role("button", name="Answer", exact=True).is_visible()
    assert all("400" in told for told in visit.complaints)  # type: ignore[attr-defined]
    visit.complaints.clear()  # type: ignore[attr-defined]


def test_the_key_is_asked_for_once(visit: Open) -> None:
    with running(toy_service(keys=("secret",))) as locked:
        page = visit(locked.url)
        asked = page.get_by_label("This server asks for a key")
        asked.fill("wrong")
        asked.press("Enter")
        page.get_by_role("alert").filter(has_text="does not know this key").wait_for()
        asked.fill("secret")
        asked.press("Enter")
        page.locator("#model option").first.wait_for(state="attached")
        assert asked.is_hidden()
        page.reload()
        page.locator("#model option").first.wait_for(state="attached")
        assert asked.is_hidden()
        page.locator("#prompt").fill("a")
        page.get_by_role("button", name="Continue").click()
        settle(page, "complete")
        page.close()
    assert all("401" in told for told in visit.complaints)  # type: ignore[attr-defined]
    visit.complaints.clear()  # type: ignore[attr-defined]
