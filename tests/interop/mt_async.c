// SPDX-License-Identifier: Apache-2.0

/* Tests the multithreaded C client with asynchronous calls: the library's thread delivers
 * completions and watch events, and the main thread waits for them. */
#include <pthread.h>
#include <stddef.h>
#include <time.h>

#include "async_client.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void notify(void) {
  pthread_mutex_lock(&mutex);
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
}

static int wait_until(int (*ready)(void*), void* context, int timeout_ms) {
  const long long end_ms = now_ms() + timeout_ms;
  pthread_mutex_lock(&mutex);
  while (!ready(context) && now_ms() < end_ms) {
    struct timespec soon;
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_sec += 1; /* a second look at the clock now and then */
    pthread_cond_timedwait(&changed, &mutex, &soon);
  }
  const int is_ready = ready(context);
  pthread_mutex_unlock(&mutex);
  return is_ready;
}

int main(int argc, char** argv) {
  parse_arguments(argc, argv);
  static const struct delivery delivery = {wait_until, notify};
  zhandle_t* handle =
      zookeeper_init(hosts_argument(), async_session_watcher, SESSION_TIMEOUT_MS, NULL, NULL, 0);
  return run_async_scenario("mt_async", handle, &delivery);
}
