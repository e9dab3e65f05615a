/* The asynchronous calls of the C library, which its two flavours share; what differs is who
 * delivers the completions, and so how one waits. */
#pragma once

#include "scenario.h"

/* Who delivers completions. */
struct delivery {
  /* As client_ops.wait_until. */
  int (*wait_until)(int (*ready)(void*), void* context, int timeout_ms);
  /* Called after each completion and watch event, from where they are delivered. */
  void (*notify)(void);
};

/* The handle is made by the program with `async_session_watcher`. */
void async_session_watcher(zhandle_t* zh, int type, int state, const char* path, void* context);

/* Waits for the first connection, runs the scenario, and returns its exit status. */
int run_async_scenario(const char* name, zhandle_t* handle, const struct delivery* delivery);
