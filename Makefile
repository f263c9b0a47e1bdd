# make test is what CI runs. Tools are pinned here and built into ./bin on demand;
# they are not dependencies of the module.

STATICCHECK   := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOLANGCI_LINT := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GOVULNCHECK   := golang.org/x/vuln/cmd/govulncheck@v1.9.0
HELM          := helm.sh/helm/v3/cmd/helm@v3.22.0
PROMTOOL      := github.com/prometheus/prometheus/cmd/promtool@v0.316.0
GORELEASER    := github.com/goreleaser/goreleaser/v2@v2.15.4
CYCLONEDX     := github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
VERSITYGW     := github.com/versity/versitygw/cmd/versitygw@v1.8.0
MINIO         := github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c

GO       ?= go
BIN      := $(CURDIR)/bin
CHECKS   := $(BIN)/$(subst /,_,$(lastword $(subst /cmd/, ,$(STATICCHECK))))
LINTER   := $(BIN)/$(subst /,_,$(lastword $(subst /cmd/, ,$(GOLANGCI_LINT))))
VULN     := $(BIN)/$(subst /,_,$(lastword $(subst /cmd/, ,$(GOVULNCHECK))))
CHARTS   := $(BIN)/$(subst /,_,$(lastword $(subst /cmd/, ,$(HELM))))
RULES    := $(BIN)/$(subst /,_,$(lastword $(subst /cmd/, ,$(PROMTOOL))))
RELEASER := $(BIN)/$(notdir $(subst /v2@,@,$(GORELEASER)))
BOM      := $(BIN)/$(subst /,_,$(lastword $(subst /cmd/, ,$(CYCLONEDX))))
GATEWAY  := $(BIN)/$(subst /,_,$(lastword $(subst /cmd/, ,$(VERSITYGW))))
DRIVE    := $(BIN)/$(notdir $(MINIO))
CLIENTS  := test/clients/node_modules/.package-lock.json
CONSOLE  := console/node_modules/.package-lock.json
INTEROP   := test/interop/node_modules/.package-lock.json
ENGINE   := test/engine/node_modules/.package-lock.json
SCHEDULES ?= 20000
LOGSCHEDULES ?= 100000
CYCLES    ?= 200
CRASHES   ?= 500
CORRUPTIONS ?= 1000
EVENTS    ?= 1000000
FUZZTIME ?= 1m
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null)
# The engine is not installed if a ClickHouse server is configured.
ENGINE_IF_NEEDED := $(if $(PARLEY_TEST_CLICKHOUSE)$(shell command -v clickhouse),,engine)
# The longest packages start first, so that no processor is idle at the end.
LONGEST_VOLUMES := ./internal/clusterrun ./actors ./internal/attackrun ./test/clients ./storage/storagetest ./cmd/parley ./internal/eventsrun
LONGEST  := ./actors ./internal/cli/operator ./internal/clusterrun ./cmd/parley ./internal/eventsrun ./test/clients ./internal/cli/server ./internal/attackrun ./observability/clickhouse ./cmd/parley-bench ./internal/killrun ./storage ./storage/storagetest
# Packages tested at a time. Process tests mostly wait: with two a processor stays idle.
AT_ONCE  ?= 3

# Tests have more memory than processors. Tests of memory use reset GOGC.
test quick volumes mutants race: export GOGC ?= 400
# Debug information costs half of the linker's time and an eighth of the compiler's. vet runs separately.
# With -trimpath all clones and worktrees share compiled packages.
test quick volumes mutants race soak: export GOFLAGS += -ldflags=-s -gcflags=all=-dwarf=false -vet=off -trimpath
# The only C code of the module is a compression that no store uses.
test quick volumes mutants race soak: export CGO_CFLAGS ?= -O0

.DEFAULT_GOAL := help
.PHONY: help test ready quick needs format vet staticcheck tidy arch mutants volumes servers clients console page engine interop race lint soak bench generate vuln build clean race-unbuffered compiled fetched deploy-check image sbom

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The volumes and the mutants run concurrently with the race run, whose output is not buffered. Theirs
# is printed when they end. Together they keep two processors busy.
test: needs ## Run every check and every test, as CI does
	@$(MAKE) --no-print-directory --jobs=3 --output-sync=target ready
	@$(MAKE) --no-print-directory --jobs=3 --output-sync=target race-unbuffered volumes mutants

race-unbuffered:
	@$(MAKE) --no-print-directory --output-sync=none race

