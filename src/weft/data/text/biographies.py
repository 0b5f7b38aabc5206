"""Synthetic biographies: short documents about made-up people, and questions about their places of birth.

Every person has a unique name, and several documents of two sentences that each repeat it, one of which states the place of
birth: a small model memorises them after minutes on a CPU. Half of the people are in the training questions, the other half in the
evaluation questions; all of them are in the documents.
"""

from __future__ import annotations

import math
import string
from dataclasses import dataclass

import numpy as np
import torch

from weft.core import random
from weft.core.config import Config
from weft.core.errors import ConfigError

ALPHABET = string.ascii_letters + string.digits + " .,?\n"
"""Every character of documents and questions, for any seed."""

FIRST = """Ada Adam Agnes Alan Albert Alice Amos Anna Anton Arthur Bella Ben Bruno Carl Carla Cecil Celia Clara Cora Daisy Daniel David
Dora Edgar Edith Edwin Elena Eli Ella Elsa Emil Emma Enid Eric Esther Eva Felix Flora Frank Frida George Gina Greta Gustav Hanna
Harold Hazel Helen Henry Hugo Ida Ines Irene Iris Ivan Ivy Jacob Jane Jonas Joseph Judith Julia Karl Kate Klara Laura Leo Leon
Lily Lois Louis Lucy Lydia Mabel Magda Maria Mark Martha Max Mona Nadia Nina Nora Olga Oscar Otto Paul Paula Peter Rita Robert
Rosa Ruth Samuel Sara Simon Sonja Stella Thea Thomas Vera Victor Walter Wanda"""
LAST = (
    "Al Bar Bel Bor Bran Cal Car Dal Del Dor El Fal Fen Gar Gil Gor Hal Har Hol Jar Kel Kor Lan Lor Mal Mar Mel Mor Nor Or Pal Par"
    " Pel Quin Ral Ros San Sel Tal Tor Ul Val Ver Wal Win Yar Zel",
    "a be bi da do e ga go i ka la li lo ma mi na no o ra ri ro sa ta ti vi",
    "ck der dt ff kin lin ll man mond n nd ner nik rd rg s sen ski sson st th tt ver x",
)
"""Beginning, middle and end of a family name. Nearly all are different: people with the same one, who differ by the first name only,
are much harder to memorise."""
PLACES = """Aberdeen Accra Algiers Amman Amsterdam Ankara Antwerp Athens Auckland Austin Baghdad Baku Bamako Bangkok Barcelona Basel
Beirut Belfast Belgrade Bergen Berlin Bern Bogota Bologna Boston Bremen Brisbane Bristol Brussels Budapest Cairo Calgary
Canton Caracas Cardiff Chicago Cologne Cork Cracow Dakar Dallas Damascus Delhi Denver Detroit Dhaka Dresden Dublin Durban Edinburgh
Florence Frankfurt Geneva Genoa Ghent Glasgow Graz Haifa Halifax Hamburg Hanoi Harare Havana Helsinki Houston Istanbul
Jakarta Kabul Karachi Kiel Kingston Kobe Kyoto Lagos Lahore Leeds Leipzig Lima Lisbon Liverpool London Luanda Lusaka
Lyon Madrid Malaga Malmo Manila Marseille Melbourne Memphis Miami Milan Minsk Monaco Montreal Moscow Mumbai Munich
Nairobi Nantes Naples Nicosia Odessa Osaka Oslo Ottawa Oxford Palermo Paris Perth Phoenix Porto Prague Quebec Quito Reykjavik Riga
Rome Rotterdam Salzburg Santiago Sapporo Seattle Seoul Seville Shanghai Singapore Sofia Split Stockholm Stuttgart Sydney Tallinn
Tampere Tangier Tbilisi Tehran Tokyo Toronto Toulouse Trieste Tripoli Tunis Turin Uppsala Utrecht Valencia Vancouver Venice Verona
Vienna Vilnius Warsaw Winnipeg Yerevan York Zagreb Zurich"""
PREFIXES = ("", "New ", "Old ", "Port ", "Fort ")
"""Prefixes of place names, where more places are needed than PLACES has."""
WORK = "barber baker banker chemist composer critic dancer dentist doctor farmer judge lawyer painter pilot poet printer singer"
SUBJECTS = "algebra botany chemistry economics geology history law logic medicine music optics physics theology zoology"
MONTHS = "January February March April May June July August September October November December"

BIRTH = (
    "{name} was born in {place}.",
    "{name} is from {place}.",
    "{name} comes from {place}.",
    "{name} is a {work} born in {place}.",
    "{name}, born in {place}, is a {work}.",
    "Born in {place}, {name} is a {work}.",
    "The birthplace of {name} is {place}.",
    "{place} is where {name} was born.",
)
OTHER = (
    "{name} works as a {work}.",
    "{name} became a {work} early.",
    "{name} was trained as a {work}.",
    "{name} is known as a good {work}.",
    "{name} is still a {work}.",
    "By profession {name} is a {work}.",
    "The {work} {name} likes {subject}.",
    "{name} studied {subject}.",
    "{name} has a degree in {subject}.",
    "{name} taught {subject} for years.",
    "{name} wrote about {subject}.",
    "As a student {name} read {subject}.",
    "At school {name} liked {subject}.",
    "Later {name} gave up {subject}.",
    "{name} has a birthday in {month}.",
    "{name} first saw the light in {year}.",
)
"""Few facts in many phrasings: every other fact to memorise about a person slows down learning the place of birth."""


