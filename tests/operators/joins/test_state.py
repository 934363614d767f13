"""Chains split over buckets: whatever is loaded again when, every step gives what one bucket gives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.join_cases import CONDITIONS, SCHEMA, batches, joins, steps_of
from support.join_oracle import as_tuples, ordered
from support.join_runs import join_run
from support.split_joins import SplitJoins


@pytest.mark.slow
@given(data=st.data())
def test_every_step_gives_what_one_chain_gives(data: st.DataObject) -> None:
    a, b = data.draw(batches(0)), data.draw(batches(100))
    condition = data.draw(st.sampled_from(CONDITIONS))
    run = join_run(data.draw(joins(condition)), "2 s", dict.fromkeys("ab", SCHEMA))
    split = SplitJoins(run, data.draw(st.integers(1, 3)))
    for step in steps_of(a, b):
        whole = {name: ordered(as_tuples(t)) for name, t in run.step(step).items()}
        assert split.step(step, again=data.draw(st.booleans())) == whole
        assert split.rows == run.state_rows
    whole = {name: ordered(as_tuples(t)) for name, t in run.close().items()}
    assert split.step({}, again=True) == whole
    assert split.rows == 0, "nothing is needed after the end"
