// SPDX-License-Identifier: Apache-2.0

// Tests whole members, from the bytes of their clients to the sectors of their disks, without
// threads. The test runs their steps in an order that a seed determines.
#include "rpc/member/replica.h"

#include <catch2/catch.hpp>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/crc32c.h"
#include "base/random.h"
#include "base/testing/manual_clock.h"
#include "consensus/log/testing/fault_env.h"
#include "rpc/member/disk/incarnation.h"
#include "rpc/member/exit_status.h"
#include "rpc/member/testing/captured_log.h"
#include "rpc/member/testing/file_record_store.h"
#include "rpc/zookeeper/connection_loop.h"
#include "rpc/zookeeper/frontend.h"
#include "rpc/zookeeper/testing/manual_sockets.h"
#include "rpc/zookeeper/testing/test_packets.h"

namespace quorate::rpc {
namespace {

using consensus::MemberId;
using consensus::Node;
using tree::ErrorCode;
using zk::ConnectResponse;
using zk::OpCode;
using zk::Packet;

constexpr int64_t kStartMs = 1'700'000'000'000;

class SeededRandom : public consensus::RandomSource, public RandomBytes {
 public:
  explicit SeededRandom(uint64_t seed) : engine_(seed) {}
  uint64_t Next() override { return engine_(); }
  void Fill(char* bytes, size_t size) override {
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(engine_());
  }

 private:
  std::mt19937_64 engine_;
};

// The batches in flight between members, as the bytes that a connection would transfer.
struct Network {
  struct Parcel {
    MemberId from;
    MemberId to;
    std::string bytes;
  };
  std::deque<Parcel> parcels;
  // Replaces the digest in each answer about a digest by that of another tree.
  bool changes_digests = false;
  uint32_t checksum = 0;                // checksum of everything that was sent, in order
  MemberId cut = consensus::kNoMember;  // a member whose messages, in both directions, are lost
};

class Links : public PeerLinks {
 public:
  Links(MemberId self, Network* network) : self_(self), network_(network) {}

  void Send(std::vector<consensus::Message> messages) override {
    for (const consensus::Message& message : messages) {
      Post(message.to, [&](std::string* out) { AppendMessageFrame(message, out); });
    }
  }
  void Forward(MemberId to, const std::vector<std::string_view>& commands) override {
    Post(to, [&](std::string* out) { AppendForwardFrame(commands, out); });
  }
  void SendDigest(MemberId to, const DigestNote& said) override {
    DigestNote note = said;
    if (network_->changes_digests && note.kind == DigestNote::Kind::kAnswer) *note.digest ^= 1;
    Post(to, [&](std::string* out) { AppendDigestFrame(note, out); });
  }
  void SendTouches(MemberId to, const std::vector<int64_t>& sessions) override {
    Post(to, [&](std::string* out) { AppendTouchFrame(sessions, out); });
  }
  void SendDiskReport(MemberId to, const DiskReport& report) override {
    Post(to, [&](std::string* out) { AppendDiskFrame(report, out); });
  }
  bool IsSending(MemberId) const override { return false; }
  void Tick() override {}
  int64_t DownForMs(MemberId) const override { return 0; }
  std::string ProblemOf(MemberId) const override { return ""; }
  void SetMembers(const PeerAddresses& others) override { others_ = others; }
  void SetClusterId(const std::string& cluster_id) override { cluster_id_ = cluster_id; }
  const std::string& cluster_id() const { return cluster_id_; }
  const PeerAddresses& others() const { return others_; }

 private:
  void Post(MemberId to, const std::function<void(std::string*)>& append) {
    std::string bytes;
    append(&bytes);
    SealFrames(&bytes);
    network_->checksum = Crc32c(bytes, network_->checksum);
    network_->parcels.push_back({self_, to, std::move(bytes)});
  }

  const MemberId self_;
  Network* const network_;
  std::string cluster_id_;
  PeerAddresses others_;
};

Config MemberConfig(uint32_t id, uint32_t members) {
  Config config;
  config.my_id = id;
  config.log_dir = "data";
  config.tick_time_ms = 200;
  config.min_session_timeout_ms = 400;
  config.max_session_timeout_ms = 4000;
  config.container_check_interval_ms = 1000;
  if (members == 1) return config;
  for (uint32_t other = 1; other <= members; ++other) config.servers[other] = {};
  return config;
}

class Member : private ReplicaHost {
 public:
  Member(uint32_t id, uint32_t members, uint64_t seed, const ManualClock* clock, Network* network)
      : config_(MemberConfig(id, members)), random_(seed + id), clock_(clock), network_(network) {}

  void Start() { REQUIRE(TryStart().ok()); }
  // Starts the member. If this returns an error, the member does not run.
  absl::Status TryStart() {
    auto incarnation_dir = env->CreateDirectories(config_.log_dir);
    REQUIRE(incarnation_dir.ok());
    auto opened =
        consensus::DataDir::Open(env.get(), config_.log_dir + "/log", MemberId(config_.my_id),
                                 {.segment_bytes = 4096}, consensus::kFirstDirectoryEpoch);
    REQUIRE(opened.ok());
    auto store = FileRecordStore::Open(env.get(), config_.log_dir + "/checkpoints");
    REQUIRE(store.ok());
    auto incarnation = NextIncarnation(env.get(), config_.log_dir, clock_->WallMs());
    REQUIRE(incarnation.ok());
    running_ = std::make_unique<Running>(this, *std::move(opened), *std::move(store), *incarnation);
    absl::Status loaded = running_->replica.Load();
    if (!loaded.ok()) running_.reset();
    return loaded;
  }
  // Sets the servers that the configuration names from the next start on.
  void SetServers(const std::vector<uint32_t>& servers) {
    config_.servers.clear();
    for (uint32_t server : servers) config_.servers[server] = {};
  }
  // Stops the member, and drops everything in memory.
  void Stop() { running_.reset(); }
  bool runs() const { return running_ != nullptr; }

  Replica& replica() { return running_->replica; }
  zk::ConnectionLoop& loop() { return running_->loop; }
  zk::ManualSockets& sockets() { return running_->sockets; }
  const std::string& cluster_id() const { return running_->links.cluster_id(); }
  const PeerAddresses& linked() const { return running_->links.others(); }
  MemberId id() const { return MemberId(config_.my_id); }

