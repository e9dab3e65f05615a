// The numbers of sequential nodes: never given twice, and growing: with zxids, and from a create
// that was answered to one that began later. By the replies alone.
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
  // Adds itself to the history, which must outlive it. Looks at the children of `parents`, which
  // must never be deleted.
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

  // What `step` numbers; nullptr if it does not.
  Numbers* NumbersOf(const Step& step);
  void Check(const Operation& operation, size_t step, Numbers* numbers);

  History* const history_;
  std::map<std::string, Numbers> parents_;
  // The greatest number given when a create that is under way began, for each of its steps.
  std::map<OperationId, std::vector<int64_t>> given_before_;
};

}  // namespace quorate::simulation
