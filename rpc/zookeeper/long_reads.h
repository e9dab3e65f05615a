// SPDX-License-Identifier: Apache-2.0

// Reads that may take longer than the tree may be locked at a time.
//
// Thread-safety: none; on the thread of the connection's loop.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "rpc/zookeeper/connection.h"

namespace quorate::rpc::zk {

class Connection::LongRead {
 public:
  virtual ~LongRead() = default;
  // Reads the next piece, about kNodesPerHold znodes. Returns false if there is more to read. With
  // the last piece, appends the reply to the connection's out_. May unlock the tree to encode the
  // reply.
  virtual bool Continue(Connection* connection) = 0;
  // Returns whether this read itself sends this event to the client later, so that the connection
  // must not send it. Called, as OnEvent, between two pieces or at the beginning of a piece.
  virtual bool TakesEvent(tree::EventType /*type*/, std::string_view /*path*/) { return false; }
  // Called when the client is sent this event, between two pieces or at the beginning of a piece.
  // The reply follows the event, so it must not show the state before the event.
  virtual void OnEvent(tree::EventType /*type*/, std::string_view /*path*/) {}
  // Returns the bytes kept for this read so far.
  virtual size_t bytes() const = 0;
  // Returns whether this read may be rejected midway when replies take too much memory.
  virtual bool may_be_refused() const { return true; }
  // Returns an error if the connection has to be closed because this read cannot be finished.
  virtual absl::Status problem() const { return absl::OkStatus(); }
  int32_t xid() const { return xid_; }

 protected:
  explicit LongRead(int32_t xid) : xid_(xid) {}

 private:
  const int32_t xid_;
};

}  // namespace quorate::rpc::zk
