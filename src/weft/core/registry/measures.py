"""Measures that an objective or its data bring to `weft evaluate`."""

from weft.core.registry.entry import Entry

MEASURES = {
    "seq2seq": Entry("weft.evaluation.answers:measure", 2002, "BLEU and chrF of whole answers, or what the recipe says"),
    "scheduled_sampling": Entry("weft.evaluation.answers:measure", 2002, "BLEU and chrF of whole answers, or what the recipe says"),
    "minimum_risk": Entry("weft.evaluation.answers:measure", 2002, "BLEU and chrF of whole answers, or what the recipe says"),
    "policy_gradient": Entry("weft.evaluation.answers:measure", 2002, "BLEU and chrF of whole answers, or what the recipe says"),
    "cmlm": Entry("weft.evaluation.answers:measure", 2002, "BLEU and chrF of whole translations made at once"),
    "extractive_qa": Entry("weft.evaluation.best_span:measure", 2016, "exact match and F1 of answers as text"),
    "token_classification": Entry(
        "weft.evaluation.entities:measure", 2003, "sentences without a mistake; precision, recall and F1 of entities"
    ),
    "regression": Entry("weft.evaluation.ranks:measure", 0, "Spearman's correlation of the predicted numbers"),
    "contrastive_divergence": Entry("weft.evaluation.ais:measure", 2008, "log-likelihood by annealed importance sampling, from both ends"),
    **{
        name: Entry("weft.evaluation.transcripts:measure", 1966, "word and character error rate of transcripts")
        for name in ("ctc", "rnnt", "ctc_attention")
    },
}
