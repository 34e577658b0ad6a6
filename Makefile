# CI calls only these targets; `make ci` is all of it.

# The environment may say GOTOOLCHAIN=local, which ignores go.mod's toolchain line.
export GOTOOLCHAIN := go1.27.3

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
FUZZTIME ?= 10s
# Of go test, in test, race and e2e: -v, -count=1, -run ...
TESTFLAGS ?=

TOOL    = $(GO) tool -modfile=internal/tools/go.mod
MODULES = . internal/tools internal/e2e/openaigo internal/e2e/collector deploy/check
# The packages whose expected files a test writes anew.
GOLDEN  = $(shell grep -rl --include='*_test.go' '"update", false' cmd internal | xargs -n 1 dirname | sort -u | sed 's|^|./|')

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  %-13s %s\n", $$1, $$2 }'

.PHONY: build
build: ## bin/gateway, a static binary
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/gateway ./cmd/gateway

# What a release has a binary for. It is tested on the one that CI runs on, and built for the others.
PLATFORMS = linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64

.PHONY: cross
cross: ## the static binary for PLATFORMS, as bin/gateway-SYSTEM-PROCESSOR
	@for target in $(PLATFORMS); do \
		system=$${target%/*} arch=$${target#*/} out=bin/gateway-$${target%/*}-$${target#*/}; \
		if [ $$system = windows ]; then out=$$out.exe; fi; \
		echo "$$out"; \
		GOOS=$$system GOARCH=$$arch CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o $$out ./cmd/gateway || exit 1; \
	done

RELEASE = $(GO) -C internal/tools run ./release -root ../.. -version '$(VERSION)' -platforms '$(PLATFORMS)'

.PHONY: release
release: ## dist: archives for PLATFORMS, SBOM and checksums, of a clean tree, as VERSION (the tag): see docs/release.md
	@$(RELEASE) -check
	@GOFLAGS=-buildvcs=true GOEXPERIMENT= GOAMD64=v1 GOARM64=v8.0 $(MAKE) --no-print-directory cross
	@$(RELEASE)

.PHONY: test
test: ## all tests but the end-to-end ones
	$(GO) test $(TESTFLAGS) ./...

.PHONY: race
race: ## the same with the race detector
	$(GO) test -race $(TESTFLAGS) ./...

.PHONY: lint
lint: ## golangci-lint of every module, see .golangci.yml; the first time it takes two minutes to build it
	$(TOOL) golangci-lint run ./...
	@for module in $(filter-out .,$(MODULES)); do \
		echo "in $$module"; (cd $$module && $(GO) tool -modfile=$(CURDIR)/internal/tools/go.mod golangci-lint run ./...) || exit 1; \
	done

.PHONY: fmt
fmt: ## format the Go files as lint wants them
	$(TOOL) golangci-lint fmt

.PHONY: fuzz
fuzz: ## each fuzz target for FUZZTIME (10s)
	GO=$(GO) .ci/fuzz $(FUZZTIME)

.PHONY: bench
bench: ## the benchmarks; compare two outputs with: go tool -modfile=internal/tools/go.mod benchstat
	$(GO) test -run '^$$' -bench . -benchmem ./...

# Of make compare: where the harness is, how often and for how long each target runs, which rows (as a,d16,start), and
# whether the table goes into docs/performance.md.
BENCH  ?= ../shared/bench
ROUNDS ?= 5
DUR    ?= 2s
ONLY   ?=
UPDATE ?=

.PHONY: compare
compare: ## the gateway beside a bare proxy and a bare loop, as ratios, pass or short; ROUNDS, DUR, ONLY, UPDATE=1
	$(GO) run ./internal/compare -bench '$(BENCH)' -rounds '$(ROUNDS)' -dur '$(DUR)' -only '$(ONLY)' -version '$(VERSION)' $(if $(UPDATE),-update docs/performance.md)

.PHONY: golden
golden: ## rewrite the expected parts of golden files; read the diff
	$(GO) test -count=1 $(GOLDEN) -update

.PHONY: tidy
tidy: ## go mod tidy in every module
	for module in $(MODULES); do $(GO) -C $$module mod tidy || exit 1; done

