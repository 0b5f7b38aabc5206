"""BLEU of lower-cased texts cut by Moses, beside what sacremoses 0.2.0 and sacrebleu 2.6.0 made of the same sentences."""

from __future__ import annotations

import pytest

from weft.core.errors import ConfigError
from weft.evaluation import translation
from weft.evaluation.moses import cutter

RECORDED = {
    "ein boot namens „möwe“ fährt – wie immer – vorbei.": "ein boot namens &quot; möwe &quot; fährt - wie immer - vorbei .",
    "der u-bahn-fahrer, dr. müller, hat 1.000 euro (ca. 5%) verloren!": (
        "der u-bahn-fahrer , dr. müller , hat 1.000 euro ( ca. 5 % ) verloren !"
    ),
    'kinder\' korb: "a & b" <c> [d]': "kinder &apos; korb : &quot; a &amp; b &quot; &lt; c &gt; &#91; d &#93;",
    "die e.s.e. gmbh steht am 3. platz …": "die e.s.e. gmbh steht am 3. platz ...",
    "ein t-shirt mit dem aufdruck »2007«": "ein t-shirt mit dem aufdruck &quot; 2007 &quot;",
    "zwei männer": "zwei männer",
    "ein boot namens möwe fährt vorbei.": "ein boot namens möwe fährt vorbei .",
    "der u-bahn-fahrer müller hat 1.000 euro verloren!": "der u-bahn-fahrer müller hat 1.000 euro verloren !",
    'kinder korb: "a & b" [d]': "kinder korb : &quot; a &amp; b &quot; &#91; d &#93;",
    "ein t-shirt mit aufdruck »2007«": "ein t-shirt mit aufdruck &quot; 2007 &quot;",
}
TEXTS = list(RECORDED)
REFERENCES = [text.capitalize() for text in TEXTS[:6]]
SAID = [text.upper() for text in (TEXTS[6], TEXTS[7], TEXTS[8], TEXTS[3], TEXTS[9], TEXTS[5])]
BLEU = 40.63216701377158


def test_texts_are_cut_as_sacremoses_cuts_them() -> None:
    pytest.importorskip("sacremoses")
    cut = cutter("moses-de")
    assert {text: cut(text) for text in TEXTS} == RECORDED
    assert translation.bleu(SAID, REFERENCES, True, "moses-de")[0] == pytest.approx(BLEU)


def test_bleu_is_of_the_words_in_lower_case_and_its_signature_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sacrebleu")
    monkeypatch.setattr(translation, "cutter", lambda name: RECORDED.__getitem__)
    score, signature = translation.bleu(SAID, REFERENCES, True, "moses-de")
    assert score == pytest.approx(BLEU)
    assert "case:lc" in signature
    assert "tok:moses-de" in signature
    with pytest.raises(KeyError):
        translation.bleu(SAID, REFERENCES, False, "moses-de")


def test_tokenizers_of_sacrebleu_are_its_own() -> None:
    sacrebleu = pytest.importorskip("sacrebleu")
    for lowercase in (False, True):
        expected = sacrebleu.corpus_bleu(SAID, [REFERENCES], lowercase=lowercase, tokenize="intl").score
        assert translation.bleu(SAID, REFERENCES, lowercase, "intl")[0] == pytest.approx(expected)
    assert translation.bleu(SAID, REFERENCES, True, "")[0] == pytest.approx(sacrebleu.corpus_bleu(SAID, [REFERENCES], lowercase=True).score)
    with pytest.raises(ConfigError, match=r"sacrebleu knows .*moses-de"):
        translation.bleu(SAID, REFERENCES, False, "mose")


def test_a_language_is_needed() -> None:
    with pytest.raises(ConfigError, match="write the language of the targets behind moses-"):
        cutter("moses-")
