# flatclip-bench, flatclip-stress, its variant with a planted leak, and the comparisons with others.
# For the Makefile.

DEVICE_OBJ := $(call obj,$(wildcard bench/device/*.c))
SPEED_OBJ  := $(call obj,$(wildcard bench/speed/*.c)) $(if $(filter 0,$(WITH_CUDA)),,$(DEVICE_OBJ))
ALL_OBJ    += $(SPEED_OBJ)

$(BIN)/flatclip-bench: $(BUILD)/bench/bench.o $(SPEED_OBJ) $(TOOLS) $(BIN)/libflatclip.a \
                       $(BIN)/objects
	$(call say,LD)
	$(Q)$(LINK) $(filter %.o %.a,$^) $(LIB_LIBS) $(TOOL_LIBS) -ldl \
	    $(if $(filter standin,$(WITH_CUDA)),-rdynamic) -o $@

STRESS_OBJ := $(call obj,$(wildcard bench/stress/*.c))
LEAKY      := $(BUILD)/planted/flatclip-stress
LEAKY_OBJ  := $(BUILD)/planted/stress_leak.o
ALL_OBJ    += $(STRESS_OBJ) $(LEAKY_OBJ)

$(BIN)/flatclip-stress: $(BUILD)/bench/stress.o $(STRESS_OBJ) $(TOOLS) $(BIN)/libflatclip.a \
                        $(BIN)/objects
	$(call say,LD)
	$(Q)$(LINK) $(filter %.o %.a,$^) $(LIB_LIBS) $(TOOL_LIBS) -o $@

# The same program but for one file: the leak is in the stress program, never in the engine.
$(LEAKY_OBJ): bench/stress/stress_leak.c $(BUILD)/flags Makefile bench/bench.mk \
              | $(BUILD)/libraries
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(ALL_CFLAGS) -DFLATCLIP_PLANTED_LEAK -MMD -MP -c $< -o $@

$(LEAKY): $(BUILD)/bench/stress.o $(filter-out %/stress_leak.o,$(STRESS_OBJ)) $(LEAKY_OBJ) \
          $(TOOLS) $(BIN)/libflatclip.a $(BIN)/objects
	$(call say,LD)
	$(Q)$(LINK) $(filter %.o %.a,$^) $(LIB_LIBS) $(TOOL_LIBS) -o $@

planted-leak: $(LEAKY) $(BIN)/flatclip-stress $(MODELS_DIR)/tiny.safetensors
	@bench/planted_leak.sh $(LEAKY) $(BIN)/flatclip-stress $(MODELS_DIR)/tiny.safetensors
ifeq ($(strip $(SIMT_LACKS)),)
	+@$(MAKE) --no-print-directory CUDA=standin planted-leak-device
else
	@echo 'device: skipped:$(SIMT_LACKS)'
endif
planted-leak-device: $(LEAKY) $(BIN)/flatclip-stress $(MODELS_DIR)/micro.safetensors
	@bench/planted_leak.sh --device $(LEAKY) $(BIN)/flatclip-stress $(MODELS_DIR)/micro.safetensors

$(BUILD)/tests/test_bench: $(BUILD)/bench/speed/speed_work.o
ifeq ($(WITH_CUDA),standin)
$(BUILD)/tests/fakecuda/test_bench_device.o: OBJ_CFLAGS := -DFLATCLIP_BENCH='"$(BIN)/flatclip-bench"'
$(BUILD)/tests/fakecuda/test_bench_device: $(FAKE_CUBLASLT) | $(BIN)/flatclip-bench
endif
$(BUILD)/tests/test_stress: $(BUILD)/bench/stress/stress_trend.o | $(LEAKY)

# -- Others beside us ----------------------------------------------------------------------------
# What no comparison can do without; and each peer alone, because one that cannot be installed is
# left out by name.
build/peers/ready: bench/peers/requirements.txt
	python3 -m venv build/peers
	build/peers/bin/pip install -q -r bench/peers/requirements.txt
	@touch $@
build/peers/all: build/peers/ready bench/peers/optional.txt
	@grep -v '^#' bench/peers/optional.txt | while read -r packages; do \
	    echo "  PIP $$packages"; \
	    build/peers/bin/pip install -q $$packages || echo "not installed: $$packages"; \
	done
	@touch $@

PEERS_MODEL := $(MODELS_DIR)/vitb32.safetensors
bench-peers: all $(PEERS_MODEL) build/peers/all
	build/peers/bin/python bench/peers/bench_peers.py -m $(PEERS_MODEL) --folder build/peers/files \
	    $(if $(QUICK),--quick,--write docs/PERFORMANCE.md) $(if $(GROWTH),--growth $(GROWTH))

bench-convert: all $(PEERS_MODEL) build/peers/ready
	build/peers/bin/python bench/compare_convert.py -m $(PEERS_MODEL) \
	    $(if $(CHECKPOINT),--checkpoint '$(CHECKPOINT)')

growth-table: $(BIN)/flatclip-stress $(BIN)/flatclip-demo $(PEERS_MODEL) \
              build/peers/ready
	build/peers/bin/python bench/growth_table.py -m $(PEERS_MODEL) \
	    --programs $(BIN)

.PHONY: planted-leak planted-leak-device bench-peers bench-convert growth-table
