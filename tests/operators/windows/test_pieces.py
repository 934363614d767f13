"""Many pieces of partials as one per bucket and grouping: put one after the other, or merged."""

from __future__ import annotations

import datetime

import pyarrow as pa

import weft
from weft.model.instants import END_OF_TIME
from weft.operators.windows.answer import final
from weft.operators.windows.compile import compile_plan
from weft.operators.windows.prepare import partial
from weft.operators.windows.state import Piece, State, one_piece_each

TEXT = """
-- name: by_key
SELECT k, sum(x) AS total, min(s) AS first FROM t [RANGE '4 s' SLIDE '2 s'] GROUP BY k;
-- name: all
SELECT count(*) AS n FROM t [RANGE '3 s'] WHERE x > 1
"""


def rows(first: int, keys: str) -> pa.Table:
    """A row a second, from a second on."""
    start = datetime.datetime(2024, 1, 1)
    times = [start + datetime.timedelta(seconds=first + i) for i in range(len(keys))]
    return pa.table({"ts": times, "k": list(keys), "x": range(len(keys)), "s": [key * 2 for key in keys]})


def pieces_of(
    batches: list[pa.Table], buckets: int
) -> tuple[weft.operators.windows.program.WindowProgram, list[Piece]]:
    plan = weft.plan(weft.sql(TEXT))
    program = compile_plan(plan, batches[0].schema, "ts", buckets=buckets)
    return program, [p for batch in batches for p in partial(batch, program, None, buckets).pieces]


def check(batches: list[pa.Table], merged: bool) -> None:
    for buckets in (1, 2):
        program, pieces = pieces_of(batches, buckets)
        gathered = one_piece_each(pieces, program)
        where = [(p.bucket, p.grouping) for p in gathered]
        assert len(where) == len(set(where)) and set(where) == {(p.bucket, p.grouping) for p in pieces}
        cells, before = (sum(p.table.num_rows for p in some) for some in (gathered, pieces))
        assert cells < before if merged else cells == before
        for bucket in range(buckets):
            mine, all_of = ([p for p in some if p.bucket == bucket] for some in (gathered, pieces))
            found, wanted = (
                final(State(program, bucket), some, END_OF_TIME, program)[1] for some in (mine, all_of)
            )
            assert found == wanted and found


def test_pieces_of_other_times_are_put_one_after_the_other() -> None:
    check([rows(0, "abcabcab"), rows(8, "dadadada"), rows(16, "aaaaaaae")], merged=False)


def with_keys(piece: Piece, dictionary: bool) -> Piece:
    """The piece, its key column with a dictionary or without."""
    keys = piece.table.column(0)
    if pa.types.is_dictionary(keys.type):
        keys = keys.dictionary_decode()
    columns = [keys.dictionary_encode() if dictionary else keys, *piece.table.columns[1:]]
    table = pa.RecordBatch.from_arrays(columns, names=piece.table.schema.names)
    return Piece(piece.bucket, piece.grouping, table)


def test_pieces_with_and_without_dictionaries_become_one() -> None:
    program, pieces = pieces_of([rows(0, "abcabcab"), rows(8, "abcdefgh")], 1)
    by_key = [p for p in pieces if p.grouping == 0]
    mixed = [with_keys(piece, dictionary=number == 0) for number, piece in enumerate(by_key)]
    gathered = one_piece_each(mixed, program)
    assert len(by_key) == 2 and len(gathered) == 1
    found, wanted = (final(State(program), some, END_OF_TIME, program)[1] for some in (gathered, by_key))
    assert found == wanted


def test_a_null_among_the_keys_of_a_dictionary() -> None:
    program, pieces = pieces_of([rows(0, "abcabcab"), rows(8, "abcdefgh")], 1)
    by_key = [with_keys(p, dictionary=True) for p in pieces if p.grouping == 0]
    with_null = []
    for piece in by_key:
        keys = piece.table.column(0)
        holed = pa.concat_arrays([pa.nulls(1, pa.string()), keys.dictionary[1:]])
        columns = [pa.DictionaryArray.from_arrays(keys.indices, holed), *piece.table.columns[1:]]
        table = pa.RecordBatch.from_arrays(columns, names=piece.table.schema.names)
        with_null.append(Piece(piece.bucket, piece.grouping, table))
    gathered = one_piece_each(with_null, program)
    found, wanted = (final(State(program), some, END_OF_TIME, program)[1] for some in (gathered, with_null))
    assert len(gathered) == 1 and found == wanted


def test_pieces_of_the_same_times_are_merged() -> None:
    check([rows(0, "abcabcab"), rows(0, "abcabcab"), rows(2, "abcdefgh")], merged=True)
