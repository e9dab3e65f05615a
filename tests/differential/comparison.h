// SPDX-License-Identifier: Apache-2.0

// Compares the answers of two servers.
//
// Thread-safety: belongs to one thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/differential/answer.h"
#include "tests/differential/operation.h"
#include "tests/differential/relation.h"

namespace quorate::differential {

struct Difference {
  std::string kind;  // differences are grouped by this
  std::string reference;
  std::string ours;
  bool is_stall = false;  // the reference did not answer in time
};

// One difference. The fields are null if the answers are not comparable field by field.
struct Mismatch {
  const Operation& operation;
  const Answer& reference;
  const Answer& ours;
  const Field* reference_field = nullptr;
  const Field* our_field = nullptr;
};

class Comparison {
 public:
  // Compares the answers on one connection after `operation`. `asked`: the operation was this
  // client's, not another client's. Returns the first difference of each answer; after answers that
  // do not correspond, the rest is not compared.
  std::vector<Difference> Compare(const Operation& operation, bool asked,
                                  std::vector<Answer> reference, std::vector<Answer> ours);

  // The number of times each intended difference was seen, by its name.
  const std::map<std::string, int64_t>& known_differences() const { return known_differences_; }
  int64_t answers() const { return answers_; }
  int64_t events() const { return events_; }
  int64_t errors() const { return errors_; }

  Relation& relation() { return relation_; }

 private:
  // Returns the position of the first field that is neither the same nor a known difference; the
  // number of fields if there is none. Removes known differences from `ours`.
  size_t FirstMismatch(const Operation& operation, const Answer& reference, Answer* ours);
  bool Same(const Answer& reference, const Answer& ours, size_t field);

  Relation relation_;
  std::map<std::string, int64_t> known_differences_;
  int64_t answers_ = 0;
  int64_t events_ = 0;
  int64_t errors_ = 0;
};

}  // namespace quorate::differential
