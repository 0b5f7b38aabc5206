"""Recipes: functions that return one."""

from weft.core.registry.entry import Entry

RECIPES = {
    "gpt/quickstart": Entry("weft.recipes.language.gpt:quickstart", 2018, "character GPT on Python source, two minutes on two cores"),
    "gpt/text": Entry("weft.recipes.language.gpt:text", 2018, "character GPT on your own text"),
    "llama/text": Entry("weft.recipes.language.llama:text", 2023, "Llama on your own text"),
    "llama/python": Entry("weft.recipes.language.llama:python", 2023, "small Llama on Python source"),
    "rnn/text": Entry("weft.recipes.language.rnn:text", 2010, "recurrent character model on your own text: RNN, LSTM or GRU"),
    "min_gru/text": Entry("weft.recipes.language.min_gru:text", 2024, "minGRU or minLSTM on your own text, parallel over time"),
    "lstm/python": Entry("weft.recipes.language.rnn:python", 1997, "LSTM on Python source, character by character"),
    "lstm/shakespeare_char": Entry("weft.recipes.language.rnn:shakespeare_char", 2015, "character LSTM on tiny Shakespeare"),
    "lstm/ptb": Entry("weft.recipes.language.rnn:ptb", 2017, "AWD-LSTM of 24 M parameters on the words of Penn Treebank"),
    "lstm/ptb_char": Entry("weft.recipes.language.rnn:ptb_char", 2018, "AWD-LSTM on the characters of Penn Treebank"),
    "lstm/ptb_cpu": Entry("weft.recipes.language.rnn:ptb_cpu", 2014, "small word LSTM on Penn Treebank, five minutes on two cores"),
    "gpt/bytes": Entry("weft.recipes.language.gpt:byte_level", 2018, "byte GPT on Python source"),
    "gpt/shakespeare_char": Entry("weft.recipes.language.gpt:shakespeare_char", 2022, "character GPT on tiny Shakespeare"),
    "gpt/novels": Entry("weft.recipes.language.gpt:novels", 2019, "GPT on English novels, in pieces of words"),
    "gpt/classical": Entry("weft.recipes.language.gpt_pretraining:classical", 2019, "GPT-2 as it was trained, on token shards"),
    "gpt/speedrun": Entry(
        "weft.recipes.language.gpt_pretraining:speedrun", 2024, "the same size in a third of the time: Muon and what came since"
    ),
    "gpt/shards": Entry("weft.recipes.language.gpt:shards", 2019, "GPT on token shards of your own text, one folder or a mixture"),
    "gpt/shakespeare_cpu": Entry("weft.recipes.language.gpt:shakespeare_cpu", 2022, "small character GPT on tiny Shakespeare, for a CPU"),
    "gpt/classify": Entry(
        "weft.recipes.language.gpt_finetuning:classify", 2018, "GPT finetuned: class of your own texts or pairs of texts"
    ),
    "gpt/choose": Entry("weft.recipes.language.gpt_finetuning:choose", 2018, "GPT finetuned: the right one among several ways to go on"),
    "classifier/digits": Entry("weft.recipes.vision.classifier:digits", 1986, "MLP on scikit-learn's digits"),
    "classifier/mnist": Entry("weft.recipes.vision.classifier:mnist", 1986, "MLP 784-512-10 on MNIST"),
    "classifier/images": Entry("weft.recipes.vision.classifier:images", 2016, "residual network on your own image folder"),
    "classifier/table": Entry("weft.recipes.vision.classifier:table", 1986, "MLP on your own labelled rows"),
    "regression/table": Entry("weft.recipes.vision.classifier:number", 1986, "MLP that tells a number of your own rows"),
    "resnet/digits": Entry("weft.recipes.vision.resnet:digits", 2015, "ResNet-8 on scikit-learn's digits"),
    "resnet/images": Entry("weft.recipes.vision.resnet:images", 2015, "ResNet-18 on your own photographs, or from weights of others"),
    "resnet/cifar10": Entry("weft.recipes.vision.resnet:cifar10", 2015, "ResNet-20 on CIFAR-10, as in the paper"),
    "preact_resnet/digits": Entry("weft.recipes.vision.resnet:preact_digits", 2016, "ResNet with pre-activation on scikit-learn's digits"),
    "preact_resnet/cifar10": Entry("weft.recipes.vision.resnet:preact_cifar10", 2016, "ResNet-18 with pre-activation on CIFAR-10"),
    "densenet/digits": Entry("weft.recipes.vision.resnet:densenet_digits", 2016, "DenseNet on scikit-learn's digits"),
    "densenet/images": Entry(
        "weft.recipes.vision.resnet:densenet_images", 2016, "DenseNet-121 on your own photographs, or from weights of others"
    ),
    "densenet/cifar10": Entry("weft.recipes.vision.resnet:densenet_cifar10", 2016, "DenseNet-BC of 100 layers on CIFAR-10"),
    "highway/digits": Entry("weft.recipes.vision.resnet:highway_digits", 2015, "highway network on scikit-learn's digits"),
    "detr/shapes": Entry("weft.recipes.vision.detr:shapes", 2020, "DETR that finds circles, squares and triangles"),
    "vit/digits": Entry("weft.recipes.vision.vit:digits", 2020, "ViT on scikit-learn's digits"),
    "vit/images": Entry("weft.recipes.vision.vit:images", 2020, "ViT on your own image folder"),
    "vit/cifar10": Entry("weft.recipes.vision.vit:cifar10", 2020, "ViT on CIFAR-10"),
    "swin/digits": Entry("weft.recipes.vision.swin:digits", 2021, "Swin on scikit-learn's digits"),
    "swin/images": Entry("weft.recipes.vision.swin:images", 2021, "Swin on your own image folder"),
    "swin/cifar10": Entry("weft.recipes.vision.swin:cifar10", 2021, "Swin on CIFAR-10"),
    "classifier/mnist_extractor": Entry(
        "weft.recipes.vision.extractors:mnist", 2015, "residual classifier of MNIST, for FID-mnist_extractor"
    ),
    "classifier/fashion_extractor": Entry("weft.recipes.vision.extractors:fashion", 2015, "the same for Fashion-MNIST"),
    "classifier/cifar10_extractor": Entry("weft.recipes.vision.extractors:cifar10", 2015, "the same for CIFAR-10"),
    "classifier/digits_extractor": Entry("weft.recipes.vision.extractors:digits", 2015, "the same for scikit-learn's digits"),
    "vae/digits": Entry("weft.recipes.generative.vae:digits", 2013, "VAE on scikit-learn's digits"),
    "vae/beta": Entry("weft.recipes.generative.vae:beta", 2017, "beta-VAE on scikit-learn's digits: a heavier KL, fewer dimensions in use"),
    "vae/inpainting": Entry("weft.recipes.generative.vae:inpainting", 2013, "VAE that fills in a hidden square of a digit"),
    "vae/mnist_mlp": Entry("weft.recipes.generative.vae:mnist_mlp", 2013, "VAE of MLPs on MNIST"),
    "vae/mnist": Entry("weft.recipes.generative.vae:mnist", 2016, "convolutional VAE on MNIST"),
    "vae/fashion": Entry("weft.recipes.generative.vae:fashion", 2016, "convolutional VAE on Fashion-MNIST"),
    "vae/cifar10": Entry("weft.recipes.generative.vae:cifar10", 2016, "convolutional VAE on CIFAR-10"),
    "vae/images": Entry("weft.recipes.generative.vae:images", 2016, "convolutional VAE on your own image folder"),
    "vae/semi_supervised": Entry("weft.recipes.generative.vae:semi_supervised", 2014, "VAE with a few labels on digits"),
    "vae/conditional_digits": Entry("weft.recipes.generative.conditional_vae:digits", 2015, "VAE that draws the digit it is asked for"),
    "vae/conditional_mnist": Entry("weft.recipes.generative.conditional_vae:mnist", 2015, "the same on MNIST"),
    "vae/m2_digits": Entry(
        "weft.recipes.generative.conditional_vae:m2_digits", 2014, "M2: VAE that learns classes from few labels, on digits"
    ),
    "vae/m2_mnist": Entry("weft.recipes.generative.conditional_vae:m2_mnist", 2014, "M2 on MNIST with 100 labels"),
    "gan/digits": Entry("weft.recipes.generative.gan:digits", 2014, "GAN on scikit-learn's digits"),
    "gan/mnist": Entry("weft.recipes.generative.gan:mnist", 2014, "GAN on MNIST"),
    "gan/ring": Entry("weft.recipes.generative.gan:ring", 2014, "GAN on a ring of eight Gaussians, where it collapses"),
    "gan/conditional_digits": Entry("weft.recipes.generative.gan:conditional_digits", 2014, "GAN that draws the digit it is asked for"),
    "gan/semi_digits": Entry("weft.recipes.generative.gan:semi_digits", 2016, "GAN that learns classes from few labels, on digits"),
    "gan/semi_mnist": Entry("weft.recipes.generative.gan:semi_mnist", 2016, "GAN that learns classes from 100 labels, on MNIST"),
    "dcgan/digits": Entry("weft.recipes.generative.dcgan:digits", 2015, "DCGAN on scikit-learn's digits"),
    "dcgan/mnist": Entry("weft.recipes.generative.dcgan:mnist", 2015, "DCGAN on MNIST"),
    "dcgan/fashion": Entry("weft.recipes.generative.dcgan:fashion", 2015, "DCGAN on Fashion-MNIST"),
    "dcgan/cifar10": Entry("weft.recipes.generative.dcgan:cifar10", 2015, "DCGAN on CIFAR-10"),
    "dcgan/images": Entry("weft.recipes.generative.dcgan:images", 2015, "DCGAN on your own image folder"),
    "wgan/ring": Entry("weft.recipes.generative.wgan:ring", 2017, "Wasserstein GAN with clipped weights on a ring of eight Gaussians"),
    "wgan/cifar10": Entry("weft.recipes.generative.wgan:clipped_cifar10", 2017, "the same, convolutional, on CIFAR-10"),
    "wgan_gp/ring": Entry(
        "weft.recipes.generative.wgan:penalty_ring", 2017, "Wasserstein GAN with a gradient penalty on a ring of eight Gaussians"
    ),
    "wgan_gp/digits": Entry(
        "weft.recipes.generative.wgan:digits", 2017, "Wasserstein GAN with a gradient penalty on scikit-learn's digits"
    ),
    "wgan_gp/fashion": Entry("weft.recipes.generative.wgan:fashion", 2017, "the same, convolutional, on Fashion-MNIST"),
    "wgan_gp/cifar10": Entry("weft.recipes.generative.wgan:cifar10", 2017, "the same, convolutional, on CIFAR-10"),
    "wgan_gp/images": Entry("weft.recipes.generative.wgan:images", 2017, "the same, convolutional, on your own image folder"),
    "gan/conditional_mnist": Entry(
        "weft.recipes.generative.gan:conditional_mnist", 2014, "convolutional GAN that draws the digit it is asked for, MNIST"
    ),
    "bigan/digits": Entry("weft.recipes.generative.bigan:digits", 2016, "BiGAN on scikit-learn's digits"),
    "bigan/mnist": Entry("weft.recipes.generative.bigan:mnist", 2016, "BiGAN on MNIST"),
    "pix2pix/digits": Entry(
        "weft.recipes.generative.image_translation:pix2pix_digits", 2016, "pix2pix from outlines to scikit-learn's digits"
    ),
    "pix2pix/mnist": Entry(
        "weft.recipes.generative.image_translation:pix2pix_mnist", 2016, "pix2pix from coarse outlines to MNIST's digits"
    ),
    "pix2pix/facades": Entry(
        "weft.recipes.generative.image_translation:pix2pix_facades", 2016, "pix2pix from plans to photographs of facades"
    ),
    "pix2pix/pairs": Entry("weft.recipes.generative.image_translation:pix2pix_pairs", 2016, "pix2pix on your own pairs of images"),
    "cyclegan/digits": Entry(
        "weft.recipes.generative.image_translation:cyclegan_digits", 2017, "CycleGAN between grey and coloured digits"
    ),
    "cyclegan/mnist": Entry(
        "weft.recipes.generative.image_translation:cyclegan_mnist", 2017, "CycleGAN between grey and coloured digits of MNIST"
    ),
    "cyclegan/folders": Entry(
        "weft.recipes.generative.image_translation:cyclegan_folders", 2017, "CycleGAN between your own two folders of images"
    ),
    "rbm/digits": Entry("weft.recipes.energy.rbm:digits", 2002, "RBM by contrastive divergence on digits"),
    "rbm/persistent": Entry("weft.recipes.energy.rbm:persistent", 2008, "RBM by a persistent chain on digits"),
    "rbm/mnist": Entry("weft.recipes.energy.rbm:mnist", 2008, "RBM with 500 hidden units by a persistent chain on MNIST"),
    "rbm/images": Entry("weft.recipes.energy.rbm:images", 2008, "RBM on your own image folder, in black and white"),
    "boltzmann/digits": Entry("weft.recipes.energy.boltzmann:digits", 1985, "Boltzmann machine with hidden units on digits"),
    "hopfield/patterns": Entry(
        "weft.recipes.energy.hopfield:patterns", 1982, "Hopfield network that stores random patterns by Hebb's rule"
    ),
    "hopfield/digits": Entry("weft.recipes.energy.hopfield:digits", 1982, "Hopfield network that stores ten handwritten digits"),
    "realnvp/moons": Entry("weft.recipes.generative.flows:realnvp_moons", 2016, "RealNVP on two moons"),
    "realnvp/digits": Entry("weft.recipes.generative.flows:realnvp_digits", 2016, "RealNVP on scikit-learn's digits"),
    "realnvp/mnist": Entry("weft.recipes.generative.flows:realnvp_mnist", 2016, "RealNVP on MNIST"),
    "realnvp/cifar10": Entry("weft.recipes.generative.flows:realnvp_cifar10", 2016, "RealNVP on CIFAR-10"),
    "realnvp/images": Entry("weft.recipes.generative.flows:realnvp_images", 2016, "RealNVP on your own image folder"),
    "maf/moons": Entry("weft.recipes.generative.flows:maf_moons", 2017, "masked autoregressive flow on two moons"),
    "maf/digits": Entry("weft.recipes.generative.flows:maf_digits", 2017, "masked autoregressive flow on scikit-learn's digits"),
    "maf/mnist": Entry("weft.recipes.generative.flows:maf_mnist", 2017, "masked autoregressive flow on MNIST"),
    "iaf/lobes": Entry("weft.recipes.generative.flows:iaf_lobes", 2016, "inverse autoregressive flow fitted to a known density"),
    "iaf/distilled": Entry(
        "weft.recipes.generative.flows:iaf_distilled", 2017, "inverse autoregressive flow taught two moons by a masked one"
    ),
    "planar/lobes": Entry("weft.recipes.generative.flows:planar_lobes", 2015, "planar flow fitted to a known density"),
    "pixelcnn/digits": Entry("weft.recipes.generative.pixelcnn:digits", 2016, "PixelCNN on scikit-learn's digits"),
    "pixelcnn/mnist": Entry("weft.recipes.generative.pixelcnn:mnist", 2016, "PixelCNN on binarised MNIST"),
    "pixelcnn/images": Entry("weft.recipes.generative.pixelcnn:images", 2016, "PixelCNN on your own image folder"),
    "gated_pixelcnn/digits": Entry("weft.recipes.generative.pixelcnn:gated_digits", 2016, "gated PixelCNN on scikit-learn's digits"),
    "gated_pixelcnn/mnist": Entry("weft.recipes.generative.pixelcnn:gated_mnist", 2016, "gated PixelCNN on binarised MNIST"),
    "word2vec/source": Entry("weft.recipes.language.word2vec:source", 2013, "skip-gram word vectors on Python documentation"),
    "fasttext/classify": Entry("weft.recipes.language.fasttext:classify", 2016, "class of texts from the mean of word and n-gram vectors"),
    "word2vec/text": Entry("weft.recipes.language.word2vec:text", 2013, "skip-gram word vectors, many updates in a step, in C"),
    "word2vec/cbow": Entry(
        "weft.recipes.language.word2vec:cbow", 2013, "continuous-bag-of-words (CBOW) vectors, many updates in a step, in C"
    ),
    "word2vec/hierarchical": Entry("weft.recipes.language.word2vec:hierarchical", 2013, "CBOW vectors by hierarchical softmax"),
    "word2vec/nce": Entry("weft.recipes.language.word2vec:nce", 2012, "CBOW vectors by noise-contrastive estimation"),
    "word2vec/softmax": Entry("weft.recipes.language.word2vec:softmax", 2013, "CBOW vectors by a softmax over all words"),
    "perceiver/source": Entry("weft.recipes.language.perceiver:source", 2021, "character Perceiver on Python source"),
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
    "t5/text": Entry("weft.recipes.language.t5:text", 2019, "T5 pretraining on docstrings or on your own text"),
    "t5/pairs": Entry("weft.recipes.language.t5:pairs", 2019, "T5 from text to text, on your own pairs"),
    "t5/novels": Entry("weft.recipes.language.t5:novels", 2019, "T5 pretrained on English novels"),
    "t5/sst2": Entry("weft.recipes.language.t5:sst2", 2019, "T5 on SST-2, the class as a text"),
    "transformer/numbers": Entry(
        "weft.recipes.language.transformer:numbers", 2017, "numbers from digits to English words, minutes on a CPU"
    ),
    "transformer/pairs": Entry("weft.recipes.language.transformer:pairs", 2017, "translation of your own pairs"),
    "transformer/numbers_scheduled": Entry(
        "weft.recipes.language.transformer:numbers_scheduled", 2019, "scheduled sampling on numbers in English words, minutes on a CPU"
    ),
    "transformer/numbers_risk": Entry(
        "weft.recipes.language.transformer:numbers_risk", 2016, "minimum-risk training on BLEU of numbers in words, from a trained model"
    ),
    "transformer/numbers_policy": Entry(
        "weft.recipes.language.transformer:numbers_policy", 2016, "policy gradient on BLEU of numbers in words, from a trained model"
    ),
    "transformer/multi30k_risk": Entry(
        "weft.recipes.language.transformer:multi30k_risk", 2016, "minimum-risk training on BLEU of a translator of Multi30k"
    ),
    "transformer/multi30k": Entry("weft.recipes.language.transformer:multi30k", 2017, "translation of Multi30k, English to German"),
    "labels/sigmoid": Entry("weft.recipes.language.labels:sigmoid", 2016, "multi-label classification of texts, a sigmoid for each label"),
    "labels/generated": Entry("weft.recipes.language.labels:generated", 2018, "multi-label classification of texts by writing the labels"),
    "questions/t5": Entry("weft.recipes.language.answers:questions_t5", 2019, "questions about a paragraph as text to text, by a T5"),
    "dialogue/transformer": Entry("weft.recipes.language.answers:dialogue", 2015, "responses in a dialogue, by a Transformer"),
    "t5/tasks": Entry("weft.recipes.language.t5:tasks", 2019, "several tasks as one, text to text"),
    "parser/transformer": Entry(
        "weft.recipes.language.parser:transformer", 2015, "constituency parser: Transformer from a sentence to its linearised tree"
    ),
    "parser/rnn": Entry("weft.recipes.language.parser:rnn", 2015, "the same with recurrent networks and attention"),
    "pointer_generator/names": Entry(
        "weft.recipes.language.pointer_generator:names", 2017, "pointer-generator that answers people with names it never saw"
    ),
    "pointer_generator/pairs": Entry(
        "weft.recipes.language.pointer_generator:pairs", 2017, "pointer-generator on your own pairs of texts, by words"
    ),
    "summaries/pointer_generator": Entry(
        "weft.recipes.language.answers:summaries", 2017, "summaries by a pointer-generator, which copies words of the text"
    ),
    "questions/pointer_generator": Entry(
        "weft.recipes.language.answers:questions", 2017, "questions about a paragraph, answered by a pointer-generator"
    ),
    "pointer/sort": Entry(
        "weft.recipes.language.pointer:sort", 2016, "pointer network that sorts numbers, also more than it was trained on"
    ),
    "pointer/hull": Entry("weft.recipes.language.pointer:hull", 2015, "pointer network that finds convex hulls"),
    "pointer/sequences": Entry("weft.recipes.language.pointer:sequences", 2015, "pointer network on your own sequences and orders"),
    "rnn_seq2seq/numbers": Entry("weft.recipes.language.rnn_seq2seq:numbers", 2014, "numbers from digits to English words, by attention"),
    "rnn_seq2seq/reverse": Entry("weft.recipes.language.rnn_seq2seq:reverse", 2014, "strings of letters reversed, seconds on a CPU"),
    "rnn_seq2seq/pairs": Entry("weft.recipes.language.rnn_seq2seq:pairs", 2015, "translation of your own pairs by a recurrent network"),
    "rnn_seq2seq/multi30k": Entry(
        "weft.recipes.language.rnn_seq2seq:multi30k", 2015, "Multi30k, English to German, by a recurrent network"
    ),
    "rnn_seq2seq/multi30k_risk": Entry(
        "weft.recipes.language.rnn_seq2seq:multi30k_risk", 2016, "minimum-risk training on BLEU of a recurrent translator of Multi30k"
    ),
    "nat/numbers": Entry("weft.recipes.language.nat:numbers", 2019, "numbers to words, all characters at once, a minute on a CPU"),
    "nat/pairs": Entry("weft.recipes.language.nat:pairs", 2019, "translation of your own pairs, all tokens at once"),
    "nat/multi30k": Entry("weft.recipes.language.nat:multi30k", 2019, "translation of Multi30k, all tokens at once"),
    "nat/multi30k_cut": Entry("weft.recipes.language.nat:multi30k_cut", 2017, "the same in one pass, cut at the first end"),
    "bert/pairs": Entry("weft.recipes.language.bert:pairs", 2018, "masked tokens + sentence pairs on Python documentation"),
    "bert/pretrain": Entry(
        "weft.recipes.language.bert_pretraining:pretrain", 2018, "masked tokens + sentence pairs on novels and articles"
    ),
    "bert/pretrain_no_pairs": Entry("weft.recipes.language.bert_pretraining:no_pairs", 2018, "the same without sentence pairs"),
    "bert/pretrain_left_to_right": Entry("weft.recipes.language.bert_pretraining:left_to_right", 2018, "the same read from left to right"),
    "bert/classify": Entry("weft.recipes.language.bert:classify", 2018, "class of your own texts or pairs of texts"),
    "bert/score": Entry("weft.recipes.language.bert:score", 2018, "number told of your own texts or pairs of texts"),
    "bert/sst2": Entry("weft.recipes.language.bert:sst2", 2018, "SST-2: whether a review is favourable"),
    "bert/cola": Entry("weft.recipes.language.bert:cola", 2018, "CoLA: whether a sentence is grammatical"),
    "bert/mrpc": Entry("weft.recipes.language.bert:mrpc", 2018, "MRPC: whether two sentences say the same"),
    "bert/rte": Entry("weft.recipes.language.bert:rte", 2018, "RTE: whether one text implies another"),
    "bert/qnli": Entry("weft.recipes.language.bert:qnli", 2018, "QNLI: whether a sentence holds the answer to a question"),
    "bert/qqp": Entry("weft.recipes.language.bert:qqp", 2018, "QQP: whether two questions ask the same"),
    "bert/mnli": Entry("weft.recipes.language.bert:mnli", 2018, "MNLI: whether one text implies another, contradicts it, or neither"),
    "bert/stsb": Entry("weft.recipes.language.bert:stsb", 2018, "STS-B: how alike two sentences are, as a number"),
    "bert/choice": Entry("weft.recipes.language.bert:choice", 2018, "the right one among several ways to go on, as in SWAG"),
    "bert/answers": Entry("weft.recipes.language.bert:answers", 2018, "answers to your own questions as spans of paragraphs"),
    "bert/squad": Entry("weft.recipes.language.bert:squad", 2018, "SQuAD: answers as spans of paragraphs"),
    "bert/tags": Entry("weft.recipes.language.bert:tags", 2018, "tags of the words of your own sentences"),
    "bert/brown": Entry("weft.recipes.language.bert:brown", 2018, "parts of speech of the Brown corpus"),
    "elmo/pretrain": Entry(
        "weft.recipes.language.elmo:pretrain", 2018, "language model in both directions (biLM) on docstrings or your own text"
    ),
    "tagger/elmo": Entry("weft.recipes.language.elmo:elmo_tags", 2018, "tags of words by a BiLSTM on the layers of ELMo"),
    "tagger/words": Entry("weft.recipes.language.elmo:words", 2015, "tags of words by a BiLSTM on one vector for each word"),
    "audio_classifier/digits": Entry(
        "weft.recipes.audio.audio_classifier:digits", 2018, "which digit is said by voices never heard, or the classes of your own sounds"
    ),
    "speaker/voices": Entry("weft.recipes.audio.speaker:voices", 2017, "vectors of voices, of made-up speakers or your own"),
    "conformer_ctc/speech": Entry("weft.recipes.audio.recognition:ctc_speech", 2020, "Conformer-CTC: your own speech to text"),
    "conformer_ctc/digits": Entry("weft.recipes.audio.recognition:ctc_digits", 2020, "Conformer-CTC: strings of digits to text"),
    "transducer/digits": Entry("weft.recipes.audio.recognition:transducer_digits", 2012, "Conformer transducer (RNN-T)"),
    "transducer/pruned": Entry("weft.recipes.audio.recognition:transducer_pruned", 2022, "transducer whose joint is computed in a band"),
    "las/digits": Entry("weft.recipes.audio.recognition:las_digits", 2015, "listen, attend and spell"),
    "conformer_aed/digits": Entry("weft.recipes.audio.recognition:aed_digits", 2020, "Conformer and Transformer, by attention and CTC"),
    "conformer_aed/german": Entry("weft.recipes.audio.recognition:aed_german", 2016, "speech translation: digits to German words"),
}
