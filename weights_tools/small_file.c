/* Reading small files that lie beside another. */
#define _GNU_SOURCE
#include "weights_tools/small_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static flatclip_status read_open(FILE *in, size_t limit, fc_small_file *file, flatclip_error *err)
{
    struct stat info;
    if (fstat(fileno(in), &info))
        return fc_fail(err, FLATCLIP_ERR_IO, "cannot read %.200s: %s", file->path,
                       strerror(errno));
    if (info.st_size > (off_t)limit)
        return fc_fail(err, FLATCLIP_ERR_FORMAT, "%.150s has %lld bytes, at most %zu are expected",
                       file->path, (long long)info.st_size, limit);
    const size_t room = S_ISREG(info.st_mode) ? (size_t)info.st_size : limit;
    file->text = malloc(room + 1);
    if (!file->text)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to read %.200s", file->path);
    file->bytes = fread(file->text, 1, room, in);
    file->text[file->bytes] = '\0';
    if (ferror(in))
        return fc_fail(err, FLATCLIP_ERR_IO, "cannot read %.200s: %s", file->path,
                       strerror(errno));
    return FLATCLIP_OK;
}

flatclip_status fc_small_file_read(const char *beside, const char *name, size_t limit,
                                   fc_small_file *file, flatclip_error *err)
{
    const char *slash = strrchr(beside, '/');
    memset(file, 0, sizeof *file);
    if (asprintf(&file->path, "%.*s%s", slash ? (int)(slash + 1 - beside) : 0, beside, name) < 0) {
        file->path = NULL;
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to open %.200s", name);
    }
    FILE *in = fopen(file->path, "rb");
    if (!in && errno == ENOENT)
        return FLATCLIP_OK;
    if (!in)
        return fc_fail(err, FLATCLIP_ERR_IO, "cannot open %.200s: %s", file->path,
                       strerror(errno));
    const flatclip_status status = read_open(in, limit, file, err);
    fclose(in);
    return status;
}

void fc_small_file_free(fc_small_file *file)
{
    free(file->text);
    free(file->path);
    memset(file, 0, sizeof *file);
}
