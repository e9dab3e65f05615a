// SPDX-License-Identifier: Apache-2.0

// Commands that another member forwarded to the leader, checked by decoding each completely: a
// command that the tree cannot apply must not enter the log, because every member would stop when
// it applies it. Commands of this member's own front ends need no such check, because this process
// has just encoded them.
//
// Thread-safety: values; Check may be called from any thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "consensus/core/types.h"
#include "rpc/peer/frame.h"
#include "tree/command.h"

namespace quorate::rpc {

class ForwardedCommands {
 public:
  struct Command {
    CommandBatch::Range range;
    tree::Proposer proposer;
    uint64_t sequence = 0;
    uint32_t version_needed = 0;  // tree::VersionNeeded
  };

  // Returns the commands of `batch`. Errors: InvalidArgument, with the reason, if a command does
  // not decode, or its proposer is not `from`.
  static absl::StatusOr<ForwardedCommands> Check(consensus::MemberId from, CommandBatch batch);

  const std::vector<Command>& commands() const { return commands_; }
  std::string_view view(const Command& command) const { return batch_.view(command.range); }

 private:
  explicit ForwardedCommands(CommandBatch batch) : batch_(std::move(batch)) {}

  CommandBatch batch_;
  std::vector<Command> commands_;
};

}  // namespace quorate::rpc
