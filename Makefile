# Every target works on a fresh machine: uv is fetched into the cache when it is not on PATH, and uv makes the rest.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The one pin of the uv that is fetched; an installed uv is used if pyproject's required-version accepts it.
UV_VERSION := 0.13.9
UV_LEAST := 0.9
# As e2e/cluster/paths.py, which cannot be asked before there is a uv.
CACHE := $(or $(GPTSERVICE_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/gptservice)
UV_FETCHED := $(CACHE)/bin/uv-$(UV_VERSION)/bin/uv
UV_INSTALLED := $(shell v=$$(uv --version 2>/dev/null | cut -d ' ' -f 2) && [ -n "$$v" ] && \
    printf '%s\n' $(UV_LEAST) "$$v" | sort --version-sort --check=silent && command -v uv)
UV := $(or $(UV_INSTALLED),$(UV_FETCHED))
RUN := $(UV) run --locked
CHART := charts/gptservice-operator
ROOT := $(filter 0,$(shell id -u))
NAME ?= demo
PROFILE ?= node
# What all targets need before their own work.
BOOTSTRAP := $(filter $(UV_FETCHED),$(UV))

# Under sudo nothing of root's may lie in the user's checkout, or the user's next `make` could not change it.
ifneq ($(SUDO_UID),)
export UV_PROJECT_ENVIRONMENT := $(CACHE)/project-environment
export PYTHONDONTWRITEBYTECODE := 1
export PYTEST_ADDOPTS := -p no:cacheprovider
export HYPOTHESIS_STORAGE_DIRECTORY := $(CACHE)/hypothesis
endif
GIVE_BACK := $(if $(SUDO_UID),chown -R $(SUDO_UID):$(SUDO_GID),:)

##@ Start here

.PHONY: help
help: ## This list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z][a-z-]*:.*## / {printf "  %-22s %s\n", $$1, $$2}' Makefile

.PHONY: demo
demo: $(BOOTSTRAP) ## From nothing to a model's answer: a cluster, the operator, a GPTService, a question (root)
	@$(RUN) python -m e2e.demo up

.PHONY: demo-down
demo-down: $(BOOTSTRAP) ## Remove the demo's cluster; the caches stay
	@$(RUN) python -m e2e.demo down

.PHONY: demo-ask demo-shell
demo-ask: $(BOOTSTRAP) ## Put a question to it: make demo-ask Q="Why is the sky blue?"
	@$(RUN) python -m e2e.demo ask "$${Q:?say what to ask, as in: make demo-ask Q=\"Why is the sky blue?\"}"
demo-shell: $(BOOTSTRAP) ## A shell with kubectl and helm for the demo's cluster
	@$(RUN) python -m e2e.demo shell

.PHONY: test
test: $(BOOTSTRAP) ## All levels: unit, wiring, api and, as root, node; ends with "N passed"
	@$(RUN) python -m e2e.levels

.PHONY: prerequisites
prerequisites: $(BOOTSTRAP) ## Say what this machine lacks, and the command that installs it (INSTALL=1 runs it)
	@$(RUN) python -m e2e.cluster prerequisites --profile $(if $(ROOT),node,api) $(if $(INSTALL),--install)

##@ Tests by level

.PHONY: test-unit test-wiring test-api test-node test-long
test-unit: $(BOOTSTRAP) ## Pure code, no cluster: seconds
	@$(RUN) python -m e2e.levels unit
test-wiring: $(BOOTSTRAP) ## The real kopf registry against a mock API server
	@$(RUN) python -m e2e.levels wiring
test-api: $(BOOTSTRAP) ## A real control plane with simulated nodes; no root
	@$(RUN) python -m e2e.levels api
test-node: $(BOOTSTRAP) ## A real kubelet, real containers, a real model; root
	@$(RUN) python -m e2e.levels node
test-long: $(BOOTSTRAP) ## Matrices, real-time periods and soaks
	@$(RUN) python -m e2e.levels --long --report docs/reliability.md

##@ Work on the code

.PHONY: generate
generate: $(BOOTSTRAP) ## Write what is made from the models: crds/, the charts' copies, two pages; and the version
	@$(RUN) python -m release.version
	@$(RUN) python -m gptservice_operator.api.crd
	@$(RUN) python -m gptservice_operator.api.reference docs/api.md
	@$(RUN) python -m gptservice_operator.api.reason_reference docs/reasons.md
	@$(RUN) python -m gptservice_operator.api.catalogue_values charts/gptservice-catalogue/values.schema.json
	@rm -rf $(CHART)/files/crds && mkdir -p $(CHART)/files/crds && cp crds/*.yaml $(CHART)/files/crds/

.PHONY: engine-arguments
engine-arguments: $(BOOTSTRAP) ## Write what the pinned vLLM's argument parser takes, for operator and image (6.6 GB of packages)
	@$(RUN) python -m e2e.vllm.environment

.PHONY: verify
verify: generate lint type ## What a reviewer runs: generated files are current, lint, types, layers
	@git diff --exit-code -- crds charts docs/api.md docs/reasons.md || { echo "generated files differ: commit what 'make generate' wrote" >&2; exit 1; }
	@test -z "$$(git ls-files --others --exclude-standard -- crds charts docs/api.md docs/reasons.md)" || { echo "generated files are not committed: git add crds charts docs/api.md docs/reasons.md" >&2; exit 1; }

.PHONY: fmt
fmt: $(BOOTSTRAP) ## Format, and fix what can be fixed
	@$(RUN) ruff check --fix --exit-zero --quiet .
	@$(RUN) ruff format .

.PHONY: lint
lint: $(BOOTSTRAP) ## ruff, who may import whom, hadolint
	@$(RUN) ruff check .
	@$(RUN) ruff format --check .
	@$(RUN) lint-imports --no-cache
	@$(RUN) hadolint $$(git ls-files '*Containerfile*')

.PHONY: docs
docs: $(BOOTSTRAP) ## The pages as a site, in build/site; a broken link or anchor fails
	@$(RUN) sphinx-build --fail-on-warning --keep-going --nitpicky --fresh-env --quiet -c docs . build/site
	@$(GIVE_BACK) build
	@echo build/site/index.html

.PHONY: type
type: $(BOOTSTRAP) ## mypy --strict and pyright strict
	@$(RUN) mypy
	@$(RUN) pyright

##@ Parts

.PHONY: images
images: $(BOOTSTRAP) ## Build every image of the demo and the tests into the cache (root)
	@$(RUN) python -m e2e.cluster.images build

.PHONY: release
release: $(BOOTSTRAP) ## Charts, manifests, lists of packages, checksums into dist/, and as root the image: REGISTRY=…
	@rm -rf dist
	@$(RUN) python -m release $(if $(REGISTRY),--registry $(REGISTRY)) $(if $(ROOT),--images)
	@$(GIVE_BACK) dist
	@$(if $(ROOT),:,echo "the operator's image is left out: building it takes root. To add it: sudo make release" >&2)

.PHONY: cluster-up cluster-down
cluster-up: $(BOOTSTRAP) ## An embedded cluster: NAME=demo PROFILE=node|api
	@$(RUN) python -m e2e.cluster up --name $(NAME) --profile $(PROFILE)
cluster-down: $(BOOTSTRAP) ## Remove it: NAME=demo
	@$(RUN) python -m e2e.cluster down --name $(NAME)

.PHONY: bench-api
bench-api: $(BOOTSTRAP) ## Bytes of the CRDs, that the API server accepts all rules with their bounds, time to parse an object
	@$(RUN) python -m e2e.bench.bench_api

.PHONY: bench-runtime
bench-runtime: $(BOOTSTRAP) ## The runtime beside a bare vllm serve: requests/s, time between tokens, start-up, memory; downloads, decrypting
	@$(RUN) python -m e2e.bench.bench_weights
	@$(RUN) python -m e2e.bench.bench_sources
	@$(RUN) python -m e2e.bench.bench_runtime

.PHONY: bench-operator
bench-operator: $(BOOTSTRAP) ## The operator beside a plain one in Go, 1,000 services each: time, CPU, writes, memory (ARGS="--quick" tries it)
	@$(RUN) python -m e2e.bench.bench_operator $(ARGS)

.PHONY: bench-recovery
bench-recovery: $(BOOTSTRAP) ## The same two after each fault at each write of a service: how soon all is as it should be
	@$(RUN) python -m e2e.bench.bench_recovery $(ARGS)

.PHONY: bench
bench: ## The benchmarks there are
	@ls e2e/bench/bench_*.py 2>/dev/null || echo "no benchmarks yet: they come with the parts that are measured"

# uv from PyPI, into a folder of its own; renamed when whole, so that a Ctrl-C leaves no half of it.
$(UV_FETCHED):
	@echo "uv is not installed: fetching uv $(UV_VERSION) into $(CACHE)"
	@mkdir -p $(CACHE)/bin
	@python3 -m venv --help >/dev/null 2>&1 && python3 -c 'import ensurepip' 2>/dev/null || \
	  { echo "python3 with venv is missing. On Debian: apt-get install python3-venv" >&2; exit 1; }
	@new=$$(mktemp -d $(CACHE)/bin/.uv-XXXXXX); trap 'rm -rf "$$new"' EXIT; \
	  python3 -m venv "$$new/pip" && "$$new/pip/bin/pip" install --quiet --target "$$new/uv" uv==$(UV_VERSION) && \
	  rm -rf $(CACHE)/bin/uv-$(UV_VERSION) && mv "$$new/uv" $(CACHE)/bin/uv-$(UV_VERSION)
