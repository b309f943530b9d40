# SPDX-License-Identifier: BSD-2-Clause
# `make` alone lists the targets: a target's line ends in "## what it does".

PYTHON ?= python3
KERNELS := 5.10 6.1 6.12 7.2 7.3
# of the other architecture, whose guests have files of their own: all runs on the newest
FOREIGN := $(addprefix $(if $(filter aarch64,$(shell uname -m)),x86_64,arm64)/,5.10 6.1 6.12 7.3)
KERNEL ?= $(KERNELS)
# Guests at a time in test-quick. One thread emulates all CPUs of a guest, and a test also waits for
# the host, so one more than there are cores keeps these busy; each takes 3 GiB.
GUESTS ?= $(shell n=$$(nproc); echo $$((n < 6 ? n + 1 : 6)))
BIN := .venv/bin
# seconds of fuzz
FOR ?= 60
# what wheel, deb and standalone are built for
MACHINES ?= $(shell uname -m)
ALL_MACHINES := x86_64 aarch64
# Some systems set it. Then each worker of pytest compiles all tests, and each program in a guest the
# whole package.
unexport PYTHONDONTWRITEBYTECODE
C_FILES = $(wildcard release/*.c src/bpf/*.[ch] src/native/*.[ch] tests/bench/*.[ch])

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help build demo check test test-all test-quick test-unit test-thorough test-golden test-sanitized fuzz test-python test-live test-foreign bench soak man site test-pages test-tutorial test-site wheel test-wheel deb test-deb standalone test-standalone test-live-standalone release test-install test-source test-release lint format clean distclean

help: ## list the targets
	@echo "retsnoop-py: find out which line of the Linux kernel returned that error"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "Kernels for test-live, bench and soak: KERNEL=\"$(KERNELS)\", or some of them."
	@echo "test-all: PART=\"lint live-6.1\" runs these parts alone, AGAIN=1 also what has passed,"
	@echo "and .venv/bin/python -m tests.parts --list shows them."
	@echo "wheel, deb and standalone are for this machine; MACHINES=\"$(ALL_MACHINES)\": for both."
	@echo "PYTHON=... chooses another Python, BENCH=... adds options to bench (BENCH=--help)"
	@echo "and SOAK=... to soak."

build: have-python ## everything up to a working .venv/bin/retsnoop-py
	@$(PYTHON) build.py all

# what `make` runs everything else with
.PHONY: have-python
have-python:
	@if ! command -v $(PYTHON) >/dev/null; then \
		if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
			echo "$(PYTHON) is not installed. Install it (Debian: sudo apt-get install python3), then try again." >&2; \
			exit 1; \
		fi; \
		echo "  deps     installing python3 (22 packages, 7 MB to download, 27 MB on disk)" >&2; apt-get -qq update; \
		DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends python3 >/dev/null; \
	fi

demo: build ## errors of failing bpf() calls, and why, here or in a VM
	@$(BIN)/python tests/demo.py

check: lint test-unit test-golden ## what a commit has to pass, in a minute; .githooks/pre-commit runs it

test: build ## what a change has to pass, in half an hour: the tests on 6.12, the core on others
	@$(BIN)/python -m tests.parts --test

test-quick: build ## the live tests of make test
	@$(BIN)/pytest -q --quick -n $(GUESTS) --dist=loadgroup --no-loadscope-reorder tests/live

test-all: build ## everything, in hours; continues after an interruption: make test-all PART="live-6.1 wheel"
	@$(BIN)/python -m tests.parts $(if $(AGAIN),--again) $(PART)

test-unit: build ## tests of the parts; no privileges, no network
	@$(BIN)/pytest -q -n auto --maxprocesses=4 -m "not thorough" tests/unit

test-thorough: build ## unit tests that take long: damage in every place, each pattern, shells
	@$(BIN)/pytest -q -n auto --maxprocesses=4 -m thorough tests/unit

test-golden: build ## recordings replayed into the expected text
	@$(BIN)/pytest -q tests/golden

test-python: build ## unit and golden tests on the oldest and the newest Python, in a chroot
	@$(BIN)/python -m tests.pythons

test-sanitized: build ## the tests of the C extensions under AddressSanitizer and UBSan
	@$(BIN)/python build.py sanitized
	@$(BIN)/python -m tests.sanitized

fuzz: build ## damaged recordings, objects, .BTF.ext and logs, near-misses: make fuzz FOR=60
	@$(BIN)/python -m tests.fuzz --for $(FOR)
	@$(BIN)/pytest -q -n auto --maxprocesses=4 tests/fuzz/test_near_misses.py

test-live: build ## tests that boot kernels: make test-live KERNEL=6.1
	@RETSNOOP_KERNELS="$(KERNEL)" $(BIN)/pytest -q -n auto --maxprocesses=4 \
		--dist=loadgroup --no-loadscope-reorder \
		tests/live

test-foreign: build ## the core of the live tests on the kernels of arm64, of x86-64 there
	@$(BIN)/pytest -q --core $(addprefix --kernel ,$(FOREIGN)) tests/live

bench: build ## measure against retsnoop and others: make bench KERNEL=6.12 RETSNOOP=PATH
	@KERNEL="$(KERNEL)" $(BIN)/python -m tests.bench $(BENCH)

soak: build ## hours of rounds, sessions, kills and damaged input: make soak KERNEL=6.12
	@$(BIN)/python -m tests.soak inputs $(KERNEL) $(SOAK)

man: build ## man pages: build/man, where pip install takes them from
	@$(BIN)/python -m retsnoop_py.cli.manual man build/man

site: build ## the pages of docs/ as a site: build/site/index.html
	@$(PYTHON) build.py site

test-pages: build ## what README and docs show of commands, on 5.10 and 6.12
	@$(BIN)/pytest -q --kernel 5.10 --kernel 6.12 tests/live/test_examples.py

test-tutorial: build ## the tutorial from a bare Debian 12 to its end, as a newcomer has it
	@$(BIN)/pytest -q tests/release/test_tutorial.py

test-site: site ## the site in Chromium: links, search, a narrow screen, a dark one
	@$(PYTHON) build.py browser
	@build/site-venv/bin/python -m pytest -q tests/site

wheel: have-python ## a wheel and the source distribution: dist/
	@$(PYTHON) build.py all --for wheel
	@$(BIN)/python -m release.wheel $(MACHINES)

test-wheel test-deb test-standalone: MACHINES = $(ALL_MACHINES)
test-wheel: build wheel ## what is in dist/, in an empty venv, and traces with it: make test-wheel KERNEL=6.12
	@RETSNOOP_KERNELS="$(KERNEL)" $(BIN)/pytest -q tests/release/test_wheel.py

deb: have-python ## a package for Debian 12, 13 and sid: dist/
	@$(PYTHON) build.py all --for deb
	@$(BIN)/python -m release.wheel $(MACHINES)
	@$(BIN)/python -m release.deb $(MACHINES)

test-deb: build deb ## the packages in Debian 12, 13 and sid, a guest, images: make test-deb KERNEL=6.12
	@RETSNOOP_KERNELS="$(KERNEL)" $(BIN)/pytest -q tests/release/test_deb.py \
		tests/release/test_containerfile.py

standalone: have-python ## one executable for any Linux: dist/
	@$(PYTHON) build.py all --for wheel
	@$(BIN)/python -m release.one_file $(MACHINES)

test-standalone: build standalone ## the executables, without anything beside them: make test-standalone KERNEL=6.12
	@RETSNOOP_KERNELS="$(KERNEL)" $(BIN)/pytest -q tests/release/test_one_file.py

test-live-standalone: build standalone ## the live tests with the executable as retsnoop-py: ... KERNEL=6.12
	@install -D dist/retsnoop-py-$$(uname -m) build/standalone/retsnoop-py
	@RETSNOOP_TOOL="$(CURDIR)/build/standalone/retsnoop-py" RETSNOOP_KERNELS="$(KERNEL)" \
		$(BIN)/pytest -q tests/live

release: have-python ## all that is handed out, with sums, an SBOM and notes: dist/
	@$(PYTHON) build.py all --for deb
	@$(BIN)/python -m release.assemble --tag "$(TAG)"

test-install: build ## each way to install of README and docs/install.md, in a bare Debian 12 and 13
	@$(BIN)/pytest -q tests/release/test_install.py

test-source: build ## the fastest way to install, the source distribution, on this machine
	@$(BIN)/pytest -q tests/release/test_source.py

test-release: build release ## the same bytes again from another directory, and what the SBOM says
	@$(BIN)/pytest -q tests/release/test_assemble.py

lint: build ## ruff, mypy --strict, import contracts, clang-format; BPF for x86_64 and arm64
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy --strict src release
	@$(BIN)/python -m tests.dependencies
	@$(BIN)/lint-imports --no-logo --no-cache
	@clang-format --dry-run -Werror $(C_FILES)
	@$(PYTHON) build.py bpf --arch x86_64
	@$(PYTHON) build.py bpf --arch arm64

format: build ## let ruff and clang-format rewrite the sources
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .
	@clang-format -i $(C_FILES)

clean: ## remove what was built, but not .venv
	rm -rf build dist src/*.egg-info src/retsnoop_py/*.so src/retsnoop_py/bpf
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis

distclean: clean ## remove .venv too
	rm -rf .venv
