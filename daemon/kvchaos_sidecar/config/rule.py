"""The ``rules`` part of the document: which calls, which of those, when, and what happens to them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    create_model,
    field_validator,
    model_serializer,
    model_validator,
)

from kvchaos.keys import MAX_BATCH_KEYS, MAX_HASH_BYTES, MAX_UINT32
from kvchaos_sidecar.config.bounds import Between
from kvchaos_sidecar.config.fields import (
    Count,
    DurationField,
    Int64,
    ListOf,
    OneOrMore,
    Part,
    PositiveCount,
    Ratio,
    Text,
)
from kvchaos_sidecar.config.problems import shown, suggestion
from kvchaos_sidecar.faults.contract import Fault
from kvchaos_sidecar.faults.registry import FAULTS, faults_of
from kvchaos_sidecar.rules.call import Operation

_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")
Position = Annotated[int, Between(-MAX_BATCH_KEYS, MAX_BATCH_KEYS - 1)]
UInt32 = Annotated[int, Between(0, MAX_UINT32)]


def _operation(value: object) -> object:
    if isinstance(value, str) and value not in set(Operation):
        raise ValueError(f"{shown(value)} is not an operation; {suggestion(value, list(Operation))}")
    return Operation(value) if isinstance(value, str) else value


def _hex(value: object) -> object:
    if isinstance(value, str):
        try:
            return bytes.fromhex(value)
        except ValueError:
            raise ValueError(f"{shown(value)} is not hexadecimal; write for example 'a1b2'") from None
    return value


def _range(lowest: str, highest: str) -> BeforeValidator:
    """Reads a single number as a range that holds only it."""

    def read(value: object) -> object:
        return {lowest: value, highest: value} if type(value) is int else value

    return BeforeValidator(read)


OperationField = Annotated[
    Operation,
    BeforeValidator(_operation),
    WithJsonSchema({"enum": [operation.value for operation in Operation]}),
]
KeyPrefix = Annotated[
    bytes,
    BeforeValidator(_hex),
    Field(min_length=1, max_length=MAX_HASH_BYTES),
    PlainSerializer(bytes.hex),
    WithJsonSchema({"type": "string", "pattern": "^([0-9a-fA-F]{2})+$"}),
]


class PositionRange(Part):
    """Positions from one to another, both included. Negative ones count from the tail: -1 is the last."""

    first: Annotated[Position, Field(alias="from")] = 0
    """The first position."""
    last: Annotated[Position, Field(alias="to")] = -1
    """The last position."""

    @model_validator(mode="after")
    def _is_not_empty(self) -> PositionRange:
        if (self.first < 0) == (self.last < 0) and self.first > self.last:
            raise ValueError(f"from {self.first} to {self.last} holds no position; exchange them")
        return self


class Span(Part):
    """Numbers from a least to a greatest, both included."""

    min: Count = 0
    """The least."""
    max: Count | None = None
    """The greatest; left out: no limit."""

    @model_validator(mode="after")
    def _is_not_empty(self) -> Span:
        if self.max is not None and self.min > self.max:
            raise ValueError(f"min {self.min} is above max {self.max}; exchange them")
        return self

    def __contains__(self, number: int) -> bool:
        return self.min <= number and (self.max is None or number <= self.max)


SpanField = Annotated[Span, _range("min", "max")]
PositionsField = Annotated[PositionRange, _range("from", "to")]


class Match(Part):
    """Which calls and keys a rule looks at: those for which everything that is given here holds."""

    op: OneOrMore[OperationField]
    """Operation or operations: store, lookup, load, unlock, delete, list, usage, connect."""
    model: OneOrMore[Text] | None = None
    """Patterns of the model name; `*` and `?` stand for characters."""
    cache_salt: OneOrMore[str] | None = None
    """Isolation salts; "" for keys without one."""
    kv_rank: OneOrMore[UInt32] | None = None
    """Rank bitmaps."""
    object_group_id: OneOrMore[UInt32] | None = None
    """Object groups."""
    key_prefix: OneOrMore[KeyPrefix] | None = None
    """First hexadecimal digits of the chunk hash, in pairs."""
    client: OneOrMore[Text] | None = None
    """Patterns of the client's name, for example `lmcache@host-1:*`."""
    position: OneOrMore[PositionsField] | None = None
    """Positions in the batch: 3, -1 (the last), `{from: 0, to: 3}`, `{from: -4}`, or a list of such."""
    batch_size: SpanField | None = None
    """Number of keys of the batch: 8, `{min: 2}`, `{min: 2, max: 64}`."""
    object_size: SpanField | None = None
    """Bytes of the object, for store and load, as batch_size."""

    @property
    def names_keys(self) -> bool:
        """Whether it asks for something that only a call with keys has."""
        asked = (self.model, self.cache_salt, self.kv_rank, self.object_group_id, self.key_prefix)
        return any(value is not None for value in asked)


