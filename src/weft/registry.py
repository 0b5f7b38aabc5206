"""Names of everything weft can build, as tables of strings.

Nothing is imported until it is asked for, so listing is instant. A family outside the package joins through `add()`,
called by the function its entry point in the group `weft.families` names.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.metadata
from dataclasses import dataclass
from functools import cache
from typing import Any

from weft.errors import ConfigError


@dataclass(frozen=True)
class Entry:
    target: str
    """"module:attribute" of a config class, a recipe function, a study or a task."""
    year: int
    summary: str


MODELS = {
    "gpt": Entry("weft.models.gpt:GPTConfig", 2018, "decoder-only Transformer"),
    "llama": Entry("weft.models.llama:LlamaConfig", 2023, "decoder-only Transformer with RMS norms, rotary positions and gates"),
    "bert": Entry("weft.models.bert:BERTConfig", 2018, "Transformer encoder with token and sentence-pair heads"),
    "transformer": Entry("weft.models.transformer:TransformerConfig", 2017, "encoder-decoder Transformer"),
    "nonautoregressive": Entry(
        "weft.models.nonautoregressive:NonAutoregressiveConfig", 2017, "encoder-decoder Transformer that makes all tokens at once"
    ),
    "t5": Entry("weft.models.t5:T5Config", 2019, "encoder-decoder Transformer from text to text, with relative positions"),
    "perceiver": Entry("weft.models.perceiver:PerceiverConfig", 2021, "decoder-only Transformer over a few latents"),
    "mlp": Entry("weft.models.mlp:MLPConfig", 1986, "multilayer perceptron"),
    "vit": Entry("weft.models.vit:ViTConfig", 2020, "Transformer encoder over the patches of an image"),
    "swin": Entry("weft.models.swin:SwinConfig", 2021, "Transformer with attention in shifted windows of an image"),
    "convnet": Entry("weft.models.convnet:ConvNetConfig", 2015, "small residual network for images of few pixels"),
    "vae": Entry("weft.models.vae:VAEConfig", 2013, "variational autoencoder"),
    "conditional_vae": Entry("weft.models.conditional_vae:ConditionalVAEConfig", 2015, "variational autoencoder that is told the class"),
    "semi_supervised_vae": Entry("weft.models.conditional_vae:SemiSupervisedVAEConfig", 2014, "the same that also tells the class: M2"),
    "gan": Entry("weft.models.gan:GANConfig", 2014, "generator against discriminator"),
    "dcgan": Entry("weft.models.dcgan:DCGANConfig", 2015, "convolutional generator against convolutional discriminator"),
    "bigan": Entry("weft.models.bigan:BiGANConfig", 2016, "generator and encoder against a discriminator of pairs"),
    "pix2pix": Entry("weft.models.pix2pix:Pix2PixConfig", 2016, "U-Net against a discriminator of patches, for pairs of images"),
    "cyclegan": Entry("weft.models.cyclegan:CycleGANConfig", 2017, "two generators, there and back, for images without pairs"),
    "rbm": Entry("weft.models.rbm:RBMConfig", 1986, "restricted Boltzmann machine"),
    "boltzmann": Entry("weft.models.boltzmann:BoltzmannConfig", 1985, "Boltzmann machine, fully visible or with hidden units"),
    "hopfield": Entry("weft.models.hopfield:HopfieldConfig", 1982, "Hopfield network, a memory asked by a part of what it holds"),
    "planar": Entry("weft.models.planar:PlanarFlowConfig", 2015, "planar flow, from noise to samples only"),
    "realnvp": Entry("weft.models.realnvp:RealNVPConfig", 2016, "flow of affine couplings, on vectors"),
    "realnvp_images": Entry(
        "weft.models.realnvp_images:RealNVPImagesConfig", 2016, "flow of affine couplings, on images at several scales"
    ),
    "maf": Entry("weft.models.maf:MAFConfig", 2017, "masked autoregressive flow: fast density, slow samples"),
    "iaf": Entry("weft.models.iaf:IAFConfig", 2016, "inverse autoregressive flow: fast samples, slow density"),
    "distilled": Entry("weft.models.distilled:DistilledConfig", 2017, "masked autoregressive flow and the inverse one it teaches"),
    "pixelcnn": Entry("weft.models.pixelcnn:PixelCNNConfig", 2016, "images pixel by pixel, by masked convolutions"),
    "gated_pixelcnn": Entry("weft.models.gated_pixelcnn:GatedPixelCNNConfig", 2016, "PixelCNN of two stacks, without a blind spot"),
    "word2vec": Entry("weft.models.word2vec:Word2VecConfig", 2013, "word vectors, two tables"),
}
DATA = {
    "text": Entry("weft.data.text:TextConfig", 0, "text files as bytes, characters or words"),
    "shards": Entry("weft.data.shards:ShardsConfig", 0, "token shards made by weft data build, weighted where there are several"),
    "python_source": Entry("weft.data.corpus:PythonSourceConfig", 0, "the source code of this Python installation"),
    "images": Entry("weft.data.images:ImagesConfig", 0, "image folders, IDX or CIFAR files"),
    "digits": Entry("weft.data.digits:DigitsConfig", 0, "scikit-learn's 8 by 8 digits"),
    "patterns": Entry("weft.data.patterns:PatternsConfig", 0, "random binary patterns to be learned by heart"),
    "toys": Entry("weft.data.toys:ToysConfig", 0, "points in the plane: moons, a ring of Gaussians, a checkerboard, circles"),
    "image_pairs": Entry("weft.data.paired_images:ImagePairsConfig", 0, "images that are two halves, side by side"),
    "outlines": Entry("weft.data.paired_images:OutlinesConfig", 0, "images and their outlines"),
    "domains": Entry("weft.data.domains:DomainsConfig", 0, "images, and other images in another style"),
    "two_folders": Entry("weft.data.two_folders:TwoFoldersConfig", 0, "images of two folders, without pairs"),
    "draws": Entry("weft.data.draws:DrawsConfig", 0, "no data but the noise of each example, for a target known as a density"),
    "table": Entry("weft.data.table:TableConfig", 0, "labelled rows of a TSV, CSV or JSONL file"),
    "pairs": Entry("weft.data.pairs:PairsConfig", 0, "source and target texts of a TSV, CSV or JSONL file"),
    "number_words": Entry("weft.data.number_words:NumberWordsConfig", 0, "numbers in digits and in English words"),
    "labelled_texts": Entry("weft.data.labelled_texts:LabelledTextsConfig", 0, "texts, or pairs of texts, each with a class or a number"),
    "choices": Entry("weft.data.choices:ChoicesConfig", 0, "texts with several ways to go on, one of them right"),
    "framed_texts": Entry("weft.data.framed:FramedTextsConfig", 2018, "labelled texts or pairs between marks, as GPT is finetuned on them"),
    "framed_choices": Entry("weft.data.framed:FramedChoicesConfig", 2018, "choices between marks, as GPT is finetuned on them"),
    "sentence_pairs": Entry("weft.data.sentence_pairs:SentencePairsConfig", 0, "adjacent sentences, half of them swapped"),
    "spans": Entry("weft.data.spans:SpansConfig", 0, "questions about paragraphs, in the layout of SQuAD"),
    "tagged": Entry("weft.data.tagged:TaggedConfig", 0, "sentences whose words have tags"),
    "cooccurrence": Entry("weft.data.cooccurrence:CooccurrenceConfig", 0, "centre and context words of a text"),
    "waves": Entry("weft.data.audio:WavesConfig", 0, "a folder of WAV files"),
    "span_corruption": Entry("weft.data.corruption:SpanCorruptionConfig", 0, "lines of a text with a piece moved to their end"),
    "sentinels": Entry("weft.data.sentinels:SentinelsConfig", 2019, "text with several pieces cut out, as T5 learns from it"),
    "questions": Entry("weft.data.questions:QuestionsConfig", 0, "questions with an answer of a few characters"),
}
OBJECTIVES = {
    "next_token": Entry("weft.objectives.next_token:NextTokenConfig", 0, "cross-entropy of the next token"),
    "answer": Entry("weft.objectives.answer:AnswerConfig", 0, "cross-entropy of an answer, and whether all of it is right"),
    "seq2seq": Entry("weft.objectives.seq2seq:Seq2SeqConfig", 2014, "cross-entropy of a target sequence given its source"),
    "masked_target": Entry("weft.objectives.masked_target:MaskedTargetConfig", 2019, "cross-entropy of hidden targets and their number"),
    "classification": Entry("weft.objectives.classification:ClassificationConfig", 0, "cross-entropy of the class"),
    "regression": Entry("weft.objectives.regression:RegressionConfig", 0, "squared error of a number"),
    "choice": Entry("weft.objectives.choice:ChoiceConfig", 2018, "cross-entropy of the right one among several texts"),
    "finetuning": Entry("weft.objectives.finetuning:FinetuningConfig", 2018, "cross-entropy of a class or choice, and of the text itself"),
    "likelihood": Entry("weft.objectives.likelihood:LikelihoodConfig", 0, "minus the log-likelihood of a density model"),
    "reverse_kl": Entry("weft.objectives.reverse_kl:ReverseKLConfig", 2015, "divergence of what a model draws from a known density"),
    "density_distillation": Entry(
        "weft.objectives.density_distillation:DensityDistillationConfig", 2017, "a student's divergence from its teacher"
    ),
    "elbo": Entry("weft.objectives.elbo:ELBOConfig", 2013, "negative evidence lower bound"),
    "semi_supervised_elbo": Entry(
        "weft.objectives.semi_supervised_elbo:SemiSupervisedELBOConfig", 2014, "negative evidence lower bound where few classes are known"
    ),
    "adversarial": Entry("weft.objectives.adversarial:AdversarialConfig", 2014, "discriminator and generator in turns"),
    "bidirectional": Entry("weft.objectives.bidirectional:BidirectionalConfig", 2016, "the same about pairs of example and code"),
    "paired_images": Entry("weft.objectives.paired_images:PairedImagesConfig", 2016, "the same about pairs of images, and their error"),
    "cycle": Entry("weft.objectives.cycle:CycleConfig", 2017, "two such games, and the error of the way there and back"),
    "contrastive_divergence": Entry(
        "weft.objectives.contrastive_divergence:ContrastiveDivergenceConfig", 2002, "data against a short Gibbs chain"
    ),
    "boltzmann_learning": Entry(
        "weft.objectives.boltzmann_learning:BoltzmannLearningConfig", 1985, "units together on data, less together freely"
    ),
    "memory": Entry("weft.objectives.memory:MemoryConfig", 1982, "patterns to be recalled from a part of them"),
    "negative_sampling": Entry("weft.objectives.negative_sampling:NegativeSamplingConfig", 2013, "true pairs against noise"),
    "span": Entry("weft.objectives.span:SpanConfig", 2018, "cross-entropy of where an answer begins and ends"),
    "tagging": Entry("weft.objectives.tagging:TaggingConfig", 2018, "cross-entropy of the tag of each word"),
    "masked_pair": Entry("weft.objectives.masked_pair:MaskedPairConfig", 2018, "masked tokens and sentence pairs"),
}
MEASURES = {
    "seq2seq": Entry("weft.evaluation.translation:measure", 2002, "BLEU and chrF of whole translations"),
    "masked_target": Entry("weft.evaluation.translation:measure", 2002, "BLEU and chrF of whole translations made at once"),
    "span": Entry("weft.evaluation.answers:measure", 2016, "exact match and F1 of answers as text"),
    "tagging": Entry("weft.evaluation.entities:measure", 2003, "sentences without a mistake; precision, recall and F1 of entities"),
    "regression": Entry("weft.evaluation.ranks:measure", 0, "Spearman's correlation of the numbers told"),
    "contrastive_divergence": Entry("weft.evaluation.ais:measure", 2008, "log-likelihood by annealed importance sampling, from both ends"),
}
METRICS = {
    "fid": Entry("weft.evaluation.image_measures:fid", 2017, "Fréchet distance, Inception score, precision, recall, by an extractor"),
    "classified": Entry("weft.evaluation.image_measures:classified", 0, "share of samples of a class that an extractor takes for it"),
    "nearest_neighbour": Entry(
        "weft.evaluation.adversarial_measures:nearest_neighbour",
        2016,
        "share of images whose nearest by features, by code, is of their class",
    ),
    "translated": Entry(
        "weft.evaluation.adversarial_measures:translated", 0, "share of translated images that an extractor's run takes for their class"
    ),
    "iwae": Entry("weft.evaluation.image_measures:iwae", 2015, "importance-weighted bound on log p(x) with so many codes"),
}
TASKS = {
    "lambada": Entry("weft.evaluation.fewshot.tasks:LAMBADA", 2016, "the last word of a passage"),
    "lambada_fill_in": Entry("weft.evaluation.fewshot.tasks:FILL_IN", 2020, "the same as a blank to be filled in, GPT-3's few-shot form"),
    "hellaswag_val_1000": Entry("weft.evaluation.fewshot.tasks:HELLASWAG", 2019, "which ending follows, of everyday actions"),
    "storycloze": Entry("weft.evaluation.fewshot.tasks:STORYCLOZE", 2016, "which ending follows, of stories (a file given out on request)"),
    "copa": Entry("weft.evaluation.fewshot.tasks:COPA", 2011, "which is the cause or effect"),
    "piqa": Entry("weft.evaluation.fewshot.tasks:PIQA", 2019, "how a thing is done, of two ways"),
    "arc_easy": Entry("weft.evaluation.fewshot.tasks:ARC_EASY", 2018, "science questions of schools, the easier ones"),
    "arc_challenge": Entry("weft.evaluation.fewshot.tasks:ARC_CHALLENGE", 2018, "science questions of schools, the harder ones"),
    "openbook_qa": Entry("weft.evaluation.fewshot.tasks:OPENBOOK_QA", 2018, "science questions about one fact and common sense"),
    "commonsense_qa": Entry("weft.evaluation.fewshot.tasks:COMMONSENSE_QA", 2019, "common sense, answers by letter"),
    "siqa": Entry("weft.evaluation.fewshot.tasks:SIQA", 2019, "why people act and what follows, answers by letter"),
    "boolq": Entry("weft.evaluation.fewshot.tasks:BOOLQ", 2019, "yes or no, from a paragraph"),
    "winogrande": Entry("weft.evaluation.fewshot.tasks:WINOGRANDE", 2019, "to whom or what a sentence refers, many made by a crowd"),
    "winograd_wsc": Entry("weft.evaluation.fewshot.tasks:WINOGRAD", 2012, "to whom or what a sentence refers, 273 made by experts"),
    "triviaqa_sm_sub": Entry("weft.evaluation.fewshot.tasks:TRIVIAQA", 2017, "trivia, answers in writing"),
    "nq_open_dev": Entry("weft.evaluation.fewshot.tasks:NATURAL_QUESTIONS", 2019, "questions that people typed, answers in writing"),
    "jeopardy_all": Entry("weft.evaluation.fewshot.tasks:JEOPARDY", 2023, "clues of a quiz show, answers in writing"),
    "simple_arithmetic_nospaces": Entry("weft.evaluation.fewshot.tasks:ARITHMETIC", 2023, "sums, differences and products in digits"),
    "gsm8k": Entry("weft.evaluation.fewshot.tasks:GSM8K", 2021, "word problems in several steps, the final number"),
    "wmt14_en_fr": Entry("weft.evaluation.fewshot.tasks:EN_FR", 2014, "translation from English into French (a file of your own)"),
    "wmt14_fr_en": Entry("weft.evaluation.fewshot.tasks:FR_EN", 2014, "translation from French into English (a file of your own)"),
}
CONVERTERS = {
    "openai-gpt": Entry("weft.convert.openai_gpt:FAMILY", 2018, "GPT-1"),
    "gpt2": Entry("weft.convert.gpt2:FAMILY", 2019, "GPT-2"),
    "bert": Entry("weft.convert.bert:FAMILY", 2018, "BERT"),
    "llama": Entry("weft.convert.llama:FAMILY", 2023, "Llama and models of its form"),
    "t5": Entry("weft.convert.t5:FAMILY", 2019, "T5 and its version 1.1"),
    "marian": Entry("weft.convert.marian:FAMILY", 2018, "Marian's translators"),
    "vit": Entry("weft.convert.vit:FAMILY", 2020, "ViT"),
    "swin": Entry("weft.convert.swin:FAMILY", 2021, "Swin"),
}
OPTIMIZERS = {
    "sgd": Entry("weft.training.optim:SGD", 1951, "stochastic gradient descent; full-batch with batch = data"),
    "momentum": Entry("weft.training.optim:Momentum", 1964, "heavy-ball momentum"),
    "rmsprop": Entry("weft.training.optim:RMSProp", 2012, "gradient over its running size"),
    "adam": Entry("weft.training.optim:Adam", 2014, "bias-corrected first and second moments"),
    "adamw": Entry("weft.training.optim:AdamW", 2017, "Adam with decoupled weight decay"),
    "muon": Entry("weft.training.optim:Muon", 2024, "orthogonalised momentum for matrices, AdamW for the rest"),
}
TOKENIZERS = {
    "bytes": Entry("weft.data.tokenizers:ByteTokenizer", 0, "one token per byte"),
    "characters": Entry("weft.data.tokenizers:CharacterTokenizer", 0, "one token per character"),
    "words": Entry("weft.data.tokenizers:WordTokenizer", 0, "one token per word"),
    "byte_bpe": Entry("weft.data.subwords:ByteBPE", 2019, "pieces of words, merged from bytes on"),
    "bpe": Entry("weft.data.subwords:BPE", 2016, "pieces of words, merged from characters on"),
    "wordpiece": Entry("weft.data.subwords:WordPiece", 2012, "pieces of words, the longest first"),
    "unigram": Entry("weft.data.subwords:Unigram", 2018, "pieces of words, the likeliest ones"),
    "bert_words": Entry("weft.data.sentence_pairs:BERTWordTokenizer", 0, "words and the marks that BERT puts between them"),
    "labelled": Entry("weft.data.labels:LabelledTokenizer", 0, "another tokenizer with the names of classes"),
    "framed": Entry("weft.data.framed:FramedTokenizer", 2018, "another tokenizer with the marks of finetuning"),
    "classes": Entry("weft.data.tokenizers:ClassNames", 0, "the names of classes"),
    "tagged": Entry("weft.data.tagged:TagTokenizer", 0, "another tokenizer with the names of tags"),
    "table": Entry("weft.data.columns:Columns", 0, "the columns of a table"),
    "pairs": Entry("weft.data.marked_tokenizers:MarkedTokenizer", 0, "another tokenizer with marks for padding, start and end"),
    "answering": Entry("weft.data.marked_tokenizers:AnsweringTokenizer", 0, "a foreign tokenizer with the marks of a model that answers"),
    "sentinels": Entry("weft.data.sentinels:SentinelTokenizer", 2019, "another tokenizer with marks and sentinels"),
    "marked_characters": Entry("weft.data.marked_characters:MarkedCharacters", 0, "one token per character, marks for padding and mask"),
}
RECIPES = {
    "gpt/quickstart": Entry("weft.recipes.gpt:quickstart", 2018, "character GPT on Python source, two minutes on two cores"),
    "gpt/text": Entry("weft.recipes.gpt:text", 2018, "character GPT on your own text"),
    "llama/text": Entry("weft.recipes.llama:text", 2023, "Llama on your own text"),
    "llama/python": Entry("weft.recipes.llama:python", 2023, "small Llama on Python source"),
    "gpt/bytes": Entry("weft.recipes.gpt:byte_level", 2018, "byte GPT on Python source"),
    "gpt/shakespeare_char": Entry("weft.recipes.gpt:shakespeare_char", 2022, "character GPT on tiny Shakespeare"),
    "gpt/novels": Entry("weft.recipes.gpt:novels", 2019, "GPT on English novels, in pieces of words"),
    "gpt/classical": Entry("weft.recipes.gpt_pretraining:classical", 2019, "GPT-2 as it was trained, on token shards"),
    "gpt/speedrun": Entry("weft.recipes.gpt_pretraining:speedrun", 2024, "the same size in a third of the time: Muon and what came since"),
    "gpt/shards": Entry("weft.recipes.gpt:shards", 2019, "GPT on token shards of your own text, one folder or a mixture"),
    "gpt/shakespeare_cpu": Entry("weft.recipes.gpt:shakespeare_cpu", 2022, "small character GPT on tiny Shakespeare, for a CPU"),
    "gpt/classify": Entry("weft.recipes.gpt_finetuning:classify", 2018, "GPT finetuned: class of your own texts or pairs of texts"),
    "gpt/choose": Entry("weft.recipes.gpt_finetuning:choose", 2018, "GPT finetuned: the right one among several ways to go on"),
    "classifier/digits": Entry("weft.recipes.classifier:digits", 1986, "MLP on scikit-learn's digits"),
    "classifier/mnist": Entry("weft.recipes.classifier:mnist", 1986, "MLP 784-512-10 on MNIST"),
    "classifier/images": Entry("weft.recipes.classifier:images", 1986, "MLP on your own image folder"),
    "classifier/table": Entry("weft.recipes.classifier:table", 1986, "MLP on your own labelled rows"),
    "vit/digits": Entry("weft.recipes.vit:digits", 2020, "ViT on scikit-learn's digits"),
    "vit/images": Entry("weft.recipes.vit:images", 2020, "ViT on your own image folder"),
    "vit/cifar10": Entry("weft.recipes.vit:cifar10", 2020, "ViT on CIFAR-10"),
    "swin/digits": Entry("weft.recipes.swin:digits", 2021, "Swin on scikit-learn's digits"),
    "swin/images": Entry("weft.recipes.swin:images", 2021, "Swin on your own image folder"),
    "swin/cifar10": Entry("weft.recipes.swin:cifar10", 2021, "Swin on CIFAR-10"),
    "classifier/mnist_extractor": Entry("weft.recipes.extractors:mnist", 2015, "residual classifier of MNIST, for FID-mnist_extractor"),
    "classifier/fashion_extractor": Entry("weft.recipes.extractors:fashion", 2015, "the same for Fashion-MNIST"),
    "classifier/cifar10_extractor": Entry("weft.recipes.extractors:cifar10", 2015, "the same for CIFAR-10"),
    "classifier/digits_extractor": Entry("weft.recipes.extractors:digits", 2015, "the same for scikit-learn's digits"),
    "vae/digits": Entry("weft.recipes.vae:digits", 2013, "VAE on scikit-learn's digits"),
    "vae/beta": Entry("weft.recipes.vae:beta", 2017, "beta-VAE on scikit-learn's digits: a heavier KL, fewer dimensions in use"),
    "vae/inpainting": Entry("weft.recipes.vae:inpainting", 2013, "VAE that fills in a hidden square of a digit"),
    "vae/mnist_mlp": Entry("weft.recipes.vae:mnist_mlp", 2013, "VAE of perceptrons on MNIST"),
    "vae/mnist": Entry("weft.recipes.vae:mnist", 2016, "convolutional VAE on MNIST"),
    "vae/fashion": Entry("weft.recipes.vae:fashion", 2016, "convolutional VAE on Fashion-MNIST"),
    "vae/cifar10": Entry("weft.recipes.vae:cifar10", 2016, "convolutional VAE on CIFAR-10"),
    "vae/images": Entry("weft.recipes.vae:images", 2016, "convolutional VAE on your own image folder"),
    "vae/semi_supervised": Entry("weft.recipes.vae:semi_supervised", 2014, "VAE with a few labels on digits"),
    "vae/conditional_digits": Entry("weft.recipes.conditional_vae:digits", 2015, "VAE that draws the digit it is asked for"),
    "vae/conditional_mnist": Entry("weft.recipes.conditional_vae:mnist", 2015, "the same on MNIST"),
    "vae/m2_digits": Entry("weft.recipes.conditional_vae:m2_digits", 2014, "M2: VAE that learns classes from few labels, on digits"),
    "vae/m2_mnist": Entry("weft.recipes.conditional_vae:m2_mnist", 2014, "M2 on MNIST with 100 labels"),
    "gan/digits": Entry("weft.recipes.gan:digits", 2014, "GAN on scikit-learn's digits"),
    "gan/mnist": Entry("weft.recipes.gan:mnist", 2014, "GAN on MNIST"),
    "gan/ring": Entry("weft.recipes.gan:ring", 2014, "GAN on a ring of eight Gaussians, where it collapses"),
    "gan/conditional_digits": Entry("weft.recipes.gan:conditional_digits", 2014, "GAN that draws the digit it is asked for"),
    "gan/semi_digits": Entry("weft.recipes.gan:semi_digits", 2016, "GAN that learns classes from few labels, on digits"),
    "gan/semi_mnist": Entry("weft.recipes.gan:semi_mnist", 2016, "GAN that learns classes from 100 labels, on MNIST"),
    "dcgan/digits": Entry("weft.recipes.dcgan:digits", 2015, "DCGAN on scikit-learn's digits"),
    "dcgan/mnist": Entry("weft.recipes.dcgan:mnist", 2015, "DCGAN on MNIST"),
    "dcgan/fashion": Entry("weft.recipes.dcgan:fashion", 2015, "DCGAN on Fashion-MNIST"),
    "dcgan/cifar10": Entry("weft.recipes.dcgan:cifar10", 2015, "DCGAN on CIFAR-10"),
    "dcgan/images": Entry("weft.recipes.dcgan:images", 2015, "DCGAN on your own image folder"),
    "wgan/ring": Entry("weft.recipes.wgan:ring", 2017, "Wasserstein GAN with clipped weights on a ring of eight Gaussians"),
    "wgan/cifar10": Entry("weft.recipes.wgan:clipped_cifar10", 2017, "the same, convolutional, on CIFAR-10"),
    "wgan_gp/ring": Entry("weft.recipes.wgan:penalty_ring", 2017, "Wasserstein GAN with a gradient penalty on a ring of eight Gaussians"),
    "wgan_gp/digits": Entry("weft.recipes.wgan:digits", 2017, "Wasserstein GAN with a gradient penalty on scikit-learn's digits"),
    "wgan_gp/fashion": Entry("weft.recipes.wgan:fashion", 2017, "the same, convolutional, on Fashion-MNIST"),
    "wgan_gp/cifar10": Entry("weft.recipes.wgan:cifar10", 2017, "the same, convolutional, on CIFAR-10"),
    "wgan_gp/images": Entry("weft.recipes.wgan:images", 2017, "the same, convolutional, on your own image folder"),
    "gan/conditional_mnist": Entry(
        "weft.recipes.gan:conditional_mnist", 2014, "convolutional GAN that draws the digit it is asked for, MNIST"
    ),
    "bigan/digits": Entry("weft.recipes.bigan:digits", 2016, "BiGAN on scikit-learn's digits"),
    "bigan/mnist": Entry("weft.recipes.bigan:mnist", 2016, "BiGAN on MNIST"),
    "pix2pix/digits": Entry("weft.recipes.image_translation:pix2pix_digits", 2016, "pix2pix from outlines to scikit-learn's digits"),
    "pix2pix/mnist": Entry("weft.recipes.image_translation:pix2pix_mnist", 2016, "pix2pix from coarse outlines to MNIST's digits"),
    "pix2pix/facades": Entry("weft.recipes.image_translation:pix2pix_facades", 2016, "pix2pix from plans to photographs of facades"),
    "pix2pix/pairs": Entry("weft.recipes.image_translation:pix2pix_pairs", 2016, "pix2pix on your own pairs of images"),
    "cyclegan/digits": Entry("weft.recipes.image_translation:cyclegan_digits", 2017, "CycleGAN between grey and coloured digits"),
    "cyclegan/mnist": Entry("weft.recipes.image_translation:cyclegan_mnist", 2017, "CycleGAN between grey and coloured digits of MNIST"),
    "cyclegan/folders": Entry("weft.recipes.image_translation:cyclegan_folders", 2017, "CycleGAN between your own two folders of images"),
    "rbm/digits": Entry("weft.recipes.rbm:digits", 2002, "RBM by contrastive divergence on digits"),
    "rbm/persistent": Entry("weft.recipes.rbm:persistent", 2008, "RBM by a persistent chain on digits"),
    "rbm/mnist": Entry("weft.recipes.rbm:mnist", 2008, "RBM with 500 hidden units by a persistent chain on MNIST"),
    "rbm/images": Entry("weft.recipes.rbm:images", 2008, "RBM on your own image folder, in black and white"),
    "boltzmann/digits": Entry("weft.recipes.boltzmann:digits", 1985, "Boltzmann machine with hidden units on digits"),
    "hopfield/patterns": Entry("weft.recipes.hopfield:patterns", 1982, "Hopfield network that stores random patterns by Hebb's rule"),
    "hopfield/digits": Entry("weft.recipes.hopfield:digits", 1982, "Hopfield network that stores ten handwritten digits"),
    "realnvp/moons": Entry("weft.recipes.flows:realnvp_moons", 2016, "RealNVP on two moons"),
    "realnvp/digits": Entry("weft.recipes.flows:realnvp_digits", 2016, "RealNVP on scikit-learn's digits"),
    "realnvp/mnist": Entry("weft.recipes.flows:realnvp_mnist", 2016, "RealNVP on MNIST"),
    "realnvp/cifar10": Entry("weft.recipes.flows:realnvp_cifar10", 2016, "RealNVP on CIFAR-10"),
    "realnvp/images": Entry("weft.recipes.flows:realnvp_images", 2016, "RealNVP on your own image folder"),
    "maf/moons": Entry("weft.recipes.flows:maf_moons", 2017, "masked autoregressive flow on two moons"),
    "maf/digits": Entry("weft.recipes.flows:maf_digits", 2017, "masked autoregressive flow on scikit-learn's digits"),
    "maf/mnist": Entry("weft.recipes.flows:maf_mnist", 2017, "masked autoregressive flow on MNIST"),
    "iaf/lobes": Entry("weft.recipes.flows:iaf_lobes", 2016, "inverse autoregressive flow fitted to a known density"),
    "iaf/distilled": Entry("weft.recipes.flows:iaf_distilled", 2017, "inverse autoregressive flow taught two moons by a masked one"),
    "planar/lobes": Entry("weft.recipes.flows:planar_lobes", 2015, "planar flow fitted to a known density"),
    "pixelcnn/digits": Entry("weft.recipes.pixelcnn:digits", 2016, "PixelCNN on scikit-learn's digits"),
    "pixelcnn/mnist": Entry("weft.recipes.pixelcnn:mnist", 2016, "PixelCNN on binarised MNIST"),
    "pixelcnn/images": Entry("weft.recipes.pixelcnn:images", 2016, "PixelCNN on your own image folder"),
    "gated_pixelcnn/digits": Entry("weft.recipes.pixelcnn:gated_digits", 2016, "gated PixelCNN on scikit-learn's digits"),
    "gated_pixelcnn/mnist": Entry("weft.recipes.pixelcnn:gated_mnist", 2016, "gated PixelCNN on binarised MNIST"),
    "word2vec/source": Entry("weft.recipes.word2vec:source", 2013, "skip-gram word vectors on Python documentation"),
    "perceiver/source": Entry("weft.recipes.perceiver:source", 2021, "character Perceiver on Python source"),
    "birthplace/reference": Entry("weft.recipes.birthplace:reference", 2021, "birthplace task, the reference model: pretraining"),
    "birthplace/perceiver": Entry("weft.recipes.birthplace:perceiver", 2021, "the same with the reference's Perceiver"),
    "birthplace/perceiver_ar": Entry("weft.recipes.birthplace:perceiver_ar", 2022, "the same with a Perceiver that is not blind"),
    "birthplace/rotary": Entry("weft.recipes.birthplace:rotary", 2021, "the same with rotary positions"),
    "birthplace/best": Entry("weft.recipes.birthplace:best", 2021, "the same with a larger model"),
    "birthplace/questions": Entry("weft.recipes.birthplace:questions", 2021, "finetuning on questions, after pretraining"),
    "birthplace/questions_perceiver": Entry("weft.recipes.birthplace:questions_perceiver", 2021, "the same for the reference's Perceiver"),
    "birthplace/questions_mixed": Entry("weft.recipes.birthplace:questions_mixed", 2021, "finetuning where pretraining had questions"),
    "birthplace/questions_only": Entry("weft.recipes.birthplace:questions_only", 2021, "finetuning alone"),
    "birthplace/made_up": Entry("weft.recipes.birthplace:made_up", 2021, "reading about made-up people, minutes on two cores"),
    "birthplace/made_up_perceiver": Entry("weft.recipes.birthplace:made_up_perceiver", 2022, "the same with a Perceiver"),
    "birthplace/made_up_questions": Entry("weft.recipes.birthplace:made_up_questions", 2021, "learning to answer questions about them"),
    "birthplace/made_up_only": Entry("weft.recipes.birthplace:made_up_only", 2021, "learning to answer without having read"),
    "t5/text": Entry("weft.recipes.t5:text", 2019, "T5 pretraining on docstrings or on your own text"),
    "t5/pairs": Entry("weft.recipes.t5:pairs", 2019, "T5 from text to text, on your own pairs"),
    "t5/novels": Entry("weft.recipes.t5:novels", 2019, "T5 pretrained on English novels"),
    "t5/sst2": Entry("weft.recipes.t5:sst2", 2019, "T5 on SST-2, the class as a text"),
    "transformer/numbers": Entry("weft.recipes.transformer:numbers", 2017, "numbers from digits to English words, minutes on a CPU"),
    "transformer/pairs": Entry("weft.recipes.transformer:pairs", 2017, "translation of your own pairs"),
    "transformer/multi30k": Entry("weft.recipes.transformer:multi30k", 2017, "translation of Multi30k, English to German"),
    "nat/numbers": Entry("weft.recipes.nat:numbers", 2019, "numbers to words, all characters at once, a minute on a CPU"),
    "nat/pairs": Entry("weft.recipes.nat:pairs", 2019, "translation of your own pairs, all tokens at once"),
    "nat/multi30k": Entry("weft.recipes.nat:multi30k", 2019, "translation of Multi30k, all tokens at once"),
    "nat/multi30k_cut": Entry("weft.recipes.nat:multi30k_cut", 2017, "the same in one pass, cut at the first end"),
    "bert/pairs": Entry("weft.recipes.bert:pairs", 2018, "masked tokens + sentence pairs on Python documentation"),
    "bert/pretrain": Entry("weft.recipes.bert_pretraining:pretrain", 2018, "masked tokens + sentence pairs on novels and articles"),
    "bert/pretrain_no_pairs": Entry("weft.recipes.bert_pretraining:no_pairs", 2018, "the same without sentence pairs"),
    "bert/pretrain_left_to_right": Entry("weft.recipes.bert_pretraining:left_to_right", 2018, "the same read from left to right"),
    "bert/classify": Entry("weft.recipes.bert:classify", 2018, "class of your own texts or pairs of texts"),
    "bert/score": Entry("weft.recipes.bert:score", 2018, "number told of your own texts or pairs of texts"),
    "bert/sst2": Entry("weft.recipes.bert:sst2", 2018, "SST-2: whether a review is favourable"),
    "bert/cola": Entry("weft.recipes.bert:cola", 2018, "CoLA: whether a sentence is grammatical"),
    "bert/mrpc": Entry("weft.recipes.bert:mrpc", 2018, "MRPC: whether two sentences say the same"),
    "bert/rte": Entry("weft.recipes.bert:rte", 2018, "RTE: whether one text implies another"),
    "bert/qnli": Entry("weft.recipes.bert:qnli", 2018, "QNLI: whether a sentence holds the answer to a question"),
    "bert/qqp": Entry("weft.recipes.bert:qqp", 2018, "QQP: whether two questions ask the same"),
    "bert/mnli": Entry("weft.recipes.bert:mnli", 2018, "MNLI: whether one text implies another, contradicts it, or neither"),
    "bert/stsb": Entry("weft.recipes.bert:stsb", 2018, "STS-B: how alike two sentences are, as a number"),
    "bert/choice": Entry("weft.recipes.bert:choice", 2018, "the right one among several ways to go on, as in SWAG"),
    "bert/answers": Entry("weft.recipes.bert:answers", 2018, "answers to your own questions as spans of paragraphs"),
    "bert/squad": Entry("weft.recipes.bert:squad", 2018, "SQuAD: answers as spans of paragraphs"),
    "bert/tags": Entry("weft.recipes.bert:tags", 2018, "tags of the words of your own sentences"),
    "bert/brown": Entry("weft.recipes.bert:brown", 2018, "parts of speech of the Brown corpus"),
}
STUDIES = {
    "generalisation-gap": Entry(
        "weft.studies.generalisation_gap:study", 0, "how each regulariser narrows the gap between training and validation"
    ),
    "attention-copying": Entry("weft.studies.attention_copying:study", 0, "how one attention head copies a value"),
    "attention-averaging": Entry("weft.studies.attention_averaging:study", 0, "how one attention head averages two values"),
    "head-variance": Entry("weft.studies.head_variance:study", 0, "why two attention heads average more reliably than one"),
    "warm-up": Entry("weft.studies.warm_up:study", 2020, "which Transformers need a warm-up: those whose norms stand last"),
    "exploding-rnn": Entry("weft.studies.exploding_rnn:study", 2013, "a recurrent network that learns only where gradients are clipped"),
    "bert-features": Entry("weft.studies.bert_features:study", 2018, "tagging from the layers of a frozen BERT, against finetuning it"),
    "nonautoregressive-latency": Entry(
        "weft.studies.nonautoregressive_latency:study", 2017, "time to make a target at once or token by token, by its length"
    ),
    "degeneration": Entry("weft.studies.degeneration:study", 2019, "how the likeliest text repeats itself, and drawn text does not"),
    "blind-spot": Entry("weft.studies.blind_spot:study", 2016, "which pixels a PixelCNN sees, and which only a gated one does"),
    "flow-cost": Entry("weft.studies.flow_cost:study", 2017, "what determinants, densities and samples of flows cost, by dimensions"),
    "flow-interpolation": Entry("weft.studies.flow_interpolation:study", 2016, "images between four images, by way of a flow's latents"),
    "perceiver-cost": Entry("weft.studies.perceiver_cost:study", 0, "what a bottleneck of latents saves, by sequence length"),
    "gan-panels": Entry("weft.studies.gan_panels:study", 2014, "a GAN on the line as it learns: densities and discriminator"),
    "mode-collapse": Entry("weft.studies.mode_collapse:study", 2016, "which of eight Gaussians each variant of a GAN finds"),
    "vanishing-generator": Entry("weft.studies.vanishing_generator:study", 2017, "what a generator is taught by a sure discriminator"),
    "wgan-robustness": Entry("weft.studies.wgan_robustness:study", 2017, "badly made generators under two games"),
    "clipping-histogram": Entry("weft.studies.clipping_histogram:study", 2017, "a critic's weights, clipped or with a gradient penalty"),
    "critic-distance": Entry("weft.studies.critic_distance:study", 2017, "two distances of distributions that are moved apart"),
    "xy-game": Entry("weft.studies.xy_game:study", 2016, "four ways to play J = -xy"),
    "hopfield-capacity": Entry("weft.studies.hopfield_capacity:study", 1985, "how many patterns a Hopfield network recalls, by load"),
    "hopfield-denoising": Entry("weft.studies.hopfield_denoising:study", 1982, "how much damage a Hopfield network repairs"),
    "boltzmann-completion": Entry(
        "weft.studies.boltzmann_completion:study", 1985, "images filled in and cleaned by a Boltzmann machine with hidden units"
    ),
    "beta-sweep": Entry("weft.studies.beta_sweep:study", 2017, "both parts of a VAE's bound by the weight of the KL"),
    "latent-traversal": Entry("weft.studies.latent_traversal:study", 2017, "what single dimensions of a VAE's code mean"),
    "fid-and-noise": Entry("weft.studies.fid_and_noise:study", 2017, "Fréchet distance and Inception score of blurred and noisy images"),
}
BENCHES = {
    "engine-cpu": Entry("weft.benchmarks.engine_cpu:main", 0, "training speed of two small GPTs on the CPU, against peers"),
    "engine-gpu": Entry("weft.benchmarks.engine_gpu:main", 0, "training step of a small GPT on the GPU"),
    "images-gpu": Entry("weft.benchmarks.images_gpu:main", 0, "training step of a VAE and a DCGAN on the GPU, against plain loops"),
    "encoders-gpu": Entry("weft.benchmarks.encoders_gpu:main", 0, "training step of BERT-base and a translator on the GPU, against a peer"),
    "training": Entry("weft.benchmarks.training:main", 0, "speed and memory of training GPT-2 on the GPU, against a peer"),
    "generation": Entry("weft.benchmarks.generation:main", 0, "tokens a second of a GPT-2, against a peer"),
    "transformers": Entry("weft.benchmarks.transformers:main", 0, "recipes of the Transformer family on real data, over several seeds"),
    "images": Entry("weft.benchmarks.images:main", 0, "generative models on real images, over several seeds"),
    "data-build": Entry("weft.benchmarks.data_build:main", 0, "text to token shards, against the tokenizers library on the same cores"),
    "birthplace": Entry("weft.benchmarks.birthplace:main", 0, "the birthplace task on its real data, over several seeds"),
    "parity": Entry("weft.benchmarks.parity:main", 0, "outputs of converted models against transformers, both ways"),
    "serving": Entry("weft.benchmarks.serving:main", 0, "the server under load: streams, a full queue, slow clients, its pace"),
    "harness": Entry("weft.benchmarks.harness:main", 0, "lm-evaluation-harness in process against over HTTP"),
    "smollm2": Entry("weft.benchmarks.smollm2:main", 0, "SmolLM2-135M on LAMBADA and HellaSwag, beside published numbers"),
    "speedrun": Entry("weft.benchmarks.speedrun:main", 0, "time to the same loss: GPT-2's recipe against gpt/speedrun"),
    "plan": Entry("weft.benchmarks.plan:main", 0, "memory and time of training steps against what weft plan says of them"),
}
TABLES = {
    "models": MODELS,
    "data": DATA,
    "objectives": OBJECTIVES,
    "measures": MEASURES,
    "metrics": METRICS,
    "tasks": TASKS,
    "optimizers": OPTIMIZERS,
    "tokenizers": TOKENIZERS,
    "converters": CONVERTERS,
    "recipes": RECIPES,
    "studies": STUDIES,
    "benches": BENCHES,
}
SINGULAR = {"studies": "study", "benches": "bench"}
PARTS = ("models", "data", "objectives", "optimizers")
"""Tables whose names stand as "type" in a saved recipe; a name occurs in one of them only."""


def add(table: str, name: str, target: str, year: int, summary: str) -> None:
    """Register something from outside the package."""
    if name in TABLES[table] and TABLES[table][name].target != target:
        raise ConfigError(f"{table}: the name {name!r} is taken by {TABLES[table][name].target}")
    TABLES[table][name] = Entry(target, year, summary)


@cache
def load_families() -> None:
    """Let every installed package that offers families register them (once)."""
    for point in importlib.metadata.entry_points(group="weft.families"):
        try:
            point.load()()
        except Exception as error:  # of a package that is not ours
            import logging

            logging.getLogger("weft").warning(
                "the family %s (%s) could not be loaded: %s: %s", point.name, point.value, type(error).__name__, error
            )


MANY = 60
"""Choices that are too many for a sentence."""


def nearest(word: str, choices: list[str], listed: str = "") -> str:
    """ ", did you mean 'x'?" where something is close, else the choices or, where they are many, the command by which they are listed."""
    close = difflib.get_close_matches(word, choices, n=1, cutoff=0.5)
    if close:
        return f"; did you mean {close[0]!r}?"
    if listed and len(choices) > MANY:
        return f"; see {listed}"
    return f"; choose from: {', '.join(sorted(choices))}" if choices else ""


def entry(table: str, name: str) -> Entry:
    load_families()
    if name not in TABLES[table]:
        raise ConfigError(
            f"no {SINGULAR.get(table, table.rstrip('s'))} is called {name!r}{nearest(name, [*TABLES[table]], f'weft list {table}')}"
        )
    return TABLES[table][name]


def find(table: str, name: str) -> Any:
    """The object an entry names, imported now."""
    module, _, attribute = entry(table, name).target.partition(":")
    return getattr(importlib.import_module(module), attribute)


def part(name: str) -> type:
    """The config class whose registry name is `name`."""
    load_families()
    for table in PARTS:
        if name in TABLES[table]:
            found: type = find(table, name)
            return found
    raise ConfigError(f"no part is called {name!r}{nearest(name, [n for t in PARTS for n in TABLES[t]])}")


def kinds(cls: type) -> tuple[str, ...]:
    """Names of the parts that can take the place of one, itself among them: any optimiser that of any other."""
    return tuple(OPTIMIZERS) if name_of(cls) in OPTIMIZERS else ()


def name_of(cls: type) -> str | None:
    """The registry name of a config class, or None."""
    target = f"{cls.__module__}:{cls.__qualname__}"
    for table in PARTS:
        for name, candidate in TABLES[table].items():
            if candidate.target == target:
                return name
    return None
