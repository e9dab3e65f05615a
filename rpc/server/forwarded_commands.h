// Commands that another member forwarded to the leader, each of which was decoded to its end: what
// the tree cannot apply must not enter the log, where it would end every member. Those of this
// member's own front ends need no such check, because it has just written them itself.
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

  // Errors: InvalidArgument, naming what is wrong, if a command does not decode, or is not one of
  // `from`.
  static absl::StatusOr<ForwardedCommands> Check(consensus::MemberId from, CommandBatch batch);

  const std::vector<Command>& commands() const { return commands_; }
  std::string_view view(const Command& command) const { return batch_.view(command.range); }

 private:
  explicit ForwardedCommands(CommandBatch batch) : batch_(std::move(batch)) {}

  CommandBatch batch_;
  std::vector<Command> commands_;
};

}  // namespace quorate::rpc
