"""Families of foreign weights that `weft convert` reads and writes."""

from weft.core.registry.entry import Entry

CONVERTERS = {
    "openai-gpt": Entry("weft.convert.openai_gpt:FAMILY", 2018, "GPT-1"),
    "gpt2": Entry("weft.convert.gpt2:FAMILY", 2019, "GPT-2"),
    "bert": Entry("weft.convert.bert:FAMILY", 2018, "BERT"),
    "llama": Entry("weft.convert.llama:FAMILY", 2023, "Llama and models of its form"),
    "t5": Entry("weft.convert.t5:FAMILY", 2019, "T5 and its version 1.1"),
    "marian": Entry("weft.convert.marian:FAMILY", 2018, "Marian's translators"),
    "g2p-en": Entry("weft.convert.g2p:FAMILY", 2019, "g2p-en, letters to phonemes"),
    "vit": Entry("weft.convert.vit:FAMILY", 2020, "ViT"),
    "swin": Entry("weft.convert.swin:FAMILY", 2021, "Swin"),
    "timm-resnet": Entry("weft.convert.torchvision:RESNET", 2015, "ResNet by the names of torchvision and timm"),
    "timm-densenet": Entry("weft.convert.torchvision:DENSENET", 2016, "DenseNet by the names of torchvision and timm"),
    "elmo": Entry("weft.convert.elmo:FAMILY", 2018, "ELMo of bilm-tf (read only)"),
    "resemblyzer": Entry("weft.convert.resemblyzer:FAMILY", 2019, "Resemblyzer's speaker encoder (read only)"),
}
