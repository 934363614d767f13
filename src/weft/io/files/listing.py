"""Files of a place: itself, all below it, or all that match; each once, the oldest first.

In a local file system links are followed. A file that several names lead to, as where a folder links back to
one above it, is listed under the name without links where that is one of them, else under the first.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from pyarrow import fs

from weft.errors import JobError
from weft.io.files.split import ListedFile
from weft.io.filesystem import resolve

UNFINISHED_SUFFIX = "._COPYING_"
"""The end of the names of files that Hadoop is still writing."""


def list_files(places: Iterable[str]) -> list[ListedFile]:
    """Return the files of places, by the millisecond of their last change and by name.

    >>> import os, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for name, seconds in (("new", 9), ("b", 5), ("a", 5)):
    ...     _ = (folder / name).write_text("x")
    ...     os.utime(folder / name, (seconds, seconds))
    >>> [os.path.basename(file.path) for file in list_files([str(folder)])]
    ['a', 'b', 'new']
    """
    names: dict[str, ListedFile] = {}
    for file in sorted((f for place in places for f in _list(place)), key=lambda f: (f.linked, f.path)):
        names.setdefault(file.real, ListedFile(file.path, file.size, file.changed))
    return sorted(names.values(), key=age)


def age(file: ListedFile) -> tuple[int, str]:
    """Return the order of a file among others: Spark knows milliseconds, too."""
    return (file.changed or 0) // 1_000_000, file.path


def find_file(path: str) -> ListedFile | None:
    """Return a file of a listing as it is now; None where it is gone."""
    system, name = resolve(path)
    try:
        info = system.get_file_info(name)
    except OSError as error:
        raise JobError(f"cannot look at '{path}': {error}") from error
    return ListedFile(path, info.size, info.mtime_ns) if info.type == fs.FileType.File else None


def each_once(files: Sequence[ListedFile], place: str) -> list[ListedFile]:
    """Return files that were listed elsewhere, without the further names of those with several."""
    system, path = resolve(place)
    if system.type_name != "local":
        return list(files)
    folder = _folder(path)
    real = cache(os.path.realpath)

    def is_linked(name: str) -> bool:
        parent = os.path.dirname(name)
        return os.path.islink(name) or real(parent) != os.path.normpath(
            os.path.join(real(folder), os.path.relpath(parent, folder))
        )

    names = [resolve(file.path)[1] for file in files]
    linked = {name for name in names if name != folder and is_linked(name)}
    if not linked:
        return list(files)
    own = {resolve(file.path)[1] for file in list_files([place])}
    further = {name for name in linked - own if os.path.exists(name)}
    return [file for file, name in zip(files, names) if name not in further]


class _Listed(NamedTuple):
    """A file by one of its names; ``linked`` says whether there is a link in it, ``real`` is without any."""

    path: str
    real: str
    linked: bool
    size: int
    changed: int | None


def _list(place: str) -> Iterator[_Listed]:
    system, path = resolve(place)
    local, folder = system.type_name == "local", _folder(path)
    prefix = place[: len(place) - len(path)] if place.endswith(path) else ""
    try:
        info = system.get_file_info(folder)
        real = os.path.realpath(folder) if local else folder
        if info.type == fs.FileType.NotFound:
            raise JobError(f"'{place}' does not exist; check the path")
        if info.type == fs.FileType.File:
            yield _Listed(place, real, False, info.size, info.mtime_ns)
            return
        for file in _walk(folder, real) if local else _select(system, folder):
            if folder == path or _matches(file.path, path):
                yield file._replace(path=prefix + file.path)
    except OSError as error:
        raise JobError(f"cannot list '{place}': {error}") from error


def _folder(path: str) -> str:
    """Return the folder of a glob before its first pattern."""
    while any(c in path for c in "*?["):
        path = os.path.dirname(path)
    return path


def _select(system: fs.FileSystem, folder: str) -> Iterator[_Listed]:
    """All files below a folder of an object store."""
    for info in system.get_file_info(fs.FileSelector(folder, recursive=True)):
        if info.type == fs.FileType.File and not is_hidden(info.path[len(folder) :]):
            yield _Listed(info.path, info.path, False, info.size, info.mtime_ns)


def _walk(
    folder: str, real: str, linked: bool = False, above: frozenset[str] = frozenset()
) -> Iterator[_Listed]:
    """All files below a local folder, links followed but for those that lead back to a folder ``above``."""
    above |= {real}
    with os.scandir(folder) as entries:
        for entry in entries:
            if is_hidden(entry.name):
                continue
            link = entry.is_symlink()
            own = os.path.realpath(entry.path) if link else os.path.join(real, entry.name)
            try:
                if entry.is_dir():
                    if own not in above:
                        yield from _walk(entry.path, own, linked or link, above)
                elif entry.is_file():
                    status = entry.stat()
                    yield _Listed(entry.path, own, linked or link, status.st_size, status.st_mtime_ns)
            except FileNotFoundError:
                # It was there a moment ago.
                continue


def is_hidden(path: str) -> bool:
    """Return whether Spark leaves a path out for one of its names.

    >>> [is_hidden(path) for path in ("a/.b", "_SUCCESS", "_day=1/a", "a._COPYING_", "a_b.c")]
    [True, True, False, True, False]
    """
    names = [name for name in path.split("/") if name]
    return any(n[0] == "." or (n[0] == "_" and "=" not in n) or n.endswith(UNFINISHED_SUFFIX) for n in names)


def _matches(path: str, pattern: str) -> bool:
    """Return whether a path matches a glob, or is below one that does.

    >>> _matches("/in/a/x.csv", "/in/*"), _matches("/in/x.csv", "/in/*.json")
    (True, False)
    """
    patterns, names = pattern.split("/"), path.split("/")
    return len(names) >= len(patterns) and all(map(fnmatch.fnmatchcase, names, patterns))
