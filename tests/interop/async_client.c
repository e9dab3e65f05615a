// SPDX-License-Identifier: Apache-2.0

#include "async_client.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define PIPELINE_DEPTH 50

static zhandle_t* handle;
static const struct delivery* delivery;

/* A call under way. It is on the caller's stack, so a call that is never completed must end the
 * program. */
struct pending {
  int result;
  struct node* node;
  struct Stat* stat;
  struct child_names* children;
  const char* wanted_name;
  atomic_int done;
};

void async_session_watcher(zhandle_t* zh, int type, int state, const char* path, void* context) {
  (void)zh;
  (void)path;
  (void)context;
  if (type == ZOO_SESSION_EVENT && state == ZOO_EXPIRED_SESSION_STATE) fail("the session expired");
  /* The first event can come before the scenario has begun. */
  if (delivery != NULL) delivery->notify();
}

static void finish(struct pending* pending, int result) {
  pending->result = result;
  atomic_store(&pending->done, 1);
  delivery->notify();
}

static int is_done(void* context) { return atomic_load(&((struct pending*)context)->done); }

/* Returns the result of a call that was submitted with result `submitted`. */
static int await(struct pending* pending, int submitted) {
  if (submitted != ZOK) return submitted;
  if (!delivery->wait_until(is_done, pending, PATIENCE_MS)) fail("a call was never completed");
  return pending->result;
}

static void string_done(int result, const char* name, const void* data) {
  struct pending* pending = (struct pending*)data;
  if (result == ZOK && strcmp(name, pending->wanted_name) != 0) {
    fail("created %s, not %s", name, pending->wanted_name);
  }
  finish(pending, result);
}

static void stat_done(int result, const struct Stat* stat, const void* data) {
  struct pending* pending = (struct pending*)data;
  if (result == ZOK) *pending->stat = *stat;
  finish(pending, result);
}

static void data_done(int result, const char* value, int length, const struct Stat* stat,
                      const void* data) {
  struct pending* pending = (struct pending*)data;
  if (result == ZOK) copy_value(pending->node, value, length, stat);
  finish(pending, result);
}

static void strings_done(int result, const struct String_vector* strings, const void* data) {
  struct pending* pending = (struct pending*)data;
  if (result == ZOK) copy_names(pending->children, strings);
  finish(pending, result);
}

static void void_done(int result, const void* data) { finish((struct pending*)data, result); }

static void data_watcher(zhandle_t* zh, int type, int state, const char* path, void* context) {
  watch_data_changed(zh, type, state, path, context);
  delivery->notify();
}

static int create(const char* path, const char* value) {
  struct pending pending = {.wanted_name = path};
  return await(&pending, zoo_acreate(handle, path, value, (int)strlen(value), &ZOO_OPEN_ACL_UNSAFE,
                                     ZOO_PERSISTENT, string_done, &pending));
}

static int exists(const char* path, struct Stat* stat) {
  struct pending pending = {.stat = stat};
  return await(&pending, zoo_aexists(handle, path, 0, stat_done, &pending));
}

static int get(const char* path, struct node* node) {
  struct pending pending = {.node = node};
  return await(&pending, zoo_aget(handle, path, 0, data_done, &pending));
}

static int get_and_watch(const char* path, struct node* node, struct watch_record* record) {
  struct pending pending = {.node = node};
  return await(&pending, zoo_awget(handle, path, data_watcher, record, data_done, &pending));
}

static int set(const char* path, const char* value, int version, struct Stat* stat) {
  struct pending pending = {.stat = stat};
  return await(&pending,
               zoo_aset(handle, path, value, (int)strlen(value), version, stat_done, &pending));
}

static int get_children(const char* path, struct child_names* children) {
  struct pending pending = {.children = children};
  return await(&pending, zoo_aget_children(handle, path, 0, strings_done, &pending));
}

static int remove_node(const char* path) {
  struct pending pending = {0};
  return await(&pending, zoo_adelete(handle, path, -1, void_done, &pending));
}

/* Many sets at once on one connection: they must be applied and completed in the order of the
 * calls. */
static struct {
  int completed[PIPELINE_DEPTH]; /* in order of completion: which call */
  int results[PIPELINE_DEPTH];
  int versions[PIPELINE_DEPTH];
  atomic_int count;
} pipeline;

static void pipelined_set_done(int result, const struct Stat* stat, const void* data) {
  const int call = (int)(intptr_t)data;
  const int place = atomic_load(&pipeline.count);
  pipeline.completed[place] = call;
  pipeline.results[place] = result;
  if (result == ZOK) pipeline.versions[place] = stat->version;
  atomic_fetch_add(&pipeline.count, 1);
  delivery->notify();
}

static int is_pipeline_done(void* context) {
  return atomic_load(&pipeline.count) == *(const int*)context;
}

static int pipelined_sets(void) {
  atomic_store(&pipeline.count, 0);
  int submitted = 0, lost = 0, last_version = -1;
  for (; submitted < PIPELINE_DEPTH; ++submitted) {
    char value[32];
    const int length = snprintf(value, sizeof(value), "pipelined %d", submitted);
    expect_code("zoo_aset",
                zoo_aset(handle, "/data", value, length, -1, pipelined_set_done,
                         (const void*)(intptr_t)submitted),
                ZOK);
  }
  if (!delivery->wait_until(is_pipeline_done, &submitted, PATIENCE_MS)) {
    fail("%d of %d pipelined sets were completed", atomic_load(&pipeline.count), submitted);
  }
  for (int i = 0; i < submitted; ++i) {
    if (pipeline.completed[i] != i)
      fail("set %d was completed as number %d", pipeline.completed[i], i);
    if (pipeline.results[i] == ZCONNECTIONLOSS || pipeline.results[i] == ZOPERATIONTIMEOUT) {
      ++lost;
      continue;
    }
    expect_code("a pipelined set", pipeline.results[i], ZOK);
    /* If no call was lost, every set makes the next version. */
    if (pipeline.versions[i] <= last_version ||
        (lost == 0 && last_version >= 0 && pipeline.versions[i] != last_version + 1)) {
      fail("pipelined set %d made version %d after %d", i, pipeline.versions[i], last_version);
    }
    last_version = pipeline.versions[i];
  }
  return lost;
}

static int is_connected(void* context) {
  (void)context;
  return zoo_state(handle) == ZOO_CONNECTED_STATE;
}

int run_async_scenario(const char* name, zhandle_t* zh, const struct delivery* how) {
  if (zh == NULL) fail("zookeeper_init refused %s", hosts_argument());
  handle = zh;
  delivery = how;
  if (!how->wait_until(is_connected, NULL, PATIENCE_MS)) {
    fail("no connection to %s", hosts_argument());
  }
  const struct client_ops ops = {.create = create,
                                 .exists = exists,
                                 .get = get,
                                 .get_and_watch = get_and_watch,
                                 .set = set,
                                 .get_children = get_children,
                                 .remove = remove_node,
                                 .wait_until = how->wait_until,
                                 .extra = pipelined_sets};
  const int status = run_scenario(name, &ops);
  expect_code("zookeeper_close", zookeeper_close(handle), ZOK);
  return status;
}
