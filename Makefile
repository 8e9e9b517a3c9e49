# The targets set up everything that a new clone needs: Go fetches its modules, and the
# tests' Python packages go into .venv.

GO      ?= go
PYTHON  ?= python3
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
PKGS    ?= ./...

STATICCHECK = $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.7.0
GOVULNCHECK = $(GO) run golang.org/x/vuln/cmd/govulncheck@v1.1.4

.PHONY: demo up test check systems cross race worker-test sdk-test test-mesh soak mutants loss bench bench-peers build clean

## demo: build, start nodes, run real programs, lose a session and a node; prints a transcript
demo: build
	@examples/demo.sh bin/locus

## up: build and run a node in the foreground
up: build
	bin/locus up

## build: the one binary, bin/locus
build:
	$(GO) build -trimpath -ldflags "-X main.release=$(VERSION)" -o bin/locus ./cmd/locus

## test: everything: linters, builds for other systems, all Go tests with the race detector, the tests of the Python worker and client, the demo
test: check systems race worker-test sdk-test
	@examples/demo.sh bin/locus >/dev/null && echo "demo: ok"

# Where the command runs: nodes on Linux only, all else on these too.
CROSS = linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64

# One of each other system: two minutes from cold, the rest differ in their processor only.
systems:
	@$(MAKE) --no-print-directory cross CROSS="darwin/arm64 windows/amd64"

## cross: the command builds for every system, in one static file each; bin/locus-OS-ARCH; minutes from cold
cross:
	@for to in $(CROSS); do \
		CGO_ENABLED=0 GOOS=$${to%/*} GOARCH=$${to#*/} $(GO) build -trimpath -ldflags "-X main.release=$(VERSION)" \
			-o bin/locus-$${to%/*}-$${to#*/}$$(test $${to%/*} = windows && echo .exe) ./cmd/locus || exit 1; \
	done

# Of a list of packages those of this module: what the command is made of on a system.
OURS = {{with .Module}}{{if .Main}}{{$$.ImportPath}}{{end}}{{end}}

## check: formatting, vet (of what runs on other systems, for these too), staticcheck, known vulnerabilities where the database can be reached
check: build
	@out=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go')); test -z "$$out" || { echo "gofmt would change:"; echo "$$out"; exit 1; }
	$(GO) vet $(PKGS)
	@for os in darwin windows; do GOOS=$$os $(GO) vet $$(GOOS=$$os $(GO) list -deps -f '$(OURS)' ./cmd/locus) || exit 1; done
	$(STATICCHECK) $(PKGS)
	@$(GOVULNCHECK) $(PKGS) || { test $$? -ne 3 && echo "govulncheck: the vulnerability database cannot be reached; skipped"; }

race: .venv/ready
	LOCUS_TEST_PYTHON=$(CURDIR)/.venv/bin/python $(GO) test -race -timeout 30m $(PKGS)

# The packages and tests of several nodes as one mesh.
MESH_PKGS  = ./certs ./mesh/... ./registry ./placement/... ./node/peer ./node/member
MESH_TESTS = Mesh|Virtual|Faults|Owner|Killed|AFullDisk|AnyNode|AnotherNode|ANodeThatGoesAway

## test-mesh: the mesh packages, and whole meshes under faults; a part of make test
test-mesh: .venv/ready
	LOCUS_TEST_PYTHON=$(CURDIR)/.venv/bin/python $(GO) test -race -timeout 20m $(MESH_PKGS)
	LOCUS_TEST_PYTHON=$(CURDIR)/.venv/bin/python $(GO) test -race -timeout 20m -run '$(MESH_TESTS)' ./node

## soak: the same faults from many more seeds; SEEDS=10 is how many, LOCUS_SEED=1 the first
SEEDS ?= 10
soak: .venv/ready
	LOCUS_SOAK=$(SEEDS) LOCUS_TEST_PYTHON=$(CURDIR)/.venv/bin/python $(GO) test -timeout 6h -count=1 -v -run 'TestAMeshInVirtualTime|TestFaults' ./node

## mutants: break every safety line, one at a time, and check that some test fails
MUTANTS ?= all
mutants:
	LOCUS_MUTANTS='$(MUTANTS)' $(GO) test -timeout 2h -count=1 -v -run TestMutants .

## loss: measure how long the loss of an owner and of the leader takes, both profiles; RUNS=20
RUNS ?= 20
loss:
	LOCUS_TABLE=$(RUNS) $(GO) test -timeout 2h -count=1 -v -run TestLossTable ./node

worker-test: .venv/ready
	.venv/bin/python -m pytest -q node/kernel/python

## sdk-test: the Python client against a real node, its types, the examples in its docs; a part of make test
sdk-test: build .venv/ready
	.venv/bin/python -m pytest -q node/gateway/client/python

# What the tests need of Python; uv is the quicker one to install it, where there is one.
PACKAGES = pytest hypothesis numpy pandas matplotlib 'mcp==2.3.0; python_version >= "3.10"' polars pyarrow mypy 'smolagents==1.26.0; python_version >= "3.10"'
.venv/ready: Makefile
	$(PYTHON) -m venv .venv
	@if uv --version >/dev/null 2>&1; then uv pip install -q -p .venv/bin/python $(PACKAGES); \
	else .venv/bin/python -m pip install -q $(PACKAGES); fi
	@touch $@

## bench: the speed goals, each as a ratio to its floor in the same run
bench: build
	$(GO) test -run '^$$' -bench . -benchtime 2s $(PKGS) | grep -v '^ok\|no test files\|^PASS'

## bench-peers: compare Locus with a Jupyter kernel and python3 -c, in one run; ROUNDS=400 MEGABYTES=200
ROUNDS ?= 400
MEGABYTES ?= 200
bench-peers: build .venv/peers
	PYTHONPATH=node/gateway/client/python/src .venv/bin/python bench/side_by_side.py bin/locus --rounds $(ROUNDS) --megabytes $(MEGABYTES)

.venv/peers: .venv/ready
	.venv/bin/python -m pip install -q jupyter_client ipykernel
	@touch $@

clean:
	rm -rf bin .venv