.PHONY: unchanged
unchanged: ## fmt, tidy and golden leave no diff
	.ci/unchanged $(MAKE) fmt tidy golden

.PHONY: e2e-setup
e2e-setup: ## install the SDKs that e2e drives into .cache
	internal/e2e/setup.sh

.PHONY: e2e
e2e: e2e-setup ## the built binary against real SDKs and services
	$(GO) test -tags e2e -count=1 -timeout 20m $(TESTFLAGS) ./internal/e2e/... ./internal/tool/mcptool

# The runs of make soak.
SOAK_RUNS ?= 100000

.PHONY: soak
soak: build ## SOAK_RUNS (100,000) runs of the built binary under faults; prints figures
	SOAK_RUNS=$(SOAK_RUNS) TOOLGATE_E2E_BINARY=$(CURDIR)/bin/gateway $(GO) test -tags e2e -run '^TestSoak$$' -count=1 -timeout 2h -v ./internal/e2e

.PHONY: real-model
real-model: ## the built binary with a small model that runs here; the first time it takes half an hour to install
	internal/e2e/model-setup.sh
	$(GO) test -tags 'e2e realmodel' -run TestRealModel -count=1 -timeout 30m $(TESTFLAGS) ./internal/e2e

# The data is as old as the version of golang.org/x/vulndb in internal/tools/go.mod, so that a commit's verdict stays.
# To take today's: go -C internal/tools get golang.org/x/vulndb@latest
.PHONY: vuln
vuln: ## govulncheck, without asking its server
	$(TOOL) govulncheck -db "file://$$(GO=$(GO) .ci/vulndb)" ./...

.PHONY: cases
cases: build ## the cases of ../shared against bin/gateway; .ci/cases-not-yet.txt lists those that may fail
	GO=$(GO) .ci/cases bin/gateway

# Sets builder to what builds images here.
BUILDER = builder=; for b in docker podman buildah; do if $$b info >/dev/null 2>&1; then builder=$$b; break; fi; done; \
	if [ -z "$$builder" ]; then echo "no image was built: none of docker, podman and buildah works here" >&2; exit 1; fi

.PHONY: image
image: build ## the container image of bin/gateway for this architecture, with docker, podman or buildah
	@$(BUILDER); \
	arch=$$($(GO) env GOARCH) && cp bin/gateway bin/gateway-linux-$$arch && \
	$$builder build -f deploy/release.Dockerfile --build-arg TARGETARCH=$$arch -t toolgate:'$(VERSION)' .

.PHONY: release-image
release-image: ## the images of the linux binaries in dist, as toolgate:VERSION-PROCESSOR, after make release
	@$(BUILDER); \
	for target in $(filter linux/%,$(PLATFORMS)); do \
		arch=$${target#*/} name=toolgate-$(VERSION)-linux-$${target#*/}; \
		tar -xzOf dist/$$name.tar.gz $$name/gateway >bin/gateway-linux-$$arch && chmod 755 bin/gateway-linux-$$arch && \
		$$builder build --platform linux/$$arch -f deploy/release.Dockerfile --build-arg TARGETARCH=$$arch -t toolgate:'$(VERSION)'-$$arch . || exit 1; \
	done

.PHONY: deploy-check
deploy-check: build ## Kubernetes, Compose, systemd and an image builder take what is in deploy, and a gateway comes up from it
	internal/e2e/setup.sh kubernetes
	$(GO) -C internal/tools test -count=1 $(TESTFLAGS) ./release
	$(GO) -C deploy/check test -count=1 $(TESTFLAGS) ./...

.PHONY: openapi-check
openapi-check: ## openapi.yaml is a good description; the tests hold it against what is served
	internal/e2e/setup.sh openapi
	REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true .cache/e2e/openapi/node_modules/.bin/redocly lint openapi.yaml

.PHONY: check
check: lint test ## before a change is sent: lint and all tests but the end-to-end ones, in some minutes
	$(GO) vet -tags e2e ./...

.PHONY: ci
ci: ## all that CI runs, in half an hour; installs what it needs with apt where something is missing
	.ci/run
