# `make run` opens the app. `make check` before every commit, `make test` before every merge; the others measure.
# Lessons of your own: make run LESSONS=folder
# Each sets up what it needs the first time. ARGS is handed on: make run ARGS=--server.port=8600
# make run MODEL=path opens a model in Hugging Face's layout, or a hub id; other machines: ARGS=--server.address=0.0.0.0
# make run CODE=practice/gqa.py shows your own file on the page Practice, at every save (docs/practice.md).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Bytecode is kept, whatever the shell says: without it each worker compiles all tests and each server the app again.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --maxprocesses=4
CORES := $(shell getconf _NPROCESSORS_ONLN)

MODEL_NAME = $(if $(wildcard $(MODEL)),$(abspath $(MODEL)),$(MODEL))

.PHONY: run check lint format test bench soak shots
run: $(VENV)/app.stamp
	$(if $(MODEL),ATTNVIZ_MODEL="$(MODEL_NAME)") $(if $(CODE),ATTNVIZ_CODE='$(abspath $(CODE))') \
	    $(if $(LESSONS),ATTNVIZ_LESSONS='$(abspath $(LESSONS))') \
	    $(BIN)/streamlit run app.py --server.address=localhost $(ARGS)

# Format, lint, types, and the tests that take less than a second or two each: under a minute on two cores.
check: lint
	$(PYTEST) --numprocesses=$(CORES) --dist=worksteal --quiet --ignore=tests/browser -m "not slow" $(ARGS)

lint: $(VENV)/tests.stamp
	$(BIN)/ruff format --check --quiet . || { echo "make format puts this right."; exit 1; }
	$(BIN)/ruff check --quiet .
	$(BIN)/python .ci/javascript.py
	$(BIN)/python -m mypy --num-workers=$(CORES) attnviz

format: $(VENV)/tests.stamp
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: $(VENV)/tests.stamp $(VENV)/browser.stamp
	$(PYTEST) --numprocesses=$$(($(CORES) + 1)) --dist=worksteal $(ARGS)  # one more: they wait a tenth of the time

# Ratios taken in one run, as a table and one line of JSON.
bench: $(VENV)/tests.stamp $(VENV)/browser.stamp
	$(BIN)/python -m tests.bench $(ARGS)

# Forty people at once for five minutes, then a quiet half hour. Shorter: ARGS="--minutes 1 --quiet-minutes 2"
soak: $(VENV)/tests.stamp $(VENV)/browser.stamp
	$(BIN)/python -m tests.soak $(ARGS)

# Every page in light and dark, wide and narrow, as shots/*.png.
shots: $(VENV)/tests.stamp $(VENV)/browser.stamp
	SHOTS=shots $(BIN)/python -m pytest tests/browser/test_seen.py $(ARGS)

# The first attempt gives up fast on an index that does not answer; where it fails, pip's own patience is tried.
# pip compiles with one core, for half of its time; with all cores the whole takes a quarter less. Some of torch's tests
# are written for a newer Python and cannot be compiled.
define install
	$(BIN)/python -m pip install --no-compile --retries 0 --timeout 5 -r $< || $(BIN)/python -m pip install --no-compile -r $<
	@$(BIN)/python -m compileall -q -j 0 -x "/(tests|testing|models|_inductor|distributed)/" $(VENV)/lib >/dev/null 2>&1 || true
	@touch $@
endef

$(VENV)/app.stamp: requirements.txt | $(BIN)/python
	$(install)

$(VENV)/tests.stamp: tests/requirements.txt requirements.txt | $(BIN)/python
	$(install)

$(VENV)/browser.stamp: .ci/browser | $(BIN)/python
	.ci/browser
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo 'This needs Python 3.11 or newer. To name one: make PYTHON=/path/to/python3'; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || .ci/apt python3-venv
	$(PYTHON) -m venv $(VENV)
