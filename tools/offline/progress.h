// SPDX-License-Identifier: Apache-2.0

// Reports the progress of a long operation on standard error, at most once a second, and not at all
// for operations that take less than two seconds.
//
// Thread-safety: none.
#pragma once

#include <chrono>
#include <cstdio>
#include <functional>
#include <string>

namespace quorate::tools {

class Progress {
 public:
  // `text` returns the line; it is called only when a line is printed.
  void Update(const std::function<std::string()>& text) {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_) return;
    next_ = now + std::chrono::seconds(1);
    std::fprintf(stderr, "%s\n", text().c_str());
  }

 private:
  std::chrono::steady_clock::time_point next_ =
      std::chrono::steady_clock::now() + std::chrono::seconds(2);
};

}  // namespace quorate::tools
