"""Old names still work for one version, are answered with the new ones, and stand in core/renamed.py alone."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import tokenize
from pathlib import Path
from typing import Any

import pytest

import weft
from tests.gpt_configs import gpt_config
from weft.cli import data as cli_data
from weft.cli import sample, serve
from weft.cli.options import plan_words
from weft.core import config, registry, renamed
from weft.core.errors import ConfigError
from weft.data.images.augment import Augment
from weft.data.tokenizers import base as tokenizers
from weft.models.language.gpt import GPTConfig
from weft.models.language.speedrun_gpt import SpeedrunGPTConfig
from weft.recipes.base import load
from weft.studies.generative import gan_panels
from weft.studies.language import bert_features
from weft.training.schedule import Schedule
from weft.training.settings import Train

ROOT = Path(__file__).parent.parent.parent
SOURCES = [path for path in sorted((ROOT / "src" / "weft").rglob("*.py")) if path.name != "renamed.py"]
FOREIGN = sorted(path for end in ("c", "h", "cu", "js") for path in (ROOT / "src" / "weft").rglob(f"*.{end}") if ".min." not in path.name)
COMMANDS = {"sample": sample.Options, "serve": serve.Options, "plan_words": plan_words.Settings} | {
    "data": cli_data.Python,
    "bert_features": bert_features.Settings,
    "gan_panels": gan_panels.Settings,
}
"""Flags of commands, by their modules."""
PLAIN = {"train": Train, "schedule": Schedule, "augment": Augment} | COMMANDS
"""Parts without a registry name."""
PART_OF = {"models": "model", "data": "data", "objectives": "objective", "optimizers": "optim"}
OLD = {
    *("Cache", "Store", "Reader", "Steps", "one_row", "Flight", "Choosers", "told", "SourceEngine", "WholeEngine", "Filling", "Teller"),
    *("marks", "Held", "Found", "rise", "fall", "_turns", "RoundedLinear", "FewRows", "token_loss", "tuned_products", "wide_block"),
    *("Halves", "mark", "judge", "pretence", "cpu_block", "telling", "keeping", "OneRow", "round_weights", "keep_weights", "answer_all"),
    *("depth_dropout", "branch_dropout", "halvings", "bottleneck", "discriminator_turns", "rest_lr", "TwoFoldersConfig", "DrawsConfig"),
    *("WavesConfig", "SentinelsConfig", "MemoryConfig", "MarkedTokenizer", "AnsweringTokenizer", "MarkedCharacters", "fill_in", "Wishes"),
    *("BothWays", "BranchDropout", "DepthDropout", "ParallelBlock", "AboveConv2d", "Verdict", "Adversaries", "judge_pair", "ManyRows"),
    *("land", "Piece", "arithmetic", "rounding", "spots", "at_place"),
    *("mix_by_products", "sound_kernels", "told_by_stack", "beside_norm", "beside_values", "held_by", "without_padding", "OneRowInC"),
}
"""Identifiers that the field has another word for."""
STILL_THERE: set[str] = {"bottleneck"}
"""A word with another meaning: `--bottleneck` of the birthplace assignment's own command."""
OLD_MODULES = {
    *("tones", "draws", "game", "pick", "half", "halves", "rounded", "sources", "whole_targets", "telling", "recompute", "pretence"),
    *("wide_block", "cpu_block", "token_loss", "tuned_products", "steps", "cpu_steps"),
    *("nn/documents", "nn/cache", "nn/memory", "data/memory", "inference/parallel", "inference/answers", "training/pieces"),
}
"""Modules and packages, by their names or by those of their rooms, too."""
PARTS = {
    "rise",
    "rises",
    "xrise",
    "fall",
    "xfall",
    "marks",
    "marked",
    "judge",
    "judged",
    "teller",
    "filling",
    "filled",
    "pretence",
    "pretends",
    "turns",
}
"""Words that are no part of any identifier, in Python, C, CUDA or JavaScript."""
SPECIAL_TOKENS = r"start marks?|end marks?|(its|the|token) marks\b(?! of WikiHow)|looks like a mark"
PROSE = {
    r"guess(es|ing)? ahead": "speculative decoding, draft model",
    r"foretold|foretells?": "predicted",
    r"pretence": "fake tensors",
    r"one_row|tuned_products|step_kernels|wide_kernels|wide_passes|layers/rounded|layers/passes|generation/c_steps": "a file of today",
    r"heads share their keys": "grouped-query attention",
    r"branch dropout": "drop path",
    r"heads of keys": "KV heads",
    r"\bplaces? (of|in) (the|a|its|their) (KV )?cache|\b[ST] places\b|(new|hidden|masked|next) tokens?'? places?": "positions",
    r"how positions are told": "position embedding",
    r"(queries and keys|embedded tokens) are normed": "QK-norm",
    r"the norm comes (first|last)|norms come first": "pre-norm, post-norm",
    SPECIAL_TOKENS: "special tokens",
    r"\brise and\b|\brise by\b|\bfall by\b": "up, down",
}
"""What no message, docstring, help text or page of the docs says, and what the field says instead."""
ALLOWED = {
    "turns": "a turn is one optimiser's update, of the generator or the discriminator (docs/gan.md)",
    "marked": "html and Python mark things up",
    "filled": "forms, shapes and tables are filled",
    "BYTE_ORDER_MARKS": "Unicode calls them so",
    "rises": "a curve rises",
}
"""Parts of identifiers with another meaning, or identifiers, and which it is."""
TODO: set[str] = set()
"""Words of PARTS or of PROSE that another change takes out."""
DEFINED = {
    "KVCache": "weft.nn.state:KVCache",
    "LayerKV": "weft.nn.state:LayerKV",
    "up, down, gate_up": "weft.nn.feed_forward:GatedFeedForward.up_proj",
    "prefill": "weft.inference.runner:ModelRunner.prefill",
    "decode": "weft.inference.runner:ModelRunner.decode",
    "rope_table": "weft.nn.position:rope_table",
    "DecodeStep": "weft.kernels.decode_step:DecodeStep",
    "megakernel": "weft.kernels.cuda.megakernel:Megakernel",
    "Int8Linear": "weft.kernels.int8_linear:Int8Linear",
    "PendingTokens.wait": "weft.inference.engine:PendingTokens.wait",
    "PackedBF16Linear": "weft.kernels.packed_bf16_linear:PackedBF16Linear",
    "Sampler": "weft.inference.sampler:Sampler",
    "logprobs": "weft.inference.sampler:Sampler.logprobs",
    "checkpointed": "weft.nn.checkpointed:checkpointed",
    "EncoderDecoderEngine": "weft.inference.encoder_decoder:EncoderDecoderEngine",
    "document_mask": "weft.nn.document_mask:document_mask",
    "NonAutoregressiveEngine": "weft.inference.non_autoregressive:NonAutoregressiveEngine",
    "chunked_cross_entropy": "weft.kernels.chunked_cross_entropy:chunked_cross_entropy",
    "MaskPredict": "weft.inference.mask_predict:MaskPredict",
    "cublaslt_matmul": "weft.kernels.cuda.cublaslt_matmul",
    "Predictor": "weft.inference.predict.base:Predictor",
    "gpt_block_cuda": "weft.kernels.gpt_block_cuda:gpt_block_cuda",
    "special_tokens": "weft.data.tokenizers.special_tokens",
    "BF16Weights": "weft.training.optimizer.bf16_weights:BF16Weights",
    "speculative decoding, draft model": "weft.inference.speculative:speculate",
    "seed_suffix": "weft.training.parallel.team",
    "BlockWeights": "weft.kernels.c.gpt_block_cpu:BlockWeights",
    "BlockGrads": "weft.kernels.c.gpt_block_cpu:BlockGrads",
    "check_gradients": "weft.training.optimizer.updater",
    "autocast": "weft.training.execution",
    "tf32": "weft.training.execution",
    "fake_tensors": "weft.planning.fake_tensors:fake_tensors",
    "tone_augment": "weft.data.images.tone_augment",
    "noise_only": "weft.data.tables.noise_only",
    "gan_losses": "weft.objectives.generative.gan_losses",
    "associative_memory": "weft.objectives.energy.associative_memory",
    "position": "weft.nn.position",
}
"""The words of the field in the glossary, and where each is defined; a module, where the word is its name or a name in it."""


