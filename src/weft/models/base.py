"""What other parts may ask of a model: its settings' base class, and capabilities as small protocols."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

from torch import Tensor, nn

from weft.core.config import Config
from weft.core.errors import CapabilityError, ConfigError, DataError
from weft.nn.state import SequenceState


@dataclass(frozen=True, kw_only=True)
class ModelConfig(Config):
    """Settings of a model; fields that are 0 and named like a fact of the data are filled in from it."""

    of_task: ClassVar[tuple[str, ...]] = ()
    """Fields that belong to a task, not to what was learned: finetuning keeps the recipe's own."""

    def build(self) -> nn.Module:
        raise NotImplementedError


class Refuses(Protocol):
    """Says how it must not be run, by class attributes as an `Objective` has them; whatever it does not name is allowed."""

    compile: bool
    """False where it must not be compiled."""
    capture: bool
    """False where it decides something on the host, which a captured graph could not replay."""
    autocast: bool
    """False where bf16 would lose the answer."""


class Model(Protocol):
    """What every model is besides its capabilities: a module that was built from settings."""

    training: bool
    config: Any

    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]: ...
    def eval(self) -> Self: ...


class NextTokenLogits(Model, Protocol):
    """Gives logits over a vocabulary at every position, through `hidden` and `head`."""

    def hidden(self, ids: Tensor) -> Tensor: ...
    def head(self, hidden: Tensor) -> Tensor: ...


class States(Model, Protocol):
    """Gives a state to every token of a text."""

    def hidden(self, ids: Tensor) -> Tensor: ...


class Decodes(Model, Protocol):
    """Continues sequences, reading each token once, with what it carries from token to token in a state.

    A decoder's `hidden(ids, state, lengths)` reads ids (B, T) behind what the state holds; lengths (B,) tell how many of them are real,
    None that all are. A decoder beside an encoder does so in `decode(target, memory, lengths, state)`.
    """

    def new_state(self) -> SequenceState: ...
    def head(self, hidden: Tensor) -> Tensor: ...


class TellsActivations(Model, Protocol):
    """Gives its last layer's states before and after dropout."""

    def outputs(self, ids: Tensor) -> tuple[Tensor, Tensor]: ...


class Samples(Model, Protocol):
    """Draws examples, one per key."""

    def sample(self, key: Tensor) -> Tensor: ...


class SamplesClass(Model, Protocol):
    """Draws examples of the classes that are asked for, one per key and label."""

    def sample_class(self, key: Tensor, label: Tensor) -> Tensor: ...


class HasLatents(Model, Protocol):
    """Draws latents, one per key, and shows the example of any latent, so that one can walk between them."""

    def latents(self, key: Tensor) -> Tensor: ...
    def to_data(self, z: Tensor) -> Tensor: ...


class Densities(Model, Protocol):
    """Gives the log-density, or for discrete data the log-probability, of examples, in nats of the values it is given."""

    def log_prob(self, x: Tensor) -> Tensor: ...


class Inverts(Model, Protocol):
    """Maps examples to latents and latents back to the same examples."""

    def to_latent(self, x: Tensor) -> Tensor: ...
    def to_data(self, z: Tensor) -> Tensor: ...


class SamplesWithLogProb(Model, Protocol):
    """Draws examples, one per key, each with its log-density; both carry a gradient."""

    def draw(self, key: Tensor) -> tuple[Tensor, Tensor]: ...


class Inpaints(Model, Protocol):
    """Fills in what is missing of an example, where a mask of the same shape says what is known of it; draws with a key per example."""

    def inpaint(self, x: Tensor, known: Tensor, key: Tensor | None = None) -> Tensor: ...


class TranslatesImages(Model, Protocol):
    """Translates images into images of another domain, in the direction "a2b" and, where it can, "b2a"."""

    def translate(self, x: Tensor, direction: str) -> Tensor: ...


class BipartiteEnergy(Model, Protocol):
    """Has visible and hidden binary units, those of one side independent given the other, and tells the log-odds of each side."""

    def visible_logits(self, h: Tensor) -> Tensor: ...
    def hidden_logits(self, v: Tensor) -> Tensor: ...
    def free_energy(self, v: Tensor) -> Tensor: ...


class Recalls(Model, Protocol):
    """Runs from a damaged pattern of -1 and 1 into a minimum of its energy."""

    def energy(self, x: Tensor) -> Tensor: ...
    def pseudo_log_likelihood(self, x: Tensor) -> Tensor: ...
    def recall(self, x: Tensor) -> Tensor: ...


class Embeds(Model, Protocol):
    """Gives a vector to a token."""

    def embed(self, ids: Tensor) -> Tensor: ...


class Classifies(Model, Protocol):
    """Gives class logits to an example, which may be several tensors, as ids, segments and lengths of a text are."""

    def classify(self, *inputs: Tensor) -> Tensor: ...


class GivesProbabilities(Model, Protocol):
    """Says what the probabilities of classes are, where they are not the softmax of its logits."""

    def probabilities(self, logits: Tensor) -> Tensor: ...


class Extracts(Model, Protocol):
    """Gives features to an image, and class logits to the features."""

    def features(self, x: Tensor) -> Tensor: ...
    def classify_features(self, features: Tensor) -> Tensor: ...