# Cheap checks, concurrently with downloads and builds.
ready: clients console $(ENGINE_IF_NEEDED) format tidy fetched compiled

# Downloads the modules of MinIO while the other server compiles. A failure is repeated and reported there.
fetched:
	@test -e $(DRIVE) || $(GO) install -n $(SPARED) $(MINIO) >/dev/null 2>&1 || true

# A compiler uses all processors, and concurrent builds would compile shared packages twice.
compiled:
	@$(MAKE) --no-print-directory --output-sync=none servers
	@$(MAKE) --no-print-directory --output-sync=none vet
	@$(MAKE) --no-print-directory --output-sync=none staticcheck

quick: needs servers clients console $(ENGINE_IF_NEEDED) ## Run the tests of the packages that depend on what changed, see CONTRIBUTING.md
	@scripts/quick.sh "$(GO)"

needs: ## List missing programs of this machine, and the remedies
	@scripts/needs.sh "$(GO)"

format: ## Check the formatting of Go files
	@echo 'gofmt -l .'
	@files=$$(gofmt -l .) && if [ -n "$$files" ]; then echo "gofmt would change these files, run gofmt -w on them:"; echo "$$files"; exit 1; fi

vet: ## Run go vet
	$(GO) vet ./...
	@for tag in mutants nextversion attack noconsole; do \
		echo "$(GO) vet -tags $$tag"; $(GO) vet -tags $$tag $$(scripts/tagged.sh $$tag) || exit 1; \
	done

staticcheck: $(CHECKS) ## Run the pinned staticcheck
	$(CHECKS) ./...

tidy: ## Check go.mod and go.sum
	$(GO) mod tidy -diff

arch: ## Check layers, sizes, package comments and pages
	$(GO) test .

mutants: ## Run the suites of the log with disabled rules: they must fail
	$(GO) test -tags mutants -run 'TestMutant' $$(scripts/tagged.sh mutants _test.go)

volumes: ## Run the tests that are sampled under the race detector at full volume, without it
	@echo "$(GO) test of the volumes"
	@volumes=$$($(GO) run ./internal/sample/volumes $(LONGEST_VOLUMES)) && $(GO) test -p 2 $$volumes

servers: $(GATEWAY) $(DRIVE) ## Build the servers that tests run against

clients: $(CLIENTS) ## Install the packages of the client suite, as its lock file pins them

console: $(CONSOLE) ## Install the packages that the console is built and tested with, as its lock file pins them

page: console ## Build the console of its sources; the build is committed
	cd console && npm run --silent check && npm run --silent build

engine: $(ENGINE) ## Install the ClickHouse engine that tests run, as its lock file pins it

# Each test program uses one processor, its child processes do not. In a bubble of testing/synctest
# two goroutines that read due timers concurrently share a state of the detector, which then ends with the message
# "CHECK failed" or by a signal (golang/go issue 78156). The detector finds races by order, not by time.
race: servers clients console $(ENGINE_IF_NEEDED) ## Run all tests under the race detector
	@$(GO) list -race -export ./... >/dev/null # Tests that build programs would otherwise compile it again.
	@GORACE=atexit_sleep_ms=0 scripts/suite.sh $(GO) test -race -cpu 1 -p $(AT_ONCE) -timeout 30m $(LONGEST) ./...

# A separate module, so that its dependencies are not those of parley.
interop: $(INTEROP) ## Compare requests and replies with the vendors' SDKs and pi-ai, and numbers with lossless-json, see docs/interoperability.md
	$(GO) -C test/interop vet ./...
	$(GO) -C test/interop test -count=1 ./...

# A separate module, too. Only the check of the large releaser runs.
deploy-check: $(CHARTS) $(RULES) $(RELEASER) ## Check the chart, the manifests, the images' build steps, the alert rules and the file of releases by helm, the types of Kubernetes, promtool and goreleaser; the first run compiles these tools for some minutes
	$(CHARTS) lint --strict deploy/helm/parley
	$(RULES) check rules deploy/prometheus/alerts.yaml
	$(RULES) test rules test/deploy/testdata/alerts_test.yaml
	$(GO) -C test/deploy vet ./...
	PARLEY_TEST_HELM=$(CHARTS) $(GO) -C test/deploy test -count=1 ./...
	$(RELEASER) check

image: ## Build the image parley:VERSION, whose nodes report that version; needs docker
	docker build -f deploy/Dockerfile --build-arg VERSION="$(VERSION)" -t "parley:$(VERSION)" .

