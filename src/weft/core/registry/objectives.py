"""Objectives, by the class of their settings."""

from weft.core.registry.entry import Entry

OBJECTIVES = {
    "next_token": Entry(
        "weft.objectives.language.next_token:NextTokenConfig", 0, "language modelling: cross-entropy of the next token (teacher forcing)"
    ),
    "truncated_bptt": Entry(
        "weft.objectives.language.truncated_bptt:TruncatedBPTTConfig",
        2010,
        "truncated back-propagation through time: next token, with a recurrent state carried from batch to batch",
    ),
    "answer": Entry(
        "weft.objectives.language.answer:AnswerConfig", 0, "cross-entropy of an answer, and whether all of it is right (exact match)"
    ),
    "seq2seq": Entry(
        "weft.objectives.language.seq2seq:Seq2SeqConfig",
        2014,
        "sequence to sequence: cross-entropy of a target given its source (teacher forcing)",
    ),
    "scheduled_sampling": Entry(
        "weft.objectives.language.scheduled_sampling:ScheduledSamplingConfig",
        2015,
        "scheduled sampling: sequence to sequence, the decoder reading ever more of its own tokens",
    ),
    "minimum_risk": Entry(
        "weft.objectives.language.minimum_risk:MinimumRiskConfig",
        2016,
        "minimum-risk training: expected risk, such as 1 - BLEU, of answers drawn from the model",
    ),
    "policy_gradient": Entry(
        "weft.objectives.language.policy_gradient:PolicyGradientConfig",
        1992,
        "policy gradient (REINFORCE) on the reward of whole answers, such as BLEU, with a baseline",
    ),
    "cmlm": Entry(
        "weft.objectives.language.cmlm:CMLMConfig",
        2019,
        "conditional masked language model (CMLM): cross-entropy of masked target tokens and of the target's length",
    ),
    "pointing": Entry("weft.objectives.pointing:PointingConfig", 2015, "cross-entropy of the positions that a pointer network points at"),
    "classification": Entry("weft.objectives.classification:ClassificationConfig", 0, "cross-entropy of the class"),
    "multi_label": Entry("weft.objectives.multi_label:MultiLabelConfig", 0, "binary cross-entropy of each of several labels"),
    "detection": Entry(
        "weft.objectives.detection:DetectionConfig", 2020, "set prediction of objects: classes and boxes by the cheapest assignment"
    ),
    "regression": Entry("weft.objectives.regression:RegressionConfig", 0, "mean squared error of a number"),
    "multiple_choice": Entry(
        "weft.objectives.language.multiple_choice:MultipleChoiceConfig",
        2018,
        "multiple choice: cross-entropy of the right one among several texts",
    ),
    "finetuning": Entry(
        "weft.objectives.finetuning:FinetuningConfig",
        2018,
        "finetuning with an auxiliary language model loss: cross-entropy of a class or choice, and of the text",
    ),
    "likelihood": Entry("weft.objectives.generative.likelihood:LikelihoodConfig", 0, "negative log-likelihood of a density model"),
    "reverse_kl": Entry(
        "weft.objectives.generative.reverse_kl:ReverseKLConfig", 2015, "reverse KL divergence of a model's samples from a known density"
    ),
    "density_distillation": Entry(
        "weft.objectives.generative.density_distillation:DensityDistillationConfig",
        2017,
        "probability density distillation: KL divergence of a student from its teacher",
    ),
    "elbo": Entry("weft.objectives.generative.elbo:ELBOConfig", 2013, "negative evidence lower bound (ELBO)"),
    "semi_supervised_elbo": Entry(
        "weft.objectives.generative.semi_supervised_elbo:SemiSupervisedELBOConfig",
        2014,
        "negative evidence lower bound where few labels are known",
    ),
    "adversarial": Entry(
        "weft.objectives.generative.adversarial:AdversarialConfig", 2014, "GAN loss: discriminator and generator in turns"
    ),
    "bidirectional": Entry(
        "weft.objectives.language.bidirectional:BidirectionalConfig",
        2016,
        "BiGAN loss: the discriminator sees pairs of example and latent code",
    ),
    "paired_images": Entry(
        "weft.objectives.generative.paired_images:PairedImagesConfig", 2016, "conditional GAN loss and L1 loss on paired images (pix2pix)"
    ),
    "cycle": Entry(
        "weft.objectives.generative.cycle:CycleConfig", 2017, "two GAN losses and cycle consistency on unpaired images (CycleGAN)"
    ),
    "contrastive_divergence": Entry(
        "weft.objectives.energy.contrastive_divergence:ContrastiveDivergenceConfig",
        2002,
        "contrastive divergence: data against a short Gibbs chain",
    ),
    "boltzmann_learning": Entry(
        "weft.objectives.energy.boltzmann_learning:BoltzmannLearningConfig",
        1985,
        "Boltzmann learning: correlations clamped to the data minus correlations of a free chain",
    ),
    "associative_memory": Entry(
        "weft.objectives.energy.associative_memory:AssociativeMemoryConfig",
        1982,
        "associative memory: patterns to be recalled from a part of them",
    ),
    "full_softmax": Entry(
        "weft.objectives.language.full_softmax:FullSoftmaxConfig", 2013, "word vectors: cross-entropy over the whole vocabulary"
    ),
    "hierarchical_softmax": Entry(
        "weft.objectives.language.hierarchical_softmax:HierarchicalSoftmaxConfig",
        2005,
        "hierarchical softmax: cross-entropy by a path through Huffman's tree of words",
    ),
    "nce": Entry("weft.objectives.language.nce:NCEConfig", 2010, "noise-contrastive estimation (NCE) of the next word's probability"),
    "negative_sampling": Entry(
        "weft.objectives.language.negative_sampling:NegativeSamplingConfig", 2013, "negative sampling: true pairs against noise"
    ),
    "extractive_qa": Entry(
        "weft.objectives.language.extractive_qa:ExtractiveQAConfig",
        2018,
        "extractive question answering: cross-entropy of an answer's first and last token",
    ),
    "token_classification": Entry(
        "weft.objectives.language.token_classification:TokenClassificationConfig",
        2018,
        "token classification: cross-entropy of the tag of each word",
    ),
    "mlm_nsp": Entry(
        "weft.objectives.language.mlm_nsp:MLMNSPConfig",
        2018,
        "masked language modelling (MLM) and next sentence prediction (NSP), as BERT is pretrained",
    ),
    "bilm": Entry(
        "weft.objectives.language.bilm:BiLMConfig",
        2018,
        "bidirectional language model (biLM): cross-entropy of the next and of the previous word, as ELMo is pretrained",
    ),
    "ctc": Entry("weft.objectives.audio.ctc:CTCConfig", 2006, "connectionist temporal classification"),
    "rnnt": Entry("weft.objectives.audio.rnnt:RNNTConfig", 2012, "transducer (RNN-T), whole or in a band"),
    "ctc_attention": Entry(
        "weft.objectives.audio.ctc_attention:CTCAttentionConfig", 2017, "cross-entropy of a text given its sound, with CTC or without"
    ),
}
INTERCHANGEABLE = (("next_token", "truncated_bptt"), ("seq2seq", "scheduled_sampling", "minimum_risk", "policy_gradient"))
"""Objectives of which any recipe of the one may take the other: they train the same models on the same data."""
