# `make run` opens the app; `make test`, `lint`, `bench`, `soak` and `shots` are for who changes it.
# Each sets up what it needs the first time. ARGS is handed on: make run ARGS=--server.port=8600

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: run test lint bench soak shots
run: $(VENV)/app.stamp
	$(BIN)/streamlit run app.py $(ARGS)

test: $(VENV)/tests.stamp $(VENV)/browser.stamp
	$(BIN)/python -m pytest --numprocesses=auto --maxprocesses=4 --dist=loadfile $(ARGS)

lint: $(VENV)/tests.stamp
	$(BIN)/ruff check $(ARGS)

# Ratios taken in one run, as a table and one line of JSON.
bench: $(VENV)/tests.stamp $(VENV)/browser.stamp
	$(BIN)/python -m tests.bench $(ARGS)

# A room full of people for five minutes, then a quiet half hour. Shorter: ARGS="--minutes 1 --quiet-minutes 2"
soak: $(VENV)/tests.stamp $(VENV)/browser.stamp
	$(BIN)/python -m tests.soak $(ARGS)

# Every page in light and dark, wide and narrow, as shots/*.png.
shots: $(VENV)/tests.stamp $(VENV)/browser.stamp
	SHOTS=shots $(BIN)/python -m pytest tests/browser/test_seen.py $(ARGS)

# The first attempt gives up fast on an index that does not answer; where it fails, pip's own patience is tried.
define install
	$(BIN)/python -m pip install --retries 0 --timeout 5 -r $< || $(BIN)/python -m pip install -r $<
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
