"""Paths and addresses of any file system: the one place that turns ``path`` or ``scheme://...`` into one.

Local paths, ``file:``, and whatever pyarrow knows (``hdfs://``, ``s3://``, ``gs://``, ``abfss://``).
"""

from __future__ import annotations

import os
import re
import uuid
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
from pyarrow import fs

from weft.errors import JobError

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


def resolve(place: str | os.PathLike[str]) -> tuple[fs.FileSystem, str]:
    """The file system of a place, and the path in it.

    >>> system, path = resolve("file:/data/a b.csv")
    >>> system.type_name, path
    ('local', '/data/a b.csv')
    """
    text = os.fspath(place)
    if not _SCHEME.match(text):
        return fs.LocalFileSystem(), os.path.abspath(text)
    scheme, rest = text.split(":", 1)
    if scheme.lower() == "file":
        return fs.LocalFileSystem(), "/" + rest.lstrip("/")
    scheme = {"s3a": "s3", "s3n": "s3"}.get(scheme.lower(), scheme)
    try:
        return fs.FileSystem.from_uri(f"{scheme}:{quote(rest, safe='/:@?=&%+,~')}")  # type: ignore[no-any-return]
    except (pa.ArrowInvalid, OSError, ValueError) as error:
        raise JobError(f"cannot open '{text}': {error}") from error


def uri(place: str | os.PathLike[str]) -> str:
    """The place as every process of a cluster can read it: local paths made absolute.

    >>> uri("/data/in")
    '/data/in'
    """
    text = os.fspath(place)
    return text if _SCHEME.match(text) else os.path.abspath(text)


def join(place: str, *names: str) -> str:
    """A place below another."""
    return "/".join([place.rstrip("/"), *names])


def write_atomically(
    system: fs.FileSystem, path: str, data: bytes | pa.Buffer, *, replace: bool = True
) -> None:
    """Write a file so that it is either there whole, also after a power cut, or not at all.

    Without ``replace``, a file that is there already is left alone and FileExistsError raised. On a local
    disk and on HDFS that is one atomic step. Object stores could do it, but pyarrow knows no conditional put:
    there it is a look before the write, and who must be sure looks again afterwards.
    """
    if not isinstance(system, fs.LocalFileSystem):
        # Object stores publish a file when it is closed; HDFS renames.
        _write_remotely(system, path, data, replace)
        return
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    temporary = f"{os.path.dirname(path)}/.{os.path.basename(path)}.{uuid.uuid4().hex[:8]}"
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            os.replace(temporary, path)
        else:
            os.link(temporary, path)
        _sync_folder(os.path.dirname(path))
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def _write_remotely(system: fs.FileSystem, path: str, data: bytes | pa.Buffer, replace: bool) -> None:
    if not replace and system.get_file_info(path).type != fs.FileType.NotFound:
        raise FileExistsError(path)
    system.create_dir(os.path.dirname(path), recursive=True)
    renames = system.type_name == "hdfs"
    target = f"{path}.{uuid.uuid4().hex[:8]}.tmp" if renames else path
    with system.open_output_stream(target) as out:
        out.write(data)
    if renames:
        if replace and system.get_file_info(path).type != fs.FileType.NotFound:
            system.delete_file(path)
        try:
            system.move(target, path)
        except OSError as error:
            # HDFS renames to no name that is taken.
            if replace or system.get_file_info(path).type == fs.FileType.NotFound:
                raise
            system.delete_file(target)
            raise FileExistsError(path) from error


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
