"""Freed memory is kept, unless the environment says otherwise; streams do not grow with their steps."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator

import psutil
import pyarrow as pa
import pytest

import weft
from support import steps
from support.local_streams import start_stream
from weft.local.running import LocalRun
from weft.runner.memory import keep_memory
from weft.sinks import FunctionSink


def test_the_c_library_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_memory.cache_clear()
    monkeypatch.delenv("WEFT_KEEP_MEMORY", raising=False)
    assert keep_memory() == (platform.libc_ver()[0] == "glibc")
    monkeypatch.setenv("WEFT_KEEP_MEMORY", "0")
    assert keep_memory() == (platform.libc_ver()[0] == "glibc"), "what was told stays"
    keep_memory.cache_clear()
    assert not keep_memory()
    keep_memory.cache_clear()


@pytest.mark.slow
def test_a_stream_in_process_does_not_grow_with_its_steps() -> None:
    watched, schema = steps.Watched(), next(steps.batches(1)).schema
    run = LocalRun(weft.sql(steps.QUERIES), schema, "ts", threads=2)

    def batches() -> Iterator[pa.Table]:
        for number, batch in enumerate(steps.batches(), 1):
            yield batch
            watched.look(number, [psutil.Process()])

    assert start_stream(run, batches(), FunctionSink(lambda *_: None)).await_done()
    assert watched.growth()[os.getpid()] < steps.BOUND
