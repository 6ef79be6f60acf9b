# Two commands to start with: `make demo` shows what it does, `make test` runs all tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: help demo test check compiled install goldens docs bench control-plane cluster cluster-tests image-test kube-demo soak attack libtpu fuzz lock

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

install: $(INSTALLED)  ## the locked dependencies and this project, into .venv

$(INSTALLED): requirements-dev.lock pyproject.toml
	@echo "installing the locked dependencies into $(VENV): about a minute"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: install  ## start the HTTPS webhook on loopback, send it the examples, show before and after
	$(BIN)/accel demo

check: install  ## the quick part: format, lint, types, layers, unit tests and golden cases
	$(BIN)/python -m tests.cluster.binaries helm
	@$(BIN)/python -m tests.cluster.binaries promtool || echo "promtool could not be built: the tests of the alerts are skipped"
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -q -n auto --ignore=tests/cluster

cluster: install  ## tests on a real API server (builds the control plane if it is not cached)
	$(BIN)/python -m pytest -q tests/cluster

compiled: install  ## the core's tests on the compiled core, as in the image
	$(BIN)/python -m tests.support.compiled -m pytest -q -n auto -p no:cacheprovider tests/core

test: check compiled cluster  ## everything

soak: install  ## long tests: rotations, rollouts and abuse under load (15 minutes)
	@# Both at once: the first mostly waits, and the second measures the processor time of its own process.
	$(BIN)/python -m pytest -q -s -m soak tests/cluster & first=$$!; \
	$(BIN)/python -m pytest -q -s -m soak --ignore=tests/cluster tests; second=$$?; wait $$first && exit $$second
	$(BIN)/python -m tests.support.compiled -m pytest -q -s -m soak -p no:cacheprovider tests/server/test_abuse.py

attack: install  ## one namespace attacks for a minute with each known kind of hostile object (half an hour)
	$(BIN)/python -m pytest -q -s -m attack tests/cluster/test_attack.py

libtpu: install  ## how libtpu reads the injected variables (downloads 137 MB, under Google Cloud's terms)
	$(BIN)/python -m pytest -q -m libtpu tests/readers

COUNT ?= 20000
fuzz: install  ## hostile reviews, manifests and site configs, with a new seed each time: make fuzz COUNT=1000000
	$(BIN)/python -m tests.fuzz reviews $(COUNT)
	$(BIN)/python -m tests.fuzz manifests $(COUNT)
	$(BIN)/python -m tests.fuzz configs $(COUNT)

cluster-tests: install  ## one file of the cluster tests: make cluster-tests TESTS=tests/cluster/test_pods.py
	$(BIN)/python -m pytest -q $(TESTS)

goldens: install  ## rewrite tests/cases/*/*/expected.yaml with current results; then read the diff
	$(BIN)/pytest -q tests/core/test_cases.py --update-goldens

docs: install  ## regenerate parts of docs/, the chart's schema and table of values, the list for TorchX
	$(BIN)/python -m webhook.torchx
	$(BIN)/python charts/document.py
	$(BIN)/python -m docs.document

image-test: install  ## build and start the image without a container engine (needs buildah and root)
	ACCEL_IMAGE_TEST=1 $(BIN)/python -m pytest -q tests/image

control-plane: install  ## build and cache the control plane's binaries
	$(BIN)/python -m tests.cluster.binaries

kube-demo: install  ## a real control plane with the chart installed: schedules the examples, and you can try your own
	$(BIN)/python -m tests.cluster.demo

bench: install  ## measure the hot path and its peers; ARGS="--against REF": compare with a commit; ARGS=--quick: a minute
	$(BIN)/python -m tests.support.compiled -m benchmarks $(ARGS)

lock: install  ## update requirements*.lock from pyproject.toml and requirements-*.in
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-annotate --no-header --python-version 3.11 pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-annotate --no-header --python-version 3.11 --extra dev pyproject.toml requirements-build.in -o requirements-dev.lock
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-annotate --no-header --python-version 3.11 requirements-build.in -o requirements-build.lock
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-annotate --no-header --python-version 3.11 requirements-torchx.in -o requirements-torchx.lock
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-annotate --no-header --python-version 3.11 requirements-readers.in -o requirements-readers.lock
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-annotate --no-header --python-version 3.11 requirements-libtpu.in -o requirements-libtpu.lock
