// SPDX-License-Identifier: Apache-2.0

/* The asynchronous calls of the C library, which its versions with and without threads share. The
 * versions differ in the thread that delivers completions, and so in how a caller waits. */
#pragma once

#include "scenario.h"

/* How completions are delivered. */
struct delivery {
  /* As client_ops.wait_until. */
  int (*wait_until)(int (*ready)(void*), void* context, int timeout_ms);
  /* Called after each completion and watch event, on the thread that delivers them. */
  void (*notify)(void);
};

/* The watcher with which the program must create its handle. */
void async_session_watcher(zhandle_t* zh, int type, int state, const char* path, void* context);

/* Waits for the first connection, runs the scenario, and returns its exit status. */
int run_async_scenario(const char* name, zhandle_t* handle, const struct delivery* delivery);
