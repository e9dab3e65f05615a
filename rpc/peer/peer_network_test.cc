#include "rpc/peer/peer_network.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <catch2/catch.hpp>
#include <condition_variable>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace quorate::rpc {
namespace {

using consensus::MemberId;
using consensus::Message;
using consensus::ReadRound;
using consensus::Term;

std::string FreeAddress() {
  boost::asio::io_context context;
  boost::asio::ip::tcp::acceptor acceptor(context, {boost::asio::ip::make_address("127.0.0.1"), 0});
  return "127.0.0.1:" + std::to_string(acceptor.local_endpoint().port());
}

// Two servers' ends of the network, and what they were told.
class Pair {
 public:
  struct End : public PeerHandler {
    explicit End(Pair* p) : pair(p) {}
    void OnPeerBatch(MemberId, PeerBatch batch) override {
      MutexLock lock(&pair->mutex_);
      for (const Message& message : batch.messages) {
        rounds.push_back(std::get<consensus::Heartbeat>(message.body).read_round.value());
      }
      for (const CommandBatch& forward : batch.forwards) {
        for (const auto& range : forward.commands) commands.emplace_back(forward.view(range));
      }
      for (int64_t session : batch.touched_sessions) touched.push_back(session);
      pair->changed_.notify_all();
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
    int ups = 0;
    int downs = 0;
    std::string other_cluster;
  };

  ~Pair() {
    for (auto& [id, network] : networks_) network->Stop();
  }

  void Start(uint32_t id, const std::string& cluster_id) {
    PeerNetworkOptions options;
    options.self = MemberId(id);
    options.listen_address = addresses_[id];
    options.addresses = {{MemberId(3 - id), addresses_[3 - id]}};
    MutexLock lock(&mutex_);
    networks_[id] = std::make_unique<PeerNetwork>(options, &ends_.at(id));
    REQUIRE(networks_[id]->Start(cluster_id).ok());
  }
  void Stop(uint32_t id) {
    std::unique_ptr<PeerNetwork> network;
    {
      MutexLock lock(&mutex_);
      network = std::move(networks_[id]);
      networks_.erase(id);
    }
    network->Stop();
  }

  // Ticks the networks, as servers do, until the condition holds.
  void Await(const std::function<bool()>& condition) {
    std::unique_lock<std::mutex> lock(mutex_.native());
    while (!changed_.wait_for(lock, std::chrono::milliseconds(5), condition)) {
      for (auto& [id, network] : networks_) network->Tick();
    }
  }

  PeerNetwork& network(uint32_t id) { return *networks_.at(id); }
  End& end(uint32_t id) { return ends_.at(id); }

 private:
  Mutex mutex_;
  std::condition_variable changed_;
  std::map<uint32_t, std::string> addresses_{{1, FreeAddress()}, {2, FreeAddress()}};
  std::map<uint32_t, End> ends_ = [this] {
    std::map<uint32_t, End> ends;
    ends.try_emplace(1, this);
    ends.try_emplace(2, this);
    return ends;
  }();
  std::map<uint32_t, std::unique_ptr<PeerNetwork>> networks_;
};

Message HeartbeatOf(uint64_t round) {
  return Message{MemberId(1), MemberId(2), Term(1),
                 consensus::Heartbeat{consensus::Index(0), ReadRound(round)}};
}

const std::string kCluster(16, 'c');

TEST_CASE("messages, writes and touches arrive in order, each once") {
  Pair pair;
  pair.Start(1, kCluster);
  pair.Start(2, "");  // knows no cluster yet
  pair.Await([&] { return pair.end(1).ups == 1 && pair.end(2).ups == 1; });
  std::vector<uint64_t> sent;
  for (uint64_t round = 1; round <= 500; ++round) {
    pair.network(1).Send({HeartbeatOf(round)});
    sent.push_back(round);
  }
  pair.network(1).Forward(MemberId(2), {"first", "second"});
  pair.network(1).SendTouches(MemberId(2), {5, 6});
  pair.Await([&] { return pair.end(2).touched.size() == 2; });
  CHECK(pair.end(2).rounds == sent);
  CHECK(pair.end(2).commands == std::vector<std::string>{"first", "second"});
  CHECK(pair.end(2).touched == std::vector<int64_t>{5, 6});
  CHECK(pair.network(1).DownForMs(MemberId(2)) == 0);
}

TEST_CASE("a peer that stops is noticed, and found again when it is back") {
  Pair pair;
  pair.Start(1, kCluster);
  pair.Start(2, kCluster);
  pair.Await([&] { return pair.end(1).ups == 1; });
  pair.Stop(2);
  // Both streams break, one after the other.
  pair.Await([&] { return pair.end(1).downs == 2; });
  pair.network(1).Send({HeartbeatOf(1)});  // to nobody
  pair.Start(2, kCluster);
  pair.Await([&] { return pair.end(1).ups == 2; });
  pair.network(1).Send({HeartbeatOf(2)});
  pair.Await([&] { return !pair.end(2).rounds.empty(); });
  CHECK(pair.end(2).rounds == std::vector<uint64_t>{2});
}

TEST_CASE("a member of another cluster is refused and learns whose cluster it is") {
  Pair pair;
  pair.Start(1, kCluster);
  pair.Start(2, std::string(16, 'd'));
  pair.Await([&] { return !pair.end(1).other_cluster.empty(); });
  CHECK(pair.end(1).other_cluster == std::string(16, 'd'));
  CHECK(pair.end(1).ups == 0);
}

TEST_CASE("an address that is taken is an error that names it") {
  const std::string address = FreeAddress();
  boost::asio::io_context context;
  const auto port = static_cast<uint16_t>(std::stoi(address.substr(address.find(':') + 1)));
  boost::asio::ip::tcp::acceptor taken(context, {boost::asio::ip::make_address("127.0.0.1"), port},
                                       false);
  PeerNetworkOptions options;
  options.self = MemberId(1);
  options.listen_address = address;
  options.addresses = {{MemberId(2), FreeAddress()}};
  Pair unused;
  PeerNetwork network(options, &unused.end(1));
  const absl::Status status = network.Start("");
  CHECK(absl::IsUnavailable(status));
  CHECK(status.ToString().find(address) != std::string::npos);
}

}  // namespace
}  // namespace quorate::rpc
