"""Freed memory is kept, unless the environment says otherwise."""

from __future__ import annotations

import platform

import pytest

from weft.memory import keep_memory


def test_the_c_library_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_memory.cache_clear()
    monkeypatch.delenv("WEFT_KEEP_MEMORY", raising=False)
    assert keep_memory() == (platform.libc_ver()[0] == "glibc")
    monkeypatch.setenv("WEFT_KEEP_MEMORY", "0")
    assert keep_memory() == (platform.libc_ver()[0] == "glibc"), "what was told stays"
    keep_memory.cache_clear()
    assert not keep_memory()
    keep_memory.cache_clear()
