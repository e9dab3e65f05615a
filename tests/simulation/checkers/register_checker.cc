// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/checkers/register_checker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/assert.h"

namespace quorate::simulation {
namespace {

using tree::ErrorCode;

// A search that needs more states is given up.
constexpr size_t kStatesMax = 200'000;

static_assert(kAnyRegisterVersion == tree::kAnyVersion);

}  // namespace

RegisterChecker::RegisterChecker(History* history, std::string prefix, std::string initial)
    : history_(history), prefix_(std::move(prefix)), initial_(std::move(initial)) {
  history->AddListener(this);
}

size_t RegisterChecker::size(const std::string& path) const {
  const auto found = registers_.find(path);
  return found == registers_.end() ? 0 : found->second.size();
}

void RegisterChecker::OnAnswered(const Operation& operation) {
  const Request& request = operation.request;
  if (request.kind == OperationKind::kSetData && request.steps[0].path.starts_with(prefix_)) {
    Add(operation, operation.invoked_us);
    return;
  }
  if (request.kind != OperationKind::kGetData || !request.path.starts_with(prefix_)) return;
  const std::vector<OperationId>& sent = history_->link(operation.link).operations;
  const auto at = std::lower_bound(sent.begin(), sent.end(), operation.id);
  ASSERT(at != sent.end() && *at == operation.id);
  if (at == sent.begin()) return;
  const Operation& before = history_->operation(*std::prev(at));
  if (before.request.kind != OperationKind::kSync || before.request.path != request.path) return;
  Add(operation, before.invoked_us);
}

void RegisterChecker::OnLost(const Operation& operation) {
  const Request& request = operation.request;
  if (request.kind == OperationKind::kSetData && request.steps[0].path.starts_with(prefix_)) {
    Add(operation, operation.invoked_us);
  }
}

void RegisterChecker::Add(const Operation& operation, int64_t call_us) {
  const Request& request = operation.request;
  RegisterOperation entry;
  entry.id = operation.id;
  entry.call_time = call_us;
  entry.lost = operation.outcome == Outcome::kLost;
  if (!entry.lost) entry.return_time = operation.completed_us;
  entry.write = !request.steps.empty();
  const Reply& reply = operation.reply;
  if (entry.write) {
    entry.expected_version = request.steps[0].version;
    entry.value = request.steps[0].data;
    entry.refused = reply.error == ErrorCode::kBadVersion;
    // These errors have no effect; the latter is returned when disks are nearly full.
    if (reply.error == ErrorCode::kSessionExpired || reply.error == ErrorCode::kSystemError) return;
    if (!entry.lost && reply.error == ErrorCode::kOk) entry.version = reply.steps[0].stat->version;
  } else {
    entry.value = reply.data;
    if (reply.error == ErrorCode::kOk) entry.version = reply.stat->version;
  }
  if (reply.error != ErrorCode::kOk && !entry.refused) {
    history_->Fail("a register exists", operation,
                   "it was created before the first operation on it");
  }
  registers_[entry.write ? request.steps[0].path : request.path].push_back(std::move(entry));
}

void RegisterChecker::CheckFinal() const {
  for (const auto& [path, operations] : registers_) {
    const Verdict verdict = CheckRegister(operations, initial_, kStatesMax);
    history_->environment().Count(verdict == Verdict::kTooHard ? "checker: a register was too hard"
                                                               : "checker: a register was checked");
    if (verdict != Verdict::kNotLinearizable) continue;
    std::string lines;
    for (const RegisterOperation& operation : operations) {
      absl::StrAppend(&lines, "  ", history_->Describe(history_->operation(operation.id)), "\n");
    }
    history_->Fail(
        "a register is linearizable",
        absl::StrCat(path, ": no order of these operations explains their answers\n", lines));
  }
}

}  // namespace quorate::simulation
