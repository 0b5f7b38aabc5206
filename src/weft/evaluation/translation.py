"""BLEU and chrF of whole translations by sacrebleu, with the signatures that name the exact scores."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from weft.core.errors import ConfigError, MissingExtra, require
from weft.evaluation.answer_rows import AnswerRow, Scored, exact
from weft.evaluation.moses import PREFIX, cutter

log = logging.getLogger("weft")


def scores(rows: Sequence[AnswerRow], config: Any) -> Scored | None:
    """BLEU and chrF of translations; None where sacrebleu is not installed."""
    try:
        sacrebleu = require("sacrebleu", "text")
    except MissingExtra as error:
        log.warning("BLEU is not measured: %s", error)
        return None
    translations, references = [row.said for row in rows], [[row.references[0] for row in rows]]
    metrics, signatures = exact(rows), {}
    for metric in (sacrebleu.BLEU(), sacrebleu.CHRF()):
        score = metric.corpus_score(translations, references)
        metrics[score.name.split("2")[0].lower()] = float(score.score)
        signatures[score.name.split("2")[0].lower()] = str(metric.get_signature())
    lowercase, tokenize = config.lowercase, config.tokenize
    if lowercase or tokenize:
        name = "_".join(["bleu", *["lc"] * lowercase, *[tokenize] * bool(tokenize)])
        metrics[name], signatures[name] = bleu(translations, references[0], lowercase, tokenize)
    return Scored(metrics, {"signatures": signatures})


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
