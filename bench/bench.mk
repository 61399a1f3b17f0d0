# flatclip-bench, flatclip-stress, its variant with a planted leak, and the comparisons with others.
# For the Makefile.

SPEED_OBJ := $(call obj,$(wildcard bench/speed/*.c))
ALL_OBJ   += $(SPEED_OBJ)

$(BIN)/flatclip-bench: $(BUILD)/bench/bench.o $(SPEED_OBJ) $(TOOLS) $(BIN)/libflatclip.a \
                       $(BIN)/objects
	$(call say,LD)
	$(Q)$(LINK) $(filter %.o %.a,$^) $(LIB_LIBS) $(TOOL_LIBS) -o $@

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
$(BUILD)/tests/test_stress: $(BUILD)/bench/stress/stress_trend.o | $(LEAKY)

growth-table: $(BIN)/flatclip-stress $(BIN)/flatclip-demo $(MODELS_DIR)/vitb32.safetensors \
              build/peers/ready
	build/peers/bin/python bench/growth_table.py -m $(MODELS_DIR)/vitb32.safetensors \
	    --programs $(BIN)

.PHONY: planted-leak planted-leak-device growth-table
