# Everything needs Python 3.11 or newer and nothing else: the first target that needs them
# makes .venv and fetches the dependencies, and again when pyproject.toml or what is compiled changes.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
DEMO   := $(VENV)/.demo
COMPILED := tools/compile_hook.py $(wildcard shared/singerlake/*/_*.c shared/singerlake/*/*/_*.c shared/singerlake/*/*/_*.h)
SERVERS := $(VENV)/.servers
# On two cores: tests wait for servers and processes for a third of their time and more.
PYTEST_ARGS ?= -n 4
CHECK_PYTHON = $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; choose one: make PYTHON=python3.12")'
EXTRAS := spark dynamodb postgres azure gcs docs
comma := ,
space := $(subst ,, )
SEEDS ?= 10000
FIRST ?= 0

# Plugins are called by name (by Meltano, by the demo, by tests), so the environment's commands come first.
export PATH := $(CURDIR)/$(BIN):$(PATH)
# Tests start Python some hundred times: what is compiled is kept, also where the environment says otherwise.
unexport PYTHONDONTWRITEBYTECODE
# Meltano works from meltano.yml alone here; it need not call home.
export MELTANO_SEND_ANONYMOUS_USAGE_STATS := false
export MELTANO_CLI_DISABLE_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install demo test test-thorough test-soak lint format pytest spark lowest simulate bench docs site screenshot wheel clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(READY) ## Make .venv with the project and its tools

$(READY): pyproject.toml $(COMPILED)
	@$(CHECK_PYTHON)
	@echo "A minute or two, once, and when pyproject.toml changes."
	@$(PYTHON) -m tools.install $(VENV) --group dev --editable '.[$(subst $(space),$(comma),$(EXTRAS))]'
	@touch $(READY) $(DEMO)

# Programs that only tests need: the demo and the commands do without.
$(SERVERS): $(READY) tools/chromium.py tools/nginx.py tools/pgbouncer.py tools/azurite.py tools/servers.py
	@$(BIN)/python -m tools.chromium || echo "The tests of pages will fail without it; all else works."
	@$(BIN)/python -m tools.nginx || echo "The tests of storage behind a balancer will fail without it; all else works."
	@$(BIN)/python -m tools.pgbouncer || echo "The tests of PostgreSQL behind a pooler will fail without it; all else works."
	@$(BIN)/python -m tools.azurite || echo "The tests of Azure will fail without it; all else works."
	@$(BIN)/python -m tools.servers || echo "Thorough tests of other servers will fail without them; all else works."
	@touch $(SERVERS)

demo: $(DEMO) ## Real flights, end to end: tap, lake, replay, tables, Spark (3 minutes)
	@$(BIN)/python -m demo

# What the demo needs to begin; it installs Spark itself, when it comes to it.
$(DEMO): pyproject.toml $(COMPILED)
	@$(CHECK_PYTHON)
	@$(PYTHON) -m tools.install $(VENV) --group demo --editable '.[tables,iceberg,serve,postgres]'
	@touch $@

test: ## Lint, and each behaviour once: what has to hold before a commit
	@$(MAKE) --no-print-directory -j2 lint $(SERVERS)
	$(BIN)/python -m pytest -m 'not thorough and not soak' $(PYTEST_ARGS)

test-thorough: $(SERVERS) ## More seeds, steps and stores, every Spark session of its own
	$(BIN)/python -m pytest -m 'thorough and not soak' $(PYTEST_ARGS)

test-soak: $(SERVERS) ## All other tests: every seed and whole products; what it finds becomes a quick case
	SINGERLAKE_TEST_EXAMPLES=1000 $(BIN)/python -m pytest -m 'soak or property' $(PYTEST_ARGS) --timeout 3000

lint: $(READY) ## Style, types, layers, and that generated files are current
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.plugin_definitions --check

pytest: $(SERVERS) ## Tests of all kinds; PYTEST_ARGS='-k lock' chooses some
	$(BIN)/python -m pytest $(PYTEST_ARGS)

spark: ## The tests of Spark with another version of it: make spark SPARK=4.1.4
	@test -n '$(SPARK)' || { echo 'Say which version: make spark SPARK=4.1.4'; exit 2; }
	@$(PYTHON) -m venv '$(VENV)-spark-$(SPARK)'
	@'$(VENV)-spark-$(SPARK)/bin/python' -m pip install --quiet --upgrade 'pip>=25.1'
	@'$(VENV)-spark-$(SPARK)/bin/python' -m pip install --quiet --editable '.[$(subst $(space),$(comma),$(EXTRAS))]' --group dev 'pyspark[connect]==$(SPARK)'
	PATH='$(CURDIR)/$(VENV)-spark-$(SPARK)/bin':"$$PATH" python -m pytest $(PYTEST_ARGS) tests/spark

lowest: ## The quick tests with the lowest versions that pyproject.toml allows
	@$(PYTHON) -m venv '$(VENV)-lowest'
	@'$(VENV)-lowest/bin/python' -m pip install --quiet --upgrade 'pip>=25.1' uv
	@'$(VENV)-lowest/bin/python' -m uv pip compile --quiet --resolution lowest-direct --no-header --no-annotate pyproject.toml $(foreach extra,$(EXTRAS),--extra $(extra)) -o '$(VENV)-lowest/lowest.txt'
	@'$(VENV)-lowest/bin/python' -m pip install --quiet --editable '.[$(subst $(space),$(comma),$(EXTRAS))]' --group test --constraint '$(VENV)-lowest/lowest.txt'
	PATH='$(CURDIR)/$(VENV)-lowest/bin':"$$PATH" python -m pytest -m 'not thorough and not soak' $(PYTEST_ARGS)

format: $(READY) ## Put the code into the project's style
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: $(READY) ## Generate plugin definitions and settings tables from the plugins
	$(BIN)/python -m tools.plugin_definitions

site: $(VENV)/.site ## The documentation as a site in build/site; open build/site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	@echo "open build/site/index.html"

screenshot: $(SERVERS) ## The picture of a lake's site in README anew, after its first page changed
	@$(BIN)/python -m tools.site_screenshot

$(VENV)/.site: $(READY)
	@$(BIN)/python -m pip install --quiet --group site
	@touch $@

simulate: $(READY) ## Writers, readers and trims of every manifest store, with seeded faults; SEEDS=10000 a store from FIRST=0
	@$(BIN)/python -m tests.simulation --store all --seeds $(SEEDS) --first $(FIRST) --jobs 2

bench: $(READY) ## Speed and memory on 1 GB of real flights, each figure a ratio; also in bench.json
	@$(BIN)/python -m bench --json bench.json

wheel: $(READY) ## The sdist and the wheel of this platform in dist/, with all compiled parts
	@rm -rf dist
	SINGERLAKE_REQUIRE_COMPILED=1 $(BIN)/python -m hatchling build -d dist
	if [ "$$(uname -s)" = Linux ]; then $(BIN)/python -m auditwheel repair --wheel-dir dist dist/*-linux_*.whl && rm dist/*-linux_*.whl; fi

clean: ## Remove .venv and caches; lakes stay
	rm -rf $(VENV) $(VENV)-spark-* $(VENV)-lowest .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
