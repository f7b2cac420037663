SHELL := bash

# PKG narrows test, fuzz and cover: make test PKG=./internal/ledger
PKG ?= ./...
# FUZZTIME is how long each fuzz target runs.
FUZZTIME ?= 20s
# TEST_TIMEOUT ends a package that hangs.
TEST_TIMEOUT ?= 8m
# SECONDS is how long make torture breaks things, SEED what it draws from.
SECONDS ?= 60
SEED ?= 1
# WORLDS is how many seeded worlds make sim plays.
WORLDS ?= 10000
# SCENARIO is which outage make rehearsals plays, or all.
SCENARIO ?= all

.DEFAULT_GOAL := help

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The version in the binaries is the one Go reads from the checkout.
BUILD = CGO_ENABLED=0 go build -trimpath -buildvcs=auto -ldflags '-s -w'

.PHONY: build
build: ## build bin/worker and bin/enqueue, static
	$(BUILD) -o bin/ ./cmd/...

.PHONY: demo
demo: build ## watch operations being redelivered through a failing gateway (no Redis needed)
	bin/worker demo

# What runs without the race detector: much Lua in Go, many times slower under it; programs
# that are started and built without it; and what plays the parts together that have all
# been raced in tests of their own. The simulations play their whole short form so.
UNRACED = /internal/(sim/.*|ledger|budget|analysis|archtest|e2e|cli|rehearsal|outage|torture|fleet)$$|/deploy$$|/examples.*
# Those that take longest come first, so that the others run beside them. What is raced
# waits more than it computes: four tests of a package at once also on two cores.
LONGEST = /internal/(worker|e2e|ledger)$$
RACED_PARALLEL = 4

.PHONY: test
test: test-tools ## run every test, with the race detector where there is concurrency; a skipped test is a failure
	@set -e; packages=$$(go list $(PKG)); \
	packages=$$(grep -E '$(LONGEST)' <<<"$$packages" || true; grep -vE '$(LONGEST)' <<<"$$packages" || true); \
	unraced=$$(grep -E '$(UNRACED)' <<<"$$packages" || true); \
	raced=$$(grep -vE '$(UNRACED)' <<<"$$packages" || true); \
	if [ -n "$$unraced" ]; then go run ./scripts/gotest -timeout $(TEST_TIMEOUT) $$unraced; fi; \
	if [ -n "$$raced" ]; then go run ./scripts/gotest -race -parallel $(RACED_PARALLEL) -timeout $(TEST_TIMEOUT) $$raced; fi

.PHONY: test-tools
test-tools: ## install redis-server, prometheus, chromium, node and a C compiler through the package manager if missing
	@scripts/test-tools

.PHONY: lint
lint: ## gofmt, vet, staticcheck, tidy go.mod
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not formatted (run gofmt -w):"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	go tool staticcheck ./...
	go mod tidy -diff

.PHONY: bench
bench: test-tools ## measure speed and memory beside bare asynq on a real Redis, into out/benchmarks.md and .json
	@mkdir -p out
	go test -run '^$$' -bench . -benchtime 1x -timeout 30m ./internal/bench -report $(CURDIR)/out/benchmarks.md -report-json $(CURDIR)/out/benchmarks.json

.PHONY: torture
torture: test-tools ## kill, freeze and cut off real processes for SECONDS, and let the gateway's ledger judge, into out/torture.md
	@mkdir -p out
	go test -run '^TestTorture$$' -count 1 -v -timeout $$((2 * $(SECONDS) + 600))s ./internal/torture -seconds $(SECONDS) -seed $(SEED) -report $(CURDIR)/out/torture.md

# OUTAGE is how long make fleet has the gateway down.
OUTAGE ?= 60s
.PHONY: fleet
fleet: test-tools ## 20 services over sockets and 100 in a process against a gateway that is down for OUTAGE
	go test -count 1 -v -timeout 30m ./internal/fleet -outage $(OUTAGE)

.PHONY: sim
sim: ## every interleaving of the model, and seeded worlds over the real scripts
	REDRIVE_SIM=long REDRIVE_WORLDS=$(WORLDS) go test -count 1 -v -timeout 60m ./internal/sim/...

.PHONY: sim-report
sim-report: ## play the gate's outages in full and write tables and plots into docs/budget.md and docs/img
	@mkdir -p docs/img
	go test -count 1 -timeout 20m -run '^TestTheManualShowsWhatTheScenariosBring$$' ./internal/sim/gate -update

.PHONY: rehearsals
rehearsals: test-tools ## play the outage SCENARIO, or all, and write tables and figures into docs/rehearsals.md and docs/img
	@mkdir -p docs/img
	go test -count 1 -timeout 30m -run '^TestTheManualShowsEveryRehearsal$$' ./internal/outage -manual $(SCENARIO) -seed $(SEED)

.PHONY: dashboard
dashboard: ## write deploy/grafana/redrive.json anew from internal/dashboard
	go test -count 1 -run '^TestTheFileIsWhatBuildMakes$$' ./internal/dashboard -update

# The version of Stripe's own stand-in that the preset is tried on.
STRIPE_MOCK_VERSION = v0.203.0
.PHONY: stripe
stripe: test-tools ## try the preset stripe on Stripe's own stand-in server, which is fetched for it
	@mkdir -p out/tools
	GOBIN=$(CURDIR)/out/tools go install github.com/stripe/stripe-mock@$(STRIPE_MOCK_VERSION)
	STRIPE_MOCK=$(CURDIR)/out/tools/stripe-mock go test -tags stripemock -run '^TestAgainstStripeMock$$' -count 1 -v ./internal/e2e

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME each
	@set -e; pkgs=$$(go list $(PKG)); for pkg in $$pkgs; do \
		list=$$(go test -list '^Fuzz' $$pkg); \
		for target in $$(grep '^Fuzz' <<<"$$list" || true); do \
			echo "== $$pkg $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; \
	done

.PHONY: cover
cover: test-tools ## measure which statements the tests reach, into out/cover.html
	@mkdir -p out
	go test -timeout $(TEST_TIMEOUT) -coverpkg=./... -coverprofile=out/cover.out $(PKG)
	go tool cover -html=out/cover.out -o out/cover.html
	@go tool cover -func=out/cover.out | tail -1

.PHONY: cross
cross: ## check that it builds for macOS and Windows
	GOOS=darwin GOARCH=arm64 CGO_ENABLED=0 go build ./...
	GOOS=windows GOARCH=amd64 CGO_ENABLED=0 go build ./...

.PHONY: clean
clean: ## remove what was built
	rm -rf bin out