  std::unique_ptr<consensus::FaultEnv> env = std::make_unique<consensus::FaultEnv>();
  uint32_t version = consensus::kVersionNewest;  // the newest version that the member understands
  bool heartbeats_each_tick = false;             // sends heartbeats in each tick while it leads
  bool loop_is_held_up = false;                  // the loop does not run
  absl::Status ended;
  absl::Status fatal;
  std::optional<Divergence> diverged;

 private:
  struct Running {
    Running(Member* member, std::unique_ptr<consensus::DataDir> dir,
            std::unique_ptr<FileRecordStore> records, uint64_t incarnation)
        : data_dir(std::move(dir)),
          store(std::move(records)),
          links(member->id(), member->network_),
          replica(Options(member, *data_dir), incarnation, data_dir.get(), store.get(),
                  &member->random_, member->clock_, &links, member),
          frontend(member->config_, &replica, member->clock_, &member->random_) {
      replica.SetFrontend(&frontend);
      sockets.SetLoop(&loop);
    }
    // Checkpoints are taken, and the log is compacted, very often.
    static ReplicaOptions Options(Member* member, const consensus::DataDir& dir) {
      ReplicaOptions options =
          MakeReplicaOptions(member->config_, member->random_.Make(consensus::kClusterIdBytes));
      options.node.checkpoint_entries = 7;
      options.node.raft.directory_epoch = dir.directory_epoch();
      options.node.raft.version = member->version;
      if (member->heartbeats_each_tick) options.node.raft.heartbeat_ticks = 1;
      options.node.raft.trailing_entries = 3;
      options.node.raft.retained_entries_max = 20;
      options.node.raft.compaction_step_entries = 1;
      options.node.raft.snapshot_chunk_bytes = 100;
      return options;
    }
    std::unique_ptr<consensus::DataDir> data_dir;
    std::unique_ptr<FileRecordStore> store;
    Links links;
    Replica replica;
    zk::ZkFrontend frontend;
    zk::ManualSockets sockets;
    zk::ConnectionLoop loop{&frontend, &sockets};
  };

  void OnFatal(const absl::Status& error) override { fatal = error; }
  void OnEnd(absl::Status why) override { ended = std::move(why); }
  absl::Status SaveIncarnation(uint64_t incarnation) override {
    return rpc::SaveIncarnation(env.get(), config_.log_dir, incarnation);
  }
  void OnDiverged(const Divergence& divergence) override { diverged = divergence; }
  void OnStatusPublished() override {}

  Config config_;
  SeededRandom random_;
  const ManualClock* const clock_;
  Network* const network_;
  std::unique_ptr<Running> running_;
};

// Members with their network and their time. Every event is either a step of Settle, which the seed
// chooses, or a tick.
class Cluster {
 public:
  Cluster(uint32_t members, uint64_t seed, uint32_t version = consensus::kVersionNewest,
          bool start = true)
      : random_(seed) {
    for (uint32_t id = 1; id <= members; ++id) {
      members_[id] = std::make_unique<Member>(id, members, seed, &clock, &network);
      members_[id]->version = version;
      if (start) members_[id]->Start();
    }
  }

  Member& member(uint32_t id) { return *members_.at(id); }
  // Runs all steps that are possible without a tick.
  void Settle() {
    while (true) {
      std::vector<std::function<void()>> ready;
      for (auto& [id, member] : members_) {
        if (!member->runs()) continue;
        Member* m = member.get();
        if (!m->loop_is_held_up) m->sockets().RunIterations();
        for (Node::Work work : {Node::Work::kNode, Node::Work::kLog, Node::Work::kApply,
                                Node::Work::kRead, Node::Work::kCheckpoint}) {
          if (!m->replica().node().HasWork(work)) continue;
          ready.push_back([m, work] { m->replica().node().Step(work); });
        }
      }
      if (!network.parcels.empty()) ready.push_back([this] { DeliverOne(); });
      if (ready.empty()) return;
      ready[random_() % ready.size()]();
    }
  }
  void Pass(int64_t ms) {
    constexpr int64_t kTickMs = 15;
    for (int64_t passed = 0; passed < ms; passed += kTickMs) {
      clock.Advance(kTickMs);
      for (auto& [id, member] : members_) {
        if (!member->runs()) continue;
        member->replica().node().TickNow();
        if (!member->loop_is_held_up) member->loop().OnTimer();
      }
      Settle();
    }
  }
  template <typename Condition>
  void PassUntil(Condition condition) {
    for (int ticks = 0; !condition(); ++ticks) {
      REQUIRE(ticks < 1000);
      Pass(1);
    }
  }
  // Returns the leader, once there is one and all running members follow it.
  Member& Leader() {
    Member* leader = nullptr;
    PassUntil([&] {
      leader = nullptr;
      bool all = true;
      for (auto& [id, member] : members_) {
        if (!member->runs()) continue;
        const ServerStatus status = member->replica().status();
        all &= status.leader_known && status.in_touch;
        if (status.is_leader) leader = member.get();
      }
      return all && leader != nullptr;
    });
    return *leader;
  }
  Member& Follower() {
    const MemberId leader = Leader().id();
    for (auto& [id, member] : members_) {
      if (member->runs() && member->id() != leader) return *member;
    }
    FAIL("no follower runs");
    return Leader();
  }
  void Kill(Member& member) {
    member.Stop();
    member.env->Crash(random_());
    for (auto& [id, other] : members_) {
      if (other->runs()) other->replica().OnPeerDown(member.id());
    }
  }
  // Kills the member and starts it again with an empty disk.
  void Wipe(Member& member) {
    Kill(member);
    clock.Advance(1);
    member.env = std::make_unique<consensus::FaultEnv>();
    Restart(member);
  }
  void Restart(Member& member) {
    member.Start();
    for (auto& [id, other] : members_) {
      if (other.get() == &member || !other->runs()) continue;
      other->replica().OnPeerUp(member.id());
      member.replica().OnPeerUp(other->id());
    }
  }

  ManualClock clock{kStartMs};
  Network network;

