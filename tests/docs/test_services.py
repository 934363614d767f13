"""What the pages about sources and sinks show runs, also what needs a broker, a database or a web server."""

from __future__ import annotations

import re

import pytest

from support import servers
from support.brokers import Broker
from support.places import DOCS


@pytest.mark.parametrize("page", ["sources.md", "sinks.md"])
def test_python_about_sources_and_sinks_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    broker = Broker()
    broker.send("trades", [{"ts": "2024-01-01T00:00:01Z", "symbol": "A", "price": 2.0, "volume": 700}])
    blocks = re.findall(r"^```(?:py|python)\n(.*?)^```", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 2
    names: dict[str, object] = {}
    with servers.postgres() as database, servers.hook() as hook:
        real = {
            "localhost:9092": broker.servers,
            "postgresql://weft@localhost/answers": database.address,
            "https://example.org/alerts": hook.url,
        }
        for block in blocks:
            for written, meant in real.items():
                block = block.replace(written, meant)
            exec(compile(block, page, "exec"), names)
    assert capsys.readouterr().out
