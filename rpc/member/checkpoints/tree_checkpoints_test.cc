// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/checkpoints/tree_checkpoints.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/testing/manual_clock.h"
#include "consensus/log/testing/fault_env.h"
#include "rpc/member/testing/captured_log.h"
#include "rpc/member/testing/file_record_store.h"
#include "tree/command.h"

namespace quorate::rpc {
namespace {

using consensus::Entry;
using consensus::EntryKind;
using consensus::FaultEnv;
using consensus::Index;
using consensus::SnapshotChunkData;
using consensus::SnapshotMeta;
using consensus::Term;

constexpr tree::Proposer kProposer{2, 7};
constexpr tree::SessionId kSession{0x0200000000000001};

// A front end's recent events, in parts.
class Parts : public RecentEvents {
 public:
  explicit Parts(std::map<uint64_t, std::string> parts) : parts_(std::move(parts)) {}
  std::vector<Part> parts() const override {
    std::vector<Part> parts;
    for (const auto& [number, bytes] : parts_) parts.push_back({number, bytes.size()});
    return parts;
  }
  std::string Encode(size_t i) const override {
    return std::next(parts_.begin(), static_cast<ptrdiff_t>(i))->second;
  }

 private:
  const std::map<uint64_t, std::string> parts_;
};

class RecordingFrontend : public Frontend {
 public:
  bool AllowsInlineApply() const override { return true; }
  void OnNodeEvent(tree::EventType, std::string_view, tree::Zxid, const tree::EventAcls&) override {
  }
  void OnSessionAttached(const tree::SessionInfo&) override {}
  void OnSessionClosed(tree::SessionId, tree::Zxid) override {}
  void OnResult(tree::ApplyResult) override {}
  void OnTreeReplaced(const tree::Tree&) override {
    ++replaced;
    restored.clear();
  }
  std::shared_ptr<const RecentEvents> TakeRecentEvents() const override {
    return std::make_shared<Parts>(events);
  }
  void OnRecentEvents(std::span<const std::string> parts, tree::Zxid) override {
    restored.assign(parts.begin(), parts.end());
  }
  void OnBatchApplied() override {}
  void OnSyncDone(uint32_t, uint64_t, tree::Zxid) override {}

  int replaced = 0;
  std::map<uint64_t, std::string> events;  // the events of this front end, by part
  std::vector<std::string> restored;       // the parts that this front end got back
};

// A member's tree, with the checkpoints on its disk.
struct Member {
  explicit Member(tree::Proposer self = kProposer) : replicated(self) {
    replicated.SetFrontend(&frontend);
    auto opened = FileRecordStore::Open(&env, "checkpoints");
    REQUIRE(opened.ok());
    store = *std::move(opened);
    checkpoints =
        std::make_unique<TreeCheckpoints>(store.get(), &replicated, &clock, /*ballast=*/nullptr);
  }

  void Apply(std::string command) {
    ++index;
    const Entry entry{index, Term(3), EntryKind::kCommand, Slice(std::move(command))};
    replicated.Apply({&entry, 1});
  }
  void OpenSession() {
    tree::CommandHeader header = Header(tree::CommandKind::kCreateSession);
    std::string command;
    tree::AppendCreateSession(header, 30000, std::string(tree::kPasswordBytes, 'p'), &command);
    Apply(std::move(command));
    attached = tree::Zxid(static_cast<int64_t>(index.value()));
  }
  void Create(const std::string& path, std::string_view data,
              tree::CreateMode mode = tree::CreateMode::kPersistent) {
    tree::Op op;
    op.kind = tree::OpKind::kCreate;
    op.path = path;
    op.has_data = true;
    op.data = data;
    op.acl = tree::OpenAcl();
    op.mode = mode;
    Change(std::move(op));
  }
  void Delete(const std::string& path) {
    tree::Op op;
    op.kind = tree::OpKind::kDelete;
    op.path = path;
    Change(std::move(op));
  }
  void Change(tree::Op op) {
    tree::Request request;
    request.ops.push_back(std::move(op));
    std::string command;
    tree::AppendRequest(Header(tree::CommandKind::kRequest), request, &command);
    Apply(std::move(command));
  }
  tree::CommandHeader Header(tree::CommandKind kind) {
    tree::CommandHeader header;
    header.kind = kind;
    header.proposer = kProposer;
    header.sequence = ++sequence;
    header.time_ms = 1000 + static_cast<int64_t>(sequence);
    header.session = kSession;
    header.attach_zxid = attached;
    return header;
  }
  SnapshotMeta Meta() const {
    SnapshotMeta meta{index, Term(3), {}, 2, std::string(16, 'c')};
    meta.membership.voters = {consensus::MemberId(1), consensus::MemberId(2)};
    return meta;
  }
  void Checkpoint() {
    checkpoints->Begin(Meta());
    REQUIRE(checkpoints->Finish().ok());
  }

