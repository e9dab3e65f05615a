// SPDX-License-Identifier: Apache-2.0

// Keeps a znode in existence while this object lives: creates it again if another client deletes
// it.
//
//   auto node = quorate::PersistentNode::Start(client.get(), "/workers/w1", "data");
//
// Layout: the znode at `path`, ephemeral unless the options say otherwise; missing ancestors are
// created. The equivalent of Curator's PersistentNode.
//
// In the mode kEphemeral the path may have a znode that is not ours, usually an ephemeral one that
// this program created before a restart. This object then waits until that znode is deleted, and
// creates its own. With `takes_over` it replaces that znode at the start, in one transaction. In
// the other modes a znode that exists at the path counts as ours, and gets our data at the start.
//
// An ephemeral znode is ours only if it belongs to our session. Each change of it is made on
// condition that it is the znode that we created (Transaction::CheckCreated), so that a znode that
// another client has just created in its place is not changed. While some servers are of a version
// without this operation, the condition is the version of our znode instead, which a znode of
// another client can have, too.
//
// If the creation fails for lack of resources (RESOURCE_EXHAUSTED: too many pending calls, a quota,
// no disk space), it is retried after a pause of at most five seconds. Any other error is final.
//
// When the session is lost, the servers delete an ephemeral znode, and the listener gets false. This
// object creates the znode again, with the data that was set last, in the session by which the client
// replaces the lost one; WaitUntilThere waits for that. After the end of the client's last session
// this object is of no use.
//
// Thread-safety: all functions may be called from any thread except the callback thread. The
// listener is called on the callback thread, and must not block.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"

namespace quorate {

// A znode that is created again in the next session, and when another client deletes it.
class PersistentNode {
 public:
  // What the znode is, and who hears that it exists.
  struct Options {
    // kEphemeral, kPersistent or kContainer.
    CreateMode mode = CreateMode::kEphemeral;
    std::vector<Acl> acl{};
    // Whether to replace a znode that is not ours at the start.
    bool takes_over = false;
    // Called each time that our znode begins or ceases to exist, with whether it exists.
    std::function<void(bool is_there)> listener{};
  };

  // Begins to create the znode. INVALID_ARGUMENT: another mode. Errors of Client::Watch. REQUIRES:
  // `client` outlives this object.
  static absl::StatusOr<std::unique_ptr<PersistentNode>> Start(Client* client, std::string path,
                                                               std::string data, Options options);
  static absl::StatusOr<std::unique_ptr<PersistentNode>> Start(Client* client, std::string path,
                                                               std::string data) {
    return Start(client, std::move(path), std::move(data), Options());
  }
  // Closes, waiting at most two seconds.
  ~PersistentNode();
  PersistentNode(const PersistentNode&) = delete;
  PersistentNode& operator=(const PersistentNode&) = delete;

  // Blocks until our znode exists. DEADLINE_EXCEEDED after `deadline_ms`; 0: without a deadline.
  // CANCELLED: Close was called meanwhile. RESOURCE_EXHAUSTED: the creation was refused, and will
  // be retried. Otherwise the error that prevents the creation.
  absl::Status WaitUntilThere(int deadline_ms = 0);
  // Returns whether our znode exists, as far as is known locally.
  bool is_there() const;

  // Sets the data of the znode, now if it exists, and whenever it is created again. Returns OK, and
  // changes no znode, if another session has taken over an ephemeral one, or if the session is lost
  // meanwhile: the next znode gets the data.
  absl::Status SetData(std::string data);

  // Stops, and deletes the znode if it is ours and ephemeral. The listener is not called any more
  // after Close. DEADLINE_EXCEEDED after `deadline_ms`: the znode may exist until the session ends,
  // or until another Close deletes it; 0: without a deadline.
  absl::Status Close(int deadline_ms = 0);

 private:
  class State;
  explicit PersistentNode(std::shared_ptr<State> state);

  const std::shared_ptr<State> state_;
};

}  // namespace quorate
