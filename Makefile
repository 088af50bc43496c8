# Each target sets up what it needs: a virtual environment in .venv, the pinned packages of
# requirements*.txt, and lazyten itself in editable mode. Set-up is done anew only when a pin changes.
#
#   make lenet ARGS="--epochs 3"     options for examples/lenet.py
#   make example NAME=gpt ARGS="--steps 4000"   another one of examples/
#   make test ARGS="-k softmax"      options for pytest
#   make test DEVICE=interpreter     another default device
#   make test-gpu                    on the machine's NVIDIA GPU
#   make test-disorder SEED=3        in another order, while nodes of other tests stay alive
#   make test-rest WORKERS=8         as many processes as there are cores
#   make conformance DEVICES=c       one device only; -j 2 checks two at a time
#   make fuzz ARGS="--seconds 600 --device opencl --seed 7"   random programs for ten minutes
#   make test PYTHON=python3.12      another Python, after `make distclean`

PYTHON ?= python3
WORKERS ?= 2
SEED ?= 1
ARGS ?=
SELECTED ?= not slow
DEVICES ?= interpreter cpu c opencl
ALL_DEVICES := opencl cuda-on-cpu interpreter cpu c

VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.run-ready
DEV := $(VENV)/.dev-ready
EXAMPLE := $(VENV)/.example-ready
TORCH := $(VENV)/.torch-ready
INTEL := $(VENV)/.intel-ready
MPI := $(VENV)/.mpi-ready
TREE := build/tree

export PIP_DISABLE_PIP_VERSION_CHECK := 1
PIP := $(BIN)/python -m pip --quiet
# Tests start a hundred processes: bytecode is kept in .venv, whatever the shell says of it.
# NVRTC=1: NVIDIA's compiler takes all kernels that the tests build, too (nvrtc_for_all.py).
PYTHON_OF_TESTS = PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX="$(CURDIR)/$(VENV)/bytecode" \
	$(BIN)/python
PYTEST = $(PYTHON_OF_TESTS) -m pytest -q --progress --durations=20 --durations-min=1 \
	-n $(WORKERS) --dist worksteal $(if $(NVRTC),-p nvrtc_for_all)

.DEFAULT_GOAL := help
.PHONY: help dev lenet example test test-all test-rest test-slow test-torch test-distributed test-gpu test-aarch64 test-intel test-nvrtc test-thorough test-disorder mutants fuzz coverage conformance bench lint wheel wheel-check clean distclean

help:
	@echo "make lenet        train LeNet-5 on handwritten digits"
	@echo "make example      train another example: NAME=gpt, vae, resnet, course, deploy, text_classifier"
	@echo "make test         run the test suite: five to eight minutes on two cores"
	@echo "make test-all     the same, and then all that takes longer (make test-rest)"
	@echo "make test-slow    only tests that take long for what they check, which make test leaves out"
	@echo "make test-torch   install PyTorch and run the tests that compare with it"
	@echo "make test-distributed  install MPI and run the tests of several processes"
	@echo "make test-thorough  the suite with 1,000 examples a property; takes an hour or more"
	@echo "make test-disorder  the suite in another order, beside what other tests leave behind"
	@echo "make fuzz         run random programs for as long as asked, beside the interpreter and PyTorch"
	@echo "make coverage     compare with PyTorch on its database of operators, and write docs/coverage.md"
	@echo "make test-nvrtc   run all tests, and let NVIDIA's compiler take all its kernels"
	@echo "make mutants      break lazyten in some 790 small ways, and see that a test fails for each"
	@echo "make test-gpu     run what takes a device on this machine's NVIDIA GPU"
	@echo "make test-intel   install Intel's OpenCL runtime (600 MB) and run the tests of OpenCL on it"
	@echo "make test-aarch64 run a part of the suite on AArch64, emulated by QEMU"
	@echo "make conformance  let the conformance kit check every device, the example runtime's too"
	@echo "make bench        compare speed with numpy and whatever else is installed"
	@echo "make lint         ruff, and mypy --strict on the built tree"
	@echo "make wheel-check  build the wheel, install it alone and train one batch with it"
	@echo "make dev          only set up .venv"
	@echo "make clean        remove what was built; make distclean removes .venv too"

