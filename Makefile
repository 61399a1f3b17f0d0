# flatclip: make [all|demo|test|deps|install|fuzz|clean|help]
#   CONFIG=release|debug|sanitize|tsan   CUDA=auto|0|1   PREFIX=/usr/local   DESTDIR=   CC=gcc|clang
# Everything is built below build/; configurations never share objects.
MAKEFLAGS += -r
CONFIG  ?= release
CUDA    ?= auto
PREFIX  ?= /usr/local
ifeq ($(origin CC),default)
  CC := cc
endif

# -- What this build is ------------------------------------------------------------------------
CFLAGS_release  := -O3 -g
CFLAGS_debug    := -O0 -g3
CFLAGS_sanitize := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
CFLAGS_tsan     := -O1 -g -fsanitize=thread
ifndef CFLAGS_$(CONFIG)
  $(error CONFIG=$(CONFIG) is not one of release, debug, sanitize, tsan)
endif

KERNEL_SRC := $(wildcard kernels/*.cu)
ifeq ($(filter $(CUDA),auto 0 1),)
  $(error CUDA=$(CUDA) is not one of auto, 0, 1)
endif
ifeq ($(KERNEL_SRC),)
  ifeq ($(CUDA),1)
    $(error CUDA=1: this version of flatclip has no CUDA kernels yet; build with CUDA=0 or auto)
  endif
  WITH_CUDA := 0
else
  WITH_CUDA := $(if $(filter auto,$(CUDA)),$(if $(shell command -v nvcc),1,0),$(CUDA))
endif

BUILD := build/$(CONFIG)-cuda$(WITH_CUDA)
# Where the programs go: build/ itself for the release, beside the objects for the rest.
BIN   := $(if $(filter release,$(CONFIG)),build,build/$(CONFIG))

WARNINGS   := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes $(if $(WERROR),-Werror)
# -ffp-contract=off: results must not depend on which multiplies and adds a compiler fuses.
ALL_CFLAGS := -std=c11 $(WARNINGS) -ffp-contract=off -fvisibility=hidden -fPIC -pthread -I. -Iinclude \
              $(CFLAGS_$(CONFIG)) $(CFLAGS)
LIB_LIBS   := -ljpeg -lpng -lz -ljansson -lm -pthread
TOOL_LIBS  := -lcrypto

# -- Sources -----------------------------------------------------------------------------------
LIB_SRC   := $(wildcard engine/*.c engine/*/*.c)
TOOL_SRC  := $(wildcard weights_tools/*.c)
CLI_SRC   := $(wildcard cli/*.c)
TEST_SRC  := $(wildcard tests/test_*.c)
BENCH_SRC := $(wildcard bench/*.c)
obj = $(patsubst %.c,$(BUILD)/%.o,$(1))
LIB_OBJ   := $(call obj,$(LIB_SRC))
TOOL_OBJ  := $(call obj,$(TOOL_SRC))
CLI_OBJ   := $(call obj,$(CLI_SRC))
# The command line but for main, so that tests can call its parts.
CLI_PARTS := $(filter-out $(BUILD)/cli/main.o,$(CLI_OBJ))
TESTS     := $(patsubst tests/%.c,$(BUILD)/tests/%,$(TEST_SRC))
PROGRAMS  := $(BIN)/flatclip $(patsubst bench/%.c,$(BIN)/flatclip-%,$(BENCH_SRC))
LIBS      := $(BIN)/libflatclip.a $(BIN)/libflatclip.so

all: $(LIBS) $(PROGRAMS)

# -- Rules -------------------------------------------------------------------------------------
# Each instruction set in its own files, chosen at run time: the rest must run on any CPU.
$(BUILD)/%_avx2.o:   ISA := -mavx2 -mfma
$(BUILD)/%_avx512.o: ISA := -mavx2 -mfma -mavx512f -mavx512bw -mavx512dq -mavx512vl

$(BUILD)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(ISA) -MMD -MP -c $< -o $@

# Changes only when the flags do, so that another CC or CFLAGS rebuilds what it must.
$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CC) $(ALL_CFLAGS) $(LDFLAGS)' | cmp -s - $@ || echo '$(CC) $(ALL_CFLAGS) $(LDFLAGS)' > $@

$(BIN)/libflatclip.a: $(LIB_OBJ)
	@mkdir -p $(@D)
	@$(RM) $@
	$(AR) rcs $@ $^

$(BIN)/libflatclip.so: $(LIB_OBJ)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(LDFLAGS) -shared -Wl,-soname,libflatclip.so.0 $^ $(LIB_LIBS) -o $@

$(BIN)/flatclip: $(CLI_OBJ) $(TOOL_OBJ) $(BIN)/libflatclip.a
	$(CC) $(ALL_CFLAGS) $(LDFLAGS) $^ $(LIB_LIBS) $(TOOL_LIBS) -o $@

$(BIN)/flatclip-%: $(BUILD)/bench/%.o $(TOOL_OBJ) $(BIN)/libflatclip.a
	$(CC) $(ALL_CFLAGS) $(LDFLAGS) $^ $(LIB_LIBS) $(TOOL_LIBS) -o $@

$(BUILD)/tests/test_%: $(BUILD)/tests/test_%.o $(CLI_PARTS) $(TOOL_OBJ) $(BIN)/libflatclip.a
	$(CC) $(ALL_CFLAGS) $(LDFLAGS) $^ -lcmocka $(LIB_LIBS) $(TOOL_LIBS) -o $@

clean:
	$(RM) -r build

.PHONY: all clean FORCE
.SECONDARY:
FORCE:
-include $(patsubst %.o,%.d,$(LIB_OBJ) $(TOOL_OBJ) $(CLI_OBJ) $(call obj,$(TEST_SRC) $(BENCH_SRC)))