sbom: build $(BOM) ## Write the bill of materials of ./bin/parley in CycloneDX: bin/parley.cdx.json
	$(BOM) bin -json -licenses -std -output $(BIN)/parley.cdx.json $(BIN)/parley

build: ## Build the programs into ./bin
	$(GO) build -o $(BIN)/ ./cmd/parley ./cmd/parley-bench

lint: $(LINTER) ## Run golangci-lint with .golangci.yml
	$(LINTER) run ./...

soak: needs servers engine console $(INTEROP) ## Run the large volumes: schedules, kills, attacks, events, crashes, corruptions and fuzzing. It first prints the expected duration; SCHEDULES, LOGSCHEDULES, CYCLES, EVENTS, CRASHES, CORRUPTIONS and FUZZTIME (minutes) set the amounts
	@SCHEDULES=$(SCHEDULES) LOGSCHEDULES=$(LOGSCHEDULES) CYCLES=$(CYCLES) EVENTS=$(EVENTS) CRASHES=$(CRASHES) CORRUPTIONS=$(CORRUPTIONS) FUZZTIME=$(FUZZTIME) scripts/soak.sh "$(GO)"

bench: engine ## Run the benchmarks
	$(GO) test -run '^$$' -bench . -benchmem ./...

generate: ## Regenerate code; needs protoc 3.21
	@command -v protoc >/dev/null || { echo 'protoc is missing: apt-get install protobuf-compiler'; exit 1; }
	GOBIN=$(BIN) $(GO) install google.golang.org/protobuf/cmd/protoc-gen-go
	PATH="$(BIN):$$PATH" $(GO) generate ./...

vuln: $(VULN) ## Look for known vulnerabilities; needs the network
	$(VULN) ./...

clean: ## Remove all build outputs
	rm -rf $(BIN) console/node_modules test/clients/node_modules test/engine/node_modules test/interop/node_modules

# A tool's file carries its version, so that a new pin is built and an old one is not run.
define install
	@mkdir -p $(BIN)
	GOBIN=$(BIN) $(GO) install $(1)
	@mv $(BIN)/$(firstword $(subst @, ,$(notdir $@))) $@
endef

$(CHECKS):
	$(call install,$(STATICCHECK))

$(LINTER):
	$(call install,$(GOLANGCI_LINT))

$(VULN):
	$(call install,$(GOVULNCHECK))

$(CHARTS):
	$(call install,$(HELM))

# Without service discovery, which would compile the clients of all clouds.
$(RULES):
	$(call install,-tags=remove_all_sd $(PROMTOOL))

$(RELEASER):
	$(call install,-gcflags=all=-dwarf=false -ldflags='-s -w' $(GORELEASER))

$(BOM):
	$(call install,$(CYCLONEDX))

# Optimization takes most of the compile time of these two. MinIO serves a small load, and versitygw
# never uses its clients of other stores and queues. The standard library is built as
# for all other programs. The tag omits the gRPC modules of Google's client,
# a tenth of the code that MinIO compiles.
SLOW := -N -l -dwarf=false
SPARED := -tags=disable_grpc_modules
IDLE := github.com/aws/aws-sdk-go-v2/service github.com/Azure github.com/AzureAD github.com/segmentio github.com/hashicorp github.com/nats-io github.com/rabbitmq github.com/go-ldap

$(GATEWAY):
	$(call install,-gcflags=all=-dwarf=false $(foreach p,$(IDLE),-gcflags='$(p)/...=$(SLOW)') -ldflags='-s -w' $(VERSITYGW))

$(DRIVE): | $(GATEWAY)
	$(call install,$(SPARED) -gcflags='all=$(SLOW)' -gcflags=std=-dwarf=false -ldflags='-s -w' $(MINIO))

# npm writes the file before it has finished, so its time is unreliable.
$(CLIENTS): test/clients/package.json test/clients/package-lock.json test/clients/.npmrc
	cd test/clients && npm ci --no-progress
	@touch $@

$(CONSOLE): console/package.json console/package-lock.json console/.npmrc
	cd console && npm ci --no-progress
	@touch $@

$(INTEROP): test/interop/package.json test/interop/package-lock.json test/interop/.npmrc
	cd test/interop && npm ci --no-progress
	@touch $@

$(ENGINE): test/engine/package.json test/engine/package-lock.json test/engine/.npmrc
	cd test/engine && npm ci --no-progress
	@touch $@
