// SPDX-License-Identifier: Apache-2.0

// What a run records: a hash of all events, by which two runs of a seed are compared; its last
// lines, readable; and how often events worth knowing occurred.
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <cstdio>
#include <deque>
#include <map>
#include <string>
#include <string_view>

#include "tests/simulation/random.h"

namespace quorate::simulation {

class Trace {
 public:
  enum class Lines : uint8_t { kNone, kLast, kAll };
  explicit Trace(Lines lines) : lines_(lines) {}

  void Mix(uint64_t number) { hash_ = (hash_ ^ number) * 0x9E3779B97F4A7C15u + (hash_ >> 29); }
  // Mixes in bytes, eight at a time.
  void Mix(std::string_view bytes) {
    uint64_t number = bytes.size();
    while (bytes.size() >= 8) {
      uint64_t word;
      __builtin_memcpy(&word, bytes.data(), 8);
      number = (number ^ word) * 0x100000001b3u + (number >> 31);
      bytes.remove_prefix(8);
    }
    for (char c : bytes) number = number * 257 + static_cast<unsigned char>(c);
    Mix(number);
  }
  uint64_t hash() const { return Spread(hash_); }

  // Whether lines are wanted: building them costs more than the run itself.
  bool wanted() const { return lines_ != Lines::kNone; }
  void Add(std::string line) {
    if (lines_ == Lines::kAll) {
      std::fprintf(stdout, "%s\n", line.c_str());
    } else if (lines_ == Lines::kLast) {
      last_.push_back(std::move(line));
      if (last_.size() > kLastLines) last_.pop_front();
    }
  }
  const std::deque<std::string>& last() const { return last_; }

  void Count(std::string_view probe) {
    auto found = counts_.find(probe);
    if (found == counts_.end()) found = counts_.emplace(probe, 0).first;
    ++found->second;
  }
  const std::map<std::string, uint64_t, std::less<>>& counts() const { return counts_; }

 private:
  static constexpr size_t kLastLines = 60;

  const Lines lines_;
  uint64_t hash_ = 0;
  std::deque<std::string> last_;
  std::map<std::string, uint64_t, std::less<>> counts_;
};

}  // namespace quorate::simulation
