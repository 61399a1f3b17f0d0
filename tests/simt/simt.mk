# CUDA kernels without a GPU: compiled by nvcc for every architecture (make kernels), and run in an
# emulator (make test), which planted bugs prove (make planted-bugs). Included by the Makefile.

# -- The emulator --------------------------------------------------------------------------------
# Kernels are compiled with calls before every access, which the emulator defines; it and the tests
# are not. GCC's way of making these calls is what was tried.
SIMT_CXX   ?= g++
SIMT_FLAGS := -std=c++20 -O2 -g -Wall -Wextra $(if $(WERROR),-Werror) -Wno-unknown-pragmas \
              -ffp-contract=off -DFC_SIMT='"tests/simt/simt_kernel.h"' -I. -Iinclude \
              -isystem '$(CUDA_HOME)/include'
# Indices of local arrays, which lie in registers, are checked by the undefined behaviour sanitizer.
# Alignment is the emulator's to report.
SIMT_WATCH := -fsanitize=thread --param=tsan-instrument-func-entry-exit=0 -fno-omit-frame-pointer \
              -fsanitize=undefined -fno-sanitize=alignment -fsanitize-undefined-trap-on-error
SIMT_DIR   := build/simt
SIMT_OBJ   := $(patsubst tests/simt/%.cpp,$(SIMT_DIR)/%.o,$(wildcard tests/simt/*.cpp))
WATCHED    := $(patsubst kernels/%.cu,$(SIMT_DIR)/%.o,$(KERNEL_SRC))
SIMT_DEPS  := $(wildcard tests/simt/*.h) $(KERNEL_HEADERS) tests/simt/simt.mk
SIMT_LIB   := build/libflatclip.a
SIMT_LACKS := $(if $(wildcard $(CUDA_HOME)/include/cuda_fp16.h),, no CUDA headers)\
              $(if $(shell command -v $(SIMT_CXX)),, no g++)

$(SIMT_DIR)/%.o: tests/simt/%.cpp $(SIMT_DEPS)
	@mkdir -p $(@D)
	$(call say,CXX)
	$(Q)$(SIMT_CXX) $(SIMT_FLAGS) -fPIC $(if $(findstring /simt_,$@),-O3) -c $< -o $@

$(SIMT_DIR)/%.o: kernels/%.cu $(SIMT_DEPS)
	@mkdir -p $(@D)
	$(call say,CXX)
	$(Q)$(SIMT_CXX) $(SIMT_FLAGS) $(SIMT_WATCH) -fPIC -x c++ -c $< -o $@

# The emulator, the kernels and the stand-in runtime, as what CUDA=standin links for a GPU.
FAKECUDA_OBJ := $(patsubst tests/fakecuda/%.cpp,$(SIMT_DIR)/fakecuda/%.o,\
                  $(wildcard tests/fakecuda/*.cpp))
STANDIN      := $(SIMT_DIR)/standin.a
$(SIMT_DIR)/fakecuda/%.o: tests/fakecuda/%.cpp $(wildcard tests/fakecuda/*.h) $(SIMT_DEPS)
	@mkdir -p $(@D)
	$(call say,CXX)
	$(Q)$(SIMT_CXX) $(SIMT_FLAGS) -fPIC -c $< -o $@
$(STANDIN): $(filter $(SIMT_DIR)/simt_%,$(SIMT_OBJ)) $(WATCHED) $(FAKECUDA_OBJ)
	$(call say,AR)
	@$(RM) $@
	$(Q)$(AR) rcs $@ $^

# The engine's tests on the stand-in are built as what they are, another variant, by another make;
# not at the same time as run_kernels, which has objects in common with them.
STANDIN_TESTS := $(if $(filter standin,$(WITH_CUDA)),,\
                   $(patsubst %.c,build/$(CONFIG)-cudastandin/%,$(filter-out %/test_full.c,$(wildcard tests/fakecuda/test_*.c))))

# A library of its own, as the real one is: what it calls of the stand-in is the test's.
FAKE_CUBLASLT := $(SIMT_DIR)/libfake_cublaslt.so
$(FAKE_CUBLASLT): tests/fakecuda/cublaslt/fake_cublaslt.cpp tests/fakecuda/fakecuda.h
	$(call say,LD)
	$(Q)$(SIMT_CXX) $(SIMT_FLAGS) -fPIC -shared $< -o $@
ifeq ($(WITH_CUDA),standin)
$(BUILD)/tests/fakecuda/test_cublaslt: $(STANDIN) $(FAKE_CUBLASLT)
endif

# Where something is missing, programs take their place that say so and count as skipped.
ifeq ($(strip $(SIMT_LACKS)),)
$(SIMT_DIR)/run_kernels: $(SIMT_OBJ) $(WATCHED) $(SIMT_LIB) | $(MODELS_DIR)/tiny.safetensors
	$(call say,LD)
	$(Q)$(SIMT_CXX) $^ $(LIB_LIBS) -o $@

$(STANDIN_TESTS): standin-tests ;
standin-tests: $(SIMT_DIR)/run_kernels $(BUILD)/test-libraries
	+@$(MAKE) --no-print-directory CUDA=standin CONFIG=$(CONFIG) $(STANDIN_TESTS)
else
$(SIMT_DIR)/run_kernels $(STANDIN_TESTS): FORCE
	@mkdir -p $(@D)
	@printf '%s\n' '#!/bin/sh' 'echo "note: skipped: $(strip $(SIMT_LACKS))"' \
	    'echo "[  SKIPPED ] 1 test(s)."' > $@
	@chmod +x $@
endif

quoted = '$(subst ','\'',$(1))'
planted-bugs: $(SIMT_DIR)/run_kernels
	@CXX='$(SIMT_CXX)' FLAGS=$(call quoted,$(SIMT_FLAGS)) WATCH='$(SIMT_WATCH)' \
	    LIBS='$(SIMT_LIB) $(LIB_LIBS)' \
	    python3 tests/simt/plant_bugs.py $(SIMT_DIR) $(BUGS)
mutants: $(SIMT_DIR)/run_kernels
	@CXX='$(SIMT_CXX)' FLAGS=$(call quoted,$(SIMT_FLAGS)) WATCH='$(SIMT_WATCH)' \
	    LIBS='$(SIMT_LIB) $(LIB_LIBS)' \
	    python3 tests/simt/mutate.py $(SIMT_DIR) $(or $(MUTANTS),60)

# -- What nvcc makes of them ---------------------------------------------------------------------
# Every architecture must compile without a warning, and without a byte of local memory: that would
# be taken on the device at the first launch.
CUDA_ARCHS ?= 75 80 86 89 90 100 120
CUBINS := $(foreach arch,$(CUDA_ARCHS),\
            $(patsubst kernels/%.cu,build/cubin/%.sm_$(arch).cubin,$(KERNEL_SRC)))
arch_of = $(patsubst .sm_%,sm_%,$(suffix $(basename $(1))))

build/cubin/%.cubin: $(KERNEL_SRC) $(KERNEL_HEADERS) tests/simt/simt.mk
	@mkdir -p $(@D)
	@echo '  NVCC $@'
	$(Q)nvcc -std=c++17 -arch=$(call arch_of,$@) -I. -Werror all-warnings -lineinfo \
	    -Xptxas -v,-warn-spills,-warn-lmem-usage -cubin kernels/$(basename $*).cu -o $@ \
	    2> $(@:.cubin=.log) || { cat $(@:.cubin=.log); exit 1; }
	$(Q)! grep -E '[1-9][0-9]* bytes (stack frame|spill)' $(@:.cubin=.log) /dev/null

kernels: $(CUBINS)
	@tests/simt/resources.sh $(CUBINS:.cubin=.log)

.PHONY: standin-tests planted-bugs mutants kernels
