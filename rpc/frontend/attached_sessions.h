// SPDX-License-Identifier: Apache-2.0

// The sessions whose clients this server serves, with what only this server knows of them. What all
// members know of a session is in the tree.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"
#include "tree/types.h"

namespace quorate::rpc {

enum class ClientProtocol : uint8_t { kZooKeeper, kGrpc };

// The client of a session. Only `watches` changes.
struct AttachedSession {
  using Time = std::chrono::steady_clock::time_point;

  uint32_t tag = 0;           // of the client
  tree::Zxid attach_zxid{0};  // of the attachment of this client
  ClientProtocol protocol = ClientProtocol::kZooKeeper;
  std::string address{};                  // without the port
  std::vector<std::string> identities{};  // IdentityTexts (client_identities.h)
  Time since{};                           // when this client attached the session
  std::atomic<int64_t> watches{0};        // may be some seconds old
};

class AttachedSessions {
 public:
  AttachedSessions() = default;
  AttachedSessions(const AttachedSessions&) = delete;
  AttachedSessions& operator=(const AttachedSessions&) = delete;

  // Adds the client of a session, in place of one with an earlier attachment; does nothing if there is
  // one with a later attachment. Detach must follow.
  void Attach(tree::SessionId session, std::shared_ptr<AttachedSession> client);
  // As Attach, if the session has a client with the same tag; otherwise does nothing.
  void Update(tree::SessionId session, std::shared_ptr<AttachedSession> client);
  // Removes the client of a session, if it has this tag.
  void Detach(tree::SessionId session, uint32_t tag);
  // Returns the client of a session; null if this server serves none.
  std::shared_ptr<const AttachedSession> Find(tree::SessionId session) const;

 private:
  mutable Mutex mutex_;
  absl::flat_hash_map<tree::SessionId, std::shared_ptr<AttachedSession>> sessions_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace quorate::rpc
