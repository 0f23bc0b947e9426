PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
MINUTES ?= 20
SEED ?= 0

# Else each of the tests' processes compiles the packages, and pytest all tests, again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test check fuzz wheel versions docs format benchmarks clean

demo: $(VENV)/.train  ## Train taught and untaught students on real digits; prints a table, writes a report.
	$(BIN)/tutelage train

test: $(VENV)/.dev check  ## Lint, types and the whole test suite, on two processes.
	$(BIN)/python -m pytest -n 2 --dist worksteal

check: $(VENV)/.dev  ## Lint and types only.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --threads 2 --pythonpath $(BIN)/python

fuzz: $(VENV)/.dev  ## Random training situations, tables and folders against slow oracles.
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz --minutes $(MINUTES) --seed $(SEED)

wheel: $(VENV)/.dev  ## The wheel, installed outside of the checkout: README, commands, examples; half an hour.
	$(BIN)/python -m tests.wheel

versions: $(VENV)/.dev  ## The oldest and the newest releases allowed, in environments of 7 GB each; an hour or two.
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.versions build/versions oldest newest
	$(BIN)/python -m tests.docs.tables

docs: $(VENV)/.dev  ## The documentation site, in build/docs; warnings are errors.
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs build/docs

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

benchmarks: $(BIN)/python  ## Time and memory beside other libraries and the stored figures; an hour or two.
	$(PIP) install --quiet --constraint constraints.txt --editable '.[benchmarks]'
	$(PIP) install --quiet --no-deps betty-ml
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.train: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) install --quiet --constraint constraints.txt --editable '.[train]'
	touch $@

# pip compiles on one core: half a minute more for 19,000 files. Not all of them can be compiled.
$(VENV)/.dev: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) install --quiet --no-compile --constraint constraints.txt --editable '.[dev]'
	-$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib
	touch $@ $(VENV)/.train

clean:
	rm -rf $(VENV) build dist
