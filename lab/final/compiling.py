"""The compiler of slide kernels, which are made of the techniques' own steps."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import weft.final
from weft.final.kernels import KernelCache, compile_kernel


class SlideKernelCache(KernelCache):
    """A cache that looks at the files of all techniques, too."""

    def _index_key(self, sig, codegen):  # type: ignore[no-untyped-def]
        return (*super()._index_key(sig, codegen), _techniques_checksum())  # type: ignore[no-untyped-call]


def compile_slide_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a slide kernel."""
    return compile_kernel(function, SlideKernelCache)


@cache
def _techniques_checksum() -> int:
    """Return a number that changes with the files of techniques."""
    folder = Path(str(weft.final.__file__)).parent
    return zlib.crc32(b"".join(file.read_bytes() for file in sorted(folder.glob("*.py"))))
