"""Joins as a picture: per side, the slices of its rows by age, and a line for the range of each join."""

from __future__ import annotations

from weft.model.duration import format_duration
from weft.planning.drawing import HEAD, LEFT, LINE, MOST_LINES, RIGHT, WIDTH, box, few, short, text
from weft.planning.joins.chain_plan import heading
from weft.planning.joins.plan import SharedPlan


def draw_chain(chain: SharedPlan, number: int, top: int) -> tuple[list[str], int]:
    """Draw joins that share their state, and return the height that this takes.

    >>> import weft
    >>> joins = weft.sql("SELECT a.x FROM a [RANGE '1 min'], b [RANGE '2 min'] WHERE a.x = b.x")
    >>> drawn, height = draw_chain(weft.plan(joins).chains[0], 0, 10)
    >>> sum('class="s"' in element for element in drawn)                     # a slice on each side
    2
    """
    members = chain.members[:MOST_LINES]
    left_out = len(chain.members) - len(members)
    more = f", {left_out} not drawn" if left_out else ""
    span = max(max(member.ranges) for member in chain.members)
    scale = (WIDTH - LEFT - RIGHT) / span
    joins, _, condition = heading(chain.members).partition(" on ")
    shown = f"chain {number}: {joins}, {format_duration(span)} shown{more}"
    out = [text(10, top + 14, shown, "h", title=f"on {condition}")]
    y = top + HEAD - LINE
    for side, name in enumerate(chain.members[0].sides):
        out.append(text(10, y + 11, f"slices of {short(name)}", title=name))
        slices = [piece for piece in chain.slices if piece.side == side]
        for piece in slices:
            ages = f"{format_duration(piece.start) if piece.start else '0'} to {format_duration(piece.end)}"
            title = f"{ages}: {piece.rows:,.6g} rows, serves {few(piece.serves)}"
            out.append(box(piece.start, piece.end, y, scale, "s", title))
        bottom = y + LINE * (len(members) + 1)
        for piece in slices:
            x = LEFT + piece.end * scale
            out.append(f'<line class="e" x1="{x:.1f}" x2="{x:.1f}" y1="{y + LINE - 4}" y2="{bottom - 6}"/>')
        for line, member in enumerate(members, 1):
            length = format_duration(member.ranges[side])
            out.append(text(10, y + LINE * line + 11, f"{short(member.name)}  {length}", title=member.name))
            out.append(box(0, member.ranges[side], y + LINE * line, scale, "ab"[line % 2], member.name))
        y = bottom + 6
    return out, y - top + 14
