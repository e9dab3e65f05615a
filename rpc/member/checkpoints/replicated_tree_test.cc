// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/checkpoints/replicated_tree.h"

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/testing/manual_clock.h"
#include "rpc/audit/testing/recorded_audit.h"
#include "rpc/member/testing/captured_log.h"
#include "tree/command.h"

namespace quorate::rpc {
namespace {

using consensus::Entry;
using consensus::EntryKind;
using consensus::Index;
using consensus::Term;

constexpr tree::Proposer kProposer{1, 7};
constexpr tree::SessionId kSession{0x0100000000000001};

class CountingFrontend : public Frontend {
 public:
  bool AllowsInlineApply() const override { return allows_inline; }
  void OnNodeEvent(tree::EventType, std::string_view, tree::Zxid, const tree::EventAcls&) override {
  }
  void OnSessionAttached(const tree::SessionInfo&) override {}
  void OnSessionClosed(tree::SessionId, tree::Zxid) override {}
  void OnResult(tree::ApplyResult) override { ++results; }
  void OnTreeReplaced(const tree::Tree&) override {}
  void OnBatchApplied() override {
    ++batches;
    clock.Advance(batch_ms);
  }
  void OnSyncDone(uint32_t, uint64_t, tree::Zxid) override {}
  RequestAudit* request_audit() const override { return audit; }

  RequestAudit* audit = nullptr;
  bool allows_inline = true;
  int results = 0;
  int batches = 0;
  int64_t batch_ms = 0;  // the time that one batch takes
  ManualClock clock;
};

struct Fixture {
  Fixture() : replicated(kProposer) { replicated.SetFrontend(&frontend); }

  Entry Next(std::string command) {
    ++index;
    return {index, Term(1), EntryKind::kCommand, Slice(std::move(command))};
  }
  tree::CommandHeader Header(tree::CommandKind kind) {
    tree::CommandHeader header;
    header.kind = kind;
    header.proposer = proposer;
    header.sequence = ++sequence;
    header.time_ms = 1000;
    header.session = kSession;
    header.attach_zxid = attached;
    return header;
  }
  Entry OpenSession() {
    std::string command;
    tree::AppendCreateSession(Header(tree::CommandKind::kCreateSession), 30000,
                              std::string(tree::kPasswordBytes, 'p'), &command);
    Entry entry = Next(std::move(command));
    attached = tree::Zxid(static_cast<int64_t>(entry.index.value()));
    return entry;
  }
  Entry CloseSession() {
    std::string command;
    tree::AppendCloseSession(Header(tree::CommandKind::kCloseSession), &command);
    return Next(std::move(command));
  }
  Entry CreateEphemeral(int number) {
    tree::Op op;
    op.kind = tree::OpKind::kCreate;
    const std::string path = "/e" + std::to_string(number);
    op.path = path;
    op.acl = tree::OpenAcl();
    op.mode = tree::CreateMode::kEphemeral;
    return Change(op);
  }
  Entry Change(const tree::Op& op) {
    tree::Request request;
    request.ops.push_back(op);
    std::string command;
    tree::AppendRequest(Header(tree::CommandKind::kRequest), request, &command);
    return Next(std::move(command));
  }
  Entry Numbered(uint64_t number, const tree::Op& op) {
    tree::Request request;
    request.ops.push_back(op);
    std::string command;
    tree::AppendSequencedRequest(Header(tree::CommandKind::kSequencedRequest), number, 0, request,
                                 &command);
    return Next(std::move(command));
  }
  std::vector<Entry> NoOps(size_t count) {
    std::vector<Entry> entries;
    for (size_t i = 0; i < count; ++i) {
      entries.push_back({++index, Term(1), EntryKind::kNoOp, Slice()});
    }
    return entries;
  }
  bool Try(const Entry& entry) { return replicated.TryApply({&entry, 1}); }

