"""A join of many streams over several nodes: each step gives what one process gives, and rows stay put."""

from __future__ import annotations

import random
import tempfile

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from support.join_cases import SCHEMA, SECOND
from support.join_oracle import as_tuples, ordered
from support.multiway_cases import CONDITIONS, join, joins, steps
from support.seeds import seeded_random
from weft.io.files import Chunk
from weft.local.join_run import JoinRun
from weft.model.instants import END_OF_TIME
from weft.model.join import JoinQuery
from weft.operators.joins.clock import Clock
from weft.operators.joins.compile import JoinCompiler, StreamPosition
from weft.operators.joins.lineage import JoinLayout
from weft.operators.joins.multiway.order_statistics import OrderStatistics
from weft.operators.joins.multiway.packing import pack_tuples, unpack_tuples
from weft.operators.joins.multiway.rounds import Round, nodes_of
from weft.operators.joins.packing import pack_rows, unpack_rows
from weft.operators.joins.program import compile_joins
from weft.operators.joins.rows import JoinRows
from weft.operators.joins.state import JoinState
from weft.operators.watermark import TimeRules
from weft.planning.joins.member import member
from weft.planning.live import LivePlanner
from weft.store import join_layers as kept
from weft.store.join_layers import add_layer, catch_up
from weft.store.manifest import Layer

STREAMS = JoinCompiler(dict.fromkeys("abc", SCHEMA), dict.fromkeys("abc", "ts"), LivePlanner())
LATENESS = 2 * SECOND


class Ring:
    """What Spark's tasks do, one after the other; a node's state is held or rebuilt as told."""

    def __init__(self, queries: list[JoinQuery], nodes: int, place: str, chance: random.Random) -> None:
        self.joins, self.nodes, self.place, self.chance = STREAMS.joins(queries), nodes, place, chance
        self.marks: dict[str, int | None] = dict.fromkeys("abc", None)
        self.layers: list[tuple[Layer, ...]] = [()] * nodes
        self.states = [JoinState(self.joins, node) for node in range(nodes)]
        self.latest: int | None = None
        self.seq = 0
        self.layouts: dict[int, JoinLayout] = {self.joins.version: self.joins.layout}

    def change(self, queries: list[JoinQuery]) -> None:
        """Go on with other queries."""
        before, version = self.joins, self.joins.version + 1
        self.joins = STREAMS.joins(queries, version, before, StreamPosition(self.latest, self.marks))
        self.layouts[version] = self.joins.layout
        self.states = [state.carried_over(self.joins, self.marks) for state in self.states]

    def step(
        self, tables: dict[str, pa.Table], rebuilt: bool, end: int | None = None
    ) -> dict[str, list[str]]:
        if rebuilt:
            for node in range(self.nodes):
                self.states[node] = JoinState(self.joins, node)
                catch_up(self.states[node], self.place, self.layers[node], self.marks)
        orders = self.chance.choice([((1, 2), (2, 0), (0, 1)), ((2, 1), (0, 2), (1, 0))])
        for state in self.states:
            for chain in state.chains:
                chain.orders = orders
        arrived = self._arrived(tables)
        if end is not None:
            self.marks = dict.fromkeys(self.marks, end)
        rounds = self._rounds(arrived)
        self.seq += 1
        known = [m for m in self.marks.values() if m is not None]
        now = min(known) if len(known) == 3 else None
        found: dict[str, list[str]] = {}
        for node, (state, node_round) in enumerate(zip(self.states, rounds)):
            results, fresh = state.step({}, self.marks, self.nodes, node_round)
            self.layers[node] = add_layer(
                self.place, self.layers[node], fresh, node, (self.seq, "t"), now, self.joins
            )
            for name, table in results.items():
                found.setdefault(name, []).extend(map(repr, as_tuples(table)))
        return {name: sorted(rows) for name, rows in found.items()}

    def _arrived(self, tables: dict[str, pa.Table]) -> dict[tuple[int, int], pa.RecordBatch]:
        """What map tasks make of new rows."""
        chains, arrived = self.joins.chains(), {}
        for stream, table in tables.items():
            clock = Clock("ts", TimeRules(LATENESS), self.marks[stream])
            timed, _ = clock.admit(Chunk(table), now=0)
            self.marks[stream] = clock.watermark
            if timed.times.size:
                self.latest = max(int(timed.times[-1]), self.latest or 0)
            for number, side in self.joins.sides[stream]:
                rows = chains[number].rows(side, timed)
                if rows is not None:
                    arrived[number, side] = pack_rows(rows, chains[number].signatures[side])
        return arrived

    def _rounds(self, arrived: dict[tuple[int, int], pa.RecordBatch]) -> list[Round]:
        rounds = []
        for node, state in enumerate(self.states):
            rings = dict(enumerate(state.chains))
            new: dict[tuple[int, int], JoinRows] = {}
            for (number, side), batch in arrived.items():
                chain = rings[number]
                new[number, side] = unpack_rows(batch, chain.signatures[side], chain.program.schemas[side])
            rounds.append(Round.begin(new, rings, node, self.nodes))
        for key, batch in arrived.items():
            stored = sum(len(node_round.own[key]) for node_round in rounds if key in node_round.own)
            assert stored == batch.num_rows, "every row is stored by one node"
        for round_number in range(2):
            made: dict[tuple[int, int], list[pa.RecordBatch]] = {}
            for state, node_round in zip(self.states, rounds):
                for number, chain in enumerate(state.chains):
                    for start, tuples in node_round.probe(number, chain, round_number):
                        if round_number == 1:
                            node_round.results.setdefault(number, []).append(tuples)
                        else:
                            made.setdefault((number, start), []).append(pack_tuples(tuples))
            for node_round in rounds:
                node_round.probes = {key: list(map(unpack_tuples, some)) for key, some in made.items()}
        return rounds


