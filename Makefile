# The front door. CMake is the build underneath; `make help` lists what there is.
BUILD := build
JOBS  := $(shell nproc)

.PHONY: all help deps build lean test asan tsan demo bench format clean install

all: build

help:
	@echo "make            build libga and ga into build/"
	@echo "make demo       install what is missing, build, fetch the default model, answer a question"
	@echo "make test       build and run every test that needs no GPU"
	@echo "make asan tsan  the tests under sanitizers"
	@echo "make install    install library, headers, ga (PREFIX=/usr/local)"
	@echo "make clean      remove the build folders"

deps:
	@tools/install_deps.sh

build: deps
	@cmake --preset release >/dev/null
	@cmake --build $(BUILD) -j $(JOBS)

lean: deps
	@cmake --preset lean >/dev/null
	@cmake --build build-lean -j $(JOBS)

test: build
	@python3 tools/check_layers.py
	@ctest --test-dir $(BUILD) --output-on-failure

asan tsan: deps
	@cmake --preset $@ >/dev/null
	@cmake --build build-$@ -j $(JOBS)
	@ctest --test-dir build-$@ --output-on-failure

install: build
	cmake --install $(BUILD) --prefix $(or $(PREFIX),/usr/local)

clean:
	rm -rf build build-lean build-asan build-tsan build-debug
