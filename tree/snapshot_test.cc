// SPDX-License-Identifier: Apache-2.0

#include "tree/snapshot.h"

#include <catch2/catch.hpp>
#include <cstddef>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tree/change_tracker.h"
#include "tree/record.h"
#include "tree/testing/tree_model.h"
#include "tree/testing/tree_test_util.h"

namespace quorate::tree {
namespace {

// The contents of a store.
using Records = std::map<std::string, std::string>;

Records RecordsOf(const Tree& tree) {
  Records records;
  std::string last;
  tree.ForEachRecord([&](std::string_view key, std::optional<std::string_view> value) {
    REQUIRE(key > last);
    REQUIRE(value.has_value());
    last = key;
    records[last] = *value;
  });
  return records;
}

absl::StatusOr<std::unique_ptr<Tree>> Load(const Records& records, Zxid zxid, uint64_t digest) {
  TreeLoader loader;
  for (const auto& [key, value] : records) {
    if (absl::Status added = loader.Add(key, value); !added.ok()) return added;
  }
  return loader.Finish(zxid, digest);
}

std::unique_ptr<Tree> Reload(const Tree& tree) {
  absl::StatusOr<std::unique_ptr<Tree>> loaded =
      Load(RecordsOf(tree), tree.last_zxid(), tree.digest());
  INFO(loaded.status());
  REQUIRE(loaded.ok());
  REQUIRE((*loaded)->digest() == (*loaded)->ComputeDigest());
  REQUIRE(RecordsOf(**loaded) == RecordsOf(tree));
  return *std::move(loaded);
}

// Writes the deltas of a tree to a store, in pieces.
class Camera {
 public:
  void Begin(Tree* tree) {
    tree->BeginDelta();
    wanted_ = RecordsOf(*tree);
    zxid_ = tree->last_zxid();
    digest_ = tree->digest();
    delta_.clear();
  }

  // Hands out a piece of the delta. Returns whether there may be more.
  bool Take(Tree* tree, size_t bytes_max) {
    return tree->NextDeltaRecords(
        bytes_max, [this](std::string_view key, std::optional<std::string_view> value) {
          const auto [at, inserted] = delta_.emplace(key, value);
          REQUIRE(inserted);
        });
  }

  // Ends the delta. If `kept`, the store keeps the records. If not `durable`, the tree is told that
  // the delta failed. Calls `between` before each piece except the first.
  void End(
      Tree* tree, bool durable, bool kept, size_t bytes_max = 1000,
      const std::function<void()>& between = [] {}) {
    while (tree->EndDelta(durable, bytes_max)) between();
    if (!kept) return;
    for (const auto& [key, value] : delta_) {
      if (value.has_value()) {
        store_[key] = *value;
      } else {
        store_.erase(key);
      }
    }
    if (!durable) return;
    REQUIRE(store_ == wanted_);
    const auto loaded = Load(store_, zxid_, digest_);
    INFO(loaded.status());
    REQUIRE(loaded.ok());
  }

  void TakeWhole(Tree* tree) {
    Begin(tree);
    while (Take(tree, 1000)) {
    }
    End(tree, true, true);
  }

  const Records& store() const { return store_; }
  // Returns how many records of a kind the newest delta has.
  size_t Count(RecordKind kind, bool removed) const {
    size_t count = 0;
    for (const auto& [key, value] : delta_) {
      const bool counts = key.front() == static_cast<char>(kind) && value.has_value() != removed;
      count += counts ? 1 : 0;
    }
    return count;
  }

