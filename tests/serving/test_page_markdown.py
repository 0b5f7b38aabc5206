"""Markdown in the page: what is drawn, what stays text, and that hostile texts neither run nor stall."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.serving.conftest import Open

DRAW = """async text => {
  const { drawMarkdown } = await import("./page/markdown.js");
  const place = document.createElement("div");
  drawMarkdown(place, text);
  return place.innerHTML;
}"""


@pytest.fixture(scope="module")
def page(browser: Any, small: Any) -> Iterator[Any]:
    context = browser.new_context()
    opened = context.new_page()
    opened.goto(small.url)
    yield opened
    context.close()


@pytest.fixture(scope="module")
def drawn(page: Any) -> Callable[[str], str]:
    return lambda text: str(page.evaluate(DRAW, text))


def code(text: str, language: str = "") -> str:
    head = f'<figcaption>{language}<button type="button">Copy</button></figcaption>'
    return f'<figure class="code">{head}<pre tabindex="0"><code>{text}</code></pre></figure>'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# One\n## Two ##", "<h3>One</h3><h4>Two</h4>"),
        ("#no heading", "<p>#no heading</p>"),
        (
            "a *b* **c** ***d*** ~~e~~ _f_ __g__",
            "<p>a <em>b</em> <strong>c</strong> <em><strong>d</strong></em> <del>e</del> <em>f</em> <strong>g</strong></p>",
        ),
        ("snake_case_word 2 * 3 * 4 **open *x", "<p>snake_case_word 2 * 3 * 4 **open *x</p>"),
        (r"\*no\* \(x\) \[y\]", r"<p>*no* \(x\) \[y\]</p>"),
        ("`a *b*` ``c`d`` `open", "<p><code>a *b*</code> <code>c`d</code> `open</p>"),
        ("one\ntwo\n\nthree", "<p>one\ntwo</p><p>three</p>"),
        ("- a\n- b\n  - c\n- d", "<ul><li>a</li><li>b<ul><li>c</li></ul></li><li>d</li></ul>"),
        ("3. a\n   more\n4. b\n\n   c", '<ol start="3"><li>a\nmore</li><li><p>b</p><p>c</p></li></ol>'),
        ("1. a\n\n2. b\n\nend", "<ol><li>a</li><li>b</li></ol><p>end</p>"),
        ("- [ ] a\n- [x] b", "<ul><li>☐ a</li><li>☑ b</li></ul>"),
        ("> a\n> - b", "<blockquote><p>a</p><ul><li>b</li></ul></blockquote>"),
        ("a\n\n---\n\n* * *", "<p>a</p><hr><hr>"),
        (
            "```python\nx = 1\n\n# <b>\n```\nend",
            code('x = <span class="number">1</span>\n\n<span class="comment"># &lt;b&gt;</span>', "python") + "<p>end</p>",
        ),
        (
            "```js\nreturn `a ${b}` // '\n```\n```none\nreturn 1\n```",
            code('<span class="word">return</span> <span class="string">`a ${b}`</span> <span class="comment">// \'</span>', "js")
            + code("return 1", "none"),
        ),
        ("~~~\nnot closed *yet*", code("not closed *yet*")),
        ("1. a\n   ```\n   x\n     y\n   ```", f"<ol><li>a{code('x' + chr(10) + '  y')}</li></ol>"),
        (
            "| a | b |\n|---|--:|\n| 1 | **2** |\n| 3 |",
            '<div class="wide" tabindex="0"><table><thead><tr><th>a</th><th class="right">b</th></tr></thead><tbody>'
            '<tr><td>1</td><td class="right"><strong>2</strong></td></tr><tr><td>3</td><td class="right"></td></tr></tbody></table></div>',
        ),
        ("a | b\nno table", "<p>a | b\nno table</p>"),
        (
            "[w *x*](https://a.b/c_d_e) https://a.b/f_g).",
            '<p><a href="https://a.b/c_d_e" target="_blank" rel="noopener noreferrer">w <em>x</em></a> '
            '<a href="https://a.b/f_g" target="_blank" rel="noopener noreferrer">https://a.b/f_g</a>).</p>',
        ),
        ("日本語の**太字**です。 **重要:**次", "<p>日本語の<strong>太字</strong>です。 <strong>重要:</strong>次</p>"),
    ],
)
def test_what_is_drawn(drawn: Any, text: str, expected: str) -> None:
    assert drawn(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "<script>document.title = 'bad'</script>",
        "<img src=x onerror=\"document.title = 'bad'\">",
        "[x](javascript:document.title='bad')",
        "![x](data:text/html,bad)",
        "<javascript:alert(1)>",
        "[x](https://a.b\"onmouseover=\"document.title='bad')",
        "```<script>\n</code></pre><script>\n```",
        "| <b> | <i> |\n|---|---|\n| <script> | `<script>` |",
        "# <h1 onclick=1>\n> <b>\n- <i>",
    ],
)
def test_no_text_becomes_html(drawn: Any, text: str) -> None:
    found = drawn(text)
    for wrong in ("<script", "<img", "<b>", "<i>", "<h1", "javascript:document'", ' href="javascript', " onmouse", ' href="data'):
        assert wrong not in found.replace("&lt;", "")


@pytest.mark.parametrize(
    "text",
    [
     "*a " * 8000, "**a*" * 6000, "[" * 20000, "[x](" * 5000, "`" * 20000, "` `` " * 5000, "> " * 10000, "- " * 10000, "_a_b" * 6000,
     "\n".join("  " * depth + "- x" for depth in range(300)), "| a " * 8000 + "\n" + "|---" * 8000, "https://" + ")" * 20000, "#" * 20000,
     "a\n" * 10000, "*a " * 4000 + "b_ " * 4000, "```\n" * 5000, "```py\n" + "'\"" * 10000, "```c\n" + "/*" * 10000,
     "```js\n" + "`1" * 10000],
    ids=range(19),
)  # fmt: skip
def test_hostile_texts_do_not_stall(page: Any, text: str) -> None:
    timed = f"async text => {{ const begin = performance.now(); await ({DRAW})(text); return performance.now() - begin; }}"
    assert page.evaluate(timed, text) < 4000  # quadratic ones take minutes


def test_blocks_that_are_whole_stay_while_a_text_grows(page: Any) -> None:
    assert page.evaluate(
        """async () => {
          const { drawMarkdown } = await import("./page/markdown.js");
          const [place, text] = [document.createElement("div"), "# a\\n\\n```\\nx = 1\\n```\\n\\nmore *and* more"];
          let [code, same] = [null, true];
          for (let end = 1; end <= text.length; end += 1) {
            drawMarkdown(place, text.slice(0, end));
            if (end > 20) [code, same] = [code ?? place.children[1], same && (!code || code === place.children[1])];
          }
          const whole = document.createElement("div");
          drawMarkdown(whole, text);
          return same && whole.innerHTML === place.innerHTML;
        }"""
    )


def test_code_is_copied(visit: Open, small: Any) -> None:
    page = visit(permissions=["clipboard-read", "clipboard-write"])
    page.evaluate(
        """async () => {
          const [store, tree] = [await import("./page/store.js"), await import("./page/tree.js")];
          const talk = tree.newConversation();
          const asked = tree.add(talk, null, { role: "user", content: "code?" });
          tree.add(talk, asked, { role: "assistant", content: "```\\nx < 1\\n```", model: "m" });
          await store.put(talk);
        }"""
    )
    page.goto(f"{small.url}/#chat")
    page.reload()
    page.get_by_role("button", name="code?").click()
    page.locator("figure.code").get_by_role("button", name="Copy").click()
    page.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == "x < 1"
