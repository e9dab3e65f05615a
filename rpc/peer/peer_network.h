// The connections between servers, over gRPC: each server opens one stream to each other one and
// only writes on it; what the other says comes on the stream that the other opened. A stream
// carries Raft messages, forwarded writes and session touches, everything that waited in one gRPC
// message.
//
// Thread-safety: all functions may be called from any thread; handler calls come from gRPC's
// threads and must be brief.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "consensus/core/types.h"
#include "rpc/peer/peer_links.h"

namespace quorate::rpc {

// Bytes that wait for a peer that does not read. What comes on top is dropped: Raft sends again by
// itself, and forwarded writes are sent again when they are not applied in time.
inline constexpr size_t kPeerQueueBytesMax = 64u << 20;

struct PeerNetworkOptions {
  consensus::MemberId self;
  std::string listen_address;                            // host:port
  std::map<consensus::MemberId, std::string> addresses;  // of the others, host:port
};

class PeerNetwork : public PeerLinks {
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

  // PeerLinks
  void Send(std::vector<consensus::Message> messages) override;
  void Forward(consensus::MemberId to, const std::vector<std::string_view>& commands) override;
  void SendTouches(consensus::MemberId to, const std::vector<int64_t>& sessions) override;
  void Tick() override;
  int64_t DownForMs(consensus::MemberId member) const override;
  void SetClusterId(const std::string& cluster_id) override;

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
