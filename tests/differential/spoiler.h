// SPDX-License-Identifier: Apache-2.0

// Puts errors into the operations or answers of one server, to test that the comparison finds them.
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
  // Returns the names of all errors.
  static const std::vector<std::string>& Names();

  // `name` selects an error; empty: no error. REQUIRES: `name` is one of Names(), or empty.
  explicit Spoiler(std::string name = "") : name_(std::move(name)) {}

  // Puts the error into some of a server's answers.
  void Spoil(std::vector<Answer>* answers);
  // Returns the operation that one server gets instead of this one.
  Operation Spoiled(const Operation& operation);

 private:
  bool Now();

  const std::string name_;
  int64_t chances_ = 0;
};

}  // namespace quorate::differential