def class_of(part: str) -> Any:
    return PLAIN[part] if part in PLAIN else registry.config_class(part)


def fields(part: str) -> set[str]:
    return {field.name for field in dataclasses.fields(class_of(part))}


@pytest.mark.parametrize("part", sorted(renamed.SETTINGS))
def test_every_new_name_is_a_setting_and_no_old_one(part: str) -> None:
    names = renamed.SETTINGS[part]
    assert set(names.values()) <= fields(part)
    assert not set(names) & fields(part)


def test_every_new_registry_name_is_registered_and_no_old_one() -> None:
    parts = {name for table in registry.CONFIG_TABLES for name in registry.TABLES[table]}
    assert set(renamed.TYPES.values()) <= parts and not set(renamed.TYPES) & parts
    assert set(renamed.TOKENIZERS.values()) <= set(registry.TOKENIZERS) and not set(renamed.TOKENIZERS) & set(registry.TOKENIZERS)


def identifiers() -> set[str]:
    found = set()
    for path in SOURCES:
        with path.open("rb") as file:
            found |= {token.string for token in tokenize.tokenize(file.readline) if token.type == tokenize.NAME}
    return found


def test_no_old_identifier_is_left() -> None:
    found = identifiers() & OLD
    assert found - STILL_THERE == set()
    assert STILL_THERE - found == set(), "gone from the code; take them out of STILL_THERE"


