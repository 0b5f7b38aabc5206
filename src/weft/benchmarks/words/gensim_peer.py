"""What gensim does in a process of its own: run by the Python of an environment that has gensim; it knows nothing of weft.

A question is a line of JSON with `do` and its arguments, the answer another line. `time` trains on a part of a text; `train` makes the next
epochs of a run, which is kept on the disk; `make` writes files of vectors, `read` tells the bytes of one; `analogies` answers questions.
"""

from __future__ import annotations

import hashlib
import json
import logging
import sys
import time
from pathlib import Path
from typing import Any

SETTINGS = {"window": 5, "negative": 5, "sample": 1e-3, "min_count": 5, "alpha": 0.025, "min_alpha": 2.5e-6, "seed": 1}


def model_of(corpus: str, skip_gram: bool, width: int) -> Any:
    from gensim.models import Word2Vec

    model = Word2Vec(vector_size=width, sg=int(skip_gram), workers=1, **SETTINGS)
    model.build_vocab(corpus_file=corpus)
    return model


def loaded(path: str) -> Any:
    from gensim.models import Word2Vec

    return Word2Vec.load(path)


models: dict[tuple[str, bool, int], Any] = {}


def time_once(corpus: str, part: str, words: int, skip_gram: bool, width: int) -> dict[str, float]:
    """Seconds of the wall and of the processor that one thread takes for a part of a text, whose vocabulary has been counted."""
    if (corpus, skip_gram, width) not in models:
        models[corpus, skip_gram, width] = model_of(corpus, skip_gram, width)
    model = models[corpus, skip_gram, width]
    wall, cpu = time.perf_counter(), time.process_time()
    model.train(corpus_file=part, total_words=words, total_examples=model.corpus_count, epochs=1)
    return {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}


def train(corpus: str, skip_gram: bool, width: int, epochs: int, until: int, out: str) -> dict[str, float]:
    """The epochs of a run up to `until`; the rate falls from the first to the last of all, as in one go."""
    kept, done = Path(out, "model"), Path(out, "epochs.json")
    Path(out).mkdir(parents=True, exist_ok=True)
    state = json.loads(done.read_text()) if done.exists() else {"epochs": 0, "cpu_seconds": 0.0}
    model = loaded(str(kept)) if state["epochs"] else model_of(corpus, skip_gram, width)
    while state["epochs"] < until:
        first, last = (SETTINGS["alpha"] * (1 - (state["epochs"] + i) / epochs) for i in (0, 1))
        cpu = time.process_time()
        given = {"total_words": model.corpus_total_words, "total_examples": model.corpus_count, "epochs": 1}
        model.train(corpus_file=corpus, start_alpha=first, end_alpha=max(last, SETTINGS["min_alpha"]), **given)
        state = {"epochs": state["epochs"] + 1, "cpu_seconds": state["cpu_seconds"] + time.process_time() - cpu}
        model.save(str(kept))
        done.write_text(json.dumps(state))
        print(f"gensim: epoch {state['epochs']} of {epochs}", file=sys.stderr, flush=True)
    model.wv.save_word2vec_format(str(Path(out, "vectors.bin")), binary=True)
    return {"words": model.corpus_total_words, **state}


def make(corpus: str, folder: str) -> list[list[str]]:
    """Files of vectors of small trained models, and how gensim reads each."""
    from gensim.models import FastText
    from gensim.models.fasttext import save_facebook_model

    given = {"vector_size": 50, "epochs": 1, "workers": 1, **SETTINGS}
    model, out = model_of(corpus, True, 50), Path(folder)
    model.train(corpus_file=corpus, total_words=model.corpus_total_words, total_examples=model.corpus_count, epochs=1)
    model.wv.save_word2vec_format(str(out / "word2vec.bin"), binary=True)
    model.wv.save_word2vec_format(str(out / "word2vec.txt"))
    lines = (out / "word2vec.txt").read_text(encoding="utf-8").partition("\n")[2]
    (out / "glove.txt").write_text(lines, encoding="utf-8")
    subwords = FastText(corpus_file=corpus, bucket=20_000, **given)
    subwords.wv.save_word2vec_format(str(out / "fasttext.vec"))
    save_facebook_model(subwords, str(out / "fasttext.bin"))
    forms = {"word2vec.bin": "binary", "word2vec.txt": "text", "glove.txt": "no_header", "fasttext.vec": "text", "fasttext.bin": "fasttext"}
    return [[name, form] for name, form in forms.items()]


def read(path: str, form: str) -> dict[str, Any]:
    """Words and a digest of the vectors' bytes, as gensim reads a file."""
    from gensim.models import KeyedVectors
    from gensim.models.fasttext import load_facebook_vectors

    if form == "fasttext":
        vectors = load_facebook_vectors(path)
        table = vectors.vectors  # of words with their n-grams
    else:
        vectors = KeyedVectors.load_word2vec_format(path, binary=form == "binary", no_header=form == "no_header")
        table = vectors.vectors
    return {"words": list(vectors.index_to_key), "sha256": hashlib.sha256(table.astype("<f4").tobytes()).hexdigest()}


def analogies(path: str, questions: str, words: int) -> dict[str, Any]:
    """Share of right answers among the most frequent words, of all questions whose words are known."""
    from gensim.models import KeyedVectors

    vectors = KeyedVectors.load_word2vec_format(path, binary=True)
    share, sections = vectors.evaluate_word_analogies(questions, restrict_vocab=words)
    return {"accuracy": float(share), "questions": len(sections[-1]["correct"]) + len(sections[-1]["incorrect"])}


def version() -> dict[str, str]:
    import gensim
    import numpy

    return {"gensim": gensim.__version__, "numpy": numpy.__version__}


DO = {"make": make, "time": time_once, "train": train, "read": read, "analogies": analogies, "version": version}


def main() -> None:
    logging.disable(logging.WARNING)
    for line in sys.stdin:
        question = json.loads(line)
        answer: Any = DO[question.pop("do")](**question)  # type: ignore[operator]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
