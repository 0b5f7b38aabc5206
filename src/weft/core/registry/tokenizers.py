"""Tokenizers, by the name that their file carries."""

from weft.core.registry.entry import Entry

TOKENIZERS = {
    "bytes": Entry("weft.data.tokenizers.base:ByteTokenizer", 0, "one token per byte"),
    "characters": Entry("weft.data.tokenizers.base:CharacterTokenizer", 0, "one token per character"),
    "words": Entry("weft.data.tokenizers.base:WordTokenizer", 0, "one token per word"),
    "whitespace": Entry("weft.data.tokenizers.base:WhitespaceTokenizer", 0, "one token per word between spaces, and one per line's end"),
    "byte_bpe": Entry("weft.data.tokenizers.subwords:ByteBPE", 2019, "pieces of words, merged from bytes on"),
    "bpe": Entry("weft.data.tokenizers.subwords:BPE", 2016, "pieces of words, merged from characters on"),
    "wordpiece": Entry("weft.data.tokenizers.subwords:WordPiece", 2012, "pieces of words, the longest first"),
    "unigram": Entry("weft.data.tokenizers.subwords:Unigram", 2018, "pieces of words, the likeliest ones"),
    "spaced_words": Entry("weft.data.tokenizers.character_ngrams:SpacedWords", 0, "one token per word between spaces"),
    "subwords": Entry(
        "weft.data.tokenizers.character_ngrams:SubwordTokenizer", 2016, "words between spaces, and n-grams of their characters"
    ),
    "fasttext": Entry("weft.data.tokenizers.character_ngrams:FastTextTokenizer", 2016, "words between spaces and hashed n-grams, as a bag"),
    "bert_words": Entry("weft.data.text.sentence_pairs:BERTWordTokenizer", 0, "words and the special tokens that BERT puts between them"),
    "tagger_words": Entry("weft.data.tokenizers.tagger_words:TaggerWordTokenizer", 0, "one token per word between spaces, as it stands"),
    "word_characters": Entry("weft.data.tokenizers.word_characters:WordCharacters", 2018, "words as the characters that ELMo reads"),
    "bilm": Entry("weft.data.tokenizers.word_characters:BiLMTokenizer", 2018, "the same with the words that a biLM predicts"),
    "labelled": Entry("weft.data.annotated.label_tokens:LabelledTokenizer", 0, "another tokenizer with the names of classes"),
    "gpt_finetuning": Entry(
        "weft.data.annotated.gpt_finetuning:GPTFinetuningTokenizer", 2018, "another tokenizer with the special tokens of finetuning"
    ),
    "classes": Entry("weft.data.tokenizers.base:ClassNames", 0, "the names of classes"),
    "tagged": Entry("weft.data.annotated.tagged:TagTokenizer", 0, "another tokenizer with the names of tags"),
    "table": Entry("weft.data.tables.columns:Columns", 0, "the columns of a table"),
    "seq2seq": Entry(
        "weft.data.tokenizers.special_tokens:Seq2SeqTokenizer", 0, "another tokenizer with special tokens for padding, start and end"
    ),
    "extended_vocabulary": Entry(
        "weft.data.tokenizers.extended_vocabulary:ExtendedVocabulary", 2017, "words, with ids of their own for unknown words of a source"
    ),
    "foreign_seq2seq": Entry(
        "weft.data.tokenizers.special_tokens:ForeignSeq2SeqTokenizer",
        0,
        "a foreign tokenizer with the special tokens of a model that answers",
    ),
    "two_sided": Entry("weft.data.tokenizers.two_sided:TwoSidedTokenizer", 0, "a tokenizer for sources and another for targets"),
    "word_shapes": Entry("weft.data.tokenizers.word_shapes:WordShapes", 0, "words between spaces, rare ones by what they look like"),
    "trees": Entry("weft.data.trees.tree_tokens:TreeTokenizer", 2015, "words of a sentence, and the tokens of its linearised tree"),
    "label_set": Entry(
        "weft.data.annotated.label_set_pairs:LabelSetTokenizer", 0, "words of a text, and the names of its labels in canonical order"
    ),
    "sentinels": Entry("weft.data.text.sentinels:SentinelTokenizer", 2019, "another tokenizer with special tokens and sentinels"),
    "birthplace_characters": Entry(
        "weft.data.tokenizers.birthplace_characters:BirthplaceCharacters", 0, "one token per character, special tokens for padding and mask"
    ),
}