class RecordedCall(Part):
    """A call of a recorded run, and which of its keys are hit in it."""

    session: PositiveCount
    """The session's number: they count from 1 in the order in which the daemon opens them."""
    op: OperationField
    """The operation."""
    batch: Annotated[str, Field(pattern=r"^[0-9a-f]{24}$")]
    """Identity of the keys of the call, as a recording writes it."""
    nth: PositiveCount
    """How often the session has made a call of that operation and those keys, this one included."""
    places: Annotated[ListOf[Count], Field(min_length=1)]
    """The keys that are hit, by their places among the keys in ascending order; 0 for a call without keys."""
    chances: ListOf[Ratio]
    """What the fault draws for each of them."""

    @model_validator(mode="after")
    def _every_place_has_a_chance(self) -> RecordedCall:
        if len(self.places) != len(self.chances):
            raise ValueError(f"places has {len(self.places)} entries and chances {len(self.chances)}")
        return self


class Select(Part):
    """Which of the matched keys are hit. Left empty: all of them.

    A key is chosen when any of `rate`, `gap_indices` and `gap_tail_ratios` chooses it (all keys, when none is
    given). Of the calls with a chosen key, `after_n`, `first_n`, `every` and `nth` take some.
    """

    rate: Ratio | None = None
    """Share of keys, by a seeded hash of the rule's name and the key."""
    seed: Int64 = 0
    """Seed of the hash, and of every other draw of the rule."""
    per: Literal["key", "attempt"] = "key"
    """`key`: the same key is always chosen or never. `attempt`: each time it is drawn anew."""
    gap_indices: ListOf[Count] = ()
    """Positions in the batch, from the head."""
    gap_tail_ratios: ListOf[Ratio] = ()
    """Positions as distance from the tail over batch length: 0 last, 0.5 middle, 1 first."""
    nth: PositiveCount | None = None
    """Only the nth."""
    every: PositiveCount | None = None
    """Only every nth: the nth, the 2nth and so on."""
    first_n: PositiveCount | None = None
    """Only the first n, then never again: the fault heals."""
    after_n: PositiveCount | None = None
    """Not the first n. With first_n: the first n after those."""
    count: Literal["calls", "keys"] = "calls"
    """What nth, every, first_n and after_n count: `calls` or `keys`."""
    max_concurrent: PositiveCount | None = None
    """At most so many calls are struck at the same time."""
    recorded: ListOf[RecordedCall] = ()
    """The keys of a recorded run and no others; `kvchaos replay` writes this. Stands alone."""

    @model_validator(mode="after")
    def _counts_do_not_contradict(self) -> Select:
        others = [name for name in ("every", "first_n", "after_n") if getattr(self, name) is not None]
        if self.nth is not None and others:
            raise ValueError(f"nth takes one and contradicts {' and '.join(others)}; give one or the other")
        return self

    @model_validator(mode="after")
    def _a_recording_stands_alone(self) -> Select:
        others = sorted(self.model_fields_set - {"recorded"})
        if self.recorded and others:
            raise ValueError(f"recorded says which keys are hit; leave out {' and '.join(others)}")
        return self


class Repeat(Part):
    """Windows that come again."""

    every: DurationField
    """From the start of one to the start of the next."""
    length: Annotated[DurationField, Field(alias="for")]
    """How long each lasts."""

    @model_validator(mode="after")
    def _windows_do_not_overlap(self) -> Repeat:
        if self.length >= self.every:
            raise ValueError("windows overlap: 'for' must be shorter than 'every'")
        return self


