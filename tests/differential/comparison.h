// Compares what two servers answered.
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
  std::string kind;  // what differences are grouped by
  std::string reference;
  std::string ours;
  bool is_stall = false;  // the reference has not answered in time
};

// One thing that is not the same. The fields are null if the answers are not comparable field by
// field.
struct Mismatch {
  const Operation& operation;
  const Answer& reference;
  const Answer& ours;
  const Field* reference_field = nullptr;
  const Field* our_field = nullptr;
};

class Comparison {
 public:
  // Compares what came on one connection after `operation`, which may be another client's.
  // `asked`: it was this client's. The first difference of each answer is returned; after
  // answers that do not correspond, the rest is not compared.
  std::vector<Difference> Compare(const Operation& operation, bool asked,
                                  std::vector<Answer> reference, std::vector<Answer> ours);

  // How often each intended difference was seen, by its name.
  const std::map<std::string, int64_t>& known_differences() const { return known_differences_; }
  int64_t answers() const { return answers_; }
  int64_t events() const { return events_; }
  int64_t errors() const { return errors_; }

  Relation& relation() { return relation_; }

 private:
  // The position of the first field that is neither the same nor a known difference; the number of
  // fields if there is none. Known differences are removed from `ours`.
  size_t FirstMismatch(const Operation& operation, const Answer& reference, Answer* ours);
  bool Same(const Answer& reference, const Answer& ours, size_t field);

  Relation relation_;
  std::map<std::string, int64_t> known_differences_;
  int64_t answers_ = 0;
  int64_t events_ = 0;
  int64_t errors_ = 0;
};

}  // namespace quorate::differential
