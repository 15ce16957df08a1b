# Thin: CMake does the work, tools/setup.sh installs what it needs.
#
#   make            the command, in build/release/paradl
#   make demo       the command on a real question; then the whole circle here: measure, plan, train, compare
#   make test       all short tests, four builds; before every commit
#   make test-long  the long tests
#   make report     the core that pages carry, as WebAssembly, so that they can be asked again
#   make test-report  pages in a real browser; the core against the command for every model
#   make screenshots  the pictures of the documents, and those that test-report compares with, anew
#   make bench      every benchmark
#   make experiments  published claims about networks beside what the simulator gives
#   make asan       the short tests under the sanitizers only
#   make tsan       what has threads, under the thread sanitizer only
#   make bare       a build without the libraries that may be missing, and some of its tests
#   make gpu-test   the tests of GPUs on GPU 0 (GPU=N for another)
#   make gpu-test-long  the same under compute-sanitizer; an hour
#   make gpu-bench  speed on GPU 0 beside PyTorch, projections, out-of-core, predictions; half an hour
#   make campaign   real runs killed, stopped, starved and fed damaged files: tried, survived, detected, lost; hours
#   make fuzz       every fuzzer for FUZZ_SECONDS; FUZZERS="yaml model" picks some
#   make install    into PREFIX (and DESTDIR)
#   make format     clang-format on our sources
#   make lint       clang-tidy on our sources
#   make clean

JOBS         ?= $(shell nproc)
PREFIX       ?= /usr/local
FUZZ_SECONDS ?= 600
FUZZERS      ?=
CAMPAIGN     ?=
BARE_TESTS    = test_comm_alone test_comm_alone_regions test_tensor_cpu_core test_train_networks test_train_session

SOURCES = $(shell find src include tests examples bench web -name '*.[ch]' -o -name '*.cu' -o -name '*.cpp' 2>/dev/null)

.PHONY: all setup demo report core screenshots test-report test check-format gpu-test gpu-test-long gpu-bench test-long bench experiments asan tsan bare campaign fuzz install format lint clean
.NOTPARALLEL:

all: setup
	@cmake --preset release -DCMAKE_INSTALL_PREFIX="$(PREFIX)" -DBUILD_TESTING=OFF
	@cmake --build --preset release -j $(JOBS)

# What every target needs; the others install what only they need.
setup:
	@tools/setup.sh

report:
	@tools/setup.sh report smaller
	@$(MAKE) --no-print-directory core

core:
	@tools/setup.sh report
	@cmake -S web/core -B build/core -G Ninja --toolchain "$(CURDIR)/web/core/wasi.cmake"
	@cmake --build build/core -j $(JOBS)

# Pictures of the documents, and those that test-report compares pages with, from pages as they are now.
screenshots: report
	@tools/setup.sh browser
	@cmake --preset debug
	@cmake --build --preset debug -j $(JOBS) --target paradl
	@mkdir -p build/screenshots build/report-npm
	@cp tests/report/package.json tests/report/package-lock.json build/report-npm/
	@cd build/report-npm && npm ci --no-audit --no-fund --silent
	@PARADL_SHARE="$(CURDIR)/share" NODE_PATH="$(CURDIR)/build/report-npm/node_modules" \
	    node tests/report/screenshots.js "$(CURDIR)/build/debug/paradl" "$(CURDIR)/build/screenshots" "$(CURDIR)/docs/images"
	@SOURCE="$(CURDIR)" PARADL_SHARE="$(CURDIR)/share" NODE_PATH="$(CURDIR)/build/report-npm/node_modules" \
	    node tests/report/pictures.js "$(CURDIR)/build/debug/paradl" "$(CURDIR)/build/screenshots" write

# Pictures of every page are left in build/report-test.
test-report: report
	@tools/setup.sh test browser
	@cmake --preset debug
	@cmake --build --preset debug -j $(JOBS) --target paradl
	@mkdir -p build/report-test build/report-npm
	@cp tests/report/package.json tests/report/package-lock.json build/report-npm/
	@cd build/report-npm && npm ci --no-audit --no-fund --silent
	@SOURCE="$(CURDIR)" PARADL_SHARE="$(CURDIR)/share" node tests/report/core.js build/debug/paradl build/report-test all
	@SOURCE="$(CURDIR)" PARADL_SHARE="$(CURDIR)/share" NODE_PATH="$(CURDIR)/build/report-npm/node_modules" \
	    node tests/report/browser.js "$(CURDIR)/build/debug/paradl" "$(CURDIR)/build/report-test"
	@SOURCE="$(CURDIR)" PARADL_SHARE="$(CURDIR)/share" NODE_PATH="$(CURDIR)/build/report-npm/node_modules" \
	    node tests/report/pictures.js "$(CURDIR)/build/debug/paradl" "$(CURDIR)/build/report-test"
	@command -v firefox-esr >/dev/null || { echo "Firefox: skipped, there is no firefox-esr"; exit 0; } && \
	    PARADL_SHARE="$(CURDIR)/share" timeout 600 node tests/report/firefox.js firefox-esr "$(CURDIR)/build/debug/paradl" "$(CURDIR)/build/report-test"

