// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/exit_status.h"

#include <string>

#include "absl/strings/cord.h"

namespace quorate::rpc {
namespace {

// A name as absl::Status recommends it for payloads, which are found by it.
constexpr char kPayload[] = "quorate/exit-status";

}  // namespace

absl::Status WithExitStatus(absl::Status error, ExitStatus exit_status) {
  error.SetPayload(kPayload, absl::Cord(std::string(1, static_cast<char>(exit_status))));
  return error;
}

ExitStatus ExitStatusOf(const absl::Status& result) {
  if (result.ok()) return ExitStatus::kOk;
  const auto payload = result.GetPayload(kPayload);
  if (!payload.has_value() || payload->empty()) return ExitStatus::kError;
  return static_cast<ExitStatus>((*payload)[0]);
}

}  // namespace quorate::rpc
