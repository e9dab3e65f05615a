// SPDX-License-Identifier: Apache-2.0

// Threads with names, as top, ps, gdb and perf show them.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <thread>
#include <utility>

namespace quorate {

// Names the thread that calls it. Only the first 15 bytes of `name` are used.
inline void NameThisThread(const char* name) {
  char cut[16] = {};
  for (size_t i = 0; i + 1 < sizeof(cut) && name[i] != '\0'; ++i) cut[i] = name[i];
  pthread_setname_np(pthread_self(), cut);
}

// Starts a thread that runs `function`. `name` is a string literal, used as by
// NameThisThread.
template <class Function>
std::thread StartThread(const char* name, Function function) {
  return std::thread([name, function = std::move(function)]() mutable {
    NameThisThread(name);
    function();
  });
}

}  // namespace quorate