@pytest.mark.slow
@given(data=st.data())
def test_every_step_gives_what_one_process_gives(data: st.DataObject) -> None:
    condition = data.draw(st.sampled_from(CONDITIONS))
    queries, batches = data.draw(joins(condition)), data.draw(steps())
    run = JoinRun(queries, "ts", "2 s")
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        ring = Ring(queries, data.draw(st.integers(1, 4)), place, seeded_random(data.draw(st.integers(0, 9))))
        patch.setattr(kept, "MAX_LAYERS", data.draw(st.integers(1, 16)))
        patch.setattr(kept, "read_layout", lambda place, version: ring.layouts[version])
        for number, step in enumerate(batches):
            if number and data.draw(st.booleans()):
                queries = change(data, run, queries, condition, number)
                ring.change(queries)
            whole = {name: ordered(as_tuples(t)) for name, t in run.step(step).items()}
            assert ring.step(step, data.draw(st.booleans())) == whole
            assert sum(s.rows for s in ring.states) == state_size(run)
        whole = {name: ordered(as_tuples(t)) for name, t in run.close().items()}
        assert ring.step({}, True, END_OF_TIME) == whole
    assert all(layers == () for layers in ring.layers), "nothing is needed after the end"


def state_size(run: JoinRun) -> int:
    """Rows and results that wait."""
    return sum(s.state_rows + sum(w.times.size for w in s.union.waiting) for s in run.states)


def change(
    data: st.DataObject, run: JoinRun, queries: list[JoinQuery], condition: str, number: int
) -> list[JoinQuery]:
    """Add a join or drop one."""
    if len(queries) > 1 and data.draw(st.booleans()):
        gone = data.draw(st.sampled_from(queries))
        run.drop(gone.name)
        return [q for q in queries if q is not gone]
    (added,) = data.draw(joins(condition, f"added{number}_", most=1))
    run.add(added)
    return [*queries, added]


def test_turns_go_round_once_in_a_range() -> None:
    (query,) = weft.sql("SELECT a.x FROM a [RANGE '8 s'], b [RANGE '3 s'], c [RANGE '1 s']")
    assert isinstance(query, JoinQuery)
    program = compile_joins([member(query)], dict.fromkeys("abc", SCHEMA), {})
    times = np.arange(-2, 12) * SECOND
    assert nodes_of(program, 0, times, 4).tolist() == [3, 3, 0, 0, 1, 1, 2, 2, 3, 3, 0, 0, 1, 1]
    assert set(nodes_of(program, 1, np.arange(0, 3 * SECOND, 1000), 4).tolist()) == {0, 1, 2, 3}
    assert nodes_of(program, 2, times, 1).tolist() == [0] * 14


def test_orders_follow_what_nodes_report() -> None:
    query = join("q", "a.x = b.x AND a.k = c.k", "", (5, 5, 5))
    program = compile_joins([member(query)], dict.fromkeys("abc", SCHEMA), {})
    statistics = OrderStatistics()
    (before,) = statistics.orders([program])
    slow = before[0][0]  # what a's rows probe first, since nothing is known
    work = [[0, [0], slow, 1e6, 5e5, 5e5], [0, [0], 3 - slow, 1e6, 10.0, 10.0]]
    statistics.learn([program], [{"work": work, "kept": {"0": [100, 100, 100]}}])
    (after,) = statistics.orders([program])
    assert after is not None
    assert after[0] == (3 - slow, slow)
