/* Prints what `flatclip info` found, for people or as JSON, to standard output. */
#ifndef FC_INFO_PRINT_H
#define FC_INFO_PRINT_H

#include "cli/region_groups.h"
#include "engine/base/clip_config.h"

typedef struct {
    const char *path;
    fc_clip_config config;    /* the file's metadata */
    int has_merges;           /* the vocabulary is in the file */
    flatclip_model_info info; /* what the engine makes of it */
    flatclip_memory memory;
    int max_batch;            /* that was asked for; 0: the default */
} fc_model_facts;

typedef enum { FC_INFO_SUMMARY, FC_INFO_MAP, FC_INFO_JSON } fc_info_style;

typedef struct {
    const fc_model_facts *facts;
    fc_info_style style;
    size_t regions;          /* printed so far */
    fc_region_groups groups; /* of the summary */
} fc_info_printer;

/* Prints everything but the map. facts must live until fc_info_end. */
void fc_info_begin(fc_info_printer *printer, const fc_model_facts *facts, fc_info_style style);

/* Prints or sums up one region; a flatclip_region_fn whose user is the printer. */
void fc_info_region(void *user, const flatclip_region *region);

/* Prints what is left and frees the printer's memory. */
void fc_info_end(fc_info_printer *printer);

#endif
