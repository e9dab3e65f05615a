// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/checkers/sequence_checker.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace quorate::simulation {

SequenceChecker::SequenceChecker(History* history, std::vector<std::string> parents)
    : history_(history) {
  history->AddListener(this);
  for (const std::string& parent : parents) parents_[parent];
}

SequenceChecker::Numbers* SequenceChecker::NumbersOf(const Step& step) {
  if (step.kind != OperationKind::kCreate ||
      static_cast<int32_t>(step.mode) <
          static_cast<int32_t>(tree::CreateMode::kPersistentSequential)) {
    return nullptr;
  }
  const auto found = parents_.find(step.path.substr(0, step.path.rfind('/')));
  return found == parents_.end() ? nullptr : &found->second;
}

void SequenceChecker::OnInvoked(const Operation& operation) {
  std::vector<int64_t> before;
  bool any = false;
  for (const Step& step : operation.request.steps) {
    const Numbers* numbers = NumbersOf(step);
    any |= numbers != nullptr;
    before.push_back(numbers == nullptr ? -1 : numbers->last_given);
  }
  if (any) given_before_[operation.id] = before;
}

void SequenceChecker::OnLost(const Operation& operation) { given_before_.erase(operation.id); }

void SequenceChecker::OnAnswered(const Operation& operation) {
  const auto before = given_before_.find(operation.id);
  if (before == given_before_.end()) return;
  const size_t count = std::min(operation.request.steps.size(), operation.reply.steps.size());
  for (size_t i = 0; i < count; ++i) {
    Numbers* numbers = NumbersOf(operation.request.steps[i]);
    if (numbers != nullptr && !operation.reply.steps[i].path.empty()) Check(operation, i, numbers);
  }
  given_before_.erase(before);
}

void SequenceChecker::Check(const Operation& operation, size_t step, Numbers* numbers) {
  const StepResult& result = operation.reply.steps[step];
  const std::string& asked = operation.request.steps[step].path;
  int64_t number = 0;
  if (result.path.size() < asked.size() + 10 || !result.path.starts_with(asked) ||
      !absl::SimpleAtoi(result.path.substr(asked.size()), &number)) {
    history_->Fail("a sequential node has a number of ten digits", operation, result.path);
  }
  const auto [given, fresh] = numbers->given.emplace(number, operation.id);
  if (!fresh) {
    history_->Fail(
        "a sequence number is given once", operation,
        absl::StrCat("before:\n", history_->Describe(history_->operation(given->second))));
  }
  const int64_t before = given_before_.at(operation.id)[step];
  if (number <= before) {
    history_->Fail("sequence numbers grow", operation,
                   absl::StrCat(before, " had been given when it began"));
  }
  numbers->last_given = std::max(numbers->last_given, number);
  if (!result.stat) return;
  const auto at =
      numbers->by_zxid.emplace(std::pair(result.stat->czxid.value(), step), number).first;
  const bool after_smaller = at == numbers->by_zxid.begin() || std::prev(at)->second < number;
  const bool before_greater =
      std::next(at) == numbers->by_zxid.end() || number < std::next(at)->second;
  if (after_smaller && before_greater) return;
  history_->Fail(
      "sequence numbers grow", operation,
      absl::StrCat("not in the order of the zxids of their nodes: ", number, " is beside ",
                   after_smaller ? std::next(at)->second : std::prev(at)->second));
}

}  // namespace quorate::simulation
