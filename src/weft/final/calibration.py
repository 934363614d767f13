"""Costs measured on this machine, in one JSON file that ``weft bench calibrate`` writes.

The file is ``weft/costs.json`` in the user's cache folder (``XDG_CACHE_HOME`` or ``~/.cache``), or what
``WEFT_COSTS`` names. Nothing depends on it: without it, or where it cannot be used, built-in defaults hold.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from weft.errors import JobError, WeftError

FORMAT = 1

Section = TypeVar("Section")


def path() -> Path:
    """Return the path of the file.

    >>> path().name if "WEFT_COSTS" not in os.environ else "costs.json"
    'costs.json'
    """
    named = os.environ.get("WEFT_COSTS")
    if named:
        return Path(named)
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "weft" / "costs.json"


def store(sections: Mapping[str, Any]) -> Path:
    """Write the sections, in place of what the file held; return its path."""
    file = path()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh = file.with_name(f"{file.name}.{os.getpid()}")
        fresh.write_text(json.dumps({"format": FORMAT, **sections}, indent=2) + "\n")
        fresh.replace(file)
    except OSError as error:
        raise JobError(
            f"the costs cannot be written to {file}: {error.strerror}; name another file by WEFT_COSTS"
        ) from error
    return file


def stored(name: str, build: Callable[[Any], Section], default: Section) -> Section:
    """Build a section of the file; return the default without a file, or if it cannot be used."""
    file = path()
    try:
        text = file.read_text()
    except FileNotFoundError:
        return default
    except (OSError, ValueError) as error:
        return _ignored(file, error, default)
    try:
        sections = json.loads(text)
        if not isinstance(sections, dict) or sections.get("format") != FORMAT:
            raise ValueError(f"it is not a file of costs in format {FORMAT}")
        return build(sections[name])
    except KeyError as error:
        return _ignored(file, f"it lacks {error}", default)
    except (ValueError, TypeError, AttributeError, WeftError) as error:
        return _ignored(file, error, default)


def _ignored(file: Path, reason: object, default: Section) -> Section:
    warnings.warn(
        f"costs measured on this machine are ignored, built-in ones used: {file}: {reason}; "
        "`weft bench calibrate` writes it anew",
        stacklevel=3,
    )
    return default
