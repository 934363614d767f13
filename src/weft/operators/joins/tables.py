"""Tables of the state of joins, read back into chains: their own, or those of another version."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from weft.operators.contract import Kept, Marks
from weft.operators.joins.lineage import JoinCarryOver, JoinLayout
from weft.operators.joins.packing import unpack_rows
from weft.operators.joins.pieces import PartName
from weft.operators.joins.sliced import Sliced
from weft.operators.joins.state import Fresh, Joins
from weft.operators.joins.waiting import fitted, unpack_waiting


def read_tables(
    tables: Iterable[Kept], joins: Joins, chains: Sequence[Sliced[Any]], layout: JoinLayout | None = None
) -> Fresh:
    """Read rows and waiting results of these joins, or of another layout, as ``chains`` keep them."""
    contents = Fresh(chains)
    carry_over = JoinCarryOver(layout or joins.layout, joins.layout, joins.lineages)
    for table in tables:
        part = PartName.read(table.part)
        to, bits = carry_over.numbers[part.chain], carry_over.carry_overs[part.chain]
        if to is None or bits is None:
            continue
        chain = chains[to]
        if part.kind:
            contents.add(to, [], [unpack_waiting(table.table, chain, bits)])
        else:
            schema = chain.program.schemas[part.side]
            rows = unpack_rows(table.table, chain.signatures[part.side], schema, bits)
            contents.add(to, [(part.side, fitted(part.side, rows, chain))], [])
    return contents


def compact_tables(tables: Iterable[Kept], joins: Joins, marks: Marks) -> list[Kept]:
    """Return tables of these joins as one for each part, without what no query needs after the marks."""
    chains = joins.chains()
    for chain in chains:
        chain.watermarks = [marks.get(stream) for stream in chain.program.members[0].streams]
    return list(read_tables(tables, joins, chains).tables())


def translate_table(table: Kept, layout: JoinLayout, joins: Joins) -> Kept | None:
    """Return a table of another layout as one of these joins; None where nothing in it counts for them."""
    return next(read_tables([table], joins, joins.chains(), layout).tables(), None)
