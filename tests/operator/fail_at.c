// SPDX-License-Identifier: Apache-2.0

// A library to preload into a server: lets one of the system calls of its start fail.
//
//   FAIL_AT_DIRECTORY  only calls on files below this directory count, and calls without a file
//   FAIL_AT_REPORT     a file to which a line is added for each call that counts: its step, which
//                      is "function path", the path below the directory with # for each number in
//                      it; or "function" alone for calls that concern no file
//   FAIL_AT_STEP       the step that fails
//   FAIL_AT_COUNT      the number, from 1, of the first call of that step that fails; after it, the
//                      calls that concern the same file or port fail too
//   FAIL_AT_ERRNO      the number of the error
//   FAIL_AT_FAILED     a file that is made when the call fails; it holds the object of the call:
//                      the whole path, the port, or nothing
//
// Calls count until the server has logged that it serves.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../lib/preload.h"

static const char kServes[] = "listening for ZooKeeper clients on";

static atomic_long calls;
static atomic_bool serves;
static atomic_bool has_failed;
static char failed[PATH_MAX];  // the object of the call that failed first

// Returns the error of a call of that step, or 0. `object`: the file or port that it concerns.
static int error_of(const char* function, const char* path, const char* object) {
  if (atomic_load(&serves)) return 0;
  char line[PATH_MAX + 64];
  make_line(function, path, line, sizeof(line));
  add_to("FAIL_AT_REPORT", line);
  const char* step = getenv("FAIL_AT_STEP");
  const char* count = getenv("FAIL_AT_COUNT");
  const char* number = getenv("FAIL_AT_ERRNO");
  if (step == NULL || count == NULL || number == NULL) return 0;
  const int error = atoi(number);
  const bool matches = is_step(line, step);
  if (atomic_load(&has_failed)) {
    const bool is_same = strcmp(object, failed) == 0;
    const bool is_of_all = *object != '\0' && (error == EIO || error == EACCES);
    return is_same && (matches || is_of_all) ? error : 0;
  }
  if (!matches || atomic_fetch_add(&calls, 1) + 1 != atol(count)) return 0;
  snprintf(failed, sizeof(failed), "%s", object);
  atomic_store(&has_failed, true);
  add_to("FAIL_AT_FAILED", object);
  return error;
}

static int on_path(const char* function, const char* typed) {
  if (typed == NULL) return 0;
  char path[PATH_MAX];
  int length = snprintf(path, sizeof(path), "%s", typed);
  while (length > 1 && length < PATH_MAX && path[length - 1] == '/') path[--length] = '\0';
  const char* inside = below("FAIL_AT_DIRECTORY", path);
  if (inside == NULL) return 0;
  // These files are text logs, without which a server starts.
  if (strstr(path, "/LOG") != NULL || strstr(path, "/server.log") != NULL) return 0;
  return error_of(function, inside, path);
}

static int on_fd(const char* function, int fd) {
  char path[PATH_MAX];
  return path_of_fd(fd, path) ? on_path(function, path) : 0;
}

// Handles a call without a file. For a call that gRPC makes, the step is "gRPC-function".
static int on_nothing(const char* function, const void* caller) {
  Dl_info info;
  char step[64];
  const bool is_found = dladdr(caller, &info) != 0 && info.dli_fname != NULL;
  const bool is_grpc = is_found && (strstr(info.dli_fname, "libgrpc") != NULL ||
                                    strstr(info.dli_fname, "libgpr") != NULL);
  snprintf(step, sizeof(step), "%s%s", is_grpc ? "gRPC-" : "", function);
  return error_of(step, "", "");
}

static int opened(const char* name, const char* path, int flags, mode_t mode) {
  int (*real)(const char*, int, ...) = next(name);
  const int makes = (flags & O_CREAT) != 0 && access(path, F_OK) != 0;
  const int error = on_path(makes ? "create" : "open", path);
  return error != 0 ? fail(error) : real(path, flags, mode);
}
OPEN(open)
OPEN(open64)

DIR* opendir(const char* path) {
  DIR* (*real)(const char*) = next("opendir");
  const int error = on_path("opendir", path);
  if (error == 0) return real(path);
  errno = error;
  return NULL;
}

