"""Objectives, by the class of their settings."""

from weft.core.registry.entry import Entry

OBJECTIVES = {
    "next_token": Entry("weft.objectives.next_token:NextTokenConfig", 0, "cross-entropy of the next token"),
    "truncated_bptt": Entry(
        "weft.objectives.truncated_bptt:TruncatedBPTTConfig", 2010, "the same, with a recurrent state carried from batch to batch"
    ),
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
    "associative_memory": Entry(
        "weft.objectives.associative_memory:AssociativeMemoryConfig", 1982, "patterns to be recalled from a part of them"
    ),
    "negative_sampling": Entry("weft.objectives.negative_sampling:NegativeSamplingConfig", 2013, "true pairs against noise"),
    "span": Entry("weft.objectives.span:SpanConfig", 2018, "cross-entropy of where an answer begins and ends"),
    "tagging": Entry("weft.objectives.tagging:TaggingConfig", 2018, "cross-entropy of the tag of each word"),
    "masked_pair": Entry("weft.objectives.masked_pair:MaskedPairConfig", 2018, "masked tokens and sentence pairs"),
}