 private:
  void DeliverOne() {
    Network::Parcel parcel = std::move(network.parcels.front());
    network.parcels.pop_front();
    Member& to = *members_.at(parcel.to.value());
    if (!to.runs() || !members_.at(parcel.from.value())->runs()) return;
    if (parcel.from == network.cut || parcel.to == network.cut) return;
    auto batch = FrameDecoder().Decode(std::make_shared<std::string>(std::move(parcel.bytes)));
    REQUIRE(batch.ok());
    CHECK(to.replica().OnPeerBatch(parcel.from, *std::move(batch)).ok());
  }

  std::mt19937_64 random_;
  std::map<uint32_t, std::unique_ptr<Member>> members_;
};

// A client of one member. Everything that it receives is in `heard`.
class Client {
 public:
  Client(Cluster* cluster, Member* member, zk::ConnectPacketOptions options = {})
      : cluster_(cluster), member_(member) {
    const auto tag = member_->sockets().Connect();
    REQUIRE(tag.has_value());
    tag_ = *tag;
    member_->sockets().Write(tag_, ConnectPacket(options));
    std::string frame;
    cluster_->PassUntil([&] { return TakeFrame(&frame) || !open(); });
    REQUIRE(DecodeConnectResponse(frame, true, &session));
  }
  void Write(int32_t xid, OpCode op, const std::string& body) {
    member_->sockets().Write(tag_, RequestPacket(xid, op, body));
  }
  Packet Next() {
    std::string frame;
    cluster_->PassUntil([&] { return TakeFrame(&frame); });
    return zk::DecodePacket(frame);
  }
  Packet Call(OpCode op, const std::string& body) {
    Write(++last_xid_, op, body);
    Packet packet = Next();
    CHECK(packet.xid == last_xid_);
    return packet;
  }
  void HearAll() {
    for (std::string frame; TakeFrame(&frame);) {
    }
  }
  bool open() { return member_->sockets().open(tag_); }
  const Member* member() const { return member_; }

  ConnectResponse session;
  std::string heard;

 private:
  bool TakeFrame(std::string* frame) {
    if (!zk::TakeFrame(&member_->sockets().received(tag_), frame)) return false;
    heard += *frame;
    return true;
  }

  Cluster* const cluster_;
  Member* const member_;
  uint32_t tag_ = 0;
  int32_t last_xid_ = 0;
};

int64_t ComparedAt(Member& member) { return member.replica().metrics().digest_compared_zxid; }

// Returns whether all running members have compared their trees with a majority's, up to the last
// applied zxid.
bool AllCompared(Cluster* cluster) {
  bool all = true;
  for (uint32_t id = 1; id <= 3; ++id) {
    Member& member = cluster->member(id);
    if (!member.runs()) continue;
    const int64_t compared = ComparedAt(member);
    all &= compared > 0 && compared == member.replica().ReadTree()->last_zxid().value();
  }
  return all;
}

TEST_CASE("a standalone member serves, and after a crash it has everything that it acknowledged") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    Cluster cluster(1, seed);
    Member& member = cluster.Leader();
    CHECK(member.replica().status().standalone);
    CHECK(member.cluster_id().size() == consensus::kClusterIdBytes);
    Client client(&cluster, &member);
    CHECK(client.Call(OpCode::kCreate, zk::Create("/a", "1")).error == ErrorCode::kOk);
    CHECK(client.Call(OpCode::kSetData, zk::SetData("/a", "2")).error == ErrorCode::kOk);
    CHECK(zk::DataOf(client.Call(OpCode::kGetData, zk::PathAndWatch("/a", false))) == "2");
    CHECK(client.Call(OpCode::kSync, zk::Path("/a")).error == ErrorCode::kOk);
    const std::string cluster_id = member.cluster_id();

    cluster.Kill(member);
    const CapturedLog log;
    cluster.Restart(member);
    cluster.Leader();
    REQUIRE(log.Lines("log replay").size() == 2);
    CHECK_THAT(log.Lines("log replay")[1], Catch::EndsWith("entries, applied in 0 ms"));
    Client again(&cluster, &member,
                 {.session = client.session.session_id, .password = client.session.password});
    CHECK(again.session.session_id == client.session.session_id);
    CHECK(zk::DataOf(again.Call(OpCode::kGetData, zk::PathAndWatch("/a", false))) == "2");
    CHECK(again.Call(OpCode::kSetData, zk::SetData("/a", "3")).error == ErrorCode::kOk);
    CHECK(member.ended.ok());
    CHECK(member.fatal.ok());
  }
}

TEST_CASE("a session expires when its client was silent for its timeout in the member's time") {
  Cluster cluster(3, 1);
  Client silent(&cluster, &cluster.Follower());
  Client watcher(&cluster, &cluster.Leader(), {.timeout_ms = 4000});
  REQUIRE(silent.session.timeout_ms == 1000);
  REQUIRE(silent.Call(OpCode::kCreate, zk::Create("/e", "", 1)).error == ErrorCode::kOk);
  REQUIRE(watcher.Call(OpCode::kSync, zk::Path("/")).error == ErrorCode::kOk);
  REQUIRE(watcher.Call(OpCode::kExists, zk::PathAndWatch("/e", true)).error == ErrorCode::kOk);
  // A ping each half of the timeout keeps the session alive.
  for (int i = 0; i < 10; ++i) {
    cluster.Pass(500);
    for (Client* client : {&silent, &watcher}) {
      client->Write(zk::kPingXid, OpCode::kPing, "");
      CHECK(client->Next().xid == zk::kPingXid);
    }
  }
  cluster.Pass(900);
  CHECK(silent.open());
  const auto last = cluster.clock.Now();
  const Packet event = watcher.Next();
  CHECK(event.xid == zk::kNotificationXid);
  CHECK(cluster.clock.Now() - last < std::chrono::milliseconds(1000));
  cluster.Pass(15);
  CHECK_FALSE(silent.open());
  CHECK(watcher.open());
}

