// SPDX-License-Identifier: Apache-2.0

// Functions shared by the libraries that are preloaded into programs under test.
//
// REQUIRES: _GNU_SOURCE is defined before the first header.
#pragma once

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

// Returns the function that the library replaces.
static inline void* next(const char* name) {
  void* function = dlsym(RTLD_NEXT, name);
  if (function == NULL) abort();
  return function;
}

static inline int fail(int error) {
  errno = error;
  return -1;
}

// Adds `text` to the file that the environment variable names, if it is set. Uses none of the
// functions that a library may replace.
static inline void add_to(const char* variable, const char* text) {
  const char* path = getenv(variable);
  if (path == NULL) return;
  const long fd =
      syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return;
  syscall(SYS_write, fd, text, strlen(text));
  syscall(SYS_close, fd);
}

// Makes "function path\n", with # for each number in the path; "function\n" without a path.
static inline void make_line(const char* function, const char* path, char* line, size_t size) {
  char* to = line + snprintf(line, size, "%s%s", function, *path == '\0' ? "" : " ");
  for (; *path != '\0' && to < line + size - 3; ++path) {
    const bool is_digit = *path >= '0' && *path <= '9';
    if (is_digit && to[-1] == '#') continue;
    *to++ = is_digit ? '#' : *path;
  }
  *to++ = '\n';
  *to = '\0';
}

// Returns whether `line`, which make_line has made, is `step` and a newline.
static inline bool is_step(const char* line, const char* step) {
  const size_t size = strlen(step);
  return strncmp(line, step, size) == 0 && strcmp(line + size, "\n") == 0;
}

// Returns the path below the directory that the environment variable names; NULL if `path` is
// somewhere else.
static inline const char* below(const char* variable, const char* path) {
  const char* directory = getenv(variable);
  if (directory == NULL) return NULL;
  const size_t size = strlen(directory);
  return strncmp(path, directory, size) == 0 && path[size] == '/' ? path + size + 1 : NULL;
}

// Writes the path of an open file into `path`; returns whether it has one.
static inline bool path_of_fd(int fd, char path[PATH_MAX]) {
  char link[64];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  const ssize_t size = readlink(link, path, PATH_MAX - 1);
  if (size <= 0) return false;
  path[size] = '\0';
  return true;
}

// Defines an open function, which calls `opened(name, path, flags, mode)`.
#define OPEN(name)                                                         \
  int name(const char* path, int flags, ...) {                             \
    va_list arguments;                                                     \
    va_start(arguments, flags);                                            \
    const mode_t mode = (flags & O_CREAT) ? va_arg(arguments, mode_t) : 0; \
    va_end(arguments);                                                     \
    return opened(#name, path, flags, mode);                               \
  }
