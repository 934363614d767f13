"""Parcels: what the tasks of a step send to each other, and to the driver."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, NamedTuple


class ParcelKind(enum.IntEnum):
    """Kinds of parcels, in the order in which a task looks at them."""

    ROWS = 0
    """Counts and notes of the rows that a map task read."""

    RELAYED = 1
    """A note of what a bucket did in one exchange."""

    PIECE = 2
    """A piece of a stage, on its way to the bucket that it is for."""

    MISSED = 3
    """Rows that were late, on their way to the files of answers."""

    REJECTED = 4
    """Rows that cannot be read, likewise."""

    REPORT = 5
    """The report of a bucket that has stepped, for the driver."""

    RESULT = 6
    """Results of a query, for the driver, where no file holds them."""


NOTES = (ParcelKind.ROWS, ParcelKind.RELAYED, ParcelKind.REPORT)
"""Kinds whose content is plain data; that of the others is a table, or what ``Stage.pack`` makes one."""


class ParcelPlace(NamedTuple):
    """The order of parcels."""

    kind: int
    stage: str
    part: str
    origin: int


@dataclass(frozen=True, slots=True)
class Parcel:
    """One parcel for a bucket. ``stage`` is the stage it is of, ``part`` the part of the stage's state or the
    name of a table or a query, and ``origin`` the task that sent it."""

    bucket: int
    kind: ParcelKind
    stage: str
    part: str
    origin: int
    content: Any

    @property
    def place(self) -> ParcelPlace:
        """The place of a parcel among those of a bucket: fixed, so that a step made again gives the same
        bits."""
        return ParcelPlace(self.kind, self.stage, self.part, self.origin)
