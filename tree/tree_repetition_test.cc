// SPDX-License-Identifier: Apache-2.0

// Compares numbered writes with plain writes. The numbered writes are lost, delayed, overtaken and
// repeated on their way through several servers, between which their sessions move; the plain
// writes arrive once and in order.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tree/record.h"
#include "tree/snapshot.h"
#include "tree/testing/tree_test_util.h"
#include "tree/tree.h"

namespace quorate::tree {
namespace {

constexpr uint64_t kWrites = 60;  // number of writes of each client
constexpr uint64_t kWindow = 8;   // maximum number of writes in flight of each client

// The writes of a client, and the responses that it has received.
struct Client {
  SessionId session;
  Zxid attach_zxid;
  uint16_t member = 1;
  std::vector<std::string> strings;
  std::vector<Request> writes;  // write number n is at n - 1
  std::map<uint64_t, ApplyResult> told;
  uint64_t acknowledged = 0;  // the client has received all responses up to this number
  uint64_t sent = 0;
  // These describe the state of the trees.
  uint64_t accepted = 0;
  uint64_t forgotten = 0;  // the highest number that a command acknowledged
};

struct Underway {
  size_t client = 0;
  uint64_t sequence = 0;
  uint64_t acknowledged = 0;
  uint16_t member = 1;
  Zxid attach_zxid;
};

struct Counts {
  uint64_t lost = 0, repeated = 0, moved = 0, overtaken = 0, forgotten = 0;
};

class Network {
 public:
  Network(uint64_t seed, Counts* counts) : random_(seed), counts_(*counts) {
    for (int64_t id = 1; id <= 3; ++id) {
      Client& client = clients_.emplace_back();
      client.session = SessionId(id);
      client.strings.reserve(kWrites * 3);
      while (client.writes.size() < kWrites) client.writes.push_back(PickWrite(&client));
    }
    for (size_t at = 0; at < clients_.size(); ++at) OpenSession(at, true);
  }

  void Step() {
    const uint64_t what = Pick(100);
    const size_t client = Pick(clients_.size());
    if (what < 40) {
      Send(client);
    } else if (what < 85) {
      Deliver();
    } else if (what < 90 && !underway_.empty()) {
      underway_.erase(underway_.begin() + static_cast<ptrdiff_t>(Pick(underway_.size())));
      ++counts_.lost;
    } else if (what < 96 && !underway_.empty()) {
      underway_.push_back(Underway(underway_[Pick(underway_.size())]));
    } else if (what < 98) {
      OpenSession(client, false);
    } else if (what == 98) {
      Reload();
    }
  }

  bool IsDone() const {
    for (const Client& client : clients_) {
      if (client.acknowledged < kWrites) return false;
    }
    return true;
  }

  void Compare() const {
    for (const Client& client : clients_) REQUIRE(client.accepted == kWrites);
    REQUIRE(answers_.size() == clients_.size() * kWrites);
    REQUIRE(Nodes(*tree_) == Nodes(*reference_));
    REQUIRE(tree_->digest() == tree_->ComputeDigest());
  }

 private:
  using Records = std::map<std::string, std::string>;

  uint64_t Pick(uint64_t below) { return random_() % below; }

  static Records Nodes(const Tree& tree) {
    Records records;
    tree.ForEachRecord([&records](std::string_view key, std::optional<std::string_view> value) {
      if (*DecodeKind(key) == RecordKind::kNode) records.emplace(key, *value);
    });
    return records;
  }

  Op PickOp(Client* client) {
    static constexpr const char* kPaths[] = {"/a", "/b", "/a/x", "/a/y", "/a/x/z", "/b/s-"};
    const std::string& path = client->strings.emplace_back(kPaths[Pick(6)]);
    const int32_t version = Pick(3) == 0 ? static_cast<int32_t>(Pick(4)) : kAnyVersion;
    switch (Pick(9)) {
      case 0:
      case 1:
        return MakeCreate(path, "new");
      case 2:
        return MakeCreate(path, "", CreateMode::kPersistentSequential);
      case 3:
        return MakeCreate(path, "", CreateMode::kEphemeral);
      case 4:
        return MakeDelete(path, version);
      case 5: {
        Op op = MakeDelete(path, version);
        if (Pick(3) == 0) op.kind = OpKind::kDeleteRecursive;
        return op;
      }
      case 6:
        return MakeCheck(path, version);
      default:
        return MakeSetData(path, "set", version);
    }
  }

  Request PickWrite(Client* client) {
    Request request;
    request.multi = Pick(4) == 0;
    for (uint64_t ops = request.multi ? Pick(4) : 1; ops > 0; --ops) {
      request.ops.push_back(PickOp(client));
    }
    return request;
  }

  // Returns a header as the leader would write it: with one clock, and with sequences in the order
  // in which each server submits commands.
  CommandHeader Next(const Client& client, uint16_t member) {
    CommandHeader header;
    header.proposer = Proposer{member, 1};
    header.sequence = ++sequence_[member];
    header.time_ms = kStartMs + tree_->last_zxid().value();
    header.session = client.session;
    return header;
  }

  void OpenSession(size_t at, bool create) {
    Client& client = clients_[at];
    client.member = static_cast<uint16_t>(1 + Pick(3));
    CommandHeader header = Next(client, client.member);
    const auto open = [&](Tree* tree) {
      std::string command;
      if (create) {
        AppendCreateSession(header, 4000, kPassword, &command);
      } else {
        AppendAttachSession(header, 4000, kPassword, &command);
      }
      RecordingListener listener;
      tree->Apply(tree->last_zxid() + 1, command, header.proposer, &listener);
      REQUIRE(listener.result->error == ErrorCode::kOk);
    };
    open(tree_.get());
    client.attach_zxid = tree_->last_zxid();
    header.proposer = Proposer{};  // no proposer: always applied
    open(reference_.get());
  }

