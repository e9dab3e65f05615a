// SPDX-License-Identifier: Apache-2.0

/* The scenario of every C interoperability program, however it calls the library: repeats the steps
 * of a tutorial on /data and checks each result, through any number of lost connections. */
#pragma once

#include <stdatomic.h>
#include <zookeeper/zookeeper.h>

#define MAX_VALUE_BYTES 256
#define MAX_CHILDREN 8

/* A session must outlive the restart of any member. */
#define SESSION_TIMEOUT_MS 15000
/* How long a call, a connect or a watch event may take. */
#define PATIENCE_MS 30000

struct node {
  char value[MAX_VALUE_BYTES];
  int length;
  struct Stat stat;
};

struct child_names {
  int count;
  char names[MAX_CHILDREN][64];
};

/* Counts the watch events of this program. Written by watchers, perhaps on another thread. */
struct watch_record {
  atomic_int events; /* node events */
  atomic_int wrong;  /* those that were not "/data changed" */
};

/* One way of calling the library. Each call returns a ZOO_ERRORS code. */
struct client_ops {
  int (*create)(const char* path, const char* value);
  int (*exists)(const char* path, struct Stat* stat);
  int (*get)(const char* path, struct node* node);
  /* As `get`, by zoo_awget; the watch reports to watch_data_changed. */
  int (*get_and_watch)(const char* path, struct node* node, struct watch_record* record);
  int (*set)(const char* path, const char* value, int version, struct Stat* stat);
  int (*get_children)(const char* path, struct child_names* children);
  int (*remove)(const char* path);
  /* Waits until `ready` holds or `timeout_ms` have passed. Returns whether it holds. */
  int (*wait_until)(int (*ready)(void*), void* context, int timeout_ms);
  /* Extra work of this way of calling in each round, or NULL. Returns lost calls. */
  int (*extra)(void);
};

/* The watcher that get_and_watch sets; `context` is the watch_record. */
void watch_data_changed(zhandle_t* handle, int type, int state, const char* path, void* context);

/* Prints to stderr and exits with status 1. */
void fail(const char* format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* Fails if `result` is not `wanted`. */
void expect_code(const char* what, int result, int wanted);

long long now_ms(void);

void copy_value(struct node* node, const char* value, int length, const struct Stat* stat);
void copy_names(struct child_names* children, const struct String_vector* strings);

/* Parses "HOSTS [ROUNDS [SECONDS]]"; exits with status 2 if they are not valid. */
void parse_arguments(int argc, char** argv);
const char* hosts_argument(void);
/* Returns whether another round is to be done after `rounds` of them. */
int wants_more(long rounds);

/* Runs at least ROUNDS rounds and for at least SECONDS. Exits with status 1 at the first result
 * that is wrong; prints a summary and returns 0 otherwise. */
int run_scenario(const char* name, const struct client_ops* ops);
