"""What is wrong with a story."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Failure:
    """What is wrong, and from which step on (the last: at the end)."""

    step: int
    lines: tuple[str, ...]

    @property
    def is_ours(self) -> bool:
        """Whether the story itself makes no sense: it has become too small."""
        return self.lines[0].startswith(("UnknownQuery:", "NameTaken:", "QueryError:"))

    def __str__(self) -> str:
        shown = "\n  ".join(self.lines[:12])
        more = f"\n  ... and {len(self.lines) - 12} more" if len(self.lines) > 12 else ""
        return f"step {self.step}:\n  {shown}{more}"
