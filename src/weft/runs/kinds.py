"""What a recipe's models are, in the words of a user: "a translator", "a classifier of images"."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from weft.core import registry
from weft.core.errors import CapabilityError, WeftError
from weft.recipes.base import Recipe
from weft.recipes.base import recipe as find_recipe

ROLES = {
    "next_token": "a language model",
    "truncated_bptt": "a language model",
    "answer": "a language model",
    **dict.fromkeys(("seq2seq", "scheduled_sampling", "minimum_risk", "policy_gradient"), "a translator"),
    "cmlm": "a translator",
    **dict.fromkeys(("ctc", "rnnt", "ctc_attention"), "a recogniser of speech"),
    "pointing": "a pointer network",
    "classification": "a classifier",
    "finetuning": "a classifier",
    "regression": "a model that tells a number",
    "multiple_choice": "a model that chooses among texts",
    "extractive_qa": "a model that answers questions",
    "token_classification": "a tagger of words",
    "mlm_nsp": "an encoder",
    "bilm": "an encoder",
    "negative_sampling": "a table of word vectors",
    "hierarchical_softmax": "a table of word vectors",
    "nce": "a table of word vectors",
    "full_softmax": "a table of word vectors",
    "elbo": "a VAE",
    "semi_supervised_elbo": "a VAE",
    "likelihood": "a density model",
    "reverse_kl": "a flow",
    "density_distillation": "a flow",
    "adversarial": "a GAN",
    "bidirectional": "a GAN",
    "paired_images": "a translator of images",
    "cycle": "a translator of images",
    "contrastive_divergence": "a Boltzmann machine",
    "boltzmann_learning": "a Boltzmann machine",
    "associative_memory": "an associative memory",
}
"""By the registry name of the objective."""
OBJECTS = {"text": "texts", "shards": "texts", "annotated": "texts", "images": "images", "tables": "tables", "audio": "sound"}
"""By the room of weft.data that the data come from."""


def modality(recipe: Recipe) -> str:
    """What a recipe's data are: texts, images, tables or sound; empty where another package brings them."""
    parts = type(recipe.data).__module__.split(".")
    return OBJECTS.get(parts[2], "") if parts[:2] == ["weft", "data"] else ""


def kind(recipe: Recipe) -> str:
    """What its models are."""
    role, objects = ROLES.get(registry.name_of(type(recipe.objective)) or "", "a model"), modality(recipe)
    general = role in ("a classifier", "a model", "an encoder", "a model that tells a number", "a VAE", "a GAN", "a density model")
    return f"{role} of {objects}" if general and objects else role


@contextlib.contextmanager
def starting(recipe: Recipe, initial: Recipe | None) -> Iterator[None]:
    """Say of a model to start from that is of another kind than the recipe's, rather than what does not fit inside."""
    if initial is None or of_family(recipe, initial):
        yield
        return
    if modality(initial) and modality(recipe) and modality(initial) != modality(recipe):
        raise refusal(recipe, initial, f"it knows {modality(initial)}, and not {modality(recipe)}")
    try:
        yield
    except WeftError as error:
        raise refusal(recipe, initial, str(error)) from error


def of_family(recipe: Recipe, initial: Recipe) -> bool:
    """Whether a model is one of those that a recipe was written for."""
    own = find_recipe(recipe.name) if recipe.name in registry.RECIPES else recipe
    return type(initial.model) is type(own.model) and modality(initial) == modality(recipe)


def refusal(recipe: Recipe, initial: Recipe, why: str) -> CapabilityError:
    name, fix = f" ({initial.name})" if initial.name else "", "" if ";" in why else "; name another, or leave it out"
    return CapabilityError(f"--init: {kind(initial)}{name} cannot start {kind(recipe)} ({recipe.name}): {why}{fix}")
