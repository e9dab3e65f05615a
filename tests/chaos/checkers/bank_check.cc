// SPDX-License-Identifier: Apache-2.0

#include "tests/chaos/checkers/bank_check.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/chaos/checkers/number.h"

namespace quorate::chaos {
namespace {

constexpr char kSum[] = "the sum of all accounts stays the same";
constexpr char kView[] = "multi-gets are views of one history";

using View = std::vector<std::pair<std::string_view, int32_t>>;  // path, version

bool IsOlderSomewhere(const View& a, const View& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].second < b[i].second) return true;
  }
  return false;
}

class Checker {
 public:
  Checker(const Run& run, Verdicts* verdicts) : run_(run), verdicts_(verdicts) {}

  void Check() {
    FindAccounts();
    if (accounts_.empty()) return;
    for (const Operation& operation : run_.operations()) {
      if (!IsBank(operation) || !operation.ok()) continue;
      if (operation.function == Function::kMulti) verdicts_->Count("transfers");
      if (operation.function == Function::kMultiGet) CheckSum(operation);
    }
    CheckViews();
  }

 private:
  static bool IsBank(const Operation& operation) { return operation.workload == "bank"; }

  // Collects all nodes that are part of transfers, or read together.
  void FindAccounts() {
    std::map<std::string_view, int64_t> created;
    for (const Operation& operation : run_.operations()) {
      if (!IsBank(operation)) continue;
      for (const RunStep& step : operation.steps) accounts_.insert(step.path);
      const std::optional<int64_t> balance = LeadingNumber(operation.written);
      if (operation.function == Function::kCreate && balance) created[operation.path] = *balance;
    }
    for (std::string_view account : accounts_) {
      const auto found = created.find(account);
      if (found == created.end()) {
        verdicts_->Undecided(
            absl::StrCat("the sum of the accounts: no client created ", std::string(account)));
        accounts_.clear();
        return;
      }
      sum_ += found->second;
    }
  }

  void CheckSum(const Operation& read) {
    std::set<std::string_view> paths;
    int64_t sum = 0;
    View view;
    for (const RunStep& step : read.steps) {
      const std::optional<int64_t> balance = LeadingNumber(step.data);
      if (!step.error.empty() || !balance) return CheckReadable(read, step);
      if (paths.insert(step.path).second) sum += *balance;
      if (step.stat) view.emplace_back(step.path, step.stat->version);
    }
    if (paths != accounts_) return;
    verdicts_->Count("sums");
    if (sum != sum_) {
      verdicts_->Fail(kSum, absl::StrCat("it is ", sum, " instead of ", sum_), {&read});
    }
    if (view.size() != accounts_.size()) return;
    std::sort(view.begin(), view.end());
    views_.emplace_back(std::move(view), &read);
  }

  // A member that is behind may not have the account yet.
  void CheckReadable(const Operation& read, const RunStep& step) {
    if (step.error == "NoNode" && !read.linearizable) return;
    verdicts_->Fail(kSum,
                    absl::StrCat(std::string(step.path), " is not an account: \"",
                                 std::string(step.error.empty() ? step.data : step.error), "\""),
                    {&read});
  }

  void CheckViews() {
    const auto changes = [](const View& view) {
      int64_t sum = 0;
      for (const auto& [path, version] : view) sum += version;
      return sum;
    };
    std::stable_sort(views_.begin(), views_.end(), [&](const auto& a, const auto& b) {
      return changes(a.first) < changes(b.first);
    });
    for (size_t i = 1; i < views_.size(); ++i) {
      const auto& [older, first] = views_[i - 1];
      const auto& [newer, second] = views_[i];
      if (!IsOlderSomewhere(newer, older)) continue;
      verdicts_->Fail(kView,
                      "each of the two shows a change that the other one does not show: a transfer "
                      "was seen in part, or in another order",
                      {first, second});
    }
  }

  const Run& run_;
  Verdicts* const verdicts_;
  std::set<std::string_view> accounts_;
  int64_t sum_ = 0;
  std::vector<std::pair<View, const Operation*>> views_;
};

}  // namespace

Verdicts CheckBank(const Run& run) {
  Verdicts verdicts(&run, "bank");
  Checker(run, &verdicts).Check();
  return verdicts;
}

}  // namespace quorate::chaos
