"""Tasks of `weft evaluate` for language models, and for word vectors."""

from weft.core.registry.entry import Entry

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
    "analogies": Entry(
        "weft.evaluation.words:ANALOGIES", 2013, "word vectors: a is to b as c is to which (a file such as questions-words.txt)"
    ),
    "similarity": Entry("weft.evaluation.words:SIMILARITY", 2002, "word vectors: how alike two words are (WordSim-353, MEN, SimLex-999)"),
}
