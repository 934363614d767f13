"""Which files are found, and in which order."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from weft.errors import JobError
from weft.io.files import Files
from weft.io.files.listing import list_files


def names(path: Path | str, root: Path) -> list[str]:
    """The files of a place, as they are called below a folder."""
    return [f.path.removeprefix("file:").removeprefix(f"{root}/") for f in list_files([str(path)])]


def write(path: Path, seconds: float = 1.0, text: str = "x\n1\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (seconds, seconds))


def test_the_oldest_file_comes_first_and_files_of_one_time_by_name(tmp_path: Path) -> None:
    for name, seconds in (("d", 5), ("a", 9), ("c", 7.0004), ("b", 7.0002), ("sub/e", 1)):
        write(tmp_path / name, seconds)
    # Spark knows of times to the millisecond: b and c have the same.
    assert names(tmp_path, tmp_path) == ["sub/e", "d", "b", "c", "a"]


def test_files_that_arrive_are_taken_in_the_order_of_time(tmp_path: Path) -> None:
    for name, seconds in (("c", 3), ("a", 9), ("b", 3), ("e", 1)):
        write(tmp_path / name, seconds, f'{{"s": "{name}"}}\n')
    arrivals = Files(tmp_path, "json", {"s": "string"}, max_files_per_batch=1).arrivals()
    taken = [next(arrivals).table.column("s")[0].as_py() for _ in range(4)]
    assert taken == ["e", "b", "c", "a"]
    write(tmp_path / "0", 0, '{"s": "late"}\n')
    assert next(arrivals) is not None, "an old file is taken, too, when it comes"


def test_a_folder_that_links_back_is_read_once(tmp_path: Path) -> None:
    write(tmp_path / "a" / "x")
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    (tmp_path / "a" / "self").symlink_to(tmp_path / "a")
    assert names(tmp_path, tmp_path) == ["a/x"]
    assert [c.table.num_rows for c in Files(tmp_path, "csv", {"x": "bigint"})] == [1]


def test_a_file_with_several_names_is_read_once(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "in", tmp_path / "elsewhere"
    write(folder / "z" / "x")
    write(elsewhere / "y")
    (folder / "a").symlink_to(folder / "z")
    (folder / "b").symlink_to(folder / "z" / "x")
    (folder / "one").symlink_to(elsewhere)
    (folder / "two").symlink_to(elsewhere)
    (folder / "dangling").symlink_to(elsewhere / "nothing")
    assert names(folder, folder) == ["one/y", "z/x"]
    # Where the name of the file itself is not asked for, a link to it counts.
    assert names(folder / "a" / "*", folder) == ["a/x"]
    assert [Path(f.path).name for f in list_files([str(folder), str(folder / "z" / "x")])] == ["y", "x"]


@pytest.mark.parametrize(
    ("name", "hidden"),
    [
        ("_SUCCESS", True),
        (".part", True),
        ("_tmp/x", True),
        ("part._COPYING_", True),
        ("_day=1/x", False),
        ("a b", False),
        ("a#b%20", False),
        ("größe", False),
        ("x.parquet/part-0", False),
    ],
)
def test_names_are_hidden_as_spark_does(tmp_path: Path, name: str, hidden: bool) -> None:
    write(tmp_path / name)
    assert names(tmp_path, tmp_path) == ([] if hidden else [name])
    assert names(f"file:{tmp_path}", tmp_path) == ([] if hidden else [name])


def test_a_file_that_is_gone_when_it_is_read_is_named(tmp_path: Path) -> None:
    write(tmp_path / "a.csv")
    files = Files(tmp_path, "csv", {"x": "bigint"})
    found = files.find()
    (tmp_path / "a.csv").unlink()
    with pytest.raises(JobError, match=r"a\.csv' cannot be read as csv: .*No such file"):
        list(files.read(files.splits(found, 1)[0][0], files.stream_schema()))