  FaultEnv env;
  ManualClock clock;
  ReplicatedTree replicated;
  RecordingFrontend frontend;
  std::unique_ptr<FileRecordStore> store;
  std::unique_ptr<TreeCheckpoints> checkpoints;
  Index index;
  uint64_t sequence = 0;
  tree::Zxid attached;
};

void Fill(Member* member) {
  member->OpenSession();
  for (int i = 0; i < 50; ++i) {
    const std::string path = "/node" + std::to_string(i);
    member->Create(path, std::string(100, 'x'));
    if (i % 3 == 0) member->Create(path + "/e", "", tree::CreateMode::kEphemeral);
    if (i % 5 == 4) member->Delete("/node" + std::to_string(i - 1));
  }
}

// Returns all chunks of the newest checkpoint.
std::vector<SnapshotChunkData> ReadAll(Member* member, size_t bytes_max) {
  std::vector<SnapshotChunkData> chunks;
  Index index;
  uint64_t offset = 0;
  while (true) {
    auto chunk = member->checkpoints->Read(index, offset, bytes_max);
    REQUIRE(chunk.ok());
    CHECK(chunk->offset == offset);
    index = chunk->meta.index;
    offset += chunk->bytes.size();
    chunks.push_back(*chunk);
    if (chunk->last) return chunks;
  }
}

absl::Status StageAll(Member* member, const std::vector<SnapshotChunkData>& chunks) {
  for (const SnapshotChunkData& chunk : chunks) {
    auto next =
        member->checkpoints->Stage(chunk.meta, chunk.offset, chunk.bytes.view(), chunk.last);
    if (!next.ok()) return next.status();
    CHECK(*next == chunk.offset + chunk.bytes.size());
  }
  return absl::OkStatus();
}

TEST_CASE("a checkpoint is of the entry at which it was begun, whatever is applied meanwhile") {
  Member member;
  Fill(&member);
  const uint64_t digest = member.replicated.ReadTree()->digest();
  const SnapshotMeta meta = member.Meta();
  member.checkpoints->Begin(meta);
  member.Create("/later", "y");
  member.Delete("/node1");
  REQUIRE(member.checkpoints->Finish().ok());
  CHECK(member.checkpoints->newest() == meta);

  // The member restarts, with another incarnation.
  ReplicatedTree again(tree::Proposer{2, 8});
  auto store = FileRecordStore::Open(&member.env, "checkpoints");
  REQUIRE(store.ok());
  TreeCheckpoints checkpoints(store->get(), &again, Clock::System());
  REQUIRE(checkpoints.Load().ok());
  CHECK(again.ReadTree()->digest() == digest);
  CHECK(again.ReadTree()->last_zxid() == tree::Zxid(static_cast<int64_t>(meta.index.value())));
  CHECK(checkpoints.newest() == meta);
  const ReplicatedTree::News news = again.TakeNews();
  CHECK(news.replaced);
  REQUIRE(news.sessions.size() == 1);
  CHECK(news.sessions[0].session.id == kSession);
  CHECK(news.own_sequence == 0);
  CHECK(news.no_op_term == Term(3));
}

// Returns the events that a front end gets back at a start from the checkpoint.
std::vector<std::string> EventsAtStart(Member* member) {
  ReplicatedTree again(kProposer);
  RecordingFrontend frontend;
  again.SetFrontend(&frontend);
  auto store = FileRecordStore::Open(&member->env, "checkpoints");
  REQUIRE(store.ok());
  TreeCheckpoints checkpoints(store->get(), &again, Clock::System());
  REQUIRE(checkpoints.Load().ok());
  CHECK(frontend.replaced == 1);
  return frontend.restored;
}

TEST_CASE("a front end gets the recent events back that it had when the checkpoint was taken") {
  Member member;
  Fill(&member);
  member.frontend.events = {{1, "one"}, {300, "more"}};
  member.checkpoints->Begin(member.Meta());
  member.frontend.events = {{1, "one"}, {300, "more and more"}, {400, "later"}};
  member.Create("/later", "y");
  REQUIRE(member.checkpoints->Finish().ok());
  CHECK(EventsAtStart(&member) == std::vector<std::string>{"one", "more"});
  member.Checkpoint();
  CHECK(EventsAtStart(&member) == std::vector<std::string>{"one", "more and more", "later"});
  member.frontend.events.erase(1);
  member.Create("/last", "z");
  member.Checkpoint();
  CHECK(EventsAtStart(&member) == std::vector<std::string>{"more and more", "later"});
}

TEST_CASE("of recent events a checkpoint writes what the one before has not") {
  Member member;
  Fill(&member);
  member.frontend.events = {{1, "one"}, {2, "two"}};
  member.Checkpoint();
  // A part whose number and size are unchanged counts as stored, so "ONE" is not written.
  member.frontend.events = {{1, "ONE"}, {2, "TWO!"}, {3, "three"}};
  member.Checkpoint();
  CHECK(EventsAtStart(&member) == std::vector<std::string>{"one", "TWO!", "three"});
  // The part numbers of another process have no relation to these, so that all parts are written.
  ReplicatedTree again(kProposer);
  again.SetFrontend(&member.frontend);
  TreeCheckpoints checkpoints(member.store.get(), &again, Clock::System());
  REQUIRE(checkpoints.Load().ok());
  member.frontend.events = {{1, "eno"}, {7, "seven"}};
  checkpoints.Begin(member.Meta());
  REQUIRE(checkpoints.Finish().ok());
  CHECK(EventsAtStart(&member) == std::vector<std::string>{"eno", "seven"});
}

TEST_CASE("where space is short a checkpoint has no events") {
  Member member;
  Fill(&member);
  member.frontend.events = {{1, "some"}};
  const auto has_events = [&member] {
    member.Create("/more" + std::to_string(member.index.value()), "");
    member.Checkpoint();
    return !EventsAtStart(&member).empty();
  };
  CHECK(has_events());
  member.checkpoints->SetIsShortOfSpace(true);
  CHECK_FALSE(has_events());
  member.checkpoints->SetIsShortOfSpace(false);
  CHECK(has_events());
}

// A clock that advances at each call.
class SlowClock : public Clock {
 public:
  std::chrono::steady_clock::time_point Now() const override {
    return std::chrono::steady_clock::time_point(std::chrono::milliseconds(700 * ++looks_));
  }
  int64_t WallMs() const override { return 0; }

