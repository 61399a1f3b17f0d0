# flatclip: CLIP image embeddings in C, with every byte of memory fixed beforehand.
#
#   make             build/flatclip, flatclip-bench, -stress, -demo, libflatclip.a and .so
#   make demo        install what is missing, build, embed the sample photographs, show the memory
#                    (FETCH=1: fetch OpenAI's ViT-B/32 first)
#   make test        install what is missing, build, run every test (QUICK=1: no full-size model,
#                    ONLY="threads plan": these programs alone)
#   make test-full   one full-size picture on the emulated GPU: 3 to 6 minutes, 4 GB
#   make deps        install missing libraries with the system's package manager, or print how
#   make install     PREFIX=/usr/local DESTDIR= ; make uninstall removes the same files
#   make fuzz        run the fuzz targets, FUZZ_SECONDS=60 each (needs clang)
#   make kernels     compile the CUDA kernels for every architecture (needs nvcc)
#   make static-gates  check what nvcc emits against budgets, and for races (needs nvcc, PyPI)
#   make planted-bugs  show that the emulator of CUDA kernels finds bugs (needs python3)
#   make mutants     change the kernels at random: the tests must notice (MUTANTS=60)
#   make planted-leak  flatclip-stress finds leaks that were planted
#   make growth-table  the same loop in PyTorch and flatclip, bytes a pass (as bench-peers)
#   make gpu-check   on a machine with a GPU: right, flat, fast? (needs make, gcc, nvcc; 8 minutes)
#   make gpu-check-rehearse  the same on the emulator
#   make bench-peers PyTorch, ONNX Runtime, OpenVINO and others beside flatclip, into
#                    docs/PERFORMANCE.md (needs python3 and the network; 35 minutes, GROWTH=0: 20,
#                    QUICK=1: 5)
#   make bench-convert  converting a full-size checkpoint beside PyTorch and safetensors (the same)
#   make clean       remove build/
#
#   CONFIG=release|debug|sanitize|tsan   CUDA=auto|0|1   CC=gcc|clang   CFLAGS= LDFLAGS=   WERROR=1
#   CUDA=standin: programs below build/standin whose GPU is an emulator; for tests, and slow
#   V=1 shows whole command lines.
# Everything is built below build/; configurations never share objects.

MAKEFLAGS += -r
CONFIG       ?= release
CUDA         ?= auto
PREFIX       ?= /usr/local
FUZZ_SECONDS ?= 60
ifeq ($(origin CC),default)
  CC := cc
endif

# -- What this build is ------------------------------------------------------------------------
# Release without asserts: the library never ends its host's process. All other builds have them.
CFLAGS_release  := -O3 -g -DNDEBUG
CFLAGS_debug    := -O0 -g3
CFLAGS_sanitize := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all \
                   -fno-omit-frame-pointer
CFLAGS_tsan     := -O1 -g -fsanitize=thread
CFLAGS_fuzz     := $(CFLAGS_sanitize) -fsanitize=fuzzer-no-link
ifndef CFLAGS_$(CONFIG)
  $(error CONFIG=$(CONFIG) is not one of release, debug, sanitize, tsan)
endif

ifeq ($(filter $(CUDA),auto 0 1 standin),)
  $(error CUDA=$(CUDA) is not one of auto, 0, 1, standin)
endif
NVCC      := $(shell command -v nvcc)
include kernels/kernels.mk
WITH_CUDA := $(if $(filter auto,$(CUDA)),$(if $(CUDA_LACKS),0,1),$(CUDA))
ifneq ($(and $(filter 1,$(WITH_CUDA)),$(CUDA_LACKS)),)
  $(error CUDA=1 lacks $(CUDA_LACKS): install the CUDA toolkit, or build with CUDA=0)
endif
BACKENDS_0       := cpu ($(if $(CUDA_LACKS),no $(CUDA_LACKS),CUDA=0))
BACKENDS_1       := cpu cuda
BACKENDS_standin := cpu cuda (a GPU that is emulated, for tests)
BACKENDS         := $(BACKENDS_$(WITH_CUDA))

BUILD := build/$(CONFIG)-cuda$(WITH_CUDA)$(if $(BARE),-bare)
# Where the programs go: build/ itself for the release, beside the objects for the rest.
BIN   := build$(if $(filter standin,$(WITH_CUDA)),/standin)$(if \
           $(filter release,$(CONFIG)),,/$(CONFIG))$(if $(BARE),/bare)
MODELS_DIR := build/models

VERSION := $(shell awk '/^.define FLATCLIP_VERSION/ \
    { printf "%d.%d.%d", $$3 / 10000, $$3 / 100 % 100, $$3 % 100 }' include/flatclip.h)
SONAME  := libflatclip.so.$(firstword $(subst ., ,$(VERSION)))

