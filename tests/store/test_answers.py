"""Files of answers: what is delivered is what was answered, column for column."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import CheckpointError
from weft.store.answers import MISSED_ROWS, RESULT_ROWS, UNREAD_ROWS, read_answers, write_answers

values = st.one_of(
    st.lists(st.none() | st.integers(-(1 << 62), 1 << 62), max_size=5).map(lambda v: pa.array(v, pa.int64())),
    st.lists(st.none() | st.text(max_size=5), max_size=5).map(lambda v: pa.array(v, pa.string())),
    st.lists(st.sampled_from(["a", "b", None]), max_size=5).map(
        lambda v: pa.array(v, pa.string()).dictionary_encode()
    ),
    st.lists(st.none() | st.floats(allow_nan=False), max_size=5).map(lambda v: pa.array(v, pa.float64())),
)
tables = st.dictionaries(
    st.tuples(st.sampled_from([RESULT_ROWS, MISSED_ROWS, UNREAD_ROWS]), st.text(max_size=8)),
    values.map(lambda column: pa.table({"x": column})),
    max_size=5,
)


@given(tables=tables)
def test_answers_are_read_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, tables: dict[tuple[str, str], pa.Table]
) -> None:
    place = str(tmp_path_factory.getbasetemp())
    file = write_answers(place, 7, 1, "token", tables)
    with_rows = {about: table for about, table in tables.items() if table.num_rows}
    if file is None:
        assert not with_rows
        return
    assert file.name == "0000000007-0001-token.arrow"
    assert (file.bucket, file.rows) == (1, sum(table.num_rows for table in with_rows.values()))
    again = read_answers(place, file)
    assert again == with_rows
    assert list(again) == list(with_rows), "in the order that they were given in"


def test_chunks_and_metadata_are_as_they_were(tmp_path: Path) -> None:
    one = pa.table({"k": pa.array(["a", "b"]).dictionary_encode()})
    other = pa.table({"k": pa.array(["c"]).dictionary_encode()})
    table = pa.concat_tables([one, other]).replace_schema_metadata({"weft.window": "rows"})
    file = write_answers(str(tmp_path), 1, 0, "t", {(RESULT_ROWS, "q"): table})
    assert file is not None
    again = read_answers(str(tmp_path), file)[RESULT_ROWS, "q"]
    assert again == table
    assert again.schema.metadata == {b"weft.window": b"rows"}


def test_without_rows_there_is_no_file(tmp_path: Path) -> None:
    assert (
        write_answers(str(tmp_path), 1, 0, "t", {(RESULT_ROWS, "q"): pa.table({"x": pa.array([], "int64")})})
        is None
    )
    assert not (tmp_path / "answers").exists()


def test_a_damaged_file_is_noticed(tmp_path: Path) -> None:
    file = write_answers(str(tmp_path), 1, 0, "t", {(RESULT_ROWS, "q"): pa.table({"x": [1, 2]})})
    assert file is not None
    path = tmp_path / "answers" / file.name
    data = path.read_bytes()
    for damage in (data[:-1], b"", data[:9] + b"!" + data[10:]):
        path.write_bytes(damage)
        with pytest.raises(CheckpointError, match=f"damaged, '{path}'; restore"):
            read_answers(str(tmp_path), file)
    path.unlink()
    with pytest.raises(CheckpointError, match=f"missing, '{path}'; restore"):
        read_answers(str(tmp_path), file)
