"""Ten tasks done by the keyboard alone, and what axe-core says of the page."""

from __future__ import annotations

from typing import Any

import pytest

from tests.serving.browser import complaints, settle
from tests.serving.conftest import Live, Open

NAME = """() => {
  const each = document.activeElement;
  return [each.getAttribute("aria-label"), each.labels?.[0]?.textContent, each.textContent].filter(Boolean).map(text => text.trim());
}"""
MOST_TABS = 60


def reach(page: Any, name: str, key: str = "Tab") -> None:
    """Go there from element to element as somebody without a mouse does, where one can see that one is there."""
    for _ in range(MOST_TABS):
        page.keyboard.press(key)
        if any(found.startswith(name) for found in page.evaluate(NAME)):
            shown = "getComputedStyle(document.activeElement).outlineStyle !== 'none' || document.activeElement.matches('.composer *')"
            assert page.evaluate(shown), f"nobody sees that the focus is on {name}"
            return
    raise AssertionError(f"Tab does not get to {name}")


def use(page: Any, name: str, key: str = "Tab") -> None:
    reach(page, name, key)
    page.keyboard.press("Enter")


def write(page: Any, name: str, text: str) -> None:
    reach(page, name)
    page.keyboard.press("Control+a")
    page.keyboard.type(text)


def test_ten_tasks_in_the_chat(visit: Open, small: Live) -> None:
    page = visit(f"{small.url}/#chat", permissions=["clipboard-read", "clipboard-write"])
    words = page.locator(".message .words")
    page.locator(".note").wait_for()

    # 1: settings, and a system prompt
    use(page, "Settings")
    write(page, "System prompt", "Be brief.")
    write(page, "Temperature", "0")
    write(page, "Most tokens", "3")
    use(page, "Done")

    # 2: a message of two lines
    reach(page, "Message")
    page.keyboard.type("one")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("two")
    page.keyboard.press("Enter")
    settle(page, "chat")
    assert [each.text_content() for each in words.all()] == ["one\ntwo", "abc"]

    # 3: another answer, and back to the first
    use(page, "Regenerate", "Shift+Tab")
    settle(page, "chat")
    use(page, "Branch before", "Shift+Tab")
    assert page.locator(".branches").text_content() == "‹1/2›"

    # 4: an edited message
    use(page, "Edit", "Shift+Tab")
    page.keyboard.type("nothing")
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")  # the focus is back where it was
    page.keyboard.press("Control+a")
    page.keyboard.type("x")
    page.keyboard.press("Enter")
    settle(page, "chat")
    assert [each.text_content() for each in words.all()] == ["x", "abc"]

    # 5: an answer copied
    use(page, "Copy", "Shift+Tab")
    page.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") in ("x", "abc")

    # 6: the conversation named
    use(page, "Rename", "Shift+Tab")
    page.keyboard.type("Mine")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Mine").wait_for()

    # 7: saved to a file
    with page.expect_download():
        use(page, "Export as Markdown")

    # 8: deleted and brought back
    use(page, "Delete")
    page.get_by_role("button", name="Undo").wait_for()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Mine").wait_for()

    # 9: a new one, by its shortcut, and an answer stopped
    page.keyboard.press("Control+Shift+O")
    assert words.count() == 0
    use(page, "Settings", "Shift+Tab")
    reach(page, "Most tokens")
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    page.keyboard.press("Escape")
    reach(page, "Message")
    page.keyboard.type("go")
    page.keyboard.press("Enter")
    words.filter(has_text="abc").wait_for()
    page.keyboard.press("Escape")
    settle(page, "chat")
    assert "stopped" in page.locator("#chat .status").text_content()

    # 10: dark, and the conversation of before
    use(page, "Dark", "Shift+Tab")
    page.locator("html[data-theme=dark]").wait_for()
    use(page, "Mine")
    words.filter(has_text="x").wait_for()
    assert page.locator(".message").count() == 2


def test_tasks_beside_the_chat(visit: Open, small: Live) -> None:
    page = visit()
    page.locator("#model option").first.wait_for(state="attached")

    # another model
    reach(page, "Model")
    page.keyboard.type("gpt")
    assert page.locator("#model").input_value() == "gpt"

    # a text continued, and what else was likely
    write(page, "Text to continue", "a")
    page.keyboard.press("Control+Enter")
    settle(page, "complete")
    page.locator("#complete .token").first.wait_for()
    reach(page, page.locator("#complete .token").first.text_content().strip() or page.locator("#complete .token").first.text_content())
    page.keyboard.press("ArrowRight")
    assert page.locator("#token-card").is_visible()

    # attention, from tab to tab by arrows
    reach(page, "Complete", "Shift+Tab")
    page.keyboard.press("ArrowRight")
    write(page, "Text to read", "who looks")
    page.keyboard.press("Control+Enter")
    page.locator(".looking .piece").nth(8).wait_for()
    reach(page, "mean")
    page.keyboard.press("ArrowRight")
    assert page.locator(".head[aria-checked=true]").text_content() == "1"


@pytest.mark.parametrize("settings", [{"color_scheme": "light"}, {"color_scheme": "dark"}, {"viewport": {"width": 360, "height": 700}}])
def test_axe_finds_nothing(visit: Open, small: Live, axe: str, settings: dict[str, Any]) -> None:
    page = visit(f"{small.url}/#chat", **settings)
    page.locator(".note").wait_for()
    found = complaints(page, axe)
    page.get_by_label("Message", exact=True).fill("one")
    page.keyboard.press("Enter")
    settle(page, "chat")
    page.evaluate(
        """async text => {
          const { drawMarkdown } = await import("./page/markdown.js");
          drawMarkdown(document.querySelector(".assistant .words"), text);
        }""",
        '# a\n[b](https://c.d) `e`\n```py\nreturn 1 + "f"  # g\n```\n| g | h |\n|---|---|\n| i | j |\n\n> k\n- l',
    )
    found += complaints(page, axe)
    page.get_by_role("button", name="Settings").click()
    found += complaints(page, axe)
    page.keyboard.press("Escape")
    page.select_option("#model", "gpt")
    page.get_by_role("tab", name="Complete").click()
    page.get_by_label("Text to continue").fill("a")
    page.keyboard.press("Control+Enter")
    settle(page, "complete")
    page.locator("#complete .token").first.focus()
    found += complaints(page, axe)
    page.get_by_role("tab", name="Attention").click()
    page.locator("#text").fill("who looks")
    page.get_by_role("button", name="Show attention").click()
    page.locator(".looking .piece").first.wait_for()
    found += complaints(page, axe)
    page.select_option("#model", "digits")
    page.get_by_role("button", name="Draw").click()
    page.locator(".sheet img").first.wait_for()
    found += complaints(page, axe)
    assert sorted(set(found)) == []