WARNINGS   := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
              $(if $(WERROR),-Werror)
# -ffp-contract=off: results must not depend on which multiplies and adds a compiler fuses.
ALL_CFLAGS := -std=c11 $(WARNINGS) -ffp-contract=off -fvisibility=hidden -fPIC -pthread \
              -I. -Iinclude $(if $(filter 0,$(WITH_CUDA)),,$(CUDA_CFLAGS)) $(CFLAGS_$(CONFIG)) \
              $(CFLAGS)
LINK       := $(CC) $(ALL_CFLAGS) $(LDFLAGS)
CUDA_LIBS_1       := $(CUDART) -lrt -ldl
CUDA_LIBS_standin := build/simt/standin.a -lstdc++
LIB_LIBS   := $(CUDA_LIBS_$(WITH_CUDA)) $(if $(BARE),,-ljpeg -lpng -lz -lcjson) -lm -pthread
TOOL_LIBS  := -lcrypto
FETCH_LIBS := -ldl

# -- Sources -----------------------------------------------------------------------------------
LIB_SRC   := $(filter-out $(if $(filter 0,$(WITH_CUDA)),engine/cuda/%), \
               $(wildcard engine/*.c engine/*/*.c))
TOOL_SRC  := $(wildcard weights_tools/*.c)
# BARE=1, for make gpu-check: without the libraries that read pictures and JSON, and so without all
# that needs them.
ifdef BARE
  LIB_SRC  := $(filter-out engine/image/decode_%.c engine/image/png_chunks.c engine/base/json%.c \
                engine/base/safetensors%.c,$(LIB_SRC)) $(wildcard bench/gpu/bare_*.c) \
                weights_tools/synth_values.c
  TOOL_SRC :=
endif
CLI_SRC   := $(wildcard cli/*.c)
TEST_SRC  := $(wildcard tests/test_*.c \
               $(if $(filter standin,$(WITH_CUDA)),tests/fakecuda/test_*.c))
FUZZ_SRC  := $(wildcard tests/fuzz/fuzz_*.c)
BENCH_SRC := $(wildcard bench/*.c)
obj = $(patsubst %.c,$(BUILD)/%.o,$(1))
LIB_OBJ   := $(call obj,$(LIB_SRC)) $(if $(filter 1,$(WITH_CUDA)),$(KERNEL_OBJ))
TOOL_OBJ  := $(call obj,$(TOOL_SRC))
CLI_OBJ   := $(call obj,$(CLI_SRC))
TEST_OBJ  := $(call obj,$(TEST_SRC))
ALL_OBJ   := $(LIB_OBJ) $(TOOL_OBJ) $(CLI_OBJ) $(TEST_OBJ) \
             $(call obj,$(BENCH_SRC) $(FUZZ_SRC) tests/fuzz/replay.c)
# The command line but for main, so that tests can call its parts.
CLI_PARTS := $(filter-out $(BUILD)/cli/main.o,$(CLI_OBJ))
TESTS     := $(TEST_OBJ:.o=)
FUZZERS   := $(patsubst %.c,$(BUILD)/%,$(FUZZ_SRC))
PROGRAMS  := $(BIN)/flatclip $(patsubst bench/%.c,$(BIN)/flatclip-%,$(BENCH_SRC))
LIBS      := $(BIN)/libflatclip.a $(BIN)/libflatclip.so

# $(call say,VERB) shows what is made; with V=1 make itself shows the command.
Q   := $(if $(V),,@)
say = $(if $(V),,@echo '  $(1) $(if $(filter CC CXX NVCC,$(1)),$<,$@)')

all: $(LIBS) $(PROGRAMS)
	@echo 'backends: $(BACKENDS)'

# -- Rules -------------------------------------------------------------------------------------
# Each instruction set in its own files, chosen at run time: the rest must run on any CPU. Elsewhere
# than on x86-64 these files are empty.
ifneq ($(findstring x86_64,$(shell $(CC) -dumpmachine)),)
$(BUILD)/%_avx2.o:   OBJ_CFLAGS := -mavx2 -mfma
$(BUILD)/%_avx512.o: OBJ_CFLAGS := -mavx2 -mfma -mavx512f -mavx512bw -mavx512dq -mavx512vl
endif

$(BUILD)/%.o: %.c $(BUILD)/flags Makefile | $(BUILD)/libraries
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(ALL_CFLAGS) $(OBJ_CFLAGS) -MMD -MP -c $< -o $@

# Two stamps that change only when their content does: the flags, so that another CC or CFLAGS
# recompiles; and the objects, so that a removed source or another variant links again.
$(BUILD)/flags: STAMP = $(LINK)
$(BIN)/objects: STAMP = $(LINK) $(ALL_OBJ)
$(BUILD)/flags $(BIN)/objects: FORCE
	@mkdir -p $(@D)
	@echo '$(STAMP)' | cmp -s - $@ || echo '$(STAMP)' > $@

# Libraries are looked for before the first file is compiled; only some goals may install them.
DEPS := CC='$(CC)' CFLAGS='$(CFLAGS)' LDFLAGS='$(LDFLAGS)' .ci/deps \
        $(if $(filter deps demo test,$(MAKECMDGOALS)),install,check)
LIBRARIES := $(if $(BARE),,jpeg png z cjson crypto curl)
$(BUILD)/libraries: .ci/deps
	@mkdir -p $(@D)
	@$(DEPS) $(LIBRARIES) $(if $(filter test,$(MAKECMDGOALS)),cmocka)
	@touch $@
$(BUILD)/test-libraries: .ci/deps | $(BUILD)/libraries
	@$(DEPS) cmocka
	@touch $@
$(TEST_OBJ): | $(BUILD)/test-libraries

# Bytes that a source file includes, which the compiler's list of dependencies does not know.
$(BUILD)/weights_tools/clip_merges.o: weights_tools/data/clip_merges.txt.gz

$(BIN)/libflatclip.a: $(LIB_OBJ) $(BIN)/objects
	$(call say,AR)
	@$(RM) $@
	$(Q)$(AR) rcs $@ $(LIB_OBJ)

$(BIN)/libflatclip.so: $(LIB_OBJ) $(BIN)/objects
	$(call say,LD)
	$(Q)$(LINK) -shared -Wl,-soname,$(SONAME) $(LIB_OBJ) $(LIB_LIBS) -o $@

# What the programs share, as an archive: each takes what it uses.
TOOLS := $(BUILD)/tools.a
$(TOOLS): $(TOOL_OBJ) $(BIN)/objects
	$(call say,AR)
	@$(RM) $@
	$(Q)$(AR) rcs $@ $(TOOL_OBJ)

$(BIN)/flatclip: $(CLI_OBJ) $(TOOLS) $(BIN)/libflatclip.a $(BIN)/objects
	$(call say,LD)
	$(Q)$(LINK) $(filter %.o %.a,$^) $(LIB_LIBS) $(TOOL_LIBS) $(FETCH_LIBS) -o $@

$(BIN)/flatclip-%: $(BUILD)/bench/%.o $(TOOLS) $(BIN)/libflatclip.a $(BIN)/objects
	$(call say,LD)
	$(Q)$(LINK) $(filter %.o %.a,$^) $(LIB_LIBS) $(TOOL_LIBS) -o $@

# The command line's parts, for the tests, as an archive too.
PARTS := $(BUILD)/parts.a
$(PARTS): $(CLI_PARTS) $(BIN)/objects
	@$(RM) $@
	$(Q)$(AR) rcs $@ $(CLI_PARTS)

$(BUILD)/tests/test_fetch: TEST_LIBS := -lssl
$(BUILD)/tests/fakecuda/test_cublaslt: TEST_LIBS := -rdynamic -ldl
$(filter $(BUILD)/tests/%,$(TESTS)): %: %.o $(PARTS) $(TOOLS) $(BIN)/libflatclip.a $(BIN)/objects
	$(call say,LD)
	$(Q)$(LINK) $(filter %.o %.a,$^) -lcmocka $(LIB_LIBS) $(TEST_LIBS) $(TOOL_LIBS) -o $@

# A fuzz target's main is libFuzzer's, or elsewhere a replay of its corpus.
FUZZ_MAIN := $(if $(filter fuzz,$(CONFIG)),,$(BUILD)/tests/fuzz/replay.o)
$(BUILD)/tests/fuzz/fuzz_%: $(BUILD)/tests/fuzz/fuzz_%.o $(FUZZ_MAIN) $(TOOLS) \
                            $(BIN)/libflatclip.a $(BIN)/objects
	$(call say,LD)
	$(Q)$(LINK) $(if $(FUZZ_MAIN),,-fsanitize=fuzzer) $(filter %.o %.a,$^) $(LIB_LIBS) \
	    $(TOOL_LIBS) -o $@

include tests/simt/simt.mk
include tests/gates/gates.mk
ifeq ($(WITH_CUDA),standin)
  ifneq ($(strip $(SIMT_LACKS)),)
    $(error CUDA=standin lacks:$(SIMT_LACKS))
  endif
$(BIN)/libflatclip.so $(PROGRAMS) $(TESTS) $(FUZZERS): $(STANDIN)
endif
include bench/bench.mk
include bench/gpu/gpu.mk

# -- Models, demo, tests -----------------------------------------------------------------------
# Synthetic weights are the same bits from every build, so one copy serves all configurations.
MODEL_SRC := $(wildcard weights_tools/synth*.c weights_tools/model_writer*.c engine/base/clip_*.c \
               weights_tools/*merges*.c weights_tools/data/*)
$(MODELS_DIR)/%.safetensors: $(MODEL_SRC) | $(BIN)/flatclip
	@mkdir -p $(@D)
	$(BIN)/flatclip synth --config $* --seed 1 -o $@

CACHE := $(or $(FLATCLIP_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/flatclip)
REAL  := $(shell test -f '$(CACHE)/ViT-B-32.safetensors' && echo yes)
demo: all $(if $(or $(REAL),$(FETCH)),,$(MODELS_DIR)/vitb32.safetensors)
	$(if $(FETCH),$(BIN)/flatclip fetch)
	$(BIN)/flatclip-demo \
	    -m '$(if $(or $(REAL),$(FETCH)),$(CACHE)/ViT-B-32,$(MODELS_DIR)/vitb32).safetensors'

MODEL_NAMES := micro tiny tiny-b16 tiny-l14-336 $(if $(QUICK),,vitb32)
TEST_MODELS := $(MODEL_NAMES:%=$(MODELS_DIR)/%.safetensors)
# Emulated kernels are the same whatever the configuration: one run is enough.
EMULATED    := $(if $(or $(QUICK),$(filter-out release,$(CONFIG))),,\
                 $(SIMT_DIR)/run_kernels $(STANDIN_TESTS))
CHECKS      := $(filter-out %/test_full,$(TESTS)) $(FUZZERS) $(EMULATED)
ONLY_FILTER := $(foreach name,$(ONLY),%/test_$(name) %/fuzz_$(name) %/run_$(name))
RUN_CHECKS  := $(if $(ONLY),$(filter $(ONLY_FILTER),$(CHECKS)),$(CHECKS))
test: all $(RUN_CHECKS) $(TEST_MODELS)
	@BIN='$(BIN)' CC='$(CC)' QUICK='$(QUICK)' tests/run.sh $(RUN_CHECKS)

# At full size, on the emulated GPU: too long for make test.
FULL_TEST := $(BUILD)/tests/fakecuda/test_full
ifeq ($(WITH_CUDA),standin)
test-full: $(FULL_TEST) $(MODELS_DIR)/vitb32.safetensors
	@$(FULL_TEST)
else
test-full:
	+@$(MAKE) --no-print-directory CUDA=standin test-full
endif

deps:
	@$(DEPS) $(LIBRARIES) cmocka

fuzz:
	+@$(MAKE) --no-print-directory CONFIG=fuzz CC=clang fuzz-here
fuzz-here: $(FUZZERS)
	@tests/fuzz/run.sh $(FUZZ_SECONDS) $(FUZZERS)

# -- Installing --------------------------------------------------------------------------------
LIBDIR  := $(DESTDIR)$(PREFIX)/lib
INSTALLED := bin/flatclip include/flatclip.h lib/libflatclip.a lib/libflatclip.so \
             lib/$(SONAME) lib/libflatclip.so.$(VERSION) lib/pkgconfig/flatclip.pc

install: $(LIBS) $(BIN)/flatclip
	install -d '$(DESTDIR)$(PREFIX)/bin' '$(DESTDIR)$(PREFIX)/include' '$(LIBDIR)/pkgconfig'
	install -m 755 $(BIN)/flatclip '$(DESTDIR)$(PREFIX)/bin'
	install -m 644 include/flatclip.h '$(DESTDIR)$(PREFIX)/include'
	install -m 644 $(BIN)/libflatclip.a '$(LIBDIR)'
	install -m 755 $(BIN)/libflatclip.so '$(LIBDIR)/libflatclip.so.$(VERSION)'
	ln -sf libflatclip.so.$(VERSION) '$(LIBDIR)/$(SONAME)'
	ln -sf $(SONAME) '$(LIBDIR)/libflatclip.so'
	@printf '%s\n' 'prefix=$(PREFIX)' 'libdir=$${prefix}/lib' 'includedir=$${prefix}/include' '' \
	    'Name: flatclip' 'Description: CLIP image embeddings in C, memory fixed beforehand' \
	    'Version: $(VERSION)' 'Requires.private: libjpeg libpng zlib libcjson' \
	    'Libs: -L$${libdir} -lflatclip' \
	    'Libs.private: $(CUDA_LIBS_$(WITH_CUDA)) -lm -pthread' 'Cflags: -I$${includedir}' > '$(LIBDIR)/pkgconfig/flatclip.pc'

uninstall:
	cd '$(DESTDIR)$(PREFIX)' && $(RM) $(INSTALLED)

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile

clean:
	$(RM) -r build

.PHONY: all demo test test-full deps fuzz fuzz-here install uninstall help clean FORCE
.SECONDARY:
.DELETE_ON_ERROR:
FORCE:
-include $(ALL_OBJ:.o=.d)
