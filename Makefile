# `make` lists the targets. Each does its own set-up; `make demo` and `make test` are the two to begin with.

SHELL := /bin/bash
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
.DELETE_ON_ERROR:

# Length of the demo, policy file for it ("" takes the one the program knows), way to its robot (udp); time for each fuzz test,
# benchmarks to run.
DURATION ?= 30s
POLICY ?=
ROBOT ?= udp
FUZZTIME ?= 60s
BENCH ?= .
# Folder of the programs.
BIN ?= bin
# Architecture of `make deps`: amd64 or arm64; "" is this machine's.
ARCH ?=

CLI := github.com/openclaw-rl/openclaw/agent/cli
VERSION = $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
COMMIT = $(shell git describe --always --abbrev=40 --exclude='*' --dirty 2>/dev/null)
# Besides the place where they were built, programs look for the libraries where they are now: bin and .deps may move together.
LDFLAGS = -X $(CLI).version=$(VERSION) -X $(CLI).commit=$(COMMIT) \
	-extldflags=-Wl,-rpath,$$ORIGIN/../.deps/linux-$(shell go env GOARCH)/lib
PROGRAMS := ./agent/cmd/clawagent ./sim/cmd/clawsim ./onnx/cmd/clawpolicy
# What the race detector watches: all that runs threads. Of sim/mujoco the tests that have several: the rest is C and would only be slower.
RACE := ./agent/... ./onnx/... ./sim/virtual/... ./sim/cmd/clawsim
STATICCHECK := go tool -modfile=.ci/tools.mod staticcheck

.PHONY: help deps deps-torch build-torch test-torch build demo test race fuzz bench bench-loop bench-peers opd-experiment bench-peers-sim bench-peers-learning peers peers-torch soak lint web clean test-deps

help:
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

deps: ## fetch MuJoCo and ONNX Runtime (30 MB, once per user) and unpack them into .deps [ARCH=amd64|arm64]
	@command -v python3 >/dev/null || { echo "deps: python3 with pip is needed (Debian: make test-deps)" >&2; exit 1; }
	@python3 -B .ci/deps.py $(ARCH)

deps-torch: deps ## fetch libtorch (0.7 GB, once per user) and unpack it into .deps, write .deps/env
	@python3 -B .ci/deps.py torch

# The first build compiles gotch, which takes 2.5 minutes on two cores; Go's build cache keeps it while .deps/env stays the same.
build-torch: deps-torch ## build clawlearn, which trains [BIN=bin]
	@mkdir -p '$(BIN)'
	source .deps/env && go build -tags torch -ldflags '$(LDFLAGS)' -o '$(BIN)/' ./learner/cmd/clawlearn

test-torch: build-torch ## check and test what trains, with tag torch
	source .deps/env && go vet -tags torch ./learner/... && $(STATICCHECK) -tags torch ./learner/... && \
		go test -tags torch -timeout 30m ./learner/...

build: deps ## build clawagent, clawsim and clawpolicy [BIN=bin]
	@mkdir -p '$(BIN)'
	go build -ldflags '$(LDFLAGS)' -o '$(BIN)/' $(PROGRAMS)

demo: build ## walk a virtual Go1 with the real agent; last line is JSON, logs in out/demo [DURATION=30s POLICY=FILE ROBOT=udp]
	@bin/clawsim demo --duration '$(DURATION)' $(if $(POLICY),--policy '$(POLICY)') --robot '$(ROBOT)' --out out/demo

# clawsim's tests walk in real time, by the machine's clock: they come last, with no other package's beside them.
test: build ## run every test
	go test -timeout 30m $$(go list ./... | grep -v '/sim/cmd/clawsim$$')
	go test -timeout 30m ./sim/cmd/clawsim

race: deps ## run the tests of what has threads under the race detector
	go test -race -timeout 30m $(RACE)
	go test -race -timeout 30m ./sim/mujoco -run 'Conformance|Rows|Batch'