TEST_CASE("a session does not end because its server's thread is delayed") {
  Cluster cluster(3, 1);
  const bool is_leaders = GENERATE(true, false);
  Member& member = is_leaders ? cluster.Leader() : cluster.Follower();
  Client client(&cluster, &member);
  REQUIRE(client.session.timeout_ms == 1000);
  member.loop_is_held_up = true;
  cluster.Pass(10'000);
  CHECK(member.replica().ReadTree()->session_count() == 1);
  member.loop_is_held_up = false;
  CHECK(client.Call(OpCode::kCreate, zk::Create("/a", "")).error == ErrorCode::kOk);
  // From here on the client itself is silent.
  cluster.Pass(2000);
  CHECK(member.replica().ReadTree()->session_count() == 0);
}

TEST_CASE("a member has caught up once it has all entries committed before it found its leader") {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    INFO("seed " << seed);
    Cluster cluster(3, seed);
    Member& follower = cluster.Follower();
    CHECK(follower.replica().status().caught_up);
    cluster.Kill(follower);
    Client client(&cluster, &cluster.Leader(), {.timeout_ms = 4000});
    REQUIRE(client.Call(OpCode::kCreate, zk::Create("/a", "")).error == ErrorCode::kOk);
    const int64_t committed = cluster.Leader().replica().ReadTree()->last_zxid().value();
    cluster.network.cut = follower.id();
    cluster.clock.Advance(1);
    cluster.Restart(follower);
    cluster.Pass(2000);  // the member has the data of its disk, and no leader
    CHECK_FALSE(follower.replica().status().caught_up);
    CHECK_FALSE(follower.replica().status().serving());
    cluster.network.cut = consensus::kNoMember;
    cluster.PassUntil([&] {
      const ServerStatus status = follower.replica().status();
      CHECK((status.caught_up || !status.in_touch));
      if (!status.caught_up) return false;
      CHECK(follower.replica().ReadTree()->last_zxid().value() >= committed);
      return true;
    });
    // caught_up stays true when the member loses its leader later.
    cluster.network.cut = follower.id();
    cluster.Pass(2000);
    CHECK(follower.replica().status().caught_up);
    CHECK_FALSE(follower.replica().status().in_touch);
  }
}

