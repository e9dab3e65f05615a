// The links to the other servers, as a replica uses them, and what comes in on them. PeerNetwork
// makes them of TCP connections.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "consensus/core/types.h"
#include "consensus/runtime/node.h"
#include "rpc/peer/frame.h"

namespace quorate::rpc {

// What is sent may be lost, duplicated and, from one link to the next, reordered. Between an
// OnPeerUp and the next, one link keeps the order of its control frames and that of its data, but
// control overtakes data: rpc/peer/send_queue.h says what belongs to which, and why that is safe.
//
// Thread-safety: all functions may be called from any thread.
class PeerLinks : public consensus::PeerTransport {
 public:
  // Sends writes to the leader.
  virtual void Forward(consensus::MemberId to, const std::vector<std::string_view>& commands) = 0;
  // Sends the ids of sessions that were heard from.
  virtual void SendTouches(consensus::MemberId to, const std::vector<int64_t>& sessions) = 0;
  virtual void SendDiskReport(consensus::MemberId to, const DiskReport& report) = 0;

  // Sends a note. REQUIRES: the version that `to` understands is at least kVersionDigests.
  virtual void SendDigest(consensus::MemberId to, const DigestNote& note) = 0;

  // Whether something that was sent to `member` has not left this process yet.
  virtual bool IsSending(consensus::MemberId member) const = 0;

  // Opens broken links again when it is time. To be called every few milliseconds.
  virtual void Tick() = 0;
  // How long our link to `member` has been down; 0 if it is up, or for a member that is not known.
  virtual int64_t DownForMs(consensus::MemberId member) const = 0;
  // Why our link to `member` is down, with its address, for people; empty if it is up, if no
  // attempt has ended yet, or for a member that is not known.
  virtual std::string ProblemOf(consensus::MemberId member) const = 0;
  // Links opened from now on carry this id (16 bytes), and others are refused.
  virtual void SetClusterId(const std::string& cluster_id) = 0;
};

// Calls may come on any thread, those about one link one after another; they must be brief.
class PeerHandler {
 public:
  virtual ~PeerHandler() = default;
  // An error, which says what is wrong with the batch, closes the link of `from`; what can be used
  // of the batch may have been.
  virtual absl::Status OnPeerBatch(consensus::MemberId from, PeerBatch batch) = 0;
  // Our link to `member` was accepted.
  virtual void OnPeerUp(consensus::MemberId member) = 0;
  // Our link to `member`, or its link to us, broke. For the latter the call comes after its last
  // batch.
  virtual void OnPeerDown(consensus::MemberId member) = 0;
  // `member` refused us because it belongs to another cluster (16 bytes).
  virtual void OnOtherCluster(consensus::MemberId member, const std::string& cluster_id) = 0;
};

}  // namespace quorate::rpc
