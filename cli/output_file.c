/* Temporary file, then rename; see output_file.h. */
#define _GNU_SOURCE /* fallocate */
#include "cli/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/error.h"

enum { NAME_ATTEMPTS = 100 };

/* The one place with static data: a signal handler has no argument to find its files by. */
static const char *volatile unfinished[FC_OUTPUT_FILES];

static const int ending_signals[] = { SIGINT, SIGTERM, SIGHUP };
enum { ENDING_SIGNALS = sizeof ending_signals / sizeof ending_signals[0] };

static void remove_and_end(int number)
{
    for (int i = 0; i < FC_OUTPUT_FILES; i++) {
        if (unfinished[i])
            unlink(unfinished[i]);
    }
    _exit(128 + number);
}

static void ending_set(sigset_t *set)
{
    sigemptyset(set);
    for (int i = 0; i < ENDING_SIGNALS; i++)
        sigaddset(set, ending_signals[i]);
}

void fc_output_file_catch_signals(void)
{
    struct sigaction action = { 0 }, before;

    action.sa_handler = remove_and_end;
    ending_set(&action.sa_mask);
    for (int i = 0; i < ENDING_SIGNALS; i++) {
        /* nohup and shells' background jobs ignore some on purpose. */
        if (sigaction(ending_signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(ending_signals[i], &action, NULL);
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

void fc_output_file_hold_signals(void)
{
    sigset_t set;

    ending_set(&set);
    sigprocmask(SIG_BLOCK, &set, NULL);
}

void fc_output_file_let_signals(void)
{
    sigset_t set;

    ending_set(&set);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

/* What a user can do about reason, appended to a message. */
static const char *advice(int reason)
{
    switch (reason) {
    case ENOENT: return "; make the folder first";
    case EACCES:
    case EPERM:
    case EROFS: return "; choose a folder that you may write to";
    case ENOSPC:
    case EDQUOT: return "; make room or choose another disk";
    case EFBIG: return "; raise the file size limit (ulimit -f) or write to another disk";
    default: return "";
    }
}

static flatclip_status cannot_write(const char *path, int reason, flatclip_error *err)
{
    return fc_fail(err, FLATCLIP_ERR_IO, "cannot write %s: %s%s", path, strerror(reason),
                   advice(reason));
}

/* Writes "FOLDER/.NAME.PID.tmp", or with a number behind PID from the second attempt on. */
static void name_temporary(fc_output_file *file, size_t bytes, int attempt)
{
    const char *slash = strrchr(file->path, '/');
    const int folder_len = slash ? (int)(slash + 1 - file->path) : 0;

    if (attempt == 0)
        snprintf(file->temporary, bytes, "%.*s.%s.%ld.tmp", folder_len, file->path,
                 file->path + folder_len, (long)getpid());
    else
        snprintf(file->temporary, bytes, "%.*s.%s.%ld.%d.tmp", folder_len, file->path,
                 file->path + folder_len, (long)getpid(), attempt);
}

/* Creates the temporary file under a name that nobody uses. Returns its descriptor or -1. */
static int create_temporary(fc_output_file *file, size_t bytes)
{
    for (int attempt = 0; attempt < NAME_ATTEMPTS; attempt++) {
        name_temporary(file, bytes, attempt);
        /* Known to the handler before it exists: a signal in between leaves nothing behind. */
        unfinished[file->slot] = file->temporary;
        const int descriptor =
            open(file->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (descriptor >= 0)
            return descriptor;
        unfinished[file->slot] = NULL;
        if (errno != EEXIST)
            break;
    }
    return -1;
}

/* Renaming would put a plain file in the place of a folder (which fails) or of a device. */
static flatclip_status check_place(const char *path, flatclip_error *err)
{
    struct stat info;

    if (stat(path, &info) != 0 || S_ISREG(info.st_mode))
        return FLATCLIP_OK;
    return fc_fail(err, FLATCLIP_ERR_IO, "cannot write %s: it is %s; choose another name", path,
                   S_ISDIR(info.st_mode) ? "a folder" : "no plain file");
}

static int free_slot(void)
{
    for (int i = 0; i < FC_OUTPUT_FILES; i++) {
        if (!unfinished[i])
            return i;
    }
    return -1;
}

flatclip_status fc_output_file_open(fc_output_file *file, const char *path, flatclip_error *err)
{
    const size_t bytes = strlen(path) + 48;

    memset(file, 0, sizeof *file);
    FC_TRY(check_place(path, err));
    file->slot = free_slot();
    if (file->slot < 0)
        return fc_fail(err, FLATCLIP_ERR_ARGUMENT, "%s: too many outputs at one time", path);
    file->path = strdup(path);
    file->temporary = malloc(bytes);
    if (!file->path || !file->temporary) {
        fc_output_file_discard(file);
        return fc_fail(err, FLATCLIP_ERR_MEMORY, "%s: no memory to write it", path);
    }

    const int descriptor = create_temporary(file, bytes);
    file->stream = descriptor >= 0 ? fdopen(descriptor, "w+b") : NULL;
    if (!file->stream) {
        const int reason = errno;
        if (descriptor >= 0)
            close(descriptor);
        fc_output_file_discard(file);
        return cannot_write(path, reason, err);
    }
    return FLATCLIP_OK;
}

flatclip_status fc_output_file_reserve(fc_output_file *file, uint64_t bytes, flatclip_error *err)
{
    if (bytes == 0 || fallocate(fileno(file->stream), 0, 0, (off_t)bytes) == 0)
        return FLATCLIP_OK;
    if (errno != ENOSPC && errno != EDQUOT && errno != EFBIG)
        return FLATCLIP_OK;
    const int reason = errno;
    return fc_fail(err, FLATCLIP_ERR_IO, "cannot write %s: it needs %llu MB: %s%s", file->path,
                   (unsigned long long)(bytes / 1000000 + 1), strerror(reason), advice(reason));
}

flatclip_status fc_output_file_check(const fc_output_file *file, flatclip_error *err)
{
    return ferror(file->stream) ? cannot_write(file->path, errno, err) : FLATCLIP_OK;
}

/* Some file systems have no fsync; that they say so is no failure. */
static int sync_to_disk(int descriptor)
{
    return fsync(descriptor) == 0 || errno == EINVAL || errno == ENOTSUP ? 0 : -1;
}

flatclip_status fc_output_file_finish(fc_output_file *file, const void *header, size_t bytes,
                                      flatclip_error *err)
{
    FILE *stream = file->stream;
    const off_t end = ftello(stream);

    if (end < 0 || fseeko(stream, 0, SEEK_SET) != 0 ||
        (bytes > 0 && fwrite(header, 1, bytes, stream) != bytes) ||
        fflush(stream) != 0 || ftruncate(fileno(stream), end) != 0 ||
        sync_to_disk(fileno(stream)) != 0)
        return cannot_write(file->path, errno, err);
    return FLATCLIP_OK;
}

flatclip_status fc_output_file_publish(fc_output_file *file, flatclip_error *err)
{
    flatclip_status status = FLATCLIP_OK;

    if (rename(file->temporary, file->path) != 0)
        status = cannot_write(file->path, errno, err);
    else
        unfinished[file->slot] = NULL;
    fc_output_file_discard(file);
    return status;
}

void fc_output_file_discard(fc_output_file *file)
{
    if (file->stream)
        fclose(file->stream);
    if (file->temporary && unfinished[file->slot] == file->temporary) {
        unlink(file->temporary);
        unfinished[file->slot] = NULL;
    }
    free(file->temporary);
    free(file->path);
    memset(file, 0, sizeof *file);
}