def test_no_module_has_an_old_name() -> None:
    root = ROOT / "src" / "weft"
    paths = [path.relative_to(root).with_suffix("") for path in root.rglob("*") if path.suffix == ".py" or path.is_dir()]
    names = {"/".join(path.parts[-2:]): path.name for path in paths}
    assert {path for path, name in names.items() if {path, name} & OLD_MODULES} == set()


def parts_of(name: str) -> set[str]:
    """The words of an identifier: `_check_end` and `CheckEnd` are both of check and end."""
    return {part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def words_of_code() -> dict[str, set[str]]:
    """The identifiers of every source, of C, CUDA and JavaScript too, without comments and texts."""
    found = {}
    for path in SOURCES:
        with path.open("rb") as file:
            found[str(path.relative_to(ROOT))] = {token.string for token in tokenize.tokenize(file.readline) if token.type == tokenize.NAME}
    for path in FOREIGN:
        code = re.sub(r"""/\*.*?\*/|//[^\n]*|"[^"\n]*"|'[^'\n]*'|`[^`]*`""", " ", path.read_text(encoding="utf-8"), flags=re.S)
        found[str(path.relative_to(ROOT))] = set(re.findall(r"[A-Za-z_]\w*", code))
    return found


def test_no_old_word_is_part_of_an_identifier() -> None:
    hits = {(part, name, path) for path, names in words_of_code().items() for name in names for part in parts_of(name) & PARTS}
    assert {hit for hit in hits if not {hit[0], hit[1]} & {*ALLOWED, *TODO}} == set()
    assert {*ALLOWED, *TODO} - {word for hit in hits for word in hit[:2]} <= set(PROSE), "gone from the code; take it out"


@pytest.mark.parametrize("words", PROSE)
def test_no_message_and_no_page_says_it_in_an_old_word(words: str) -> None:
    pattern = re.compile(words, re.IGNORECASE)
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "src" / "weft" / "cli" / "options" / "help.json"]
    texts = {path: re.sub(r"\s+", " ", path.read_text(encoding="utf-8")) for path in [*SOURCES, *FOREIGN, *pages]}
    found = [(str(path.relative_to(ROOT)), match.group()) for path, text in texts.items() for match in pattern.finditer(text)]
    assert words in TODO or found == [], f"the field says: {PROSE[words]}"
    assert words not in TODO or found, "gone; take it out of TODO"


@pytest.mark.parametrize("word", DEFINED)
def test_every_word_of_the_field_is_defined(word: str) -> None:
    module, _, names = DEFINED[word].partition(":")
    home: Any = importlib.import_module(module)
    for name in names.split(".") if names else ():
        home = inspect.getattr_static(home, name)
    if not names:
        last = word.split(",")[0]
        assert module.endswith(last) or re.search(rf"\b{last}\b", Path(home.__file__).read_text(encoding="utf-8"))


def flags() -> re.Pattern[str]:
    """Old settings as flags or in quotes: those that no part of the same kind has under this name."""
    words = [f"{part}[.]{name}" for part in PLAIN for name in renamed.SETTINGS[part]]
    for table, flag in PART_OF.items():
        mine = [part for part in registry.TABLES[table] if part in renamed.SETTINGS]
        taken = set().union(*(fields(part) for part in registry.TABLES[table]))
        words += [f"{flag}[.]{name}" for part in mine for name in renamed.SETTINGS[part] if name not in taken]
    mine = {name for part in COMMANDS for name in renamed.SETTINGS[part]}
    return re.compile(
        rf"""(?:--|["'`])(?:[a-z_]+[.])*(?:{"|".join(sorted(set(words)))})(?![\w-])|--(?:{"|".join(sorted(mine))})(?![\w.-])""".replace(
            "_", "[_-]"
        )
    )


