/* Children of the stress program. */
#define _GNU_SOURCE
#include "bench/stress/stress_child.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_ARGUMENTS = 64, WAIT_MS = 60000 };

int stress_child_open(stress_child_place *place)
{
    char self[900];
    const char *base = getenv("TMPDIR");
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    memset(place, 0, sizeof *place);
    self[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(self, '/');
    if (!slash)
        return 0;
    *slash = '\0';
    snprintf(place->program, sizeof place->program, "%s/flatclip", self);
    if (access(place->program, X_OK) != 0)
        return 0;
    snprintf(place->folder, sizeof place->folder, "%.900s/flatclip-stress-XXXXXX",
             base && *base ? base : "/tmp");
    if (mkdtemp(place->folder))
        return 1;
    place->folder[0] = '\0';
    return 0;
}

int stress_child_files(const stress_child_place *place, int remove)
{
    int count = 0;
    DIR *folder = opendir(place->folder);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        count++;
        if (remove)
            unlinkat(dirfd(folder), entry->d_name, 0);
    }
    if (folder)
        closedir(folder);
    return count;
}

void stress_child_close(const stress_child_place *place)
{
    if (!place->folder[0])
        return;
    stress_child_files(place, 1);
    rmdir(place->folder);
}

/* In the child: streams, limit, program. */
static void become(const stress_child_place *place, const stress_child_setting *setting,
                   char **argv)
{
    const char *out = setting->standard_output ? setting->standard_output : "/dev/null";
    const int null = open("/dev/null", O_RDWR), written = open(out, O_WRONLY);
    dup2(setting->input >= 0 ? setting->input : null, 0);
    dup2(written, 1);
    dup2(null, 2);
    for (int fd = 3; fd < 64; fd++)
        close(fd);
    signal(SIGINT, SIG_DFL); /* which jobs in a shell's background are told to ignore */
    signal(SIGHUP, SIG_DFL); /* and those under nohup */
    if (setting->file_limit >= 0) {
        const struct rlimit limit = { (rlim_t)setting->file_limit, (rlim_t)setting->file_limit };
        setrlimit(RLIMIT_FSIZE, &limit);
    }
    execv(place->program, argv);
    _exit(126);
}

pid_t stress_child_start(const stress_child_place *place, const stress_child_setting *setting,
                         const char *const *arguments)
{
    char *argv[MAX_ARGUMENTS + 2] = { (char *)place->program };
    for (int i = 0; i < MAX_ARGUMENTS && arguments[i]; i++)
        argv[i + 1] = (char *)arguments[i];
    const pid_t pid = fork();
    if (pid == 0)
        become(place, setting, argv);
    return pid;
}

int stress_child_wait(pid_t pid)
{
    const struct timespec pause = { 0, 1000000 };
    int status = 0;
    for (int ms = 0; pid > 0 && ms < WAIT_MS; ms++) {
        if (waitpid(pid, &status, WNOHANG) == pid) {
            if (WIFEXITED(status))
                return WEXITSTATUS(status);
            return WTERMSIG(status) == SIGKILL ? 128 + SIGKILL : STRESS_CHILD_CRASHED;
        }
        nanosleep(&pause, NULL);
    }
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
    }
    return STRESS_CHILD_HANGS;
}
