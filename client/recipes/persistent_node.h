// Keeps a znode there for as long as this object lives: if somebody deletes it, it is made again.
//
//   auto node = quorate::PersistentNode::Start(client.get(), "/workers/w1", "data");
//
// Layout: the znode at `path`, ephemeral unless the options say otherwise; what is missing above it
// is made. Does what Curator's PersistentNode does.
//
// An ephemeral znode of another session at that path, mostly that of this program before it was
// started again, is waited for: when it ends, ours is made. With `takes_over` it is replaced at the
// start, in one transaction. A znode that is persistent there gets our data at the start if the
// mode is persistent; otherwise it is waited for, too.
//
// An ephemeral znode is ours only if it is that of our session. What is done to it is done on
// condition that it is the one that we have made: the znode of another which has just been made in
// its place is not touched. While some servers are of a version that does not know this condition
// (Transaction::CheckCreated), it is the version that ours had, which that of another may have,
// too.
//
// If there is no room for it (RESOURCE_EXHAUSTED: too many calls of the client, a quota, no space),
// it is tried again after a while, up to five seconds. Any other refusal is for good.
//
// The znode ends with the session, and the object is then of no use: make a new one with a new
// Client.
//
// Thread-safety: all functions from any thread but that of callbacks. The listener is called on the
// thread of callbacks, and must not block.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"

namespace quorate {

class PersistentNode {
 public:
  struct Options {
    // kEphemeral, kPersistent or kContainer.
    CreateMode mode = CreateMode::kEphemeral;
    std::vector<Acl> acl{};
    bool takes_over = false;
    // Told whether our znode is there, each time that this changes.
    std::function<void(bool is_there)> listener{};
  };

  // Begins to make it. INVALID_ARGUMENT: another mode. Errors of Client::Watch. REQUIRES: `client`
  // lives longer.
  static absl::StatusOr<std::unique_ptr<PersistentNode>> Start(Client* client, std::string path,
                                                               std::string data, Options options);
  static absl::StatusOr<std::unique_ptr<PersistentNode>> Start(Client* client, std::string path,
                                                               std::string data) {
    return Start(client, std::move(path), std::move(data), Options());
  }
  // Closes, for at most two seconds.
  ~PersistentNode();
  PersistentNode(const PersistentNode&) = delete;
  PersistentNode& operator=(const PersistentNode&) = delete;

  // Waits until our znode is there. DEADLINE_EXCEEDED after `deadline_ms`; 0: without a
  // deadline. CANCELLED: it was closed meanwhile. Otherwise why it cannot be made;
  // RESOURCE_EXHAUSTED: it is tried again later.
  absl::Status WaitUntilThere(int deadline_ms = 0);
  bool is_there() const;

  // Sets its data, now if it is there, and when it is made again: OK, and nothing is changed, if an
  // ephemeral one was taken over by another session.
  absl::Status SetData(std::string data);

  // Deletes the znode if it is ours and ephemeral, and stops. No listener is called after it.
  // DEADLINE_EXCEEDED after `deadline_ms`, and the znode may be there until the session ends, or
  // until another Close deletes it; 0: without a deadline.
  absl::Status Close(int deadline_ms = 0);

 private:
  class State;
  explicit PersistentNode(std::shared_ptr<State> state);

  const std::shared_ptr<State> state_;
};

}  // namespace quorate
