"""The refusal of an exact count that would cost too much."""

from __future__ import annotations

from weft.errors import WeftError


class Unaffordable(WeftError):
    """An exact count that would take more time or memory than it was given.

    >>> print(Unaffordable("the composite period has 6469693230 bits", "count with merged F1"))
    the composite period has 6469693230 bits; count with merged F1
    """

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}; {remedy}")
