/* Linking data/clip_merges.txt.gz into the program: C11 has no way to include a file's bytes, but
 * every assembler has. */
#include "weights_tools/clip_merges.h"

__asm__(".pushsection .rodata\n"
        ".hidden fc_clip_merges_begin\n"
        ".hidden fc_clip_merges_end\n"
        ".globl fc_clip_merges_begin\n"
        ".globl fc_clip_merges_end\n"
        "fc_clip_merges_begin:\n"
        ".incbin \"weights_tools/data/clip_merges.txt.gz\"\n"
        "fc_clip_merges_end:\n"
        ".byte 0\n"
        ".popsection\n");

extern const unsigned char fc_clip_merges_begin[], fc_clip_merges_end[];

const unsigned char *fc_clip_merges_gzip(size_t *bytes)
{
    *bytes = (size_t)(fc_clip_merges_end - fc_clip_merges_begin);
    return fc_clip_merges_begin;
}
