# Everything a person needs starts here; `make help` lists it.

GO      ?= go
PYTHON  ?= /usr/bin/python3
BIN     := bin/talaria
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
SUDO    := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
GO_HELP := install Go 1.26 or newer from https://go.dev/dl/, then: export PATH=/usr/local/go/bin:\$$PATH
APT     := $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get

# What kernels need, and what only the tests need, as Debian names it.
PYTHON_PACKAGES := python3 python3-numpy python3-pandas python3-matplotlib python3-pip
JUPYTER_PACKAGES := jupyter-server jupyter-console python3-ipykernel python3-ipywidgets python3-nbclient python3-websocket
TEST_PACKAGES   := chromium curl e2fsprogs openssl procps util-linux python3-websockets redis-server python3-redis python3-ipython \
  postgresql python3-psycopg2 \
  python3-dev python3-setuptools python3-venv python3-wheel flake8
# What the acceptance cells of progress bars use.
CELL_PACKAGES   := python3-tqdm python3-rich

export CGO_ENABLED := 1

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: tools setup build ## Install what is missing, build, and serve on 127.0.0.1 (ARGS="--addr …" for more)
	$(BIN) serve $(ARGS)

# Before anything is installed. From Go 1.21 on, an older Go downloads the one that go.mod asks for.
.PHONY: tools
tools:
	@command -v $(firstword $(GO)) >/dev/null || { echo "Go is not installed, or not in PATH: $(GO_HELP)"; exit 1; }
	@$(GO) version | awk '{ split(substr($$3, 3), v, "."); exit v[1] == 1 && v[2] < 21 }' || { echo "$$($(GO) version) is too old: $(GO_HELP)"; exit 1; }
	@cc=$$($(GO) env CC) && command -v $${cc%% *} >/dev/null || { echo "there is no C compiler, $$cc: install it (on Debian: apt-get install gcc libc6-dev)"; exit 1; }

.PHONY: build
build: tools ## Build bin/talaria
	@mkdir -p bin
	$(GO) build -trimpath -buildvcs=false -tags nomsgpack -ldflags "-s -w -X main.version=$(VERSION)" -o $(BIN) ./cmd/talaria

.PHONY: test
test: tools setup test-setup build ## Install what the tests need, and run them (SHORT= for every combination of tier, user and engine)
	@$(MAKE) -s -k -j 2 -O $(TESTS)

# Two at a time, the longest first, and what finds mistakes within minutes; each goes on after a failure of another.
TESTS := test-e2e test-kernel lint lint-python test-web test-go test-runner-ipython test-runner-stdlib test-sdk

# With -short, a test that has several combinations of tier, user, engine or Python runs in one or two of them. The gate runs all.
SHORT ?= -short

.PHONY: test-e2e test-kernel test-go
# Most of these tests wait for processes and timers most of the time: two on each of two cores use them better than one.
test-e2e:
	$(GO) test $(SHORT) -parallel 4 -timeout 80m ./e2e

# RACE=-race adds the race detector, as the gate does; the packages of SEQUENTIAL have no goroutines, and tests that read megabytes.
SEQUENTIAL := talaria/session/transcript talaria/session/hazard
# These look at what is mounted and at what the ordinary user of their tests runs, so they do not run beside each other.
KERNEL := $(GO) list ./kernel/... ./session/packages
# Programs with the race detector sleep for a second before they end, and each test binary is such a program.
test-kernel test-go: export GORACE := atexit_sleep_ms=100
test-kernel:
	$(GO) test $(SHORT) $(RACE) -p 1 -timeout 40m $(shell $(KERNEL))
test-go:
	$(GO) test $(SHORT) $(RACE) -p 1 -timeout 40m $(filter-out $(SEQUENTIAL) $(shell $(KERNEL)),$(shell $(GO) list ./... | grep -v '/e2e$$'))
	$(GO) test $(SEQUENTIAL)

# A program built with the race detector ends at its first race, which fails the test that runs it. These are the tests with the
# most goroutines; with all of them the detector takes too long.
RACE_TESTS := Frames Approvals AnMCP AWebHook TheSameAnalysis AHostileCell ForgedAnswers TenThreads AnHTTPClient MCPSurvives MCPBears \
  ThreeClients Attaching AThousandInterrupts AHostThatIsStopped ACrashOfTheHost TheClientTakesUp AClientThatIsCutOff AFloodedTerminal \
  TerminalsLeave DeletingASession AnInstallationCanBe ANetworkOutlives ALossOfVariables NamesAreKnown SIGTERM JupyterClientsRun AJupyterClient \
  ATelegram ASlack E2BContextsOfPython
empty :=

.PHONY: test-e2e-race
test-e2e-race: setup test-setup ## Run end-to-end tests with much concurrency against a program with the race detector
	$(GO) build -race -o bin/talaria-race ./cmd/talaria
	GORACE=halt_on_error=1 TALARIA_BIN=$(CURDIR)/bin/talaria-race $(GO) test -timeout 40m -run '^Test($(subst $(empty) ,|,$(strip $(RACE_TESTS))))' ./e2e

