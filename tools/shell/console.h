// SPDX-License-Identifier: Apache-2.0

// The shell's output: answers, errors, and events, which may be printed at any time.
//
// Thread-safety: all functions may be called from any thread, except TakeWaiting.
#pragma once

#include <mutex>
#include <string>
#include <string_view>

namespace quorate::tools::shell {

class Console {
 public:
  // `shows_controls_escaped`: standard output is a terminal, so control characters in data are
  // shown as \xNN (base/escape.h). On standard error they are always shown so.
  explicit Console(bool shows_controls_escaped);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  // Prints to standard output.
  void Print(std::string_view text);
  // Prints to standard error.
  void PrintError(std::string_view text);
  // Prints to standard output. Between SetEditing(true) and SetEditing(false), while a line is
  // being typed, the text is kept for TakeWaiting instead, and waiting_file() becomes readable.
  void PrintEvent(std::string_view text);

  void SetEditing(bool is_editing);
  // Returns and clears the events that came while a line was being typed.
  std::string TakeWaiting();
  int waiting_file() const { return waiting_file_; }

 private:
  void Write(int file, std::string_view text);

  const bool shows_controls_escaped_;
  const int waiting_file_;  // an eventfd
  std::mutex mutex_;
  bool is_editing_ = false;
  std::string waiting_;
};

}  // namespace quorate::tools::shell
