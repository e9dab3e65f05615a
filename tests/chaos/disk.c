// SPDX-License-Identifier: Apache-2.0

// A library to preload into a server: makes its disk slow, or lets it stall for a while.
//
//   DISK_DIRECTORY  the directory whose files are on that disk
//   DISK_CONTROL    a file of four 32-bit words, which is mapped and read for each operation: the
//                   milliseconds that a sync takes at most; those that a write takes at most; not 0
//                   if all operations wait until this word is 0 again; and 0
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct Control {
  volatile uint32_t sync_ms, write_ms, stalled, unused;
};

static const struct Control kFast;
static const struct Control* control = &kFast;
static const char* directory = "";

__attribute__((constructor)) static void Begin(void) {
  const char* path = getenv("DISK_CONTROL");
  const char* below = getenv("DISK_DIRECTORY");
  if (path == NULL || below == NULL) return;
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  void* mapped = mmap(NULL, sizeof(struct Control), PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  if (mapped == MAP_FAILED) return;
  directory = below;
  control = mapped;
}

static void* next(const char* name) {
  void* function = dlsym(RTLD_NEXT, name);
  if (function == NULL) abort();
  return function;
}

static int is_on_disk(int fd) {
  char link[64];
  char path[PATH_MAX];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  const ssize_t size = readlink(link, path, sizeof(path) - 1);
  if (size <= 0) return 0;
  path[size] = '\0';
  const size_t length = strlen(directory);
  if (strncmp(path, directory, length) != 0 || path[length] != '/') return 0;
  return strstr(path, "/server.log") == NULL;
}

static void rest(uint32_t ms) {
  const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
  nanosleep(&time, NULL);
}

static void wait_for_disk(int fd, const volatile uint32_t* ms_max) {
  if (*ms_max == 0 && control->stalled == 0) return;
  if (!is_on_disk(fd)) return;
  // Waits for a time between half of the maximum and the maximum.
  const uint32_t ms = *ms_max;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (ms > 0) rest(ms / 2 + (uint32_t)(now.tv_nsec / 1000) % (ms / 2 + 1));
  while (control->stalled != 0) rest(5);
}

#define ON_DISK(type, name, parameters, arguments, ms) \
  type name parameters {                               \
    static type(*real) parameters;                     \
    if (real == NULL) real = next(#name);              \
    wait_for_disk(fd, &control->ms);                   \
    return real arguments;                             \
  }
ON_DISK(ssize_t, write, (int fd, const void* bytes, size_t size), (fd, bytes, size), write_ms)
ON_DISK(ssize_t, pwrite, (int fd, const void* bytes, size_t size, off_t at), (fd, bytes, size, at),
        write_ms)
ON_DISK(ssize_t, pwrite64, (int fd, const void* bytes, size_t size, off64_t at),
        (fd, bytes, size, at), write_ms)
ON_DISK(ssize_t, pwritev, (int fd, const struct iovec* pieces, int n, off_t at),
        (fd, pieces, n, at), write_ms)
ON_DISK(ssize_t, pwritev64, (int fd, const struct iovec* pieces, int n, off64_t at),
        (fd, pieces, n, at), write_ms)
ON_DISK(int, ftruncate, (int fd, off_t size), (fd, size), write_ms)
ON_DISK(int, ftruncate64, (int fd, off64_t size), (fd, size), write_ms)
ON_DISK(int, fallocate, (int fd, int mode, off_t at, off_t size), (fd, mode, at, size), write_ms)
ON_DISK(int, fallocate64, (int fd, int mode, off64_t at, off64_t size), (fd, mode, at, size),
        write_ms)
ON_DISK(int, fsync, (int fd), (fd), sync_ms)
ON_DISK(int, fdatasync, (int fd), (fd), sync_ms)
