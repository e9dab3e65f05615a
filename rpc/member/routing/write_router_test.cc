// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/routing/write_router.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/testing/manual_clock.h"
#include "rpc/frontend/request_stages.h"

namespace quorate::rpc {
namespace {

using consensus::MemberId;
using consensus::Role;
using consensus::Term;

constexpr tree::Proposer kSelf{1, 77};
constexpr int kResendTicks = 3;

class Recorder : public WriteRouter::Actions {
 public:
  absl::Status Propose(std::vector<Slice> commands) override {
    if (refuse) return absl::ResourceExhaustedError("full");
    for (const Slice& command : commands) {
      auto header = tree::DecodeHeader(command.view());
      REQUIRE(header.ok());
      CHECK(header->time_ms == now_ms);
      proposed.push_back(header->sequence);
    }
    return absl::OkStatus();
  }
  void Forward(MemberId leader, const std::vector<std::string_view>& commands) override {
    CHECK(leader == MemberId(2));
    for (std::string_view command : commands) {
      forwarded.push_back(tree::DecodeHeader(command)->sequence);
    }
  }
  void OnSent(uint64_t sequence) override {
    sent.push_back(sequence);
    marks.Add(sequence, clock.Now());
  }
  bool IsSending(MemberId) const override { return is_sending; }
  uint32_t ClusterVersion() override { return version; }
  int64_t NowMs() override { return now_ms; }

