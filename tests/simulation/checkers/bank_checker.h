// SPDX-License-Identifier: Apache-2.0

// Accounts between which multis move money: at every zxid their sum is the same. A reply that reads
// an account shows its balance from the zxid of its last change to the zxid of the reply; whenever
// replies, of any clients, overlap for all accounts, the sum can be checked.
//
// Thread-safety: none; one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "tests/simulation/checkers/history.h"
#include "tree/tree.h"

namespace quorate::simulation {

class BankChecker : public HistoryListener {
 public:
  // Adds itself to the history, which must outlive it. The data of an account is a number.
  BankChecker(History* history, std::vector<std::string> accounts, int64_t sum);

  void OnAnswered(const Operation& operation) override;
  // Checks the accounts in a member's tree.
  void CheckTree(size_t member, const tree::Tree& tree) const;
  // How often the sum was checked: a check that never happened proves nothing.
  size_t sums_taken() const { return sums_taken_; }

 private:
  struct Holding {
    int64_t from_zxid = 0;
    int64_t to_zxid = 0;
    int64_t balance = 0;
    OperationId read_by = 0;
  };

  void TakeSum(int64_t zxid, const Operation& operation);

  History* const history_;
  const std::vector<std::string> accounts_;
  const int64_t sum_;
  std::map<std::string, std::deque<Holding>> holdings_;  // the newest replies for each account
  size_t sums_taken_ = 0;
};

}  // namespace quorate::simulation
