// SPDX-License-Identifier: Apache-2.0

// A library to preload into a server or a tool: kills the process with SIGKILL right before one of
// its operations on the files below a directory, and reports the operation.
//
//   KILL_AT_DIRECTORY  the directory
//   KILL_AT_STEP       "operation path", the path below the directory, with # for each number in
//                      it; not set: every step
//   KILL_AT            the number, from 1, of the operation of that step to kill before; 0: never
//   KILL_AT_REPORT     a file to which every step that happens is appended, one per line
//   KILL_AT_FULL       a file; while it exists, the operations of the step find the disk full
//   KILL_AT_ERROR      a file; while it exists, the operations of the step named in it, or of
//                      "read path", fail with an I/O error. With "once " before the step, only the
//                      first of them fails, and removes the file
//
// Operations are calls that change the files that a restart finds: creating a file, writing,
// truncating, syncing, renaming, linking, removing.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../lib/preload.h"

static const char kRead[] = "read";

static atomic_long operations;

// Returns whether the operation is to fail with an I/O error.
static int meets_error(const char* line) {
  const char* path = getenv("KILL_AT_ERROR");
  if (path == NULL) return 0;
  int (*real_open)(const char*, int, ...) = next("open");
  int (*real_unlink)(const char*) = next("unlink");
  const int fd = real_open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char step[PATH_MAX];
  const ssize_t size = read(fd, step, sizeof(step) - 1);
  close(fd);
  if (size <= 0) return 0;
  step[size] = '\0';
  const char* once = "once ";
  if (strncmp(step, once, strlen(once)) != 0) return strcmp(step, line) == 0;
  return strcmp(step + strlen(once), line) == 0 && real_unlink(path) == 0;
}

// Counts an operation. Returns the error with which it is to fail: ENOSPC, EIO, or 0.
static int count(const char* operation, const char* path) {
  const char* at = getenv("KILL_AT");
  const char* step = getenv("KILL_AT_STEP");
  const char* inside = below("KILL_AT_DIRECTORY", path);
  if (at == NULL || inside == NULL) return 0;
  // A restart reads neither the text logs nor the lock files.
  if (strstr(path, "/LOG") != NULL || strstr(path, "/LOCK") != NULL) return 0;
  if (strstr(path, "/server.log") != NULL) return 0;
  char line[PATH_MAX];
  make_line(operation, inside, line, sizeof(line));
  if (meets_error(line)) return EIO;
  // A read changes nothing, and is not counted.
  if (strcmp(operation, kRead) == 0) return 0;
  add_to("KILL_AT_REPORT", line);
  if (step != NULL && !is_step(line, step)) return 0;
  if (atomic_fetch_add(&operations, 1) + 1 == atol(at)) raise(SIGKILL);
  const char* full = getenv("KILL_AT_FULL");
  return full != NULL && access(full, F_OK) == 0 ? ENOSPC : 0;
}

static int count_fd(const char* operation, int fd) {
  char path[PATH_MAX];
  return path_of_fd(fd, path) ? count(operation, path) : 0;
}

static int count_at(const char* operation, int directory, const char* name) {
  char link[64];
  char path[PATH_MAX];
  if (name[0] == '/') return count(operation, name);
  if (directory == AT_FDCWD) {
    snprintf(link, sizeof(link), "/proc/self/cwd");
  } else {
    snprintf(link, sizeof(link), "/proc/self/fd/%d", directory);
  }
  const ssize_t size = readlink(link, path, sizeof(path) - strlen(name) - 2);
  if (size <= 0) return 0;
  path[size] = '/';
  strcpy(path + size + 1, name);
  return count(operation, path);
}

static int opened(const char* name, const char* path, int flags, mode_t mode) {
  int (*real)(const char*, int, ...) = next(name);
  const int makes = (flags & O_CREAT) != 0 && access(path, F_OK) != 0;
  const int error = makes ? count("create", path) : 0;
  return error != 0 ? fail(error) : real(path, flags, mode);
}

OPEN(open)
OPEN(open64)

#define ON_FILE(type, name, parameters, arguments, operation) \
  type name parameters {                                      \
    type(*real) parameters = next(#name);                     \
    const int error = count_fd(operation, fd);                \
    return error != 0 ? fail(error) : real arguments;         \
  }
ON_FILE(ssize_t, pread, (int fd, void* bytes, size_t size, off_t at), (fd, bytes, size, at), kRead)
ON_FILE(ssize_t, pread64, (int fd, void* bytes, size_t size, off64_t at), (fd, bytes, size, at),
        kRead)
ON_FILE(ssize_t, write, (int fd, const void* bytes, size_t size), (fd, bytes, size), "write")
ON_FILE(ssize_t, pwrite, (int fd, const void* bytes, size_t size, off_t at), (fd, bytes, size, at),
        "write")
ON_FILE(ssize_t, pwrite64, (int fd, const void* bytes, size_t size, off64_t at),
        (fd, bytes, size, at), "write")
ON_FILE(ssize_t, pwritev, (int fd, const struct iovec* pieces, int n, off_t at),
        (fd, pieces, n, at), "write")
ON_FILE(ssize_t, pwritev64, (int fd, const struct iovec* pieces, int n, off64_t at),
        (fd, pieces, n, at), "write")
ON_FILE(int, ftruncate, (int fd, off_t size), (fd, size), "truncate")
ON_FILE(int, ftruncate64, (int fd, off64_t size), (fd, size), "truncate")
ON_FILE(int, fallocate, (int fd, int mode, off_t at, off_t size), (fd, mode, at, size), "allocate")
ON_FILE(int, fallocate64, (int fd, int mode, off64_t at, off64_t size), (fd, mode, at, size),
        "allocate")
ON_FILE(int, fsync, (int fd), (fd), "sync")
ON_FILE(int, fdatasync, (int fd), (fd), "sync")

int rename(const char* from, const char* to) {
  int (*real)(const char*, const char*) = next("rename");
  const int error = count("rename", from);
  return error != 0 ? fail(error) : real(from, to);
}

int link(const char* from, const char* to) {
  int (*real)(const char*, const char*) = next("link");
  const int error = count("link", to);
  return error != 0 ? fail(error) : real(from, to);
}

// A removal needs no free space, so that it never fails with ENOSPC.
static int fails_removal(int error) { return error != 0 && error != ENOSPC; }

int unlink(const char* path) {
  int (*real)(const char*) = next("unlink");
  return fails_removal(count("remove", path)) ? fail(EIO) : real(path);
}

int rmdir(const char* path) {
  int (*real)(const char*) = next("rmdir");
  return fails_removal(count("remove", path)) ? fail(EIO) : real(path);
}

int unlinkat(int directory, const char* name, int flags) {
  int (*real)(int, const char*, int) = next("unlinkat");
  const int error = count_at("remove", directory, name);
  return fails_removal(error) ? fail(EIO) : real(directory, name, flags);
}

int mkdir(const char* path, mode_t mode) {
  int (*real)(const char*, mode_t) = next("mkdir");
  const int error = count("create", path);
  return error != 0 ? fail(error) : real(path, mode);
}