# OpenCL is among the packages of the tests.
lenet: $(if $(findstring opencl,$(ARGS) $(DEVICE)),$(DEV),$(RUN))
	$(BIN)/python examples/lenet.py $(ARGS)

example: $(if $(findstring opencl,$(ARGS) $(DEVICE)),$(DEV),$(RUN))
	@test -n "$(NAME)" || { echo "name an example of docs/examples.md: make example NAME=gpt"; exit 2; }
	$(BIN)/python examples/$(NAME).py $(ARGS)

test: $(DEV)
	$(PYTEST) -m "$(SELECTED)" $(ARGS)

# All that `make test` leaves out where PyTorch is not installed. Nothing of it runs twice on one
# device: OpenCL's tests run on PoCL there, and here on Intel's runtime, which comes for x86-64.
test-rest:
	$(MAKE) test-slow
	$(if $(findstring Linux x86_64,$(shell uname -sm)),$(MAKE) test-intel)
	$(MAKE) test-torch NVRTC=1
	$(MAKE) test-distributed
	$(MAKE) -j 2 --output-sync=target conformance DEVICES="$(ALL_DEVICES)" \
	    ARGS_cuda-on-cpu='-k "not (int8 or int16 or int32 or int64 or float16 or float64 or bool)"'

test-all:
	$(MAKE) test SELECTED="$(SELECTED) and not torch"
	$(MAKE) test-rest

test-slow: $(DEV)
	$(PYTEST) -m "slow and not torch" $(ARGS)

# What `make test` skips where PyTorch is not installed; afterwards it has these tests, too.
test-torch: $(TORCH)
	$(PYTEST) -m torch $(ARGS)

# What `make test` skips where MPI is not installed. Each test has two or four processes, which wait
# a third of the time, so three tests for two cores; those of a file run other tests of it, too.
test-distributed: $(MPI)
	$(PYTHON_OF_TESTS) -m pytest -q --durations=10 -n $$(( $(WORKERS) * 3 / 2 )) --dist loadfile \
	    tests/distributed $(ARGS)

# A test that runs for minutes is no hang here.
test-thorough: $(DEV)
	$(PYTEST) --hypothesis-profile=thorough -o faulthandler_timeout=0 $(ARGS)

# Tests must not depend on others that ran before, nor on nodes that are still there of them.
test-disorder: $(DEV)
	$(PYTEST) -p disorder --order $(SEED) --keep-nodes -m "$(SELECTED)" $(ARGS)

# Minutes to hours; goes on where it was stopped. ARGS=--help tells more.
mutants: $(DEV) $(TORCH) $(MPI)
	$(BIN)/python tests/mutate.py $(ARGS)

# Prints programs of a few lines that differ, and at the end which operations were reached.
fuzz: $(DEV)
	PYTHONPATH=tests:tests/support $(BIN)/python -m fuzz $(ARGS)

# Two minutes; exit status 1 if something is not as tests/torch_database/unsupported.py says.
coverage: $(TORCH)
	PYTHONPATH=tests:tests/support $(BIN)/python -W ignore -m torch_database $(ARGS)

# The kernels of all tests, for two kinds of GPU, without one: twice the time of the suite alone.
test-nvrtc: NVRTC := 1
test-nvrtc: $(DEV)
	$(PYTEST) $(ARGS)

# tests/aarch64.py says what it needs, once; ARGS="tests/capture/test_jit.py" runs other tests there.
test-aarch64: $(DEV)
	$(BIN)/python tests/aarch64.py $(ARGS)