demo: all report
	build/release/paradl plan --model resnet50 --system abci-v --data imagenet --pe 512 --explain
	@PARADL=build/release/paradl tools/demo.sh

# The summary of the gcc tests comes last. The thread sanitizer's build is that of clang, too.
test:
	@tools/setup.sh test format
	@$(MAKE) --no-print-directory check-format
	@cmake --preset debug
	@cmake --build --preset debug -j $(JOBS)
	@$(MAKE) --no-print-directory core
	@$(MAKE) --no-print-directory tsan
	@$(MAKE) --no-print-directory bare
	@$(MAKE) --no-print-directory asan
	@ctest --preset debug -L short -j $(JOBS)

check-format:
	@tools/setup.sh format
	@clang-format --dry-run -Werror $(SOURCES)

asan:
	@tools/setup.sh test
	@cmake --preset asan
	@cmake --build --preset asan -j $(JOBS)
	@ctest --preset asan -L short -LE slow -j $(JOBS)

# What has threads of its own, in one process: MPI has races that are not ours.
tsan:
	@tools/setup.sh test fuzz
	@cmake --preset tsan
	@cmake --build --preset tsan -j $(JOBS) --target thread_tests
	@ctest --preset tsan -L threads -j $(JOBS)

# Without MPI, oneDNN and everything else that may be missing.
bare:
	@tools/setup.sh test
	@cmake --preset bare
	@cmake --build --preset bare -j $(JOBS) --target paradl $(BARE_TESTS)
	@ctest --preset bare -R '^(comm/alone|tensor/cpu_core|train/(networks|session)|cli/(plan|plugins|validate))' -j $(JOBS)

test-long:
	@tools/setup.sh test
	@cmake --preset debug
	@cmake --build --preset debug -j $(JOBS)
	@ctest --preset debug -L long

gpu-test:
	@tools/setup.sh test
	@cmake --preset debug -DPDL_CUDA=ON
	@cmake --build --preset debug -j $(JOBS)
	@tools/gpu_test.sh

gpu-test-long: gpu-test
	@JSON=build/gpu-test-long.json tools/gpu_test.sh check

gpu-bench:
	@tools/setup.sh bench
	@cmake --preset release -DCMAKE_INSTALL_PREFIX="$(PREFIX)" -DBUILD_TESTING=OFF -DPDL_CUDA=ON
	@cmake --build --preset release -j $(JOBS)
	@tools/gpu_bench.sh

# The release build leaves the benchmarks out unless it is asked for them.
bench:
	@tools/setup.sh bench
	@cmake --preset release -DCMAKE_INSTALL_PREFIX="$(PREFIX)" -DBUILD_TESTING=OFF -DPDL_BENCH=ON
	@cmake --build --preset release -j $(JOBS)
	@tools/bench.sh

experiments: all
	@PARADL=build/release/paradl examples/experiments/claims.sh all

# CAMPAIGN="--scale 0.01 --parts kill,stop" makes it shorter.
campaign:
	@tools/setup.sh test fuzz
	@for preset in debug asan tsan fuzz; do \
	    cmake --preset $$preset && cmake --build --preset $$preset -j $(JOBS) || exit 1; done
	@PARADL=build/debug/paradl PARADL_ASAN=$(CURDIR)/build/asan/paradl PARADL_TSAN=$(CURDIR)/build/tsan/paradl \
	    PARADL_FUZZERS=$(CURDIR)/build/fuzz/tests PARADL_SHARE=$(CURDIR)/share \
	    python3 tests/campaign/campaign.py --markdown build/campaign.md $(CAMPAIGN)

fuzz:
	@tools/setup.sh fuzz
	@cmake --preset fuzz
	@cmake --build --preset fuzz -j $(JOBS)
	@tools/fuzz.sh $(FUZZ_SECONDS) $(FUZZERS)

install: all
	@cmake --install build/release

format:
	@tools/setup.sh format
	@clang-format -i $(SOURCES)

lint:
	@tools/setup.sh lint
	@cmake --preset clang
	@cmake --build --preset clang -j $(JOBS)
	@tools/lint.sh $(JOBS) $(filter src/%.c,$(SOURCES))

clean:
	rm -rf build