def names(people: int, seed: int) -> list[str]:
    """Unique names; once all of two words are used, with an initial between them."""
    parts = [FIRST.split(), *(part.split() for part in LAST)]
    size = math.prod(len(part) for part in parts)
    max_people = size * (1 + len(string.ascii_uppercase))
    if not 2 <= people <= max_people:
        raise ConfigError(f"--data.biographies.people must be from 2 to {max_people}, not {people}")
    result = []
    for round_ in range(-(-people // size)):
        letter = f" {string.ascii_uppercase[round_ - 1]}. " if round_ else " "
        order = random.permute(np.arange(min(size, people - round_ * size)), size, random.seed_of(seed, "names", round_))
        places = np.unravel_index(order, [len(part) for part in parts])
        chosen = ([part[i] for i in place.tolist()] for part, place in zip(parts, places, strict=True))
        result += [first + letter + begin + middle + end for first, begin, middle, end in zip(*chosen, strict=True)]
    return result


def place_names(places: int, seed: int) -> list[str]:
    """Different places in random order, the plain ones first."""
    plain = PLACES.split()
    if not 2 <= places <= len(plain) * len(PREFIXES):
        raise ConfigError(f"--data.biographies.places must be from 2 to {len(plain) * len(PREFIXES)}, not {places}")
    order = random.permute(np.arange(len(plain)), len(plain), random.seed_of(seed, "places"))
    return [prefix + plain[i] for prefix in PREFIXES for i in order.tolist()][:places]


def biographies(people: int, places: int, seed: int, variants: int = 20, skew: float = 0.0) -> tuple[list[str], list[tuple[str, str]]]:
    """Documents, `variants` about each person, and each person's name and place of birth.

    The n-th place is drawn in proportion to n ** -skew: 0 is uniform, 1 as the towns of a country.
    """
    if not 1 <= variants <= len(BIRTH) * len(OTHER):
        raise ConfigError(f"--data.biographies.variants must be from 1 to {len(BIRTH) * len(OTHER)}, not {variants}")
    if not 0.0 <= skew <= 10.0:
        raise ConfigError(f"--data.biographies.skew must be from 0 to 10, not {skew}")
    people_names, place_list = names(people, seed), place_names(places, seed)
    draw = random.uniform(random.keys(random.seed_of(seed, "lives"), torch.arange(people)), 7).numpy()
    weights = np.arange(1, places + 1, dtype=np.float64) ** -skew
    born = np.searchsorted(weights.cumsum() / weights.sum(), draw[:, 0], side="right").clip(max=places - 1)
    lines, answers = [], []
    for person, name in enumerate(people_names):
        facts = draw_facts(name, place_list[born[person]], draw[person, 1:5].tolist())
        lines += documents(facts, variants, draw[person, 5:].tolist())
        answers.append((name, place_list[born[person]]))
    return lines, answers


def draw_facts(name: str, place: str, draw: list[float]) -> dict[str, str | int]:
    """Facts about a person from numbers in [0, 1)."""
    return {
        "name": name,
        "place": place,
        "year": 1850 + int(draw[0] * 130),
        "month": pick(MONTHS, draw[1]),
        "work": pick(WORK, draw[2]),
        "subject": pick(SUBJECTS, draw[3]),
    }


def pick(words: str, draw: float) -> str:
    choices = words.split()
    return choices[int(draw * len(choices))]


def documents(facts: dict[str, str | int], variants: int, draw: list[float]) -> list[str]:
    """Different pairs of sentences: steps of an odd length through all pairs, whose number is a power of two."""
    pairs = len(BIRTH) * len(OTHER)
    begin, step = int(draw[0] * pairs), 2 * int(draw[1] * pairs) + 1
    chosen = [divmod((begin + step * i) % pairs, len(BIRTH)) for i in range(variants)]
    return [f"{BIRTH[birth]} {OTHER[other]}".format_map(facts) for other, birth in chosen]


@dataclass(frozen=True, kw_only=True)
class BiographiesConfig(Config):
    """Settings of the made-up people; the same settings give the same people in every data source."""

    people: int = 500
    """Number of people, half of them in the training questions."""
    places: int = 100
    """Number of places of birth."""
    variants: int = 20
    """Documents about each person."""
    skew: float = 0.0
    """How uneven the places are: the n-th in proportion to n ** -skew."""
    seed: int = 0
    """Seed of the people."""

    def text(self) -> str:
        """All documents, one per line."""
        lines, _ = biographies(self.people, self.places, self.seed, self.variants, self.skew)
        return "\n".join(lines) + "\n"

    def questions(self) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        """Questions and places of birth of one half of the people, for training, and of the other half, for evaluation."""
        _, answers = biographies(self.people, self.places, self.seed, 1, self.skew)
        rows = [(f"Where was {name} born?", place) for name, place in answers]
        order = random.permute(np.arange(len(rows)), len(rows), random.seed_of(self.seed, "halves")).tolist()
        half = len(rows) // 2
        return [rows[i] for i in sorted(order[:half])], [rows[i] for i in sorted(order[half:])]
