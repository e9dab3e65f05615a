// SPDX-License-Identifier: Apache-2.0

// The numbers of sequential nodes are unique, and grow with zxids and from an answered create to
// any create that began later. Uses only replies.
//
// Thread-safety: none; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/simulation/checkers/history.h"

namespace quorate::simulation {

class SequenceChecker : public HistoryListener {
 public:
  // Adds itself to the history, which must outlive it. Checks the children of `parents`, which must
  // never be deleted.
  SequenceChecker(History* history, std::vector<std::string> parents);

  void OnInvoked(const Operation& operation) override;
  void OnAnswered(const Operation& operation) override;
  void OnLost(const Operation& operation) override;

 private:
  struct Numbers {
    std::map<int64_t, OperationId> given;
    // By zxid, and by the place in a multi.
    std::map<std::pair<int64_t, size_t>, int64_t> by_zxid;
    int64_t last_given = -1;  // the greatest
  };

  // The numbers of the parent in which `step` creates a sequential node; nullptr if it creates
  // none.
  Numbers* NumbersOf(const Step& step);
  void Check(const Operation& operation, size_t step, Numbers* numbers);

  History* const history_;
  std::map<std::string, Numbers> parents_;
  // By create under way: for each of its steps, the greatest number given when it began.
  std::map<OperationId, std::vector<int64_t>> given_before_;
};

}  // namespace quorate::simulation
