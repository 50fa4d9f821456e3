# The front door. CMake is the build underneath; `make help` lists what there is.
BUILD := build
JOBS  := $(shell nproc)
export QUESTION := What is the capital of France, and what is it famous for?

.PHONY: all help deps test-deps configure build models lean test test-all test-deep asan tsan fuzz demo bench golden checked format clean install

all: build

help:
	@echo "make            build libga and ga into build/ (ONLY='attn*,add*': these CUDA kernels alone)"
	@echo "make demo       install what is missing, build, fetch the default model, answer a question"
	@echo "make models     fetch the models that the tests use (440 MB)"
	@echo "make test       build and run the quick tests; none needs a GPU, a model or nvcc (minutes)"
	@echo "make test-all   build everything, run all other tests, fuzz each parser for FUZZ_SECONDS (half an hour)"
	@echo "make test-deep  long draws of every CUDA kernel in the emulator (hours)"
	@echo "make bench      time every kernel of this machine that passes its check"
	@echo "make golden     write goldens of tests and docs/reference anew, to be reviewed as a diff"
	@echo "make checked    record the CUDA kernels that passed make test-all or test-deep in full: unchanged ones then get a sample"
	@echo "make format     write C and CUDA code as clang-format 14 does"
	@echo "make asan tsan  the tests under sanitizers"
	@echo "make fuzz       each fuzz target for FUZZ_SECONDS (60), needs clang"
	@echo "make install    install library, headers, ga (PREFIX=/usr/local)"
	@echo "make clean      remove the build folders"

deps:
	@tools/install_deps.sh

test-deps:
	@GA_WITH_TESTS=1 tools/install_deps.sh

configure: test-deps
	@cmake --preset release -B $(BUILD) -DGA_ONLY='$(ONLY)' >/dev/null

build: configure
	@cmake --build $(BUILD) -j $(JOBS) --target product

demo: deps
	@GA_WITH_PIP=1 tools/install_deps.sh
	@cmake --preset lean >/dev/null
	@if [ -t 1 ]; then cmake --build build-lean -j $(JOBS); else \
	  echo "building into build-lean/, which takes minutes; build-lean/build.log has what is compiled" >&2; \
	  cmake --build build-lean -j $(JOBS) >build-lean/build.log 2>&1 || { tail -n 30 build-lean/build.log >&2; exit 1; }; fi
	@build-lean/ga pull smollm2-135m >/dev/null
	@printf '> %s\n' "$$QUESTION"
	@build-lean/ga run --temp 0 "$$QUESTION"
	@echo
	@echo "To go on:  build-lean/ga chat            converse; /help lists what you can type"
	@echo "           build-lean/ga serve           a server with OpenAI's interface, and a page at http://127.0.0.1:8080"
	@echo "           build-lean/ga pull --list     other models; docs/guide/start.md tells the rest"

models: build
	@GA_WITH_PIP=1 tools/install_deps.sh
	@for m in smollm2-135m gemma3-270m minilm-l6; do $(BUILD)/ga pull $$m >/dev/null || exit 1; done

lean: deps
	@cmake --preset lean >/dev/null
	@cmake --build build-lean -j $(JOBS)

test: configure
	@tools/run_tests.py $(BUILD) quick -j $(JOBS)

test-all: FUZZ_SECONDS := 6
test-all: configure
	@tools/run_tests.py $(BUILD) full -j $(JOBS)
	@if command -v clang >/dev/null; then mkdir -p build-fuzz; $(MAKE) -s fuzz FUZZ_SECONDS=$(FUZZ_SECONDS) >build-fuzz/log 2>&1 || { tail -30 build-fuzz/log; exit 1; }; \
	  echo "fuzzed each parser for $(FUZZ_SECONDS) s (build-fuzz/log)"; else echo "left out: fuzzing (no clang here); the quick tests replay the corpora"; fi

test-deep: configure
	@tools/run_tests.py $(BUILD) deep -j $(JOBS)

asan tsan: test-deps
	@cmake --preset $@ >/dev/null
	@cmake --build build-$@ -j $(JOBS)
	@ctest --test-dir build-$@ -LE "^deep$$" --output-on-failure

# New inputs go to build-fuzz/corpus; a crash is written there too and stops the run.
FUZZ_SECONDS := 60
fuzz: test-deps
	@cmake --preset fuzz >/dev/null
	@cmake --build build-fuzz -j $(JOBS) --target fuzzers
	@for f in build-fuzz/tests/fuzz/fuzz_*; do [ -x $$f ] && [ -f $$f ] || continue; what=$${f##*/fuzz_}; \
	  mkdir -p build-fuzz/corpus/$$what; echo "fuzz $$what for $(FUZZ_SECONDS) s"; \
	  $$f -max_total_time=$(FUZZ_SECONDS) -max_len=65536 -artifact_prefix=build-fuzz/corpus/$$what- -verbosity=0 \
	    -print_final_stats=1 build-fuzz/corpus/$$what tests/fuzz/corpus/$$what || exit 1; done

bench: build
	@$(BUILD)/ga bench

golden:
	@python3 tools/gen_ops.py . --write
	@$(MAKE) -s build
	@cmake --build $(BUILD) -j $(JOBS) --target test_select test_parts
	@$(BUILD)/tests/test_select --write tests/select.golden
	@$(BUILD)/tests/test_parts --write docs/reference/model-files.md
	@$(BUILD)/ga kernels --markdown > docs/reference/kernels.md
	@python3 tools/gen_cli_doc.py $(BUILD)/ga docs/reference/cli.md
	@python3 tests/abi/layout.py --write
	@git --no-pager diff --stat -- tests/select.golden tests/abi/layout.golden docs/reference include

checked:
	@cmake --build $(BUILD) --target record_checked | grep recorded

format:
	@git ls-files '*.c' '*.h' '*.cu' '*.cpp' | grep -vE '^src/cuda/dev/ptx/wgmma(8|_t)?\.h$$' | xargs clang-format -i

# What `make demo` built, where nothing else was. The list of libraries is the system's: only root renews it.
install:
	@if [ ! -f $(BUILD)/CMakeCache.txt ] && [ -f build-lean/CMakeCache.txt ]; then \
	  cmake --build build-lean -j $(JOBS) && cmake --install build-lean --prefix "$(or $(PREFIX),/usr/local)"; \
	else $(MAKE) -f "$(strip $(MAKEFILE_LIST))" build && cmake --install $(BUILD) --prefix "$(or $(PREFIX),/usr/local)"; fi
	@if [ "$$(id -u)" = 0 ] && [ -z "$(DESTDIR)" ] && command -v ldconfig >/dev/null; then ldconfig; fi

clean:
	rm -rf build build-lean build-asan build-tsan build-debug build-fuzz
