"""The verbs of the command, the first page, and what an unknown verb is answered with."""

from __future__ import annotations

from weft.cli.begin import have
from weft.core import registry

VERBS = {
    "start": "looks at your data and proposes a recipe, its size and how long it takes",
    "quickstart": "the birthplace experiment end to end on made-up people, minutes on two cores",
    "list": "what to do with what you have; recipes, models, studies and benchmarks, with measured scores",
    "train": "train a recipe; the same command again continues where it stopped",
    "sweep": "a recipe with several settings, side by side, and the best by validation",
    "evaluate": "the recipe's metrics on its validation data or on other data, or tasks for language models",
    "sample": "text, images or nearest words from a trained model, or what it tells of your text or image",
    "predict": "what a model tells of every row of a file: classes, numbers, tags, answers, vectors, likelihoods",
    "prompt": "a prompt from a template file and worked examples, shown or asked",
    "serve": "an OpenAI-compatible server, and a page to play with a model",
    "data": "token shards from your own text, JSONL or parquet files, to train large models from",
    "convert": "foreign weights in and out: model folders, GGUF files, wheels",
    "plan": "parameters, memory, time, energy and a parallel layout of a training run, without running it",
    "report": "an HTML page of a run, or a comparison of several",
    "study": "an analysis with a figure and a small table",
    "bench": "a measurement against peers: of speed, or whether converted models say the same",
    "birthplace": "pretrain, finetune, evaluate or ask a model about where people were born",
    "completion": "what makes a shell complete verbs, recipes, settings and runs: bash, zsh or fish",
}
GROUPS = {
    "begin": ("start", "list", "quickstart", "completion"),
    "train": ("train", "sweep", "plan", "data"),
    "use a model": ("sample", "predict", "serve", "prompt", "convert"),
    "look at it": ("evaluate", "report", "study", "bench", "birthplace"),
}
"""The verbs as the help shows them; those of no group come last."""
MEANT = {
    **dict.fromkeys(("chat", "web", "ui", "api", "run", "deploy"), "serve"),
    **dict.fromkeys(("generate", "complete", "draw", "translate"), "sample"),
    **dict.fromkeys(("fit", "finetune", "fine-tune", "pretrain", "resume", "continue"), "train"),
    **dict.fromkeys(("eval", "test", "validate", "score", "measure"), "evaluate"),
    **dict.fromkeys(("infer", "inference", "classify", "embed", "tag", "label"), "predict"),
    **dict.fromkeys(("tune", "search", "grid", "hpo"), "sweep"),
    **dict.fromkeys(("export", "import", "download", "pull", "quantize"), "convert"),
    **dict.fromkeys(("tokenize", "preprocess", "prepare", "shards"), "data"),
    **dict.fromkeys(("plot", "visualize", "compare", "show"), "report"),
    **dict.fromkeys(("init", "new", "create", "wizard", "guide"), "start"),
    **dict.fromkeys(("ls", "recipes", "models", "find"), "list"),
    **dict.fromkeys(("benchmark", "perf"), "bench"),
    **dict.fromkeys(("estimate", "memory", "flops"), "plan"),
    **dict.fromkeys(("autocomplete", "completions"), "completion"),
    "demo": "quickstart",
    "version": "--version",
}
"""Words of other programs, by the verb that does what they mean."""
ABOUT = "weft trains, finetunes, evaluates, samples and serves the models deep learning is built on."


def usage() -> str:
    """What one has, and every verb."""
    grouped = {name for names in GROUPS.values() for name in names}
    groups = GROUPS | {"more": tuple(name for name in VERBS if name not in grouped)}
    lines = [f"usage: weft VERB … [--help]\n\n{ABOUT}\n\nI have", *have.lines(most=1)]
    for title, names in groups.items():
        known = [name for name in names if name in VERBS]
        lines += [f"\n{title}", *(f"  {name:10} {VERBS[name]}" for name in known)] if known else []
    return "\n".join([*lines, "\nweft train gpt/text --help: every setting of a recipe; weft list: everything there is"])


def unknown(word: str) -> str:
    """What a verb that does not exist is answered with: the one that is meant, or is written nearly so."""
    meant = MEANT.get(word.lower().lstrip("-"), "")
    if meant in VERBS or meant == "--version":
        return f"no verb is called {word!r}; weft {meant}" + (f" is: {VERBS[meant]}" if meant in VERBS else " says it")
    if word in registry.RECIPES:
        return f"{word!r} is a recipe; train it with: weft train {word}"
    return f"no verb is called {word!r}{registry.nearest(word, list(VERBS))}"
