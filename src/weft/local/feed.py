"""The inputs of a run, read side by side: which chunk comes next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from weft.io.files.source import Columns
from weft.local.readers import InputReader, Read

Reads = Mapping[str, Read]
"""A chunk of some of the streams, each with the position after it."""


class Feed:
    """The inputs of a run by stream, from the positions that a run before has come to.

    ``columns`` gives what is read of a stream, which may change on the way.
    """

    def __init__(
        self,
        readers: Mapping[str, InputReader],
        columns: Callable[[str], Columns],
        positions: Mapping[str, Any] | None = None,
    ) -> None:
        self.readers = readers
        self.positions: dict[str, Any] = dict(positions or {})
        self._left: dict[str, Iterator[Read | None]] = {
            name: reader.reads(columns(name), self.positions.get(name)) for name, reader in readers.items()
        }

    def beside(self) -> Iterator[Reads | None]:
        """Yield a chunk of each stream that has one, until all are at their end; None where none has."""
        end = object()
        while self._left:
            reads = {name: next(left, end) for name, left in self._left.items()}
            self._left = {name: left for name, left in self._left.items() if reads[name] is not end}
            chunks = {name: read for name, read in reads.items() if isinstance(read, Read)}
            if self._left or chunks:
                yield self._taken(chunks) if chunks else None

    def in_turn(self, mark: Callable[[str], int | None]) -> Iterator[Reads]:
        """Yield chunks one by one, always of the stream that is furthest behind, so that little is kept."""
        while self._left:
            behind = min(self._left, key=lambda name: (mark(name) is not None, mark(name) or 0, name))
            read = next(self._left[behind], None)
            if read is None:
                del self._left[behind]
            else:
                yield self._taken({behind: read})

    def positions_at_end(self) -> dict[str, Any]:
        """Return where a run that begins after this one, which has come to its end, goes on."""
        return {
            name: self.readers[name].position_for_next_run(position)
            for name, position in self.positions.items()
        }

    def _taken(self, reads: Reads) -> Reads:
        self.positions |= {name: read.position for name, read in reads.items()}
        return reads