  void Send(size_t at) {
    Client& client = clients_[at];
    // Picks a write without a response yet, or a new one.
    const uint64_t most = std::min({client.sent + 1, client.acknowledged + kWindow, kWrites});
    if (most <= client.acknowledged) return;
    const uint64_t sequence =
        Pick(2) == 0 ? most : client.acknowledged + 1 + Pick(most - client.acknowledged);
    client.sent = std::max(client.sent, sequence);
    underway_.push_back({at, sequence, client.acknowledged, client.member, client.attach_zxid});
  }

  void Deliver() {
    if (underway_.empty()) return;
    const size_t place = Pick(underway_.size());
    const Underway sent = underway_[place];
    underway_.erase(underway_.begin() + static_cast<ptrdiff_t>(place));
    Client& client = clients_[sent.client];
    CommandHeader header = Next(client, sent.member);
    header.attach_zxid = sent.attach_zxid;
    std::string command;
    const Request& request = client.writes[sent.sequence - 1];
    AppendSequencedRequest(header, sent.sequence, sent.acknowledged, request, &command);
    const Zxid zxid = tree_->last_zxid() + 1;
    RecordingListener listener;
    tree_->Apply(zxid, command, header.proposer, &listener);
    REQUIRE(listener.result.has_value());
    const ApplyResult& result = *listener.result;

    const bool attached = sent.attach_zxid == client.attach_zxid;
    if (attached) client.forgotten = std::max(client.forgotten, sent.acknowledged);
    if (attached && sent.sequence == client.accepted + 1) {
      ++client.accepted;
      ApplyPlainly(client, request, zxid, result, listener.events);
      const auto kept = std::make_pair(result.zxid, result.ops);
      REQUIRE(answers_.try_emplace({sent.client, sent.sequence}, kept).second);
    } else {
      REQUIRE(listener.events.empty());
      reference_->Skip(zxid);
      CheckRefused(sent, attached, result);
    }
    if (result.error == ErrorCode::kOk && Pick(3) > 0) Tell(&client, sent.sequence, result);
  }

  void ApplyPlainly(const Client& client, const Request& request, Zxid zxid,
                    const ApplyResult& result, const std::vector<std::string>& events) {
    CommandHeader header;  // no proposer: always applied
    header.time_ms = result.header.time_ms;
    header.session = client.session;
    header.attach_zxid = client.attach_zxid;
    std::string command;
    AppendRequest(header, request, &command);
    RecordingListener listener;
    reference_->Apply(zxid, command, Proposer{}, &listener);
    REQUIRE(result.error == ErrorCode::kOk);
    REQUIRE_FALSE(result.repeated);
    REQUIRE(result.zxid == zxid);
    REQUIRE((result.ops == listener.result->ops));
    REQUIRE(events == listener.events);
  }

  void CheckRefused(const Underway& sent, bool attached, const ApplyResult& result) {
    const Client& client = clients_[sent.client];
    if (!attached) {
      REQUIRE(result.error == ErrorCode::kSessionMoved);
      ++counts_.moved;
    } else if (sent.sequence > client.accepted) {
      REQUIRE(result.error == ErrorCode::kOutOfSequence);
      ++counts_.overtaken;
    } else if (sent.sequence <= client.forgotten) {
      REQUIRE(result.error == ErrorCode::kAlreadyAcknowledged);
      ++counts_.forgotten;
    } else {
      REQUIRE(result.error == ErrorCode::kOk);
      REQUIRE(result.repeated);
      const auto kept = std::make_pair(result.zxid, result.ops);
      REQUIRE((answers_.at({sent.client, sent.sequence}) == kept));
      ++counts_.repeated;
    }
  }

  void Tell(Client* client, uint64_t sequence, const ApplyResult& result) {
    const auto [at, is_new] = client->told.try_emplace(sequence, result);
    REQUIRE(at->second.zxid == result.zxid);
    REQUIRE((at->second.ops == result.ops));
    while (client->told.contains(client->acknowledged + 1)) ++client->acknowledged;
  }

  void Reload() {
    TreeLoader loader;
    tree_->ForEachRecord([&loader](std::string_view key, std::optional<std::string_view> value) {
      REQUIRE(loader.Add(key, *value).ok());
    });
    auto loaded = loader.Finish(tree_->last_zxid(), tree_->digest());
    REQUIRE(loaded.ok());
    tree_ = *std::move(loaded);
  }

  std::mt19937_64 random_;
  Counts& counts_;
  std::vector<Client> clients_;
  std::vector<Underway> underway_;
  std::map<uint16_t, uint64_t> sequence_;
  std::unique_ptr<Tree> tree_ = std::make_unique<Tree>();
  std::unique_ptr<Tree> reference_ = std::make_unique<Tree>();
  // The responses, by client and number. Each write has only one response.
  std::map<std::pair<size_t, uint64_t>, std::pair<Zxid, std::vector<OpResult>>> answers_;
};

TEST_CASE("a numbered write is applied once and has one response, even if repeated or delayed") {
  Counts counts;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    Network network(seed, &counts);
    int steps = 0;
    while (!network.IsDone()) {
      REQUIRE(++steps < 100'000);
      network.Step();
    }
    network.Compare();
  }
  CHECK(counts.lost > 100);
  CHECK(counts.repeated > 100);
  CHECK(counts.moved > 100);
  CHECK(counts.overtaken > 100);
  CHECK(counts.forgotten > 100);
}

}  // namespace
}  // namespace quorate::tree
