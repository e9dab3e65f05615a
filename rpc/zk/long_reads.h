// Reads of a connection that may take longer than the tree may be locked for.
//
// Thread-safety: none; on the thread of the connection's loop.
#pragma once

#include <string_view>

#include "rpc/zk/connection.h"

namespace quorate::rpc::zk {

class Connection::LongRead {
 public:
  virtual ~LongRead() = default;
  // Reads the next piece, about kNodesPerHold znodes, and puts the reply into the connection's out_
  // behind the last one. False if there is more to read. It may unlock the tree to encode a reply.
  virtual bool Continue(Connection* connection) = 0;
  // The client is told of this event between two pieces, or at the begin of one: before the reply,
  // which must not show what was before the event.
  virtual void OnEvent(tree::EventType /*type*/, std::string_view /*path*/) {}
  // What is kept of the reply so far.
  virtual size_t bytes() const = 0;
  // Whether it may be refused midway when replies take too much memory.
  virtual bool may_be_refused() const { return true; }
  int32_t xid() const { return xid_; }

 protected:
  explicit LongRead(int32_t xid) : xid_(xid) {}

 private:
  const int32_t xid_;
};

}  // namespace quorate::rpc::zk
