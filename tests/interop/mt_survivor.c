// SPDX-License-Identifier: Apache-2.0

/* Tests two handles of the multithreaded C client, connected to one member that lives while the
 * leader is killed again and again. One handle makes synchronous calls, the other one has
 * asynchronous calls under way all the time. Every call is answered with ZOK, in its order, each
 * watch fires once, and no connection ever changes its state. No call is repeated.
 *
 * Prints "round NANOSECONDS" (CLOCK_MONOTONIC at its begin) for each round until its standard input
 * ends. */
#define _GNU_SOURCE /* sem_clockwait */
#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "scenario.h"

#define PIPELINE_DEPTH 16
#define MAX_PATH 64
#define CALLS_A_ROUND 8

struct connection {
  zhandle_t* handle;
  sem_t connected;
  atomic_int states; /* how many it has had since it was made */
};

struct watch {
  char path[MAX_PATH];
  sem_t fired;
  atomic_int events;
};

static struct connection synchronous, asynchronous;
static char root[MAX_PATH - 16]; /* what is below it has a shorter name than that */
static char pipelined_path[MAX_PATH];

static void await(sem_t* semaphore, const char* what) {
  struct timespec deadline;
  clock_gettime(CLOCK_MONOTONIC, &deadline);
  deadline.tv_sec += PATIENCE_MS / 1000;
  while (sem_clockwait(semaphore, CLOCK_MONOTONIC, &deadline) != 0) {
    if (errno != EINTR) fail("%s: not within %d ms", what, PATIENCE_MS);
  }
}

static void session_watcher(zhandle_t* zh, int type, int state, const char* path, void* context) {
  struct connection* connection = context;
  (void)zh;
  (void)path;
  if (type != ZOO_SESSION_EVENT) return;
  if (atomic_fetch_add(&connection->states, 1) > 0) {
    fail("a connection to a live member changed its state to %d", state);
  }
  expect_code("the first state", state, ZOO_CONNECTED_STATE);
  sem_post(&connection->connected);
}

static void connect_to_member(struct connection* connection) {
  sem_init(&connection->connected, 0, 0);
  connection->handle =
      zookeeper_init(hosts_argument(), session_watcher, SESSION_TIMEOUT_MS, NULL, connection, 0);
  if (connection->handle == NULL) fail("zookeeper_init refused %s", hosts_argument());
  await(&connection->connected, "a connection");
}

/* The asynchronous handle sends sets and gets alternately, several at a time. Call 2n sets "2n",
 * and call 2n + 1 has to get that value. Each completion submits the next call, so all but the
 * first calls are submitted on the library's thread. */
static long submitted, completed;
static atomic_int is_ending;
static sem_t all_completed;

static void submit(void);

static void complete(void) {
  ++completed;
  if (!atomic_load(&is_ending)) {
    submit();
  } else if (completed == submitted) {
    sem_post(&all_completed);
  }
}

static void set_done(int result, const struct Stat* stat, const void* data) {
  expect_code("an asynchronous set", result, ZOK);
  if ((long)data != completed) fail("call %ld was answered after %ld", (long)data, completed);
  if (stat->version != completed / 2 + 1) {
    fail("asynchronous set %ld made version %d", completed / 2, stat->version);
  }
  complete();
}

static void get_done(int result, const char* value, int length, const struct Stat* stat,
                     const void* data) {
  char wanted[MAX_VALUE_BYTES];
  (void)stat;
  expect_code("an asynchronous get", result, ZOK);
  if ((long)data != completed) fail("call %ld was answered after %ld", (long)data, completed);
  const int wanted_length = snprintf(wanted, sizeof(wanted), "%ld", completed - 1);
  if (length != wanted_length || memcmp(value, wanted, (size_t)length) != 0) {
    fail("a get after the set of %s gave \"%.*s\"", wanted, length, value);
  }
  complete();
}

static void submit(void) {
  const long number = submitted++;
  if (number % 2 == 0) {
    char value[MAX_VALUE_BYTES];
    const int length = snprintf(value, sizeof(value), "%ld", number);
    expect_code("zoo_aset",
                zoo_aset(asynchronous.handle, pipelined_path, value, length, -1, set_done,
                         (const void*)number),
                ZOK);
  } else {
    expect_code("zoo_aget",
                zoo_aget(asynchronous.handle, pipelined_path, 0, get_done, (const void*)number),
                ZOK);
  }
}

static void first_done(int result, const char* name, const void* data) {
  (void)name;
  (void)data;
  expect_code("an asynchronous create", result, ZOK);
  for (int i = 0; i < PIPELINE_DEPTH; ++i) submit();
}

/* The synchronous handle. */

