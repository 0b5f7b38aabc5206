"""Models, by the class of their settings."""

from weft.core.registry.entry import Entry

MODELS = {
    "gpt": Entry("weft.models.language.gpt:GPTConfig", 2018, "decoder-only Transformer"),
    "speedrun_gpt": Entry(
        "weft.models.language.speedrun_gpt:SpeedrunGPTConfig", 2024, "GPT with QK-norm, embedding skips and zero initialisation"
    ),
    "llama": Entry("weft.models.language.llama:LlamaConfig", 2023, "decoder-only Transformer with RMS norms, rotary positions and gates"),
    "min_gru": Entry("weft.models.language.min_gru:MinGRUConfig", 2024, "minGRU or minLSTM, recurrent and parallel over time"),
    "rnn_lm": Entry("weft.models.language.rnn:RNNLMConfig", 2010, "recurrent language model: RNN, LSTM or GRU"),
    "bert": Entry("weft.models.language.bert:BERTConfig", 2018, "Transformer encoder with token and sentence-pair heads"),
    "transformer": Entry("weft.models.language.transformer:TransformerConfig", 2017, "encoder-decoder Transformer"),
    "pointer_generator": Entry(
        "weft.models.language.pointer_generator:PointerGeneratorConfig",
        2017,
        "encoder-decoder Transformer that can copy words of the source",
    ),
    "pointer_network": Entry(
        "weft.models.language.pointer_network:PointerNetworkConfig", 2015, "encoder and decoder whose outputs are positions of the input"
    ),
    "rnn_seq2seq": Entry(
        "weft.models.language.rnn_seq2seq:RNNSeq2SeqConfig", 2014, "recurrent encoder and decoder, with attention or without"
    ),
    "nonautoregressive": Entry(
        "weft.models.language.nonautoregressive:NonAutoregressiveConfig", 2017, "encoder-decoder Transformer that makes all tokens at once"
    ),
    "t5": Entry("weft.models.language.t5:T5Config", 2019, "encoder-decoder Transformer from text to text, with relative positions"),
    "perceiver": Entry("weft.models.language.perceiver:PerceiverConfig", 2021, "decoder-only Transformer over a few latents"),
    "mlp": Entry("weft.models.mlp:MLPConfig", 1986, "multilayer perceptron"),
    "detr": Entry("weft.models.vision.detr:DETRConfig", 2020, "object detection as set prediction (DETR)"),
    "vit": Entry("weft.models.vision.vit:ViTConfig", 2020, "Transformer encoder over the patches of an image"),
    "swin": Entry("weft.models.vision.swin:SwinConfig", 2021, "Transformer with attention in shifted windows of an image"),
    "resnet": Entry("weft.models.vision.resnet:ResNetConfig", 2015, "residual network, or its plain counterpart"),
    "preact_resnet": Entry("weft.models.vision.preact_resnet:PreActResNetConfig", 2016, "residual network with pre-activation"),
    "densenet": Entry("weft.models.vision.densenet:DenseNetConfig", 2016, "network whose layers read the maps of all layers before"),
    "highway": Entry("weft.models.vision.highway:HighwayConfig", 2015, "highway network of convolutions, with learned gates"),
    "convnet": Entry("weft.models.vision.convnet:ConvNetConfig", 2015, "small residual network for images of few pixels"),
    "vae": Entry("weft.models.generative.vae:VAEConfig", 2013, "variational autoencoder"),
    "conditional_vae": Entry(
        "weft.models.generative.conditional_vae:ConditionalVAEConfig", 2015, "variational autoencoder that is told the class"
    ),
    "semi_supervised_vae": Entry(
        "weft.models.generative.conditional_vae:SemiSupervisedVAEConfig", 2014, "the same that also tells the class: M2"
    ),
    "gan": Entry("weft.models.generative.gan:GANConfig", 2014, "generator against discriminator"),
    "dcgan": Entry("weft.models.generative.dcgan:DCGANConfig", 2015, "convolutional generator against convolutional discriminator"),
    "bigan": Entry("weft.models.generative.bigan:BiGANConfig", 2016, "generator and encoder against a discriminator of pairs"),
    "pix2pix": Entry("weft.models.generative.pix2pix:Pix2PixConfig", 2016, "U-Net against a discriminator of patches, for pairs of images"),
    "cyclegan": Entry("weft.models.generative.cyclegan:CycleGANConfig", 2017, "two generators, there and back, for images without pairs"),
    "rbm": Entry("weft.models.energy.rbm:RBMConfig", 1986, "restricted Boltzmann machine"),
    "boltzmann": Entry("weft.models.energy.boltzmann:BoltzmannConfig", 1985, "Boltzmann machine, fully visible or with hidden units"),
    "hopfield": Entry("weft.models.energy.hopfield:HopfieldConfig", 1982, "Hopfield network, a memory asked by a part of what it holds"),
    "planar": Entry("weft.models.generative.planar:PlanarFlowConfig", 2015, "planar flow, from noise to samples only"),
    "realnvp": Entry("weft.models.generative.realnvp:RealNVPConfig", 2016, "flow of affine couplings, on vectors"),
    "realnvp_images": Entry(
        "weft.models.generative.realnvp_images:RealNVPImagesConfig", 2016, "flow of affine couplings, on images at several scales"
    ),
    "maf": Entry("weft.models.generative.maf:MAFConfig", 2017, "masked autoregressive flow: fast density, slow samples"),
    "iaf": Entry("weft.models.generative.iaf:IAFConfig", 2016, "inverse autoregressive flow: fast samples, slow density"),
    "distilled": Entry(
        "weft.models.generative.distilled:DistilledConfig", 2017, "masked autoregressive flow and the inverse one it teaches"
    ),
    "pixelcnn": Entry("weft.models.generative.pixelcnn:PixelCNNConfig", 2016, "images pixel by pixel, by masked convolutions"),
    "gated_pixelcnn": Entry(
        "weft.models.generative.gated_pixelcnn:GatedPixelCNNConfig", 2016, "PixelCNN of two stacks, without a blind spot"
    ),
    "fasttext": Entry(
        "weft.models.language.fasttext:FastTextConfig", 2016, "mean of the vectors of words and n-grams, a linear classifier"
    ),
    "word2vec": Entry("weft.models.language.word2vec:Word2VecConfig", 2013, "word vectors, two tables"),
    "elmo": Entry(
        "weft.models.language.elmo:ELMoConfig", 2018, "language model in both directions over characters of words, and its layers"
    ),
    "tagger": Entry("weft.models.language.tagger:TaggerConfig", 2015, "bidirectional LSTM that tags words"),
    "audio_classifier": Entry(
        "weft.models.audio.audio_classifier:AudioClassifierConfig", 2018, "convolutions over the frames of a sound that name its class"
    ),
    "speaker_encoder": Entry(
        "weft.models.audio.speaker_encoder:SpeakerEncoderConfig", 2017, "LSTMs from the frames of a voice to its vector"
    ),
    "conformer_ctc": Entry("weft.models.audio.conformer:ConformerCTCConfig", 2020, "Conformer that tells a label or blank at each state"),
    "transducer": Entry("weft.models.audio.transducer:TransducerConfig", 2012, "Conformer transducer (RNN-T), with any predictor"),
    "las": Entry("weft.models.audio.las:LASConfig", 2015, "listen, attend and spell: pyramid of LSTMs, location-sensitive attention"),
    "conformer_aed": Entry(
        "weft.models.audio.conformer_aed:ConformerAEDConfig", 2020, "Conformer encoder, Transformer decoder, a head for CTC beside it"
    ),
}