# What takes a device runs on the GPU. Tests of the driver that stands in for one are skipped.
test-gpu: $(DEV)
	LAZYTEN_TEST_GPU=1 $(PYTHON_OF_TESTS) -m pytest --devices cuda -k cuda $(ARGS)

# Afterwards Intel's runtime is the first OpenCL device of .venv: LAZYTEN_OPENCL=portable is PoCL.
test-intel: $(INTEL)
	LAZYTEN_OPENCL=intel $(PYTEST) -m opencl $(ARGS)

# A kernel of the device opencl takes PoCL long to compile: DEVICES="cpu c" leaves it out. The device
# of the tests is known here, too: DEVICES=cuda-on-cpu, which takes some minutes.
conformance: $(DEVICES:%=conformance-%)

conformance-%: $(EXAMPLE)
	$(PYTHON_OF_TESTS) -m pytest -q -p cuda_on_cpu \
	    --pyargs lazyten.testing.conformance --device $* $(ARGS) $(ARGS_$*)

bench: $(DEV)
	$(BIN)/python -m benchmarks $(ARGS)

# Static tools cannot follow setup.cfg's package_dir, so the types checked are those of the wheel.
lint: $(DEV) wheel
	$(BIN)/ruff check .
	$(BIN)/python -m zipfile -e dist/*.whl $(TREE)
	cd $(TREE) && "$(CURDIR)/$(BIN)/mypy" --config-file "$(CURDIR)/setup.cfg" \
	    --cache-dir "$(CURDIR)/.mypy_cache" -p lazyten
	cd $(TREE) && "$(CURDIR)/$(BIN)/mypy" --config-file "$(CURDIR)/setup.cfg" \
	    --cache-dir "$(CURDIR)/.mypy_cache" "$(CURDIR)/.ci/typed_program.py"

# The wheel is made from the sdist, so the sdist is known to be complete. What tests compiled stays:
# they may run meanwhile.
wheel: $(DEV)
	rm -rf build/lib build/bdist.* $(TREE) dist
	$(BIN)/python -m build --no-isolation --outdir dist . >/dev/null

wheel-check: $(DEV) wheel
	$(BIN)/python -m venv --clear build/empty
	build/empty/bin/python -m pip install --quiet --constraint requirements.txt dist/*.whl
	cd build/empty && bin/python -I "$(CURDIR)/.ci/train_one_batch.py"

dev: $(DEV)

$(DEV): requirements-dev.txt $(RUN)
	$(PIP) install --requirement requirements-dev.txt
	@touch $@

$(TORCH): .ci/requirements-torch.txt .ci/requirements-packages.txt $(DEV)
	$(PIP) install --requirement .ci/requirements-torch.txt
	$(PIP) install --requirement .ci/requirements-packages.txt || echo "tests of packages are skipped"
	@touch $@

$(INTEL): .ci/requirements-intel.txt $(DEV)
	$(PIP) install --requirement .ci/requirements-intel.txt
	@touch $@

$(MPI): .ci/requirements-mpi.txt $(DEV)
	$(PIP) install --requirement .ci/requirements-mpi.txt
	@touch $@

$(EXAMPLE): $(DEV) examples/lazyten_c/lazyten_c.py examples/lazyten_c/pyproject.toml
	$(PIP) install --no-deps --no-build-isolation ./examples/lazyten_c
	@touch $@

$(RUN): requirements.txt setup.cfg pyproject.toml | $(VENV)/.made
	$(PIP) install --requirement requirements.txt
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.made:
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is not installed: lazyten needs \
	Python 3.11 or newer; name one with PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "`$(PYTHON) --version 2>&1` is too old: lazyten needs Python 3.11 or newer; name one \
	with PYTHON=/path/to/python3"; exit 1; }
	@rm -rf $(VENV)
	@echo "Setting up $(VENV) (once)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "Python's venv module is missing: \
	install it (Debian and Ubuntu: apt install python3-venv)"; exit 1; }
	@touch $@

clean:
	rm -rf build dist $(VENV)/bytecode *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV)
