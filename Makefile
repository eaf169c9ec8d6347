# vmop: virtual machines from Starlark types, stand-alone and in Kubernetes. "make help" lists the targets with texts
# after two hashes, "make long" the targets with texts after three.

VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
PROGRAMS := $(notdir $(wildcard cmd/*))
TOOL     := go tool -modfile=tools/go.mod
GOFUMPT  := $(TOOL) gofumpt
FUZZTIME ?= 30s
SOAKTIME ?= 20m
TIMEOUT  ?= 60m
CONFIG   ?= examples/standalone/config.yaml
PREFIX   ?= /usr/local
UNITDIR  ?= /etc/systemd/system
BIN      ?= bin
MAN      ?= build/man

# Without a terminal, the machine is powered off after the guest's report.
UNATTENDED = $(shell test -t 0 || echo "--poweroff-on 'TINY .* READY'")

# Packages without tests for make test. make test-all compiles and links them.
DEEP = $(addprefix ./,deploy/chart deploy/images deploy/packages deploy/sbom docs/site/write test/bench test/fuzz test/mutants \
	test/cluster test/scale test/soak test/spice test/web)

# Packages in which goroutines share memory; see docs/decisions/0162-race-detector.md. A few tests don't run under the
# race detector: it makes a flood of events too slow, and it maps more memory than some processes may use.
RACE   = ./internal/filewatch ./internal/childprocess ./qmp/... ./runner/... ./manager/...
NORACE = ^(TestFault13|TestTypeChecker|TestAHostileTypeMakesAStartFail|TestAKeptTypeIsNestedTooDeeply)

# All builds use the same flags, so that programs, images and tests share the go command's cache, in every clone. Debug
# information would take a sixth of the compile time. Only the race detector needs C.
export CGO_ENABLED = 0
export GOFLAGS = -trimpath -buildvcs=false -gcflags=all=-dwarf=false -ldflags=-s

# This saves a quarter of the compile time. It is for compilers only: tests of memory need the default.
COMPILE = GOGC=400

.PHONY: help build sbom man install run test test-all test-programs long race check bench bench-web bench-migration bench-scale pictures fuzz faults mutants soak \
	e2e generate alerts dashboards test-newer-qemu images base-image install-yaml docs chart release packages pack kills kills-migration moves powercut cluster-up cluster-load cluster-down format clean guest packages-run packages-cluster packages-test packages-race packages-test-all

help: ## Show this list.
	@awk -F ':.*[^#]## ' '/^[a-z0-9-]+:.*[^#]## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Build the programs into BIN=bin.
	@mkdir -p $(BIN)
	$(COMPILE) go build -ldflags '-s -X main.version=$(VERSION)' -o $(BIN)/ $(PROGRAMS:%=./cmd/%)

sbom: build # List the components of the programs, and of the images if they were built, into build/sbom (CycloneDX).
	go run ./deploy/sbom -version $(VERSION) $(PROGRAMS:%=bin/%) $(wildcard build/images/*.tar)

# The man pages of vmtype are those of vmrunner vmtype.
man: # Write man pages into MAN=build/man.
	@mkdir -p $(MAN)
	@for program in $(filter-out vmtype,$(PROGRAMS)); do \
		go run -tags man -ldflags '-X main.version=$(VERSION)' ./cmd/$$program man $(MAN) || exit 1; \
	done

install: build man ## Install programs, man pages, completion and the systemd units below PREFIX=/usr/local (DESTDIR=).
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(UNITDIR) \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions
	install -m 755 $(PROGRAMS:%=$(BIN)/%) cmd/kubectl-vmop/kubectl_complete-vmop $(DESTDIR)$(PREFIX)/bin/
	install -m 644 $(MAN)/*.1 $(DESTDIR)$(PREFIX)/share/man/man1/
	install -m 644 cmd/vmrunner/systemd/vmrunner@.service cmd/vmmanager/systemd/vmmanager-local.service \
		$(DESTDIR)$(UNITDIR)/
	install -D -m 644 cmd/vmrunner/systemd/network.conf $(DESTDIR)$(PREFIX)/share/vmop/network.conf
	install -D -m 644 deploy/apparmor/vmrunner $(DESTDIR)$(PREFIX)/share/vmop/apparmor
	install -D -m 644 deploy/apparmor/load $(DESTDIR)$(PREFIX)/share/vmop/load-apparmor
	[ -n "$(DESTDIR)" ] || sh $(PREFIX)/share/vmop/load-apparmor
	for program in vmrunner vmmanager vmimport kubectl-vmop; do \
		$(BIN)/$$program completion bash >$(DESTDIR)$(PREFIX)/share/bash-completion/completions/$$program || exit 1; \
	done

# For a commit without a tag, the package version contains the commit's time, so that later packages are newer.
PACKAGE_VERSION ?= $(shell echo "$(VERSION)" | grep -qE '^v?[0-9]+\.[0-9]' && echo "$(VERSION)" | sed 's/^v//; s/-/+/g' || \
	git log -1 --format=0~%cd.%h --date=format:%Y%m%d%H%M 2>/dev/null || echo 0~unknown)
PACKAGES ?= build/packages
KINDS    ?= deb rpm apk

packages: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
packages: ## Build the Debian, RPM and Alpine packages into PACKAGES=build/packages.
	rm -rf $(PACKAGES)/staging
	$(MAKE) --no-print-directory install DESTDIR=$(PACKAGES)/staging PREFIX=/usr UNITDIR=/usr/lib/systemd/system
	install -d $(PACKAGES)/staging/usr/share/doc/vmop $(PACKAGES)/staging/usr/share/lintian/overrides
	install -m 644 deploy/packages/copyright deploy/third_party/NOTICES.txt CHANGELOG.md $(PACKAGES)/staging/usr/share/doc/vmop/
	install -m 644 deploy/packages/lintian-overrides $(PACKAGES)/staging/usr/share/lintian/overrides/vmop
	printf 'vmop (%s) unstable; urgency=medium\n\n  * CHANGELOG.md.gz beside this file says what is new.\n\n -- %s  %s\n' \
		'$(PACKAGE_VERSION)' 'The vmop authors <maintainers@vmop.invalid>' "$$(date -u -R -d @$$SOURCE_DATE_EPOCH)" \
		>$(PACKAGES)/staging/usr/share/doc/vmop/changelog
	gzip -9n $(PACKAGES)/staging/usr/share/man/man1/*.1 $(PACKAGES)/staging/usr/share/doc/vmop/changelog \
		$(PACKAGES)/staging/usr/share/doc/vmop/CHANGELOG.md
	cd $(PACKAGES)/staging/usr/share/man/man1 && ln -s vmrunner-vmtype.1.gz vmtype.1.gz && \
		ln -s kubectl-vmop.1.gz kubectl_complete-vmop.1.gz
	@$(MAKE) --no-print-directory pack

pack: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
pack: # Alpine's has the times of files. Those of sources stay: by them go knows what it has tested.
	@mkdir -p $(PACKAGES)/recipe
	@cp deploy/packages/postinstall deploy/packages/preremove $(PACKAGES)/recipe/
	@sed 's|deploy/packages/|$(PACKAGES)/recipe/|' deploy/packages/nfpm.yaml >$(PACKAGES)/recipe/nfpm.yaml
	@find $(PACKAGES)/staging $(PACKAGES)/recipe -exec touch -h -d @$$SOURCE_DATE_EPOCH {} +
	@for kind in $(KINDS); do STAGING=$(PACKAGES)/staging PACKAGE_VERSION='$(PACKAGE_VERSION)' \
		ARCH=$$(go env GOARCH) $(TOOL) nfpm package -f $(PACKAGES)/recipe/nfpm.yaml -p $$kind -t $(PACKAGES)/ || exit 1; done

run: packages-run guest ## Boot a small Linux guest with its console (Ctrl-C powers it off) and a link to its screen.
	@$(MAKE) --no-print-directory build PROGRAMS="vmrunner vmmanager"
	@bin/vmmanager local --log-level error & trap "kill $$!" EXIT; \
	bin/vmrunner run -c $(CONFIG) --console $(UNATTENDED)

gui: packages-run build guest ## Show three VMs in a browser, to start them and type on their screens (Ctrl-C ends the pages).
	bin/vmmanager local --folder examples/computer

test: packages-test test-programs ## Test every promise of the documents once, with real QEMU and Kubernetes: 8 to 15 minutes on 2 CPUs, 17 to 40 the first time.
	@exec build/test/report -short -vet=off -timeout=$(TIMEOUT) \
		$$(go list ./test/e2e ./manager/vm/controller ./... | grep -vxFf build/test/deep) # longest waits first

# SHARD=2/4 selects the second of four parts, which take about the same time.
test-all: packages-test-all test-programs ## Run all tests; with SHARD=i/4 a quarter of them.
	@exec build/test/report $(SHARD:%=-shard=%) -vet=off -timeout=$(TIMEOUT) ./...

# Tests and measurements that need many rounds, hours or other programs.
LONG := $(shell sed -n 's/^\([a-z0-9-]*\):.*### .*/\1/p' Makefile)
long: $(filter $(LONG),$(RUN)) ## Run a long test or measurement, such as RUN=soak or kills; list them without RUN.
	@$(if $(filter $(LONG),$(RUN)),true,echo "cannot choose what to run: set RUN to one of these:"; \
		sed -n 's/^\([a-z0-9-]*\):.*### \(.*\)/  \1 \2/p' Makefile | while read name text; do printf '  %-16s %s\n' $$name "$$text"; done; exit 1)

# Programs that several test packages need are built once, before the tests run. A program that is the same as before
# keeps its time, by which go knows whether a test has passed with it.
test test-all race: export VMOP_PROGRAMS = $(CURDIR)/build/test/bin
test-programs: export GOGC = 400
test-programs:
	@rm -rf build/test/new build/test-times.jsonl
	@mkdir -p build/test/bin build/test/new
	go build -o build/test/new/ $(PROGRAMS:%=./cmd/%)
	@cd build/test/new && for program in *; do cmp -s $$program ../bin/$$program || mv $$program ../bin/; done
	go build -o build/test/ ./test/report ./test/cluster/clusterctl
	@go list . $(DEEP) >build/test/deep
	VMOP_PROGRAMS= build/test/clusterctl build
	tools/scripts/web-bundles -fetch
	go list -export -test -f '{{""}}' $$(go list ./... | grep -vxFf build/test/deep) >/dev/null # compiles the tests

race: packages-race test-programs ### Run the tests of make test with the race detector, in packages with goroutines that share memory.
	@CGO_ENABLED=1 exec build/test/report -race -short -vet=off -timeout=$(TIMEOUT) -skip='$(NORACE)' $$(go list $(RACE))

test-newer-qemu: packages-test-all ### Run the runner tests with the QEMU of Debian's backports, and some with both versions; as root.
	tools/scripts/newer-qemu go test -tags newerqemu -timeout 20m ./runner ./runner/migrate/handover ./runner/machine/reconcile ./diskimage/nbd ./cmd/vmrunner

check: ## Check formatting, vet, lint, style, and that generated files are current.
	@unformatted=$$($(GOFUMPT) -l .); test -z "$$unformatted" || { echo "make format would change:"; echo "$$unformatted"; exit 1; }
	go vet ./...
	$(TOOL) staticcheck ./...
	go run ./deploy/third_party -check
	tools/scripts/web-bundles -check
	@mkdir -p build
	tools/scripts/prose-count -c tools/scripts/prose-counts.txt >build/prose-counts.txt || { grep '^more than' build/prose-counts.txt; exit 1; }
	go test .
	go test -run '^TestGeneratedFilesAreCurrent$$' ./api/v1

bench: packages-test-all build ## Run the benchmarks, then compare with other tools, each as a ratio to its peer.
	go test -run '^$$' -bench . -benchmem ./...
	@mkdir -p build
	go run ./test/bench -json build/bench.json

bench-web: packages-test-all ### Measure the pages: the time until a browser shows a change, consoles, screens.
	go test ./manager/web ./manager/web/fleet/cluster -run '^$$' -bench . -benchtime 20x

bench-migration: packages-test-all ### Compare migrations of a guest with 512 MiB by runners and by hand; 3 minutes.
	go test ./runner/migrate/handover -run '^$$' -bench Migration -benchtime $(or $(ROUNDS),15)x | grep -v level=DEBUG

pictures: # Create the pictures of docs/pictures again after a change of the pages that they show.
	go test ./manager/web -count=1 -run TestPicturesAreCurrent -update

bench-scale: packages-test-all build ### Measure the manager with up to 5000 VMs on a real API server; half an hour.
	@mkdir -p build
	go run ./test/scale -json build/scale.json

fuzz: ### Run every fuzz test for FUZZTIME=30s; with FUZZSHARE=1/4 every fourth.
	go run ./test/fuzz -time $(FUZZTIME) $(FUZZSHARE:%=-share %)

faults: packages-test-all ### Run the fault matrix: the problems that a VM survives or reports.
	VMOP_EVENTS=1000000 go run ./test/faults -timeout=$(TIMEOUT)

mutants: packages-test ### Put 100 errors into the code, one at a time (SEED=1), and check that tests notice them; an hour.
	@mkdir -p build
	go run ./test/mutants -seed $(or $(SEED),1) -log build/mutants-$(or $(SEED),1).txt

powercut: packages-test-all ### Simulate 200 power cuts in a VM's life (SEED=n repeats a run); 3 minutes.
	VMOP_CUTS=200 SEED=$(SEED) go test -count=1 -v -timeout $(TIMEOUT) -run '^TestFault36ThePowerFails$$' ./cmd/vmrunner

kills: packages-test-all ### Kill the runner of a VM 1000 times, at random moments (SEED=n repeats a run); 10 minutes.
	VMOP_KILLS=1000 SEED=$(SEED) go test -count=1 -v -timeout $(TIMEOUT) -run '^TestFault02KillsAtAnyMoment$$' ./cmd/vmrunner

kills-migration: packages-test-all ### Kill a runner or QEMU in 200 migrations, at random moments (SEED=n repeats a run); 3 minutes.
	VMOP_MIGRATION_KILLS=200 SEED=$(SEED) go test -count=1 -v -timeout $(TIMEOUT) \
	-run '^TestMigrationsAreKilledAtAnyMoment$$' ./cmd/vmrunner

moves: packages-test-all ### Move a guest 100 times back and forth; 6 minutes.
	VMOP_MOVES=100 go test -count=1 -v -timeout $(TIMEOUT) -run '^TestAGuestMovesBackAndForth$$' ./cmd/vmrunner

soak: packages-test-all ### Run a VM through random steps for SOAKTIME=20m (SEED=n repeats a run).
	SOAKTIME=$(SOAKTIME) SEED=$(SEED) go test -count=1 -v -timeout 0 -run '^TestSoak$$' ./test/soak

e2e: packages-test-all ### Run VMs on a real Kubernetes, and crash its nodes.
	go test -count=1 -timeout $(TIMEOUT) ./test/e2e

generate: ## Regenerate the generated files.
	go generate ./...

alerts: ### Evaluate the alerts and dashboards with Prometheus' promtool, which is built first.
	go test -count=1 -tags promtool ./deploy/monitoring

dashboards: packages-test-all ### Check each panel of the dashboards with a real Prometheus and VMs in a cluster; 20 minutes.
	go test -count=1 -tags promtool -timeout $(TIMEOUT) -run '^TestDashboards$$' ./test/e2e -args $(and $(UPDATE),-update)

images: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
images: ## Build the container images into build/images/, without a container engine.
	go run ./deploy/images -version $(VERSION) -arch $(or $(ARCH),amd64) -with "$(WITH)" $(UPDATE)

base-image: # Write the current digest of Debian's image into the Containerfiles; commit the change.
	@tools/scripts/base-image

install-yaml: # Write build/install.yaml for a manager in NAMESPACE=vms with the images REGISTRY/manager and runner.
	@mkdir -p build
	tools/scripts/install-yaml "$(REGISTRY)" "$(VERSION)" "$(NAMESPACE)" > build/install.yaml.new
	mv build/install.yaml.new build/install.yaml

docs: ## Write the documents as a site into build/docs; links lead to the project's files below SOURCE=.
	rm -rf build/docs build/reference
	@mkdir -p build/reference
	@for program in $(PROGRAMS); do go run -tags man ./cmd/$$program man build/reference/$$program.md || exit 1; done
	go run ./docs/site/write -o build/docs -version "$(VERSION)" -source "$(SOURCE)" -programs build/reference

chart: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
chart: # Pack the Helm charts into build/, for the images REGISTRY/manager:VERSION and runner.
	@tools/scripts/chart "$(VERSION)" "$(REGISTRY)"

ifneq ($(filter command,$(origin SIGNING_KEY) $(origin PACKAGE_KEY)),)
$(error set SIGNING_KEY and PACKAGE_KEY in the environment: the arguments of make are public)
endif

release: packages-test-all ## Build packages, images, charts, plugins, component lists and checksums into build/release/VERSION (REGISTRY=, URL=).
	@tools/scripts/release "$(filter v%,$(VERSION))" "$(REGISTRY)" "$(URL)"

cluster-load: ## Build the images and load them into the cluster's nodes.
	@test -L build/cluster || { echo "no cluster is running; make cluster-up starts one"; exit 1; }
	@$(MAKE) --no-print-directory images VERSION=devel
	@go run ./test/cluster/clusterctl load build/images/runner.tar build/images/manager.tar

cluster-up: packages-cluster ## Start a Kubernetes on this machine (NODES=1); prints KUBECONFIG. The first time takes 10 minutes.
	@go run ./test/cluster/clusterctl -nodes $(or $(NODES),1) up

cluster-down: ## Stop that Kubernetes.
	@go run ./test/cluster/clusterctl down

format: ## Format Go and Starlark files.
	$(GOFUMPT) -w .
	git ls-files -co --exclude-standard '*.star' ':!vmtypes/compiled' ':!*testdata*' | xargs -r $(TOOL) buildifier -type=default

clean: ## Remove what was built.
	rm -rf bin build

guest:
	$(COMPILE) go run ./test/guest/tinyguest -o build/guest

packages-run packages-cluster packages-test packages-race packages-test-all:
	@tools/scripts/install-packages $(@:packages-%=%)
