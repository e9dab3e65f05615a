// SPDX-License-Identifier: Apache-2.0

#include "tests/chaos/client.h"

#include <array>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"

namespace quorate::chaos {
namespace {

// An error of both front ends, and its name in the history.
struct Known {
  tree::ErrorCode code;
  ErrorCode native;
  const char* name;
  bool is_certain;
};
constexpr std::array<Known, 13> kKnown = {{
    {tree::ErrorCode::kNoNode, ErrorCode::kNoNode, "NoNode", true},
    {tree::ErrorCode::kNodeExists, ErrorCode::kNodeExists, "NodeExists", true},
    {tree::ErrorCode::kBadVersion, ErrorCode::kBadVersion, "BadVersion", true},
    {tree::ErrorCode::kNotEmpty, ErrorCode::kNotEmpty, "NotEmpty", true},
    {tree::ErrorCode::kNoChildrenForEphemerals, ErrorCode::kNoChildrenForEphemerals,
     "NoChildrenForEphemerals", true},
    {tree::ErrorCode::kNoAuth, ErrorCode::kNoAuth, "NoAuth", true},
    {tree::ErrorCode::kBadArguments, ErrorCode::kBadArguments, "BadArguments", true},
    {tree::ErrorCode::kQuotaExceeded, ErrorCode::kQuotaExceeded, "QuotaExceeded", true},
    {tree::ErrorCode::kTooLarge, ErrorCode::kTooLarge, "TooLarge", true},
    // Only the native front end returns this error.
    {tree::ErrorCode::kOk, ErrorCode::kNoSpace, "NoSpace", true},
    {tree::ErrorCode::kSessionExpired, ErrorCode::kSessionExpired, "SessionExpired", false},
    {tree::ErrorCode::kSessionMoved, ErrorCode::kSessionMoved, "SessionMoved", false},
    // A write of data while a disk is full: nothing was proposed.
    {tree::ErrorCode::kSystemError, ErrorCode::kSystemError, "SystemError", true},
}};

}  // namespace

void Recorder::Write(Line line) {
  switch (line.what) {
    case What::kOk:
      ++ok_;
      break;
    case What::kRefused:
      ++refused_;
      break;
    case What::kUnknown:
      ++unknown_;
      break;
    case What::kEvent:
      ++events_;
      break;
    case What::kExpired:
      ++expired_;
      break;
    default:
      break;
  }
  history_->Write(std::move(line));
}

void Recorder::WriteInvoke(Line* operation) {
  operation->what = What::kInvoke;
  operation->operation = history_->NextOperation();
  Write(*operation);
}

void Recorder::WriteOutcome(const Line& invoke, Line outcome) {
  outcome.client = invoke.client;
  outcome.operation = invoke.operation;
  if (outcome.what == What::kOk && IsWrite(invoke.function)) last_write_ok_ns_ = NowNs();
  Write(std::move(outcome));
}

void Recorder::ReportProtocolError(const std::string& what) {
  ++protocol_errors_;
  std::fprintf(stderr, "protocol error: %s\n", what.c_str());
}

Refusal RefusalOf(tree::ErrorCode code) {
  for (const Known& known : kKnown) {
    if (known.code == code) return {known.name, known.is_certain};
  }
  return {absl::StrCat("Error", static_cast<int32_t>(code)), false};
}

Refusal RefusalOf(ErrorCode code) {
  for (const Known& known : kKnown) {
    if (known.native == code) return {known.name, known.is_certain};
  }
  return {std::string(quorate::NameOf(code)), false};
}

bool IsWrite(std::string_view function) {
  return function == "create" || function == "set" || function == "delete" || function == "multi" ||
         function == "add";
}

Line NotSent() {
  Line outcome;
  outcome.what = What::kRefused;
  outcome.error = kNotSent;
  return outcome;
}

}  // namespace quorate::chaos
