"""The checks of words on small files."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
import words


@pytest.fixture
def findings(tmp_path: Path):
    """A function that checks a file of ``src``, or another, and returns its findings."""

    def check(text: str, name: str = "src/mill/model.py", rule: str | None = None) -> list[str]:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
        rules = [rule] if rule else list(words.RULES)
        return [
            f"{finding.line} {finding.rule} {finding.subject}" for finding in words.check(tmp_path, rules)
        ]

    return check


def test_a_pronoun_may_live_for_three_lines(findings) -> None:
    body = """\
        def read(rows):
            found = rows[0]
            rows.sort()
            rows.sort()
            {}
            return {}
        """
    assert findings(body.format("print(found)", "rows")) == []
    assert findings(body.format("rows.sort()", "found")) == ["2 pronoun read.found"]


def test_names_of_comprehensions_are_their_own(findings) -> None:
    text = """\
        def read(rows):
            first = [each for each in rows]
            second = 2
            third = 3
            fourth = [lambda some: some for each in rows]
            return [
                each
                for row in rows
                for other in row
                for third in other
                for each in third
            ]
        """
    assert findings(text) == ["11 pronoun read.each"]


def test_uses_in_inner_functions_count(findings) -> None:
    text = """\
        def read(rows):
            known = set(rows)

            def add(row):
                row.sort()
                known.add(row)

            return add
        """
    assert findings(text) == ["2 pronoun read.known"]


def test_a_name_of_an_inner_function_is_not_the_outer_one(findings) -> None:
    text = """\
        def read(rows):
            found = rows[0]
            rows.append(found)

            def add(found):
                return found

            return add
        """
    assert findings(text) == []


def test_parameters_fields_and_functions(findings) -> None:
    text = '''\
        class Plan:
            kept: int

            def __init__(self, told):
                """Make a plan."""
                self._asked = told
                self._asked = 2

            def long(self, told):
                a = 1
                b = 2
                return a + b + told

            def some(self): ...
        '''
    assert findings(text) == [
        "2 pronoun Plan.kept",
        "6 pronoun Plan._asked",
        "9 pronoun Plan.long.told",
        "14 pronoun Plan.some",
    ]


def test_docstrings(findings) -> None:
    text = '''\
        """What a model is."""
        class Model:
            """Where rows are."""
            def count(self):
                """How many there are."""
            def rows(self):
                """Return what is there."""
            def first(self):
                """Returns the first row."""
            def columns(self):
                """The columns of a row."""
        '''
    subjects = [
        "1 docstring model",
        "3 docstring Model",
        "5 docstring Model.count",
        "9 docstring Model.first",
    ]
    assert findings(text) == subjects


def test_classes_of_one_name(findings) -> None:
    assert findings("class Row: ...\nclass Cell: ...\n") == []
    assert findings("class Row: ...\n", "lab/ring.py") == []
    assert findings("def make():\n    class Row: ...\n", "src/mill/other.py") == ["2 class Row"]


def test_constants(findings) -> None:
    text = """\
        MOST = 3
        AT_ONCE: int = 4
        _LARGEST, MAX_ROWS = 1 << 4, 5
        ROWS = 10
        LATE, ROW = range(2)
        FILES = ("a", "b")
        SECOND = 1_000_000
        """
    expected = ["1 constant MOST", "2 constant AT_ONCE", "3 constant _LARGEST"]
    assert findings(text) == [*expected, "4 constant ROWS"]
    assert findings(text, "benchmarks/rows.py")[:3] == expected


def test_returned_tuples(findings) -> None:
    text = """\
        def bounds() -> tuple[int, int, int]: ...
        def maybe() -> tuple[int, int, int] | None: ...
        def pair() -> tuple[int, int]: ...
        def many() -> tuple[int, ...]: ...
        def _own() -> tuple[int, int, int]: ...
        def _lent() -> "tuple[int, int, int]": ...
        class _Private:
            def bounds(self) -> tuple[int, int, int]: ...
        """
    assert findings(text) == ["1 tuple bounds", "2 tuple maybe"]
    assert "6 tuple _lent" in findings("from mill.model import _lent\n", "src/mill/other.py")


def test_retired_names_and_phrases(findings) -> None:
    text = '''\
        class Doors:
            """Guard of requests.

            A client is
            told.
            """
            state = "joining"
            note = f"joining {2} streams: half a  character"
        '''
    assert findings(text) == [
        "1 retired Doors",
        "5 phrase Doors:told",
        "7 phrase Doors:joining",
        "8 phrase Doors:half-a-character",
    ]


def test_pages(findings) -> None:
    assert findings("# Title\nThe file is not\nwhole.\n", "docs/files.md") == ["2 phrase files:is-not-whole"]


def test_exceptions_need_a_reason_and_a_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    allowed = tmp_path / "allowed.txt"
    model = tmp_path / "src/mill/model.py"
    model.parent.mkdir(parents=True)
    model.write_text("MOST = 3\n")
    options = ["--root", str(tmp_path), "--allowed", str(allowed)]

    assert words.main(options) == 1
    assert capsys.readouterr().out.startswith("src/mill/model.py:1: constant MOST has no noun")
    allowed.write_text("# comment\nconstant MOST: the paper's own name\n")
    assert words.main(options) == 0
    model.write_text("")
    assert words.main(options) == 1
    assert capsys.readouterr().out == "allowed.txt: 'constant MOST' is not needed any more\n"
    assert words.main([*options, "--select", "tuple"]) == 0
    allowed.write_text("constant MOST\n")
    assert words.main(options) == 1
    assert "allowed.txt:1: write 'rule subject: reason'" in capsys.readouterr().err


def test_counts_by_package(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("src/mill/model.py", "src/mill/sql/text.py", "benchmarks/join.py", "lab/ring/run.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("MOST = 3\n")
    words.main(["--root", str(tmp_path), "--count", "--allowed", str(tmp_path / "none.txt")])
    packages = [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]]
    assert packages == ["benchmarks", "lab/ring", "mill", "mill.sql", "together"]
