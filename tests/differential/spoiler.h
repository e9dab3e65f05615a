// Mistakes put into the answers of one server, which the comparison has to find: without them
// nobody would know that it can.
//
// Thread-safety: belongs to one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/differential/answer.h"
#include "tests/differential/operation.h"

namespace quorate::differential {

class Spoiler {
 public:
  // The names of all of them.
  static const std::vector<std::string>& Names();

  // None of them if `name` is empty. REQUIRES: it is one of Names(), or empty.
  explicit Spoiler(std::string name = "") : name_(std::move(name)) {}

  // Makes the mistake in what came from a server, now and then.
  void Spoil(std::vector<Answer>* answers);
  // The operation that one server gets in place of this one.
  Operation Spoiled(const Operation& operation);

 private:
  bool Now();

  const std::string name_;
  int64_t chances_ = 0;
};

}  // namespace quorate::differential