def test_no_old_flag_is_left_in_code_messages_or_docs() -> None:
    pattern, pages = flags(), [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    assert pattern.search("--train.micro 4") and pattern.search('"train.keep"') and pattern.search("--model.norm-heads")
    assert not pattern.search("--train.micro_batch 4") and not pattern.search("--train.keep-checkpoints")
    here = [path for path in (ROOT / "tests").rglob("*.py") if path.name not in ("test_renamed.py", "test_format3.py")]
    found = [(str(path), match.group()) for path in [*SOURCES, *pages, *here] for match in pattern.finditer(path.read_text())]
    assert found == []


# -- what is given under an old name -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("recipe", "old", "value", "new", "wanted"),
    [
        ("gpt/text", "train.micro", 4, "train.micro_batch", 4),
        ("gpt/text", "train.activations", "inputs", "train.activation_checkpointing", "full"),
        ("gpt/text", "train.activations", "auto", "train.activation_checkpointing", "auto"),
        ("gpt/text", "optim.schedule.floor", 0.1, "optim.schedule.min_lr_ratio", 0.1),
        ("gan/digits", "optim.generator.schedule.floor", 0.1, "optim.generator.schedule.min_lr_ratio", 0.1),
        ("vit/images", "data.augment.colour", 0.2, "data.augment.color_jitter", 0.2),
        ("llama/text", "model.groups", 2, "model.kv_heads", 2),
        ("bert/sst2", "data.unit", "bert_words", "data.tokenizer", "bert_words"),
        ("gpt/text", "model.tied", False, "model.tie_embeddings", False),
        ("gpt/text", "model.window", 8, "model.sliding_window", 8),
        ("transformer/numbers", "model.memory", "all", "model.encoder_output", "all"),
    ],
)
def test_an_old_setting_works_and_is_answered_with_the_new_one(
    recipe: str, old: str, value: Any, new: str, wanted: Any, caplog: pytest.LogCaptureFixture
) -> None:
    changed = weft.recipe(recipe, {old: value})
    assert config.leaves(changed)[new][1] == wanted
    assert caplog.messages == [f"--{old} is now called --{new}"]
    assert changed == weft.recipe(recipe, {new: wanted})


@pytest.mark.parametrize("words", ["--model.norm-heads", "--model.norm_heads true", "--model.norm-heads=true"])
def test_an_old_flag_works(words: str, caplog: pytest.LogCaptureFixture) -> None:
    free, flags = config.separate([*words.split(), "--train.ramp", "4", "100", "rest"], weft.recipe("gpt/text"))
    made = config.parse_flags(flags, weft.recipe("gpt/text"))
    assert (free, made.model) == (["rest"], with_qk_norm(weft.recipe("gpt/text").model))
    assert made == dataclasses.replace(weft.recipe("gpt/text", {"train.batch_ramp": (4, 100)}), model=made.model)
    assert len(caplog.messages) == 2


def with_qk_norm(model: Any) -> GPTConfig:
    return gpt_config(**{field.name: getattr(model, field.name) for field in dataclasses.fields(model)}, qk_norm=True)


@pytest.mark.parametrize(
    ("options", "old", "new"),
    [
        (sample.Options(), "--walk along --way back --complete a.png", "--latents traverse --direction b2a --inpaint a.png"),
        (serve.Options(), "--weights int8 --invariant on", "--precision int8 --batch-invariant on"),
        (plan_words.Settings(), "--micro 4 --checkpoint on", "--micro-batch 4 --activation-checkpointing on"),
    ],
)
def test_an_old_flag_of_a_command_works(options: Any, old: str, new: str, caplog: pytest.LogCaptureFixture) -> None:
    made = [config.parse_flags(config.separate(words.split(), options)[1], options) for words in (old, new)]
    assert made[0] == made[1] != options
    assert len(caplog.messages) == old.count("--")


def test_the_opposite_of_an_old_flag_works() -> None:
    changed = config.parse_flags([["--model.no-norm-heads"]], weft.recipe("gpt/speedrun"))
    assert changed == weft.recipe("gpt/speedrun", {"model.qk_norm": False})


def test_settings_that_another_model_has_now_are_switched_on_alone() -> None:
    """A GPT with some of the speedrun's settings is the speedrun's model without the others, in flags and in what was saved."""
    model = weft.recipe("gpt/text", {"model.skips": True, "model.norm_embedding": True}).model
    assert isinstance(model, SpeedrunGPTConfig)
    assert (model.embedding_skips, model.embedding_norm, model.qk_norm, model.zero_init) == (True, True, False, False)
    assert (model.activation, model.tie_embeddings, model.bias) == ("gelu", True, True)
    now = config.to_dict(weft.recipe("gpt/text").model)
    before = {**now, "skips": False, "norm_embedding": False, "norm_heads": False, "zero_outputs": False}
    assert renamed.recipe(before) == now
    assert config.from_dict(renamed.recipe({**before, "skips": True, "norm_embedding": True}), GPTConfig) == model