 private:
  Records store_;
  std::map<std::string, std::optional<std::string>> delta_;
  Records wanted_;
  Zxid zxid_;
  uint64_t digest_ = 0;
};

TEST_CASE("a new tree survives a round trip") {
  const Tree tree;
  const std::unique_ptr<Tree> loaded = Reload(tree);
  CHECK(loaded->last_zxid() == Zxid(0));
  CHECK(loaded->node_count() == 4);
}

TEST_CASE("trees survive a round trip and then apply commands as the original does") {
  for (uint64_t seed = 101; seed <= 104; ++seed) {
    CAPTURE(seed);
    Run run(seed);
    for (int step = 0; step < 1500; ++step) {
      CAPTURE(step);
      run.Step();
      if (step % 97 == 0) run.first() = Reload(*run.first());
      if (step % 301 == 0) run.second() = Reload(*run.second());
    }
    run.Compare();
  }
}

TEST_CASE("a delta is of one zxid although the tree continues to change") {
  size_t deltas = 0;
  size_t failures = 0;
  size_t steps_at_end = 0;
  size_t restarts = 0;
  for (uint64_t seed = 201; seed <= 208; ++seed) {
    CAPTURE(seed);
    Run run(seed);
    Camera camera;
    std::mt19937_64 random(seed);
    for (int round = 0; round < 80; ++round) {
      CAPTURE(round);
      for (uint64_t steps = random() % 40; steps > 0; --steps) run.Step();
      camera.Begin(run.first().get());
      bool more = true;
      // Some deltas fail before their end, often several in succession.
      const bool durable = random() % 5 > 1;
      uint64_t pieces = durable ? ~uint64_t{0} : random() % 20;
      while (more && pieces-- > 0) {
        for (uint64_t steps = random() % 3; steps > 0; --steps) run.Step();
        more = camera.Take(run.first().get(), random() % 3000);
      }
      camera.End(run.first().get(), durable, durable || random() % 2 == 0, random() % 200, [&] {
        for (uint64_t steps = random() % 3; steps > 0; --steps, ++steps_at_end) run.Step();
      });
      deltas += durable ? 1 : 0;
      failures += durable ? 0 : 1;
      if (random() % 4 > 0) continue;
      camera.TakeWhole(run.first().get());
      auto loaded = Load(camera.store(), run.first()->last_zxid(), run.first()->digest());
      REQUIRE(loaded.ok());
      run.first() = *std::move(loaded);
      ++restarts;
    }
    run.Compare();
  }
  CHECK(deltas > 200);
  CHECK(failures > 200);
  CHECK(steps_at_end > 1000);
  CHECK(restarts > 100);
}

TEST_CASE("a delta has exactly the records that changed") {
  Server server;
  server.OpenSession();
  for (const char* path : {"/a", "/a/b", "/a/c", "/d"}) server.Do(MakeCreate(path));
  Tree& tree = server.mutable_tree();
  Camera camera;
  camera.TakeWhole(&tree);
  CHECK(camera.Count(RecordKind::kHead, false) == 1);
  CHECK(camera.Count(RecordKind::kSession, false) == 1);
  CHECK(camera.Count(RecordKind::kNode, false) == 8);

  size_t nodes = 0, removed_nodes = 0, sessions = 0, removed_sessions = 0;
  SECTION("nothing") {}
  SECTION("a command without an effect") { server.Do(MakeCreate("/a")); }
  SECTION("data") {
    server.Do(MakeSetData("/a/b", "x"));
    server.Do(MakeSetData("/a/b", "y"));
    nodes = 1;
  }
  SECTION("an ACL") {
    server.Do(MakeSetAcl("/a/b", {MakeAcl(31, "digest", "a:b")}));
    nodes = 1;
  }
  SECTION("a node and its parent") {
    server.Do(MakeCreate("/d/e"));
    nodes = 2;
  }
  SECTION("a deleted node, and its parent") {
    server.Do(MakeSetData("/a/b", "x"));
    server.Do(MakeDelete("/a/b"));
    nodes = 1;
    removed_nodes = 1;
  }
  SECTION("a node that is deleted with its parent") {
    for (const char* path : {"/a/b", "/a/c", "/a"}) server.Do(MakeDelete(path));
    nodes = 1;
    removed_nodes = 3;
  }
  SECTION("a node that is deleted and created again") {
    server.Do(MakeDelete("/a/b"));
    server.Do(MakeCreate("/a/b"));
    nodes = 2;
    removed_nodes = 1;
  }
  SECTION("a node that is created and deleted again leaves only its parent") {
    for (int i = 0; i < 100; ++i) {
      server.Do(MakeCreate("/a/e"));
      server.Do(MakeDelete("/a/e"));
    }
    nodes = 1;
  }
  SECTION("a node that is created, deleted and created again in one multi") {
    server.DoMulti({MakeCreate("/a/e"), MakeDelete("/a/e"), MakeCreate("/a/e")});
    nodes = 2;
  }
  SECTION("a failed multi counts as a change of the parents") {
    server.DoMulti({MakeCreate("/a/e"), MakeDelete("/d"), MakeCheck("/none")});
    nodes = 3;
  }
  SECTION("a session") {
    server.OpenSession(kOtherSession);
    server.AttachSession(kOtherSession);
    sessions = 1;
  }
  SECTION("a closed session, with its ephemerals") {
    server.Do(MakeCreate("/a/e", "", CreateMode::kEphemeral));
    camera.TakeWhole(&tree);
    server.EndSession(CommandKind::kCloseSession, kSession, Zxid(0));
    nodes = 1;
    removed_nodes = 1;
    removed_sessions = 1;
  }
  SECTION("a numbered write, and its repetition") {
    const Request request{false, {MakeSetData("/a/b", "x")}, {}};
    for (uint64_t number : {1, 1, 2}) server.DoSequenced(number, 0, request);
    nodes = 1;
    sessions = 1;
  }
  SECTION("a refused write that acknowledges a response") {
    server.DoSequenced(1, 0, Request{false, {MakeCheck("/a")}, {}});
    camera.TakeWhole(&tree);
    CHECK(camera.Count(RecordKind::kSession, false) == 1);
    server.DoSequenced(5, 1, Request{false, {MakeCheck("/a")}, {}});
    sessions = 1;
  }
  SECTION("a write out of sequence, and a repeated one") {
    server.DoSequenced(1, 0, Request{false, {MakeCheck("/a")}, {}});
    camera.TakeWhole(&tree);
    server.DoSequenced(5, 0, Request{false, {MakeCheck("/a")}, {}});
    server.DoSequenced(1, 0, Request{false, {MakeCheck("/a")}, {}});
  }
  SECTION("a session that is closed and created again") {
    server.EndSession(CommandKind::kCloseSession, kSession, Zxid(0));
    server.OpenSession();
    sessions = 1;
  }
  SECTION("a session that is closed, created and closed again") {
    server.EndSession(CommandKind::kCloseSession, kSession, Zxid(0));
    server.OpenSession();
    server.EndSession(CommandKind::kCloseSession, kSession, Zxid(0));
    removed_sessions = 1;
  }
  SECTION("a session that is created and closed leaves nothing") {
    server.OpenSession(kOtherSession);
    server.EndSession(CommandKind::kCloseSession, kOtherSession, Zxid(0));
  }
  camera.TakeWhole(&tree);
  CHECK(camera.Count(RecordKind::kHead, false) == 1);
  CHECK(camera.Count(RecordKind::kNode, false) == nodes);
  CHECK(camera.Count(RecordKind::kNode, true) == removed_nodes);
  CHECK(camera.Count(RecordKind::kSession, false) == sessions);
  CHECK(camera.Count(RecordKind::kSession, true) == removed_sessions);
}

TEST_CASE("a session that is created and closed while a delta fails leaves nothing in the store") {
  Server server;
  server.OpenSession();
  server.OpenSession(kOtherSession);
  Tree& tree = server.mutable_tree();
  Camera camera;
  camera.TakeWhole(&tree);
  server.EndSession(CommandKind::kCloseSession, kOtherSession, Zxid(0));
  camera.Begin(&tree);
  const bool read = GENERATE(false, true);
  while (read && camera.Take(&tree, 1)) {
  }
  const bool at_end = GENERATE(false, true);
  bool came = false;
  const auto come_and_go = [&] {
    if (std::exchange(came, true)) return;
    server.OpenSession(kOtherSession);
    server.EndSession(CommandKind::kCloseSession, kOtherSession, Zxid(0));
  };
  if (!at_end) come_and_go();
  camera.End(&tree, false, false, 1, come_and_go);
  CHECK(came);
  camera.TakeWhole(&tree);
  CHECK(camera.Count(RecordKind::kSession, true) == 1);
}

TEST_CASE("pieces have the requested size") {
  Server server;
  server.OpenSession();
  const std::string data(1000, 'd');
  for (int i = 0; i < 50; ++i) server.Do(MakeCreate("/" + std::to_string(i), data));
  Tree& tree = server.mutable_tree();
  tree.BeginDelta();
  size_t pieces = 0;
  bool more = true;
  while (more) {
    size_t bytes = 0;
    more = tree.NextDeltaRecords(5000,
                                 [&](std::string_view key, std::optional<std::string_view> value) {
                                   bytes += key.size() + value->size();
                                 });
    ++pieces;
    CHECK(bytes < 6500);
    CHECK((bytes >= 5000 || !more));
  }
  CHECK(pieces >= 10);
  CHECK_FALSE(tree.EndDelta(true, 1 << 20));
}

// Fills a tree with every kind of session and node.
void Fill(Server* server) {
  server->OpenSession();
  server->OpenSession(kOtherSession);
  constexpr SessionId kNegative(std::numeric_limits<int64_t>::min() + 5);
  server->OpenSession(kNegative);
  server->Do(MakeCreate("/a", "data"));
  server->Do(MakeCreate("/a/b", "", CreateMode::kPersistent, {MakeAcl(31, "digest", "u:p")}));
  Op null_data = MakeCreate("/a/null");
  null_data.has_data = false;
  server->Do(null_data);
  for (SessionId owner : {kSession, kOtherSession, kNegative}) {
    server->Do(MakeCreate("/a/e", "e", CreateMode::kEphemeralSequential), owner);
    server->Do(MakeCreate("/a/e", "f", CreateMode::kEphemeralSequential), owner);
  }
  std::vector<Op> ops;
  const std::vector<std::string> paths = {"/m", "/m/1", "/m/1/2", "/m/1/2/3"};
  ops.reserve(paths.size() + 1);
  for (const std::string& path : paths) ops.push_back(MakeCreate(path));
  ops.push_back(MakeCreateContainer("/c"));
  ops.push_back(MakeCreateTtl("/t", 77));
  server->DoMulti(ops);
  for (uint64_t number = 1; number <= 3; ++number) {
    const Request request{false, {MakeSetData("/a", "data")}, {}};
    server->DoSequenced(number, number / 2, request, kOtherSession);
    server->DoSequenced(number, number - 1, request, kNegative);
  }
}

TEST_CASE("damaged and forged records give errors") {
  Server server;
  Fill(&server);
  const Tree& tree = server.tree();
  const Records whole = RecordsOf(tree);
  REQUIRE(Load(whole, tree.last_zxid(), tree.digest()).ok());
  std::mt19937_64 random(7);
  const auto pick = [&random](size_t below) { return static_cast<size_t>(random() % below); };
  const auto spoil = [&](std::string bytes) {
    static constexpr char kLikely[] = {0, 1, 2, 3, 4, '/', '.', '\x7f', '\x80', '\xff'};
    for (size_t count = 1 + pick(3); count > 0; --count) {
      const size_t what = bytes.empty() ? 5 : pick(6);
      if (what < 2) bytes[pick(bytes.size())] ^= static_cast<char>(1 << pick(8));
      if (what == 2) bytes[pick(bytes.size())] = kLikely[pick(sizeof(kLikely))];
      if (what == 3) bytes.resize(pick(bytes.size()));
      if (what == 4) bytes.erase(pick(bytes.size()), 1 + pick(4));
      if (what == 5) bytes.insert(pick(bytes.size() + 1), 1 + pick(4), kLikely[pick(3)]);
    }
    return bytes;
  };
  size_t refused = 0;
  size_t refused_at_end = 0;
  for (int i = 0; i < 20000; ++i) {
    CAPTURE(i);
    Records records = whole;
    auto victim = records.begin();
    std::advance(victim, static_cast<ptrdiff_t>(pick(records.size())));
    const size_t what = pick(8);
    if (what == 0) records.erase(victim);
    if (what == 1 || what == 2) {
      records[spoil(victim->first)] = victim->second;
      if (what == 1) records.erase(victim);
    }
    if (what > 2) victim->second = spoil(victim->second);
    if (what == 7) victim->second = whole.rbegin()->second;
    if (records == whole) continue;
    TreeLoader loader;
    absl::Status status;
    for (const auto& [key, value] : records) {
      if (status = loader.Add(key, value); !status.ok()) break;
    }
    if (status.ok()) {
      ++refused_at_end;
      status = loader.Finish(tree.last_zxid(), tree.digest()).status();
    }
    CHECK(status.code() == absl::StatusCode::kDataLoss);
    ++refused;
  }
  CHECK(refused > 15000);
  CHECK(refused_at_end > 1000);
}

TEST_CASE("records that are valid each but inconsistent together are refused") {
  Server server;
  Fill(&server);
  const Tree& tree = server.tree();
  Records records = RecordsOf(tree);
  Zxid zxid = tree.last_zxid();
  uint64_t digest = tree.digest();
  std::string head_key;
  EncodeHeadKey(&head_key);
  std::string message;
  SECTION("another zxid") {
    zxid = zxid + 1;
    message = "another zxid";
  }
  SECTION("another digest") {
    ++digest;
    message = "digest differs";
  }
  SECTION("no head") {
    records.erase(head_key);
    message = "without a head";
  }
  SECTION("no records at all") {
    records.clear();
    message = "no head";
  }
  SECTION("a session is missing") {
    records.erase(std::next(records.begin()));
    message = "of no session";
  }
  SECTION("the last node is missing") {
    records.erase(std::prev(records.end()));
    message = "nodes are missing";
  }
  SECTION("a parent is missing") {
    std::string key;
    EncodeNodeKey({server.StatOf("/a").czxid, 0}, &key);
    REQUIRE(records.erase(key) == 1);
    message = "no parent";
  }
  SECTION("a node twice") {
    std::string key;
    EncodeNodeKey({server.StatOf("/a").czxid, 1}, &key);
    records[key] = records[key.substr(0, key.size() - 1) + '\0'];
    // The parent's number of children includes this node, so that only the name is wrong.
    message = "namesake";
  }
  SECTION("a response is newer than the head") {
    HeadRecord head = *DecodeHead(head_key, records[head_key]);
    head.zxid = Zxid(head.zxid.value() - 1);
    EncodeHead(head, &records[head_key]);
    message = "newer than the head";
  }
  SECTION("a response was replaced by another") {
    std::string key;
    EncodeSessionKey(kOtherSession, &key);
    records[key].back() ^= 2;
    message = "digest differs";
  }
  SECTION("a response is missing") {
    std::string key;
    EncodeSessionKey(kOtherSession, &key);
    const SessionRecord session = *DecodeSession(key, records[key]);
    records[key].resize(records[key].size() - session.answers.size() / 2);
    message = "invalid response cache";
  }
  SECTION("the head counts other sessions") {
    HeadRecord head = *DecodeHead(head_key, records[head_key]);
    ++head.sessions;
    EncodeHead(head, &records[head_key]);
    message = "sessions are missing";
  }
  const auto loaded = Load(records, zxid, digest);
  REQUIRE(loaded.status().code() == absl::StatusCode::kDataLoss);
  CHECK_THAT(std::string(loaded.status().message()), Catch::Contains(message));
}

TEST_CASE("responses survive a round trip") {
  Server server;
  server.OpenSession();
  std::vector<ApplyResult> answers;
  const auto ask = [&server](uint64_t number, uint64_t acknowledged) {
    return server.DoSequenced(
        number, acknowledged,
        Request{true, {MakeCreate("/s", "", CreateMode::kPersistentSequential)}, {}});
  };
  for (uint64_t number = 1; number <= 5; ++number) answers.push_back(ask(number, number / 2));
  std::string command;
  for (uint64_t number = 1; number <= 5; ++number) {
    CAPTURE(number);
    const std::unique_ptr<Tree> loaded = Reload(server.tree());
    command.clear();
    AppendSequencedRequest(server.Next(kSession, server.AttachZxid()), number, 0,
                           Request{false, {MakeCheck("/")}, {}}, &command);
    --server.sequence;
    RecordingListener listener;
    loaded->Apply(loaded->last_zxid() + 1, command, server.self, &listener);
    REQUIRE(listener.result.has_value());
    CHECK(listener.result->repeated == (number > 2));
    const ErrorCode expected = number > 2 ? ErrorCode::kOk : ErrorCode::kAlreadyAcknowledged;
    CHECK(listener.result->error == expected);
    if (number <= 2) continue;
    CHECK(listener.result->zxid == answers[number - 1].zxid);
    CHECK((listener.result->ops == answers[number - 1].ops));
  }
}

TEST_CASE("a session without numbered writes has a record in the original format") {
  Server server;
  server.OpenSession(kSession, kPassword, 4000);
  std::string key, value;
  EncodeSessionKey(kSession, &key);
  const Records records = RecordsOf(server.tree());
  const std::string old =
      std::string("\xa0\x0f\0\0\1\0\0\0\0\0\0\0\1\0", 14) + std::string(kPassword);
  REQUIRE(records.at(key) == old);
  server.DoSequenced(1, 0, Request{false, {MakeCheck("/")}, {}});
  const std::string changed = RecordsOf(server.tree()).at(key);
  REQUIRE(changed != old);
  const auto decoded = DecodeSession(key, changed);
  REQUIRE(decoded.ok());
  CHECK(decoded->timeout_ms == 4000);
  CHECK(decoded->password == kPassword);
  CHECK(decoded->last_sequence == 1);
  CHECK(decoded->acknowledged == 0);
  CHECK(decoded->answered_zxid == server.tree().last_zxid());
  // This is an unknown, newer format.
  std::string newer = changed;
  newer[0] = '\xfd';
  CHECK_THAT(std::string(DecodeSession(key, newer).status().message()),
             Catch::Contains("unknown format"));
}

TEST_CASE("keys must ascend") {
  const Tree tree;
  const Records records = RecordsOf(tree);
  TreeLoader loader;
  const auto& [key, value] = *records.begin();
  REQUIRE(loader.Add(key, value).ok());
  CHECK(loader.Add(key, value).code() == absl::StatusCode::kDataLoss);
}

TEST_CASE("a BlockList grows and shrinks") {
  BlockList<int> list;
  for (int i = 0; i < 20000; ++i) list.Append(i);
  for (int i = 0; i < 19999; ++i) list.DropLast();
  CHECK(list.size() == 1);
  CHECK(list[0] == 0);
  for (int i = 1; i < 9000; ++i) list.Append(i);
  CHECK(list[8999] == 8999);
}

TEST_CASE(
    "a read that was refused before an upgrade, and one made after it, survive a round trip") {
  Server server;
  server.OpenSession();
  server.Do(MakeCreate("/a", "1"));
  Op refused;
  refused.kind = OpKind::kRefused;
  refused.refusal = ErrorCode::kUnimplemented;
  server.DoSequenced(1, 0, Request{false, {refused}, {}});
  Op get;
  get.kind = OpKind::kGet;
  get.path = "/a";
  Request request{true, {get}, {}};
  request.has_branches = true;
  request.compares = {{CompareTarget::kVersion, CompareRelation::kEqual, "/a", 7, {}}};
  const ApplyResult first = server.DoSequenced(2, 0, request);
  REQUIRE(first.branch == Branch::kOtherwise);
  REQUIRE(first.ops[0].data == "1");
  server.Do(MakeSetData("/a", "2"));
  const std::unique_ptr<Tree> loaded = Reload(server.tree());
  // The client sends both again, with what they are now.
  for (uint64_t number = 1; number <= 2; ++number) {
    std::string command;
    AppendSequencedRequest(server.Next(kSession, server.AttachZxid()), number, 0, request,
                           &command);
    RecordingListener listener;
    loaded->Apply(loaded->last_zxid() + 1, command, server.self, &listener);
    REQUIRE(listener.result.has_value());
    CHECK(listener.result->repeated);
    CHECK(listener.result->branch == (number == 1 ? Branch::kNone : Branch::kOtherwise));
    REQUIRE(listener.result->ops.size() == 1);
    if (number == 1) CHECK(listener.result->ops[0].error == ErrorCode::kUnimplemented);
    if (number == 2) CHECK(listener.result->ops == first.ops);
  }
}

}  // namespace
}  // namespace quorate::tree
