// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/checkers/checkers.h"

namespace quorate::simulation {

Checkers::Checkers(SimEnvironment* environment, const CheckerSettings& settings)
    : history_(environment),
      replay_(&history_),
      order_(&history_),
      real_time_(&history_, &replay_),
      watches_(&history_, &replay_.model()),
      sessions_(&history_, &replay_, settings.clock_drift_max, settings.unnoticed_us),
      bank_(&history_, settings.accounts, settings.sum),
      sequences_(&history_, settings.sequence_parents),
      registers_(&history_, settings.register_prefix, settings.register_value),
      native_(&history_, &replay_, settings.clock_drift_max) {}

void Checkers::CheckFinal(const std::set<int64_t>& living) const {
  SimEnvironment& environment = history_.environment();
  for (size_t member = 0; member < environment.member_count(); ++member) {
    environment.ReadTree(member, [&](const tree::Tree& tree) {
      replay_.CheckTree(member, tree);
      bank_.CheckTree(member, tree);
      // A member that was removed from the cluster may be behind.
      if (tree.last_zxid().value() == model().last_zxid()) {
        sessions_.CheckEphemerals(member, tree, living);
      }
    });
  }
  registers_.CheckFinal();
  if (bank_.sums_taken() > 0) environment.Count("checker: the sum of the accounts was taken");
}

}  // namespace quorate::simulation
