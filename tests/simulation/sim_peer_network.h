// SPDX-License-Identifier: Apache-2.0

// The links between simulated servers: the counterpart of rpc/peer/peer_network.h over the
// simulated network instead of TCP, with the real queues, batches and frames. Bytes arrive in
// pieces of any size, as the network accepts them.
//
// Each machine has addresses. A link exists only to the address that the sending process knows: at
// first that of its configuration, then that of its membership (SetMembers). Nobody answers at an
// address that no machine has, and a server refuses a server that it does not know.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "rpc/config/server_line.h"
#include "rpc/peer/peer_address.h"
#include "rpc/peer/peer_links.h"
#include "rpc/peer/send_queue.h"
#include "tests/simulation/network.h"
#include "tests/simulation/process_lifetime.h"

namespace quorate::simulation {

class SimulatedLinks;

// Is notified of every Raft message, digest note and disk report that leaves a member.
class MessageObserver {
 public:
  virtual ~MessageObserver() = default;
  virtual void OnMessage(size_t member, const consensus::Message& message) = 0;
  virtual void OnDigestNote(size_t member, size_t to, const rpc::DigestNote& note) = 0;
  virtual void OnDiskReport(size_t member, size_t to, const rpc::DiskReport& report) = 0;
};

// The links and the machine of each member.
class SimPeerNetwork {
 public:
  SimPeerNetwork(Network* network, size_t members) : network_(*network), hosts_(members) {}

  struct Host {
    SimulatedLinks* links = nullptr;  // of the process that runs there
    bool on = false;                  // the machine; without a process it refuses connections
    // The machine has the addresses from `oldest` to `newest`, which are numbered from 0.
    size_t oldest_address = 0;
    size_t newest_address = 0;
  };
  Host& host(size_t member) { return hosts_[member]; }
  size_t size() const { return hosts_.size(); }
  Network& network() { return network_; }
  Simulation& simulation() { return network_.simulation(); }
  // Whether the machine takes packets.
  bool CanReceive(size_t member) const;
  // Whether `to` would answer a ping from `from`.
  bool Answers(size_t from, size_t to) const;

  // Returns the server line of a member at the address with this number.
  rpc::ServerLine LineAt(size_t member, size_t address) const;
  // Returns whether the machine of `member` has this address.
  bool Has(size_t member, const rpc::PeerAddress& address) const;
  // Gives the machine one more address, its newest. REQUIRES: it has only one.
  void AddAddress(size_t member);
  // Takes all addresses but the newest from the machine.
  void DropOldAddresses(size_t member);
  // Gives a machine an address back that it had before, if `address` is one.
  void Restore(size_t member, const rpc::PeerAddress& address);

 private:
  Network& network_;
  std::vector<Host> hosts_;
};

class SimulatedLinks : public rpc::PeerLinks {
 public:
  // The links of member `self` (from 0; server self + 1) during one process. `handler` may be
  // called until Close; `after_call` runs after each call.
  SimulatedLinks(SimPeerNetwork* peer_network, size_t self,
                 std::shared_ptr<ProcessLifetime> lifetime, MessageObserver* observer);
  ~SimulatedLinks() override;

  // Sets the addresses of the configuration, with which the links begin. Call it before Start and
  // SetMembers.
  void Configure(const rpc::PeerAddresses& others) { SetMembers(others); }

  void Start(rpc::PeerHandler* handler, Scheduler::Task after_call, std::string cluster_id);
  // Closes all links, because the process has ended. With `silent`, the machine is off, too, and no
  // peer is notified.
  void Close(bool silent);
  bool paused() const { return lifetime_->paused(); }
  // Breaks the connection to `to`, if there is one.
  void BreakStream(size_t to);
  // Returns the address at which this process reaches `to`; nullopt if it does not know `to`.
  const std::optional<rpc::PeerAddress>& AddressOf(size_t to) const { return links_[to].address; }

  void Send(std::vector<consensus::Message> messages) override;
  void Forward(consensus::MemberId to, const std::vector<std::string_view>& commands) override;
  void SendTouches(consensus::MemberId to, const std::vector<int64_t>& sessions) override;
  void SendDigest(consensus::MemberId to, const rpc::DigestNote& note) override;
  void SendDiskReport(consensus::MemberId to, const rpc::DiskReport& report) override;
  bool IsSending(consensus::MemberId member) const override;
  void Tick() override;
  int64_t DownForMs(consensus::MemberId member) const override;
  std::string ProblemOf(consensus::MemberId) const override { return ""; }
  void SetMembers(const rpc::PeerAddresses& others) override;
  void SetClusterId(const std::string& cluster_id) override { cluster_id_ = cluster_id; }

 private:
  class Stream;
  struct Link {
    std::optional<rpc::PeerAddress> address;  // nullopt: the member is not known
    int64_t ends_us = 0;                      // of a member that was removed; 0: it was not
    std::shared_ptr<Stream> stream;
    rpc::PeerAddress stream_address;  // to which the stream was opened
    bool up = false;
    bool writing = false;  // a write is under way, or waits until the machine has sent more
    // The next two belong to the stream.
    std::unique_ptr<rpc::SendQueue> queue;
    std::unique_ptr<rpc::BatchWriter> writer;
    int64_t connect_at_us = 0;
    int64_t attempt_ends_us = 0;  // unless the stream was accepted
    int64_t down_since_us = 0;
  };

  void Connect(size_t to);
  // Ends the link to a member that was removed, and the connections from it.
  void EndLink(size_t to);
  // Adds frames by `add(SendQueue*)`, if the stream was accepted.
  template <class Add>
  void Write(size_t to, Add add);
  void StartWrite(size_t to);
  void WriteAgainAfter(size_t to, int64_t delay_us);
  void SendAlone(const consensus::Message& message, size_t to);
  void OnUp(size_t to, const Stream* stream, uint32_t receiver_version);
  void OnDone(size_t to, const Stream* stream, const std::string& other_cluster);
  // Why a stream that opens with this Hello is refused; empty if it is accepted.
  std::string Check(const rpc::Hello& hello) const;
  void Tell(const Scheduler::Task& call);

  SimPeerNetwork& peer_network_;
  Simulation& simulation_;
  Random& random_;
  const size_t self_;
  const std::shared_ptr<ProcessLifetime> lifetime_;
  MessageObserver* const observer_;
  rpc::PeerHandler* handler_ = nullptr;
  Scheduler::Task after_call_;
  std::string cluster_id_;
  // The newest version of the protocol between servers that this process understands.
  uint32_t protocol_version_ = rpc::kPeerProtocolNewest;
  std::vector<Link> links_;
  std::vector<std::shared_ptr<Stream>> incoming_;  // accepted
};

}  // namespace quorate::simulation
