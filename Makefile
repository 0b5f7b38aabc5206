# Every target sets up what it needs: a virtual environment in .venv and the packages of pyproject.toml.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: run test check demos demos-all reliability bench clean

run: .venv/core  ## the quickstart: a model reads about people, then answers questions about them
	$(BIN)/weft quickstart

test: .venv/dev  ## the whole suite
	$(BIN)/python -m pytest -n 2 --dist worksteal

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

reliability: .venv/dev  ## kill, damage and fault campaigns
	$(BIN)/python -m reliability

bench: .venv/dev  ## ratios against peers, both in one run
	$(BIN)/weft bench engine-cpu

.venv/python:
	$(PYTHON) -m venv .venv
	touch $@

.venv/core: .venv/python pyproject.toml constraints.txt
	$(PIP) torch
	$(PIP) --editable '.[images,serve]'
	touch $@

.venv/dev: .venv/python pyproject.toml constraints.txt
	$(PIP) torch
	$(PIP) --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv build dist src/*.egg-info
