# Two commands are enough: `make demo` and `make test`. Each sets up a virtual environment of its own first and needs
# nothing but Python (3.11 or newer) with venv and pip; the environment is built again only when pyproject.toml changes.

PYTHON ?= python3
VENV ?= .venv
VENV_LOWEST ?= .venv-lowest
OUT ?= mgvm-demo
DIST ?= dist
BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip --disable-pip-version-check install --quiet

# Tests draw pictures but never open a window.
export MPLBACKEND = Agg

# Tests run on all cores, one process each: threads of the linear algebra would only get in each other's way.
PARALLEL = OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python
SPREAD = -n auto --dist worksteal

# Numba keeps compiled code by the file it was called in and does not see changes in what that calls: one cache for each
# state of the numerics.
export NUMBA_CACHE_DIR ?= $(abspath $(VENV))/numba/$(shell cat src/mgvm/_numerics/*.py src/mgvm/_numerics/*/*.py | cksum | cut -d' ' -f1)

# What rounds: the tests that hold on every CPU or show where it matters.
NUMERICAL = tests/numerics tests/circle tests/test_scores.py tests/torus tests/inference

.PHONY: help demo paper test test-fast test-nojit test-cpus test-lowest wheel-test cpu lint format docs bench clean
.DELETE_ON_ERROR:

help:
	@echo "make demo        run examples/: flights, wind, tides, residues, a moving body ...; figures and tables in $(OUT)/"
	@echo "make paper       the tables and figures of the paper, measured again: mgvm-paper/index.html (FULL=1: all of them)"
	@echo "make test        run the tests"
	@echo "make test-fast   run those that take a moment each: under two minutes on two cores"
	@echo "make test-nojit  run the tests of the numerics with the compiler off"
	@echo "make test-cpus   run what is numerical as on lesser CPUs: without AVX-512, and the baseline of NumPy and Numba"
	@echo "make cpu         tell what CPU this is and what NumPy and Numba make of it"
	@echo "make test-lowest run the tests with the oldest versions of all packages that pyproject.toml allows"
	@echo "make wheel-test  build what would be published into $(DIST)/, install it elsewhere and use it once in every way"
	@echo "make lint        ruff, mypy, import-linter"
	@echo "make format      let ruff tidy the code"
	@echo "make docs        build the guide and the reference: docs/_build/html/index.html"
	@echo "make bench       run the benchmarks, ours beside the peers'"
	@echo "make clean       remove the environment, caches and what the commands wrote"

demo: $(VENV)/.demo-ready
	$(BIN)/python examples/run.py --out "$(OUT)"

# FULL=1 has all splits, seeds and models of the tables, in hours; NAMES= chooses, as in NAMES="figure1 table2".
paper: $(VENV)/.demo-ready
	$(BIN)/python -m paper $(NAMES) $(if $(FULL),--full)

test: $(VENV)/.dev-ready
	$(PARALLEL) -m pytest $(SPREAD) $(PYTEST_ARGS)

# Without what tests/slow.txt names.
test-fast: $(VENV)/.dev-ready
	$(PARALLEL) -m pytest $(SPREAD) -m "not slow" $(PYTEST_ARGS)

test-nojit: $(VENV)/.dev-ready
	NUMBA_DISABLE_JIT=1 $(PARALLEL) -m pytest $(SPREAD) tests/numerics -m "not jit_only" $(PYTEST_ARGS)

# The native CPU is that of `make test`.
test-cpus: $(VENV)/.dev-ready
	$(PARALLEL) tests/cpus.py no-avx512 -m pytest $(SPREAD) $(NUMERICAL) $(PYTEST_ARGS)
	$(PARALLEL) tests/cpus.py baseline -m pytest $(SPREAD) $(NUMERICAL) $(PYTEST_ARGS)

cpu: $(VENV)/.demo-ready
	@$(BIN)/python tests/cpus.py

# In an environment of its own: the recipe, and what it needs, see that one as $(VENV).
test-lowest $(VENV_LOWEST)/.lowest-ready: override VENV = $(VENV_LOWEST)

test-lowest: $(VENV_LOWEST)/.lowest-ready
	$(PARALLEL) -m pytest $(SPREAD) $(PYTEST_ARGS)

# The wheel is made from the sdist, so that one is complete too.
wheel-test: $(VENV)/.dev-ready
	rm -rf "$(DIST)"
	$(BIN)/python -m build --outdir "$(DIST)" . > /dev/null
	$(BIN)/python tests/release.py "$(DIST)"

lint: $(VENV)/.dev-ready
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev-ready
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: $(VENV)/.docs-ready
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html
	@echo "wrote docs/_build/html/index.html"

bench: $(VENV)/.bench-ready
	@set -e; found=; for file in benchmarks/bench_*.py; do \
		[ -e "$$file" ] || continue; found=yes; echo "== $$file"; $(BIN)/python "$$file"; done; \
	[ -n "$$found" ] || { echo "no benchmarks/bench_*.py yet"; exit 1; }

clean:
	rm -rf .venv .venv-lowest mgvm-demo mgvm-paper build dist
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	rm -rf docs/_build docs/api/generated docs/auto_gallery
	find src tests benchmarks examples paper -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python $(VENV_LOWEST)/bin/python:
	@command -v "$(PYTHON)" > /dev/null || \
		{ echo "$(PYTHON) was not found; install Python 3.11 or newer, or say which: make PYTHON=/path/to/python"; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "mgvm needs Python 3.11 or newer, and $$("$(PYTHON)" --version) is older; try make PYTHON=python3.12"; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2> /dev/null || \
		{ echo "$(PYTHON) lacks venv or pip; on Debian and Ubuntu: sudo apt install python3-venv"; exit 1; }
	@echo "Making a virtual environment in $(VENV)"
	@"$(PYTHON)" -m venv --clear "$(VENV)"

$(VENV)/.demo-ready: pyproject.toml | $(BIN)/python
	@echo "Installing mgvm and what the demo needs into $(VENV) (a minute or two, once)"
	@$(PIP) --editable ".[cli]"
	@touch $@

$(VENV)/.dev-ready: pyproject.toml $(VENV)/.demo-ready
	@echo "Installing what the tests and linters need into $(VENV) (once)"
	@$(PIP) --editable ".[dev]"
	@touch $@

$(VENV_LOWEST)/.lowest-ready: pyproject.toml tests/floors.py | $(VENV_LOWEST)/bin/python
	@echo "Installing the oldest versions that pyproject.toml allows into $(VENV) (once)"
	@$(BIN)/python tests/floors.py > $(VENV)/floors.txt
	@PIP_CONSTRAINT=$(VENV)/floors.txt PIP_BUILD_CONSTRAINT=$(VENV)/floors.txt $(PIP) --editable ".[test]"
	@touch $@

$(VENV)/.docs-ready: pyproject.toml $(VENV)/.demo-ready
	@echo "Installing what the guide is built with into $(VENV) (once)"
	@$(PIP) --editable ".[docs]"
	@touch $@

$(VENV)/.bench-ready: pyproject.toml $(VENV)/.dev-ready
	@echo "Installing the packages that the benchmarks compare with into $(VENV) (once)"
	@$(PIP) --editable ".[compare]"
	@touch $@
