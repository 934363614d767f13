"""Exactness of a query that is added to a running stream: from which window on it has all rows.

Windows that start after everything seen so far are. Earlier ones are answered from what the running queries
keep, where that is all of it: cells are cut at the window's edges, and hold every part that the query needs,
of all rows of its predicate. Each running query vouches for what lies in its own open windows, from its own
first exact one on, and for its own edges, in all cells that have been made since it was added.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.aggregates import Part
from weft.model.instants import BEGINNING_OF_TIME
from weft.model.window import Window
from weft.operators.windows.program import CompiledQuery, Origin, WindowProgram
from weft.slicing import Progression

STARTS_PER_CHUNK = 1 << 14
MAX_STARTS = 1 << 20
"""Windows that are looked at; those further back are taken for inexact."""
OLDEST_START = -(1 << 62)


def origin_of(
    alone: WindowProgram, running: WindowProgram, max_time: int | None, watermark: int | None
) -> Origin:
    """Return the origin of a query, compiled ``alone``, that is added to a stream which has come so far.

    Without a watermark no window has been answered yet, and every one of them is open.
    """
    if max_time is None:
        return Origin()
    (entry,) = alone.entries
    window = entry.query.window
    if window.rows:
        # It counts from the first row that nobody has seen.
        return Origin(max_time + 1, max_time)
    mark, later = OLDEST_START if watermark is None else watermark, first_start(window, max_time + 1)
    opening = first_open(window, mark)
    peers = [e for e in running.entries if _alike(e, entry)]
    if peers and not entry.query.group_by:
        peers = [e for e in peers if e.bucket == peers[0].bucket]
    since = max(opening, later)
    if peers and opening < later:
        history = History(alone, running, peers, max_time, mark)
        oldest = max(opening, later - MAX_STARTS * window.slide)
        since = history.first_exact(window, oldest, later)
        if watermark is None and since == oldest:
            since = BEGINNING_OF_TIME  # as far back as it was looked at, so it has always been
    return Origin(since, max_time, peers[0].bucket if since < later else None)


def first_start(window: Window, time: int) -> int:
    """The first start of a window at or after a time.

    >>> first_start(Window(range=12, slide=5, offset=2), 8)
    12
    """
    return time + (window.offset - time) % window.slide


def first_open(window: Window, watermark: int) -> int:
    """The start of the first window that ends after the watermark.

    >>> first_open(Window(range=12, slide=5), 12)
    5
    """
    return first_start(window, watermark - window.range + 1)


def _alike(entry: CompiledQuery, other: CompiledQuery) -> bool:
    """Return whether cells of one grouping and predicate answer both."""
    query, other_query = entry.query, other.query
    return not query.window.rows and (query.group_by, query.predicate) == (
        other_query.group_by,
        other_query.predicate,
    )


def _parts(program: WindowProgram, entry: CompiledQuery) -> set[Part]:
    parts = program.groupings[entry.grouping].parts
    return {parts[n] for answer in entry.answers for n in answer.parts}


class History:
    """Cells that running queries of the same grouping and predicate, ``peers``, have kept for a new one."""

    def __init__(
        self,
        alone: WindowProgram,
        running: WindowProgram,
        peers: Sequence[CompiledQuery],
        max_time: int,
        watermark: int,
    ) -> None:
        self.max_time, self.watermark = max_time, watermark
        self._edges = self._cut(peers)
        peer_parts = [(e, _parts(running, e)) for e in peers]
        self._keeping = [
            [e for e, parts in peer_parts if part in parts] for part in _parts(alone, alone.entries[0])
        ]

    def first_exact(self, window: Window, opening: int, later: int) -> int:
        """The first start from ``opening`` on such that it and all after it are exact, as those from
        ``later`` on are."""
        while later > opening:
            low = max(opening, later - STARTS_PER_CHUNK * window.slide)
            starts = np.arange(low, later, window.slide, dtype=np.int64)
            wrong = np.flatnonzero(~self._is_exact(starts, starts + window.range))
            if len(wrong):
                return int(starts[wrong[-1]]) + window.slide
            later = low
        return opening

    def _is_exact(self, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        exact = self._is_cut(starts) & ((ends > self.max_time) | self._is_cut(ends))
        for keeping in self._keeping:
            exact &= self._is_kept(keeping, starts, np.minimum(ends, self.max_time + 1))
        return exact

    def _cut(self, peers: Sequence[CompiledQuery]) -> dict[Progression, int]:
        """The edges at which no cell is left whole, each with the time from which on that is so.

        Cells of one predicate are only sure to be cut where its own queries need it.
        """
        edges: dict[Progression, int] = {}
        for entry in peers:
            window, origin = entry.query.window, entry.origin
            from_start = from_end = (
                BEGINNING_OF_TIME
                if origin.latest_when_added == BEGINNING_OF_TIME
                else origin.latest_when_added + 1
            )
            if origin.since != BEGINNING_OF_TIME:
                # It was exact from then on, of these very cells.
                from_start, from_end = (min(from_start, origin.since + age) for age in (0, window.range))
            for residue, time in ((window.offset, from_start), (window.offset + window.range, from_end)):
                edge = Progression(window.slide, residue)
                edges[edge] = min(edges.get(edge, time), time)
        return edges

    def _is_cut(self, times: np.ndarray) -> np.ndarray:
        cut = np.zeros(len(times), dtype=np.bool_)
        for edge, since in self._edges.items():
            cut |= (times >= since) & ((times - edge.residue) % edge.period == 0)
            if cut.all():
                break
        return cut

    def _is_kept(self, keeping: Sequence[CompiledQuery], starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Return whether all cells of windows are in open windows of running queries that keep a part."""
        covered = np.zeros(len(starts), dtype=np.bool_)
        for entry in keeping:
            window = entry.query.window
            first = max(
                first_open(window, self.watermark), first_start(window, max(entry.origin.since, OLDEST_START))
            )
            in_open_window = starts >= first
            if window.range < window.slide:
                # Between its windows nothing is kept: the other must be within one of them.
                in_open_window &= (starts - window.offset) % window.slide + (ends - starts) <= window.range
            covered |= in_open_window
        return covered
