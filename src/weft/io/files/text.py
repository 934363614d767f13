"""Text files: what they are compressed with is undone, and what is no UTF-8 is refused by name."""

from __future__ import annotations

import re
from typing import NamedTuple

import pyarrow as pa

from weft.errors import JobError
from weft.io.filesystem import resolve

HEAD_BYTES = 4096
BOM = b"\xef\xbb\xbf"
"""The byte order mark that UTF-8 may begin with."""
CODEC_SIGNATURES = {
    "gzip": rb"\x1f\x8b",
    "bz2": rb"BZh[1-9]1AY&SY",
    "zstd": rb"\x28\xb5\x2f\xfd",
    "lz4": rb"\x04\x22\x4d\x18",
}
OTHER_ENCODINGS = {
    "UTF-32": rb"\xff\xfe\x00\x00|\x00\x00\xfe\xff",
    "UTF-16": rb"\xff\xfe|\xfe\xff",
    "UTF-16 or no text, with NUL bytes at its beginning": rb"\x00|.\x00|..\x00|...\x00",
    "a zip archive": rb"PK\x03\x04",
}


class TextFile(NamedTuple):
    """A file that is open at its beginning, and its first bytes."""

    stream: pa.NativeFile
    head: bytes


def open_text(path: str) -> TextFile:
    """Open a text file, plain or compressed, whatever its name says; JobError where it is no UTF-8.

    >>> import gzip, pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "a.csv"
    >>> _ = file.write_bytes(gzip.compress(b"x,y"))
    >>> open_text(str(file)).stream.read()
    b'x,y'
    """
    system, path = resolve(path)
    file = system.open_input_file(path)
    head = file.read(HEAD_BYTES)
    file.seek(0)
    codec = _match(CODEC_SIGNATURES, head)
    if codec is not None:
        with pa.CompressedInputStream(file, codec) as beginning:
            head = beginning.read(HEAD_BYTES)
        file = pa.CompressedInputStream(system.open_input_file(path), codec)
    encoding = _match(OTHER_ENCODINGS, head)
    if encoding is not None:
        file.close()
        raise JobError(f"it is {encoding}; convert it to UTF-8")
    return TextFile(file, head)


def _match(signs: dict[str, bytes], head: bytes) -> str | None:
    return next((name for name, sign in signs.items() if re.match(sign, head, re.DOTALL)), None)