#define ON_FD(type, name, parameters, arguments, function) \
  type name parameters {                                   \
    type(*real) parameters = next(#name);                  \
    const int error = on_fd(function, fd);                 \
    return error != 0 ? fail(error) : real arguments;      \
  }
ON_FD(ssize_t, read, (int fd, void* bytes, size_t size), (fd, bytes, size), "read")
ON_FD(ssize_t, pread, (int fd, void* bytes, size_t size, off_t at), (fd, bytes, size, at), "read")
ON_FD(ssize_t, pread64, (int fd, void* bytes, size_t size, off64_t at), (fd, bytes, size, at),
      "read")
ON_FD(ssize_t, pwrite, (int fd, const void* bytes, size_t size, off_t at), (fd, bytes, size, at),
      "write")
ON_FD(ssize_t, pwrite64, (int fd, const void* bytes, size_t size, off64_t at),
      (fd, bytes, size, at), "write")
ON_FD(ssize_t, pwritev, (int fd, const struct iovec* pieces, int n, off_t at), (fd, pieces, n, at),
      "write")
ON_FD(ssize_t, pwritev64, (int fd, const struct iovec* pieces, int n, off64_t at),
      (fd, pieces, n, at), "write")
ON_FD(int, ftruncate, (int fd, off_t size), (fd, size), "truncate")
ON_FD(int, ftruncate64, (int fd, off64_t size), (fd, size), "truncate")
ON_FD(int, fallocate, (int fd, int mode, off_t at, off_t size), (fd, mode, at, size), "allocate")
ON_FD(int, fallocate64, (int fd, int mode, off64_t at, off64_t size), (fd, mode, at, size),
      "allocate")
ON_FD(int, fsync, (int fd), (fd), "sync")
ON_FD(int, fdatasync, (int fd), (fd), "sync")
ON_FD(int, flock, (int fd, int operation), (fd, operation), "lock")
ON_FD(int, fstat, (int fd, struct stat* info), (fd, info), "stat")
ON_FD(int, fstat64, (int fd, struct stat64* info), (fd, info), "stat")

ssize_t write(int fd, const void* bytes, size_t size) {
  ssize_t (*real)(int, const void*, size_t) = next("write");
  const int error = on_fd("write", fd);
  if (error != 0) return fail(error);
  if (fd == STDOUT_FILENO && memmem(bytes, size, kServes, strlen(kServes)) != NULL) {
    atomic_store(&serves, true);
  }
  return real(fd, bytes, size);
}

#define ON_PATH(type, name, parameters, arguments, function, path) \
  type name parameters {                                           \
    type(*real) parameters = next(#name);                          \
    const int error = on_path(function, path);                     \
    return error != 0 ? fail(error) : real arguments;              \
  }
ON_PATH(int, stat, (const char* path, struct stat* info), (path, info), "stat", path)
ON_PATH(int, stat64, (const char* path, struct stat64* info), (path, info), "stat", path)
ON_PATH(int, access, (const char* path, int mode), (path, mode), "stat", path)
ON_PATH(int, statvfs, (const char* path, struct statvfs* info), (path, info), "space", path)
ON_PATH(int, statvfs64, (const char* path, struct statvfs64* info), (path, info), "space", path)
ON_PATH(int, rename, (const char* from, const char* to), (from, to), "rename", from)
ON_PATH(int, link, (const char* from, const char* to), (from, to), "link", to)
ON_PATH(int, unlink, (const char* path), (path), "remove", path)
ON_PATH(int, rmdir, (const char* path), (path), "remove", path)
ON_PATH(int, mkdir, (const char* path, mode_t mode), (path, mode), "mkdir", path)

int bind(int fd, const struct sockaddr* address, socklen_t size) {
  int (*real)(int, const struct sockaddr*, socklen_t) = next("bind");
  char port[16] = "";
  if (address->sa_family == AF_INET) {
    snprintf(port, sizeof(port), "%d", ntohs(((const struct sockaddr_in*)address)->sin_port));
  } else if (address->sa_family == AF_INET6) {
    snprintf(port, sizeof(port), "%d", ntohs(((const struct sockaddr_in6*)address)->sin6_port));
  } else {
    return real(fd, address, size);
  }
  // Libraries bind port 0 to find out whether there is IPv6; such calls do not count.
  const int error = strcmp(port, "0") == 0 ? 0 : error_of("bind", "", port);
  return error != 0 ? fail(error) : real(fd, address, size);
}

int listen(int fd, int backlog) {
  int (*real)(int, int) = next("listen");
  struct sockaddr_in6 address;
  socklen_t size = sizeof(address);
  char port[16] = "";
  // The port has the same place in an IPv4 address.
  if (getsockname(fd, (struct sockaddr*)&address, &size) == 0) {
    snprintf(port, sizeof(port), "%d", ntohs(address.sin6_port));
  }
  const int error = error_of("listen", "", port);
  return error != 0 ? fail(error) : real(fd, backlog);
}

#define ON_NOTHING(name, parameters, arguments)                       \
  int name parameters {                                               \
    int(*real) parameters = next(#name);                              \
    const int error = on_nothing(#name, __builtin_return_address(0)); \
    return error != 0 ? fail(error) : real arguments;                 \
  }
ON_NOTHING(socket, (int domain, int type, int protocol), (domain, type, protocol))
ON_NOTHING(epoll_create1, (int flags), (flags))
ON_NOTHING(epoll_create, (int size), (size))
ON_NOTHING(eventfd, (unsigned int value, int flags), (value, flags))
ON_NOTHING(timerfd_create, (int clock, int flags), (clock, flags))

// Counts only calls of the program itself, because other libraries may go on without the memory.
void* mmap(void* address, size_t size, int protection, int flags, int fd, off_t at) {
  void* (*real)(void*, size_t, int, int, int, off_t) = next("mmap");
  Dl_info info;
  const bool is_own = dladdr(__builtin_return_address(0), &info) != 0 && info.dli_fname != NULL &&
                      strcmp(info.dli_fname, program_invocation_name) == 0;
  const int error = is_own ? error_of("mmap", "", "") : 0;
  if (error == 0) return real(address, size, protection, flags, fd, at);
  errno = error;
  return MAP_FAILED;
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                   void* argument) {
  int (*real)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*) = next("pthread_create");
  const int error = on_nothing("pthread_create", __builtin_return_address(0));
  return error != 0 ? error : real(thread, attributes, run, argument);
}
