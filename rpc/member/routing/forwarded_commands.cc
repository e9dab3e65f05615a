// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/routing/forwarded_commands.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace quorate::rpc {
namespace {

// Checks what follows the header of a command, and returns the version that the command needs.
absl::StatusOr<uint32_t> CheckBody(const tree::CommandHeader& header, std::string_view command) {
  absl::Status status;
  switch (header.kind) {
    case tree::CommandKind::kCreateSession:
    case tree::CommandKind::kAttachSession:
      status = tree::DecodeSessionBody(command).status();
      break;
    case tree::CommandKind::kRequest: {
      const absl::StatusOr<tree::Request> request = tree::DecodeRequest(command);
      if (request.ok()) return tree::VersionNeeded(header, *request);
      status = request.status();
      break;
    }
    case tree::CommandKind::kSequencedRequest: {
      const absl::StatusOr<tree::SequencedRequest> sequenced =
          tree::DecodeSequencedRequest(command);
      if (sequenced.ok()) return tree::VersionNeeded(header, sequenced->request);
      status = sequenced.status();
      break;
    }
    case tree::CommandKind::kCloseSession:
    case tree::CommandKind::kExpireSession:
      break;  // these kinds have only a header
    case tree::CommandKind::kDeleteContainer:
      status = tree::DecodeDeleteContainer(command).status();
      break;
  }
  if (!status.ok()) return status;
  return tree::VersionNeeded(header.kind);
}

}  // namespace

absl::StatusOr<ForwardedCommands> ForwardedCommands::Check(consensus::MemberId from,
                                                           CommandBatch batch) {
  ForwardedCommands checked(std::move(batch));
  checked.commands_.reserve(checked.batch_.commands.size());
  for (const CommandBatch::Range& range : checked.batch_.commands) {
    const std::string_view command = checked.batch_.view(range);
    const absl::StatusOr<tree::CommandHeader> header = tree::DecodeHeader(command);
    if (!header.ok()) return header.status();
    if (header->proposer.member != from.value()) {
      return absl::InvalidArgumentError(absl::StrCat("command number ", header->sequence,
                                                     " is of server ", header->proposer.member,
                                                     ", and came from server ", from.value()));
    }
    const absl::StatusOr<uint32_t> version = CheckBody(*header, command);
    if (!version.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("command number ", header->sequence, ": ", version.status().message()));
    }
    checked.commands_.push_back({range, header->proposer, header->sequence, *version});
  }
  return checked;
}

}  // namespace quorate::rpc
