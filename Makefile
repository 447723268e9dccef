# The tasks of this project; `make` alone lists them. The work is done by the programs in tools/.
.PHONY: help demo build test check format generate manifests run deploy undeploy bench sim soak clean
MAKEFLAGS += --no-print-directory

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

demo:  ## from a fresh machine to a working local system: installs, builds, starts it, shows it answer
	@tools/install build demo
	@tools/demo

build:  ## install what is missing and build everything (preset dev)
	@tools/install build
	@tools/test --build-only

test:  ## install what is missing, build, run every test; the last line has the counts
	@tools/install build cluster docker
	@tools/test

check:  ## before a commit: format, include walls, clang-tidy on changed files, unit tests
	@tools/install build check
	@tools/check

format:  ## put every C++ file into the project's format
	@tools/install check
	@tools/check --fix-format

generate:  ## write the files that are made from sources of Kubernetes (the table of built-in types)
	@tools/install build
	@tools/generate

manifests: build  ## write deploy/ (CRDs, permissions, everything in one file) and docs/reference.md
	@for what in crds rbac install; do build/dev/apps/cadre/cadre manifests $$what > deploy/$$what.yaml; done
	@build/dev/apps/cadre/cadre manifests reference > docs/reference.md

run: build  ## the operator on this machine, against the current kubeconfig; it wants its CRDs there
	@kubectl get namespace kaos-system >/dev/null 2>&1 || kubectl create namespace kaos-system
	@build/dev/apps/cadre/cadre operator

deploy:  ## install the operator on the current cluster
	@kubectl apply --server-side -f deploy/install.yaml

undeploy:  ## remove it again, with all objects of its kinds
	@kubectl delete --ignore-not-found -f deploy/install.yaml

bench:  ## the benchmarks, each as a ratio against its peer and its limit
	@tools/install build
	@bench/run

sim: build  ## the simulator: SEEDS of them, from SEED on
	@build/dev/tests/sim_test

soak:  ## the long ones: sanitizers, fuzzers (SOAK_SECONDS each), slow checks, pods that come and go, a fresh machine
	@tools/install build cluster docker check fresh
	@tools/soak

clean:  ## remove what was built here; parts of the test cluster are kept in the user's cache
	rm -rf build
