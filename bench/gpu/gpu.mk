# make gpu-check: everything that a GPU can tell, on a machine that may have nothing but make, gcc and
# nvcc. For the Makefile.

GPU_OBJ := $(call obj,$(filter-out bench/gpu/bare_%,$(wildcard bench/gpu/*.c)) \
             bench/speed/speed_work.c) $(DEVICE_OBJ)
ALL_OBJ += $(GPU_OBJ)

$(BIN)/flatclip-gpu-check: $(GPU_OBJ) $(TOOLS) $(BIN)/libflatclip.a $(BIN)/objects
	$(call say,LD)
	$(Q)$(LINK) $(filter %.o %.a,$^) $(LIB_LIBS) -ldl -o $@
ifeq ($(WITH_CUDA),standin)
$(BIN)/flatclip-gpu-check: $(STANDIN)
endif

# The kernels' tests, linked with what nvcc made instead of the emulator.
DEVICE_TESTS := $(filter-out %/test_tower.o,$(filter $(SIMT_DIR)/test_% %/kernel_test.o,$(SIMT_OBJ)))
$(BUILD)/tests/gpu/run_on_device: tests/gpu/run_on_device.cpp $(DEVICE_TESTS) $(KERNEL_OBJ)
	@mkdir -p $(@D)
	$(call say,LD)
	$(Q)$(SIMT_CXX) $(SIMT_FLAGS) $^ $(CUDART) -lrt -ldl -pthread -o $@

gpu-check:
	@MAKE='$(MAKE)' bench/gpu/gpu_check.sh
gpu-check-rehearse:
	@MAKE='$(MAKE)' bench/gpu/gpu_check.sh --rehearse

.PHONY: gpu-check gpu-check-rehearse
