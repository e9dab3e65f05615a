// SPDX-License-Identifier: Apache-2.0

#include "tests/differential/comparison.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/zookeeper/wire/wire.h"
#include "tests/differential/known_differences.h"

namespace quorate::differential {
namespace {

// Returns the name of an operation in the kind of a difference.
std::string OperationName(const Operation& operation) {
  switch (operation.kind) {
    case OperationKind::kConnect:
      return "connect";
    case OperationKind::kDrop:
      return "drop";
    case OperationKind::kRequests:
      break;
  }
  std::string name;
  for (const Request& request : operation.requests) {
    absl::StrAppend(&name, name.empty() ? "" : "+", request.raw ? "raw bytes" : OpName(request.op));
  }
  return operation.requests.size() > 1 ? "pipeline" : name;
}

// The order in which the ephemeral nodes of a session are deleted is not specified.
void SortEvents(std::vector<Answer>* answers) {
  auto key = [](const Answer& event) {
    return std::make_tuple(event.fields[2].text, event.fields[0].number);
  };
  for (auto from = answers->begin(); from != answers->end();) {
    auto to = from;
    while (to != answers->end() && to->kind == AnswerKind::kEvent) ++to;
    std::sort(from, to, [&](const Answer& a, const Answer& b) { return key(a) < key(b); });
    from = to == answers->end() ? to : to + 1;
  }
}

std::string Brief(const Answer& answer) {
  if (answer.kind == AnswerKind::kReply) {
    return absl::StrCat("reply to ", OpName(answer.op), " ", ErrorName(answer.error));
  }
  if (answer.kind == AnswerKind::kEvent) {
    return absl::StrCat("event of type ", answer.fields[0].number);
  }
  return std::string(ToString(answer.kind));
}

std::string BriefField(const Field& field) {
  if (field.kind == FieldKind::kError) return ErrorName(static_cast<int32_t>(field.number));
  return absl::StrCat(field.number);
}

std::string KindOf(const Operation& operation, bool asked, const Answer& reference,
                   const Answer& ours, size_t field) {
  std::string kind = reference.kind == AnswerKind::kReply ? OpName(reference.op)
                     : reference.kind == AnswerKind::kEvent
                         ? absl::StrCat("event after ", OperationName(operation))
                         : OperationName(operation);
  if (!asked) absl::StrAppend(&kind, ", at another client");
  if (field >= reference.fields.size() || field >= ours.fields.size()) {
    return absl::StrCat(kind, ": number of fields");
  }
  const Field& there = reference.fields[field];
  const Field& here = ours.fields[field];
  absl::StrAppend(&kind, ": ", there.name);
  if (there.kind == FieldKind::kError || there.name == "count" || there.name == "type" ||
      there.name == "item type") {
    absl::StrAppend(&kind, ": reference ", BriefField(there), ", here ", BriefField(here));
  }
  return kind;
}

}  // namespace

std::vector<Difference> Comparison::Compare(const Operation& operation, bool asked,
                                            std::vector<Answer> reference,
                                            std::vector<Answer> ours) {
  if (std::any_of(operation.requests.begin(), operation.requests.end(),
                  [](const Request& r) { return r.op == wire::kCloseSession; })) {
    SortEvents(&reference);
    SortEvents(&ours);
  }
  std::vector<Difference> differences;
  const size_t count = std::max(reference.size(), ours.size());
  for (size_t i = 0; i < count; ++i) {
    const Answer none;
    const Answer& there = i < reference.size() ? reference[i] : none;
    Answer here = i < ours.size() ? ours[i] : none;
    ++answers_;
    if (there.kind == AnswerKind::kEvent) ++events_;
    if (there.kind == AnswerKind::kReply && there.error != 0) ++errors_;
    if (there.kind != here.kind || there.op != here.op) {
      if (const KnownDifference* difference = FindKnownDifference({operation, there, here});
          difference != nullptr) {
        ++known_differences_[difference->name];
        break;
      }
      differences.push_back(
          {absl::StrCat(OperationName(operation), asked ? "" : ", at another client",
                        ": reference ", Brief(there), ", here ", Brief(here)),
           there.Describe(), here.Describe(), there.kind == AnswerKind::kNothing});
      break;
    }
    const size_t field = FirstMismatch(operation, there, &here);
    if (field < std::max(there.fields.size(), here.fields.size())) {
      differences.push_back(
          {KindOf(operation, asked, there, here, field), there.Describe(), here.Describe()});
    }
  }
  return differences;
}

size_t Comparison::FirstMismatch(const Operation& operation, const Answer& reference,
                                 Answer* ours) {
  for (size_t i = 0; i < std::min(reference.fields.size(), ours->fields.size()); ++i) {
    const Field& field = reference.fields[i];
    // A reply to a ping may overtake earlier ones.
    if (reference.op == wire::kPing && operation.requests.size() > 1 &&
        field.kind == FieldKind::kSeenZxid) {
      continue;
    }
    if (Same(reference, *ours, i)) continue;
    const KnownDifference* difference =
        FindKnownDifference({operation, reference, *ours, &field, &ours->fields[i]});
    if (difference == nullptr) return i;
    ++known_differences_[difference->name];
    if (difference->adapt != nullptr) difference->adapt(&ours->fields, i);
  }
  return std::min(reference.fields.size(), ours->fields.size());
}

bool Comparison::Same(const Answer& reference, const Answer& ours, size_t field) {
  const Field& there = reference.fields[field];
  const Field& here = ours.fields[field];
  if (there.name != here.name) return false;
  switch (there.kind) {
    case FieldKind::kNumber:
    case FieldKind::kError:
      return there.number == here.number;
    case FieldKind::kText:
      return there.number == here.number && there.text == here.text;
    case FieldKind::kZxid:
      return relation_.SameChange(there.number, here.number);
    case FieldKind::kSeenZxid:
      return relation_.SameMoment(there.number, here.number);
    case FieldKind::kTime:
      return relation_.SameTime(reference.fields[field - there.partner].number, there.number,
                                ours.fields[field - here.partner].number, here.number);
    case FieldKind::kSession:
      return relation_.SameSession(there.number, here.number);
  }
  return false;
}

}  // namespace quorate::differential
