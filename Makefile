# One command does the main job, one passes the tests. Both set up what they need.

GO ?= go
# Waybill has no C. The program, its tools and the tests without the race detector, which needs cgo, share one set of compiled packages.
export CGO_ENABLED = 0
# Without the folder's name in it, what one clone has compiled serves the next one, too.
export GOFLAGS := $(strip -trimpath $(filter-out -trimpath,$(GOFLAGS)))

.PHONY: help build demo demo-broker demo-eventflow demo-promotion check test slow measures soak fuzz worlds edges former mutate simulate flows hosts stories e2e lint generate bench setup clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: bin/waybill ## build bin/waybill

bin/waybill: FORCE
	@$(GO) build -o $@ ./cmd/waybill
	@echo "built $@: $$($@ version)"

demo: bin/waybill ## build Waybill and ship examples/hello to four local hosts
	@scripts/demo

demo-broker: bin/waybill ## provision, change and delete service instances, which are folders, by the Open Service Broker API
	@scripts/demo-broker

demo-eventflow: bin/waybill ## an event flow with Knative's own programs, from a Channel to an action; the first run takes a quarter of an hour
	@scripts/demo-eventflow

demo-promotion: bin/waybill ## promote a version through three local clusters with Flux and a Git host; the first run takes a quarter of an hour
	@scripts/demo-promotion

# The tests here need neither root nor a service; those that do have the build tag services, and make test runs them too. Tests
# of processes mostly wait, so more of them run at a time than there are processors.
check: lint ## vet, lint, and every test that needs no service but the stories; about two minutes
	$(GO) test -timeout 60m -parallel 4 -skip '^TestStories$$' ./...

setup: ## install what the tests need (Debian, root), or say what is missing
	@scripts/setup

mutate: ## each rule of the pipeline engine, and each property of promotions, broken in turn; some test must fail; about an hour
	$(GO) run ./test/mutation

test: setup ## every test, with the race detector where there are goroutines, on real SQLite and PostgreSQL
	@scripts/test

slow: setup ## make test, and the 30 tests that took the longest
	@scripts/test -json | $(GO) run ./test/slow

measures: ## figures of the source: loops between files, lines, widths; one with ONE=lines, what was counted with LIST=1
	@$(GO) run ./test/measures $(if $(ONE),-measure $(ONE)) $(if $(LIST),-list)

# The parts of make soak run alone, too: make fuzz ROUNDS=10. make test has a sample of each, of less than a minute.
FIRST := $(or $(FIRST),$(shell date +%s))
soak: ## the long search, an hour: random programs, worlds, simulations and flows from the seed FIRST on, fuzz targets, odd repositories, many hosts, stories
	@echo "soak: seeds from FIRST=$(FIRST)"
	@$(MAKE) FIRST=$(FIRST) fuzz worlds former simulate flows edges hosts stories

# Each round is 100 random programs of the pipeline engine: definitions, actions that end or fail, retries, edits, crashes. What it
# decides and explains is compared after every row with the rules computed word by word. A program that fails prints its seed.
ROUNDS ?= 1000
fuzz:
	$(GO) test ./internal/pipeline -run 'Follows?TheDefinitions' -rounds $(ROUNDS) -failfast -timeout 0

# Every order of what may happen in each small world of the model checker; make test leaves out the largest eight.
worlds:
	$(GO) test ./internal/pipeline -run EveryInterleaving -every -failfast -timeout 0

# The engine of an earlier commit is taken from the history and built beside today's. Random programs play both and compare what they
# decide, explain and refuse, after every row. A program that finds a difference prints how to run it alone.
PROGRAMS ?= 10000
former:
	$(GO) run ./test/former -first $(FIRST) -programs $(PROGRAMS)

# Each seed is four control planes in virtual time, with faults that the seed decides, and a clock of the database that jumps: a pipeline
# that nobody edits; one that is edited, retried and held meanwhile; one in which a revision is rolled back; and one with rollbacks,
# catch-ups, approvals and freezes at random moments. A seed that fails prints how to run it alone.
SEEDS ?= 500
simulate:
	$(GO) test ./test/simulation -first $(FIRST) -seeds $(SEEDS) -timeout 0

# Random runs of EventFlows: flows come and go, are suspended and lose their grants, processes are killed, requests fail or lose their
# answers, events come late, people change shared objects. And users of shared objects by themselves. make test has 100 runs of each. A run
# that fails is shrunk, and prints how to run it again.
FLOWS ?= 4000
flows:
	$(GO) test ./internal/flow/controller -run EveryInterleaving -rapid.checks=$(FLOWS) -timeout 0
	$(GO) test ./internal/kube/claim -run UsersComeAndGo -rapid.checks=$(FLOWS) -timeout 0

# Names in archives, known hosts, keys and certificates, files of every format, each for FUZZTIME, and layouts of Git repositories.
FUZZTIME ?= 1m
edges:
	@FUZZTIME=$(FUZZTIME) scripts/edges

# Two hundred hosts at the same time, and every test of the host program under each shell and over each way to a host; make test runs each
# under one of these.
hosts: setup
	GORACE=atexit_sleep_ms=0 $(GO) test -race -tags services ./internal/conductor/handler/step -hosts 200 -every -count 1 -timeout 0

# make test runs the stories with a program without the race detector.
stories: setup
	CGO_ENABLED=1 $(GO) build -race -o bin/waybill-race ./cmd/waybill
	GORACE=atexit_sleep_ms=0 WAYBILL_TEST_PROGRAM=$(CURDIR)/bin/waybill-race $(GO) test -tags services ./internal/cli -count 1 -timeout 0

e2e: setup ## stories against a real Kubernetes API server, Argo and S3, built once and cached
	@scripts/e2e

lint: ## vet, and golangci-lint, pinned in tools/go.mod
	$(GO) vet ./...
	$(GO) vet -tags services ./...
	$(GO) tool -modfile=tools/go.mod golangci-lint run ./...

generate: ## the Go code of api/**/*.proto and the resource definitions of api/kube; buf, its plugins and controller-gen are pinned in tools
	$(GO) tool -modfile=tools/generate.mod buf generate
	@for dir in api/kube/v1alpha1 api/kube/gitops/v1alpha1 api/kube/flow/v1alpha1; do \
	  $(GO) tool -modfile=tools/crd.mod controller-gen crd paths=./$$dir output:crd:dir=$$dir || exit 1; \
	done
	cp api/kube/flow/v1alpha1/flow.waybill.dev_eventflows.yaml config/flow/crd.yaml

bench: setup ## every figure of docs/performance.md
	@scripts/bench

clean: ## remove what the build and the demo left, and end the demo's services
	@scripts/demo stop
	@rm -rf bin examples/hello/.waybill

FORCE:
