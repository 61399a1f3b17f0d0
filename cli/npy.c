/* magic, version, length of the rest, a Python dictionary padded with spaces, newline. */
#include "cli/npy.h"

#include <stdio.h>
#include <string.h>

enum { PREFIX = 10 }; /* bytes before the dictionary */

void fc_npy_header(unsigned char header[FC_NPY_HEADER], size_t rows, size_t columns)
{
    static const unsigned char prefix[PREFIX] = { 0x93, 'N', 'U', 'M', 'P', 'Y',
                                                  1,    0,   FC_NPY_HEADER - PREFIX, 0 };
    const char order = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? '<' : '>';
    char dictionary[FC_NPY_HEADER - PREFIX];

    const int length = snprintf(dictionary, sizeof dictionary,
                                "{'descr': '%cf4', 'fortran_order': False, 'shape': (%zu, %zu), }",
                                order, rows, columns);
    memset(header, ' ', FC_NPY_HEADER);
    memcpy(header, prefix, PREFIX);
    memcpy(header + PREFIX, dictionary, (size_t)length);
    header[FC_NPY_HEADER - 1] = '\n';
}
