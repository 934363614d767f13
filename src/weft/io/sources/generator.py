"""``kind = "generator"`` of a job file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from weft.io.kinds import SourceKind
from weft.io.settings import NO_TIME, Duration
from weft.io.sources.generated import Generated


@dataclass(frozen=True, slots=True)
class FromGenerator(SourceKind):
    """Made-up rows, the same for the same seed."""

    kind: ClassVar[str] = "generator"

    data: str = "trades"
    """`"trades"`, `"sensors"`, `"clicks"`, `"meters"` or `"payments"`"""
    rows: int = 1_000_000
    """how many"""
    rate: float = 1000.0
    """rows per second of event time"""
    symbols: int = 500
    """how many symbols, sensors, users, houses or cards"""
    skew: float = 1.0
    """the k-th busiest of them has a share of about 1 / k^skew; 0 makes all alike"""
    seed: int = 0
    """another seed, other rows"""
    disorder: Duration = NO_TIME
    """how late a row can come at most"""
    batches: int = 8
    """how many batches the rows come in"""
    pace: bool = False
    """`true` lets rows come as time passes, `rate` a second, with event times from now on; such a stream goes
    on until it is stopped"""

    @property
    def is_endless(self) -> bool:
        """True where the rows come as time passes."""
        return self.pace

    def make(self) -> Generated:
        """Make the rows' source."""
        return Generated(
            self.data,
            self.rows,
            self.rate,
            self.symbols,
            self.skew,
            self.seed,
            self.disorder / 1e6,
            self.pace,
            None if self.pace else -(-self.rows // max(self.batches, 1)),
        )