class ClassifiesText(Model, Protocol):
    """Gives logits to classes and to choices from the last state of a text, and to the next token from every state."""

    def hidden(self, ids: Tensor) -> Tensor: ...
    def head(self, hidden: Tensor) -> Tensor: ...
    def class_logits(self, hidden: Tensor, lengths: Tensor) -> Tensor: ...
    def choice_logits(self, hidden: Tensor, lengths: Tensor) -> Tensor: ...


class EncoderDecoder(Model, Protocol):
    """Gives a target to a source, through an encoder and a decoder.

    A source (B, S, …) is token ids, or features such as frames of sound or patches of an image.
    """

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Tensor: ...
    def decode(self, target: Tensor, memory: Tensor, lengths: Tensor | None = None) -> Tensor: ...
    def head(self, hidden: Tensor) -> Tensor: ...


class Detects(Model, Protocol):
    """Finds the objects of an image: logits of their classes, the last that there is none, and their boxes."""

    def detect(self, image: Tensor) -> tuple[Tensor, Tensor]: ...


class PointsAtInputs(Protocol):
    """Points at its inputs, one after the other, until it points at the end."""

    def pointer_logits(self, points: Tensor, lengths: Tensor, order: Tensor) -> Tensor: ...
    def point(self, points: Tensor, lengths: Tensor) -> Tensor: ...


class SourceAttention(Protocol):
    """Gives, beside the states of its decoder, the weights with which each position of the target attended to the source (B, T, S)."""

    def decode_with_attention(self, target: Tensor, memory: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]: ...


class Subsamples(Protocol):
    """Encodes a source in another number of states than it is long, as strided convolutions over frames of sound do, or a recurrent network
    that adds its last state."""

    def encoded_lengths(self, lengths: Tensor) -> Tensor: ...


class EmitsLabels(Model, Protocol):
    """Tells a label or blank, which is token 0, at each state of its encoder (CTC)."""

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Tensor: ...
    def encoded_lengths(self, lengths: Tensor) -> Tensor: ...
    def ctc_head(self, states: Tensor) -> Tensor: ...


class Transduces(Model, Protocol):
    """Tells a label or blank, which is token 0, from a state of its encoder and what a network over the labels so far says of them."""

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Tensor: ...
    def encoded_lengths(self, lengths: Tensor) -> Tensor: ...
    def predict(self, ids: Tensor, state: dict[str, Tensor] | None = None) -> tuple[Tensor, dict[str, Tensor]]: ...
    def from_frame(self, states: Tensor) -> Tensor: ...
    def from_symbols(self, predicted: Tensor) -> Tensor: ...
    def join(self, frame: Tensor, symbols: Tensor) -> Tensor: ...


class NonAutoregressiveDecoder(Model, Protocol):
    """Gives a target to a source at once: tells its length, then all tokens from those that are known."""

    @property
    def longest(self) -> int:
        """Most tokens of a target."""

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Tensor: ...
    def length_logits(self, memory: Tensor, lengths: Tensor) -> Tensor: ...
    def decode_parallel(self, target: Tensor, sizes: Tensor | None, memory: Tensor, lengths: Tensor | None = None) -> Tensor: ...
    def head(self, hidden: Tensor) -> Tensor: ...


def hears(model: Any) -> bool:
    """Whether the sources of a model are frames of sound, of so many features, and not tokens."""
    return bool(getattr(getattr(model, "config", None), "features", 0)) and offers(model, Subsamples)


def check_sizes(config: ModelConfig, **least: int) -> None:
    """Refuse settings below their least value: `check_sizes(config, layers=1, ffn_width=0)`."""
    for name, low in least.items():
        if name == "classes" and getattr(config, name) == 0 < low:
            raise ConfigError(
                f"--model.classes must be at least {low}, and the data has none to tell apart: "
                "give images of each class a folder of their own, or take other data"
            )
        if not getattr(config, name) >= low:  # nor what is not a number
            raise ConfigError(f"--model.{name} must be at least {low}, not {getattr(config, name)}")


def check_shares(config: ModelConfig, *names: str) -> None:
    """Refuse shares (of dropout) outside 0 to 1."""
    for name in names:
        if not 0.0 <= getattr(config, name) < 1.0:
            raise ConfigError(f"--model.{name} must be at least 0 and below 1, not {getattr(config, name)}")


def as_examples(model: nn.Module, x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """x (B, ...) -> (B, *shape). Examples of another size are refused, as they would become more or fewer than they are."""
    if math.prod(x.shape[1:]) != math.prod(shape):
        expected = ", ".join(map(str, ("B", *shape)))
        raise DataError(f"{type(model).__name__} takes examples of shape ({expected}), not {tuple(x.shape)}")
    return x.reshape(len(x), *shape)


def offers(model: Any, capability: type) -> bool:
    """Whether a model has every method of a capability; a submodule that can be called is one too."""
    methods = (name for name, what in vars(capability).items() if not (name.startswith("_") or isinstance(what, property)))
    return all(callable(getattr(model, name, None)) for name in methods)


def need(model: Any, capability: type) -> None:
    """Say which capability is missing, rather than fail inside."""
    if not offers(model, capability):
        meaning = (capability.__doc__ or "").strip().partition("\n")[0].rstrip(".").lower()
        raise CapabilityError(f"{type(model).__name__} does not offer {capability.__name__} (a model that {meaning})")
