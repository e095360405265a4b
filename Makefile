# Every target makes what it needs first: a Python 3.11 or newer and make are enough to start.
#   make run     the dashboard on a demo            make check   style, types, import rules, house rules
#   make test    the tests                          make dist    dist/ledger.pyz, everything in one file
#   make quick   the tests for while you work       make bench   the benchmarks
#   make soak    the random and fault tests, long
#   make trust   the campaigns against faults, and their table in tests/trust/RESULTS.md (SCALE=10)
#   make test-ha the failovers of PostgreSQL under load, 20 of them (HA=20)
#   make test-postgres  the tests of the engine, on PostgreSQL
#   make run-postgres   PostgreSQL, two servers and the dashboard on one of them
#   make lock    pin the dependencies anew          make clean   remove what can be made again
#   make dist-all      dist/ledger.pyz for each Python version
#   make binary        dist/ledger, which needs no Python
#   make release       dist/VERSION: packages, archives, executable, bill of materials, checksums
#   make docs          site/, the documentation as a site with search
#   make catalogues    write docs/errors.md and docs/events.md from the code
#   make pictures      draw docs/pictures, the dashboard's screens, and record its tour
#   make bench-rivals  install what make bench also compares with
#   make clients       generate a client with each generator of OpenAPI, and use it

PYTHON ?= python3
processors := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
# One more worker than processors, as some tests wait for a process. Twice as many workers as processors take 3 to
# 18 % more CPU time, and are faster by 5 s or not at all.
WORKERS ?= $(shell expr $(processors) + 1)
PYTEST_ARGS ?= --numprocesses $(WORKERS) --dist worksteal
QUICK_ARGS ?= $(PYTEST_ARGS)
# The tests keep their files in memory where 1 GB of it is free: it saves the quick ones a seventh of their
# CPU time, and the wait for the disk. The soak tests use the disk.
TESTS_TMPDIR ?= $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 1000000 { print "/dev/shm" }')
# How many times the length that a test has in make test.
SOAK ?= 25
SOAK_ARGS ?=
SCALE ?= 1
UV_ARGS ?=

venv := .venv
bin := $(venv)/bin
pip := $(bin)/python -m pip --disable-pip-version-check -qq

.PHONY: run run-postgres test test-ha test-postgres quick check dist dist-all binary release soak trust bench bench-rivals catalogues clients docs pictures lock
.PHONY: clean runtime dev

run: runtime
	$(bin)/ledger-tui --demo

run-postgres: dev
	$(bin)/python deploy/run_on_postgres.py

in_memory := $(if $(TESTS_TMPDIR),TMPDIR=$(TESTS_TMPDIR))

# Without compiled files each process of the tests would compile the program and the tests again.
unexport PYTHONDONTWRITEBYTECODE

test: dev
	$(in_memory) $(bin)/python -m pytest $(PYTEST_ARGS)

quick: dev
	$(in_memory) $(bin)/python -m pytest --quick -q $(QUICK_ARGS)

check: dev
	$(bin)/ruff check .
	$(bin)/ruff format --check .
	$(bin)/mypy --strict src
	$(bin)/mypy --strict --platform darwin src
	$(bin)/lint-imports --no-cache
	$(bin)/python -m pytest -q tests/house

dist: dev
	$(bin)/python tools/build_archive.py

dist-all: dev
	set -e; for version in 3.11 3.12 3.13 3.14; do \
		$(bin)/python tools/build_archive.py dist/ledger-$$version.pyz $$version; done

binary: dev
	$(bin)/python tools/build_binary.py

release: dev
	$(bin)/python tools/release.py

# What speaks of files is left out. TESTS_POSTGRES=… takes another PostgreSQL (tests/README.md).
on_postgres := tests/contract $(addprefix tests/ledger_engine/, \
	access cli store/postgres store/test_pages.py events http ledger tools/seed test_model.py \
	test_server.py upkeep verify)

test-postgres: dev
	$(in_memory) $(bin)/python -m pytest --database postgres $(PYTEST_ARGS) $(on_postgres)

HA ?= 20

test-ha: dev
	$(bin)/python -m pytest tests/faults/test_failover.py tests/faults/test_patroni.py -s --soak $(HA) $(SOAK_ARGS)