TEST_CASE("the time for which a process was suspended counts as silence of its leader") {
  Cluster cluster(3, 1);
  Member& follower = cluster.Follower();
  const auto age_ms = [&] { return follower.replica().status().leader_contact_age_ms; };
  cluster.Pass(1000);
  CHECK(age_ms() < 1000);
  cluster.network.cut = follower.id();
  cluster.clock.Advance(60'000);
  CHECK(age_ms() >= 60'000);
  cluster.Pass(150);  // the process runs again, and has not heard from any member
  CHECK(age_ms() >= 60'000);
  cluster.network.cut = consensus::kNoMember;
  cluster.PassUntil([&] { return age_ms() < 1000; });
}

TEST_CASE("a leader that is heard from once in each tick is not silent") {
  Cluster cluster(3, 1, consensus::kVersionNewest, /*start=*/false);
  for (uint32_t id = 1; id <= 3; ++id) {
    cluster.member(id).heartbeats_each_tick = true;
    cluster.member(id).Start();
  }
  Member& follower = cluster.Follower();
  cluster.Pass(1000);
  CHECK(follower.replica().status().leader_contact_age_ms < 500);
}

// Returns the request of a createTTL, whose record includes the TTL.
std::string CreateTtl(const std::string& path, int64_t ttl_ms) {
  std::string body = zk::Create(path, "", 5);
  BigEndianWriter(&body).Int(ttl_ms);
  return body;
}

TEST_CASE("a request that an old member does not know is refused until it is upgraded") {
  Cluster old(3, 4, tree::kVersionExpiry - 1);
  Member& leader = old.Leader();
  Client client(&old, &leader, {.timeout_ms = 4000});
  const auto create = [&](Client& by, const std::string& path) {
    return by.Call(OpCode::kCreateContainer, zk::Create(path, "", 4)).error;
  };
  CHECK(create(client, "/c") == ErrorCode::kUnimplemented);
  // The members are upgraded one after the other, the leader last.
  for (uint32_t id = 1; id <= 3; ++id) {
    Member& member = old.member(id);
    if (&member == &leader) continue;
    CHECK(create(client, "/c") == ErrorCode::kUnimplemented);
    CHECK(ComparedAt(member) == 0);
    old.Kill(member);
    member.version = consensus::kVersionNewest;
    old.Restart(member);
    old.Leader();
  }
  old.Pass(3000);
  old.Kill(leader);
  leader.version = consensus::kVersionNewest;
  old.Restart(leader);
  Client last(&old, &old.Leader(), {.timeout_ms = 4000});
  old.Pass(1000);
  CHECK(create(last, "/c") == ErrorCode::kOk);
  old.PassUntil([&] { return AllCompared(&old); });
}

ServerLines LinesOf(const std::vector<uint32_t>& members, uint16_t peer_port) {
  ServerLines lines;
  for (uint32_t member : members) {
    lines[member] = {
        .host = absl::StrCat("host", member), .peer_port = peer_port, .election_port = 1};
  }
  return lines;
}

// Asks the member for a change, and returns the outcome once there is one.
absl::Status Change(Cluster* cluster, Member& member, const ServerLines& lines,
                    std::optional<consensus::Index> based_on = std::nullopt) {
  std::optional<absl::Status> outcome;
  member.replica().ChangeMembers(
      lines, based_on.value_or(member.replica().cluster_view().membership_index),
      [&outcome](absl::Status status) { outcome = std::move(status); });
  cluster->PassUntil([&] { return outcome.has_value(); });
  return *outcome;
}

std::string ConfigOf(Member& member, tree::Stat* stat) {
  const GuardedTree::ReadGuard tree = member.replica().ReadTree();
  const tree::Identity anyone{"world", "anyone"};
  std::string_view data;
  bool has_data = false;
  REQUIRE(tree->GetData("/zookeeper/config", {&anyone, 1}, &data, &has_data, stat) ==
          ErrorCode::kOk);
  return std::string(data);
}

TEST_CASE("a change of members reaches links and /zookeeper/config, also after a restart") {
  Cluster cluster(3, 5);
  Member& leader = cluster.Leader();
  const auto base = leader.replica().cluster_view().membership_index;
  REQUIRE(Change(&cluster, leader, LinesOf({1, 2, 3}, 7)).ok());
  const auto version = leader.replica().cluster_view().membership_index;
  CHECK(version > base);
  cluster.Pass(300);
  for (uint32_t id = 1; id <= 3; ++id) {
    Member& member = cluster.member(id);
    PeerAddresses others;
    for (const auto& [other, line] : LinesOf({1, 2, 3}, 7)) {
      if (other != id) others[MemberId(other)] = {line.host, line.peer_port};
    }
    CHECK(member.linked() == others);
    tree::Stat stat;
    CHECK(ConfigOf(member, &stat) ==
          absl::StrCat("server.1=host1:7:1:participant\nserver.2=host2:7:1:participant\n",
                       "server.3=host3:7:1:participant\nversion=", absl::Hex(version.value())));
    CHECK(stat.mzxid.value() == static_cast<int64_t>(version.value()));
  }
  // A member whose configuration names only members of an earlier time starts all the same.
  Member& follower = cluster.Follower();
  const PeerAddresses before = follower.linked();
  cluster.Kill(follower);
  follower.SetServers({follower.id().value(), leader.id().value()});
  cluster.Restart(follower);
  cluster.Leader();
  CHECK(follower.linked() == before);
  cluster.PassUntil([&] { return AllCompared(&cluster); });
  // Nothing shows that the voters can be reached at new addresses, so only one of them may move.
  CHECK(absl::IsUnavailable(Change(&cluster, cluster.Leader(), LinesOf({1, 2, 3}, 8))));
  ServerLines moved = LinesOf({1, 2, 3}, 7);
  moved[follower.id().value()].host = "elsewhere";
  CHECK(Change(&cluster, cluster.Leader(), moved).ok());
}

ServerLines LinesWithout(MemberId member) {
  ServerLines lines = LinesOf({1, 2, 3}, 7);
  lines.erase(member.value());
  return lines;
}

TEST_CASE("a server that is removed ends after a while, and waits if it is started again") {
  using State = ClusterView::Change::State;
  Cluster cluster(3, 5);
  Member& leader = cluster.Leader();
  Member& removed = cluster.Follower();
  CHECK(leader.replica().cluster_view().change.state == State::kNone);
  REQUIRE(Change(&cluster, leader, LinesWithout(removed.id())).ok());
  cluster.Pass(20'000);
  CHECK(leader.replica().cluster_view().change.state == State::kDone);
  CHECK_THAT(leader.replica().cluster_view().change.what,
             Catch::EndsWith(absl::StrCat("member ", removed.id().value(), " is removed")));
  CHECK(removed.replica().cluster_view().change.state == State::kNone);
  CHECK(removed.ended.ok());
  cluster.Pass(20'000);
  CHECK(ExitStatusOf(removed.ended) == ExitStatus::kRemoved);
  CHECK_THAT(std::string(removed.ended.message()),
             Catch::Contains(absl::StrCat("`quorate member add ", removed.id().value(), "`")));
  CHECK(leader.ended.ok());

  cluster.Kill(removed);
  removed.ended = absl::OkStatus();
  cluster.Restart(removed);
  cluster.Pass(60'000);
  CHECK(removed.ended.ok());
}

TEST_CASE("a server that is removed and added again at once goes on") {
  Cluster cluster(3, 5);
  Member& leader = cluster.Leader();
  Member& removed = cluster.Follower();
  REQUIRE(Change(&cluster, leader, LinesWithout(removed.id())).ok());
  cluster.Pass(10'000);
  ServerLines with_observer = LinesOf({1, 2, 3}, 7);
  with_observer[removed.id().value()].observer = true;
  REQUIRE(Change(&cluster, leader, with_observer).ok());
  cluster.Pass(60'000);
  CHECK(removed.ended.ok());
  CHECK(removed.replica().status().serving());
}

TEST_CASE("a server that had no vote waits when it is taken out") {
  Cluster cluster(3, 5);
  Member& leader = cluster.Leader();
  Member& observer = cluster.Follower();
  ServerLines lines = LinesOf({1, 2, 3}, 7);
  lines[observer.id().value()].observer = true;
  REQUIRE(Change(&cluster, leader, lines).ok());
  cluster.Pass(1'000);
  cluster.Kill(observer);
  cluster.Restart(observer);
  cluster.PassUntil([&] { return observer.replica().status().serving(); });
  REQUIRE(Change(&cluster, leader, LinesWithout(observer.id())).ok());
  cluster.PassUntil([&] { return !observer.replica().status().serving(); });
  cluster.Pass(60'000);
  CHECK(observer.ended.ok());
}

TEST_CASE("a change that is refused is not the last change") {
  using State = ClusterView::Change::State;
  Cluster cluster(3, 5);
  Member& leader = cluster.Leader();
  REQUIRE(Change(&cluster, leader, LinesOf({1, 2, 3}, 7)).ok());
  CHECK(absl::IsUnavailable(Change(&cluster, leader, LinesOf({1, 2, 3, 4}, 7))));
  cluster.Pass(100);
  const ClusterView::Change change = leader.replica().cluster_view().change;
  CHECK(change.state == State::kDone);
  CHECK(change.detail.empty());
}

TEST_CASE("a change of members that cannot be made has a clear error, and changes nothing") {
  Cluster cluster(3, 6);
  Member& leader = cluster.Leader();
  const auto base = leader.replica().cluster_view().membership_index;
  CHECK(absl::IsFailedPrecondition(Change(&cluster, cluster.Follower(), LinesOf({1, 2, 3}, 7))));
  CHECK(absl::IsAborted(Change(&cluster, leader, LinesOf({1, 2, 3}, 7), base + 1)));
  CHECK(absl::IsInvalidArgument(Change(&cluster, leader, {})));
  CHECK(absl::IsUnavailable(Change(&cluster, leader, LinesOf({1, 2, 4}, 7))));
  CHECK(leader.replica().cluster_view().membership_index == base);
}

TEST_CASE("members change only when all members understand addresses") {
  Cluster cluster(3, 7, consensus::kVersionAddresses - 1);
  const absl::Status refused = Change(&cluster, cluster.Leader(), LinesOf({1, 2, 3}, 7));
  CHECK(absl::IsFailedPrecondition(refused));
  CHECK_THAT(std::string(refused.message()), Catch::Contains("version 9 is not in force yet"));
}

TEST_CASE("a forwarded write that cannot be applied closes the link, and enters no log") {
  Cluster cluster(3, 9);
  Member& leader = cluster.Leader();
  const MemberId from = cluster.Follower().id();
  const auto last = leader.replica().node().raft().last_index();
  tree::CommandHeader header;
  header.proposer = {static_cast<uint16_t>(from.value()), ~uint64_t{0}};
  header.sequence = 1;
  PeerBatch batch;
  CommandBatch& forward = batch.forwards.emplace_back();
  tree::Request request;
  request.ops.emplace_back().path = "/a";
  tree::AppendRequest(header, request, forward.bytes.get());
  forward.bytes->pop_back();
  forward.commands.push_back({0, forward.bytes->size()});
  CHECK(absl::IsInvalidArgument(leader.replica().OnPeerBatch(from, std::move(batch))));
  cluster.Settle();
  CHECK(leader.replica().node().raft().last_index() == last);
}

TEST_CASE("containers and nodes with a TTL are removed when they are due, under any leader") {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    INFO("seed " << seed);
    Cluster cluster(3, seed);
    Member& follower = cluster.Follower();
    Client client(&cluster, &follower, {.timeout_ms = 4000});
    const auto has = [&](const std::string& path) {
      return client.Call(OpCode::kExists, zk::PathAndWatch(path, false)).error == ErrorCode::kOk;
    };
    const auto pass = [&](int64_t ms) {
      for (int64_t passed = 0; passed < ms; passed += 500) {
        cluster.Pass(500);
        client.Write(zk::kPingXid, OpCode::kPing, "");
        REQUIRE(client.Next().xid == zk::kPingXid);
      }
    };
    REQUIRE(client.Call(OpCode::kCreateContainer, zk::Create("/c", "", 4)).error == ErrorCode::kOk);
    REQUIRE(client.Call(OpCode::kCreateContainer, zk::Create("/new", "", 4)).error ==
            ErrorCode::kOk);
    REQUIRE(client.Call(OpCode::kCreate, zk::Create("/c/x", "")).error == ErrorCode::kOk);
    REQUIRE(client.Call(OpCode::kCreateTtl, CreateTtl("/t", 100)).error == ErrorCode::kOk);
    REQUIRE(client.Call(OpCode::kCreateTtl, CreateTtl("/late", 8000)).error == ErrorCode::kOk);
    CHECK(client.Call(OpCode::kDeleteContainer, zk::Path("/c")).error == ErrorCode::kBadArguments);
    CHECK(has("/t"));
    pass(1500);
    CHECK_FALSE(has("/t"));
    CHECK(has("/c"));
    // The leader, which has removed some nodes, dies, and another leader continues.
    Member& leader = cluster.Leader();
    REQUIRE(client.Call(OpCode::kDelete, zk::Path("/c/x") + std::string(4, '\xff')).error ==
            ErrorCode::kOk);
    cluster.Kill(leader);
    client.Write(1000, OpCode::kSync, zk::Path("/"));
    REQUIRE(client.Next().xid == 1000);
    CHECK(has("/c"));
    CHECK(has("/late"));
    pass(2000);
    CHECK_FALSE(has("/c"));
    CHECK(has("/late"));
    pass(8000);
    CHECK_FALSE(has("/late"));
    CHECK(has("/new"));
    cluster.Restart(leader);
    cluster.Leader();
    pass(500);
    const uint64_t digest = follower.replica().ReadTree()->digest();
    CHECK(leader.replica().ReadTree()->digest() == digest);
  }
}

TEST_CASE("clients of a follower keep their connections when the leader dies, and lose no write") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    Cluster cluster(3, seed);
    Member& leader = cluster.Leader();
    Member& follower = cluster.Follower();
    Client client(&cluster, &follower, {.timeout_ms = 4000});
    REQUIRE(client.Call(OpCode::kCreate, zk::Create("/n", "")).error == ErrorCode::kOk);
    constexpr int32_t kWrites = 30;
    for (int32_t i = 1; i <= kWrites; ++i) {
      client.Write(100 + i, OpCode::kSetData, zk::SetData("/n", std::to_string(i)));
      if (i == kWrites / 2) {
        // Requests may be at any point on their way.
        follower.sockets().RunIterations();
        follower.replica().node().Step(Node::Work::kNode);
        cluster.Kill(leader);
      }
    }
    client.Write(200, OpCode::kGetData, zk::PathAndWatch("/n", false));
    int64_t zxid = 0;
    for (int32_t i = 1; i <= kWrites; ++i) {
      const Packet packet = client.Next();
      CHECK(packet.xid == 100 + i);
      CHECK(packet.error == ErrorCode::kOk);
      CHECK(packet.zxid > zxid);
      zxid = packet.zxid;
    }
    CHECK(zk::DataOf(client.Next()) == std::to_string(kWrites));
    const Packet stat = client.Call(OpCode::kExists, zk::PathAndWatch("/n", false));
    BigEndianReader reader(stat.body);
    for (int i = 0; i < 4; ++i) reader.Int<int64_t>();
    CHECK(reader.Int<int32_t>() == kWrites);  // the version: each write was applied once
    CHECK(client.open());

    cluster.Restart(leader);
    cluster.Leader();
    Client other(&cluster, &leader, {.last_zxid = zxid});
    CHECK(zk::DataOf(other.Call(OpCode::kGetData, zk::PathAndWatch("/n", false))) ==
          std::to_string(kWrites));
    CHECK(leader.replica().ReadTree()->digest() == follower.replica().ReadTree()->digest());
  }
}

TEST_CASE("requests lost with the link to the leader are sent again on the next link") {
  Cluster cluster(3, 1);
  Member& leader = cluster.Leader();
  Member& follower = cluster.Follower();
  Client client(&cluster, &follower);
  client.Write(1, OpCode::kCreate, zk::Create("/a", ""));
  follower.sockets().RunIterations();
  follower.replica().node().Step(Node::Work::kNode);
  REQUIRE(cluster.network.parcels.size() == 1);
  CHECK(cluster.network.parcels[0].to == leader.id());
  cluster.network.parcels.clear();
  cluster.Settle();
  client.HearAll();
  const size_t heard = client.heard.size();
  follower.replica().OnPeerUp(leader.id());
  cluster.Settle();
  client.HearAll();
  CHECK(client.heard.size() > heard);
}

TEST_CASE("a member that was away for too long gets a snapshot, and disconnects its clients") {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    INFO("seed " << seed);
    Cluster cluster(3, seed);
    Member& leader = cluster.Leader();
    Member& follower = cluster.Follower();
    Client client(&cluster, &leader, {.timeout_ms = 4000});
    REQUIRE(client.Call(OpCode::kCreate, zk::Create("/n", "")).error == ErrorCode::kOk);
    cluster.Leader();
    // Nothing reaches the follower for a while. Its clients continue to read.
    Client reader(&cluster, &follower, {.timeout_ms = 4000});
    REQUIRE(reader.Call(OpCode::kGetData, zk::PathAndWatch("/n", true)).error == ErrorCode::kOk);
    cluster.network.cut = follower.id();
    for (int i = 0; i < 100; ++i) {
      REQUIRE(client.Call(OpCode::kSetData, zk::SetData("/n", std::to_string(i))).error ==
              ErrorCode::kOk);
    }
    REQUIRE(leader.replica().node().raft().base_index() >
            follower.replica().node().raft().last_index());
    cluster.network.cut = consensus::kNoMember;
    cluster.PassUntil([&] {
      return follower.replica().ReadTree()->last_zxid() == leader.replica().ReadTree()->last_zxid();
    });
    CHECK(follower.replica().ReadTree()->digest() == leader.replica().ReadTree()->digest());
    // The client's watch did not fire. Therefore it has to reconnect and read again.
    reader.HearAll();
    CHECK_FALSE(reader.open());
    CHECK(client.open());
    Client again(&cluster, &follower,
                 {.session = reader.session.session_id, .password = reader.session.password});
    CHECK(again.session.session_id == reader.session.session_id);
    CHECK(zk::DataOf(again.Call(OpCode::kGetData, zk::PathAndWatch("/n", false))) == "99");
    CHECK(again.Call(OpCode::kSetData, zk::SetData("/n", "last")).error == ErrorCode::kOk);
  }
}

TEST_CASE("a member that lost its disk comes back, and counts only when it has caught up") {
  Cluster cluster(3, 5);
  Member& leader = cluster.Leader();
  Member& lost = cluster.Follower();
  Client client(&cluster, &leader, {.timeout_ms = 4000});
  for (int i = 0; i < 50; ++i) {
    REQUIRE(client.Call(OpCode::kCreate, zk::Create("/n" + std::to_string(i), "")).error ==
            ErrorCode::kOk);
  }
  cluster.Wipe(lost);
  cluster.PassUntil([&] {
    return lost.replica().node().raft().member_state() == consensus::MemberState::kNormal;
  });
  CHECK(lost.replica().ReadTree()->digest() == leader.replica().ReadTree()->digest());
  // Without the old leader the two other members continue, one of which lost its disk.
  cluster.Kill(leader);
  cluster.PassUntil([&] { return lost.replica().status().serving(); });
  Client other(&cluster, &lost);
  CHECK(other.Call(OpCode::kCreate, zk::Create("/after", "")).error == ErrorCode::kOk);
}

TEST_CASE("a member that lost its disk counts again although another voter is dead") {
  Cluster cluster(5, 6);
  Member& leader = cluster.Leader();
  Member& lost = cluster.Follower();
  Client client(&cluster, &leader, {.timeout_ms = 4000});
  std::vector<Member*> others;
  for (uint32_t id = 1; id <= 5; ++id) {
    Member& member = cluster.member(id);
    if (&member != &leader && &member != &lost) others.push_back(&member);
  }
  cluster.Kill(*others[0]);
  cluster.Wipe(lost);
  REQUIRE(client.Call(OpCode::kCreate, zk::Create("/n", "")).error == ErrorCode::kOk);
  cluster.PassUntil([&] {
    return lost.replica().node().raft().member_state() == consensus::MemberState::kNormal;
  });
  // The lost member is needed now: three of five members are left.
  cluster.Kill(*others[1]);
  CHECK(client.Call(OpCode::kCreate, zk::Create("/m", "")).error == ErrorCode::kOk);
  // The directory epoch of the lost member survives a restart.
  cluster.Kill(lost);
  cluster.Restart(lost);
  CHECK(client.Call(OpCode::kCreate, zk::Create("/o", "")).error == ErrorCode::kOk);
}

TEST_CASE("clocks do not determine which directory of a member is the later one") {
  Cluster cluster(3, 9);
  Member& leader = cluster.Leader();
  Member& lost = cluster.Follower();
  for (int64_t ms : {1'000'000'000, -2'000'000'000}) {
    cluster.clock.SetWallMs(cluster.clock.WallMs() + ms);
    cluster.Wipe(lost);
    cluster.PassUntil([&] {
      return lost.replica().node().raft().member_state() == consensus::MemberState::kNormal;
    });
    CHECK(lost.replica().ReadTree()->digest() == leader.replica().ReadTree()->digest());
  }
}

TEST_CASE("editing the configuration between two starts does not change the membership") {
  Cluster cluster(5, 3);
  Member* leader = nullptr;
  // This write is committed by members 3, 4 and 5.
  cluster.Leader();
  for (uint32_t id : {1, 2}) cluster.Kill(cluster.member(id));
  leader = &cluster.Leader();
  Client client(&cluster, leader, {.timeout_ms = 4000});
  REQUIRE(client.Call(OpCode::kCreate, zk::Create("/n", "")).error == ErrorCode::kOk);
  for (uint32_t id : {3, 4, 5}) cluster.Kill(cluster.member(id));
  // Members 1 and 2 would be a majority of 1, 2 and 3, and do not have /n.
  for (uint32_t id : {1, 2}) {
    cluster.member(id).SetServers({1, 2, 3});
    const absl::Status refused = cluster.member(id).TryStart();
    CHECK(absl::IsFailedPrecondition(refused));
    using Catch::Matchers::Contains;
    CHECK_THAT(std::string(refused.message()),
               Contains("voters 1, 2, 3, 4, 5") && Contains("voters 1, 2, 3."));
  }
  for (uint32_t id = 1; id <= 5; ++id) {
    cluster.member(id).SetServers({1, 2, 3, 4, 5});
    cluster.Restart(cluster.member(id));
  }
  Client reader(&cluster, &cluster.Leader(), {.timeout_ms = 4000});
  CHECK(reader.Call(OpCode::kGetData, zk::PathAndWatch("/n", false)).error == ErrorCode::kOk);
}

TEST_CASE("members whose configurations differ do not bootstrap a cluster, and log that") {
  Cluster cluster(5, 4, consensus::kVersionNewest, /*start=*/false);
  for (uint32_t id : {1, 2, 3}) cluster.member(id).SetServers({1, 2, 3});
  for (uint32_t id : {4, 5}) cluster.member(id).SetServers({3, 4, 5});
  CapturedLog log;
  for (uint32_t id = 1; id <= 5; ++id) {
    if (id != 2) cluster.member(id).Start();
  }
  cluster.Pass(5000);
  for (uint32_t id : {1, 3, 4, 5}) {
    CHECK(cluster.member(id).replica().node().raft().term() == consensus::Term{0});
  }
  CHECK_FALSE(log.Lines("server 3 was started with other members").empty());
  // The configuration is corrected before any member has voted.
  for (uint32_t id : {4, 5}) cluster.Kill(cluster.member(id));
  cluster.Restart(cluster.member(2));
  Client client(&cluster, &cluster.Leader(), {.timeout_ms = 4000});
  CHECK(client.Call(OpCode::kCreate, zk::Create("/n", "")).error == ErrorCode::kOk);
}

TEST_CASE("trees are compared during writes, restarts, snapshots and lost disks") {
  Cluster cluster(3, 7);
  Member& leader = cluster.Leader();
  Member& follower = cluster.Follower();
  cluster.PassUntil([&] { return AllCompared(&cluster); });
  Client client(&cluster, &leader, {.timeout_ms = 4000});
  const auto write = [&] {
    REQUIRE(client.Call(OpCode::kSetData, zk::SetData("/", "")).error == ErrorCode::kOk);
  };
  for (int i = 0; i < 50; ++i) write();
  cluster.PassUntil([&] { return AllCompared(&cluster); });
  // One member of an idle cluster starts again, first from its checkpoint and log, then with an
  // empty disk.
  cluster.Kill(follower);
  cluster.Pass(3000);
  cluster.Restart(follower);
  CHECK(ComparedAt(follower) == 0);
  cluster.PassUntil([&] { return AllCompared(&cluster); });
  cluster.Wipe(follower);
  cluster.PassUntil([&] {
    return AllCompared(&cluster) &&
           follower.replica().node().raft().member_state() == consensus::MemberState::kNormal;
  });
  cluster.Kill(leader);
  cluster.Leader();
  cluster.PassUntil([&] { return AllCompared(&cluster); });
  for (uint32_t id = 1; id <= 3; ++id) {
    CHECK(cluster.member(id).diverged == std::nullopt);
    if (!cluster.member(id).runs()) continue;
    CHECK(cluster.member(id).replica().metrics().digest_mismatches == 0);
  }
}

TEST_CASE("a member whose tree differs from a majority detects it, as leader and as follower") {
  Cluster cluster(3, 8);
  Member& leader = cluster.Leader();
  Client client(&cluster, &leader, {.timeout_ms = 4000});
  cluster.PassUntil([&] { return AllCompared(&cluster); });
  // The other members report another digest.
  const auto last = [&] { return leader.replica().ReadTree()->last_zxid().value(); };
  const uint64_t other = leader.replica().ReadTree()->digest() ^ 1;
  SECTION("a follower receives the digest of the majority") {
    Member& follower = cluster.Follower();
    PeerBatch batch;
    batch.digests.push_back({DigestNote::Kind::kVerdict, last(), other});
    CHECK(follower.replica().OnPeerBatch(leader.id(), std::move(batch)).ok());
    cluster.Settle();
    CHECK(follower.diverged == Divergence{last(), other ^ 1, other});
    CHECK(leader.diverged == std::nullopt);
    CHECK(follower.replica().metrics().digest_mismatches == 0);  // as of the last tick
    cluster.Pass(100);
    CHECK(follower.replica().metrics().digest_mismatches == 1);
  }
  SECTION("a leader receives the digests of the followers") {
    cluster.network.changes_digests = true;
    REQUIRE(client.Call(OpCode::kSetData, zk::SetData("/", "")).error == ErrorCode::kOk);
    cluster.PassUntil([&] { return leader.diverged.has_value(); });
    CHECK(leader.diverged->zxid == last());
    CHECK(leader.diverged->own_digest == leader.replica().ReadTree()->digest());
    CHECK(leader.diverged->majority_digest == (leader.replica().ReadTree()->digest() ^ 1));
  }
}

// Runs members and clients, with a crash. Returns everything that they sent and received, and the
// digests.
std::string RunOnce(uint64_t seed) {
  Cluster cluster(3, seed);
  cluster.Leader();
  std::deque<Client> clients;
  for (uint32_t id = 1; id <= 3; ++id) {
    for (int i = 0; i < 8; ++i) clients.emplace_back(&cluster, &cluster.member(id));
  }
  int32_t xid = 0;
  for (Client& client : clients) {
    ++xid;
    client.Write(xid, OpCode::kCreate, zk::Create("/node-", "x", 3));
    client.Write(xid + 1000, OpCode::kGetChildren, zk::PathAndWatch("/", true));
  }
  cluster.Pass(300);
  Member& leader = cluster.Leader();
  for (Client& client : clients) client.HearAll();
  cluster.Kill(leader);
  cluster.Pass(2000);  // sessions of the dead member expire, and all watches fire
  cluster.Restart(leader);
  cluster.Pass(1000);
  std::string trace = std::to_string(cluster.network.checksum) + "\n";
  for (uint32_t id = 1; id <= 3; ++id) {
    trace += std::to_string(cluster.member(id).replica().ReadTree()->digest()) + "\n";
  }
  for (Client& client : clients) {
    if (client.member() != &leader) client.HearAll();
    trace +=
        std::to_string(client.heard.size()) + " " + std::to_string(Crc32c(client.heard)) + "\n";
  }
  return trace;
}

TEST_CASE("the same seed gives the same run, to the byte, and another seed another run") {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    INFO("seed " << seed);
    const std::string trace = RunOnce(seed);
    CHECK(trace == RunOnce(seed));
    CHECK(trace != RunOnce(seed + 100));
  }
}

}  // namespace
}  // namespace quorate::rpc
