// SPDX-License-Identifier: Apache-2.0

/* Tests the multithreaded C client with synchronous calls, as most programs in C use ZooKeeper. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "scenario.h"

static zhandle_t* handle;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void wake(void) {
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

static void session_watcher(zhandle_t* zh, int type, int state, const char* path, void* context) {
  (void)zh;
  (void)path;
  (void)context;
  if (type != ZOO_SESSION_EVENT) return;
  if (state == ZOO_EXPIRED_SESSION_STATE) fail("the session expired");
  wake();
}

static int is_connected(void* context) {
  (void)context;
  return zoo_state(handle) == ZOO_CONNECTED_STATE;
}

static int create(const char* path, const char* value) {
  char created[256];
  const int result = zoo_create(handle, path, value, (int)strlen(value), &ZOO_OPEN_ACL_UNSAFE,
                                ZOO_PERSISTENT, created, sizeof(created));
  if (result == ZOK && strcmp(created, path) != 0) fail("created %s, not %s", created, path);
  return result;
}

static int exists(const char* path, struct Stat* stat) { return zoo_exists(handle, path, 0, stat); }

static int get(const char* path, struct node* node) {
  node->length = sizeof(node->value);
  return zoo_get(handle, path, 0, node->value, &node->length, &node->stat);
}

struct pending_get {
  struct node* node;
  int result;
  atomic_int done;
};

static void get_done(int result, const char* value, int length, const struct Stat* stat,
                     const void* data) {
  struct pending_get* pending = (struct pending_get*)data;
  if (result == ZOK) copy_value(pending->node, value, length, stat);
  pending->result = result;
  pthread_mutex_lock(&mutex);
  atomic_store(&pending->done, 1);
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
}

static int is_done(void* context) { return atomic_load(&((struct pending_get*)context)->done); }

static void data_watcher(zhandle_t* zh, int type, int state, const char* path, void* context) {
  watch_data_changed(zh, type, state, path, context);
  wake();
}

static int get_and_watch(const char* path, struct node* node, struct watch_record* record) {
  struct pending_get pending = {node, ZOK, 0};
  const int result = zoo_awget(handle, path, data_watcher, record, get_done, &pending);
  if (result != ZOK) return result;
  if (!wait_until(is_done, &pending, PATIENCE_MS)) fail("zoo_awget was never completed");
  return pending.result;
}

static int set(const char* path, const char* value, int version, struct Stat* stat) {
  return zoo_set2(handle, path, value, (int)strlen(value), version, stat);
}

static int get_children(const char* path, struct child_names* children) {
  struct String_vector strings;
  const int result = zoo_get_children(handle, path, 0, &strings);
  if (result == ZOK) {
    copy_names(children, &strings);
    deallocate_String_vector(&strings);
  }
  return result;
}

static int remove_node(const char* path) { return zoo_delete(handle, path, -1); }

int main(int argc, char** argv) {
  parse_arguments(argc, argv);
  handle = zookeeper_init(hosts_argument(), session_watcher, SESSION_TIMEOUT_MS, NULL, NULL, 0);
  if (handle == NULL) fail("zookeeper_init refused %s", hosts_argument());
  if (!wait_until(is_connected, NULL, PATIENCE_MS)) fail("no connection to %s", hosts_argument());

  const struct client_ops ops = {.create = create,
                                 .exists = exists,
                                 .get = get,
                                 .get_and_watch = get_and_watch,
                                 .set = set,
                                 .get_children = get_children,
                                 .remove = remove_node,
                                 .wait_until = wait_until,
                                 .extra = NULL};
  const int status = run_scenario("mt_sync", &ops);
  expect_code("zookeeper_close", zookeeper_close(handle), ZOK);
  return status;
}
