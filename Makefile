# vmop: virtual machines from Starlark types, stand-alone and in Kubernetes.
# "make help" lists the targets; a text behind two hashes is what it prints.

VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
PROGRAMS := $(notdir $(wildcard cmd/*))
TOOL     := go tool -modfile=tools/go.mod
GOFUMPT  := $(TOOL) gofumpt
FUZZTIME ?= 30s
SOAKTIME ?= 20m
TIMEOUT  ?= 40m
CONFIG   ?= examples/standalone/config.yaml

# Where nobody sits at a terminal, the machine is told to power off when the
# guest has reported.
UNATTENDED = $(shell test -t 0 || echo "--poweroff-on 'TINY .* READY'")

.PHONY: cluster-up cluster-load cluster-down e2e images help build run test check bench bench-scale fuzz faults soak generate format clean packages-run packages-test guest

help: ## Show this list.
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Build the programs into bin/.
	@mkdir -p bin
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/ $(PROGRAMS:%=./cmd/%)

run: packages-run build guest ## Boot a small Linux guest and show its console (Ctrl-C asks it to power off).
	bin/vmrunner run -c $(CONFIG) --console $(UNATTENDED)

test: packages-test check ## Install what tests need, check, and run all tests against the real QEMU.
	go run ./test/report -timeout=$(TIMEOUT) ./...

check: ## Check formatting, vet, lint, and that generated files are current.
	@unformatted=$$($(GOFUMPT) -l .); test -z "$$unformatted" || { echo "make format would change:"; echo "$$unformatted"; exit 1; }
	go vet ./...
	$(TOOL) staticcheck ./...
	go run ./third_party -check

bench: packages-test build ## Run the benchmarks, then the comparison with other tools.
	go test -run '^$$' -bench . -benchmem ./...
	@mkdir -p build
	go run ./test/bench -json build/bench.json

bench-scale: packages-test build ## Measure the manager with up to 5000 VMs on a real API server; half an hour.
	@mkdir -p build
	go run ./test/scale -json build/scale.json

fuzz: ## Run every fuzz test for a while (FUZZTIME=30s each).
	@for target in $$(grep -roE '^func Fuzz[A-Za-z0-9_]*' --include='*_test.go' . | sed 's,/[^/]*:func ,:,'); do \
		echo "fuzz $$target"; \
		go test -run '^$$' -fuzz "^$${target#*:}$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x "$${target%:*}" || exit 1; \
	done

faults: packages-test ## Run the fault matrix: everything that may go wrong with a VM.
	VMOP_EVENTS=1000000 go run ./test/faults -timeout=$(TIMEOUT)

soak: packages-test ## Let a VM live for SOAKTIME=20m, taking random steps (SEED=n takes the same again).
	SOAKTIME=$(SOAKTIME) SEED=$(SEED) go test -count=1 -v -timeout 0 -run '^TestSoak$$' ./test/soak

e2e: packages-test ## Run VMs on a real Kubernetes, and cut its power.
	go test -count=1 -timeout $(TIMEOUT) ./test/e2e

generate: ## Make the generated files anew.
	go generate ./...

images: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
images: ## Build the container images into build/images/, without a container engine.
	go run ./deploy/images -version $(VERSION) $(UPDATE)

cluster-load: ## Build the images, and put them into its nodes.
	@test -L build/cluster || { echo "no cluster runs; make cluster-up starts one"; exit 1; }
	@$(MAKE) --no-print-directory images VERSION=devel
	@go run ./test/cluster/clusterctl load build/images/runner.tar build/images/manager.tar

cluster-up: packages-test ## Start a Kubernetes on this machine (NODES=1); prints what to set. Minutes for the first time.
	@go run ./test/cluster/clusterctl -nodes $(or $(NODES),1) up

cluster-down: ## End it.
	@go run ./test/cluster/clusterctl down

format: ## Format Go and Starlark files.
	$(GOFUMPT) -w .
	git ls-files -co --exclude-standard '*.star' ':!vmtypes/compiled' ':!*testdata*' | xargs -r $(TOOL) buildifier -type=default

clean: ## Remove what was built.
	rm -rf bin build

guest:
	go run ./test/guest/tinyguest -o build/guest

packages-run packages-test:
	@scripts/install-packages $(@:packages-%=%)
