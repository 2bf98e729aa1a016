# The commands of this repository. `make` lists them.
#
#   make test PKG=./store/...          a part of the module
#   make test RACE=1 ARGS='-run Lease -v'

# What to act on, as the go command names packages.
PKG ?= ./...
# More flags for go test.
ARGS ?=
# 1 = with the race detector.
RACE ?=
# Build tags of tests: checks, and places to fail at, that release builds leave out.
TAGS ?= invariants,failpoints
# Of sim: how many seeds, from which on, or one.
SEEDS ?= 600
FROM ?= 1000
SEED ?=
MOVES ?=
DRAINS ?=
KEEP ?=
# Of sim-faults: play one script in so many, and scripts of two faults.
EVERY ?= 1
PAIRS ?=
# Which benchmarks, and how often each.
BENCH ?= .
COUNT ?= 1
# Of bench-peers: modes, bytes of a payload, seconds of each run, peers; empty is all.
MODE ?=
SIZE ?= 64
SECONDS_PER_RUN ?= 2
PEERS ?=

LINT := go tool -modfile=internal/tools/lint/go.mod golangci-lint
# The embedded store's scripts run in one goroutine at a time; their interpreter, watched,
# takes so much longer that leases end.
RACING := -race -gcflags=github.com/yuin/gopher-lua/...=-race=false
# One package after the other: several start servers of their own, and a share of a
# machine that others fill makes Redis look dead.
FLAGS := -tags=$(TAGS) $(if $(filter 1,$(RACE)),$(RACING))
TEST := go run ./internal/tools/testrun -shuffle=on -p=1 $(FLAGS)

# Before what only root may do.
AS_ROOT = $(if $(filter-out 0,$(shell id -u)),sudo --non-interactive)

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: fmt
fmt: ## format all Go files
	$(LINT) fmt

.PHONY: fmt-check
fmt-check: ## show what fmt would change, and fail if it is anything
	$(LINT) fmt --diff

# Lint has all analyzers of go vet and the tag invariants; of failpoints it knows nothing.
.PHONY: vet
vet: ## run go vet without the build tags of tests; lint does it with them
	go vet $(PKG)
	go vet -tags=$(TAGS) ./internal/failpoint

.PHONY: lint
lint: ## run golangci-lint; the first time builds it, which takes minutes
	$(LINT) config verify
	$(LINT) run $(PKG)

.PHONY: test
test: ## run tests with the servers they need; PKG=, RACE=1, ARGS=
	go build -o /dev/null $(FLAGS) $(PKG) # on all processors, which -p=1 does not
	$(TEST) $(ARGS) -- $(PKG)

.PHONY: test-web
test-web: ## drive the page of examples/browser in headless Chromium, which it installs if need be
	@command -v chromium >/dev/null || ( set -x; $(AS_ROOT) apt-get update && \
		$(AS_ROOT) env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends chromium )
	cd examples/browser/webtest && go test -count=1 -v -timeout=10m $(ARGS) .

.PHONY: allocs
allocs: ## run the tests that count allocations, which the race detector would spoil
	go test -count=1 -run=Alloc $$(grep -rl --include='*_test.go' '^func Test.*Alloc' . | xargs dirname | sort -u)

.PHONY: fuzz-smoke
fuzz-smoke: ## run every fuzz target for a few seconds
	go run ./internal/tools/fuzzsmoke -tags=$(TAGS) $(PKG)

# Seeds of a plain test are the first 250; these are others, unless FROM says which.
.PHONY: sim
sim: ## simulate histories of the protocol; SEEDS=, FROM=, SEED=0x… for one (MOVES=1: of moves, DRAINS=1: of drains), KEEP=1 to keep what fails
	go test -count=1 -v -timeout=60m -run='^Test(CreationKeeps.*|MovesKeep.*|DrainsKeep.*|OneSeed)$$' ./internal/sim \
		-args -seeds=$(SEEDS) -from=$(FROM) $(if $(SEED),-seed=$(SEED)) $(if $(filter 1,$(MOVES)),-moves) $(if $(filter 1,$(DRAINS)),-drains) $(if $(filter 1,$(KEEP)),-keep)

.PHONY: sim-faults
sim-faults: ## simulate a move with each fault before each step, and PAIRS=1 of them around its commit; EVERY=n plays one in n
	go test -count=1 -v -timeout=180m -run='^Test(ALinkThatIsHurt.*|EachFault.*$(if $(filter 1,$(PAIRS)),|TwoFaults.*))$$' ./internal/sim \
		-args -every=$(EVERY) $(if $(filter 1,$(PAIRS)),-pairs)

.PHONY: proctest
proctest: ## hurt processes, the Store and links at every step of moves and drains; ARGS='-run …'
	ZLNODE_PROCTEST=all $(TEST) -v -timeout=120m -parallel=4 $(ARGS) -- ./internal/proctest # most of their time they wait

# As root: it makes network namespaces, with a bridge between them.
.PHONY: test-net
test-net: ## hurt the network between hosts of a cluster; needs root, and installs nftables and iproute2 if need be
	@command -v nft tc ip >/dev/null || ( set -x; $(AS_ROOT) apt-get update && \
		$(AS_ROOT) env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends nftables iproute2 )
	go test -c $(RACING) -tags=$(TAGS) -o bin/nettest ./internal/proctest
	cd internal/proctest && $(AS_ROOT) env ZLNODE_NETTEST=1 ../../bin/nettest -test.v -test.timeout=15m -test.run='$(or $(NET),^TestOnHosts)'

.PHONY: sim-mutants
sim-mutants: ## show that the simulator finds defects; SEEDS= for each
	go test -count=1 -v -timeout=60m -run='^TestMutants$$' ./internal/sim -args -mutants=$(SEEDS)

.PHONY: build
build: ## compile everything; commands go to bin/
	go build ./...
	$(if $(wildcard cmd/*/*.go),go build -o bin/ ./cmd/...)
	PEERS='zlnode mailbox' bench/peers/run build

.PHONY: bench
bench: ## run benchmarks; PKG=, BENCH=, COUNT=
	go test -run='^$$' -bench='$(BENCH)' -count=$(COUNT) $(ARGS) $(PKG)

.PHONY: bench-peers
bench-peers: ## compare with other libraries; MODE=, SIZE=, SECONDS_PER_RUN=, PEERS=
	MODE='$(MODE)' SIZE='$(SIZE)' SECONDS_PER_RUN='$(SECONDS_PER_RUN)' PEERS='$(PEERS)' bench/peers/run

.PHONY: cover
cover: ## run tests and write cover.html
	$(TEST) -coverpkg=./... -coverprofile=cover.out $(ARGS) -- $(PKG)
	go tool cover -html=cover.out -o cover.html
	go tool cover -func=cover.out | tail -n 1

# In order, what fails fast first; each step says its name and its time.
.PHONY: ci
ci: ## all that a change must pass
	@set -e; for step in fmt-check vet lint build test allocs sim fuzz-smoke; do \
		start=$$(date +%s); echo "== $$step"; \
		$(MAKE) --no-print-directory $$step RACE=1; \
		echo "== $$step: $$(( $$(date +%s) - start )) s"; \
	done
