# make alone builds bin/hcl, and beside it the programs that rent boxes. `make quickstart` and `make test` are all that a
# newcomer needs. Whatever is compiled is compiled in one way, and for the race detector in another:
# no third way that would compile all libraries again.

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
FUZZTIME := 30s
SOAK := 100
LATER := ^Test(Slow|Soak|PyPI|Record|Peers)
GO_TEST := CGO_ENABLED=0 go test -trimpath -vet=off

# What starts goroutines is tested with the race detector. Elsewhere all that this could do is to take ten
# times as long. What runs its own test binary again and again is not.
CONCURRENT := agent apply apply/place calibrate cmd/hcl flow load/measure load/wire lock origin provision/docker provision/fabric provision/kube provision/look provision/reach provision/reach/% results sim telemetry testhost testhost/engine tokenizer

.PHONY: build dist quickstart test test-all test-slow test-engines record-engines peers race plain soak lint fuzz bench sweep clean

build:
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/hcl ./cmd/hcl
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o bin/ ./plugins/...

# What is released: hcl for Linux and macOS, amd64 and arm64, in dist.
dist:
	scripts/dist "$(VERSION)"

# A small lab with simulated engines, planned, measured and torn down here.
quickstart: build
	bin/hcl rehearse examples/quickstart

# Against real sshd and dockerd; needs root. Its two halves mostly wait, so they run side by side.
# The sweep comes after the tests whether they pass or not.
test:
	scripts/prepare
	status=0; $(MAKE) --no-print-directory --jobs=2 --keep-going race plain || status=$$?; \
	CGO_ENABLED=0 go run -trimpath ./testhost/sweep || status=1; \
	exit $$status

# Every test there is.
test-all: test test-slow

# What test has not: tests whose names begin with TestSlow. They need Kubernetes, which the first of
# them builds where this machine has never built it: 13 minutes of processor time.
test-slow:
	scripts/prepare
	status=0; $(GO_TEST) -timeout 90m -run '^TestSlow' $$(grep -rl --include='*_test.go' '^func TestSlow' . | xargs -n 1 dirname | sort -u) || status=$$?; \
	CGO_ENABLED=0 go run -trimpath ./testhost/sweep || status=1; \
	exit $$status

race plain: PACKAGES = $(patsubst hclbench%,.%,$(shell go list ./...))
race:
	CGO_ENABLED=1 go test -vet=off -race -timeout 40m -skip '$(LATER)' $(filter $(CONCURRENT:%=./%),$(PACKAGES))
plain:
	$(GO_TEST) -timeout 40m -skip '$(LATER)' $(filter-out $(CONCURRENT:%=./%),$(PACKAGES))

# Real engines, out of PyPI's packages and without a GPU; VERSIONS="0.27.1 0.32.0" and SGLANG_VERSIONS="0.5.22" for
# other versions of vLLM and SGLang.
test-engines:
	scripts/prepare
	status=0; $(GO_TEST) -timeout 60m -run '^TestPyPI' ./cmd/hcl ./engines/setting ./testhost/pypi || status=$$?; \
	CGO_ENABLED=0 go run -trimpath ./testhost/sweep || status=1; \
	exit $$status

# What such engines say, written into testdata/real: metrics, streams, errors, logs, help texts.
record-engines:
	scripts/prepare
	$(GO_TEST) -timeout 60m -run '^TestRecord' ./cmd/hcl

# What other tools find of simulated engines whose truth is known, beside hcl's search: a table, as in docs/capacity.md.
# It wants a machine of its own, for what else runs there makes the answers of all of them lower.
peers:
	$(GO_TEST) -v -timeout 60m -run '^TestPeers$$' ./cmd/hcl

# Every fault that hosts and callers can have, and the caller killed $(SOAK) times at
# random moments, as are real engines and all that has a part in renting a box: a table of what was tried, what survived and what was left.
soak:
	scripts/prepare
	status=0; HCL_SOAK=$(SOAK) $(GO_TEST) -v -timeout 6h -run 'Faults$$|^TestSlowRentedKills$$|^TestSlowOnCluster$$|^TestSoakPyPI$$' ./cmd/hcl || status=$$?; \
	CGO_ENABLED=0 go run -trimpath ./testhost/sweep || status=1; \
	exit $$status

# What needs no tests to be seen.
lint:
	@files=$$(gofmt -l .) && if [ -n "$$files" ]; then echo "not formatted (gofmt -w):"; echo "$$files"; exit 1; fi
	CGO_ENABLED=0 go vet -trimpath ./...
	CGO_ENABLED=0 go run -trimpath $(STATICCHECK) ./...

# Every fuzz target for $(FUZZTIME).
fuzz:
	@set -e; for package in $$(go list ./...); do \
		for target in $$($(GO_TEST) -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
			echo "$$package $$target"; \
			$(GO_TEST) -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$package; \
		done; \
	done

bench:
	$(GO_TEST) -run '^$$' -bench . -benchmem -timeout 30m ./...

# What interrupted tests left.
sweep:
	CGO_ENABLED=0 go run -trimpath ./testhost/sweep

clean:
	rm -rf bin dist
	go clean -testcache
