"""The API's description as one plain page: no script, nothing from anywhere else."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

START = """curl -X POST 'http://127.0.0.1:8787/api/v1/queries?wait=10' -H 'Content-Type: application/json' \\
  -d '{"name": "top", "sql": "SELECT max(price) AS top FROM trades [RANGE &#39;5 min&#39;]"}'"""


def page(description: Mapping[str, Any]) -> str:
    """A page for people from the description for programs.

    >>> "<h2>GET /x</h2>" in page({"info": {"description": "?"}, "paths": {"/x": {"get": {"responses": {}}}}})
    True
    """
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><title>weft</title>",
        "<link rel=stylesheet href=/static/docs.css><h1>weft</h1>",
        f"<p>{escape(description['info']['description'])} <a href=/>Dashboard</a></p>",
        "<p>For programs: <a href=/openapi.json>openapi.json</a>; in a shell: <code>weft query</code>.</p>",
        f"<pre>{START}</pre>",
    ]
    for path, methods in description["paths"].items():
        for method, facts in methods.items():
            parts.append(_route(f"{method.upper()} {path}", facts))
    return "\n".join(parts)


def _route(title: str, facts: Mapping[str, Any]) -> str:
    rows = [
        (f"{p['name']} ({p['in']})", p.get("description") or p.get("schema", {}).get("type", ""))
        for p in facts.get("parameters", ())
    ]
    if "requestBody" in facts:
        schema = facts["requestBody"]["content"]["application/json"]["schema"]
        rows.append(("body", schema.get("$ref", "").rpartition("/")[2]))
    rows += [(status, answer["description"]) for status, answer in facts["responses"].items()]
    table = "".join(f"<tr><td><code>{escape(a)}</code><td>{escape(b)}" for a, b in rows)
    return f"<h2>{escape(title)}</h2><p>{escape(facts.get('description', ''))}</p><table>{table}</table>"
