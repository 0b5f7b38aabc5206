# Every target sets up what it needs: a virtual environment in .venv and the packages of pyproject.toml.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: run test test-core check demos demos-all reliability bench docs dist clean

run: .venv/core  ## the quickstart: a model reads about people, then answers questions about them
	$(BIN)/weft quickstart

test: .venv/dev  ## the whole suite
	$(BIN)/python -m pytest -n 2 --dist worksteal

CORE := $(addprefix tests/,contracts core data evaluation metrics models nn objectives recipes runs sampling training)

test-core: .venv/dev  ## the tests that need no Linux: models, objectives, data, training, contracts
	$(BIN)/python -m pytest -n auto --dist worksteal $(wildcard $(CORE)) $(wildcard tests/test_*.py)

check: .venv/dev  ## lint, types, tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m weft.results
	$(MAKE) test

demos: .venv/dev  ## recipes on embedded data reach their numbers
	$(BIN)/python -m demos

demos-all: .venv/dev
	$(BIN)/python -m demos --all

reliability: .venv/dev  ## kill, damage, fault and attack campaigns
	$(BIN)/python -m reliability

bench: .venv/dev  ## ratios against peers, both in one run
	$(BIN)/weft bench engine-cpu

docs: .venv/docs  ## the site, in site/; a warning is an error
	$(BIN)/python docs/generate.py --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

dist: .venv/dev  ## wheel and sdist, each installed into an empty environment and used there
	rm -rf dist build
	$(BIN)/python -m build
	PYTHON=$(PYTHON) .ci/try-distribution dist/*.whl
	PYTHON=$(PYTHON) .ci/try-distribution dist/*.tar.gz

.venv/python:
	$(PYTHON) -m venv .venv
	touch $@

.venv/core: .venv/python pyproject.toml constraints.txt
	$(PIP) torch
	$(PIP) --editable '.[standard]'
	touch $@

.venv/dev: .venv/python pyproject.toml constraints.txt
	$(PIP) torch
	$(PIP) --editable '.[dev]'
	$(BIN)/python -m compileall -q -j 0 .venv/lib > /dev/null || true  # where pip was told to write no bytecode, every start takes seconds
	touch $@

.venv/docs: .venv/core
	$(PIP) --editable '.[docs]'
	touch $@

clean:
	rm -rf .venv build dist site src/*.egg-info