static void create(const char* path, const char* value) {
  expect_code(path,
              zoo_create(synchronous.handle, path, value, (int)strlen(value), &ZOO_OPEN_ACL_UNSAFE,
                         ZOO_PERSISTENT, NULL, 0),
              ZOK);
}

static void set(const char* path, const char* value, int version) {
  struct Stat stat;
  expect_code("zoo_set2",
              zoo_set2(synchronous.handle, path, value, (int)strlen(value), version, &stat), ZOK);
  if (stat.version != version + 1) fail("set of version %d made %d", version, stat.version);
}

/* Checks the value of a node. With `watcher`, sets a watch, too. */
static void expect_value(const char* path, const char* wanted, watcher_fn watcher, void* context) {
  char value[MAX_VALUE_BYTES];
  int length = sizeof(value);
  expect_code("zoo_wget",
              zoo_wget(synchronous.handle, path, watcher, context, value, &length, NULL), ZOK);
  if (length != (int)strlen(wanted) || memcmp(value, wanted, (size_t)length) != 0) {
    fail("%s holds \"%.*s\", not \"%s\"", path, length, value, wanted);
  }
}

static void on_change(zhandle_t* zh, int type, int state, const char* path, void* context) {
  struct watch* watch = context;
  (void)zh;
  (void)state;
  if (type == ZOO_SESSION_EVENT) return; /* session_watcher hears of it too */
  if (type != ZOO_CHANGED_EVENT || strcmp(path, watch->path) != 0) {
    fail("the watch on %s saw event %d of %s", watch->path, type, path);
  }
  if (atomic_fetch_add(&watch->events, 1) > 0) fail("the watch on %s fired twice", watch->path);
  sem_post(&watch->fired);
}

static void create_watched(struct watch* watch, const char* name) {
  snprintf(watch->path, sizeof(watch->path), "%s/%s", root, name);
  sem_init(&watch->fired, 0, 0);
  atomic_store(&watch->events, 0);
  create(watch->path, "old");
  expect_value(watch->path, "old", on_change, watch);
}

static void change_and_remove(struct watch* watch) {
  if (atomic_load(&watch->events) > 0) fail("the watch on %s fired before a change", watch->path);
  set(watch->path, "new", 0);
  await(&watch->fired, "the event of a watch");
  expect_value(watch->path, "new", NULL, NULL);
  expect_code("zoo_delete", zoo_delete(synchronous.handle, watch->path, 1), ZOK);
}

static void run_round(const char* path, int* version) {
  static struct watch watch; /* the library may still have it */
  create_watched(&watch, "watched");
  for (int i = 0; i < CALLS_A_ROUND; ++i) {
    char value[MAX_VALUE_BYTES];
    snprintf(value, sizeof(value), "value %d", *version);
    set(path, value, (*version)++);
    expect_value(path, value, NULL, NULL);
  }
  change_and_remove(&watch);
}

static int is_told_to_end(void) {
  struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
  return poll(&input, 1, 0) > 0;
}

static void print_round(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  printf("round %lld\n", now.tv_sec * 1000000000LL + now.tv_nsec);
  fflush(stdout);
}

int main(int argc, char** argv) {
  parse_arguments(argc, argv);
  connect_to_member(&synchronous);
  connect_to_member(&asynchronous);
  snprintf(root, sizeof(root), "/survivor-%ld", (long)getpid());
  create(root, "");
  snprintf(pipelined_path, sizeof(pipelined_path), "%s/pipelined", root);
  sem_init(&all_completed, 0, 0);
  expect_code("zoo_acreate",
              zoo_acreate(asynchronous.handle, pipelined_path, "", 0, &ZOO_OPEN_ACL_UNSAFE,
                          ZOO_PERSISTENT, first_done, NULL),
              ZOK);
  static struct watch lasting; /* from before the first kill until after the last one */
  create_watched(&lasting, "lasting");
  char path[MAX_PATH];
  snprintf(path, sizeof(path), "%s/set", root);
  create(path, "");
  int version = 0;
  long rounds = 0;
  while (!is_told_to_end()) {
    print_round();
    run_round(path, &version);
    ++rounds;
  }
  atomic_store(&is_ending, 1);
  await(&all_completed, "the answers of all asynchronous calls");
  change_and_remove(&lasting);
  expect_code("zoo_delete", zoo_delete(synchronous.handle, path, version), ZOK);
  expect_code("zoo_delete", zoo_delete(synchronous.handle, pipelined_path, -1), ZOK);
  expect_code("zoo_delete", zoo_delete(synchronous.handle, root, -1), ZOK);
  expect_code("zookeeper_close", zookeeper_close(asynchronous.handle), ZOK);
  expect_code("zookeeper_close", zookeeper_close(synchronous.handle), ZOK);
  printf("mt_survivor: %ld rounds, %ld asynchronous calls\n", rounds, completed);
  return 0;
}
