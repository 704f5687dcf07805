# make alone builds bin/hcl. `make quickstart` and `make test` are all that a
# newcomer needs.

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
FUZZTIME := 30s
SOAK := 100

.PHONY: build dist quickstart test soak check lint fuzz bench sweep clean

build:
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/hcl ./cmd/hcl

# What is released: hcl for Linux and macOS, amd64 and arm64, in dist.
dist:
	scripts/dist "$(VERSION)"

# A small lab with simulated engines, planned, measured and torn down here.
quickstart: build
	bin/hcl rehearse examples/quickstart

# Everything, with the race detector, against real sshd, dockerd and Kubernetes; needs root.
# The first time on a machine it builds Kubernetes, for minutes, before any test.
# Package report starts no goroutine: all that the detector could do is to draw charts ten times slower.
# The sweep comes after the tests whether they pass or not.
test:
	scripts/prepare
	@$(MAKE) --no-print-directory check
	go test -race -timeout 60m -run '^TestKube$$' ./testhost
	status=0; go test -race -timeout 40m $$(go list ./... | grep -v /report$$) || status=$$?; \
	CGO_ENABLED=0 go test -trimpath -timeout 40m ./report || status=$$?; \
	go run ./testhost/sweep || status=1; \
	exit $$status

# Every fault that hosts and callers can have, and the caller killed $(SOAK) times at
# random moments: a table of what was tried, what survived and what was left.
soak:
	scripts/prepare
	status=0; HCL_SOAK=$(SOAK) go test -run '^Test(Nodes)?Faults$$|^TestOnCluster$$' -v -timeout 2h ./cmd/hcl || status=$$?; \
	go run ./testhost/sweep || status=1; \
	exit $$status

# What needs no tests to be seen.
check:
	@files=$$(gofmt -l .) && if [ -n "$$files" ]; then echo "not formatted (gofmt -w):"; echo "$$files"; exit 1; fi
	go vet ./...

lint: check
	go run $(STATICCHECK) ./...

# Every fuzz target for $(FUZZTIME).
fuzz:
	@set -e; for package in $$(go list ./...); do \
		for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
			echo "$$package $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$package; \
		done; \
	done

bench:
	go test -run '^$$' -bench . -benchmem -timeout 30m ./...

# What interrupted tests left.
sweep:
	go run ./testhost/sweep

clean:
	rm -rf bin dist
	go clean -testcache
