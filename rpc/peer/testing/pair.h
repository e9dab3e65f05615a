// SPDX-License-Identifier: Apache-2.0

// Two servers' ends of the network between servers, on this machine. For tests.
//
// Thread-safety: each class says what it needs.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "rpc/peer/peer_network.h"

namespace quorate::rpc::peer_testing {

using boost::asio::ip::tcp;
using consensus::MemberId;
using consensus::Message;
using consensus::ReadRound;
using consensus::Term;

inline tcp::endpoint Loopback(uint16_t port) {
  return {boost::asio::ip::make_address("127.0.0.1"), port};
}

// Returns an address whose port is free. Each is returned only once, because a port looks free
// until a socket listens on it.
inline PeerAddress FreeAddress() {
  static std::set<uint16_t> given;
  for (;;) {
    boost::asio::io_context context;
    const uint16_t port = tcp::acceptor(context, Loopback(0)).local_endpoint().port();
    if (given.insert(port).second) return {"127.0.0.1", port};
  }
}

// A network with a thread that runs it, as a node thread does.
class RunningNetwork {
 public:
  RunningNetwork(const PeerNetworkOptions& options, PeerHandler* handler)
      : network_(options, handler) {}
  ~RunningNetwork() {
    stop_ = true;
    network_.Wake();
    if (thread_.joinable()) thread_.join();
    network_.End();
  }

  absl::Status Start(const std::string& cluster_id) {
    absl::Status status = network_.Start(cluster_id);
    if (!status.ok()) return status;
    thread_ = std::thread([this] {
      while (!stop_) {
        network_.HandleEvents(std::chrono::steady_clock::now() + std::chrono::milliseconds(5));
        if (has_members_) SetMembers();
        network_.Tick();
      }
    });
    return status;
  }
  PeerNetwork& network() { return network_; }
  // Sets the members on the network's thread.
  void SetMembersSoon(PeerAddresses others) {
    MutexLock lock(&mutex_);
    members_ = std::move(others);
    has_members_ = true;
  }

 private:
  void SetMembers() {
    MutexLock lock(&mutex_);
    has_members_ = false;
    network_.SetMembers(members_);
  }

  PeerNetwork network_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> has_members_{false};
  Mutex mutex_;
  PeerAddresses members_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

// Two servers' ends of the network, and the calls that their handlers received.
class Pair {
 public:
  struct End : public PeerHandler {
    explicit End(Pair* p) : pair(p) {}
    absl::Status OnPeerBatch(MemberId, PeerBatch batch) override {
      MutexLock lock(&pair->mutex_);
      for (const Message& message : batch.messages) {
        rounds.push_back(std::get<consensus::Heartbeat>(message.body).read_round.value());
      }
      for (const CommandBatch& forward : batch.forwards) {
        for (const auto& range : forward.commands) commands.emplace_back(forward.view(range));
      }
      for (int64_t session : batch.touched_sessions) touched.push_back(session);
      for (const DigestNote& note : batch.digests) digests.push_back(note);
      pair->changed_.notify_all();
      return answer;
    }
    void OnPeerUp(MemberId) override { Count(&ups); }
    void OnPeerDown(MemberId) override { Count(&downs); }
    void OnOtherCluster(MemberId, const std::string& id) override {
      MutexLock lock(&pair->mutex_);
      other_cluster = id;
      pair->changed_.notify_all();
    }
    void Count(int* counter) {
      MutexLock lock(&pair->mutex_);
      ++*counter;
      pair->changed_.notify_all();
    }

    Pair* const pair;
    std::vector<uint64_t> rounds;
    std::vector<std::string> commands;
    std::vector<int64_t> touched;
    std::vector<DigestNote> digests;
    absl::Status answer;
    int ups = 0;
    int downs = 0;
    std::string other_cluster;
  };

  void Start(uint32_t id, const std::string& cluster_id) {
    PeerNetworkOptions options;
    options.self = MemberId(id);
    options.listen_address = addresses_[id];
    if (listen_everywhere_) options.listen_address.host.clear();
    options.addresses = {{MemberId(3 - id), addresses_[3 - id]}};
    options.security = security_[id];
    networks_[id] = std::make_unique<RunningNetwork>(options, &ends_.at(id));
    REQUIRE(networks_[id]->Start(cluster_id).ok());
  }
  void Stop(uint32_t id) { networks_.erase(id); }
  // Tells server `id` that the other one is its only other member, or that there is none.
  void SetOther(uint32_t id, bool is_member) {
    PeerAddresses others;
    if (is_member) others[MemberId(3 - id)] = addresses_[3 - id];
    networks_.at(id)->SetMembersSoon(std::move(others));
  }
  // Gives server `id` another address, at which it listens from its next start on.
  void Move(uint32_t id) { addresses_.at(id) = FreeAddress(); }

  void Await(const std::function<bool()>& condition) {
    std::unique_lock<std::mutex> lock(mutex_.native());
    changed_.wait(lock, condition);
  }
  // Sets the host by which the others know server `id`.
  void Name(uint32_t id, const std::string& host) { addresses_.at(id).host = host; }
  // Sets how server `id` makes sure of the other one, from its next start on.
  void Secure(uint32_t id, PeerSecurity security) { security_[id] = std::move(security); }
  void ListenEverywhere() { listen_everywhere_ = true; }
  template <class T>
  T Locked(T& value) {
    MutexLock lock(&mutex_);
    return value;
  }

  PeerNetwork& network(uint32_t id) { return networks_.at(id)->network(); }
  const PeerAddress& address(uint32_t id) const { return addresses_.at(id); }
  End& end(uint32_t id) { return ends_.at(id); }

 private:
  bool listen_everywhere_ = false;
  std::map<uint32_t, PeerSecurity> security_;
  Mutex mutex_;
  std::condition_variable changed_;
  std::map<uint32_t, PeerAddress> addresses_{{1, FreeAddress()}, {2, FreeAddress()}};
  std::map<uint32_t, End> ends_ = [this] {
    std::map<uint32_t, End> ends;
    ends.try_emplace(1, this);
    ends.try_emplace(2, this);
    return ends;
  }();
  std::map<uint32_t, std::unique_ptr<RunningNetwork>> networks_;
};

inline Message HeartbeatOf(uint64_t round) {
  return Message{MemberId(1), MemberId(2), Term(1),
                 consensus::Heartbeat{consensus::Index(0), ReadRound(round)}};
}

// Returns a heartbeat to `to` from the other of the two servers.
inline Message HeartbeatTo(uint32_t to) {
  return Message{MemberId(3 - to), MemberId(to), Term(1),
                 consensus::Heartbeat{consensus::Index(0), ReadRound(1)}};
}

inline const std::string kCluster(16, 'c');

}  // namespace quorate::rpc::peer_testing
