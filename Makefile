# make psi            the embedded default, from nothing to results/psi_table.csv and report.html
# make psi CONFIG=f   the same with your config laid over the default one
#                     FORCE=1: over tables in results/ that another config made
# make train          is the bias learned? A small network trained on four distributions of positions
# make probes         what the models' vectors look at, on the default's documents; CONFIG=f: on yours
# make test           the test suite, but for
# make process-test   what starts programs: whole runs of the workflow, killed jobs, installs, a browser
# make slurm-test     faults of jobs, nodes and head processes on a real SLURM of one node (Debian, root);
# make vllm-test      a vLLM that really runs, on CPUs: all tasks, kills, its failures' messages, ten
#                     minutes; RELEASES="0.27.0 0.30.0": and some requests to these
# make small          every preset's chain of jobs at small size, an hour; PRESETS="beir myopic": these
# make peers          what is exported, loaded and scored by mteb, BEIR, ranx, ir-measures, PyTerrier and others,
#                     and retrievers of other frameworks and servers, asked by psibench.evaluate
# make setup          the set-up alone: .venv from requirements.lock
# make lint           formats, lint, types, workflow lint, schema drift, dry run of each config
# make bench          speed and memory beside the libraries one would use instead: docs/benchmarks.md
# make docs           the documentation site: docs/_build/html
# make wheel          dist/psibench-*.whl, with the workflow and its config inside
# make lock           write requirements*.lock anew from pyproject.toml

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

.PHONY: psi train probes docs test process-test slurm-test vllm-test small peers setup setup-bench setup-peers setup-docs lint format dry bench wheel lock schema clean
.DEFAULT_GOAL := psi

psi: setup
	@psibench run --cores $(CORES) $(if $(FORCE),--force) $(CONFIG)

train: setup
	@psibench run --cores $(CORES) $(if $(FORCE),--force) $(or $(CONFIG),config/examples/training.yaml) \
	  results/training_table.csv results/report.html

probes: setup
	@psibench run --cores $(CORES) $(if $(FORCE),--force) $(or $(CONFIG),config/examples/probes.yaml) probes

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
	@programs=$$(for release in "" $(RELEASES); do \
	  python tools/vllm_environment.py $(VLLM)$${release:+-$$release} $$release || exit 1; done) && \
	PSIBENCH_VLLM=$$(echo $$programs | tr ' ' ':') pytest tests/vllm $(ARGS)

# A peer that is missing is a failure here; in `make test` its tests are skipped.
peers: setup-peers
	@PSIBENCH_REQUIRE_PEERS=1 pytest -n 2 --dist loadfile tests/peers $(ARGS)

setup: $(VENV)/.installed

$(VENV)/.installed: requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "psibench needs Python 3.11 or newer; none found. Name one: make setup PYTHON=/path/to/python3.11"; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV) with $(if $(UV),uv (about a minute),pip (some minutes))"
	@$(INSTALL) -r requirements.lock
	@$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

setup-bench: $(VENV)/.installed-bench

$(VENV)/.installed-bench: $(VENV)/.installed requirements-bench.lock
	@$(INSTALL) -r requirements-bench.lock
	@touch $@

docs: setup-docs
	@sphinx-build -W --keep-going --quiet -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

setup-docs: $(VENV)/.installed-docs

$(VENV)/.installed-docs: $(VENV)/.installed requirements-docs.lock
	@$(INSTALL) -r requirements-docs.lock
	@touch $@

setup-peers: $(VENV)/.installed-peers

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
	@$(MAKE) --no-print-directory dry

small: setup
	@python tools/small_runs.py $(PRESETS)

dry: setup
	@python tools/dry_runs.py

format: setup
	ruff format .
	ruff check --fix .
	snakefmt Snakefile workflow

schema: setup
	python tools/config_page.py
	python tools/tables_page.py
	python tools/reproduce_page.py

bench: setup-bench
	@python tools/bench_page.py

# Of pure Python: an environment with pip, and hatchling in one of pip's own, are all that it takes.
wheel:
	@test -n "$(PYTHON)" || { echo "psibench needs Python 3.11 or newer; none found. Name one: make wheel PYTHON=/path/to/python3.11"; exit 2; }
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && $(PYTHON) -m venv "$$folder" && \
	  "$$folder/bin/python" -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	@ls dist/*.whl

lock:
	@sh tools/lock.sh

clean:
	rm -rf results logs benchmarks .snakemake
