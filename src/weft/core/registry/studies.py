"""Studies of `weft study`."""

from weft.core.registry.entry import Entry

STUDIES = {
    "generalisation-gap": Entry(
        "weft.studies.optimization.generalisation_gap:study", 0, "how each regulariser narrows the gap between training and validation"
    ),
    "attention-copying": Entry("weft.studies.language.attention_copying:study", 0, "how one attention head copies a value"),
    "attention-averaging": Entry("weft.studies.language.attention_averaging:study", 0, "how one attention head averages two values"),
    "monotonic-attention": Entry(
        "weft.studies.language.monotonic_attention:study",
        2015,
        "guided and location-sensitive attention, where a target goes along its source",
    ),
    "head-variance": Entry("weft.studies.language.head_variance:study", 0, "why two attention heads average more reliably than one"),
    "warm-up": Entry("weft.studies.optimization.warm_up:study", 2020, "which Transformers need a warm-up: those whose norms stand last"),
    "exploding-rnn": Entry(
        "weft.studies.optimization.exploding_rnn:study", 2013, "a recurrent network that learns only where gradients are clipped"
    ),
    "gradient-growth": Entry(
        "weft.studies.language.gradient_growth:study", 1994, "how gradients through time grow or vanish, by the spectral radius"
    ),
    "memory-horizon": Entry(
        "weft.studies.language.memory_horizon:study", 1997, "for how many steps RNN, LSTM and GRU learn to remember a symbol"
    ),
    "bert-features": Entry(
        "weft.studies.language.bert_features:study", 2018, "tagging from the layers of a frozen BERT, against finetuning it"
    ),
    "word-senses": Entry(
        "weft.studies.language.word_senses:study", 2018, "two meanings of one word, by ELMo's layers and by vectors without context"
    ),
    "nonautoregressive-latency": Entry(
        "weft.studies.language.nonautoregressive_latency:study", 2017, "time to make a target at once or token by token, by its length"
    ),
    "degeneration": Entry(
        "weft.studies.language.degeneration:study", 2019, "how the likeliest text repeats itself, and drawn text does not"
    ),
    "blind-spot": Entry("weft.studies.generative.blind_spot:study", 2016, "which pixels a PixelCNN sees, and which only a gated one does"),
    "flow-cost": Entry(
        "weft.studies.generative.flow_cost:study", 2017, "what determinants, densities and samples of flows cost, by dimensions"
    ),
    "flow-interpolation": Entry(
        "weft.studies.generative.flow_interpolation:study", 2016, "images between four images, by way of a flow's latents"
    ),
    "exposure-bias": Entry(
        "weft.studies.language.exposure_bias:study",
        2015,
        "how much more often a decoder errs behind its own tokens than behind true ones",
    ),
    "error-propagation": Entry(
        "weft.studies.language.error_propagation:study", 2015, "what one wrong token does to those that a decoder says next"
    ),
    "fixed-memory": Entry(
        "weft.studies.language.fixed_memory:study", 2014, "strings that a memory of fixed size holds, by length, and where attention looks"
    ),
    "attention-scores": Entry(
        "weft.studies.language.attention_scores:study", 2017, "additive, unscaled and scaled scores of attention, by the width of keys"
    ),
    "path-lengths": Entry(
        "weft.studies.language.path_lengths:study", 2017, "operations between two tokens: recurrent, convolutional and Transformer"
    ),
    "perceiver-cost": Entry("weft.studies.language.perceiver_cost:study", 0, "what a bottleneck of latents saves, by sequence length"),
    "gan-panels": Entry("weft.studies.generative.gan_panels:study", 2014, "a GAN on the line as it learns: densities and discriminator"),
    "mode-collapse": Entry("weft.studies.generative.mode_collapse:study", 2016, "which of eight Gaussians each variant of a GAN finds"),
    "vanishing-generator": Entry(
        "weft.studies.generative.vanishing_generator:study", 2017, "what a generator is taught by a sure discriminator"
    ),
    "wgan-robustness": Entry("weft.studies.generative.wgan_robustness:study", 2017, "badly made generators under two games"),
    "clipping-histogram": Entry(
        "weft.studies.generative.clipping_histogram:study", 2017, "a critic's weights, clipped or with a gradient penalty"
    ),
    "critic-distance": Entry("weft.studies.generative.critic_distance:study", 2017, "two distances of distributions that are moved apart"),
    "xy-game": Entry("weft.studies.generative.xy_game:study", 2016, "four ways to play J = -xy"),
    "hopfield-capacity": Entry(
        "weft.studies.energy.hopfield_capacity:study", 1985, "how many patterns a Hopfield network recalls, by load"
    ),
    "hopfield-denoising": Entry("weft.studies.energy.hopfield_denoising:study", 1982, "how much damage a Hopfield network repairs"),
    "boltzmann-completion": Entry(
        "weft.studies.energy.boltzmann_completion:study", 1985, "images filled in and cleaned by a Boltzmann machine with hidden units"
    ),
    "beta-sweep": Entry("weft.studies.generative.beta_sweep:study", 2017, "both parts of a VAE's bound by the weight of the KL"),
    "latent-traversal": Entry("weft.studies.generative.latent_traversal:study", 2017, "what single dimensions of a VAE's code mean"),
    "fid-and-noise": Entry(
        "weft.studies.generative.fid_and_noise:study", 2017, "Fréchet distance and Inception score of blurred and noisy images"
    ),
    "one-hot": Entry("weft.studies.language.one_hot:study", 2013, "distances of one-hot and of dense vectors of words"),
    "toy-corpus": Entry("weft.studies.language.toy_corpus:study", 2003, "a language model says how often a context goes on in each way"),
    "no-negatives": Entry("weft.studies.language.no_negatives:study", 2013, "word vectors collapse without noise words"),
    "nce-likelihood": Entry(
        "weft.studies.language.nce_likelihood:study", 2012, "the gradient of NCE becomes that of the likelihood, and Z learns to be 1"
    ),
    "nce-speed": Entry("weft.studies.language.nce_speed:study", 2012, "time of a step by NCE and by a full softmax, by the vocabulary"),
    "importance-sampling": Entry(
        "weft.studies.language.importance_sampling:study", 2003, "how the variance of a sampled softmax grows as the model gets sure"
    ),
}
