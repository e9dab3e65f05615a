// SPDX-License-Identifier: Apache-2.0

#include "rpc/peer/peer_network.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "base/bytes.h"
#include "base/mutex.h"
#include "rpc/peer/batch_reader.h"
#include "rpc/peer/send_queue.h"
#include "rpc/peer/testing/pair.h"

namespace quorate::rpc {
namespace {

using boost::asio::ip::tcp;
using consensus::MemberId;
using peer_testing::FreeAddress;
using peer_testing::HeartbeatOf;
using peer_testing::HeartbeatTo;
using peer_testing::kCluster;
using peer_testing::Loopback;
using peer_testing::Pair;
using peer_testing::RunningNetwork;

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
  const DigestNote note{DigestNote::Kind::kVerdict, 9, 7};
  pair.network(1).SendDigest(MemberId(2), note);
  pair.Await([&] { return pair.end(2).digests.size() == 1; });
  CHECK(pair.end(2).digests[0] == note);
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
  // Both connections break, one after the other.
  pair.Await([&] { return pair.end(1).downs == 2; });
  pair.network(1).Send({HeartbeatOf(1)});  // not connected: it is dropped
  pair.Start(2, kCluster);
  pair.Await([&] { return pair.end(1).ups == 2; });
  pair.network(1).Send({HeartbeatOf(2)});
  pair.Await([&] { return !pair.end(2).rounds.empty(); });
  CHECK(pair.end(2).rounds == std::vector<uint64_t>{2});
}

TEST_CASE("a member that moves is found at its new address") {
  Pair pair;
  pair.Start(1, kCluster);
  pair.Start(2, kCluster);
  pair.Await([&] { return pair.end(1).ups == 1 && pair.end(2).ups == 1; });
  pair.Stop(2);
  pair.Move(2);
  pair.Start(2, kCluster);
  // Server 2 still knows where server 1 is.
  pair.Await([&] { return pair.end(2).ups == 2; });
  pair.SetOther(1, /*is_member=*/true);
  pair.Await([&] { return pair.end(1).ups == 2; });
  pair.network(1).Send({HeartbeatOf(1)});
  pair.Await([&] { return !pair.end(2).rounds.empty(); });
}

TEST_CASE("a member that is removed is left after a while, and is taken again") {
  Pair pair;
  pair.Start(1, kCluster);
  pair.Start(2, kCluster);
  pair.Await([&] { return pair.end(1).ups == 1 && pair.end(2).ups == 1; });
  pair.SetOther(1, /*is_member=*/false);
  // It still learns of its removal: what is sent to it arrives.
  pair.network(1).Send({HeartbeatOf(1)});
  pair.Await([&] { return !pair.end(2).rounds.empty(); });
  pair.Await([&] { return pair.end(1).downs > 0 && pair.end(2).downs > 0; });
  while (!absl::StrContains(pair.network(2).ProblemOf(MemberId(1)), "member add 2")) {
    std::this_thread::yield();
  }
  CHECK(pair.network(1).DownForMs(MemberId(2)) == 0);  // it is not known
  pair.SetOther(1, /*is_member=*/true);
  pair.Await([&] { return pair.end(1).ups == 2; });
  pair.Await([&] { return pair.end(2).ups == 2; });
}

TEST_CASE("a link on which something comes that cannot be taken is closed") {
  Pair pair;
  pair.Start(1, kCluster);
  pair.Start(2, kCluster);
  pair.Await([&] { return pair.end(1).ups == 1 && pair.end(2).ups == 1; });
  pair.end(2).answer = absl::InvalidArgumentError("rubbish");
  pair.network(1).Forward(MemberId(2), {"rubbish"});
  // Both ends notice the broken connection, and it is opened again.
  pair.Await([&] { return pair.end(1).downs > 0 && pair.end(2).downs > 0; });
  pair.Await([&] { return pair.end(1).ups > 1; });
}

TEST_CASE("a member of another cluster is refused and learns whose cluster it is") {
  Pair pair;
  pair.Start(1, kCluster);
  pair.Start(2, std::string(16, 'd'));
  pair.Await([&] { return !pair.end(1).other_cluster.empty(); });
  CHECK(pair.end(1).other_cluster == std::string(16, 'd'));
  CHECK(pair.end(1).ups == 0);
}

TEST_CASE(
    "what is more than the network takes at once arrives whole, and what is written meanwhile") {
  Pair pair;
  pair.Start(1, kCluster);
  pair.Start(2, kCluster);
  pair.Await([&] { return pair.end(1).ups == 1; });
  const std::string large(20u << 20, 'x');
  std::vector<std::thread> writers;
  for (int writer = 0; writer < 2; ++writer) {
    writers.emplace_back([&] {
      pair.network(1).Forward(MemberId(2), {large});
      for (int small = 0; small < 100; ++small) pair.network(1).Forward(MemberId(2), {"small"});
    });
  }
  for (std::thread& writer : writers) writer.join();
  pair.Await([&] { return pair.end(2).commands.size() == 202; });
  const std::vector<std::string>& commands = pair.end(2).commands;
  CHECK(std::count(commands.begin(), commands.end(), "small") == 200);
  CHECK(std::count(commands.begin(), commands.end(), large) == 2);
}

// Acts as member 2 on a socket of the test. It receives only when the test calls it, with a small
// receive buffer in the kernel.
class SlowPeer {
 public:
  explicit SlowPeer(const Pair& pair) : acceptor_(context_), socket_(context_) {
    const tcp::endpoint at = Loopback(pair.address(2).port);
    acceptor_.open(at.protocol());
    acceptor_.set_option(tcp::acceptor::reuse_address(true));
    acceptor_.set_option(boost::asio::socket_base::receive_buffer_size(kReceiveBytes));
    acceptor_.bind(at);
    acceptor_.listen();
  }

