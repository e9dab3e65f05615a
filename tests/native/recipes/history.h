// SPDX-License-Identifier: Apache-2.0

// The history of what the workers of a test did: one line for each event on standard output,
//
//   NANOSECONDS PROCESS THREAD EVENT ARGUMENTS...
//
// with the time by CLOCK_MONOTONIC, which all processes of a machine share. Fields are separated by
// one blank and contain none. Each line is written by one system call, and stays if the process is
// killed right after that; if the process is killed during the call, the last line of a file may be
// cut. Lines are at most kLineBytesMax long, so that lines of several writers to one pipe do not
// mix.
//
//   Print("acquired", token);   // "123456789 4711 2 acquired 42"
//
// Thread-safety: all functions from any thread.
#pragma once

#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

namespace quorate::history {

// PIPE_BUF: longer lines could be written in pieces.
inline constexpr size_t kLineBytesMax = 4096;

inline int64_t NowNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// Returns the number of the calling thread, from 1, in the order of the threads' first calls.
inline int ThisThread() {
  static std::atomic<int> last{0};
  thread_local const int number = ++last;
  return number;
}

// Prints an event with the time `ns`, for events whose time is taken before their arguments are
// known.
template <class... Arguments>
void PrintAt(int64_t ns, std::string_view event, const Arguments&... arguments) {
  std::ostringstream text;
  text << ns << ' ' << getpid() << ' ' << ThisThread() << ' ' << event;
  ((text << ' ' << arguments), ...);
  std::string line = std::move(text).str();
  line.resize(line.size() < kLineBytesMax ? line.size() : kLineBytesMax - 1);
  line.push_back('\n');
  // The write fails if the reader has ended: then the test is over.
  if (write(STDOUT_FILENO, line.data(), line.size()) < 0) _exit(1);
}

template <class... Arguments>
void Print(std::string_view event, const Arguments&... arguments) {
  PrintAt(NowNs(), event, arguments...);
}

}  // namespace quorate::history
