/* JSON written by strangers, as a tree: cJSON behind a stricter check. */
#ifndef FC_JSON_H
#define FC_JSON_H

#include <cjson/cJSON.h>
#include <stdint.h>

#include "engine/base/error.h"
#include "engine/base/json_check.h"

/* Parses the bytes bytes of text, which fc_json_check must accept and in which no object may have
 * a key twice. *root is cJSON_Delete's to free, and NULL after a failure. name begins messages.
 * Errors: FORMAT (with byte and line, or the key), MEMORY. */
flatclip_status fc_json_parse(const char *name, const char *text, size_t bytes,
                              fc_json_numbers numbers, cJSON **root, flatclip_error *err);

/* The value under key, or NULL: also where object is NULL or none. Takes a time that grows with
 * the object. */
const cJSON *fc_json_get(const cJSON *object, const char *key);

/* Returns 1 and fills *number if value is a number that is whole, not negative and below 2^53;
 * else 0. cJSON keeps doubles: from 2^53 on they do not tell neighbours apart. */
int fc_json_whole(const cJSON *value, uint64_t *number);

#endif
