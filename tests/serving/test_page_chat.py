"""Conversations in the page: written, kept, edited, branched, exported, in a real browser."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.serving.browser import settle
from tests.serving.conftest import Live, Open, running
from tests.serving.fake import toy, toy_service
from weft.data.tokenizers.base import CharacterTokenizer
from weft.serving.templates import PLAIN, ChatTemplate


def said(page: Any) -> list[str]:
    """Every message that is shown."""
    return [each.text_content() for each in page.locator(".message .words").all()]


def ask(page: Any, text: str) -> None:
    page.get_by_label("Message", exact=True).fill(text)
    page.get_by_label("Message", exact=True).press("Enter")
    settle(page, "chat")


@pytest.fixture
def chat(visit: Open) -> Any:
    page = visit()
    page.get_by_role("tab", name="Chat").click()
    page.get_by_role("button", name="Settings").click()
    page.get_by_label("Temperature").fill("0")
    page.get_by_label("Most tokens").fill("3")
    page.keyboard.press("Escape")
    return page


def test_enter_sends_and_shift_enter_breaks_the_line(chat: Any) -> None:
    field = chat.get_by_label("Message", exact=True)
    field.fill("<b>one</b>")
    field.press("Shift+Enter")
    field.type("two")
    field.press("Enter")
    settle(chat, "chat")
    assert said(chat) == ["<b>one</b>\ntwo", "abc"]
    assert field.input_value() == ""
    assert field.evaluate("each => each === document.activeElement")
    assert "3 tokens" in chat.locator(".message.assistant .about").text_content()
    assert "of 4096 tokens of context" in chat.locator("#chat .status").text_content()


def test_conversations_outlive_a_reload(chat: Any) -> None:
    ask(chat, "first")
    ask(chat, "again")
    chat.get_by_role("button", name="New chat").click()
    assert said(chat) == []
    ask(chat, "second")
    chat.reload()
    chat.locator(".message").nth(1).wait_for()
    assert said(chat) == ["second", "abc"]
    chat.get_by_role("button", name="first").click()
    assert said(chat) == ["first", "abc", "again", "abc"]
    assert [each.text_content() for each in chat.locator(".talks .talk").all()] == ["second", "first"]


def test_what_was_written_until_the_page_was_left_is_kept(chat: Any) -> None:
    chat.get_by_role("button", name="Settings").click()
    chat.get_by_label("Most tokens").fill("")
    chat.keyboard.press("Escape")
    chat.get_by_label("Message", exact=True).fill("go")
    chat.keyboard.press("Escape")
    chat.get_by_label("Message", exact=True).press("Enter")
    chat.locator(".message.assistant").filter(has_text="abcdefghijklmnopqrs").wait_for()
    chat.reload()
    chat.locator(".message.assistant").filter(has_text="abcdef").wait_for()


def test_named_deleted_and_brought_back(chat: Any) -> None:
    ask(chat, "hello")
    chat.get_by_role("button", name="Rename").click()
    chat.get_by_label("Name of the conversation").fill("The alphabet")
    chat.keyboard.press("Enter")
    chat.get_by_role("button", name="The alphabet").wait_for()
    chat.get_by_role("button", name="Delete").click()
    chat.get_by_role("button", name="Undo").wait_for()
    assert chat.locator(".talks .talk").count() == 0
    assert said(chat) == []
    chat.get_by_role("button", name="Undo").click()
    chat.get_by_role("button", name="The alphabet").wait_for()
    assert said(chat) == ["hello", "abc"]
    chat.get_by_role("button", name="Delete").click()
    chat.get_by_role("button", name="Undo").wait_for()
    chat.reload()
    chat.locator("#model option").first.wait_for(state="attached")
    assert chat.locator(".talks .talk").count() == 0


def test_a_conversation_deleted_while_it_is_written_stays_deleted(chat: Any, small: Live) -> None:
    chat.get_by_role("button", name="Settings").click()
    chat.get_by_label("Most tokens").fill("")
    chat.keyboard.press("Escape")
    chat.get_by_label("Message", exact=True).fill("go")
    chat.get_by_label("Message", exact=True).press("Enter")
    chat.locator(".message.assistant").filter(has_text="ab").wait_for()
    chat.get_by_role("button", name="Delete").click()
    chat.get_by_role("button", name="Undo").wait_for()
    assert small.idle()
    chat.reload()
    chat.locator("#model option").first.wait_for(state="attached")
    assert chat.locator(".talks .talk").count() == 0


def test_an_edited_message_begins_a_branch(chat: Any) -> None:
    ask(chat, "one")
    ask(chat, "two")
    chat.get_by_role("article", name="You").first.get_by_role("button", name="Edit").click()
    field = chat.get_by_label("Edited message")
    assert field.input_value() == "one"
    field.fill("x")
    field.press("Enter")
    settle(chat, "chat")
    assert said(chat) == ["x", "abc"]
    chat.get_by_role("button", name="Branch before").click()
    assert said(chat) == ["one", "abc", "two", "abc"]
    assert chat.locator(".branches").text_content() == "‹1/2›"
    assert chat.locator(".branches button").first.evaluate("each => each === document.activeElement")
    chat.reload()
    chat.locator(".branches").wait_for()
    assert said(chat) == ["one", "abc", "two", "abc"]
    chat.get_by_role("button", name="Next branch").click()
    assert said(chat) == ["x", "abc"]


def test_an_answer_is_made_again_or_mended(chat: Any) -> None:
    ask(chat, "one")
    for _ in range(2):
        chat.get_by_role("button", name="Regenerate").click()
        settle(chat, "chat")
    assert chat.locator(".branches").text_content() == "‹3/3›"
    chat.get_by_role("article", name="alphabet").get_by_role("button", name="Edit").click()
    chat.get_by_label("Edited message").fill("better")
    chat.get_by_role("button", name="Keep").click()
    assert said(chat) == ["one", "better"]
    assert chat.locator(".branches").text_content() == "‹4/4›"
    chat.get_by_role("article", name="You").get_by_role("button", name="Edit").click()
    chat.keyboard.press("Escape")
    assert said(chat) == ["one", "better"]


def test_escape_stops_wherever_the_focus_is(chat: Any, small: Live) -> None:
    chat.get_by_role("button", name="Settings").click()
    chat.get_by_label("Most tokens").fill("")
    chat.keyboard.press("Escape")
    chat.get_by_label("Message", exact=True).fill("go")
    chat.get_by_label("Message", exact=True).press("Enter")
    chat.locator(".message.assistant").filter(has_text="abc").wait_for()
    assert chat.locator("[title]").count() == 0
    chat.evaluate("document.activeElement.blur()")
    chat.keyboard.press("Escape")
    settle(chat, "chat")
    assert "stopped" in chat.locator("#chat .status").text_content()
    assert said(chat)[1].startswith("abc") and "z" not in said(chat)[1]
    assert small.idle()


def test_nothing_pops_up_under_the_pointer_while_a_text_is_written(visit: Open) -> None:
    page = visit()
    page.locator("#prompt").fill("a")
    page.locator("#prompt").press("Control+Enter")
    page.locator("#complete .token").nth(1).wait_for()
    page.locator("#complete .token").first.hover()
    assert page.locator("#token-card").is_hidden()
    page.keyboard.press("Escape")
    settle(page, "complete")
    page.mouse.move(0, 0)
    page.locator("#complete .token").first.hover()
    assert page.locator("#token-card").is_visible()


def test_tokens_of_an_answer_tell_their_chances(chat: Any) -> None:
    ask(chat, "one")
    chat.get_by_role("button", name="Tokens").click()
    chat.locator(".message.assistant .token").first.hover()
    assert chat.locator("#token-card .title").text_content() == "a  88.2 %"
    chat.get_by_role("button", name="Tokens").click()
    assert chat.locator(".message.assistant .token").count() == 0
    assert said(chat) == ["one", "abc"]


def shows(chat: Any, prompt: str) -> None:
    """The system prompt, once what is kept in the browser has been read."""
    importlib.import_module("playwright.sync_api").expect(chat.get_by_label("System prompt")).to_have_value(prompt)


def test_the_system_prompt_is_sent_and_belongs_to_its_conversation(chat: Any) -> None:
    def write(text: str) -> None:
        chat.get_by_role("button", name="Settings").click()
        chat.get_by_label("System prompt").fill(text)
        chat.keyboard.press("Escape")

    write("Be brief.")
    with chat.expect_request("**/v1/chat/completions") as sent:
        ask(chat, "one")
    assert sent.value.post_data_json["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "one"}]
    chat.get_by_role("button", name="New chat").click()
    write("Be long.")
    ask(chat, "two")
    chat.get_by_role("button", name="one").click()
    shows(chat, "Be brief.")
    chat.reload()
    chat.locator(".message").first.wait_for()
    chat.select_option("#model", "gpt")
    chat.get_by_role("button", name="Settings").click()
    shows(chat, "Be brief.")
    chat.get_by_label("Temperature").fill("1")
    chat.keyboard.press("Escape")
    chat.get_by_role("button", name="New chat").click()
    shows(chat, "Be long.")


def test_exported_as_markdown_and_as_json_and_read_again(chat: Any, tmp_path: Path) -> None:
    ask(chat, "one <b>")
    chat.get_by_role("button", name="Regenerate").click()
    settle(chat, "chat")
    with chat.expect_download() as file:
        chat.get_by_role("button", name="Export as Markdown").click()
    assert file.value.suggested_filename == "one-b.md"
    assert Path(file.value.path()).read_text() == "# one <b>\n\n## User\n\none <b>\n\n## alphabet\n\nabc\n"
    with chat.expect_download() as file:
        chat.get_by_role("button", name="Export as JSON").click()
    saved = Path(file.value.path()).read_text()
    assert [each["content"] for each in json.loads(saved)["messages"]] == ["one <b>", "abc", "abc"]
    with chat.expect_download() as file:
        chat.get_by_role("button", name="Export all").click()
    assert len(json.loads(Path(file.value.path()).read_text())) == 1
    chat.get_by_role("button", name="Delete").click()
    chat.get_by_role("button", name="Undo").wait_for()
    (tmp_path / "saved.json").write_text(saved)
    chat.locator("#conversations [type=file]").set_input_files(tmp_path / "saved.json")
    chat.locator(".branches").wait_for()
    assert said(chat) == ["one <b>", "abc"]


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "[1]",
        '{"messages": [{"role": "user", "content": "x", "parent": 5, "chosen": null}], "chosen": 0}',
        '{"messages": [], "chosen": 0}',
    ],
)
def test_a_file_that_holds_no_conversation_is_refused(chat: Any, tmp_path: Path, text: str) -> None:
    (tmp_path / "wrong.json").write_text(text)
    chat.locator("#conversations [type=file]").set_input_files(tmp_path / "wrong.json")
    chat.get_by_text("This file cannot be read").wait_for()
    assert chat.locator(".talks .talk").count() == 0


def test_what_the_server_refuses_can_be_asked_again(visit: Open, small: Live) -> None:
    page = visit()
    page.select_option("#model", "gpt")
    page.get_by_role("tab", name="Chat").click()
    field = page.get_by_label("Message", exact=True)
    field.fill("x" * 400)
    field.press("Enter")
    page.get_by_role("alert").filter(has_text="maximum context length is 300").wait_for()
    assert said(page) == ["x" * 400]
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Edited message").fill("short")
    page.keyboard.press("Enter")
    settle(page, "chat")
    assert said(page)[0] == "short"
    assert all("400" in told for told in visit.complaints)  # type: ignore[attr-defined]
    visit.complaints.clear()  # type: ignore[attr-defined]


def test_two_windows_show_the_same_conversations(chat: Any) -> None:
    other = chat.context.new_page()
    other.goto(chat.url)
    ask(chat, "from here")
    other.get_by_role("button", name="from here").click()
    assert said(other) == ["from here", "abc"]
    ask(chat, "and more")
    other.locator(".message").nth(3).wait_for()
    assert said(other) == ["from here", "abc", "and more", "abc"]


def test_models_that_chat_begin_with_the_chat(visit: Open) -> None:
    template = ChatTemplate(PLAIN + "{# its own #}", foreign=True)
    few = CharacterTokenizer("abcdefghijklmnopqrstuvwxyz")
    with running(toy_service(toy("talker", template=template), toy("plain"), toy("letters", tokenizer=few))) as live:
        page = visit(live.url)
        page.locator("#model option").first.wait_for(state="attached")
        visible = lambda: [tab.text_content() for tab in page.get_by_role("tab").all() if tab.is_visible()]  # noqa: E731
        chosen = page.locator("[role=tab][aria-selected=true]")
        assert chosen.text_content() == "Chat"
        assert page.locator(".note").is_hidden()
        page.select_option("#model", "plain")
        assert (chosen.text_content(), visible()) == ("Complete", ["Chat", "Complete", "Attention"])
        page.get_by_role("tab", name="Chat").click()
        assert page.locator(".note").is_visible()
        page.select_option("#model", "letters")  # it has no letters for the words around a message
        assert (chosen.text_content(), visible()) == ("Complete", ["Complete", "Attention"])
        page.close()


def test_the_page_opens_without_a_focus_and_letters_find_the_message(visit: Open, small: Live) -> None:
    for address in (small.url, f"{small.url}/#chat", f"{small.url}/#complete", f"{small.url}/#attention"):
        page = visit(address)
        page.locator("#model option").first.wait_for(state="attached")
        assert page.evaluate("document.activeElement === document.body && !document.querySelector(':focus-visible')")
    page = visit(f"{small.url}/#chat")
    page.locator("#model option").first.wait_for(state="attached")
    page.keyboard.type("hello")
    assert page.get_by_label("Message", exact=True).input_value() == "hello"
