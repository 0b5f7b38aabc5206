"""Templates: the layouts of the literature byte for byte, and every mistake with its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.core.errors import ConfigError
from weft.evaluation.fewshot.templates import Item, Template


def translated(source: str, target: str = "?") -> Item:
    return Item({"source": source}, (target,))


ZERO = """翻译：将以下英文翻译成中文。
---
英文：{source}
中文：{answer}
"""
SOME = """翻译示例：
---
英文：{source} → 中文：{answer}
---

英文：{source}
中文：{answer}
"""


def test_the_three_layouts_of_the_seed() -> None:
    fox, learning = translated("The quick brown fox jumps over the lazy dog."), translated("Machine learning is fascinating.")
    hello, thanks = translated("Hello world", "你好世界"), translated("Thank you", "谢谢")
    assert Template.parse(ZERO).prompt(fox).text == (
        "翻译：将以下英文翻译成中文。\n英文：The quick brown fox jumps over the lazy dog.\n中文："
    )
    assert Template.parse(SOME).prompt(learning, [hello]).text == (
        "翻译示例：\n英文：Hello world → 中文：你好世界\n\n英文：Machine learning is fascinating.\n中文："
    )
    assert Template.parse(SOME).prompt(learning, [hello, thanks]).text == (
        "翻译示例：\n英文：Hello world → 中文：你好世界\n英文：Thank you → 中文：谢谢\n\n英文：Machine learning is fascinating.\n中文："
    )


def test_the_blanks_of_gpt3() -> None:
    template = Template.parse("{context} ____. → {answer}")
    bob, ball = Item({"context": "Alice went to visit her friend"}, ("Bob",)), Item({"context": "George bought a glove and a"}, ("bat",))
    prompt = template.prompt(ball, [bob])
    assert prompt.text == "Alice went to visit her friend ____. → Bob\n\nGeorge bought a glove and a ____. →"
    assert prompt.gap == " "  # tokens begin with a space, so it goes with the answer


def test_what_follows_the_answer_is_kept_apart() -> None:
    prompt = Template.parse("{answer}{ending}").prompt(Item({"ending": " was seen."}, ("Ann", "Bob"), 1))
    assert (prompt.text, prompt.gap, prompt.after) == ("", "", " was seen.")


def test_braces_and_values_with_braces() -> None:
    template = Template.parse("{{answer}} of {source}: {answer}")
    assert template.prompt(translated("{x} {{y}}")).text == "{answer} of {x} {{y}}:"
    assert Template.parse("set {{1}}\n---\n{source}={answer}").prompt(translated("a")).text == "set {1}\na="


@pytest.mark.parametrize("text", [ZERO, SOME, "{source} {answer}", "a\n---\n{source}{answer}\n---\n{source} {answer}"])
def test_a_template_is_written_as_it_is_read(text: str) -> None:
    template = Template.parse(text)
    assert Template.parse(str(template)) == template


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{source}", "answer} once, not 0 times"),
        ("{answer} {answer}", "answer} once, not 2 times"),
        ("h\n---\n{source}\n---\n{answer}", "answer} once, not 0 times"),
        ("{source\n---\n{answer}", "braces themselves are"),
        ("{answer} }", "braces themselves are"),
        ("{answer!r}", "is not a field"),
        ("{answer:>10}", "is not a field"),
        ("{source.upper} {answer}", "is not a field"),
        ("{} {answer}", "is not a field"),
        ("{source}\n---\n{answer}", "has no fields"),
        ("a\n---\nb\n---\nc\n---\n{answer}", "has 4 parts"),
    ],
)
def test_mistakes_are_named(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as error:
        Template.parse(text, "prompt.txt")
    assert str(error.value).startswith("prompt.txt: ")
    assert "\n" not in str(error.value)


def test_unknown_fields_and_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no field \{sources\}; did you mean 'source'"):
        Template.parse("{sources} {answer}").check(translated("a"))
    with pytest.raises(ConfigError, match="there is no such file"):
        Template.read(tmp_path / "nothing.txt")
    path = tmp_path / "prompt.txt"
    path.write_bytes(b"\xff\xfe{answer}")
    with pytest.raises(ConfigError, match="is not UTF-8"):
        Template.read(path)
    path.write_bytes(b"\xef\xbb\xbf{source}\r\nA: {answer}\r\n")
    assert Template.read(path) == Template("{source}\nA: {answer}")
