"""Benchmarks of `weft bench`."""

from weft.core.registry.entry import Entry

BENCHES = {
    "engine-cpu": Entry("weft.benchmarks.training.engine_cpu:main", 0, "training speed of two small GPTs on the CPU, against peers"),
    "engine-gpu": Entry("weft.benchmarks.training.engine_gpu:main", 0, "training step of a small GPT on the GPU"),
    "images-gpu": Entry(
        "weft.benchmarks.training.images_gpu:main", 0, "training step of a VAE and a DCGAN on the GPU, against plain loops"
    ),
    "encoders-gpu": Entry(
        "weft.benchmarks.training.encoders_gpu:main", 0, "training step of BERT-base and a translator on the GPU, against a peer"
    ),
    "recurrent": Entry(
        "weft.benchmarks.training.recurrent:main", 0, "recurrent layers against PyTorch's own and a loop over steps, on a busy machine too"
    ),
    "recognition": Entry(
        "weft.benchmarks.quality.recognition:main", 0, "CTC, transducer and attention on digits of speakers never heard, over several seeds"
    ),
    "transducer": Entry(
        "weft.benchmarks.training.transducer:main", 0, "the transducer's loss, whole and in a band, and CTC's, beside peers'"
    ),
    "decoder-training": Entry(
        "weft.benchmarks.training.decoder_training:main",
        0,
        "training steps of scheduled sampling and rewards, beside teacher forcing",
    ),
    "training": Entry("weft.benchmarks.training.training:main", 0, "speed and memory of training GPT-2 on the GPU, against a peer"),
    "generation": Entry("weft.benchmarks.inference.generation:main", 0, "tokens a second of a GPT-2, against a peer"),
    "transformers": Entry(
        "weft.benchmarks.quality.transformers:main", 0, "recipes of the Transformer family on real data, over several seeds"
    ),
    "applications": Entry(
        "weft.benchmarks.applications.main:main", 0, "parsing, labels, summaries, questions and dialogue on real data, beside baselines"
    ),
    "copying": Entry("weft.benchmarks.quality.copying:main", 0, "names that were never seen, sorting and convex hulls, over several seeds"),
    "speech": Entry("weft.benchmarks.quality.speech:main", 0, "spoken digits of speakers never heard, each left out in turn"),
    "translation": Entry("weft.benchmarks.quality.translation:main", 0, "Multi30k by recurrent models and a Transformer, several at once"),
    "images": Entry("weft.benchmarks.quality.images:main", 0, "generative models on real images, over several seeds"),
    "data-build": Entry(
        "weft.benchmarks.training.data_build:main", 0, "text to token shards, against the tokenizers library on the same cores"
    ),
    "predict": Entry("weft.benchmarks.inference.predict:main", 0, "weft predict against the model alone; the first token of a sample"),
    "birthplace": Entry("weft.projects.birthplace.benchmark:main", 0, "the birthplace task on its real data, over several seeds"),
    "parity-recurrent": Entry(
        "weft.benchmarks.quality.parity_recurrent:main", 0, "g2p-en, Resemblyzer and ELMo against their own code and recorded outputs"
    ),
    "parity": Entry("weft.benchmarks.quality.parity:main", 0, "outputs of converted models against transformers, both ways"),
    "serving": Entry("weft.benchmarks.inference.serving:main", 0, "the server under load: streams, a full queue, slow clients, its pace"),
    "harness": Entry("weft.benchmarks.quality.harness:main", 0, "lm-evaluation-harness in process against over HTTP"),
    "smollm2": Entry("weft.benchmarks.quality.smollm2:main", 0, "SmolLM2-135M on LAMBADA and HellaSwag, beside published numbers"),
    "speedrun": Entry("weft.benchmarks.training.speedrun:main", 0, "time to the same loss: GPT-2's recipe against gpt/speedrun"),
    "plan": Entry("weft.benchmarks.training.plan:main", 0, "memory and time of training steps against what weft plan says of them"),
    "words": Entry("weft.benchmarks.words.words:main", 0, "word vectors beside gensim's: speed, bytes, memory, files, analogies"),
    "elmo": Entry("weft.benchmarks.quality.elmo:main", 0, "ELMo's layers against vectors without context, as features of a tagger"),
}
