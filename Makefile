# make psi            run the embedded default: results/psi_table.csv and results/report.html
#                     CONFIG=f: with your config; FORCE=1: over tables that another config made
# make setup          make .venv from requirements.lock
# make test           run the test suite without the tests of the next three targets
# make process-test   run tests that start programs: whole runs, killed jobs, installs, a browser
# make slurm-test     run tests of failing jobs and nodes on a real SLURM of one node (Debian, root)
# make vllm-test      run tests on a real vLLM on CPUs, ten minutes; RELEASES="0.27.0 0.30.0": and some
#                     requests to these releases
# make peers          run tests with other projects' programs: mteb, BEIR, ranx, ir-measures, PyTerrier, ...
# make lint           check formats, lint, types, the workflow, generated files; dry run of each config;
#                     build the documentation site, docs/_build/html
# make format         format the code; write config/schema.json and the generated pages of docs/
# make bench          measure speed and memory side by side with other libraries: docs/benchmarks.md
# make gpu-bench      measure encoding and reranking on this machine's GPU, ten minutes; ARGS=--cpu: try it
#                     with tiny models; ARGS="--squad f": with your SQuAD file
# make real           run real engines on this machine: SmolLM2-135M, Apertium, multilingual-e5-small;
#                     ARGS=--check: kill the run once, continue it, recompute ledger and figures
# make lock           write requirements*.lock from pyproject.toml

# The first interpreter that runs and is new enough (a pyenv shim may be there and not run).
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
CORES ?= all
VENV := .venv
BIN := $(VENV)/bin
CONFIG ?=
export PATH := $(CURDIR)/$(BIN):$(PATH)
export TOKENIZERS_PARALLELISM ?= true
# uv, where it is there, is three times as fast as pip; `UV=` for pip and its settings.
UV ?= $(shell command -v uv)
INSTALL := $(if $(UV),$(UV) pip install --quiet --compile-bytecode --python $(BIN)/python,\
  $(BIN)/python -m pip install --quiet --disable-pip-version-check)

.PHONY: psi setup test process-test slurm-test vllm-test peers real lint format bench gpu-bench lock
.DEFAULT_GOAL := psi

psi: setup
	@psibench run --cores $(CORES) $(if $(FORCE),--force) $(CONFIG)

RUNS := tests/workflow tests/end_to_end tests/package
PROCESS_TESTS = $(RUNS) $(shell grep -rl --include='test_*.py' 'mark\.processes' tests)
PYTEST := pytest -n auto --dist loadfile --no-loadscope-reorder --max-worker-restart 0

# What the lock has and another environment may lack is required here.
test: setup
	@PSIBENCH_REQUIRE_DOCUMENTS=1 $(PYTEST) -m "not processes" $(addprefix --ignore ,$(RUNS)) $(ARGS)

process-test: setup
	@$(PYTEST) -m processes $(PROCESS_TESTS) $(ARGS)

slurm-test: setup
	@PSIBENCH_SLURM=1 python tools/slurm_node.py run \
	  pytest -n 3 --dist load tests/slurm $(ARGS)

VLLM := .venv-vllm
vllm-test: setup
	@psibench vllm-env --cpu $(VLLM)
	@$(foreach release,$(RELEASES),psibench vllm-env --cpu --release $(release) $(VLLM)-$(release) &&) true
	@PSIBENCH_VLLM=$(CURDIR)/$(VLLM)/bin/vllm$(foreach release,$(RELEASES),:$(CURDIR)/$(VLLM)-$(release)/bin/vllm) \
	  pytest tests/vllm $(ARGS)

real: setup
	@python tools/real.py $(ARGS)

# A peer that is missing is a failure here; in `make test` its tests are skipped.
peers: $(VENV)/.installed-peers
	@PSIBENCH_REQUIRE_PEERS=1 pytest -n 2 --dist loadfile tests/peers $(ARGS)

setup: $(VENV)/.installed

$(VENV)/.installed: requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "psibench needs Python 3.11 or newer; none found. Name one: make setup PYTHON=/path/to/python3.11"; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV) with $(if $(UV),uv (about a minute),pip (some minutes))"
	@$(INSTALL) -r requirements.lock
	@$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

# uv's links are refused by nltk from 3.10.3 on, where LlamaIndex reads its data.
$(VENV)/.installed-peers: $(VENV)/.installed requirements-peers.lock
	@UV_LINK_MODE=copy $(INSTALL) -r requirements-peers.lock
	@touch $@

lint: setup
	ruff format --check .
	ruff check .
	snakefmt --check Snakefile workflow
	mypy
	python tools/config_page.py --check
	python tools/tables_page.py --check
	python tools/reproduce_page.py --check
	python tools/environments.py --check
	snakemake --lint
	python tools/dry_runs.py
	sphinx-build -W --keep-going --quiet -b html docs docs/_build/html

format: setup
	ruff format .
	ruff check --fix .
	snakefmt Snakefile workflow
	python tools/config_page.py
	python tools/tables_page.py
	python tools/reproduce_page.py

bench: $(VENV)/.installed-peers
	@python tools/bench_page.py

gpu-bench: setup
	@python bench/gpu.py $(ARGS)

lock:
	@sh tools/lock.sh