fuzz: deps ## run every fuzz test for FUZZTIME, one after the other [FUZZTIME=60s]
	@grep -rEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | sort | while IFS=: read -r file func; do \
		name=$${func#func }; folder=$$(dirname "$$file"); \
		echo "fuzz: $$name in $$folder for $(FUZZTIME)"; \
		go test "$$folder" -run '^$$' -fuzz "^$$name\$$" -fuzztime '$(FUZZTIME)' -fuzzminimizetime 1s || exit 1; \
	done

bench: deps ## run the benchmarks [BENCH=REGEXP]
	go test ./... -run '^$$' -bench '$(BENCH)' -benchmem

# In real time, on cores with nothing else to do.
SECONDS ?= 60
bench-loop: deps ## measure the 500 Hz loop alone and under load, a table beside the maker's loop in out/bench-loop.md [SECONDS=60]
	@mkdir -p out
	@OPENCLAW_BENCH_LOOP='$(SECONDS)' OPENCLAW_BENCH_LOOP_OUT='$(CURDIR)/out/bench-loop.md' \
		go test ./sim/e2e -run '^TestBenchLoop$$' -count=1 -timeout 0 >out/bench-loop.log || { cat out/bench-loop.log >&2; exit 1; }
	@cat out/bench-loop.md

# EnvPool, rsl-rl-lib and what they need, 1.1 and 5.4 GB, lie in one virtual environment in the user's cache; each list of packages is
# written into it last.
WHICH ?= sim learning
PAIRS ?= 7
PEERFLAGS ?=
PEERS = $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/openclaw/peers
PIP = '$(PEERS)/bin/pip' install --quiet --disable-pip-version-check --only-binary=:all:
bench-peers: $(addprefix bench-peers-,$(WHICH)) ## compare with EnvPool's Go1 and rsl-rl-lib, 20 minutes, results in out/peers [WHICH="sim learning" PAIRS=7 PEERFLAGS= POLICY=FILE]

bench-peers-sim: build peers
	@'$(PEERS)/bin/python' -B sim/peers/bench_peers.py --pairs '$(PAIRS)' --clawsim '$(BIN)/clawsim' \
		--policy '$(or $(POLICY),../shared/policies/go1_policy.onnx)' $(PEERFLAGS)

bench-peers-learning: build-torch peers-torch
	@'$(PEERS)/bin/python' -B learner/peers/bench_learning.py --pairs '$(PAIRS)' --clawlearn '$(BIN)/clawlearn' $(PEERFLAGS)

peers:
	@cmp -s sim/peers/requirements.txt '$(PEERS)/requirements.txt' || { \
		echo "bench-peers: installing EnvPool into $(PEERS)" >&2; rm -rf '$(PEERS)'; python3 -m venv '$(PEERS)' && \
		$(PIP) -r sim/peers/requirements.txt && cp sim/peers/requirements.txt '$(PEERS)/'; }

peers-torch: peers
	@cmp -s learner/peers/requirements.txt '$(PEERS)/requirements-torch.txt' || { \
		echo "bench-peers: installing rsl-rl-lib with torch into $(PEERS), 2.6 GB to fetch" >&2; \
		$(PIP) -r learner/peers/requirements.txt && cp learner/peers/requirements.txt '$(PEERS)/requirements-torch.txt'; }

# 27 runs of at most MINUTES of training each: on quiet cores 75 minutes with the evaluations. Started again, it goes on where it ended.
MINUTES ?= 2
SEEDS ?= 1,2,3
PARTS ?= equal
OPD ?= out/opd
opd-experiment: build-torch ## compare distillation with PPO alone at equal time, results in OPD [MINUTES=2 SEEDS=1,2,3 PARTS=equal,large OPD=out/opd]
	@python3 -B learner/opd/experiment.py --clawlearn '$(BIN)/clawlearn' --minutes '$(MINUTES)' --seeds '$(SEEDS)' --parts '$(PARTS)' --out '$(OPD)'

# A promise's test is named TestPromise<n>...; it runs a short seeded sample unless OPENCLAW_SOAK is n, and then the full count, writing
# a line of JSON a case to the file OPENCLAW_SOAK_LOG names. So do the tests of this table, each under a word: WORD FOLDER TEST [TAG].
# One package at a time (-p 1): what is measured in real time is not to be disturbed by another package's tests.
# The log stays: a soak that was ended goes on with the cases that it has not, of the same commit. To begin anew remove it.
SOAKS = mutants ./agent/safety TestMutants\n mutants ./agent/guard TestMutants\n hour ./sim/e2e TestSoakHourOfWalking\n memory ./learner/cmd/clawlearn TestMemoryOfARunIsFlat torch\n \
	chaos ./sim/e2e TestChaosLockstep\n storms ./sim/e2e TestChaosRealTime\n kills ./sim/e2e TestChaosKills\n \
	wrong-robots ./sim/virtual TestFirstContactFindsPairs\n
PROMISE ?=
soak: deps ## run the full count of one promise's test, or go on with it, log in out/soak [PROMISE=n|mutants|hour|memory|chaos|storms|kills|wrong-robots]
	@tests=$$(grep -rEo --include='*_test.go' '^func TestPromise0*[0-9]+' . | \
		sed -E 's/^(.*)\/[^/]*:func TestPromise0*([0-9]+)$$/\2 \1 TestPromise0*\2([^0-9].*)?/' | sort -u | sort -ns; printf ' $(SOAKS)'); \
	found=$$(awk -v n='$(PROMISE)' 'n != "" && $$1 "" == n ""' <<<"$$tests"); \
	if [ -z "$$found" ]; then \
		echo "soak: PROMISE=$(PROMISE): want one of:" $$(awk '{print $$1}' <<<"$$tests" | uniq) >&2; exit 2; \
	fi; \
	folders=$$(awk '{print $$2}' <<<"$$found"); name=$$(awk '{print $$3; exit}' <<<"$$found"); tag=$$(awk '{print $$4; exit}' <<<"$$found"); \
	mkdir -p out/soak; log='$(CURDIR)/out/soak/promise-$(PROMISE).jsonl'; \
	echo "soak: $(PROMISE) in" $$folders "with log $$log"; \
	if [ -n "$$tag" ]; then $(MAKE) deps-torch && source .deps/env || exit 1; fi; \
	OPENCLAW_SOAK='$(PROMISE)' OPENCLAW_SOAK_LOG="$$log" OPENCLAW_SOAK_COMMIT='$(COMMIT)' \
		go test -p 1 -tags "$$tag" $$folders -run "^$$name\$$" -count=1 -timeout 0 -v

lint: deps ## check form and find mistakes: gofmt, go mod tidy, go vet, staticcheck, tests of the scripts
	@unformatted=$$(gofmt -l .); [ -z "$$unformatted" ] || { echo "lint: run gofmt -w on:" $$unformatted >&2; exit 1; }
	go mod tidy -diff
	go vet ./...
	$(STATICCHECK) ./...
	python3 -B -m unittest discover -s .ci -p '*_test.py'
	python3 -B -m unittest discover -s sim/peers -p '*_test.py'
	python3 -B -m unittest discover -s learner/opd -p '*_test.py'
	python3 -B -m unittest discover -s learner/peers -p '*_test.py'

# dist is committed: whoever builds the programs needs no Node.
WEB := sim/cmd/clawsim/web
web: ## build the page of clawsim play --view: src to dist, with npm's packages at the versions and hashes of package-lock.json
	@command -v npm >/dev/null || { echo "web: npm is needed (Debian package npm)" >&2; exit 1; }
	cd $(WEB) && npm ci --ignore-scripts --no-audit --no-fund && node_modules/.bin/tsc -p .
	go run ./$(WEB)/build

clean: ## remove bin, out and .deps; downloads stay in the user's cache
	rm -rf bin out .deps

test-deps: ## install the Debian packages that building and tests need and this machine lacks (as root)
	@.ci/test-deps
