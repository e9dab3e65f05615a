// SPDX-License-Identifier: Apache-2.0

#include "scenario.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RETRY_PAUSE_MS 50

static const char* const kPath = "/data";
static const char* const kChildren[] = {"/data/alpha", "/data/beta", "/data/gamma"};
#define CHILD_COUNT 3

static const struct client_ops* ops;
static const char* hosts;
static long minimum_rounds = 3;
static long minimum_seconds = 0;
static long long end_ms; /* of minimum_seconds, counted from the arguments */
static long losses;      /* calls that ended with ZCONNECTIONLOSS */

void fail(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs("FAILED: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  exit(1);
}

void expect_code(const char* what, int result, int wanted) {
  if (result != wanted) {
    fail("%s gave %s (%d), not %s (%d)", what, zerror(result), result, zerror(wanted), wanted);
  }
}

static void expect(const char* what, long long value, long long wanted) {
  if (value != wanted) fail("%s is %lld, not %lld", what, value, wanted);
}

static void expect_value(const struct node* node, const char* wanted) {
  if (node->length != (int)strlen(wanted) ||
      memcmp(node->value, wanted, (size_t)node->length) != 0) {
    fail("%s holds \"%.*s\", not \"%s\"", kPath, node->length, node->value, wanted);
  }
}

long long now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

void copy_value(struct node* node, const char* value, int length, const struct Stat* stat) {
  if (length > MAX_VALUE_BYTES) fail("a value of %d bytes, which nobody wrote", length);
  node->length = length;
  if (length > 0) memcpy(node->value, value, (size_t)length);
  node->stat = *stat;
}

void copy_names(struct child_names* children, const struct String_vector* strings) {
  children->count = strings->count;
  for (int i = 0; i < strings->count && i < MAX_CHILDREN; ++i) {
    snprintf(children->names[i], sizeof(children->names[i]), "%s", strings->data[i]);
  }
}

void watch_data_changed(zhandle_t* handle, int type, int state, const char* path, void* context) {
  struct watch_record* record = context;
  (void)handle;
  (void)state;
  if (type == ZOO_SESSION_EVENT) return;
  if (type != ZOO_CHANGED_EVENT || strcmp(path, kPath) != 0) atomic_fetch_add(&record->wrong, 1);
  atomic_fetch_add(&record->events, 1);
}

/* Returns whether a call must be repeated because its outcome is unknown. */
static int is_lost(int result) {
  static long long lost_since_ms;
  if (result != ZCONNECTIONLOSS && result != ZOPERATIONTIMEOUT) {
    lost_since_ms = 0;
    return 0;
  }
  ++losses;
  if (lost_since_ms == 0) lost_since_ms = now_ms();
  if (now_ms() - lost_since_ms > PATIENCE_MS) fail("no answer for %d ms", PATIENCE_MS);
  const struct timespec pause = {0, RETRY_PAUSE_MS * 1000000L};
  nanosleep(&pause, NULL);
  return 1;
}

static int exists(const char* path, struct Stat* stat) {
  int result;
  while (is_lost(result = ops->exists(path, stat)))
    ;
  return result;
}

static void get(const char* path, struct node* node) {
  int result;
  while (is_lost(result = ops->get(path, node)))
    ;
  expect_code("get", result, ZOK);
}

/* Creates a node. A create without an answer may have been applied: then the node has our value. */
static void create(const char* path, const char* value) {
  int result, was_lost = 0;
  while (is_lost(result = ops->create(path, value))) was_lost = 1;
  if (result == ZNODEEXISTS && was_lost) {
    struct node node;
    get(path, &node);
    if (node.length != (int)strlen(value) || memcmp(node.value, value, strlen(value)) != 0) {
      fail("%s was there already, with another value", path);
    }
    return;
  }
  expect_code(path, result, ZOK);
}

/* Sets a value. A set that was lost was applied if the version is the next one, with our value. */
static void set(const char* value, int version) {
  struct Stat stat;
  int result, was_lost = 0;
  while (is_lost(result = ops->set(kPath, value, version, &stat))) was_lost = 1;
  if (result == ZBADVERSION && was_lost) {
    struct node node;
    get(kPath, &node);
    expect("the version after a lost set", node.stat.version, version + 1);
    expect_value(&node, value);
    return;
  }
  expect_code("set", result, ZOK);
  expect("the version that set returns", stat.version, version + 1);
}

static void remove_if_there(const char* path) {
  int result;
  while (is_lost(result = ops->remove(path)))
    ;
  if (result != ZNONODE) expect_code("delete", result, ZOK);
}

static void remove_all(void) {
  for (int i = 0; i < CHILD_COUNT; ++i) remove_if_there(kChildren[i]);
  remove_if_there(kPath);
}

static void check_children(void) {
  struct child_names children;
  int result;
  while (is_lost(result = ops->get_children(kPath, &children)))
    ;
  expect_code("get_children", result, ZOK);
  expect("the number of children", children.count, CHILD_COUNT);
  for (int i = 0; i < CHILD_COUNT; ++i) {
    const char* wanted = strrchr(kChildren[i], '/') + 1;
    int found = 0;
    for (int j = 0; j < children.count; ++j) found += strcmp(children.names[j], wanted) == 0;
    if (found != 1) fail("child %s is listed %d times", wanted, found);
  }
}

static int has_fired(void* context) {
  return atomic_load(&((struct watch_record*)context)->events) > 0;
}

/* Sets a watch, changes the node, and checks that the watch fires exactly once. */
static void change_under_watch(const char* old_value, const char* new_value) {
  /* A watch lives in the library until it fires, so its record must not be on this stack: a second
   * event could come late. */
  static struct watch_record records[2];
  static int turn;
  struct watch_record* record = &records[turn++ % 2];
  atomic_store(&record->events, 0);
  atomic_store(&record->wrong, 0);

  struct node node;
  int result;
  while (is_lost(result = ops->get_and_watch(kPath, &node, record)))
    ;
  expect_code("awget", result, ZOK);
  expect_value(&node, old_value);
  set(new_value, node.stat.version);
  if (!ops->wait_until(has_fired, record, PATIENCE_MS)) fail("the watch on %s never fired", kPath);
  get(kPath, &node);
  expect_value(&node, new_value);
  expect("the number of watch events", atomic_load(&record->events), 1);
  expect("the number of wrong watch events", atomic_load(&record->wrong), 0);
}

static void run_round(long round) {
  char first[MAX_VALUE_BYTES], second[MAX_VALUE_BYTES];
  snprintf(first, sizeof(first), "%ld round %ld first", (long)getpid(), round);
  snprintf(second, sizeof(second), "%ld round %ld second", (long)getpid(), round);

  struct Stat stat;
  expect_code("exists before create", exists(kPath, &stat), ZNONODE);
  create(kPath, first);
  expect_code("exists after create", exists(kPath, &stat), ZOK);
  expect("the version of a new node", stat.version, 0);
  expect("its data length", stat.dataLength, (long long)strlen(first));
  expect("its number of children", stat.numChildren, 0);
  for (int i = 0; i < CHILD_COUNT; ++i) create(kChildren[i], "child");
  check_children();
  change_under_watch(first, second);
  int result;
  while (is_lost(result = ops->set(kPath, "not to be", 0, &stat)))
    ;
  expect_code("set with an old version", result, ZBADVERSION);
  if (ops->extra) losses += ops->extra();
  remove_all();
}

void parse_arguments(int argc, char** argv) {
  char* end = NULL;
  if (argc >= 3) minimum_rounds = strtol(argv[2], &end, 10);
  if (argc >= 4 && *end == '\0') minimum_seconds = strtol(argv[3], &end, 10);
  if (argc < 2 || argc > 4 || (end != NULL && *end != '\0')) {
    fprintf(stderr, "usage: %s HOSTS [ROUNDS [SECONDS]]\n", argv[0]);
    exit(2);
  }
  hosts = argv[1];
  end_ms = now_ms() + minimum_seconds * 1000;
  zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
}

const char* hosts_argument(void) { return hosts; }

int wants_more(long rounds) { return rounds < minimum_rounds || now_ms() < end_ms; }

int run_scenario(const char* name, const struct client_ops* client) {
  ops = client;
  remove_all();
  long round = 0;
  while (wants_more(round)) run_round(++round);
  printf("%s: %ld rounds, %ld calls lost and made again\n", name, round, losses);
  return 0;
}
