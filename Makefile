# Everything a newcomer needs: 'make demo' and 'make test'. Both create the environment themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CLASSES := $(VENV)/spark.jsa
DAYS ?= 31
JOB ?= deploy/jobs/flights.yaml
B ?= b2
PAIRS ?=
SIZE ?=
ARGS ?=
WORKERS ?= 2
SEEDS ?= 5000
STEPS ?=
REGIONS ?=
PYTHON_BASE ?=
JAVA_BASE ?=
METRICS ?=
MIRROR ?=
COMPOSE := $(shell command -v docker-compose || echo docker compose)

.DEFAULT_GOAL := help
.PHONY: help demo demo-regions up down test test-containers simulate images compose-up compose-down compose-demo check docs fmt bench native lock clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' || \
	  { echo "Python 3.11, 3.12 or 3.13 is needed: install it, then run make PYTHON=python3.11 ..."; exit 3; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

demo: $(STAMP) ## Replay real flights through everything, and check every row (DAYS=31 LATENESS=48h)
	@$(BIN)/cutwater demo --days $(DAYS) $(if $(LATENESS),--lateness $(LATENESS))

demo-regions: $(STAMP) $(CLASSES) ## Two regions on this machine: one dies by kill -9, the other goes on, and back
	@CUTWATER_SPARK_CLASSES=$(abspath $(CLASSES)) $(BIN)/cutwater demo-regions

up: $(STAMP) ## Start the embedded stack and keep it running (JOB=deploy/jobs/flights.yaml)
	@$(BIN)/cutwater up $(JOB) --detach

down: $(STAMP) ## End the embedded stack
	@$(BIN)/cutwater down

$(CLASSES): $(STAMP)
	@echo "Writing down the classes that Spark loads, once: each of the tests' drivers starts in half the time"
	@$(BIN)/python -m cutwater_spark.classes $@ >$(VENV)/classes.log 2>&1 || { tail -5 $(VENV)/classes.log; exit 1; }

test: $(STAMP) $(CLASSES) ## Run the tests, on real brokers and real Spark (PART=2/6: of the costliest a sixth only)
	CUTWATER_SPARK_CLASSES=$(abspath $(CLASSES)) $(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --ignore=tests/containers $(if $(PART),--part $(PART)) --durations=20 --durations-min=20; \
	  code=$$?; mkdir -p build; echo $$code >build/test.code; exit $$code

test-containers: $(STAMP) ## Run the tests in containers (Docker and debootstrap are needed: docs/CONTAINERS.md)
	$(BIN)/pytest tests/containers --timeout=1200 --durations=20

native: $(STAMP) ## Build the optional module for fast restores and install it (Rust is needed: docs/INSTALLING.md)
	@command -v cargo >/dev/null || { echo "cargo is missing: install Rust 1.85 or newer, with rustup"; exit 3; }
	CARGO_TARGET_DIR=$(abspath build/native) $(BIN)/pip install --quiet --no-deps --force-reinstall ./native

simulate: $(STAMP) ## Run the protocol through histories from seeds (SEEDS=5000, or SEED=17 alone; REGIONS=1: two regions)
	@PYTHONPATH=tests $(BIN)/python -m simulation --seeds $(SEEDS) $(if $(STEPS),--steps $(STEPS)) $(if $(SEED),--seed $(SEED)) $(if $(REGIONS),--regions)

images: $(STAMP) ## Build the images: services, Spark, Kafka (docs/CONTAINERS.md)
	PYTHON_BASE=$(PYTHON_BASE) JAVA_BASE=$(JAVA_BASE) METRICS=$(METRICS) deploy/images/build

compose-up: images ## Start everything of one job in containers (METRICS=1: Prometheus too; MIRROR=1: a mirror)
	$(COMPOSE) $(if $(METRICS),--profile metrics) $(if $(MIRROR),--profile mirror) up -d

compose-down: ## End the containers, and delete their volumes
	$(COMPOSE) --profile metrics --profile mirror down --volumes

compose-demo: images ## Replay real flights through containers, and check every row (DAYS=31)
	$(COMPOSE) -p cutwater-demo down --volumes
	$(COMPOSE) -p cutwater-demo up -d
	$(BIN)/cutwater demo --days $(DAYS) --data-dir build/compose-demo --bootstrap-servers 127.0.0.1:9094 \
	  --view http://127.0.0.1:8321 --view http://127.0.0.1:8322
	$(COMPOSE) -p cutwater-demo down --volumes

check: $(STAMP) ## Lint, types, architecture, docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest tests/docs
	@$(MAKE) --no-print-directory docs

docs: $(STAMP) ## Build the site of the documentation: build/site/index.html
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --fresh-env -c docs . build/site

fmt: $(STAMP) ## Format the code, renew the generated pages of docs/
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/python -m cutwater.cli.reference docs

bench: $(STAMP) ## Run a benchmark beside its peers (B=b2 PAIRS=5 SIZE=2000000 ARGS="--contenders cutwater")
	@$(BIN)/python -m benchmarks.$(B) $(if $(PAIRS),--pairs $(PAIRS)) $(if $(SIZE),--size $(SIZE)) $(ARGS)

lock: $(STAMP) ## Renew the lock files: the environment's and the service image's
	$(BIN)/pip install --quiet pip-tools
	$(BIN)/pip-compile --quiet --generate-hashes --strip-extras --allow-unsafe --no-emit-index-url \
	  --no-emit-find-links --no-emit-trusted-host --extra arrow --extra demo --extra dev --extra local --extra testing -o requirements.lock pyproject.toml
	$(BIN)/pip-compile --quiet --generate-hashes --strip-extras --allow-unsafe --no-emit-index-url \
	  --no-emit-find-links --no-emit-trusted-host -c requirements.lock -o deploy/images/service.lock pyproject.toml

clean: ## Delete the environment, builds and caches
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
