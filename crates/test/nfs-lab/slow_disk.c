/* LD_PRELOAD for a server whose disk is slow: reads, writes and syncs of files take LINESIDE_DISK_MS longer; as soon as the
 * file LINESIDE_DISK_INODE is there, only those of the inode that it has.
 * cc -shared -fPIC -o slow_disk.so slow_disk.c -ldl */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* Sockets are read and written by the same calls. */
static void wait_for_disk(int fd)
{
    struct stat facts;
    const char *ms = getenv("LINESIDE_DISK_MS");
    long wanted = ms ? atol(ms) : 0;
    if (wanted <= 0 || fstat(fd, &facts) || !S_ISREG(facts.st_mode)) return;
    if (getenv("LINESIDE_DISK_INODE")) {
        unsigned long inode = 0;
        FILE *file = fopen(getenv("LINESIDE_DISK_INODE"), "r");
        if (!file) return;
        if (fscanf(file, "%lu", &inode) != 1) inode = 0;
        fclose(file);
        if (inode != facts.st_ino) return;
    }
    struct timespec time = { wanted / 1000, wanted % 1000 * 1000000 };
    nanosleep(&time, NULL);
}

#define SLOW(type, name, parameters, arguments) \
    type name parameters \
    { \
        static type (*real) parameters; \
        if (!real) real = (type (*) parameters)dlsym(RTLD_NEXT, #name); \
        wait_for_disk(fd); \
        return real arguments; \
    }

/* Ganesha's file systems are loaded so that they find libc before us. */
void *dlopen(const char *path, int flags)
{
    void *(*real)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
    return real(path, flags & ~RTLD_DEEPBIND);
}

SLOW(ssize_t, pread, (int fd, void *data, size_t size, off_t offset), (fd, data, size, offset))
SLOW(ssize_t, pread64, (int fd, void *data, size_t size, off64_t offset), (fd, data, size, offset))
SLOW(ssize_t, pwrite, (int fd, const void *data, size_t size, off_t offset), (fd, data, size, offset))
SLOW(ssize_t, pwrite64, (int fd, const void *data, size_t size, off64_t offset), (fd, data, size, offset))
SLOW(ssize_t, preadv, (int fd, const struct iovec *parts, int count, off_t offset), (fd, parts, count, offset))
SLOW(ssize_t, preadv64, (int fd, const struct iovec *parts, int count, off64_t offset), (fd, parts, count, offset))
SLOW(ssize_t, pwritev, (int fd, const struct iovec *parts, int count, off_t offset), (fd, parts, count, offset))
SLOW(ssize_t, pwritev64, (int fd, const struct iovec *parts, int count, off64_t offset), (fd, parts, count, offset))
SLOW(int, fsync, (int fd), (fd))
SLOW(int, fdatasync, (int fd), (fd))
