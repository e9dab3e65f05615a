// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/checkers/bank_checker.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace quorate::simulation {
namespace {

constexpr char kInvariant[] =
    "a multi is applied as a whole: the sum of the accounts stays the same";
// Per account.
constexpr size_t kHoldingsMax = 64;

}  // namespace

BankChecker::BankChecker(History* history, std::vector<std::string> accounts, int64_t sum)
    : history_(history), accounts_(std::move(accounts)), sum_(sum) {
  history->AddListener(this);
  for (const std::string& account : accounts_) holdings_[account];
}

void BankChecker::OnAnswered(const Operation& operation) {
  const Request& request = operation.request;
  if (request.kind != OperationKind::kGetData || operation.reply.error != tree::ErrorCode::kOk) {
    return;
  }
  const auto found = holdings_.find(request.path);
  if (found == holdings_.end()) return;
  Holding holding{operation.reply.stat->mzxid.value(), operation.reply.zxid, 0, operation.id};
  if (!absl::SimpleAtoi(operation.reply.data, &holding.balance)) {
    history_->Fail(kInvariant, operation, "the balance is not a number");
  }
  std::deque<Holding>& holdings = found->second;
  const auto same = std::find_if(holdings.begin(), holdings.end(), [&](const Holding& other) {
    return other.from_zxid == holding.from_zxid;
  });
  if (same == holdings.end()) {
    holdings.push_back(holding);
    if (holdings.size() > kHoldingsMax) holdings.pop_front();
  } else {
    if (same->balance != holding.balance) {
      history_->Fail(kInvariant, operation,
                     absl::StrCat("of the same change, the balance was ", same->balance, " in\n",
                                  history_->Describe(history_->operation(same->read_by))));
    }
    same->to_zxid = std::max(same->to_zxid, holding.to_zxid);
  }
  // The zxids at which a reply begins or ceases to hold, while this one holds.
  std::set<int64_t> zxids{holding.from_zxid, holding.to_zxid};
  for (const auto& [account, others] : holdings_) {
    for (const Holding& other : others) {
      for (int64_t zxid : {other.from_zxid, other.to_zxid}) {
        if (holding.from_zxid <= zxid && zxid <= holding.to_zxid) zxids.insert(zxid);
      }
    }
  }
  for (int64_t zxid : zxids) TakeSum(zxid, operation);
}

void BankChecker::TakeSum(int64_t zxid, const Operation& operation) {
  int64_t sum = 0;
  std::string lines;
  for (const auto& [account, holdings] : holdings_) {
    const auto held = std::find_if(holdings.begin(), holdings.end(), [zxid](const Holding& h) {
      return h.from_zxid <= zxid && zxid <= h.to_zxid;
    });
    if (held == holdings.end()) return;
    sum += held->balance;
    absl::StrAppend(&lines, "  ", history_->Describe(history_->operation(held->read_by)), "\n");
  }
  ++sums_taken_;
  if (sum == sum_) return;
  history_->Fail(
      kInvariant, operation,
      absl::StrCat("at zxid ", zxid, " it is ", sum, " instead of ", sum_, ":\n", lines));
}

void BankChecker::CheckTree(size_t member, const tree::Tree& tree) const {
  int64_t sum = 0;
  size_t found = 0;
  for (const std::string& account : accounts_) {
    std::string_view data;
    bool has_data = false;
    tree::Stat stat;
    if (tree.GetData(account, {}, &data, &has_data, &stat) != tree::ErrorCode::kOk) continue;
    int64_t balance = 0;
    if (!absl::SimpleAtoi(std::string(data), &balance)) {
      history_->Fail(kInvariant,
                     absl::StrCat("member ", member, ": ", account, " is not a number"));
    }
    sum += balance;
    ++found;
  }
  // All accounts were created by one multi.
  if (found == 0 || (found == accounts_.size() && sum == sum_)) return;
  history_->Fail(kInvariant,
                 absl::StrCat("member ", member, " has ", found, " of ", accounts_.size(),
                              " accounts, with ", sum, " instead of ", sum_));
}

}  // namespace quorate::simulation
