"""A run that tests feed, and a client of its API."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from support.web_world import World


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.stream.stop()


@pytest.fixture
def client(world: World) -> TestClient:
    return world.client()
