#include "tests/simulation/checkers/register_checker.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/assert.h"

namespace quorate::simulation {
namespace {

using tree::ErrorCode;

// A search that has not ended by then is given up.
constexpr size_t kStatesMax = 200'000;

// Which operations have been put in order so far, and what the register then is. The version tells
// how many writes took effect, and the value which was the last.
struct SearchState {
  std::string done;  // a 0 or 1 for each operation
  int32_t version = 0;
  std::string value;
  friend auto operator<=>(const SearchState&, const SearchState&) = default;
};

bool ChangesNothing(const RegisterOperation& operation) {
  return !operation.write || operation.refused;
}

// Does `operation` next; false if its answer is not what it would have been.
bool Apply(const RegisterOperation& operation, SearchState* state) {
  if (!operation.write) {
    return operation.version == state->version && operation.value == state->value;
  }
  const bool fits = operation.expected_version == tree::kAnyVersion ||
                    operation.expected_version == state->version;
  if (operation.refused) return !fits;
  // One that was lost need not be put in order at all, if it has no effect.
  if (!fits || (!operation.lost && operation.version != state->version + 1)) return false;
  ++state->version;
  state->value = operation.value;
  return true;
}

class Search {
 public:
  Search(const std::vector<RegisterOperation>& operations, size_t states_max)
      : operations_(operations), states_max_(states_max) {}

  Verdict Run(const std::string& initial) {
    SearchState first;
    first.done.resize(operations_.size(), 0);
    first.value = initial;
    Visit(std::move(first));
    while (!stack_.empty()) {
      if (seen_.size() > states_max_) return Verdict::kTooHard;
      const SearchState state = *stack_.back();
      stack_.pop_back();
      if (IsComplete(state)) return Verdict::kLinearizable;
      Extend(state);
    }
    return Verdict::kNotLinearizable;
  }

 private:
  bool IsComplete(const SearchState& state) const {
    for (size_t i = 0; i < operations_.size(); ++i) {
      if (!state.done[i] && !operations_[i].lost) return false;
    }
    return true;
  }

  // Whether what is left asks for a version that is over.
  bool IsDead(const SearchState& state) const {
    for (size_t i = 0; i < operations_.size(); ++i) {
      const RegisterOperation& operation = operations_[i];
      if (state.done[i] || operation.lost || operation.refused) continue;
      if (operation.version < state.version + (operation.write ? 1 : 0)) return true;
    }
    return false;
  }

  int64_t FirstReturnUs(const SearchState& state) const {
    int64_t first_us = INT64_MAX;
    for (size_t i = 0; i < operations_.size(); ++i) {
      if (state.done[i] || operations_[i].lost) continue;
      first_us = std::min(first_us, operations_[i].return_us);
    }
    return first_us;
  }

  // Does what can be next and changes nothing: it is as good now as ever. Each may let others be
  // next.
  void DoWhatChangesNothing(SearchState* state) const {
    for (bool any = true; any;) {
      any = false;
      const int64_t first_return_us = FirstReturnUs(*state);
      for (size_t i = 0; i < operations_.size(); ++i) {
        const RegisterOperation& operation = operations_[i];
        if (state->done[i] || !ChangesNothing(operation)) continue;
        if (operation.call_us > first_return_us || !Apply(operation, state)) continue;
        state->done[i] = 1;
        any = true;
      }
    }
  }

  // Whatever was called before the first return of those that are left may be next.
  void Extend(const SearchState& state) {
    const int64_t first_return_us = FirstReturnUs(state);
    for (size_t i = operations_.size(); i > 0; --i) {  // the earliest is tried first
      const RegisterOperation& operation = operations_[i - 1];
      if (state.done[i - 1] || ChangesNothing(operation)) continue;
      if (operation.call_us > first_return_us) continue;
      SearchState next = state;
      if (!Apply(operation, &next)) continue;
      next.done[i - 1] = 1;
      Visit(std::move(next));
    }
  }

  void Visit(SearchState state) {
    DoWhatChangesNothing(&state);
    if (IsDead(state)) return;
    const auto [at, fresh] = seen_.insert(std::move(state));
    if (fresh) stack_.push_back(&*at);
  }

  const std::vector<RegisterOperation>& operations_;
  const size_t states_max_;
  std::set<SearchState> seen_;
  std::vector<const SearchState*> stack_;
};

}  // namespace

Verdict CheckRegister(const std::vector<RegisterOperation>& operations, const std::string& initial,
                      size_t states_max) {
  return Search(operations, states_max).Run(initial);
}

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
  entry.call_us = call_us;
  entry.return_us = operation.completed_us;
  entry.lost = operation.outcome == Outcome::kLost;
  entry.write = !request.steps.empty();
  const Reply& reply = operation.reply;
  if (entry.write) {
    entry.expected_version = request.steps[0].version;
    entry.value = request.steps[0].data;
    entry.refused = reply.error == ErrorCode::kBadVersion;
    if (reply.error == ErrorCode::kSessionExpired) return;  // without an effect
    if (!entry.lost && reply.error == ErrorCode::kOk) entry.version = reply.steps[0].stat->version;
  } else {
    entry.value = reply.data;
    if (reply.error == ErrorCode::kOk) entry.version = reply.stat->version;
  }
  if (reply.error != ErrorCode::kOk && !entry.refused) {
    history_->Fail("a register is there", operation, "it was made before anybody used it");
  }
  registers_[entry.write ? request.steps[0].path : request.path].push_back(std::move(entry));
}

void RegisterChecker::CheckFinal() const {
  for (const auto& [path, operations] : registers_) {
    const Verdict verdict = CheckRegister(operations, initial_, kStatesMax);
    history_->world().Count(verdict == Verdict::kTooHard ? "checker: a register was too hard"
                                                         : "checker: a register was judged");
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
