# The project from a fresh clone: needs make and Python 3.11 or newer, everything else goes into .venv.

PYTHON ?= python3
VENV   ?= .venv
OUT    ?= results/arm
ARGS   ?=
JOBS   ?= 2
LOWEST ?= .venv-lowest

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet
# The project's distribution once had this name, which is another project's; see the README.
UNINSTALL := $(BIN)/python -m pip uninstall --disable-pip-version-check --yes -qq

# Byte code is kept: without it every process of the tests would compile all modules, and rewrite assertions, anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-processors test-narrow test-skipped test-lowest lint docs tutorials test-docs benchmarks budget wheel bench peers clean distclean

help:
	@echo "make demo       solve the arm problem with iLQR and DDP; pictures and data go to $(OUT)"
	@echo "make test       linters, type check, import contracts, tests   (ARGS='-k urdf' goes to pytest, JOBS=2 processes)"
	@echo "make docs       the site, in site/;  make test-docs: what its pages show, and its links"
	@echo "make tutorials  executes the tutorials, whose notebooks the site shows (only: ARGS=05_gait)"
	@echo "make benchmarks   measure what its page of benchmarks shows"
	@echo "make lint       the same without the tests"
	@echo "make test-processors   the tests as other processors run them;  make test-narrow: a few of them, as one without AVX-512"
	@echo "make test-skipped      the tests that were skipped so far, with the libraries that most of them need (make peers, and more)"
	@echo "make test-lowest       the tests with the lowest versions of all libraries, in $(LOWEST); with Python 3.11 or 3.12"
	@echo "make budget     what a first use of the arm compiles, against the budget for it"
	@echo "make wheel      a wheel in dist/ with the kernels that examples and problems need, compiled   (ARGS='--levels x86-64-v3')"
	@echo "make bench      time the kernels and solvers; Pinocchio beside them if 'make peers' was run"
	@echo "make peers      install the libraries that benchmarks and experiments compare with"
	@echo "make clean      remove caches and build products;  make distclean: also $(VENV) and results/"
	@echo
	@echo "Another interpreter: make demo PYTHON=python3.12"

demo: $(VENV)/.installed
	$(BIN)/trajopt compare arm --out $(OUT)
	@echo && echo "Written to $(OUT):" && ls $(OUT)

test: lint $(VENV)/.installed-test
	$(BIN)/python -m pytest -n $(JOBS) $(ARGS)

test-processors: $(VENV)/.installed-test
	$(BIN)/python -m tests.processors -- -n $(JOBS) $(ARGS)

test-narrow: $(VENV)/.installed-test
	$(BIN)/python -m tests.processors narrow -- -n $(JOBS) -m processor

# torch is left out: from the package index it comes with gigabytes for graphics processors.
test-skipped: $(addprefix $(VENV)/.installed-,test peers robots view jax)
	$(BIN)/python -m pytest -n $(JOBS) --skipped $(ARGS)

test-lowest: $(LOWEST)/.installed
	$(LOWEST)/bin/python -m pytest -n $(JOBS) $(ARGS)

# with the tests' libraries: the type checker looks for what the package imports from them
lint: $(addprefix $(VENV)/.installed-,lint test)
	$(BIN)/ruff check .
	$(BIN)/pyright --pythonpath $(BIN)/python --level warning
	$(BIN)/lint-imports

docs: $(VENV)/.installed-docs
	$(BIN)/python -m sphinx -q -W --keep-going -b html -d build/doctrees docs site
	@echo "Written to site: open site/index.html"

tutorials: $(VENV)/.installed-docs
	$(BIN)/python -m docs.execute_tutorials $(ARGS)

test-docs: docs $(VENV)/.installed-test
	$(BIN)/python -m pytest -n $(JOBS) -m docs tests/docs $(ARGS)

# Small runs, but for the kernels, which take no time; the JSON is what the page draws its tables from.
benchmarks: $(VENV)/.installed
	mkdir -p build/benchmarks
	set -e; for name in "bench" "convergence --quick" "ilqr_vs_ddp --quick" "mpc_latency --quick" constants cold_start; do \
	    file=$${name% *}.json; $(BIN)/python -m experiments.$$name --out build/benchmarks/$$file; \
	    $(BIN)/python -m json.tool --compact build/benchmarks/$$file docs/benchmarks/$$file; done

budget: $(VENV)/.installed-test
	$(BIN)/python -m experiments.cold_start --budget

wheel: $(VENV)/.installed-test
	$(BIN)/python -m experiments.wheel --out dist $(ARGS)

bench: $(VENV)/.installed
	$(BIN)/trajopt bench $(ARGS)

peers: $(VENV)/.installed-peers

# Each stamp marks one pip call that has succeeded; a change of pyproject.toml installs again.
# .installed is no prerequisite of the other two: they install the project as well.
$(VENV)/.installed: pyproject.toml | $(VENV)/.created
	@echo "Installing into $(VENV), first time only (a minute or two) ..."
	@$(UNINSTALL) trajopt
	@$(PIP) --editable .
	@touch $@

$(VENV)/.installed-%: pyproject.toml | $(VENV)/.created
	@echo "Installing with the $* extra into $(VENV), first time only (a minute or two) ..."
	@$(UNINSTALL) trajopt
	@$(PIP) --editable '.[$*]'
	@touch $(VENV)/.installed $@

$(LOWEST)/.installed: pyproject.toml
	@echo "Installing the lowest versions into $(LOWEST) (a minute or two) ..."
	@$(PYTHON) -m venv $(LOWEST)
	@$(LOWEST)/bin/python -m pip install --disable-pip-version-check --quiet --editable '.[test]' `$(PYTHON) tests/lowest.py`
	@touch $@

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    echo "Python 3.11 or newer is needed, '$(PYTHON) --version' says: `$(PYTHON) --version 2>&1 || true`" >&2; \
	    echo "Name another one: make $(or $(MAKECMDGOALS),demo) PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { \
	    echo "No virtual environment in $(VENV): on Debian and Ubuntu install the package python3-venv, then try again." >&2; \
	    exit 1; }
	@touch $@

clean:
	rm -rf build dist site jupyter_execute docs/reference docs/gallery/problems *.egg-info .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find trajopt dynamics problems experiments tests docs -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

distclean: clean
	rm -rf $(VENV) $(LOWEST) results
