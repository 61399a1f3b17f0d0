/* The header of a .npy file: numpy's format 1.0 for a matrix of float32. */
#ifndef FC_NPY_H
#define FC_NPY_H

#include <stddef.h>

enum { FC_NPY_HEADER = 128 }; /* bytes; room for any shape, and what numpy itself writes */

/* Writes the header for float32 [rows, columns], row-major, in this machine's byte order. */
void fc_npy_header(unsigned char header[FC_NPY_HEADER], size_t rows, size_t columns);

#endif
