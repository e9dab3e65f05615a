// SPDX-License-Identifier: Apache-2.0

// A library to preload into a server: resolves names below "test." to 127.0.0.1, and lets the
// lookup of a name hang while a file of that name exists.
//
//   SLOW_LOOKUP_DIRECTORY  the directory of these files
#define _GNU_SOURCE
#include <limits.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../lib/preload.h"

static const char kTail[] = ".test";

int getaddrinfo(const char* name, const char* service, const struct addrinfo* hints,
                struct addrinfo** found) {
  int (*real)(const char*, const char*, const struct addrinfo*, struct addrinfo**) =
      next("getaddrinfo");
  const char* directory = getenv("SLOW_LOOKUP_DIRECTORY");
  const size_t size = name == NULL ? 0 : strlen(name);
  const size_t tail = sizeof(kTail) - 1;
  if (directory == NULL || size < tail || strcmp(name + size - tail, kTail) != 0) {
    return real(name, service, hints, found);
  }
  char path[PATH_MAX];
  snprintf(path, sizeof(path), "%s/%s", directory, name);
  while (access(path, F_OK) == 0) usleep(10000);
  return real("127.0.0.1", service, hints, found);
}