  // Accepts the connection and the hello on it, as a server that understands `version`.
  void Accept(uint32_t version) {
    acceptor_.accept(socket_);
    const PeerBatch hello = Next();
    REQUIRE(hello.hello.has_value());
    CHECK(hello.hello->protocol_version == kPeerProtocolVersion);
    std::string answer;
    AppendAnswerFrame({true, "", "", version}, &answer);
    if (version == kPeerProtocolVersion) {
      // Earlier releases send neither their newest version nor the number of their process.
      answer.resize(answer.size() - sizeof(version) - sizeof(HelloAnswer::process));
      StoreInt<std::endian::little>(answer.data() + 1,
                                    static_cast<uint32_t>(answer.size() - kFrameHeaderBytes));
    }
    SealFrames(&answer);
    const std::string length{static_cast<char>(answer.size()), 0, 0, 0};
    boost::asio::write(socket_, boost::asio::buffer(length + answer));
    if (version >= kPeerProtocolFragments) reader_.set_batch_bytes_max(kBatchBytesMax);
    taken_bytes_ = 0;
  }
  // Receives and returns the next batch.
  PeerBatch Next() {
    for (;;) {
      auto bytes = reader_.Next();
      REQUIRE(bytes.ok());
      if (*bytes != nullptr) {
        auto batch = decoder_.Decode(*std::move(bytes));
        REQUIRE(batch.ok());
        return *std::move(batch);
      }
      const std::span<char> space = reader_.Space();
      const size_t count = socket_.read_some(boost::asio::buffer(space.data(), space.size()));
      reader_.Added(count);
      taken_bytes_ += count;
    }
  }
  // Returns the number of bytes received since Accept.
  size_t taken_bytes() const { return taken_bytes_; }

  static constexpr int kReceiveBytes = 64 << 10;

