"""Errors out of Spark: what weft raised on purpose in some task comes back as that error, and one line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from weft import errors
from weft.errors import CheckpointError, JobError, WeftError

_RAISED_ERROR = re.compile(r"weft\.errors\.(\w+): (.+)")
_CAUSES = re.compile(r"^(?:Caused by: )?(?:[\w.$]+(?:Exception|Error)): (.+)$", re.MULTILINE)


@contextmanager
def surfaced() -> Iterator[None]:
    """Raise errors of Spark in the block as errors of weft."""
    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as error:
        raise translated(error) from error


def translated(error: BaseException) -> WeftError:
    """Return the error of weft behind the wrapping of Spark and py4j.

    >>> translated(Py4JError("Traceback ...\\nweft.errors.QueryError: query 'q': no\\n at org.apache..."))
    QueryError("query 'q': no")
    """
    if isinstance(error, WeftError):
        return error
    if is_jvm_gone(error):
        return JobError(
            "the Java process of Spark has ended (killed, or out of memory: see its log); start the "
            "program again: a stream with a checkpoint goes on where it was"
        )
    if not isinstance(error, PySparkException | Py4JError):
        return JobError(f"{type(error).__name__}: {error}")
    text = str(error)
    raised = _RAISED_ERROR.findall(text)
    if raised:
        name, message = raised[-1]
        kind = getattr(errors, name, JobError)
        return kind(message.strip()) if issubclass(kind, WeftError) else JobError(message)
    if "CONCURRENT_STREAM_LOG_UPDATE" in text:
        return CheckpointError(
            "another run has written to Spark's log of this checkpoint; only one run can use a checkpoint at "
            "a time: stop one of them, and start the other again"
        )
    if "maxResultSize" in text:
        return JobError(
            "the results of one step are larger than the driver may collect; raise "
            "spark.driver.maxResultSize and spark.driver.memory, or take smaller batches"
        )
    if "failed to connect back" in text:
        return JobError(
            "a Python process of Spark's did not start within ten seconds, so the machine may be too busy; "
            "run it again: a stream with a checkpoint goes on where it was"
        )
    causes = _CAUSES.findall(text)
    first = (causes[-1] if causes else text.strip()).splitlines()[0]
    return JobError(f"Spark could not run the job: {first}")


def is_jvm_gone(error: BaseException) -> bool:
    """Return whether an error says that there is no Java process any more to talk to."""
    return isinstance(error, Py4JNetworkError | ConnectionError)
