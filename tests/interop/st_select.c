// SPDX-License-Identifier: Apache-2.0

/* Tests the single-threaded C client in a program's own select() loop. The library has no thread:
 * it returns the events that it waits for (zookeeper_interest), and works when the program calls
 * zookeeper_process. */
#include <stddef.h>
#include <sys/select.h>
#include <sys/time.h>

#include "async_client.h"

static zhandle_t* handle;

static void notify(void) {}

/* Does one iteration of the loop. */
static void turn(long long end_ms) {
  int fd = -1, interest = 0, events = 0;
  struct timeval wait;
  /* The library handles connection errors: it tries the next server in the next iteration. */
  const int result = zookeeper_interest(handle, &fd, &interest, &wait);
  if (result == ZINVALIDSTATE) fail("the session has ended");
  const long long left_ms = end_ms - now_ms();
  if (left_ms <= 0) return;
  if (wait.tv_sec * 1000LL + wait.tv_usec / 1000 > left_ms) {
    wait.tv_sec = left_ms / 1000;
    wait.tv_usec = left_ms % 1000 * 1000;
  }
  fd_set readable, writable;
  FD_ZERO(&readable);
  FD_ZERO(&writable);
  if (fd >= 0) {
    if (interest & ZOOKEEPER_READ) FD_SET(fd, &readable);
    if (interest & ZOOKEEPER_WRITE) FD_SET(fd, &writable);
  }
  if (select(fd + 1, &readable, &writable, NULL, &wait) > 0) {
    if (FD_ISSET(fd, &readable)) events |= ZOOKEEPER_READ;
    if (FD_ISSET(fd, &writable)) events |= ZOOKEEPER_WRITE;
  }
  zookeeper_process(handle, events);
}

static int wait_until(int (*ready)(void*), void* context, int timeout_ms) {
  const long long end_ms = now_ms() + timeout_ms;
  while (!ready(context) && now_ms() < end_ms) turn(end_ms);
  return ready(context);
}

int main(int argc, char** argv) {
  parse_arguments(argc, argv);
  static const struct delivery delivery = {wait_until, notify};
  handle =
      zookeeper_init(hosts_argument(), async_session_watcher, SESSION_TIMEOUT_MS, NULL, NULL, 0);
  return run_async_scenario("st_select", handle, &delivery);
}
