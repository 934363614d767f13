"""The operator contract: what windows and joins offer to those who run them, store them and change them.

A stage is one operator compiled for one version of the queries: frozen, picklable, without data. A state is
one bucket of one stage. Rows of an input are *prepared* into pieces, each addressed to a bucket; where a
stage has rounds, buckets *relay* pieces to each other; then every bucket takes a *step*: it absorbs its
pieces, moves to new marks, and answers what is due. Neither knows how pieces travel, where state is kept, or
which engine runs it.

Laws, each a property test over both operators (``tests/operators/test_contract.py``):

1. ``absorb(snapshot())`` and ``advance(marks)`` on an empty state give an equal state.
2. The ``fresh`` of all steps, compacted in any grouping, equals the snapshot.
3. ``forget_carried``, ``relay`` and ``read`` change no later answer.
4. ``moved`` equals ``translate`` of the snapshot.
5. The answers of ``split`` states together are those of the one.
6. ``merge`` and ``pack``/``unpack`` change no answer.
7. With pieces sorted by (part, origin), a step made again gives the same bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from weft.errors import WeftError
from weft.io.files.chunk import Origins
from weft.operators.lookups.index import NO_LOOKUPS, Lookups
from weft.operators.times import Seen

Instant: TypeAlias = int
"""Microseconds since the epoch."""

Marks: TypeAlias = Mapping[str, Instant | None]
"""By input stream the watermark: no row before it can come. None: there was no row yet."""

Note: TypeAlias = Mapping[str, Any]
"""Small facts as JSON: counts, choices, seconds."""

Failed: TypeAlias = dict[str, WeftError]
"""Queries that cannot be answered, by name, each with its error."""


@dataclass(frozen=True, slots=True)
class ArrivedRows:
    """Rows of one stream as they came.

    Rows after the ``limit`` are ahead of the clock: they count, and move no mark. ``origins`` says of how
    many rows, one after the other, which partition they are. ``lookups`` have the tables that queries of the
    stage look up for this stream.
    """

    table: pa.Table
    limit: Instant | None = None
    origins: Origins = ()
    lookups: Lookups = NO_LOOKUPS


@dataclass(frozen=True, slots=True)
class Piece:
    """Prepared rows on their way to one bucket.

    ``part`` is the part of the state that they are for, as the stage's layout names it; ``content`` is in the
    operator's own form, whose ``len`` is a number of rows, and which ``Stage.pack`` makes an Arrow batch
    where it leaves the process.
    """

    bucket: int
    part: str
    content: Any


@dataclass(frozen=True, slots=True)
class Kept:
    """A table of one part of a state, for a file.

    ``newest`` is the latest time in it; from the mark ``needed_until`` on nobody needs it, END_OF_TIME where
    only the state knows.
    """

    part: str
    table: pa.RecordBatch
    newest: Instant
    needed_until: Instant


@dataclass(frozen=True, slots=True)
class Missed:
    """The rows of an arrival that a stage does not count, or not everywhere: their places, ascending, and
    the reason of each."""

    places: np.ndarray
    reasons: Sequence[str]


@dataclass(frozen=True, slots=True)
class Prepared:
    """Result of one ``prepare`` or ``relay``: pieces, counts of the rows, and a note of them.

    ``missed`` are the rows that were late, untimed or ahead, where they were asked for. ``late`` are the
    places of those that were late alone, as a mask of all rows (empty: none was), so that rows that are late
    for several stages can be counted once.
    """

    pieces: Sequence[Piece]
    seen: Seen = field(default_factory=Seen)
    missed: Missed | None = None
    late: np.ndarray = field(default_factory=lambda: np.zeros(0, np.bool_))
    note: Note = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stepped:
    """Result of one step of one bucket: results by query, rows by output stream, what is new in the state."""

    answers: Mapping[str, pa.Table]
    outputs: Mapping[str, pa.Table] = field(default_factory=dict)
    fresh: Sequence[Kept] = ()
    note: Note = field(default_factory=dict)


class Exactness(NamedTuple):
    """From when on a query's results are all there (None: always), whether rows from before it was added
    count in them, and the zone of that instant."""

    since: Instant | None
    history: bool
    zone: str | None


class Stage(Protocol):
    """One operator compiled for one version of the queries.

    ``name`` is that of its place in the program, the same in all versions: state and marks are kept under it.
    Where ``failed`` is a dictionary, queries that cannot be answered are added to it, and the result is to be
    thrown away; where it is None, the first such error is raised.
    """

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> int: ...

    @property
    def strict(self) -> bool: ...

    @property
    def inputs(self) -> Mapping[str, pa.Schema]:
        """The columns that are read of each input, a stream of a source or an output of an earlier stage."""
        ...

    @property
    def keys(self) -> Mapping[str, Sequence[str]]:
        """Of each input the columns that are best read as dictionaries."""
        ...

    @property
    def outputs(self) -> Mapping[str, pa.Schema]:
        """The streams that later stages read."""
        ...

    @property
    def results(self) -> Mapping[str, pa.Schema]:
        """The columns of each query's results."""
        ...

    @property
    def lookups(self) -> Mapping[str, Sequence[Any]]:
        """The tables that are looked up, by input: ``BoundLookup``s."""
        ...

    @property
    def layout(self) -> Note:
        """The parts of the state, and what their columns and bits mean, by name; as JSON."""
        ...

    @property
    def rounds(self) -> int:
        """Return how many exchanges there are between ``prepare`` and ``step``."""
        ...

    def prepare(
        self,
        stream: str,
        rows: ArrivedRows,
        marks: Marks,
        buckets: int,
        *,
        keep_missed: bool = False,
        failed: Failed | None = None,
    ) -> Prepared:
        """Make rows of one input ready and address them; depends on its arguments alone."""
        ...

    def merge(self, pieces: Sequence[Piece], failed: Failed | None = None) -> Sequence[Piece]:
        """Return the same pieces as few: before they are sent, where they have become many."""
        ...

    def pack(self, piece: Piece) -> pa.RecordBatch:
        """Return the content of a piece for another process."""
        ...

    def unpack(self, bucket: int, part: str, batch: pa.RecordBatch) -> Piece:
        """Return the piece behind ``pack``."""
        ...

    def state(self, bucket: int, buckets: int) -> State:
        """Return the empty state of one bucket of so many."""
        ...

    def compact(self, kept: Sequence[Kept], marks: Marks, failed: Failed | None = None) -> Sequence[Kept]:
        """Return tables of this layout as few: equal cells combined, rows that nobody needs left out."""
        ...

    def translate(self, layout: Note, kept: Kept) -> Kept | None:
        """Return a table of another version's layout as one of this; None where no query needs it."""
        ...

    def needed_until(self, layout: Note, part: str, newest: Instant, until: Instant) -> Instant:
        """Return the mark until which a table of another version's layout is needed by this one.

        ``newest`` is the latest time in it, ``until`` the mark until which its own version needed it.
        """
        ...

    def marks_out(self, marks: Marks) -> Marks:
        """Return the marks of the outputs after a step with these marks."""
        ...

    def closing(self, latest: Marks, marks: Marks) -> Marks:
        """Return the marks that answer all that rows up to ``latest``, by input, can be answered with.

        They are never before ``marks``, those of now.
        """
        ...

    def exact_from(self, query: str) -> Exactness:
        """Return from when on a query of this stage is exact."""
        ...

    def to_data(self) -> Note:
        """Return how the queries came, as JSON: what a compiler needs to make the stage of them again."""
        ...

    def renumbered(self, version: int) -> Any:
        """Return the same stage as another version."""
        ...

    def tuner(self) -> Tuner:
        """Return what watches the steps of this stage, to decide anew what no answer depends on."""
        ...


