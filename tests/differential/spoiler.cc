// SPDX-License-Identifier: Apache-2.0

#include "tests/differential/spoiler.h"

#include <algorithm>
#include <utility>

#include "rpc/zookeeper/wire/wire.h"

namespace quorate::differential {
namespace {

constexpr int64_t kEvery = 20;

Field* FindField(Answer& answer, std::string_view name) {
  auto field = std::find_if(answer.fields.begin(), answer.fields.end(),
                            [&](const Field& f) { return f.name == name; });
  return field == answer.fields.end() ? nullptr : &*field;
}

}  // namespace

const std::vector<std::string>& Spoiler::Names() {
  static const auto* names = new std::vector<std::string>{
      "lost-write", "lost-event", "second-event", "late-event",    "wrong-error",
      "wrong-data", "wrong-acl",  "wrong-child",  "wrong-version", "zxid-of-another-change",
      "old-zxid",   "wrong-time", "wrong-owner",  "closed"};
  return *names;
}

bool Spoiler::Now() { return ++chances_ % kEvery == 0; }

Operation Spoiler::Spoiled(const Operation& operation) {
  Operation spoiled = operation;
  if (name_ != "lost-write") return spoiled;
  for (Request& request : spoiled.requests) {
    if (request.op == wire::kSetData && Now()) {
      request.op = wire::kPing;
      request.body.clear();
    }
  }
  return spoiled;
}

void Spoiler::Spoil(std::vector<Answer>* answers) {
  if (name_.empty()) return;
  static const std::vector<std::pair<std::string, std::string>> wrong_fields{
      {"wrong-error", "err"},   {"wrong-data", "data"},       {"wrong-acl", "acl"},
      {"wrong-child", "child"}, {"wrong-version", "version"}, {"zxid-of-another-change", "pzxid"},
      {"old-zxid", "zxid"},     {"wrong-time", "mtime"},      {"wrong-owner", "ephemeralOwner"}};
  for (size_t i = 0; i < answers->size(); ++i) {
    Answer& answer = (*answers)[i];
    const bool event = answer.kind == AnswerKind::kEvent;
    if (name_ == "lost-event" && event && Now()) {
      answers->erase(answers->begin() + static_cast<ptrdiff_t>(i));
      return;
    }
    if (name_ == "second-event" && event && Now()) {
      answers->insert(answers->begin() + static_cast<ptrdiff_t>(i), Answer(answer));
      return;
    }
    if (name_ == "late-event" && event && i + 1 < answers->size() && Now()) {
      std::swap(answer, (*answers)[i + 1]);
      return;
    }
    if (name_ == "closed" && answer.kind == AnswerKind::kReply && Now()) {
      answers->emplace_back().kind = AnswerKind::kClosed;
      return;
    }
    for (const auto& [name, field_name] : wrong_fields) {
      Field* field = name == name_ ? FindField(answer, field_name) : nullptr;
      if (field == nullptr || !Now()) continue;
      --field->number;
      field->text += "!";
    }
  }
}

}  // namespace quorate::differential
