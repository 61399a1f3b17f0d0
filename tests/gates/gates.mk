# Gates on what nvcc really emits, without a GPU (make static-gates): resources and instructions of
# every kernel and architecture against tests/gates/budget.txt, race-freedom of the PTX, and planted
# faults that must be found. UPDATE=1 rewrites the budget and docs/kernel-resources.md. Included by
# the Makefile, after simt.mk, whose cubins it reads.

GATES_DIR := build/gates
# The tools, as requirements.txt pins them; make stops here where they cannot be installed.
GATES_PYTHON := PATH="$(CURDIR)/$(GATES_DIR)/bin:$$PATH" $(GATES_DIR)/bin/python
$(GATES_DIR)/ready: tests/gates/requirements.txt
	python3 -m venv $(GATES_DIR)
	$(GATES_DIR)/bin/pip install -q --disable-pip-version-check -r $<
	@for tool in cuobjdump nvdisasm; do \
	    path=$$(find $(CURDIR)/$(GATES_DIR)/lib -path "*/bin/$$tool") && test -n "$$path" && \
	    ln -sf "$$path" $(GATES_DIR)/bin/ && $(GATES_DIR)/bin/$$tool --version > /dev/null || \
	    { echo "static gates: no $$tool"; exit 1; }; done
	$(GATES_DIR)/bin/cuxray --version && $(GATES_DIR)/bin/sentryward --help > /dev/null
	@touch $@

GATES_MEASURE := tests/gates/measure.py tests/gates/kernel_names.py
MEASURED := $(CUBINS:build/cubin/%.cubin=$(GATES_DIR)/measured/%.json)
$(GATES_DIR)/measured/%.json: build/cubin/%.cubin $(GATES_MEASURE) $(GATES_DIR)/ready
	@mkdir -p $(@D)
	@echo '  MEASURE $<'
	$(Q)$(GATES_PYTHON) tests/gates/measure.py $< $@

# Planted faults: each file of planted/ but the races is one kernel.
PLANTED_SRC := $(filter-out %/races.cu,$(wildcard tests/gates/planted/*.cu))
PLANTED     := $(PLANTED_SRC:tests/gates/planted/%.cu=$(GATES_DIR)/planted/%.json)
.SECONDARY: $(PLANTED:.json=.sm_80.cubin)
$(GATES_DIR)/planted/%.sm_80.cubin: tests/gates/planted/%.cu
	@mkdir -p $(@D)
	$(Q)nvcc -std=c++17 -arch=sm_80 -I. -lineinfo -cubin $< -o $@
$(GATES_DIR)/planted/%.json: $(GATES_DIR)/planted/%.sm_80.cubin $(GATES_MEASURE) $(GATES_DIR)/ready
	$(Q)$(GATES_PYTHON) tests/gates/measure.py $< $@

# The PTX is that of 12.0: nvcc has an older compiler for 9.0 and before, whose addresses of
# ldmatrix sentryward cannot follow.
GATES_PTX := $(KERNEL_SRC:kernels/%.cu=$(GATES_DIR)/ptx/%.ptx) $(GATES_DIR)/ptx/races.ptx
GATES_NVCC_PTX := nvcc -std=c++17 -arch=sm_120 -I. -ptx
$(GATES_DIR)/ptx/%.ptx: kernels/%.cu $(KERNEL_HEADERS)
	@mkdir -p $(@D)
	$(Q)$(GATES_NVCC_PTX) $< -o $@
$(GATES_DIR)/ptx/races.ptx: tests/gates/planted/races.cu $(KERNEL_HEADERS)
	@mkdir -p $(@D)
	$(Q)$(GATES_NVCC_PTX) $< -o $@

# Both halves run whatever the other finds; the last line is the sum.
static-gates: $(MEASURED) $(PLANTED) $(GATES_PTX)
	@$(GATES_PYTHON) tests/gates/check.py $(if $(UPDATE),--update) --planted $(PLANTED) \
	    --measured $(MEASURED) --races $(GATES_PTX)

.PHONY: static-gates