class Tuner(Protocol):
    """The watcher of a stage: rates, selectivities and costs, from the notes of its steps."""

    def learn(self, notes: Sequence[Note]) -> None:
        """Take in the notes of one step: of every ``prepare``, ``relay`` and ``step``."""
        ...

    def tuned(self, stage: Any) -> Any | None:
        """Return the same stage, decided anew (join orders, ends of slices); None where it is best as it is.

        Queries, version and layout are the same: a state goes on by ``moved``.
        """
        ...


class State(Protocol):
    """One bucket of one stage: what is kept, which layers restore, and what is carried, a cache of that."""

    @property
    def stage(self) -> Stage: ...

    @property
    def bucket(self) -> int: ...

    @property
    def rows(self) -> int:
        """Return how many cells, rows and waiting results are kept."""
        ...

    @property
    def bytes(self) -> int:
        """Return about how much memory they take."""
        ...

    def relay(self, pieces: Sequence[Piece], round_number: int) -> Prepared:
        """Return what this bucket makes of what it is shown, addressed to buckets; changes nothing."""
        ...

    def step(
        self, pieces: Sequence[Piece], marks: Marks, failed: Failed | None = None, *, keep: bool = True
    ) -> Stepped:
        """Absorb pieces, move to the marks, and answer what is due.

        Without ``keep`` nobody stores the state, and ``fresh`` may stay empty.
        """
        ...

    def absorb(self, kept: Iterable[Kept]) -> None:
        """Take in tables of this layout: a state loaded, or caught up."""
        ...

    def advance(self, marks: Marks) -> None:
        """Forget what no answer after the marks needs; answers nothing."""
        ...

    def snapshot(self) -> Sequence[Kept]:
        """Return all that is kept."""
        ...

    def moved(self, stage: Any) -> State:
        """Return this state for another version, or for a tuned stage; this one is not used any more."""
        ...

    def split(self, buckets: int) -> Sequence[State]:
        """Return this state, which holds all buckets that fall into its own, as those of ``buckets``.

        Buckets are by hash modulo their number, so ``buckets`` is a multiple of the number there is now; the
        states returned are those whose number modulo that is this one's. It is not used any more.
        """
        ...

    def forget_carried(self) -> None:
        """Let go what is carried; it is rebuilt when next needed."""
        ...

    def read(self, query: str) -> pa.Table:
        """Return what a query would answer if the stream ended now; changes nothing."""
        ...
