"""Pieces of joins: rows made ready, and what they have joined to so far, on their way to one bucket.

A part is ``<chain>.<side>`` for rows, and ``<chain>.waiting`` for results that wait, as state is kept. In the
rounds of a join of more than two streams there are ``<chain>.probe.<side>``, joined rows that began with that
side and have to meet more, and ``<chain>.found``, those that need no more round.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from weft.operators.contract import Piece
from weft.operators.joins.multiway.packing import pack_tuples, unpack_tuples
from weft.operators.joins.multiway.tuples import Tuples, concat_tuples
from weft.operators.joins.packing import pack_rows, unpack_rows
from weft.operators.joins.program import JoinProgram
from weft.operators.joins.rows import JoinRows, concat
from weft.operators.joins.signatures import Signatures

PROBE = "probe"
"""Names the parts of joined rows that have to meet more."""

FOUND = "found"
"""Names the parts of joined rows that need no more round."""


@dataclass(frozen=True, slots=True, eq=False)
class ReadyRows:
    """New rows of one side of a chain; their signatures are numbers of rows of ``bits``, here and nowhere
    else."""

    rows: JoinRows
    bits: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)

    def signed(self, signatures: Signatures) -> JoinRows:
        """Return the rows with the numbers that their signatures have elsewhere."""
        return replace(self.rows, signatures=signatures.number(self.bits)[self.rows.signatures])


class PartName(NamedTuple):
    """The name of a part, read: the number of its chain, its kind, and the side, where it has one.

    >>> PartName.read("3.1"), PartName.read("0.probe.2"), PartName.read("0.found")
    (PartName(chain=3, kind='', side=1), PartName(chain=0, kind='probe', side=2), \
PartName(chain=0, kind='found', side=-1))
    """

    chain: int
    kind: str
    side: int

    @classmethod
    def read(cls, part: str) -> PartName:
        """Read the name of a part."""
        chain, kind, *rest = part.split(".")
        if kind.isdecimal():
            return cls(int(chain), "", int(kind))
        return cls(int(chain), kind, int(rest[0]) if rest else -1)


def pack_piece(piece: Piece) -> pa.RecordBatch:
    """Return the content of a piece as an Arrow batch."""
    content = piece.content
    return pack_rows(content.rows, content.bits) if isinstance(content, ReadyRows) else pack_tuples(content)


def unpack_piece(bucket: int, part: str, batch: pa.RecordBatch, programs: Sequence[JoinProgram]) -> Piece:
    """Return the piece behind ``pack_piece``."""
    name = PartName.read(part)
    if name.kind:
        return Piece(bucket, part, unpack_tuples(batch))
    program = programs[name.chain]
    signatures = Signatures(len(program.members))
    rows = unpack_rows(batch, signatures, program.schemas[name.side])
    return Piece(bucket, part, ReadyRows(rows, signatures.bits))


def merge_pieces(pieces: Iterable[Piece]) -> list[Piece]:
    """Return one piece for each bucket and part; what several buckets are sent is merged once."""
    groups: dict[tuple[int, str], list[Piece]] = {}
    for piece in pieces:
        groups.setdefault((piece.bucket, piece.part), []).append(piece)
    merged: dict[tuple[int, ...], ReadyRows | Tuples] = {}
    fewer = []
    for (bucket, part), lots in groups.items():
        contents = [piece.content for piece in lots]
        key = tuple(map(id, contents))
        if key not in merged:
            merged[key] = _merged(contents)
        fewer.append(Piece(bucket, part, merged[key]))
    return fewer


def _merged(contents: Sequence[ReadyRows | Tuples]) -> ReadyRows | Tuples:
    if len(contents) == 1:
        return contents[0]
    ready = [content for content in contents if isinstance(content, ReadyRows)]
    if not ready:
        return concat_tuples([content for content in contents if isinstance(content, Tuples)])
    signatures = Signatures(ready[0].bits.shape[1])
    rows = concat([content.signed(signatures) for content in ready])
    return ReadyRows(rows, signatures.bits)
