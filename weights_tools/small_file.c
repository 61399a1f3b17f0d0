/* Reading small files that lie beside another. */
#define _GNU_SOURCE
#include "weights_tools/small_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static flatclip_status fail_io(const fc_small_file *file, flatclip_error *err)
{
    return fc_fail(err, FLATCLIP_ERR_IO, "cannot read %.200s: %s", file->path, strerror(errno));
}

static flatclip_status read_open(int in, size_t limit, fc_small_file *file, flatclip_error *err)
{
    struct stat info;
    if (fstat(in, &info))
        return fail_io(file, err);
    if (!S_ISREG(info.st_mode))
        return fc_fail(err, FLATCLIP_ERR_IO, "%.200s is not a regular file", file->path);
    if (info.st_size > (off_t)limit)
        return fc_fail(err, FLATCLIP_ERR_FORMAT, "%.150s has %lld bytes, at most %zu are expected",
                       file->path, (long long)info.st_size, limit);
    const size_t bytes = (size_t)info.st_size;
    file->text = malloc(bytes + 1);
    if (!file->text)
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to read %.200s", file->path);
    for (ssize_t got = 1; file->bytes < bytes && got;) {
        got = read(in, file->text + file->bytes, bytes - file->bytes);
        if (got < 0 && errno != EINTR)
            return fail_io(file, err);
        file->bytes += got > 0 ? (size_t)got : 0;
    }
    file->text[file->bytes] = '\0';
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
    /* Without O_NONBLOCK a named pipe would wait here for a writer. */
    const int in = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (in < 0)
        return errno == ENOENT ? FLATCLIP_OK : fail_io(file, err);
    const flatclip_status status = read_open(in, limit, file, err);
    close(in);
    return status;
}

void fc_small_file_free(fc_small_file *file)
{
    free(file->text);
    free(file->path);
    memset(file, 0, sizeof *file);
}
