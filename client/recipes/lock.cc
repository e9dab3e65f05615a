// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/lock.h"

#include <utility>

#include "client/recipes/lock_listener.h"

namespace quorate {

absl::Status RequestRevocation(Client* client, const std::string& node, CallOptions options) {
  return client->Set(node, internal::kRevocationMessage, {.deadline_ms = options.deadline_ms})
      .status();
}

namespace internal {

LockNode::Handler HandlerFor(std::shared_ptr<Listener<LockEvent>> listener) {
  return [listener = std::move(listener)](const LockNode& node, const LockNode::Event& event) {
    using From = LockNode::Event::Type;
    using To = LockEvent::Type;
    if (!node.had_turn()) return;
    const auto tell = [&](To type) {
      listener->Tell({type, node.path(), node.fencing_token(), event.reason});
    };
    switch (event.type) {
      case From::kCreated:
      case From::kMovesUp:
      case From::kWaits:
        return;
      case From::kTurn:
        return tell(To::kAcquired);
      case From::kSuspended:
        return tell(To::kSuspended);
      case From::kResumed:
        return tell(To::kResumed);
      case From::kRevoked:
        return tell(To::kRevoked);
      case From::kEnded:
        return tell(To::kLost);
      case From::kReleased:
        return tell(To::kReleased);
    }
  };
}

}  // namespace internal

}  // namespace quorate
