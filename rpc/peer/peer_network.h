// SPDX-License-Identifier: Apache-2.0

// The connections between servers, over TCP. Each server opens a connection to each other server,
// on which it sends; it receives on the connections that the others opened. The connections carry
// Raft messages, forwarded writes, session touches, digests and disk reports, in batches
// (rpc/peer/send_queue.h).
//
// The network has no thread of its own: the thread that steps Raft waits here, so that it receives
// a message and steps it without a hand-over, and a thread that sends writes to the socket itself.
// (gRPC wakes two more threads for each message, at several times the processor time.)
//
// Thread-safety: one thread at a time, the event loop's, calls HandleEvents, SetMembers and Tick. All handler
// calls come on it, except those during End. Start is called before that thread runs, and End after it has
// ended. The other functions may be called from any thread.
#pragma once

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "consensus/core/types.h"
#include "consensus/runtime/node.h"
#include "rpc/peer/handshake_budget.h"
#include "rpc/peer/peer_address.h"
#include "rpc/peer/peer_link.h"
#include "rpc/peer/peer_links.h"
#include "rpc/peer/peer_receiver.h"
#include "rpc/peer/peer_security.h"
#include "rpc/peer/peer_socket.h"
#include "rpc/poller/descriptor.h"
#include "rpc/poller/poller.h"

namespace quorate::rpc {

struct PeerNetworkOptions {
  consensus::MemberId self;
  PeerAddress listen_address;  // no host: all addresses
  PeerAddresses addresses;     // of the other servers that the configuration names
  PeerSecurity security;
};

class PeerNetwork : public PeerLinks, public consensus::EventLoop, private PeerReceiver::Owner {
 public:
  // `handler` must outlive the object.
  PeerNetwork(PeerNetworkOptions options, PeerHandler* handler);
  ~PeerNetwork() override;
  PeerNetwork(const PeerNetwork&) = delete;
  PeerNetwork& operator=(const PeerNetwork&) = delete;

  // Listens and begins to connect. Returns Unavailable, naming the address, if it cannot listen
  // there.
  absl::Status Start(const std::string& cluster_id);

  // consensus::EventLoop
  void HandleEvents(std::chrono::steady_clock::time_point deadline) override;
  void Wake() override;
  // Closes all connections; no handler call comes after it has returned.
  void End() override;

  // PeerLinks
  void Send(std::vector<consensus::Message> messages) override;
  void Forward(consensus::MemberId to, const std::vector<std::string_view>& commands) override;
  void SendTouches(consensus::MemberId to, const std::vector<int64_t>& sessions) override;
  void SendDigest(consensus::MemberId to, const DigestNote& note) override;
  SendResult SendReconfig(consensus::MemberId to, const ReconfigNote& note) override;
  void SendDiskReport(consensus::MemberId to, const DiskReport& report) override;
  bool IsSending(consensus::MemberId member) const override;
  void Tick() override;
  int64_t DownForMs(consensus::MemberId member) const override;
  std::string ProblemOf(consensus::MemberId member) const override;
  void SetMembers(const PeerAddresses& others) override;
  void SetClusterId(const std::string& cluster_id) override;

 private:
  using Clock = std::chrono::steady_clock;
  using Links = std::map<consensus::MemberId, std::shared_ptr<PeerLink>>;
  // The most socket events that are handled before the thread returns to its other work.
  static constexpr size_t kEventsAtOnceMax = 16;

  // PeerReceiver::Owner
  bool MayHandshake() override;
  void OnHandshakeTime(Clock::duration time) override;
  std::string CertificateProblem(const Hello& hello, const X509* certificate) override;
  HelloAnswer OnHello(const Hello& hello, const std::string& host) override;
  void OnAccepted(PeerReceiver* receiver) override;
  void OnRefused(const std::string& where, const std::string& why) override;
  void OnUnproved(consensus::MemberId from, const std::string& why) override;
  void OnEnd(PeerReceiver* receiver) override;

  struct Listener : Poller::Handler {
    Listener(PeerNetwork* the_network, Descriptor the_socket)
        : network(the_network), socket(std::move(the_socket)) {}
    void OnReady(Poller::Readiness /*ready*/) override { network->Accept(this); }

    PeerNetwork* const network;
    const Descriptor socket;
    Poller::Id registration{};
    bool is_accepting = true;
  };

  absl::Status Listen();
  boost::system::error_code AddListener(
      const std::function<boost::system::error_code(boost::asio::ip::tcp::acceptor*)>& listen);
  void Accept(Listener* listener);
  void Adopt(Descriptor socket, const boost::asio::ip::tcp::endpoint& remote);
  // Closes a connection on which no hello was accepted, if there are too many of them: the oldest
  // one that does not come from the host of a member, or else the oldest.
  void MakeRoomForUnauthenticated();
  // Continues handshakes that wait for time: those from hosts of members before others, and then in
  // the order of their connections.
  void ContinueHandshakes();
  // Returns whether `receiver` is of a connection from the host of a member.
  bool IsFromMember(const PeerReceiver& receiver) const;
  void LogSecurity() const;
  // Returns whether the member that sent `hello` from `host` is alive in another process, at the
  // address that the configuration gives for it.
  bool IsAliveElsewhere(const Hello& hello, const std::string& host) const;
  HelloAnswer Reject(std::string reason) const;
  // Returns the link to `member`; null if that is not a known member.
  PeerLink* LinkTo(consensus::MemberId member) const;
  // Returns the address of `member`; null if that is not a known member. On the loop's thread.
  const PeerAddress* AddressOf(consensus::MemberId member) const;
  std::shared_ptr<PeerLink> MakeLink(consensus::MemberId member, const PeerAddress& address);
  const Links& links() const { return *links_.load(std::memory_order_acquire); }
  // Makes `links` those in use.
  void Publish(Links links);
  // Ends the links of members that were removed some time ago.
  void EndRemoved(Clock::time_point now);

  const PeerNetworkOptions options_;
  const uint64_t process_;  // Hello::process
  PeerHandler* const handler_;
  Poller poller_{kEventsAtOnceMax};
  // The links in use. A set of links does not change, so that other threads need no lock; a change of
  // the members makes a new one. `all_links_` keeps the earlier ones until the end, because other
  // threads may still use them: they are as few as the changes of members.
  std::atomic<const Links*> links_{nullptr};
  std::vector<std::unique_ptr<const Links>> all_links_;

  // Used only by the event loop's thread.
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::map<const PeerReceiver*, std::shared_ptr<PeerReceiver>> receivers_;
  std::optional<Clock::time_point> refusal_logged_at_;
  std::optional<Clock::time_point> unproved_logged_at_;
  HandshakeBudget handshake_budget_;
  // The members that were removed, and when their links end.
  std::map<consensus::MemberId, Clock::time_point> removed_;
  // The links to addresses that members no longer have; Tick ends them.
  std::vector<std::shared_ptr<PeerLink>> replaced_;
  bool will_continue_handshakes_ = false;  // a task of the poller will do it
  bool is_ended_ = false;

  std::atomic<std::thread::id> loop_thread_{};
  Mutex mutex_;
  std::string cluster_id_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quorate::rpc