# Each campaign in its long form, and their table in tests/trust/RESULTS.md. SEED=… repeats one.
trust: dev
	@$(pip) install "atheris>=3,<4" || echo "There is no atheris for this Python: what it chooses is skipped." >&2
	SCALE=$(SCALE) $(bin)/python tools/trust.py

soak: dev
	$(bin)/python -m pytest -m soak --soak $(SOAK) $(SOAK_ARGS)
	$(bin)/python -m pytest --whole-textual $(PYTEST_ARGS) tests/ledger_tui/screens
	for server in hypercorn uvicorn granian; do \
		$(bin)/python -m pytest --served-by $$server $(PYTEST_ARGS) tests/contract || exit 1; done
	$(bin)/python -m pytest --database postgres --soak $(SOAK) $(SOAK_ARGS) $(on_postgres)

BENCH_ARGS ?= --record

bench: dev
	$(bin)/python -m bench $(BENCH_ARGS)

# Programs to compare with, not needed for anything else: .venv-bench, and emulate where npm is installed.
bench-rivals: .venv-bench/.made

.venv-bench/.made: requirements-rivals.lock | $(venv)/.made
	@echo "Preparing .venv-bench (once)"
	@$(PYTHON) -m venv --clear .venv-bench
	@.venv-bench/bin/python -m pip --disable-pip-version-check -qq install --require-hashes -r requirements-rivals.lock
	@if command -v npm >/dev/null; then \
		npm install --silent --no-audit --no-fund --prefix .venv-bench/node emulate@0.8.0 && \
		ln -sf ../node/node_modules/.bin/emulate .venv-bench/bin/emulate; \
	else echo "npm is not installed, so emulate is left out"; fi
	@touch $@

# Material warns of a MkDocs 2, which is not the one in the lock.
docs: dev
	NO_MKDOCS_2_WARNING=1 $(bin)/mkdocs build --quiet
	@echo "The documentation is in site/. To read and search it: $(bin)/python -m http.server --directory site"

catalogues: dev
	$(bin)/python -m tools.error_page
	$(bin)/python -m tools.event_page

# What it installs goes into build/clients, 0.4 GB, once. CLIENTS="spectral hey" tries those.
clients: dev
	$(bin)/python -m tools.clients $(CLIENTS)

pictures: dev
	$(bin)/python -m tools.pictures
	$(bin)/python -m tools.record_tour
	$(bin)/python -m tools.tour_picture

# The locks name neither an index nor a path, so they hold wherever they are installed from.
# UV_ARGS is for the place that makes them, for instance UV_ARGS="--index-url …".
compile := $(bin)/uv pip compile --quiet --universal --python-version 3.11 \
	--generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links $(UV_ARGS)

lock: dev
	$(compile) pyproject.toml --upgrade --group dev --output-file requirements-dev.lock
	$(compile) pyproject.toml --constraints requirements-dev.lock --output-file requirements.lock
	$(compile) src/ledger_engine/pyproject.toml --no-emit-package ledger-client --constraints requirements-dev.lock \
		--output-file requirements-engine.lock
	echo 'psycopg[binary]>=3.2' | $(compile) - --constraints requirements-dev.lock --output-file requirements-postgres.lock
	$(compile) --constraints requirements-dev.lock --group build --output-file requirements-build.lock
	$(compile) --constraints requirements-dev.lock --group rivals --output-file requirements-rivals.lock

clean:
	rm -rf $(venv) .venv-bench build dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

# The environment, in steps that are each done once and again when what they rest on has changed.
runtime: $(venv)/.project
dev: $(venv)/.project $(venv)/.dev

$(venv)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "ledger_engine needs Python 3.11 or newer; name one: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
		{ echo "$(PYTHON) has no venv module; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@echo "Preparing $(venv) (once)"
	@$(PYTHON) -m venv --clear $(venv)
	@touch $@

$(venv)/.runtime: requirements.lock requirements-build.lock | $(venv)/.made
	@$(bin)/python tools/install.py "what the program needs" requirements-build.lock requirements.lock
	@touch $@

$(venv)/.project: pyproject.toml | $(venv)/.runtime
	@$(pip) install --no-deps --no-build-isolation --editable .
	@touch $@

$(venv)/.dev: requirements-dev.lock | $(venv)/.runtime
	@$(bin)/python tools/install.py "what the tests need" requirements-dev.lock
	@touch $@