def test_an_old_setting_belongs_to_its_part(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ConfigError, match="gpt has no setting 'groups'"):
        weft.recipe("gpt/text", {"model.groups": 2})
    with pytest.raises(ConfigError, match="train has no setting 'floor'"):
        weft.recipe("gpt/text", {"train.floor": 2})
    assert caplog.messages == []


def test_an_old_registry_name_works(caplog: pytest.LogCaptureFixture) -> None:
    assert registry.find("data", "waves") is registry.find("data", "audio") is registry.config_class("waves")
    assert registry.find("tokenizers", "pairs").name == "seq2seq"
    assert caplog.messages == [
        "'waves' (data) is now called 'audio'",
        "'waves' is now called 'audio'",
        "'pairs' (tokenizers) is now called 'seq2seq'",
    ]
    with pytest.raises(ConfigError):
        registry.find("models", "waves")


# -- what was saved under old names --------------------------------------------------------------------------------------------


def aged(data: Any, part: str = "") -> Any:
    """A recipe in its JSON form as an earlier version would have written it."""
    if not isinstance(data, dict):
        return data
    part = data.get("type", part)
    before = {new: old for old, new in renamed.SETTINGS.get(part, {}).items()}
    found = {}
    for name, value in data.items():
        old = before.get(name, name)
        values = {new: was for was, new in renamed.VALUES.get(part, {}).get(old, {}).items()}
        found[old] = values.get(value, value) if isinstance(value, str) else aged(value, name)
    types = {new: old for old, new in renamed.TYPES.items()}
    return found | ({"type": types.get(part, part)} if "type" in data else {})


def test_recipes_as_they_were_saved_are_read_as_they_are_now(caplog: pytest.LogCaptureFixture) -> None:
    for name in registry.RECIPES:
        recipe = weft.recipe(name, {"train.activation_checkpointing": "full"})
        now = config.to_dict(recipe)
        before = aged(now)
        assert before["train"]["activations"] == "inputs"
        assert renamed.recipe(before) == now == renamed.recipe(now)
        assert list(renamed.recipe(before)["train"]) == list(now["train"])
        assert load(before) == recipe
    assert caplog.messages == []


def test_tokenizers_as_they_were_saved_are_read() -> None:
    old = b'{"type": "pairs", "inner": {"type": "marked_characters", "characters": "\\u25a1\\u2047ab"}}'
    made = tokenizers.load(old)
    assert (made.name, made.to_json()["inner"]["type"]) == ("seq2seq", "birthplace_characters")


@pytest.mark.parametrize(
    ("model", "up"), [({"type": "gpt"}, "up"), ({"type": "llama"}, "gate_up"), ({"type": "t5", "gated": True}, "gate_up"), (None, "up")]
)
def test_names_of_parameters_wherever_they_stand(model: Any, up: str) -> None:
    new_name = renamed.parameters(model)
    assert new_name("blocks.0.feedforward.rise.weight") == f"blocks.0.feedforward.{up}.weight"
    assert new_name("optim//blocks.0.feedforward.rise.weight/exp_avg[16,0]") == f"optim//blocks.0.feedforward.{up}.weight/exp_avg[16,0]"
    assert new_name("difference.fall.bias") == "difference.down.bias"
    assert new_name("sunrise.weight") == "sunrise.weight"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("generators.there.network.0.weight", "generators.a2b.network.0.weight"),
        ("optim.generators//generators.back.network.0.weight/exp_avg", "optim.generators//generators.b2a.network.0.weight/exp_avg"),
        ("discriminators.here.0.weight", "discriminators.a.0.weight"),
        ("discriminators.there.0.weight", "discriminators.b.0.weight"),
        ("lstm.there.weight_ih_l0", "lstm.forward_lstm.weight_ih_l0"),
        ("lstm.back.weight_ih_l0", "lstm.backward_lstm.weight_ih_l0"),
        ("discriminator.verdict.output.weight", "discriminator.head.output.weight"),
        ("discriminator.verdict.closeness.weight", "discriminator.head.minibatch_discrimination.weight"),
        ("discriminator.history.discriminator/verdict/output/weight", "discriminator.history.discriminator/head/output/weight"),
    ],
)
def test_names_of_parameters_of_networks(old: str, new: str) -> None:
    assert renamed.parameters({"type": "gan"})(old) == new
    assert renamed.parameters(None)(new) == new
