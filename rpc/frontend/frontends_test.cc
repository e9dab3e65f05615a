// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/frontends.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

namespace quorate::rpc {
namespace {

class RecordingFrontend : public Frontend {
 public:
  bool AllowsInlineApply() const override { return allows_inline; }
  void OnNodeEvent(tree::EventType, std::string_view path, tree::Zxid,
                   const tree::EventAcls&) override {
    calls.push_back("event " + std::string(path));
  }
  void OnSessionAttached(const tree::SessionInfo&) override { calls.push_back("attached"); }
  void OnSessionClosed(tree::SessionId, tree::Zxid) override { calls.push_back("closed"); }
  void OnResult(tree::ApplyResult result) override {
    calls.push_back("result " + std::to_string(result.header.proposer_tag));
  }
  void OnTreeReplaced(const tree::Tree&) override { calls.push_back("replaced"); }
  void OnBatchApplied() override { calls.push_back("batch"); }
  void OnSyncDone(uint32_t tag, uint64_t, tree::Zxid) override {
    calls.push_back("sync " + std::to_string(tag));
  }

  WatchTotals watch_totals() const override { return watches; }

  bool allows_inline = true;
  WatchTotals watches;
  std::vector<std::string> calls;
};

TEST_CASE("entries are applied inline if each front end allows it") {
  RecordingFrontend a, b;
  EventHistory history(1 << 20);
  Frontends frontends({{&a, {0, 100}}, {&b, {100, 50}}}, &history);
  CHECK(frontends.AllowsInlineApply());
  b.allows_inline = false;
  CHECK_FALSE(frontends.AllowsInlineApply());
}

TEST_CASE("the watches of all front ends are counted together") {
  RecordingFrontend a, b;
  EventHistory history(1 << 20);
  Frontends frontends({{&a, {0, 100}}, {&b, {100, 50}}}, &history);
  a.watches = {1, 100};
  b.watches = {20, 3000};
  CHECK(frontends.watch_totals().count == 21);
  CHECK(frontends.watch_totals().bytes == 3100);
}

TEST_CASE("all front ends hear of what happens, and each gets the results of its own tags") {
  RecordingFrontend a, b;
  EventHistory history(1 << 20);
  Frontends frontends({{&a, {0, 100}}, {&b, {100, 50}}}, &history);
  frontends.OnNodeEvent(tree::EventType::kNodeCreated, "/x", tree::Zxid(1), {});
  frontends.OnSessionAttached({});
  frontends.OnSessionClosed(tree::SessionId(1), tree::Zxid(2));
  for (uint32_t tag : {0u, 99u, 100u, 149u}) {
    tree::ApplyResult result;
    result.header.proposer_tag = tag;
    frontends.OnResult(std::move(result));
  }
  frontends.OnSyncDone(100, 1, tree::Zxid(3));
  frontends.OnSyncDone(7, 1, tree::Zxid(3));
  frontends.OnTreeReplaced(tree::Tree());
  frontends.OnBatchApplied();
  CHECK(a.calls == std::vector<std::string>{"event /x", "attached", "closed", "result 0",
                                            "result 99", "sync 7", "replaced", "batch"});
  CHECK(b.calls == std::vector<std::string>{"event /x", "attached", "closed", "result 100",
                                            "result 149", "sync 100", "replaced", "batch"});
}

// Notes how far the history was when the front end was notified.
class HistoryReader : public RecordingFrontend {
 public:
  explicit HistoryReader(const EventHistory* history) : history_(history) {}
  void OnNodeEvent(tree::EventType, std::string_view, tree::Zxid zxid,
                   const tree::EventAcls&) override {
    EventHistory::Reader reader(*history_, history_->next_number() - 1);
    CHECK(reader.Next().zxid == zxid);
    ++events;
  }
  void OnTreeReplaced(const tree::Tree& tree) override {
    CHECK(history_->oldest() == tree.last_zxid());
    CHECK(history_->next_number() > 0);
  }
  int events = 0;

 private:
  const EventHistory* const history_;
};

TEST_CASE("the history has an event before the front ends are notified of it") {
  EventHistory history(1 << 20, tree::Zxid(4));
  HistoryReader a(&history);
  Frontends frontends({{&a, {0, 100}}}, &history);
  const std::vector<tree::Acl> node{{tree::permission::kRead, {"ip", "1.2.3.4"}}};
  const std::vector<tree::Acl> parent{{tree::permission::kRead, {"world", "anyone"}}};
  frontends.OnNodeEvent(tree::EventType::kNodeDataChanged, "/x", tree::Zxid(5), {node, parent});
  frontends.OnNodeEvent(tree::EventType::kNodeDeleted, "/x", tree::Zxid(6), {node, parent});
  CHECK(a.events == 2);
  EventHistory::Reader reader(history, history.NumberAfter(tree::Zxid(4)));
  const Event changed = reader.Next();
  CHECK(changed.path == "/x");
  CHECK(changed.readers != nullptr);
  const Event deleted = reader.Next();
  CHECK(deleted.readers != nullptr);
  CHECK(deleted.parent_readers == nullptr);

  // What was kept goes with a checkpoint, and is there again after a start.
  EventHistory again(1 << 20, tree::Zxid(6));
  Frontends started({{&a, {0, 100}}}, &again);
  const auto taken = frontends.TakeRecentEvents();
  std::vector<std::string> parts;
  for (size_t i = 0; i < taken->parts().size(); ++i) parts.push_back(taken->Encode(i));
  started.OnRecentEvents(parts, tree::Zxid(6));
  CHECK(again.oldest() == tree::Zxid(4));

  frontends.OnTreeReplaced(tree::Tree());
}

TEST_CASE("the ranges of the front ends take up all tags") {
  CHECK(kZooKeeperTags.Contains(0));
  CHECK(kZooKeeperTags.Contains(0xEFFFFFFF));
  CHECK_FALSE(kZooKeeperTags.Contains(0xF0000000));
  CHECK(kNativeTags.Contains(0xF0000000));
  CHECK(kNativeTags.Contains(0xFFFEFFFF));
  CHECK_FALSE(kNativeTags.Contains(0xFFFF0000));
  CHECK(kCloserTags.Contains(0xFFFF0000));
  CHECK(kCloserTags.Contains(0xFFFF7FFF));
  CHECK_FALSE(kCloserTags.Contains(0xFFFF8000));
  CHECK(kWriterTags.Contains(0xFFFF8000));
  CHECK(kWriterTags.Contains(0xFFFFFFFF));
}

}  // namespace
}  // namespace quorate::rpc
