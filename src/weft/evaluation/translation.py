"""BLEU and chrF of whole translations by sacrebleu, and the share that are right to the letter.

The signature that names the exact score, and how the translations were found, go with them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from typing import Any

from weft.core.errors import ConfigError, MissingExtra, require
from weft.data.base import Batch
from weft.evaluation.evaluate import TaskMetrics
from weft.evaluation.moses import PREFIX, cutter
from weft.objectives.language.cmlm import CMLM
from weft.objectives.language.seq2seq import Seq2Seq

log = logging.getLogger("weft")


def measure(loaded: Any, objective: Seq2Seq | CMLM, data: Any, batches: Iterable[Batch]) -> TaskMetrics | None:
    """Every source's best translation against the text of its target; None for an objective that is not about whole texts.

    The text is that of the data where these keep it, as `Pairs` does, and not what the model's tokenizer makes of it.
    """
    rows: list[dict[str, str]] = []
    if not objective.config.decode:
        return None
    try:
        sacrebleu = require("sacrebleu", "text")
    except MissingExtra as error:
        log.warning("BLEU is not measured: %s", error)
        return None
    texts, first = getattr(data, "texts", None), 0
    for batch in batches:
        there = (batch["source_length"] > 0).nonzero().squeeze(1)
        source, lengths = batch["source"][there], batch["source_length"][there]
        found = objective.answers(loaded.model, source, lengths)
        tokenizer = loaded.tokenizer
        if texts is None:
            pairs = [
                (tokenizer.decode(ids), tokenizer.decode(wanted[1:]))
                for ids, wanted in zip(source.tolist(), batch["target"][there].tolist(), strict=True)
            ]
        else:
            pairs = [texts[(first + row) % len(texts)] for row in there.tolist()]
        first += len(batch["source"])
        rows += [
            {"source": text, "translation": tokenizer.for_source(text).decode(ids), "reference": wanted}
            for (text, wanted), ids in zip(pairs, found, strict=True)
        ]
    translations, references = [row["translation"] for row in rows], [[row["reference"] for row in rows]]
    same = [row["translation"] == row["reference"] for row in rows]
    metrics, signatures = {"exact": sum(same) / max(len(same), 1)}, {}  # what counts where a text names a class
    for metric in (sacrebleu.BLEU(), sacrebleu.CHRF()):
        score = metric.corpus_score(translations, references)
        metrics[score.name.split("2")[0].lower()] = float(score.score)
        signatures[score.name.split("2")[0].lower()] = str(metric.get_signature())
    lowercase, tokenize = objective.config.lowercase, objective.config.tokenize
    if lowercase or tokenize:
        name = "_".join(["bleu", *["lc"] * lowercase, *[tokenize] * bool(tokenize)])
        metrics[name], signatures[name] = bleu(translations, references[0], lowercase, tokenize)
    compared_with = "text of the data" if texts is not None else "tokens of the data, decoded"
    content = {
        "metrics": metrics,
        "references": compared_with,
        "signatures": signatures,
        **objective.search(loaded.model),
        "translations": rows,
    }
    return TaskMetrics(metrics, json.dumps(content, indent=1, ensure_ascii=False) + "\n", ".json")


def bleu(translations: Sequence[str], references: Sequence[str], lowercase: bool, tokenize: str) -> tuple[float, str]:
    """BLEU of texts in lower case or as they are, cut into words by a tokenizer of sacrebleu or by Moses, and its signature."""
    sacrebleu = require("sacrebleu", "text")
    if not tokenize.startswith(PREFIX):
        known = sacrebleu.BLEU.TOKENIZERS
        if tokenize and tokenize not in known:
            raise ConfigError(f"--tokenize {tokenize}: sacrebleu knows {', '.join(known)}; moses-de and the like are sacremoses'")
        metric = sacrebleu.BLEU(lowercase=lowercase, tokenize=tokenize or None)
        return float(metric.corpus_score(translations, [references]).score), str(metric.get_signature())
    cut = cutter(tokenize)
    said, wanted = ([cut(text.lower() if lowercase else text) for text in texts] for texts in (translations, references))
    metric = sacrebleu.BLEU(tokenize="none", force=True)  # force: it warns of texts that are cut already
    score = float(metric.corpus_score(said, [wanted]).score)
    signature = str(metric.get_signature()).replace("tok:none", f"tok:{tokenize}")
    return score, signature.replace("case:mixed", "case:lc") if lowercase else signature
