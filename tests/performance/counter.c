// SPDX-License-Identifier: Apache-2.0

// A library to preload into servers: counts their allocations and their input and output system
// calls in two numbers of a file that other processes read meanwhile ($QUORATE_COUNTS/PID:
// allocations, calls). It does not count futexes: waiting threads show in the context switches,
// which the kernel counts.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static _Atomic uint64_t before_start[2];
static _Atomic uint64_t* counts = before_start;

enum { kAllocations, kCalls };

static void Count(int what) { atomic_fetch_add_explicit(&counts[what], 1, memory_order_relaxed); }

__attribute__((constructor)) static void Start(void) {
  const char* const directory = getenv("QUORATE_COUNTS");
  if (directory == NULL) return;
  char path[4096];
  snprintf(path, sizeof path, "%s/%d", directory, getpid());
  const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ftruncate(file, sizeof before_start) != 0) abort();
  void* const mapped = mmap(NULL, sizeof before_start, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (mapped == MAP_FAILED) abort();
  close(file);
  counts = mapped;
}

// --- Memory --------------------------------------------------------------------------------------

extern void* __libc_malloc(size_t size);
extern void* __libc_calloc(size_t count, size_t size);
extern void* __libc_realloc(void* block, size_t size);
extern void* __libc_memalign(size_t alignment, size_t size);

void* malloc(size_t size) {
  Count(kAllocations);
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  Count(kAllocations);
  return __libc_calloc(count, size);
}
void* realloc(void* block, size_t size) {
  Count(kAllocations);
  return __libc_realloc(block, size);
}
void* memalign(size_t alignment, size_t size) {
  Count(kAllocations);
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  Count(kAllocations);
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** block, size_t alignment, size_t size) {
  Count(kAllocations);
  *block = __libc_memalign(alignment, size);
  return *block == NULL ? 12 /* ENOMEM */ : 0;
}

// --- Input and output ----------------------------------------------------------------------------

// Defines a function `name` that counts and calls the C library's function.
#define COUNTED(result, name, parameters, arguments)                               \
  result name parameters {                                                         \
    static result(*_Atomic real) parameters;                                       \
    result(*found) parameters = atomic_load_explicit(&real, memory_order_relaxed); \
    if (found == NULL) {                                                           \
      found = (result(*) parameters)dlsym(RTLD_NEXT, #name);                       \
      atomic_store_explicit(&real, found, memory_order_relaxed);                   \
    }                                                                              \
    Count(kCalls);                                                                 \
    return found arguments;                                                        \
  }

COUNTED(ssize_t, read, (int file, void* to, size_t size), (file, to, size))
COUNTED(ssize_t, __read_chk, (int file, void* to, size_t size, size_t room), (file, to, size, room))
COUNTED(ssize_t, write, (int file, const void* from, size_t size), (file, from, size))
COUNTED(ssize_t, readv, (int file, const struct iovec* parts, int count), (file, parts, count))
COUNTED(ssize_t, writev, (int file, const struct iovec* parts, int count), (file, parts, count))
COUNTED(ssize_t, pread, (int file, void* to, size_t size, off_t at), (file, to, size, at))
COUNTED(ssize_t, pwrite, (int file, const void* from, size_t size, off_t at),
        (file, from, size, at))
COUNTED(ssize_t, pwritev, (int file, const struct iovec* parts, int count, off_t at),
        (file, parts, count, at))
COUNTED(ssize_t, recv, (int file, void* to, size_t size, int flags), (file, to, size, flags))
COUNTED(ssize_t, __recv_chk, (int file, void* to, size_t size, size_t room, int flags),
        (file, to, size, room, flags))
COUNTED(ssize_t, recvmsg, (int file, struct msghdr* message, int flags), (file, message, flags))
COUNTED(ssize_t, send, (int file, const void* from, size_t size, int flags),
        (file, from, size, flags))
COUNTED(ssize_t, sendmsg, (int file, const struct msghdr* message, int flags),
        (file, message, flags))
COUNTED(int, accept4, (int file, struct sockaddr* address, socklen_t* size, int flags),
        (file, address, size, flags))
COUNTED(int, close, (int file), (file))
COUNTED(int, poll, (struct pollfd * files, nfds_t count, int timeout), (files, count, timeout))
COUNTED(int, ppoll,
        (struct pollfd * files, nfds_t count, const struct timespec* timeout, const sigset_t* mask),
        (files, count, timeout, mask))
COUNTED(int, epoll_wait, (int file, struct epoll_event* events, int most, int timeout),
        (file, events, most, timeout))
COUNTED(int, epoll_ctl, (int file, int what, int which, struct epoll_event* event),
        (file, what, which, event))
COUNTED(int, fsync, (int file), (file))
COUNTED(int, fdatasync, (int file), (file))
