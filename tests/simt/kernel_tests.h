/* The tests of each family of kernels: lists that end with a name of NULL. */
#ifndef KERNEL_TESTS_H
#define KERNEL_TESTS_H

#include "tests/simt/kernel_test.h"

extern const Test row_tests[], gemm_tests[], attention_tests[], end_tests[], layer_tests[],
    tower_tests[];

#endif