  bool refuse = false;
  bool is_sending = false;
  uint32_t version = tree::kVersionExpiry;
  int64_t now_ms = 1000;
  std::vector<uint64_t> proposed;
  std::vector<uint64_t> forwarded;
  std::vector<uint64_t> sent;  // OnSent
  ManualClock clock;
  MarkRing marks;  // of OnSent, as a member sets them
};

using Sequences = std::vector<uint64_t>;

CommandBatch Batch(size_t count, tree::Proposer proposer = kSelf, uint64_t first_sequence = 0) {
  CommandBatch batch;
  for (size_t i = 0; i < count; ++i) {
    tree::CommandHeader header;
    header.kind = tree::CommandKind::kCloseSession;
    header.proposer = proposer;
    header.session = tree::SessionId(5);
    header.sequence = first_sequence == 0 ? 0 : first_sequence + i;
    const size_t offset = batch.bytes->size();
    tree::AppendCloseSession(header, batch.bytes.get());
    batch.commands.push_back({offset, batch.bytes->size() - offset});
  }
  return batch;
}

// Returns a batch with one write of `bytes` bytes of data.
CommandBatch LargeBatch(size_t bytes) {
  const std::string data(bytes, 'x');
  tree::CommandHeader header;
  header.proposer = kSelf;
  header.session = tree::SessionId(5);
  tree::Request request;
  tree::Op& op = request.ops.emplace_back();
  op.kind = tree::OpKind::kSetData;
  op.path = "/large";
  op.has_data = true;
  op.data = data;
  CommandBatch batch;
  tree::AppendRequest(header, request, batch.bytes.get());
  batch.commands.push_back({0, batch.bytes->size()});
  return batch;
}

// Returns `batch` as member 3 forwards it.
ForwardedCommands Forward(CommandBatch batch) {
  auto checked = ForwardedCommands::Check(MemberId(3), std::move(batch));
  REQUIRE(checked.ok());
  return *std::move(checked);
}

consensus::Status Leads(uint32_t leader, uint64_t term) {
  consensus::Status status;
  status.role = leader == 1 ? Role::kLeader : Role::kFollower;
  status.leader = MemberId(leader);
  status.term = Term(term);
  return status;
}

TEST_CASE("writes wait for a leader whose first entry is applied here") {
  Recorder actions;
  WriteRouter router(kSelf, kResendTicks, &actions);
  router.Submit(Batch(2));
  router.OnStatus(Leads(1, 4));
  CHECK(actions.proposed.empty());
  router.OnTermApplied(Term(3));
  CHECK(actions.proposed.empty());
  router.OnTermApplied(Term(4));
  CHECK(actions.proposed == Sequences{1, 2});
  router.Submit(Batch(1));
  CHECK(actions.proposed == Sequences{1, 2, 3});
}

TEST_CASE("after a change of leader only what was not applied is sent again, in order") {
  Recorder actions;
  WriteRouter router(kSelf, kResendTicks, &actions);
  router.OnStatus(Leads(2, 1));
  router.OnTermApplied(Term(1));
  router.Submit(Batch(4));
  CHECK(actions.forwarded == Sequences{1, 2, 3, 4});
  router.OnApplied(2);
  router.OnStatus(Leads(1, 2));
  router.OnApplied(3);  // command 3 survived the change of leader
  router.OnTermApplied(Term(2));
  CHECK(actions.proposed == Sequences{4});
  router.OnApplied(4);
  CHECK(router.waiting_count() == 0);
  CHECK(router.waiting_bytes() == 0);
}

TEST_CASE("it is reported up to which command all were sent, and when they are sent again") {
  Recorder actions;
  WriteRouter router(kSelf, kResendTicks, &actions);
  router.Submit(Batch(2));
  router.OnStatus(Leads(2, 1));
  CHECK(actions.sent.empty());
  router.OnTermApplied(Term(1));
  CHECK(actions.sent == Sequences{2});
  router.Submit(Batch(3));
  CHECK(actions.sent == Sequences{2, 5});
  router.OnApplied(4);
  router.OnStatus(Leads(1, 2));  // number 5 is sent again when the term has begun
  CHECK(actions.sent == Sequences{2, 5});
  router.OnTermApplied(Term(2));
  CHECK(actions.sent == Sequences{2, 5, 4, 5});
  actions.refuse = true;
  router.Submit(Batch(1));
  CHECK(actions.sent.back() == 5);
  actions.refuse = false;
  router.OnTick();
  CHECK(actions.sent.back() == 6);
}

TEST_CASE("commands that are sent again to the same leader count from the first time") {
  Recorder actions;
  WriteRouter router(kSelf, kResendTicks, &actions);
  router.OnStatus(Leads(2, 1));
  router.OnTermApplied(Term(1));
  router.Submit(Batch(3));
  const auto first = actions.clock.Now();
  // The leader stalls for several times the interval after which commands are sent again.
  for (int tick = 0; tick < 5 * kResendTicks; ++tick) {
    actions.clock.Advance(100);
    router.OnTick();
  }
  router.OnPeerUp(MemberId(2));
  CHECK(actions.forwarded.size() == 3 + 6 * 3);
  router.OnApplied(2);
  CHECK(actions.sent == Sequences{3});
  CHECK(actions.marks.Find(2).time == first);
  CHECK(actions.marks.Find(3).time == first);
  router.Submit(Batch(1));
  CHECK(actions.sent == Sequences{3, 4});
  CHECK(actions.marks.Find(4).time == actions.clock.Now());
}

TEST_CASE("after a change of leader, commands that were applied before count from the first time") {
  Recorder actions;
  WriteRouter router(kSelf, kResendTicks, &actions);
  router.OnStatus(Leads(2, 1));
  router.OnTermApplied(Term(1));
  router.Submit(Batch(4));
  const auto first = actions.clock.Now();
  actions.clock.Advance(900);
  router.OnStatus(Leads(0, 2));
  router.OnStatus(Leads(1, 2));
  router.OnApplied(3);  // survived, and may not be answered yet
  router.OnTermApplied(Term(2));
  REQUIRE(actions.proposed == Sequences{4});
  CHECK(actions.marks.Find(1).time == first);
  CHECK(actions.marks.Find(3).time == first);
  CHECK(actions.marks.Find(4).time == actions.clock.Now());
  CHECK(actions.sent == Sequences{4, 3, 4});
}

TEST_CASE("a refused proposal is tried again at the next tick and nothing overtakes it") {
  Recorder actions;
  WriteRouter router(kSelf, kResendTicks, &actions);
  router.OnStatus(Leads(1, 1));
  router.OnTermApplied(Term(1));
  actions.refuse = true;
  router.Submit(Batch(1));
  router.Submit(Batch(1));
  actions.refuse = false;
  router.OnTick();
  CHECK(actions.proposed == Sequences{1, 2});
}

TEST_CASE("forwarded writes that are not applied in time, or whose stream broke, are sent again") {
  Recorder actions;
  WriteRouter router(kSelf, kResendTicks, &actions);
  router.OnStatus(Leads(2, 1));
  router.OnTermApplied(Term(1));
  router.Submit(Batch(2));
  for (int i = 0; i < kResendTicks; ++i) router.OnTick();
  CHECK(actions.forwarded == Sequences{1, 2, 1, 2});
  router.OnApplied(1);
  router.OnPeerUp(MemberId(3));
  CHECK(actions.forwarded.size() == 4);
  router.OnPeerUp(MemberId(2));
  CHECK(actions.forwarded == Sequences{1, 2, 1, 2, 2});
}

TEST_CASE("forwarded writes that have not left yet are not sent again") {
  Recorder actions;
  WriteRouter router(kSelf, kResendTicks, &actions);
  router.OnStatus(Leads(2, 1));
  router.OnTermApplied(Term(1));
  router.Submit(Batch(2));
  router.OnTick();
  actions.is_sending = true;
  for (int i = 0; i < 10 * kResendTicks; ++i) router.OnTick();
  CHECK(actions.forwarded == Sequences{1, 2});
  actions.is_sending = false;
  for (int i = 1; i < kResendTicks; ++i) router.OnTick();
  CHECK(actions.forwarded == Sequences{1, 2, 1, 2});
}

TEST_CASE("no more is forwarded than the window takes, and the rest follows what is applied") {
  const CommandBatch one = Batch(1);
  const size_t size = one.bytes->size();
  Recorder actions;
  WriteRouter router(kSelf, kResendTicks, &actions, 4 * size);
  router.OnStatus(Leads(2, 1));
  router.OnTermApplied(Term(1));
  for (int i = 0; i < 10; ++i) router.Submit(Batch(1));
  CHECK(actions.forwarded == Sequences{1, 2, 3, 4});
  CHECK(router.window_is_full());
  router.OnTick();
  CHECK(actions.forwarded.size() == 4);
  router.OnApplied(1);
  CHECK(actions.forwarded.size() == 4);  // nothing is forwarded until half of the window is free
  router.OnApplied(2);
  CHECK(actions.forwarded == Sequences{1, 2, 3, 4, 5, 6});
  router.OnApplied(6);
  CHECK(actions.forwarded == Sequences{1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  router.OnApplied(10);
  CHECK(router.waiting_count() == 0);
  CHECK(!router.window_is_full());
}

TEST_CASE(
    "after a change of leader as much as the window takes is sent again, not all that waits") {
  // Submits as many writes of 1 MB as a server accepts before it stops reading from its clients.
  Recorder actions;
  WriteRouter router(kSelf, kResendTicks, &actions);
  router.OnStatus(Leads(3, 1));
  constexpr uint64_t kWrites = 64;
  for (uint64_t i = 0; i < kWrites; ++i) router.Submit(LargeBatch(1'000'000));
  router.OnStatus(Leads(2, 2));
  router.OnTermApplied(Term(2));
  const size_t window = kForwardWindowBytes / 1'000'000 + 1;
  CHECK(!actions.forwarded.empty());
  CHECK(actions.forwarded.size() <= window);
  // Forwarding continues in order, as fast as writes are applied, until all writes are applied.
  for (uint64_t applied = 1; applied <= kWrites; ++applied) {
    REQUIRE(actions.forwarded.size() >= applied);
    router.OnApplied(applied);
    CHECK(actions.forwarded.size() <= applied + window);
  }
  Sequences all;
  for (uint64_t i = 1; i <= kWrites; ++i) all.push_back(i);
  CHECK(actions.forwarded == all);
  CHECK(router.waiting_bytes() == 0);
}

TEST_CASE(
    "a leader takes forwarded writes without gaps only, and again from where they were lost") {
  Recorder actions;
  WriteRouter router(kSelf, kResendTicks, &actions);
  const tree::Proposer other{3, 9};
  router.OnForward(Forward(Batch(1, other, 1)));
  CHECK(actions.proposed.empty());  // this member does not lead
  router.OnStatus(Leads(1, 1));
  router.OnForward(Forward(Batch(2, other, 1)));
  router.OnForward(Forward(Batch(1, other, 4)));  // command 3 was lost
  CHECK(actions.proposed == Sequences{1, 2});
  router.OnForward(Forward(Batch(2, other, 3)));
  CHECK(actions.proposed == Sequences{1, 2, 3, 4});
  router.OnForward(Forward(Batch(5, other, 1)));  // sent again: only 5 is new
  CHECK(actions.proposed == Sequences{1, 2, 3, 4, 5});
}

TEST_CASE("a leader whose first frame of a term was lost begins again before it") {
  Recorder actions;
  WriteRouter router(kSelf, kResendTicks, &actions);
  const tree::Proposer other{3, 9};
  router.OnStatus(Leads(1, 1));
  router.OnForward(Forward(Batch(2, other, 7)));
  router.OnForward(Forward(Batch(4, other, 5)));
  CHECK(actions.proposed == Sequences{7, 8, 5, 6, 7, 8});
  router.OnForward(Forward(Batch(1, tree::Proposer{3, 10}, 1)));  // it was started again
  CHECK(actions.proposed == Sequences{7, 8, 5, 6, 7, 8, 1});
}

// Returns the error for the only command of `batch`, forwarded by member 3.
std::string Refusal(CommandBatch batch) {
  const auto checked = ForwardedCommands::Check(MemberId(3), std::move(batch));
  REQUIRE(absl::IsInvalidArgument(checked.status()));
  return std::string(checked.status().message());
}

TEST_CASE("forwarded commands are decoded to their end before they may enter the log") {
  const tree::Proposer other{3, 9};
  CommandBatch bad_body = Batch(2, other, 7);
  (*bad_body.bytes)[bad_body.commands[1].offset + 1] =
      static_cast<char>(tree::CommandKind::kRequest);
  CHECK(Refusal(std::move(bad_body)).find("command number 8") != std::string::npos);
  CommandBatch bad_header = Batch(1, other, 1);
  (*bad_header.bytes)[1] = 99;
  CHECK(Refusal(std::move(bad_header)).find("unknown kind") != std::string::npos);
  CommandBatch too_short = Batch(1, other, 1);
  too_short.commands[0].size = 0;
  CHECK(Refusal(std::move(too_short)).find("shorter") != std::string::npos);
  CHECK(Refusal(Batch(1, tree::Proposer{2, 9}, 1)).find("server 2") != std::string::npos);
}

TEST_CASE("nothing that needs a newer version than the cluster version is proposed") {
  Recorder actions;
  actions.version = tree::kVersionExpiry - 1;
  WriteRouter router(kSelf, kResendTicks, &actions);
  router.OnStatus(Leads(1, 1));
  const auto batch = [] {
    CommandBatch commands = Batch(1, tree::Proposer{3, 9}, 1);
    tree::CommandHeader header;
    header.proposer = tree::Proposer{3, 9};
    header.session = tree::SessionId(5);
    header.attach_zxid = tree::Zxid(1);
    header.sequence = 2;
    tree::Request request;
    tree::Op& op = request.ops.emplace_back();
    op.kind = tree::OpKind::kCreateContainer;
    op.path = "/c";
    op.mode = tree::CreateMode::kContainer;
    const size_t offset = commands.bytes->size();
    tree::AppendRequest(header, request, commands.bytes.get());
    commands.commands.push_back({offset, commands.bytes->size() - offset});
    header.sequence = 3;
    const size_t last = commands.bytes->size();
    header.kind = tree::CommandKind::kCloseSession;
    tree::AppendCloseSession(header, commands.bytes.get());
    commands.commands.push_back({last, commands.bytes->size() - last});
    return commands;
  };
  router.OnForward(Forward(batch()));
  CHECK(actions.proposed == Sequences{1});
  actions.version = tree::kVersionExpiry;
  router.OnForward(Forward(batch()));
  CHECK(actions.proposed == Sequences{1, 2, 3});
}

TEST_CASE("what a numbered write holds counts as well as that it is numbered") {
  Recorder actions;
  WriteRouter router(kSelf, kResendTicks, &actions);
  router.OnStatus(Leads(1, 1));
  const auto batch = [](tree::OpKind kind) {
    CommandBatch commands;
    tree::CommandHeader header;
    header.proposer = tree::Proposer{3, 9};
    header.session = tree::SessionId(5);
    header.sequence = 1;
    tree::Request request;
    tree::Op& op = request.ops.emplace_back();
    op.kind = kind;
    op.path = "/a";
    tree::AppendSequencedRequest(header, 1, 0, request, commands.bytes.get());
    commands.commands.push_back({0, commands.bytes->size()});
    return commands;
  };
  const auto [kind, needed] =
      GENERATE(std::pair(tree::OpKind::kDelete, tree::kVersionNumbered),
               std::pair(tree::OpKind::kCheckCreated, tree::kVersionCheckCreated));
  actions.version = needed - 1;
  router.OnForward(Forward(batch(kind)));
  CHECK(actions.proposed.empty());
  actions.version = needed;
  router.OnForward(Forward(batch(kind)));
  CHECK(actions.proposed == Sequences{1});
}

TEST_CASE("a leader that waits for its disk does not propose the same again") {
  Recorder actions;
  WriteRouter router(kSelf, kResendTicks, &actions);
  router.OnStatus(Leads(1, 1));
  router.OnTermApplied(Term(1));
  router.Submit(Batch(2));
  for (int i = 0; i < 10 * kResendTicks; ++i) router.OnTick();
  CHECK(actions.proposed == Sequences{1, 2});
}

TEST_CASE("what a leader could not propose it expects to come again") {
  Recorder actions;
  WriteRouter router(kSelf, kResendTicks, &actions);
  const tree::Proposer other{3, 9};
  router.OnStatus(Leads(1, 1));
  router.OnForward(Forward(Batch(1, other, 1)));
  actions.refuse = true;
  router.OnForward(Forward(Batch(1, other, 2)));
  actions.refuse = false;
  router.OnForward(Forward(Batch(1, other, 3)));
  CHECK(actions.proposed == Sequences{1});
  router.OnForward(Forward(Batch(2, other, 2)));
  CHECK(actions.proposed == Sequences{1, 2, 3});
}

}  // namespace
}  // namespace quorate::rpc