 private:
  boost::asio::io_context context_;
  tcp::acceptor acceptor_;
  tcp::socket socket_;
  BatchReader reader_{4 * kPeerQueueBytesMax};
  FrameDecoder decoder_;
  size_t taken_bytes_ = 0;
};

TEST_CASE("few bytes are in front of a heartbeat, however much data a slow peer is sent") {
  const uint32_t version = GENERATE(kPeerProtocolVersion, kPeerProtocolNewest);
  Pair pair;
  SlowPeer peer(pair);
  pair.Start(1, kCluster);
  peer.Accept(version);
  pair.Await([&] { return pair.end(1).ups == 1; });
  constexpr size_t kCommands = 16;
  const std::string large(1'000'000, 'x');
  for (size_t i = 0; i < kCommands; ++i) pair.network(1).Forward(MemberId(2), {large});
  pair.network(1).Send({HeartbeatOf(7)});

  size_t commands = 0;
  std::optional<size_t> heartbeat_after;
  while (commands < kCommands || !heartbeat_after.has_value()) {
    const PeerBatch batch = peer.Next();
    for (const CommandBatch& forward : batch.forwards) {
      for (const auto& range : forward.commands) CHECK(forward.view(range) == large);
      commands += forward.commands.size();
    }
    if (!batch.messages.empty()) heartbeat_after = peer.taken_bytes();
  }
  CHECK(commands == kCommands);
  // The limit is what both kernels hold (they use twice the configured sizes), the batch that was
  // being sent, and the batch of the heartbeat.
  const size_t batch_bytes =
      version >= kPeerProtocolFragments ? kBatchBytesMax : kBatchBytesMax + large.size();
  CHECK(*heartbeat_after < 4 * SlowPeer::kReceiveBytes + (256u << 10) + 2 * batch_bytes);
}

TEST_CASE("a peer that takes nothing is left before control messages are dropped") {
  Pair pair;
  SlowPeer peer(pair);
  pair.Start(1, kCluster);
  peer.Accept(kPeerProtocolNewest);
  pair.Await([&] { return pair.end(1).ups == 1; });
  for (uint64_t round = 1; pair.Locked(pair.end(1).downs) == 0; ++round) {
    pair.network(1).Send({HeartbeatOf(round)});
  }
  CHECK(pair.Locked(pair.end(1).downs) == 1);
}

// Sends `bytes` to member 1 as an unauthenticated peer. Returns the bytes that member 1 answers
// until it closes the connection.
std::string AnswerTo(const Pair& pair, const std::string& bytes) {
  boost::asio::io_context context;
  tcp::socket unauthenticated(context);
  unauthenticated.connect(Loopback(pair.address(1).port));
  boost::asio::write(unauthenticated, boost::asio::buffer(bytes));
  std::string answer;
  boost::system::error_code error;
  boost::asio::read(unauthenticated, boost::asio::dynamic_buffer(answer), error);
  return answer;
}

// Returns a batch with its length in front; `append` appends the frames.
std::string Batch(const std::function<void(std::string*)>& append) {
  std::string frames;
  append(&frames);
  SealFrames(&frames);
  REQUIRE(frames.size() < 128);
  return std::string{static_cast<char>(frames.size()), 0, 0, 0} + frames;
}

TEST_CASE("a connection that is no server's is closed, and harms nobody") {
  Pair pair;
  pair.Start(1, kCluster);
  using Catch::Contains;
  CHECK_THAT(AnswerTo(pair, "GET / HTTP/1.1\r\n\r\n"), Contains("a batch of"));
  CHECK_THAT(AnswerTo(pair, std::string("\x04\0\0\0quit", 8)), Contains("checksum"));
  const std::string no_hello = Batch([](std::string* out) { AppendTouchFrame({1}, out); });
  CHECK_THAT(AnswerTo(pair, no_hello), Contains("begin with a hello"));
  const auto hello = [](uint32_t version, uint32_t from) {
    return Batch([&](std::string* out) {
      AppendHelloFrame({version, MemberId(from), MemberId(1), kCluster}, out);
    });
  };
  CHECK_THAT(AnswerTo(pair, hello(kPeerProtocolVersion, 3)),
             Contains("the configuration of server 1 has no other server 3"));
  const std::string to_other = Batch([](std::string* out) {
    AppendHelloFrame({kPeerProtocolVersion, MemberId(2), MemberId(7), kCluster}, out);
  });
  CHECK_THAT(AnswerTo(pair, to_other), Contains("server 1 answers at the address of server 7"));
  CHECK_THAT(AnswerTo(pair, hello(kPeerProtocolVersion + 1, 2)), Contains("version"));
  CHECK(pair.Locked(pair.end(1).touched).empty());
  pair.Start(2, kCluster);
  pair.Await([&] { return pair.end(1).ups == 1 && pair.end(2).ups == 1; });
}

TEST_CASE("a second server with the number of one that is alive is refused, and disturbs nobody") {
  Pair pair;
  pair.Start(1, kCluster);
  pair.Start(2, kCluster);
  pair.Await([&] { return pair.end(1).ups == 1 && pair.end(2).ups == 1; });
  // Connects from another address, as from another machine: all of 127/8 are addresses of this one.
  boost::asio::io_context context;
  tcp::socket other(context, tcp::endpoint(boost::asio::ip::make_address("127.0.0.2"), 0));
  other.connect(Loopback(pair.address(1).port));
  boost::asio::write(other, boost::asio::buffer(Batch([](std::string* out) {
                       AppendHelloFrame({kPeerProtocolVersion, MemberId(2), MemberId(1), ""}, out);
                     })));
  std::string answer;
  boost::system::error_code error;
  boost::asio::read(other, boost::asio::dynamic_buffer(answer), error);
  using Catch::Contains;
  CHECK_THAT(answer, Contains("server 2 is alive at " + pair.address(2).ToString()) &&
                         Contains("the same number"));
  pair.network(2).Send({HeartbeatTo(1)});
  pair.Await([&] { return pair.end(1).rounds.size() == 1; });
  CHECK(pair.Locked(pair.end(1).downs) == 0);
  CHECK(pair.Locked(pair.end(2).downs) == 0);
  // Once the first process is gone, another may take its place.
  pair.Stop(2);
  pair.Await([&] { return pair.end(1).downs > 0; });
  pair.Start(2, kCluster);
  pair.Await([&] { return pair.end(1).ups == 2; });
}

TEST_CASE("a second server with the number of one that is alive is refused on its machine, too") {
  Pair pair;
  pair.Start(1, kCluster);
  pair.Start(2, kCluster);
  pair.Await([&] { return pair.end(1).ups == 1 && pair.end(2).ups == 1; });
  CHECK(pair.network(1).ProblemOf(MemberId(2)).empty());
  PeerNetworkOptions options;
  options.self = MemberId(2);
  options.listen_address = FreeAddress();
  options.addresses = {{MemberId(1), pair.address(1)}};
  Pair unused;
  RunningNetwork second(options, &unused.end(2));
  REQUIRE(second.Start("").ok());
  std::string problem;
  while ((problem = second.network().ProblemOf(MemberId(1))).empty()) std::this_thread::yield();
  using Catch::Contains;
  CHECK_THAT(problem, Contains(pair.address(1).ToString() + ": server 2 is alive at " +
                               pair.address(2).ToString() + "; two servers have the same number"));
  // Member 1 tests whether the first process is alive.
  pair.Await([&] { return !pair.end(2).touched.empty(); });
  pair.network(2).Send({HeartbeatTo(1)});
  pair.Await([&] { return pair.end(1).rounds.size() == 1; });
  CHECK(pair.Locked(pair.end(1).downs) == 0);
  CHECK(pair.Locked(pair.end(2).downs) == 0);
  // Once the first process is gone, this one is accepted.
  pair.Stop(2);
  unused.Await([&] { return unused.end(2).ups == 1; });
}

TEST_CASE("unauthenticated peers that send nothing make room for a server") {
  Pair pair;
  pair.Start(1, kCluster);
  boost::asio::io_context context;
  std::vector<tcp::socket> unauthenticated;
  for (int i = 0; i < 100; ++i) {
    unauthenticated.emplace_back(context).connect(Loopback(pair.address(1).port));
  }
  pair.Start(2, kCluster);
  pair.Await([&] { return pair.end(1).ups == 1 && pair.end(2).ups == 1; });
  char byte;
  boost::system::error_code error;
  unauthenticated.front().read_some(boost::asio::buffer(&byte, 1), error);
  CHECK(error);  // the oldest connection was closed
}

// Returns the local port of a connection to `port` that is being opened and was not answered yet;
// empty: there is none.
std::string PortOfAttempt(uint16_t port) {
  std::ifstream connections("/proc/net/tcp");
  std::string line;
  while (std::getline(connections, line)) {
    std::istringstream words(line);
    std::string number, local, remote, state;
    words >> number >> local >> remote >> state;
    const size_t colon = remote.find(':');
    if (state != "02" || colon == std::string::npos) continue;  // SYN_SENT
    if (std::stoul(remote.substr(colon + 1), nullptr, 16) == port) return local;
  }
  return "";
}

TEST_CASE("an attempt that nobody answers is given up, and the next one made") {
  Pair pair;
  const tcp::endpoint deaf_at = Loopback(pair.address(2).port);
  {
    boost::asio::io_context context;
    tcp::acceptor deaf(context, deaf_at.protocol());
    deaf.set_option(tcp::acceptor::reuse_address(true));
    deaf.bind(deaf_at);
    deaf.listen(0);
    tcp::socket unauthenticated(context);
    unauthenticated.connect(deaf_at);  // there is no room for a second one
    pair.Start(1, kCluster);
    const auto next_attempt = [&](const std::string& last) {
      std::string attempt;
      while ((attempt = PortOfAttempt(deaf_at.port())).empty() || attempt == last) {
        std::this_thread::yield();
      }
      return attempt;
    };
    const std::string first = next_attempt("");
    CHECK(next_attempt(first) != first);
  }
  pair.Start(2, kCluster);
  pair.Await([&] { return pair.end(1).ups == 1 && pair.end(2).ups == 1; });
}

TEST_CASE("servers find each other by name, on all addresses of a machine") {
  Pair pair;
  pair.Name(1, "localhost");
  pair.Name(2, "localhost");
  pair.ListenEverywhere();
  pair.Start(1, kCluster);
  pair.Start(2, kCluster);
  pair.Await([&] { return pair.end(1).ups == 1 && pair.end(2).ups == 1; });
}

TEST_CASE("an address that is taken is an error that names it") {
  const PeerAddress address = FreeAddress();
  boost::asio::io_context context;
  tcp::acceptor taken(context, Loopback(address.port), false);
  PeerNetworkOptions options;
  options.self = MemberId(1);
  options.listen_address = address;
  options.addresses = {{MemberId(2), FreeAddress()}};
  Pair unused;
  PeerNetwork network(options, &unused.end(1));
  const absl::Status status = network.Start("");
  CHECK(absl::IsUnavailable(status));
  CHECK(status.ToString().find(address.ToString()) != std::string::npos);
}

}  // namespace
}  // namespace quorate::rpc
