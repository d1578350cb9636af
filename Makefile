# `make demo` and `make test` do all the set-up themselves (a virtual environment in .venv).
PYTHON ?= python3
BIN := .venv/bin
OUT := out
TRIALS ?= 128

.PHONY: help demo test test-as-if nightly gpu docs wheel runner check lint types clean

help:
	@echo "make demo    set up, tune two operators and a network, build them, run them from C++"
	@echo "make test    set up and run the tests; those of one folder: make test PATHS=tests/search"
	@echo "make test-as-if  run the tests of what is decided as if on other machines"
	@echo "make nightly run the long checks: all operators of the paper, thousands of schedules"
	@echo "make gpu     on a machine with a CUDA device: its tests, then the comparison on it"
	@echo "make docs    build the documentation site into $(OUT)/site"
	@echo "make wheel   the source distribution and a wheel in $(OUT)/dist, tried without a compiler"
	@echo "make runner  the static program for boards without Python in $(OUT), for each cross compiler"
	@echo "make check   lint, types and tests"
	@echo "make clean   remove .venv and $(OUT)"

.venv/core: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "ansorc needs Python 3.11 or newer; name one with: make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

.venv/dev: .venv/core
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

demo: .venv/core
	mkdir -p $(OUT)
	$(BIN)/ansorc tune runtime/examples/operators.py:matmul_relu --trials $(TRIALS) --records $(OUT)/tune.db
	$(BIN)/ansorc tune runtime/examples/operators.py:conv2d_bn_relu --trials $(TRIALS) --records $(OUT)/tune.db
	$(BIN)/ansorc build runtime/examples/operators.py:matmul_relu --records $(OUT)/tune.db --output $(OUT)/matmul_relu.so
	$(BIN)/ansorc build runtime/examples/operators.py:conv2d_bn_relu --records $(OUT)/tune.db --output $(OUT)/conv2d_bn_relu.so
	$${CXX:-c++} -std=c++17 -O2 -Wall -Wextra -Iruntime/include -I$(OUT) runtime/examples/embed.cpp \
	    -L$(OUT) -l:matmul_relu.so -l:conv2d_bn_relu.so -pthread -Wl,-rpath,'$$ORIGIN' -o $(OUT)/embed
	$(OUT)/embed
	$(BIN)/python runtime/examples/network/digits.py $(OUT)
	$(BIN)/ansorc tune $(OUT)/digits.onnx --input image=1x1x8x8 --trials 32 --records $(OUT)/tune.db
	$(BIN)/ansorc build $(OUT)/digits.onnx --input image=1x1x8x8 --records $(OUT)/tune.db --output $(OUT)/digits.so
	$${CXX:-c++} -std=c++17 -O2 -Wall -Wextra -Iruntime/include -I$(OUT) runtime/examples/network/classify.cpp \
	    -L$(OUT) -l:digits.so -pthread -Wl,-rpath,'$$ORIGIN' -o $(OUT)/classify
	$(OUT)/classify $(OUT)/digits.bin

# Many tests start processes, which begin in half the time where modules are compiled already; where
# PYTHONDONTWRITEBYTECODE is set, no process does it for the next one.
test: export PYTHONDONTWRITEBYTECODE =
test: .venv/dev
	$(BIN)/python -m compileall -q ansorc
	$(BIN)/python -m pytest -n 2 -q $(PATHS)

STRUCTURAL := search/*.py search/evolution search/features search/model search/paper search/sketch search/space schedule ir/arith ir/passes lang e2e/dtypes target
MACHINES = $(shell $(BIN)/python -c 'from tests.support.assumed import MACHINES; print(*MACHINES)')

test-as-if: .venv/dev
	for machine in $(MACHINES); do \
	    ANSORC_TEST_AS=$$machine $(BIN)/python -m pytest -n 2 -q $(addprefix tests/,$(STRUCTURAL)) || exit 1; \
	done

nightly: .venv/dev
	$(BIN)/python -m pytest -n 2 -q -m nightly --durations=10

.venv/gpu: .venv/dev
	$(BIN)/python -m pip install --quiet --editable '.[gpu,bench]'
	touch $@

gpu: .venv/gpu
	mkdir -p $(OUT)
	$(BIN)/python -m pytest -q -m gpu --durations=10
	$(BIN)/python -m bench gpu --trials $(TRIALS) --results $(OUT)/gpu

.venv/docs: .venv/core
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	touch $@

docs: .venv/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

# It needs g++ and aarch64-linux-gnu-g++ (Debian and Ubuntu: apt install g++ g++-aarch64-linux-gnu).
wheel: .venv/core
	$(BIN)/python -m pip install --quiet build 'wheel>=0.41' --editable '.[cross]'
	$(BIN)/python release/wheel.py $(OUT)/dist

RUNNERS := x86_64:x86_64-linux-gnu-g++ aarch64:aarch64-linux-gnu-g++ armv7:arm-linux-gnueabihf-g++

# Debian and Ubuntu: apt install g++ g++-aarch64-linux-gnu g++-arm-linux-gnueabihf
runner:
	@mkdir -p $(OUT)
	@for pair in $(RUNNERS); do \
	    program=$(OUT)/ansorc-runner-$${pair%%:*}; \
	    if ! command -v $${pair#*:} >/dev/null; then echo "no $$program: there is no $${pair#*:}"; continue; fi; \
	    runtime/runner/build.sh $${pair#*:} $$program && ls -l $$program || exit 1; \
	done

lint: .venv/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: .venv/dev
	$(BIN)/pyright
	$(BIN)/pyright -p bench

check: lint types test

clean:
	rm -rf .venv $(OUT)