class When(Part):
    """When a rule is active, in time since it was armed. Left empty: always."""

    after: DurationField | None = None
    """It begins so long after it was armed."""
    length: Annotated[DurationField | None, Field(alias="for")] = None
    """It lasts so long."""
    until: DurationField | None = None
    """It ends so long after it was armed."""
    ramp: DurationField | None = None
    """The rate grows from 0 to its value within this time."""
    repeat: Repeat | None = None
    """Windows within that time."""
    max_fired: PositiveCount | None = None
    """It ends when it has hit so many keys."""

    @model_validator(mode="after")
    def _windows_do_not_contradict(self) -> When:
        if self.length is not None and self.until is not None:
            raise ValueError("'for' and 'until' both say when it ends; give one")
        if self.until is not None and self.after is not None and self.until <= self.after:
            raise ValueError("'until' is not later than 'after', so that it is never active")
        return self


def _with_settings(value: object) -> object:
    """Reads the kind alone as a fault without settings."""
    if isinstance(value, str):
        return {value: {}}
    if isinstance(value, Mapping):
        return {kind: {} if settings is None else settings for kind, settings in value.items()}
    return value


class _FaultChoice(Part):
    """Exactly one kind of fault, with its settings."""

    @model_validator(mode="after")
    def _is_one(self) -> _FaultChoice:
        if len(self.model_fields_set) != 1:
            given = " and ".join(sorted(self.model_fields_set)) or "none"
            raise ValueError(f"needs one kind of fault, not {given}; for example {{delay: {{fixed: 50ms}}}}")
        return self

    @model_serializer(mode="wrap")
    def _write_the_chosen(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: Mapping[str, Any] = write(self)
        return {kind: settings for kind, settings in written.items() if kind in self.model_fields_set}

    @property
    def chosen(self) -> Fault:
        """The fault."""
        (kind,) = self.model_fields_set
        fault: Fault = getattr(self, kind)
        return fault


if TYPE_CHECKING:
    FaultChoice = _FaultChoice
else:
    FaultChoice = create_model(
        "FaultChoice",
        __base__=_FaultChoice,
        __doc__=_FaultChoice.__doc__,
        **{kind: (fault, Field(default=None, description=fault.__doc__)) for kind, fault in FAULTS.items()},
    )


class Rule(Part):
    """Match, select, fault and when."""

    name: Annotated[str, WithJsonSchema({"type": "string", "pattern": _NAME.pattern})]
    """Unique. Letters, digits, `.`, `_` and `-`, at most 63. A label in metrics."""
    enabled: bool = True
    """Whether it is armed."""
    match: Match
    """Which calls and keys it looks at."""
    select: Select = Select()
    """Which of those it hits."""
    fault: Annotated[FaultChoice, BeforeValidator(_with_settings)]
    """What happens to them: `{KIND: {SETTING: VALUE}}`, or the kind alone."""
    when: When = When()
    """When it is active."""

    @field_validator("name")
    @classmethod
    def _is_a_name(cls, value: str) -> str:
        if not _NAME.fullmatch(value):
            raise ValueError(
                f"{shown(value)} is not a name; "
                "write 1 to 63 letters, digits, '.', '_' or '-', a letter or digit first"
            )
        if value == "fault_inject":
            raise ValueError("'fault_inject' is the name of the classic rule; choose another")
        return value

    @model_validator(mode="after")
    def _fault_fits_the_operations(self) -> Rule:
        for operation in self.match.op:
            if operation not in self.fault.chosen.operations:
                raise ValueError(
                    f"fault.{self.fault.chosen.kind} cannot strike {operation}; "
                    f"faults of {operation} are {', '.join(faults_of(operation))}"
                )
        return self


def check_names(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """The rules. Raises ValueError when two have the same name."""
    first: dict[str, int] = {}
    for place, rule in enumerate(rules):
        earlier = first.setdefault(rule.name, place)
        if earlier != place:
            raise ValueError(f"[{earlier}] and [{place}] have the same name {rule.name!r}; rename one")
    return rules


RulesField = Annotated[ListOf[Rule], AfterValidator(check_names)]
