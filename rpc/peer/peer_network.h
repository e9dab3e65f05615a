// The connections between servers, over gRPC: each server opens one stream to each other one and
// only writes on it; what the other says comes on the stream that the other opened. A stream
// carries Raft messages, forwarded writes and session touches, everything that waited in one gRPC
// message.
//
// Thread-safety: all functions may be called from any thread; handler calls come from gRPC's
// threads and must be brief.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "consensus/core/types.h"
#include "consensus/runtime/node.h"
#include "rpc/peer/frame.h"

namespace quorate::rpc {

// Bytes that wait for a peer that does not read. What comes on top is dropped: Raft sends again by
// itself, and forwarded writes are sent again when they are not applied in time.
inline constexpr size_t kPeerQueueBytesMax = 64u << 20;

class PeerHandler {
 public:
  virtual ~PeerHandler() = default;
  virtual void OnPeerBatch(consensus::MemberId from, PeerBatch batch) = 0;
  // Our stream to `member` was accepted.
  virtual void OnPeerUp(consensus::MemberId member) = 0;
  // Our stream to `member`, or its stream to us, broke. For the latter the call comes after its
  // last batch.
  virtual void OnPeerDown(consensus::MemberId member) = 0;
  // `member` refused us because it belongs to another cluster (16 bytes).
  virtual void OnOtherCluster(consensus::MemberId member, const std::string& cluster_id) = 0;
};

struct PeerNetworkOptions {
  consensus::MemberId self;
  std::string listen_address;                            // host:port
  std::map<consensus::MemberId, std::string> addresses;  // of the others, host:port
};

class PeerNetwork : public consensus::PeerTransport {
 public:
  // `handler` must outlive the object.
  PeerNetwork(PeerNetworkOptions options, PeerHandler* handler);
  ~PeerNetwork() override;
  PeerNetwork(const PeerNetwork&) = delete;
  PeerNetwork& operator=(const PeerNetwork&) = delete;

  // Listens and begins to connect. Unavailable, naming the address, if it cannot listen there.
  absl::Status Start(const std::string& cluster_id);
  // Breaks all streams and waits until no handler call can come any more.
  void Stop();

  // Streams opened from now on carry this id, and others are refused.
  void SetClusterId(const std::string& cluster_id);

  void Send(std::vector<consensus::Message> messages) override;
  // Sends writes to the leader. They may be lost like anything else.
  void Forward(consensus::MemberId to, const std::vector<std::string_view>& commands);
  void SendTouches(consensus::MemberId to, const std::vector<int64_t>& sessions);

  // Opens broken streams again when it is time. To be called every few milliseconds.
  void Tick();
  // How long our stream to `member` has been down; 0 if it is up, or for a member that is not
  // known.
  int64_t DownForMs(consensus::MemberId member) const;

 private:
  class Link;
  class Receiver;
  class Service;

  const PeerNetworkOptions options_;
  PeerHandler* const handler_;
  std::unique_ptr<Service> service_;
  std::map<consensus::MemberId, std::shared_ptr<Link>> links_;
};

}  // namespace quorate::rpc
