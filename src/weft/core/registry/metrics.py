"""Metrics that `weft evaluate --metric` computes on request."""

from weft.core.registry.entry import Entry

METRICS = {
    "recall_at_1": Entry(
        "weft.evaluation.responses:recall_at_1", 2015, "how often the right response is chosen among so many, by likelihood"
    ),
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
    "carried": Entry("weft.evaluation.carried_text:carried", 0, "perplexity of a text read as one by a recurrent model"),
    "dynamic": Entry(
        "weft.evaluation.carried_text:dynamic", 2018, "the same by dynamic evaluation: the weights learn what was read; dynamic=RATE,DECAY"
    ),
}
