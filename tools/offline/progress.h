// Tells whoever waits on a terminal how far a long work is: on standard error, at most once a
// second, and not at all for what is done within two.
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
  // `text` makes the line; it is called only when one is printed.
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
