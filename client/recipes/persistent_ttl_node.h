// SPDX-License-Identifier: Apache-2.0

// Keeps a znode in existence while any of its holders lives, and for a limited time after the last
// of them: through losses of sessions and short restarts, unlike an ephemeral znode.
//
//   auto node = quorate::PersistentTtlNode::Start(client.get(), "/jobs/report", "data",
//                                                 {.ttl_ms = 60'000});
//
// Layout, that of Curator's PersistentTtlNode, with which it can share a path:
//   PATH          a container with the data; missing ancestors are created as persistent znodes
//   PATH/touch    a znode with the TTL. Each holder sets it, `touches_per_ttl` times in each TTL
// When no holder has touched it for the TTL, the servers delete PATH/touch, and PATH after it, each
// at their next check (znode.container.checkIntervalMs). Other children of PATH keep it. A znode that
// exists at either path at the start counts as ours, and PATH gets our data; if it is not a container,
// or PATH/touch has no TTL, it stays when the holders are gone. The TTL of PATH/touch is that of the
// holder that has created it: all holders should use the same.
//
// PATH is created before PATH/touch. If the holder dies in between, PATH stays until another holder of
// it comes, because the servers delete no container that never had a child.
//
// A znode that another client deletes is created again: PATH at once, and PATH/touch together with
// PATH, or at the next touch. A touch that fails is repeated after at most a second; WaitUntilThere
// returns the error of the last one.
//
// When the session is lost, nothing happens to the znodes, and the touches go on in the session by
// which the client replaces the lost one. After the end of the client's last session, or a call of
// Close, this object touches no more: the znodes go after the TTL. To delete them earlier, delete them
// with Client::Delete after Close.
//
// The servers need no setting for znodes with a TTL (ZooKeeper's extendedTypesEnabled).
//
// Thread-safety: all functions may be called from any thread except the callback thread. The
// listener is called on the callback thread, and must not block.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"

namespace quorate {

// How long the znode outlives its holders, and who hears that it exists.
struct PersistentTtlNodeOptions {
  // The time from the last touch to the deletion of PATH/touch.
  int64_t ttl_ms = 0;
  // How often this object touches within `ttl_ms`, as Curator's touchScheduleFactor.
  int touches_per_ttl = 2;
  // Of both znodes. Empty: all clients have all permissions.
  std::vector<Acl> acl{};
  // Called each time that the znode at PATH begins or ceases to exist, with whether it exists. After
  // the loss of a session it gets false, and then true once the znode was read in the next session.
  std::function<void(bool is_there)> listener{};
};

// A holder of a znode that outlives sessions, but not its last holder for longer than a TTL.
class PersistentTtlNode {
 public:
  // Begins to create the znodes. INVALID_ARGUMENT: the TTL is not positive or longer than the servers
  // permit (about 34 years), or `touches_per_ttl` is less than 2. Errors of Client::Watch.
  // REQUIRES: `client` outlives this object.
  static absl::StatusOr<std::unique_ptr<PersistentTtlNode>> Start(Client* client, std::string path,
                                                                  std::string data,
                                                                  PersistentTtlNodeOptions options);
  // Closes, waiting at most two seconds.
  ~PersistentTtlNode();
  PersistentTtlNode(const PersistentTtlNode&) = delete;
  PersistentTtlNode& operator=(const PersistentTtlNode&) = delete;

  // Blocks until both znodes exist. DEADLINE_EXCEEDED after `deadline_ms`; 0: without a deadline.
  // CANCELLED: Close was called meanwhile. Otherwise the error with which the servers, or the client,
  // have refused the creation or the last touch; touches are tried again.
  absl::Status WaitUntilThere(int deadline_ms = 0);
  // Returns whether both znodes exist, as far as is known locally.
  bool is_there() const;

  // Sets the data of the znode at PATH, as PersistentNode::SetData.
  absl::Status SetData(std::string data);

  // Stops touching; leaves both znodes. A touch that is under way may still be made. The listener is
  // not called any more after Close. DEADLINE_EXCEEDED after `deadline_ms`: the znode at PATH may
  // still be created; 0: without a deadline.
  absl::Status Close(int deadline_ms = 0);

 private:
  class State;
  explicit PersistentTtlNode(std::shared_ptr<State> state);

  const std::shared_ptr<State> state_;
};

}  // namespace quorate
