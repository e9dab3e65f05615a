// SPDX-License-Identifier: Apache-2.0

// The interface of the links to the other servers, for sending (PeerLinks) and receiving
// (PeerHandler). PeerNetwork implements the links over TCP.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "consensus/core/types.h"
#include "consensus/runtime/node.h"
#include "rpc/peer/frame.h"
#include "rpc/peer/peer_address.h"

namespace quorate::rpc {

// Frames may be lost, duplicated and, between different links, reordered. From one OnPeerUp to the
// next, a link keeps the order of its control frames and that of its data frames, but control
// overtakes data: rpc/peer/send_queue.h lists which frames are which, and why that is safe.
//
// Thread-safety: all functions may be called from any thread.
class PeerLinks : public consensus::PeerTransport {
 public:
  // Sends writes to the leader.
  virtual void Forward(consensus::MemberId to, const std::vector<std::string_view>& commands) = 0;
  // Sends the ids of sessions whose clients were heard from.
  virtual void SendTouches(consensus::MemberId to, const std::vector<int64_t>& sessions) = 0;
  virtual void SendDiskReport(consensus::MemberId to, const DiskReport& report) = 0;

  // Sends a note. REQUIRES: the version that `to` understands is at least kVersionDigests.
  virtual void SendDigest(consensus::MemberId to, const DigestNote& note) = 0;

  enum class SendResult : uint8_t {
    kSent,
    kNotSent,        // the link is down, or too much waits to be sent
    kNotUnderstood,  // the receiver is of a version without such notes
  };
  // Sends a note about a change of the members that a client has asked for.
  virtual SendResult SendReconfig(consensus::MemberId /*to*/, const ReconfigNote& /*note*/) {
    return SendResult::kNotSent;
  }

  // Returns whether bytes sent to `member` have not left this process yet.
  virtual bool IsSending(consensus::MemberId member) const = 0;

  // Reopens broken links when their next attempt is due. Called every few milliseconds.
  virtual void Tick() = 0;
  // Returns how long the link to `member` has been down, in milliseconds; 0 if it is up, or if
  // `member` is not known.
  virtual int64_t DownForMs(consensus::MemberId member) const = 0;
  // Returns why the link to `member` is down, with the address of `member`, for log messages; empty
  // if the link is up, if no attempt has ended yet, or if `member` is not known.
  virtual std::string ProblemOf(consensus::MemberId member) const = 0;
  // Sets the other members: links to them exist from now on, and those whose address differs are
  // connected anew. The link to a member that was removed stays open for some seconds, so that the
  // entry that removes it still arrives there. Called on the thread that steps Raft.
  virtual void SetMembers(const PeerAddresses& others) = 0;
  // Sets the id (16 bytes) of the cluster of this server. Hellos from now on carry it, and a hello
  // with another id is refused.
  virtual void SetClusterId(const std::string& cluster_id) = 0;
};

// Receives batches and events of links. Calls may come on any thread, but those about one link come
// one after another. They must return quickly.
class PeerHandler {
 public:
  virtual ~PeerHandler() = default;
  // Handles a batch that has arrived from `from`. A returned error, which says what is wrong with
  // the batch, closes the link of `from`; parts of the batch may have been handled before.
  virtual absl::Status OnPeerBatch(consensus::MemberId from, PeerBatch batch) = 0;
  // Called when `member` has accepted the link from this server.
  virtual void OnPeerUp(consensus::MemberId member) = 0;
  // Called when the link from this server to `member` broke, or the link from `member` to this
  // server. In the latter case the call comes after the last batch of that link.
  virtual void OnPeerDown(consensus::MemberId member) = 0;
  // Called when `member` refused the hello of this server because it belongs to another cluster,
  // `cluster_id` (16 bytes).
  virtual void OnOtherCluster(consensus::MemberId member, const std::string& cluster_id) = 0;
};

}  // namespace quorate::rpc
