"""`weft prompt TEMPLATE [NAME=VALUE…] [--examples FILE --shots K] [--ask CKPT]`: a prompt from a file, looked at or asked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.cli import console
from weft.cli.options import flags
from weft.core.config import Config
from weft.core.errors import ConfigError
from weft.core.registry import nearest

ABOUT = """TEMPLATE is a text file with {fields}; {answer} is what the model has to give, and lines of --- part a heading, a worked example
and the question (docs/evaluation.md). Values of the fields are given as NAME=VALUE. Without --ask the prompt is only shown, so that it can
be changed until it is right; `weft evaluate CKPT TASK --template TEMPLATE` then measures it."""


@dataclass(frozen=True, kw_only=True)
class Options(Config):
    examples: str = ""
    """JSON lines or CSV with the fields and an answer, from which worked examples are drawn."""
    shots: int = 0
    """How many worked examples stand in front of the question."""
    seed: int = 0
    """Of the examples that are drawn."""
    ask: str = ""
    """A run whose model answers; empty shows the prompt only."""
    until: str = "\n"
    """Text at which an answer ends; empty for none."""
    max_new_tokens: int = 100
    """Longest answer, in tokens."""
    temperature: float = 0.0
    """0 takes the likeliest token each time; above, tokens are drawn."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:1."""


def main(words: list[str]) -> int:
    console.show_warnings()
    options, free = flags.parse(Options(), words, "weft prompt", "TEMPLATE [NAME=VALUE…]", ABOUT)
    from weft.evaluation.fewshot.templates import Template

    template = Template.read(free[0])
    asked = item(template, fields_of(free[1:]), free[0])
    prompt = template.prompt(asked, drawn(options, asked, template, free[0]))
    if not options.ask:
        print(prompt.text)
        return 0
    from weft.inference.generate import need_continuing
    from weft.runs.load import load

    settings: dict[str, Any] = {"max_new_tokens": options.max_new_tokens, "temperature": options.temperature, "seed": options.seed}
    loaded = load(options.ask, options.device)
    need_continuing(loaded.model, loaded.tokenizer)
    made = loaded.generate(prompt.text, stop=options.until, **settings)
    print(f"{prompt.text}{made.text}", flush=True)
    return 0


def fields_of(words: list[str]) -> dict[str, str]:
    """NAME=VALUE as a table."""
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.isidentifier():
            raise ConfigError(f"expected NAME=VALUE for a field of the template, not {word!r}")
        found[name] = value
    return found


def item(template: Any, fields: dict[str, str], place: str) -> Any:
    """A record whose answer is asked for; refused where it does not have the fields of the template."""
    from weft.evaluation.fewshot.templates import ANSWER, Item, pieces

    wanted = [name for _, name in pieces(template.question) if name and name != ANSWER]
    for name in wanted:
        if name not in fields:
            raise ConfigError(f"{place}: the field {{{name}}} has no value; give it one as {name}=…{nearest(name, list(fields))}")
    if wrong := next((name for name in fields if name not in wanted), None):
        raise ConfigError(f"{place}: has no field {{{wrong}}}{nearest(wrong, wanted)}")
    return Item(fields, ("",))


def drawn(options: Options, asked: Any, template: Any, place: str) -> list[Any]:
    """The worked examples, which are never the question itself."""
    if not options.shots and not options.examples:
        return []
    if options.shots < 1 or not options.examples:
        raise ConfigError("worked examples need both: --examples FILE to draw them from and --shots K, at least 1")
    from weft.data.base import Problems
    from weft.data.io.files import locate
    from weft.evaluation.fewshot import records
    from weft.evaluation.fewshot.request_types import LogLikelihood
    from weft.evaluation.fewshot.tasks import Task
    from weft.evaluation.fewshot.templates import ANSWER, Item, pieces

    def read(record: dict[str, Any]) -> Item:
        return Item({name: str(value) for name, value in record.items() if name != ANSWER}, (str(record[ANSWER]),))

    path: Path = locate(options.examples)
    items = records.read(Task(options.examples, read, str(template), LogLikelihood()), path, Problems())
    needed = {name for part in (template.example, template.question) for _, name in pieces(part) if name and name != ANSWER}
    usable = [one for one in items if needed <= one.fields.keys()]
    if not usable:
        template.check(items[0], place)
    return records.shown(len(usable), [*usable, asked], options.shots, options.seed)