  CountingFrontend frontend;
  ReplicatedTree replicated;
  Index index;
  tree::Proposer proposer = kProposer;
  uint64_t sequence = 0;
  tree::Zxid attached;
};

TEST_CASE("a mark tells when entries were applied, however they were applied") {
  Fixture f;
  f.replicated.SetFrontend(&f.frontend);
  ManualClock clock;
  MarkRing marks;
  f.replicated.SetMarks(&marks, &clock);
  f.replicated.Apply(f.NoOps(3));
  const auto first = clock.Now();
  clock.Advance(1);
  const Entry entry = f.OpenSession();
  REQUIRE(f.Try(entry));
  CHECK(marks.Find(2).time == first);
  CHECK(marks.Find(3).time == first);
  CHECK(marks.Find(4).time == clock.Now());
  CHECK(!marks.Find(5).is_reached());
}

TEST_CASE("own commands are audited, and what the cluster deletes, but not commands of others") {
  Fixture f;
  RecordedAudit audit;
  f.frontend.audit = audit.requests();
  f.replicated.SetFrontend(&f.frontend);
  const auto apply = [&](Entry entry) { f.replicated.Apply({&entry, 1}); };
  apply(f.OpenSession());
  apply(f.CreateEphemeral(1));
  CHECK(audit.Lines() ==
        std::vector<std::string>{"session=0x100000000000001 operation=create znode=/e1 "
                                 "znode_type=ephemeral result=success"});
  f.proposer = {2, 1};
  const uint64_t own_sequence = std::exchange(f.sequence, 0);
  Entry of_other = f.CreateEphemeral(2);
  apply(of_other);
  CHECK(audit.Lines().empty());
  f.proposer = kProposer;
  f.sequence = own_sequence;
  apply(f.CloseSession());
  const std::string deletion =
      "session=0x100000000000001 user=server "
      "operation=ephemeralZNodeDeletionOnSessionCloseOrExpire znode=";
  CHECK(audit.Lines() ==
        std::vector<std::string>{deletion + "/e1 result=success", deletion + "/e2 result=success"});
}

TEST_CASE("what is applied at once is applied as ever") {
  Fixture f;
  REQUIRE(f.Try(f.OpenSession()));
  REQUIRE(f.Try(f.CreateEphemeral(1)));
  CHECK(f.replicated.ReadTree()->EphemeralCount(kSession) == 1);
  CHECK(f.frontend.results == 2);
  CHECK(f.frontend.batches == 2);
  CHECK(f.replicated.TakeNews().own_sequence == 2);
}

TEST_CASE("nothing is applied at once while somebody reads") {
  Fixture f;
  const Entry entry = f.OpenSession();
  {
    const GuardedTree::ReadGuard reader = f.replicated.ReadTree();
    bool applied = true;
    std::thread([&] { applied = f.Try(entry); }).join();
    CHECK_FALSE(applied);
  }
  CHECK(f.frontend.results == 0);
  CHECK(f.Try(entry));
  CHECK(f.frontend.results == 1);
}

TEST_CASE("the end of a session that owns much is not applied at once") {
  Fixture f;
  const int owned = GENERATE(499, 500);
  f.replicated.Apply(std::vector{f.OpenSession()});
  for (int i = 0; i < owned; ++i) f.replicated.Apply(std::vector{f.CreateEphemeral(i)});
  const Entry end = f.CloseSession();
  const bool is_inline = owned == 499;
  CHECK(f.Try(end) == is_inline);
  CHECK(f.replicated.ReadTree()->EphemeralCount(kSession) == (is_inline ? 0 : 500));
  if (is_inline) return;
  f.replicated.Apply({&end, 1});
  CHECK(f.replicated.ReadTree()->EphemeralCount(kSession) == 0);
}

TEST_CASE("what may delete much, or tell many, is not applied at once") {
  Fixture f;
  REQUIRE(f.Try(f.OpenSession()));
  REQUIRE(f.Try(f.CreateEphemeral(1)));
  f.frontend.allows_inline = false;
  const Entry create = f.CreateEphemeral(2);
  CHECK_FALSE(f.Try(create));
  f.replicated.Apply({&create, 1});
  f.frontend.allows_inline = true;
  tree::Op op;
  op.kind = tree::OpKind::kDeleteRecursive;
  op.path = "/e1";
  const Entry deep = f.Change(op);
  CHECK_FALSE(f.Try(deep));
  CHECK(f.replicated.ReadTree()->EphemeralCount(kSession) == 2);
  f.replicated.Apply({&deep, 1});
  CHECK(f.replicated.ReadTree()->EphemeralCount(kSession) == 1);
}

TEST_CASE("a long replay of the log says how far it is, and in the end what it was") {
  using Lines = std::vector<std::string>;
  Fixture f;
  const CapturedLog log;
  f.frontend.batch_ms = 400;
  f.replicated.ExpectReplay(Index(1), Index(1300), &f.frontend.clock);
  f.replicated.Apply(f.NoOps(1000));
  const Lines begin{"log replay from entry 1 to 1300",
                    "log replay: 768 of 1300 entries, 59 %, 640 a second"};
  CHECK(log.Lines("") == begin);

  SECTION("it ends") {
    // Nothing is applied inline during a replay.
    CHECK_FALSE(f.replicated.TryApply(f.NoOps(100)));
    f.index = Index(1000);
    f.replicated.Apply(f.NoOps(100));
    CHECK(log.Lines("") == begin);
    f.replicated.Apply(f.NoOps(300));
    Lines all = begin;
    all.push_back("log replay: 1300 entries, applied in 2400 ms");
    CHECK(log.Lines("") == all);
    f.replicated.Apply(f.NoOps(5000));
    CHECK(f.replicated.TryApply(f.NoOps(1)));
    CHECK(log.Lines("") == all);
  }
  SECTION("a snapshot comes in its place") {
    auto tree = std::make_unique<tree::Tree>();
    tree->Skip(tree::Zxid(2000));
    f.replicated.Replace(std::move(tree), Term(1));
    f.index = Index(2000);
    f.replicated.Apply(f.NoOps(1000));
    CHECK(log.Lines("") == begin);
  }
}

TEST_CASE("a short replay has a line for its beginning and one for its end") {
  Fixture f;
  const CapturedLog log;
  f.replicated.ExpectReplay(Index(1), Index(3), &f.frontend.clock);
  f.replicated.Apply(f.NoOps(4));
  CHECK(log.Lines("") == std::vector<std::string>{"log replay from entry 1 to 3",
                                                  "log replay: 3 entries, applied in 0 ms"});
}

TEST_CASE("few requests that visit many znodes are applied under one lock") {
  Fixture f;
  std::vector<Entry> entries = {f.OpenSession()};
  tree::Op create;
  create.kind = tree::OpKind::kCreate;
  create.path = "/p";
  create.acl = tree::OpenAcl();
  entries.push_back(f.Change(create));
  for (int i = 0; i < 2100; ++i) {
    const std::string path = "/p/" + std::to_string(i);
    create.path = path;
    entries.push_back(f.Change(create));
  }
  f.replicated.Apply(entries);
  tree::Op list;
  list.kind = tree::OpKind::kGetChildren;
  list.path = "/p";
  entries.clear();
  for (int i = 0; i < 8; ++i) entries.push_back(f.Change(list));
  const int results = f.frontend.results;
  const int batches = f.frontend.batches;
  f.replicated.Apply(entries);
  CHECK(f.frontend.results - results == 8);
  CHECK(f.frontend.batches - batches == 4);  // two lists visit more than 4,096 znodes
}

TEST_CASE("few numbered requests that are repeated are applied under one lock, and none inline") {
  Fixture f;
  f.replicated.Apply(std::vector<Entry>{f.OpenSession()});
  tree::Op create;
  create.kind = tree::OpKind::kCreate;
  const std::string path = "/" + std::string(500'000, 'x');
  create.path = path;
  create.acl = tree::OpenAcl();
  // A new one has few changes.
  CHECK(f.Try(f.Numbered(1, create)));
  create.path = "/a";
  CHECK(f.Try(f.Numbered(2, create)));
  const Entry again = f.Numbered(1, create);
  CHECK_FALSE(f.Try(again));
  std::vector<Entry> entries = {again};
  for (int i = 0; i < 5; ++i) entries.push_back(f.Numbered(1, create));
  const int results = f.frontend.results;
  const int batches = f.frontend.batches;
  f.replicated.Apply(entries);
  CHECK(f.frontend.results - results == 6);
  CHECK(f.frontend.batches - batches == 3);  // two responses have more than 4,096 x 128 bytes
}

}  // namespace
}  // namespace quorate::rpc