 private:
  mutable int64_t looks_ = 0;
};

TEST_CASE("a start says what it has loaded, and how long that took") {
  Member member;
  Fill(&member);
  member.Checkpoint();
  const SlowClock clock;
  ReplicatedTree again(kProposer);
  TreeCheckpoints checkpoints(member.store.get(), &again, &clock);
  const CapturedLog log;
  REQUIRE(checkpoints.Load().ok());
  const std::string line =
      fmt::format("checkpoint of zxid 0x{:x}: {} znodes and 1 sessions, loaded in 700 ms",
                  member.index.value(), again.ReadTree()->node_count());
  CHECK(log.Lines("") == std::vector<std::string>{line});
}

TEST_CASE("checkpoints that build on one another hold what was changed and removed") {
  Member member;
  Fill(&member);
  for (int round = 0; round < 5; ++round) {
    member.Create("/round" + std::to_string(round), "z");
    member.Delete("/node" + std::to_string(10 + 5 * round));
    member.Checkpoint();
    ReplicatedTree again(kProposer);
    TreeCheckpoints checkpoints(member.store.get(), &again, Clock::System());
    REQUIRE(checkpoints.Load().ok());
    CHECK(again.ReadTree()->digest() == member.replicated.ReadTree()->digest());
    CHECK(again.TakeNews().own_sequence == member.sequence);
  }
}

TEST_CASE("a snapshot goes to another member in chunks and replaces its tree") {
  for (size_t bytes_max : {1, 100, 5000, 1 << 20}) {
    Member sender;
    Fill(&sender);
    sender.Checkpoint();
    const uint64_t digest = sender.replicated.ReadTree()->digest();
    Member receiver;
    const std::vector<SnapshotChunkData> chunks = ReadAll(&sender, bytes_max);
    REQUIRE(StageAll(&receiver, chunks).ok());
    CHECK(receiver.checkpoints->newest() == std::nullopt);
    CHECK(receiver.frontend.replaced == 0);
    REQUIRE(receiver.checkpoints->Install(sender.Meta()).ok());
    CHECK(receiver.frontend.replaced == 1);
    CHECK(receiver.frontend.restored.empty());  // a snapshot has no events
    CHECK(receiver.replicated.ReadTree()->digest() == digest);
    CHECK(receiver.checkpoints->newest() == sender.Meta());
    // The receiver's next checkpoint is written on top of the installed one.
    receiver.index = sender.index;
    receiver.sequence = sender.sequence;
    receiver.attached = sender.attached;
    receiver.Create("/after", "a");
    receiver.Checkpoint();
    ReplicatedTree again(kProposer);
    TreeCheckpoints checkpoints(receiver.store.get(), &again, Clock::System());
    REQUIRE(checkpoints.Load().ok());
    CHECK(again.ReadTree()->digest() == receiver.replicated.ReadTree()->digest());
  }
}

TEST_CASE("the last chunk can be read again, and a checkpoint that is gone is not found") {
  Member member;
  Fill(&member);
  member.Checkpoint();
  auto first = member.checkpoints->Read(Index{0}, 0, 300);
  REQUIRE(first.ok());
  const Index index = first->meta.index;
  const uint64_t next = first->bytes.size();
  CHECK(member.checkpoints->Read(index, 0, 300)->bytes == first->bytes);
  auto second = member.checkpoints->Read(index, next, 300);
  REQUIRE(second.ok());
  CHECK(member.checkpoints->Read(index, next, 300)->bytes == second->bytes);
  // A checkpoint that is being read does not change when it is no longer the newest.
  member.Create("/more", "m");
  member.Checkpoint();
  auto third = member.checkpoints->Read(index, next + second->bytes.size(), 300);
  REQUIRE(third.ok());
  CHECK(third->meta.index == index);
  CHECK(absl::IsNotFound(member.checkpoints->Read(Index{1}, 0, 300).status()));
  // Readers of different checkpoints, or at different offsets, do not disturb each other.
  member.clock.Advance(1000);
  CHECK(member.checkpoints->Read(Index{0}, 0, 300)->meta.index == member.index);
  CHECK(member.checkpoints->Read(index, next + second->bytes.size(), 300)->bytes == third->bytes);
  auto other = member.checkpoints->Read(member.index, 0, 500);
  REQUIRE(other.ok());
  auto ahead = member.checkpoints->Read(member.index, other->bytes.size(), 500);
  REQUIRE(ahead.ok());
  CHECK(member.checkpoints->Read(member.index, 0, 300)->offset == 0);
  CHECK(member.checkpoints->Read(member.index, other->bytes.size(), 500)->bytes == ahead->bytes);
  // Not every offset is the beginning of a record.
  CHECK(absl::IsNotFound(member.checkpoints->Read(index, 12345678, 300).status()));
}

// A member that is being sent a checkpoint, chunk by chunk.
struct Receiver {
  // Reads the next chunk.
  void Read(Member* sender) {
    if (done) return;
    auto chunk = sender->checkpoints->Read(index, offset, 300);
    if (absl::IsUnavailable(chunk.status())) return;
    REQUIRE(chunk.ok());
    REQUIRE(chunk->offset == offset);
    if (index == Index{0}) index = chunk->meta.index;
    REQUIRE(chunk->meta.index == index);
    bytes.append(chunk->bytes.view());
    offset += chunk->bytes.size();
    done = chunk->last;
  }
  Index index;
  uint64_t offset = 0;
  std::string bytes;
  bool done = false;
};

TEST_CASE("any number of receivers that begin one after another get on, without a second look") {
  for (const size_t count : {5, 9}) {
    Member sender;
    Fill(&sender);
    std::vector<Receiver> receivers;
    // Each receiver begins when there is a newer checkpoint, while the others are not done.
    while (receivers.size() < count) {
      sender.Create("/for" + std::to_string(receivers.size()), "x");
      sender.Checkpoint();
      sender.clock.Advance(2000);
      receivers.emplace_back();
      for (Receiver& receiver : receivers) receiver.Read(&sender);
    }
    std::set<Index> checkpoints;
    for (const Receiver& receiver : receivers) checkpoints.insert(receiver.index);
    CHECK(checkpoints.size() == kSentCheckpointsMax);
    CHECK(sender.checkpoints->sent().open_count() == kSentCheckpointsMax);
    for (int round = 0; round < 1000; ++round) {
      sender.clock.Advance(10);
      for (Receiver& receiver : receivers) receiver.Read(&sender);
    }
    std::map<Index, std::string> bytes;
    for (const Receiver& receiver : receivers) {
      REQUIRE(receiver.done);
      const auto [there, is_new] = bytes.emplace(receiver.index, receiver.bytes);
      CHECK(there->second == receiver.bytes);
    }
    CHECK(sender.checkpoints->sent().searched_bytes() == 0);
  }
}

TEST_CASE("receivers of about the same time are sent the same checkpoint, and share what is read") {
  Member sender;
  Fill(&sender);
  sender.Checkpoint();
  std::vector<Receiver> receivers(6);
  receivers[0].Read(&sender);
  sender.clock.Advance(500);
  sender.Create("/later", "x");
  sender.Checkpoint();
  // Brings all receivers to the same offset once.
  for (size_t i = 1; i < receivers.size(); ++i) receivers[i].Read(&sender);
  for (int round = 0; round < 100; ++round) {
    for (Receiver& receiver : receivers) receiver.Read(&sender);
  }
  for (const Receiver& receiver : receivers) {
    CHECK(receiver.index == receivers[0].index);
    CHECK(receiver.bytes == receivers[0].bytes);
    CHECK(receiver.done);
  }
  CHECK(sender.checkpoints->sent().open_count() == 1);
  CHECK(sender.checkpoints->sent().reader_count() == 1);
}

TEST_CASE("a checkpoint that nobody reads any more gives way, and is closed in the end") {
  Member sender;
  Fill(&sender);
  std::vector<Receiver> receivers(5);
  for (size_t i = 0; i < 4; ++i) {
    sender.Create("/for" + std::to_string(i), "x");
    sender.Checkpoint();
    sender.clock.Advance(2000);
    receivers[i].Read(&sender);
    receivers[i].Read(&sender);
  }
  sender.Create("/last", "x");
  sender.Checkpoint();
  for (int i = 0; i < 4; ++i) {
    sender.clock.Advance(3000);
    for (size_t other = 1; other < 4; ++other) receivers[other].Read(&sender);
  }
  receivers[4].Read(&sender);
  CHECK(receivers[4].index == sender.index);
  CHECK(absl::IsNotFound(
      sender.checkpoints->Read(receivers[0].index, receivers[0].offset, 300).status()));
  sender.clock.Advance(61'000);
  sender.Create("/again", "x");
  sender.Checkpoint();
  CHECK(sender.checkpoints->sent().open_count() == 0);
}

TEST_CASE("another member that has the same checkpoint goes on with it anywhere") {
  Member first;
  Fill(&first);
  Member second;
  Fill(&second);
  first.Checkpoint();
  second.Checkpoint();
  const std::vector<SnapshotChunkData> chunks = ReadAll(&first, 300);
  REQUIRE(chunks.size() > 4);
  for (size_t i = 1; i < chunks.size(); ++i) {
    Member another;
    Fill(&another);
    another.Checkpoint();
    auto chunk = another.checkpoints->Read(another.index, chunks[i].offset, 300);
    REQUIRE(chunk.ok());
    CHECK(chunk->bytes == chunks[i].bytes);
    // A read at an offset within a record, or behind the end of the checkpoint, is refused.
    const auto at = [&](uint64_t offset) {
      return another.checkpoints->Read(another.index, offset, 300).status();
    };
    CHECK(absl::IsNotFound(at(chunks[i].offset + 1)));
    CHECK(absl::IsNotFound(at(chunks.back().offset + chunks.back().bytes.size())));
  }
  // If an offset was read before, it is not searched for again.
  auto chunk = second.checkpoints->Read(second.index, chunks[2].offset, 300);
  REQUIRE(chunk.ok());
  const uint64_t searched = second.checkpoints->sent().searched_bytes();
  CHECK(searched > 0);
  for (size_t i = 3; i < chunks.size(); ++i) {
    REQUIRE(second.checkpoints->Read(second.index, chunks[i].offset, 300).ok());
  }
  CHECK(second.checkpoints->sent().searched_bytes() == searched);
}

TEST_CASE("a place far inside of a checkpoint is looked for in several calls") {
  Member sender;
  sender.OpenSession();
  const std::string data(500'000, 'x');
  for (int i = 0; i < 100; ++i) sender.Create("/node" + std::to_string(i), data);
  sender.Checkpoint();
  Member same;
  same.OpenSession();
  for (int i = 0; i < 100; ++i) same.Create("/node" + std::to_string(i), data);
  same.Checkpoint();
  const std::vector<SnapshotChunkData> chunks = ReadAll(&same, 2u << 20);
  int calls = 1;
  auto chunk = sender.checkpoints->Read(sender.index, chunks.back().offset, 2u << 20);
  for (; absl::IsUnavailable(chunk.status()); ++calls) {
    chunk = sender.checkpoints->Read(sender.index, chunks.back().offset, 2u << 20);
  }
  REQUIRE(chunk.ok());
  CHECK(chunk->bytes == chunks.back().bytes);
  CHECK(calls == 3);
  // Near any offset that a reader has passed there is a remembered place.
  const uint64_t searched = sender.checkpoints->sent().searched_bytes();
  REQUIRE(sender.checkpoints->Read(sender.index, chunks[5].offset, 2u << 20).ok());
  CHECK(sender.checkpoints->sent().searched_bytes() < searched + (2u << 20));
}

TEST_CASE("a snapshot that is given up leaves nothing behind, in memory or on the disk") {
  Member sender;
  Fill(&sender);
  sender.Checkpoint();
  const std::vector<SnapshotChunkData> chunks = ReadAll(&sender, 500);
  REQUIRE(chunks.size() > 4);
  Member receiver;
  receiver.OpenSession();
  receiver.Checkpoint();
  const uint64_t used = receiver.env.used_bytes();
  for (const size_t staged : {size_t{1}, size_t{3}, chunks.size()}) {
    REQUIRE(StageAll(&receiver, {chunks.begin(), chunks.begin() + static_cast<ptrdiff_t>(staged)})
                .ok());
    CHECK((receiver.env.used_bytes() > used) == (staged == chunks.size()));
    const CapturedLog log;
    REQUIRE(receiver.checkpoints->DiscardStaged().ok());
    CHECK(log.Lines("snapshot is given up").size() == 1);
    CHECK(receiver.env.used_bytes() == used);
    // The next chunk is refused, because the chunks before it are not staged any more.
    const SnapshotChunkData& next = chunks[std::min(staged, chunks.size() - 1)];
    auto status = receiver.checkpoints->Stage(next.meta, next.offset, next.bytes.view(), next.last);
    CHECK(absl::IsInvalidArgument(status.status()));
  }
  REQUIRE(StageAll(&receiver, chunks).ok());
  REQUIRE(receiver.checkpoints->Install(sender.Meta()).ok());
}

TEST_CASE("a snapshot that is damaged or incomplete replaces nothing") {
  Member sender;
  Fill(&sender);
  sender.Checkpoint();
  const std::vector<SnapshotChunkData> chunks = ReadAll(&sender, 500);
  REQUIRE(chunks.size() > 4);
  for (size_t damaged = 0; damaged < chunks.size(); ++damaged) {
    INFO("chunk " << damaged);
    Member receiver;
    std::vector<SnapshotChunkData> bad = chunks;
    std::string bytes(bad[damaged].bytes.view());
    bytes[bytes.size() / 2] ^= 1;
    bad[damaged].bytes = Slice(bytes);
    CHECK_FALSE(StageAll(&receiver, bad).ok());
    // After that, the whole snapshot can be sent again.
    CHECK(StageAll(&receiver, chunks).ok());
  }
  for (size_t missing = 0; missing < chunks.size(); ++missing) {
    INFO("chunk " << missing);
    Member receiver;
    std::vector<SnapshotChunkData> bad = chunks;
    bad.erase(bad.begin() + static_cast<std::ptrdiff_t>(missing));
    const bool last_is_missing = missing + 1 == chunks.size();
    CHECK(StageAll(&receiver, bad).ok() == last_is_missing);
  }
}

TEST_CASE("a snapshot from the leader has no recent events, and what was beside is gone") {
  Member sender;
  Fill(&sender);
  sender.frontend.events = {{1, "of the sender"}};
  sender.Checkpoint();
  Member receiver;
  receiver.OpenSession();
  receiver.frontend.events = {{1, "old"}};
  receiver.Checkpoint();
  REQUIRE(StageAll(&receiver, ReadAll(&sender, 1000)).ok());
  REQUIRE(receiver.checkpoints->Install(sender.Meta()).ok());
  CHECK(EventsAtStart(&receiver).empty());
  receiver.index = sender.index;
  receiver.frontend.events = {{1, "new"}};
  receiver.Checkpoint();
  CHECK(EventsAtStart(&receiver) == std::vector<std::string>{"new"});
}

TEST_CASE("a checkpoint for which there is no free space is whole the next time") {
  Member member;
  member.OpenSession();
  member.Create("/a", "1");
  member.Checkpoint();
  const auto before = member.store->newest();
  member.Create("/b", std::string(1000, 'b'));
  member.Delete("/a");
  member.env.SetCapacity(member.env.used_bytes());
  member.checkpoints->Begin(member.Meta());
  CHECK(absl::IsResourceExhausted(member.checkpoints->Finish()));
  CHECK(member.store->newest() == before);
  member.Create("/c", "3");
  member.env.SetCapacity(1u << 20);
  member.Checkpoint();
  ReplicatedTree again(kProposer);
  TreeCheckpoints checkpoints(member.store.get(), &again, Clock::System());
  REQUIRE(checkpoints.Load().ok());
  CHECK(again.ReadTree()->digest() == member.replicated.ReadTree()->digest());
}

TEST_CASE("after a crash at any point there is one whole checkpoint") {
  for (uint64_t operations = 0; operations < 30; ++operations) {
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      INFO("power off after " << operations << " operations, seed " << seed);
      Member member;
      Fill(&member);
      member.Checkpoint();
      std::vector<uint64_t> digests = {member.replicated.ReadTree()->digest()};
      Member sender;
      Fill(&sender);
      sender.Create("/sent", "s");
      sender.Checkpoint();
      digests.push_back(sender.replicated.ReadTree()->digest());
      member.Create("/second", "2");
      digests.push_back(member.replicated.ReadTree()->digest());

      member.env.PowerOffAfter(operations);
      member.checkpoints->Begin(member.Meta());
      absl::Status status = member.checkpoints->Finish();
      if (status.ok()) status = StageAll(&member, ReadAll(&sender, 1000));
      if (status.ok()) status = member.checkpoints->Install(sender.Meta());
      const bool done = status.ok();
      member.env.Crash(seed);

      ReplicatedTree again(kProposer);
      auto store = FileRecordStore::Open(&member.env, "checkpoints");
      REQUIRE(store.ok());
      TreeCheckpoints checkpoints(store->get(), &again, Clock::System());
      REQUIRE(checkpoints.Load().ok());
      const uint64_t found = again.ReadTree()->digest();
      CHECK(std::find(digests.begin(), digests.end(), found) != digests.end());
      if (done) CHECK(found == digests[1]);
    }
  }
}

TEST_CASE(
    "a checkpoint that finds no free space has that of the ballast file at the next attempt") {
  Member member;
  consensus::BallastFile ballast(&member.env, "checkpoints", 3000);
  TreeCheckpoints checkpoints(member.store.get(), &member.replicated, Clock::System(), &ballast);
  member.OpenSession();
  for (int i = 0; i < 10; ++i) {
    member.Create("/" + std::to_string(i), std::string(100, 'x'));
  }
  REQUIRE(ballast.Make().ok());
  member.env.SetCapacity(member.env.used_bytes());
  checkpoints.Begin(member.Meta());
  CHECK(absl::IsResourceExhausted(checkpoints.Finish()));
  CHECK(checkpoints.needs_space());
  CHECK_FALSE(ballast.exists());
  checkpoints.Begin(member.Meta());
  REQUIRE(checkpoints.Finish().ok());
  CHECK_FALSE(checkpoints.needs_space());
  CHECK(checkpoints.newest() == member.Meta());
}

}  // namespace
}  // namespace quorate::rpc
