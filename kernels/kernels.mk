# The CUDA kernels of the library, compiled by nvcc for every architecture that the engine runs on,
# once for all configurations. Included by the Makefile.

CUDA_HOME ?= $(firstword $(patsubst %/include/cuda_fp16.h,%,\
               $(wildcard $(dir $(NVCC))../include/cuda_fp16.h \
                 /usr/local/cuda/include/cuda_fp16.h /usr/include/cuda_fp16.h)))
KERNEL_SRC     := $(wildcard kernels/*.cu)
KERNEL_HEADERS := $(wildcard kernels/*.h kernels/device/*.cuh)

# Code for 8.0 runs on 8.6 and 8.9 too; what comes after 12.0 is compiled by its driver.
LIBRARY_ARCHS ?= 75 80 90 100 120
KERNEL_BUILD  := build/sm_$(subst $() ,-,$(strip $(LIBRARY_ARCHS)))
KERNEL_OBJ    := $(KERNEL_SRC:%.cu=$(KERNEL_BUILD)/%.o)
# Without what would need the C++ runtime: the library is linked as C.
NVCC_FLAGS := -std=c++17 -O3 -I. -Werror all-warnings --compress-mode=size \
              -Xcompiler -fPIC,-fvisibility=hidden,-fno-exceptions,-fno-rtti,-fno-threadsafe-statics \
              $(foreach arch,$(LIBRARY_ARCHS),-gencode arch=compute_$(arch),code=sm_$(arch)) \
              -gencode arch=compute_$(lastword $(LIBRARY_ARCHS)),code=compute_$(lastword $(LIBRARY_ARCHS))

$(KERNEL_BUILD)/kernels/%.o: kernels/%.cu $(KERNEL_HEADERS) kernels/kernels.mk
	@mkdir -p $(@D)
	$(call say,NVCC)
	$(Q)$(NVCC) $(NVCC_FLAGS) -c $< -o $@

# The runtime is linked statically: a machine without CUDA needs nothing of it.
CUDART := $(firstword $(wildcard $(CUDA_HOME)/lib64/libcudart_static.a \
            $(CUDA_HOME)/lib/libcudart_static.a /usr/lib/*/libcudart_static.a))
CUDA_CFLAGS := -DFC_WITH_CUDA -isystem '$(CUDA_HOME)/include'

# What a build with CUDA needs, and is not there: the first such thing.
CUDA_LACKS := $(if $(NVCC),$(if $(CUDA_HOME),$(if $(CUDART),,libcudart_static.a),cuda_fp16.h),nvcc in PATH)
