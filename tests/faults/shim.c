/* Put before the C library (LD_PRELOAD), it counts every operation that changes a file, and at the one that the environment
 * names either dies as by kill -9 or fails as a full disk does.
 *
 *   FAULT_AT=n      the operation, counted from 1; 0: none
 *   FAULT_MODE      "die" or "fail"
 *   FAULT_COUNT     file that gets the number of operations when the process ends
 *
 * A write that is died at is done by half. Opening counts where it may make, cut or change a file; writing counts for
 * files that were opened so. What is below /proc, /dev/null and the like does not count, memory below /dev/shm does. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define MOST_FILES 4096
static long operations;
static long at = -1;
static int dies;
static char written[MOST_FILES];

__attribute__((constructor)) static void begin(void) {
    const char *where = getenv("FAULT_AT"), *mode = getenv("FAULT_MODE");
    at = where ? atol(where) : 0;
    dies = mode && strcmp(mode, "die") == 0;
}

__attribute__((destructor)) static void end(void) {
    const char *path = getenv("FAULT_COUNT");
    char text[32];
    if (!path) return;
    int file = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    int length = snprintf(text, sizeof text, "%ld", operations);
    if (file >= 0 && syscall(SYS_write, file, text, length) == length) syscall(SYS_close, file);
}

static void die(void) {
    syscall(SYS_kill, getpid(), SIGKILL);
    for (;;) pause();
}

/* Whether this operation is to fail. */
static int strikes(void) {
    long now = __atomic_add_fetch(&operations, 1, __ATOMIC_SEQ_CST);
    if (at <= 0 || now != at) return 0;
    if (dies) die();
    return 1;
}

static int outside(const char *path) {
    return strncmp(path, "/proc/", 6) == 0 || strncmp(path, "/sys/", 5) == 0 ||
           (strncmp(path, "/dev/", 5) == 0 && strncmp(path, "/dev/shm/", 9) != 0);
}

static int changes(const char *path, int flags) {
    return ((flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC))) && !outside(path);
}

static int opened(int directory, const char *path, int flags, mode_t mode) {
    int counts = changes(path, flags);
    if (counts && strikes()) {
        errno = ENOSPC;
        return -1;
    }
    int file = syscall(SYS_openat, directory, path, flags | O_LARGEFILE, mode);
    if (file >= 0 && file < MOST_FILES) written[file] = (char)counts;
    return file;
}

#define MODE(flags, last)                                        \
    mode_t mode = 0;                                             \
    if ((flags) & (O_CREAT | __O_TMPFILE)) {                     \
        va_list arguments;                                       \
        va_start(arguments, last);                               \
        mode = va_arg(arguments, mode_t);                        \
        va_end(arguments);                                       \
    }

int open(const char *path, int flags, ...) { MODE(flags, flags) return opened(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags, flags) return opened(AT_FDCWD, path, flags, mode); }
int openat(int directory, const char *path, int flags, ...) { MODE(flags, flags) return opened(directory, path, flags, mode); }
int openat64(int directory, const char *path, int flags, ...) { MODE(flags, flags) return opened(directory, path, flags, mode); }

int close(int file) {
    if (file >= 0 && file < MOST_FILES) written[file] = 0;
    return syscall(SYS_close, file);
}

static int is_written(int file) { return file >= 0 && file < MOST_FILES && written[file]; }

ssize_t write(int file, const void *bytes, size_t length) {
    if (is_written(file)) {
        long now = __atomic_add_fetch(&operations, 1, __ATOMIC_SEQ_CST);
        if (at > 0 && now == at) {
            if (dies) {
                syscall(SYS_write, file, bytes, length / 2);
                die();
            }
            errno = ENOSPC;
            return -1;
        }
    }
    return syscall(SYS_write, file, bytes, length);
}

ssize_t writev(int file, const struct iovec *parts, int count) {
    if (is_written(file) && strikes()) {
        errno = ENOSPC;
        return -1;
    }
    return syscall(SYS_writev, file, parts, count);
}

#define FAILS(number)      \
    if (strikes()) {       \
        errno = number;    \
        return -1;         \
    }

int ftruncate(int file, off_t length) { FAILS(ENOSPC) return syscall(SYS_ftruncate, file, length); }
int ftruncate64(int file, off64_t length) { FAILS(ENOSPC) return syscall(SYS_ftruncate, file, length); }
int fsync(int file) { FAILS(EIO) return syscall(SYS_fsync, file); }
int fdatasync(int file) { FAILS(EIO) return syscall(SYS_fdatasync, file); }
int rename(const char *from, const char *to) { FAILS(ENOSPC) return syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0); }
int unlink(const char *path) { FAILS(EIO) return syscall(SYS_unlinkat, AT_FDCWD, path, 0); }
int unlinkat(int directory, const char *path, int flags) { FAILS(EIO) return syscall(SYS_unlinkat, directory, path, flags); }
int rmdir(const char *path) { FAILS(EIO) return syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR); }
int mkdir(const char *path, mode_t mode) { FAILS(ENOSPC) return syscall(SYS_mkdirat, AT_FDCWD, path, mode); }
int flock(int file, int operation) { FAILS(ENOLCK) return syscall(SYS_flock, file, operation); }