# Packages whose tests depend on the Linux kernel. Emulated, they take about an hour for each release. One test measures CPU time,
# which an emulated processor needs ten times as much of.
VM_PACKAGES ?= cgroup procfs disk landlock sandbox
VM_RELEASES ?= bookworm trixie

.PHONY: test-vm
test-vm: setup build ## Run the sandboxes' tests in virtual machines with the Linux of Debian 12 and 13, and control groups of version 2
	@mkdir -p bin/vm
	@for package in $(VM_PACKAGES); do $(GO) test -c -o bin/vm/$$package.test ./kernel/$$package || exit 1; done
	@failed=; for release in $(VM_RELEASES); do for package in $(VM_PACKAGES); do \
	  echo "$$release: kernel/$$package"; \
	  e2e/vm/run.sh $$release kernel/$$package $(CURDIR)/bin/vm/$$package.test -test.timeout 90m -test.skip TestPid1Rests || failed="$$failed $$release/$$package"; \
	done; done; [ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

.PHONY: test-runner-stdlib test-runner-ipython
test-runner-stdlib test-runner-ipython: test-runner-%:
	cd kernel/runner && RUNNER_ENGINE=$* $(PYTHON) -m unittest discover -s tests -t .

# Each Python from 3.11 to 3.14 on PATH, or that pyenv has, but for the one that make test uses; the tests take their expectations
# from the one that they run in.
RUNNER_PYTHONS ?= $(shell minor='import sys; print(*sys.version_info[:2])'; for v in 3.11 3.12 3.13 3.14; do for python3 in $$(command -v python$$v) $${PYENV_ROOT:-$$HOME/.pyenv}/versions/$$v.*/bin/python3; do \
  $$python3 -c '' 2>/dev/null && [ "$$($$python3 -c "$$minor")" != "$$($(PYTHON) -c "$$minor")" ] && echo $$python3 && break; done; done; true)

.PHONY: test-runner-pythons
test-runner-pythons: ## Run the runner's tests in each further Python from 3.11 to 3.14 that is installed (RUNNER_PYTHONS="…" for others)
	@cd kernel/runner && failed=; for python3 in $(RUNNER_PYTHONS); do \
	  for engine in stdlib ipython; do \
	    [ $$engine = stdlib ] || $$python3 -c 'import IPython' 2>/dev/null || { echo "SKIP: $$python3 has no IPython"; continue; }; \
	    echo "$$($$python3 --version), engine $$engine"; \
	    RUNNER_ENGINE=$$engine $$python3 -m unittest discover -s tests -t . || failed="$$failed $$python3/$$engine"; \
	  done; \
	done; [ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

.PHONY: test-runner-debian
test-runner-debian: ## Run the runner's tests with the Python of another Debian release (RELEASE=sid for the newest), as root
	kernel/runner/tests/in_debian.sh $(or $(RELEASE),sid)

# The page: Go embeds web/dist, which is committed, so Node is needed only to change the page.
NODE_OK := $(shell node -p 'const [a, b] = process.versions.node.split(".").map(Number); a > 20 || a === 20 && b >= 19 ? "yes" : ""' 2>/dev/null)
WEB_MODULES := web/node_modules/.package-lock.json

.PHONY: web
web: $(WEB_MODULES) ## Build the page: web/dist (needs Node 20.19 or newer)
	cd web && npm run --silent build

$(WEB_MODULES): web/package-lock.json
	cd web && npm ci --no-audit --no-fund
	@touch $@

.PHONY: test-web
test-web: build ## Check the page: its types, its tests, that web/dist is what its sources build, and all of it in a browser
ifeq ($(NODE_OK),yes)
	@$(MAKE) -s $(WEB_MODULES)
	cd web && npm run --silent check && npm test --silent
	rm -rf web/dist-check && cd web && TALARIA_DIST=dist-check npm run --silent build >/dev/null
	diff -r -x '*.br' web/dist web/dist-check || { echo "web/dist is not what the sources build; run make web and commit it"; exit 1; }
	rm -rf web/dist-check
	cd web && npm run --silent e2e
else
	@echo "SKIP: the page is not tested: node 20.19 or newer is not installed (Debian 12 has an older one)"
endif

SDK_MODULES := sdk/typescript/node_modules/.package-lock.json

$(SDK_MODULES): sdk/typescript/package-lock.json
	cd sdk/typescript && npm ci --no-audit --no-fund
	@touch $@

.PHONY: sdk
sdk: $(SDK_MODULES) ## Compile the TypeScript client: sdk/typescript/dist (needs Node)
	cd sdk/typescript && npm run --silent build

.PHONY: test-sdk
test-sdk: ## Check that the TypeScript client's committed files are what its sources build
ifeq ($(NODE_OK),yes)
	@$(MAKE) -s sdk
	@git diff --exit-code --stat -- sdk/typescript/dist sdk/typescript/src/events.ts || { echo "sdk/typescript/dist is not what its sources build; run make sdk and commit it"; exit 1; }
else
	@echo "SKIP: the TypeScript client is not checked: node 20.19 or newer is not installed (Debian 12 has an older one)"
endif

RUNNER_MODULES := kernel/runner/node_modules/.package-lock.json

$(RUNNER_MODULES): kernel/runner/package-lock.json
	cd kernel/runner && npm ci --no-audit --no-fund
	@touch $@

.PHONY: lint-python
lint-python: test-setup ## Check the Python: flake8 for mistakes, pyright for types
	cd kernel/runner && $(PYTHON) -m flake8 . ../../sdk/python
ifeq ($(NODE_OK),yes)
	@$(MAKE) -s $(RUNNER_MODULES)
	cd kernel/runner && node_modules/.bin/pyright --pythonpath $(PYTHON)
	kernel/runner/node_modules/.bin/pyright -p sdk/python --pythonpath $(PYTHON)
else
	@echo "SKIP: the types of the Python are not checked: node 20.19 or newer is not installed (Debian 12 has an older one)"
endif

.PHONY: screenshots
screenshots: $(WEB_MODULES) setup test-setup build ## Take the pictures of docs/images
	cd web && npm run --silent screenshots
	pages=$$(mktemp -d) && TALARIA_GATEWAY_PAGES=$$pages $(GO) test -count 1 -run 'ConversationIsDrawn' ./e2e && \
	chromium --headless=new --no-sandbox --hide-scrollbars --window-size=520,950 --screenshot=docs/images/telegram.png file://$$pages/telegram.html && \
	chromium --headless=new --no-sandbox --hide-scrollbars --window-size=640,1150 --screenshot=docs/images/slack.png file://$$pages/slack.html && rm -r $$pages

.PHONY: demo
demo: setup build ## Record the moving picture of the README again
	$(PYTHON) docs/images/restart.py --binary $(BIN)

.PHONY: notices
notices: ## Write THIRD-PARTY-NOTICES.txt from the licences of what is embedded
	$(GO) run ./e2e/notices

.PHONY: race
race: ## Run the Go tests of everything but e2e with the race detector
	@$(MAKE) -s test-kernel test-go RACE=-race

.PHONY: lint
lint: ## Check formatting, go vet and staticcheck
	@files=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$files" ] || { echo "not gofmt-ed: $$files"; exit 1; }
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

.PHONY: bench
bench: setup build ## Measure against a Jupyter Server, and write docs/performance.md (ARGS="-quick" for more)
	$(GO) run ./e2e/bench -json bin/bench.json -doc docs/performance.md $(ARGS)

.PHONY: bench-compare
bench-compare: setup ## Measure this tree and an older commit in turns (OLD=COMMIT, or a file of bench -json; ARGS="-run …" for more)
	@[ -n "$(OLD)" ] || { echo 'which commit? make bench-compare OLD=v0.1.0, or OLD=bin/bench.json for the commit of that run'; exit 2; }
	$(GO) run ./e2e/bench -before "$(OLD)" $(ARGS)

.PHONY: bench-setup
bench-setup: setup ## Install a Jupyter Server to compare with
	@$(MAKE) -s install PACKAGES="$(JUPYTER_PACKAGES)"

.PHONY: microbench
microbench: ## Measure the parts (go test -bench)
	$(GO) test -run '^$$' -bench . -benchmem ./kernel/... ./session/... ./store/... ./artifacts/...

.PHONY: setup
setup: ## Install Python and the data libraries if they are missing
	@$(PYTHON) -c 'import importlib.util as u, sys; \
	  sys.exit(any(u.find_spec(m) is None for m in ("numpy", "pandas", "matplotlib", "pip")))' 2>/dev/null || $(MAKE) -s install PACKAGES="$(PYTHON_PACKAGES)"

.PHONY: test-setup
test-setup:
	@( PATH="$$PATH:/usr/sbin:/sbin"; for tool in chromium curl mkfs.ext4 openssl pgrep setpriv redis-server; do command -v $$tool >/dev/null || exit 1; done; ls -d /usr/lib/postgresql/*/bin/initdb >/dev/null && $(PYTHON) -c 'import ensurepip, setuptools, wheel, IPython, redis, psycopg2, websockets, flake8' && test -e $$($(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h ) 2>/dev/null \
	  || $(MAKE) -s install PACKAGES="$(TEST_PACKAGES)"
	@$(PYTHON) -c 'import rich, tqdm' 2>/dev/null || $(MAKE) -s install PACKAGES="$(CELL_PACKAGES)"
	@$(PYTHON) -c 'import jupyter_server, jupyter_console, ipykernel, ipywidgets, nbclient, websocket' 2>/dev/null || $(MAKE) -s install PACKAGES="$(JUPYTER_PACKAGES)"

.PHONY: install
install:
	@command -v apt-get >/dev/null || { echo "install these yourself, this is no Debian: $(PACKAGES)"; exit 1; }
	$(APT) update -q
	$(APT) install -q -y --no-install-recommends $(PACKAGES)

.PHONY: clean
clean: ## Remove what was built
	rm -rf bin
