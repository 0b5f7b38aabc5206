"""What may be asked, in OpenAI's words: every documented field is used, ignored for a stated reason or refused with one."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, FailFast, Field, WithJsonSchema, model_validator

from weft.core.errors import ConfigError
from weft.inference.mask_predict import MaskPredict
from weft.inference.non_autoregressive import LONGEST_FACTOR
from weft.inference.request import Sampling

MOST_ANSWERS, MOST_STOPS, LONGEST_STOP, MOST_BIASES = 128, 4, 1000, 1024
MOST_COMPLETION_LOGPROBS, MOST_CHAT_LOGPROBS = 5, 20
MOST_BEAMS, MOST_ITERATIONS = 32, 100
MOST_MESSAGES = 4096
NOT_WITH_BEAMS = (
    *("stream", "best_of", "echo", "logprobs", "temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty"),
    *("repetition_penalty", "logit_bias", "stop", "stop_token_ids", "ignore_eos"),
)
LIKELIEST_ONLY = 1e-9
"""OpenAI lets top_p be 0, which leaves the likeliest token."""


def check_prompt(value: Any) -> Any:
    """Looked at by hand: a list of a million numbers is checked at once, and a wrong one gets one sentence."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not value:
        raise ValueError("must be a text, a list of texts, a list of tokens or a list of such lists, and not empty")
    if all(type(item) is int for item in value) or all(isinstance(item, str) for item in value):
        return value
    if all(isinstance(item, list) and item and all(type(number) is int for number in item) for item in value):
        return value
    raise ValueError("must hold texts only, whole numbers (tokens) only, or lists of tokens only, none of them empty")


def check_stop(value: Any) -> Any:
    stops = [value] if isinstance(value, str) else value
    if not isinstance(stops, list) or not all(isinstance(text, str) for text in stops):
        raise ValueError("must be a text or a list of texts")
    if len(stops) > MOST_STOPS:
        raise ValueError(f"may hold at most {MOST_STOPS} texts, not {len(stops)}")
    if any(not 0 < len(text) <= LONGEST_STOP for text in stops):
        raise ValueError(f"each text must have 1 to {LONGEST_STOP} characters")
    return stops


