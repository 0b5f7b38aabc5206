"""Sources of data, by the class of their settings."""

from weft.core.registry.entry import Entry

DATA = {
    "text": Entry("weft.data.text.token_windows:TextConfig", 0, "text files as bytes, characters or words"),
    "shards": Entry(
        "weft.data.shards.shard_windows:ShardsConfig", 0, "token shards of weft data build, of one folder or a weighted mixture"
    ),
    "python_source": Entry("weft.data.text.python_source:PythonSourceConfig", 0, "the source code of this Python installation"),
    "images": Entry("weft.data.images.pixels:ImagesConfig", 0, "image folders, IDX or CIFAR files"),
    "digits": Entry("weft.data.images.digits:DigitsConfig", 0, "scikit-learn's 8 by 8 digits"),
    "shapes": Entry("weft.data.images.shapes:ShapesConfig", 0, "images of coloured shapes, with their boxes"),
    "patterns": Entry("weft.data.images.associative_memory:PatternsConfig", 0, "random binary patterns to be learned by heart"),
    "toys": Entry("weft.data.tables.toys:ToysConfig", 0, "points in the plane: moons, a ring of Gaussians, a checkerboard, circles"),
    "image_pairs": Entry("weft.data.images.paired:ImagePairsConfig", 0, "images that are two halves, side by side"),
    "outlines": Entry("weft.data.images.paired:OutlinesConfig", 0, "images and their outlines"),
    "domains": Entry("weft.data.images.domains:DomainsConfig", 0, "unpaired images: images, and other images in another style"),
    "unpaired_images": Entry("weft.data.images.unpaired:UnpairedImagesConfig", 0, "images of two folders, without pairs"),
    "pointing_sequences": Entry(
        "weft.data.tables.pointing:PointingSequencesConfig", 0, "sequences of numbers or points, and the order to point at them in"
    ),
    "pointing_task": Entry(
        "weft.data.tables.pointing:PointingTaskConfig", 2015, "numbers to sort, or points whose convex hull is to be found"
    ),
    "noise_only": Entry(
        "weft.data.tables.noise_only:NoiseOnlyConfig", 0, "no data but the noise of each example, for a target known as a density"
    ),
    "table": Entry("weft.data.tables.table:TableConfig", 0, "labelled rows of a TSV, CSV or JSONL file"),
    "pairs": Entry("weft.data.text.pairs:PairsConfig", 0, "source and target texts of a TSV, CSV or JSONL file"),
    "symbol_strings": Entry("weft.data.text.symbol_strings:SymbolStringsConfig", 0, "strings of letters, copied or reversed"),
    "number_words": Entry("weft.data.text.number_words:NumberWordsConfig", 0, "numbers in digits and in English words"),
    "bags": Entry("weft.data.annotated.bags:BagsConfig", 2016, "texts with a class each, as bags of words and n-grams in fastText's way"),
    "introductions": Entry("weft.data.text.introductions:IntroductionsConfig", 0, "introductions and answers to them, with invented names"),
    "labelled_texts": Entry(
        "weft.data.annotated.labelled_texts:LabelledTextsConfig", 0, "texts, or pairs of texts, each with a class or a number"
    ),
    "choices": Entry("weft.data.annotated.choices:ChoicesConfig", 0, "multiple choice: texts with several endings, one of them right"),
    "gpt_finetuning_texts": Entry(
        "weft.data.annotated.gpt_finetuning:GPTFinetuningTextsConfig",
        2018,
        "labelled texts or pairs between special tokens, as GPT is finetuned on them",
    ),
    "gpt_finetuning_choices": Entry(
        "weft.data.annotated.gpt_finetuning:GPTFinetuningChoicesConfig", 2018, "choices between special tokens, as GPT is finetuned on them"
    ),
    "sentence_pairs": Entry(
        "weft.data.text.sentence_pairs:SentencePairsConfig", 0, "next sentence prediction: adjacent sentences, half of the pairs negative"
    ),
    "spans": Entry(
        "weft.data.annotated.spans:SpansConfig", 0, "extractive question answering: questions about paragraphs, in the layout of SQuAD"
    ),
    "tagged": Entry("weft.data.annotated.tagged:TaggedConfig", 0, "token classification: sentences whose words have tags"),
    "python_tags": Entry(
        "weft.data.annotated.python_tags:PythonTagsConfig",
        0,
        "sentences whose words have tags, or lines of Python with the role of each token",
    ),
    "bilm_sentences": Entry(
        "weft.data.text.bilm:BiLMSentencesConfig", 2018, "sentences as words of characters, and the words to predict, as ELMo reads them"
    ),
    "cooccurrence": Entry("weft.data.text.cooccurrence:CooccurrenceConfig", 0, "centre and context words of a text"),
    "passages": Entry("weft.data.text.passages:PassagesConfig", 0, "passages of a text, of which word vectors make thousands of examples"),
    "audio": Entry("weft.data.audio.waves:AudioConfig", 0, "a folder of WAV, FLAC, OGG, Opus or MP3 files, as waves"),
    "speech": Entry(
        "weft.data.audio.speech:SpeechConfig", 0, "speech with what is said: files and their texts, or digits of made-up voices"
    ),
    "clips": Entry(
        "weft.data.audio.clips:ClipsConfig", 0, "sounds with a class each: a folder for each class, or digits of made-up voices"
    ),
    "voices": Entry("weft.data.audio.voices:VoicesConfig", 0, "mel frames of utterances, of a folder for each speaker or made up"),
    "span_corruption": Entry(
        "weft.data.text.span_corruption:SpanCorruptionConfig", 0, "span corruption: lines of a text with a masked span moved to their end"
    ),
    "t5_span_corruption": Entry(
        "weft.data.text.sentinels:T5SpanCorruptionConfig", 2019, "span corruption with sentinels, as T5 is pretrained"
    ),
    "label_sets": Entry("weft.data.annotated.label_sets:LabelSetsConfig", 0, "texts with any number of labels each, as bags of words"),
    "label_set_pairs": Entry(
        "weft.data.annotated.label_set_pairs:LabelSetPairsConfig", 0, "texts, and their labels to be named one by one"
    ),
    "summaries": Entry(
        "weft.data.text.summaries:SummariesConfig", 0, "texts and summaries: docstrings and their first lines, or your own pairs"
    ),
    "question_answers": Entry(
        "weft.data.text.question_answers:QuestionAnswersConfig", 0, "questions about paragraphs and their answers, as text to text"
    ),
    "dialogues": Entry("weft.data.text.dialogues:DialoguesConfig", 0, "turns of a dialogue and the response"),
    "tasks": Entry("weft.data.text.tasks:TasksConfig", 2019, "several tasks as text to text, each source with the name of its task"),
    "treebank": Entry("weft.data.trees.treebank:TreebankConfig", 2015, "sentences and their constituency trees, linearised"),
    "questions": Entry("weft.data.text.questions:QuestionsConfig", 0, "questions with an answer of a few characters"),
}
