// Shows on standard error how far something long has come: a bar that moves if that is a terminal,
// else a line now and then.
//
// Thread-safety: none inside.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace quorate::tools {

class ProgressBar {
 public:
  // `what` begins each line ("backup from 127.0.0.1:2281").
  explicit ProgressBar(std::string what);
  // Ends the line of a bar.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // So much was done, of so much (0: that is not known yet), in units of which only the ratio is
  // shown, and `bytes` of data. Cheap: shows something only when it is time.
  void Update(uint64_t done, uint64_t total, uint64_t bytes);
  // Shows the last update, if it was not.
  void Finish();
  // What is measured from now on is something else, or starts again.
  void Restart(std::string what);
  // A line of its own.
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