def join_content(value: Any) -> str:
    """A text, or the texts of its parts one after the other."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not all(isinstance(part, dict) for part in value):
        raise ValueError('must be a text or a list of parts such as {"type": "text", "text": "…"}')
    for part in value:
        if part.get("type") != "text" or not isinstance(part.get("text"), str):
            raise ValueError(f"only parts of the type text are read, not {str(part.get('type'))[:40]!r}")
    return "".join(part["text"] for part in value)


BIAS = {"minimum": -100, "maximum": 100}
TEXT, TEXTS = {"type": "string"}, {"type": "array", "items": {"type": "string"}}
TOKENS = {"type": "array", "items": {"type": "integer", "minimum": 0}}
PROMPT_SCHEMA = {"anyOf": [TEXT, TEXTS, TOKENS, {"type": "array", "items": TOKENS}]}
Prompt = Annotated[Any, AfterValidator(check_prompt), WithJsonSchema(PROMPT_SCHEMA)]
Stop = Annotated[Any, AfterValidator(check_stop), WithJsonSchema({"anyOf": [TEXT, {**TEXTS, "maxItems": MOST_STOPS}]})]
PARTS = {
    "type": "array",
    "items": {"type": "object", "properties": {"type": {"const": "text"}, "text": TEXT}, "required": ["type", "text"]},
}
Content = Annotated[Any, AfterValidator(join_content), WithJsonSchema({"anyOf": [TEXT, PARTS]})]
BIASES = {"type": "object", "propertyNames": {"pattern": "^[0-9]{1,9}$"}, "additionalProperties": {"type": "number", **BIAS}}
Biases = Annotated[dict[str, float], WithJsonSchema(BIASES)]
Ids = Annotated[list[Annotated[int, Field(ge=0)]], FailFast()]


class Part(BaseModel):
    """Unknown fields are ignored, as clients invent them; null means that a field is left out."""

    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def without_nulls(cls, data: Any) -> Any:
        return {name: value for name, value in data.items() if value is not None} if isinstance(data, dict) else data


class Body(Part):
    model: str = ""


class StreamOptions(Part):
    include_usage: bool = False


def within(low: float, high: float) -> dict[str, Any]:
    """Bounds for those who read the schema; Sampling.check refuses what lies outside."""
    return {"minimum": low, "maximum": high}


class Sampled(Body):
    """What completions and chat have in common."""

    temperature: float = Field(1.0, json_schema_extra=within(0.0, 100.0))
    top_p: float = Field(1.0, ge=0.0, le=1.0)
    n: int = Field(1, ge=1, le=MOST_ANSWERS)
    stop: Stop = Field(default_factory=list)
    seed: int | None = Field(None, ge=-(1 << 63), lt=1 << 64)
    stream: bool = False
    stream_options: StreamOptions | None = None
    presence_penalty: float = Field(0.0, json_schema_extra=within(-100.0, 100.0))
    frequency_penalty: float = Field(0.0, json_schema_extra=within(-100.0, 100.0))
    logit_bias: Biases = Field(default_factory=dict, max_length=MOST_BIASES)
    top_k: int = Field(0, ge=-1)
    min_p: float = Field(0.0, json_schema_extra=within(0.0, 1.0))
    repetition_penalty: float = Field(1.0, json_schema_extra=within(0.01, 100.0))
    ignore_eos: bool = False
    stop_token_ids: Ids = Field(default_factory=list, max_length=MOST_BIASES)

    @model_validator(mode="after")
    def check_stream_options(self) -> Sampled:
        if self.stream_options and not self.stream:
            raise ValueError("stream_options may be set only where stream is true")
        return self

    @property
    def with_usage(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage

    def sampling(self, max_new_tokens: int, logprobs: int, seed: int, vocabulary: int) -> Sampling:
        biases = {}
        for word, bias in self.logit_bias.items():
            if not (word.isdecimal() and len(word) <= 9 and int(word) < vocabulary):
                raise ConfigError(f"logit_bias: {word[:20]!r} is no token of this model; tokens are numbers from 0 to {vocabulary - 1}")
            if not -100.0 <= bias <= 100.0:
                raise ConfigError(f"logit_bias: the bias of token {word} must be from -100 to 100, not {bias}")
            biases[int(word)] = bias
        found = Sampling(
            max_new_tokens=max_new_tokens,
            temperature=self.temperature,
            top_k=max(self.top_k, 0),
            top_p=self.top_p or LIKELIEST_ONLY,
            min_p=self.min_p,
            repetition_penalty=self.repetition_penalty,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            logit_bias=biases,
            stop=tuple(self.stop),
            stop_tokens=tuple(self.stop_token_ids),
            ignore_end=self.ignore_eos,
            seed=seed,
            logprobs=logprobs,
        )
        found.check()
        return found


class CompletionRequest(Sampled):
    prompt: Prompt
    max_tokens: int | None = Field(None, ge=0)
    best_of: int | None = Field(None, ge=1, le=MOST_ANSWERS)
    echo: bool = False
    logprobs: int | None = Field(None, ge=0, le=MOST_COMPLETION_LOGPROBS)
    suffix: str = ""
    add_special_tokens: bool = True
    """Put the special tokens of its model before a prompt given as text."""
    beams: int | None = Field(None, ge=1, le=MOST_BEAMS)
    """Search for the likeliest answers with so many hypotheses, of which the best n are sent, instead of drawing."""
    length_penalty: float = Field(0.6, ge=0.0, le=10.0)
    """Exponent by which a search favours longer answers."""
    coverage_penalty: float = Field(0.0, ge=0.0, le=10.0)
    """How much it counts in a search that an answer left parts of its source unattended."""
    iterations: int | None = Field(None, ge=1, le=MOST_ITERATIONS)
    """Passes of a model that makes all tokens at once; where it is left out, as many as the model was made for."""
    length_factor: float | None = Field(None, gt=0.0, le=LONGEST_FACTOR)
    """The predicted length of such an answer is multiplied by this."""

    @model_validator(mode="after")
    def check_together(self) -> CompletionRequest:
        if self.suffix:
            raise ValueError("suffix is not offered: these models continue a text, they do not fill one in")
        if self.best_of is not None and self.best_of < self.n:
            raise ValueError(f"best_of must be at least n, but {self.best_of} is below {self.n}")
        if self.stream and (self.best_of or self.n) > self.n:
            raise ValueError("best_of cannot be above n with stream, as the best is known only at the end")
        if self.max_tokens == 0 and not self.echo:
            raise ValueError("max_tokens may be 0 only with echo")
        self.check_search()
        return self

    @property
    def mask_predict(self) -> MaskPredict | None:
        """How all tokens are to be made at once; None where nothing is said of it."""
        if self.iterations is None and self.length_factor is None:
            return None
        return MaskPredict(iterations=self.iterations or 0, length_factor=self.length_factor or 1.0)

    def check_search(self) -> None:
        """A search draws nothing, and its answers are known only at its end."""
        if self.beams is None:
            for name in ("length_penalty", "coverage_penalty"):
                if name in self.model_fields_set:
                    raise ValueError(f"{name} needs beam search: it needs beams")
            return
        fields = type(self).model_fields
        changed = (name for name in NOT_WITH_BEAMS if getattr(self, name) != fields[name].get_default(call_default_factory=True))
        if wrong := next((name for name in changed if not (name == "temperature" and self.temperature == 0)), None):
            raise ValueError(f"beams cannot be combined with {wrong}: the likeliest answers are searched for and known at the end")
        if self.n > self.beams:
            raise ValueError(f"beams must be at least n, but {self.beams} is below {self.n}")


class Message(Part):
    role: Literal["system", "developer", "user", "assistant"]
    content: Content = ""

    def plain(self) -> dict[str, str]:
        """As templates expect it; what OpenAI now calls developer they know as system."""
        return {"role": "system" if self.role == "developer" else self.role, "content": self.content}


class ChatRequest(Sampled):
    messages: Annotated[list[Message], FailFast()] = Field(min_length=1, max_length=MOST_MESSAGES)
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    logprobs: bool = False
    top_logprobs: int | None = Field(None, ge=0, le=MOST_CHAT_LOGPROBS)
    response_format: dict[str, Any] = Field(default_factory=dict)
    tools: list[Any] = Field(default_factory=list)
    functions: list[Any] = Field(default_factory=list)
    modalities: list[Any] = Field(default_factory=list)

    @model_validator(mode="after")
    def check_together(self) -> ChatRequest:
        if self.tools or self.functions:
            raise ValueError("tools are not offered: these models answer in text only")
        if self.response_format.get("type", "text") != "text":
            raise ValueError("response_format may only be of the type text: answers are not held to a form")
        if any(kind != "text" for kind in self.modalities):
            raise ValueError("modalities may only hold text")
        if self.top_logprobs is not None and not self.logprobs:
            raise ValueError("top_logprobs needs logprobs to be true")
        return self


class EmbeddingRequest(Body):
    input: Prompt
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = Field(None, ge=1)


class TokenizeRequest(Body):
    prompt: str | None = None
    messages: Annotated[list[Message], FailFast()] = Field(default_factory=list, max_length=MOST_MESSAGES)
    add_special_tokens: bool = True
    """Put the special tokens of its model around a prompt."""
    parse_special: bool = True
    """Take a text that looks like a special token for one; completions never do."""

    @model_validator(mode="after")
    def check_one(self) -> TokenizeRequest:
        if (self.prompt is None) == (not self.messages):
            raise ValueError("prompt or messages must be given, and not both")
        return self


class DetokenizeRequest(Body):
    tokens: Ids
