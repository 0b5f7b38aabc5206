"""Word vectors of other programs: word2vec and GloVe files, and what fastText writes."""
