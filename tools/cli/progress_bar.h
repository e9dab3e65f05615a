// SPDX-License-Identifier: Apache-2.0

// Shows the progress of a long operation on standard error: a bar if that is a terminal, otherwise
// a line from time to time.
//
// Thread-safety: none.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace quorate::tools {

class ProgressBar {
 public:
  // `what` is the beginning of each line ("backup from 127.0.0.1:2281").
  explicit ProgressBar(std::string what);
  // Ends the line of a bar.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Reports progress: `done` of `total` (0: not known yet), in units of which only the ratio is
  // shown, and `bytes` of data. Cheap: prints only from time to time.
  void Update(uint64_t done, uint64_t total, uint64_t bytes);
  // Shows the last update, if it is not shown yet.
  void Finish();
  // Begins the progress of another operation, or of the same one from its start.
  void Restart(std::string what);
  // Prints `text` on a separate line.
  void Say(const std::string& text);

 private:
  using Clock = std::chrono::steady_clock;
  void Show();
  void ClearBar();

  const bool terminal_;
  std::string what_;
  Clock::time_point began_;
  Clock::time_point next_;
  uint64_t done_ = 0;
  uint64_t total_ = 0;
  uint64_t bytes_ = 0;
  bool bar_shown_ = false;
  bool changed_ = false;
};

}  // namespace quorate::tools
