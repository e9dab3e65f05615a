// SPDX-License-Identifier: Apache-2.0

// Tests how much work one call of EndDelta does under the tree's lock: counted, not timed.
#include "tree/change_tracker.h"

#include <malloc.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tree/acl_table.h"
#include "tree/node_memory.h"
#include "tree/sessions.h"
#include "tree/znode.h"

namespace quorate::tree {
namespace {

constexpr size_t kChanges = 100'000;
constexpr size_t kPieceBytes = 64u << 10;
// The maximum bytes that one piece frees, including a block of a list at the border of a piece, or
// the memory of the empty lists at the end.
constexpr size_t kFreedMax = 8 * kPieceBytes;
// The maximum number of nodes that one piece puts back.
constexpr size_t kTouchedMax = kPieceBytes / sizeof(Znode) + 1;

// Returns the bytes of all malloc blocks in use, which do not include nodes; 0 under a sanitizer.
size_t BytesInUse() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

// A tracker with kChanges changes of each kind that a delta can hold.
class Changed {
 public:
  Changed() {
    for (uint32_t i = 0; i < 2 * kChanges; ++i) {
      nodes_.push_back(Znode::New(&memory_, nullptr, "n", kNoSession));
      nodes_.back()->czxid = nodes_.back()->mzxid = Zxid(1);
      nodes_.back()->ordinal = i;
    }
    for (size_t i = 1; i <= kChanges; ++i) sessions_.Add(SessionId(static_cast<int64_t>(i)), "");
    tracker_.SetClean(Zxid(1));
    ChangeAll();
    for (size_t i = kChanges; i < 2 * kChanges; ++i) {
      tracker_.BeforeNodeChange(nodes_[i]);
      tracker_.OnNodeFreed(nodes_[i]);
      Znode::Delete(nodes_[i]);
    }
    nodes_.resize(kChanges);
    for (const auto& [id, session] : sessions_.all()) tracker_.BeforeSessionChange(id);
  }
  ~Changed() {
    for (Znode* node : nodes_) Znode::Delete(node);
  }
  Changed(const Changed&) = delete;
  Changed& operator=(const Changed&) = delete;

  ChangeTracker& tracker() { return tracker_; }

  void Begin() {
    HeadRecord head;
    head.zxid = ++zxid_;
    tracker_.BeginDelta(head);
  }
  void ChangeAll() {
    for (size_t i = 0; i < kChanges; ++i) tracker_.BeforeNodeChange(nodes_[i]);
  }
  // Hands out the remaining records of the delta and returns their number.
  size_t TakeAll() {
    size_t records = 0;
    while (tracker_.NextDeltaRecords(kPieceBytes, [&](auto, auto) { ++records; })) {
    }
    return records;
  }
  std::vector<uint32_t> Places() const {
    std::vector<uint32_t> places;
    places.reserve(nodes_.size());
    for (const Znode* node : nodes_) places.push_back(node->changed_at);
    return places;
  }

 private:
  NodeMemory memory_;
  AclTable acls_;
  SessionTable sessions_;
  ChangeTracker tracker_{&acls_, &sessions_};
  std::vector<Znode*> nodes_;
  Zxid zxid_{1};
};

struct Ending {
  size_t pieces = 0;
  size_t touched = 0;  // nodes
};

// Ends the delta, and checks what each piece does.
Ending End(Changed* changed, bool durable) {
  Ending ending;
  std::vector<uint32_t> places = changed->Places();
  for (bool more = true; more; ++ending.pieces) {
    const size_t in_use = BytesInUse();
    more = changed->tracker().EndDelta(durable, kPieceBytes);
    const size_t in_use_now = BytesInUse();
    CHECK(in_use - std::min(in_use, in_use_now) <= kFreedMax);
    std::vector<uint32_t> places_now = changed->Places();
    size_t touched = 0;
    for (size_t i = 0; i < places.size(); ++i) touched += places[i] != places_now[i] ? 1 : 0;
    CHECK(touched <= kTouchedMax);
    ending.touched += touched;
    places = std::move(places_now);
  }
  return ending;
}

TEST_CASE("each piece of ending a durable delta does bounded work, however large the delta is") {
  Changed changed;
  changed.Begin();
  CHECK(changed.TakeAll() == 1 + 3 * kChanges);
  const Ending ending = End(&changed, true);
  CHECK(ending.touched == 0);
  CHECK(ending.pieces >= kChanges * (sizeof(Znode*) + sizeof(NodeKey)) / kPieceBytes);
  changed.Begin();
  CHECK(changed.TakeAll() == 1);
}

TEST_CASE("each piece of returning a failed delta does bounded work, however large the delta is") {
  Changed changed;
  changed.Begin();
  SECTION("before any record was read") {}
  SECTION("after all records were read") { changed.TakeAll(); }
  const Ending ending = End(&changed, false);
  CHECK(ending.touched == kChanges);
  CHECK(ending.pieces >= kChanges * (sizeof(Znode) + sizeof(NodeKey)) / kPieceBytes);
  changed.Begin();
  CHECK(changed.TakeAll() == 1 + 3 * kChanges);
}

TEST_CASE("each piece of a failed delta drops records that changed again with bounded work") {
  Changed changed;
  changed.Begin();
  changed.ChangeAll();
  const Ending ending = End(&changed, false);
  CHECK(ending.touched == 0);
  CHECK(ending.pieces >= kChanges * (sizeof(Znode*) + sizeof(NodeKey)) / kPieceBytes);
  changed.Begin();
  CHECK(changed.TakeAll() == 1 + 3 * kChanges);
}

TEST_CASE("a node that changes while a failed delta ends is not put back a second time") {
  Changed changed;
  changed.Begin();
  REQUIRE(changed.tracker().EndDelta(false, kPieceBytes));
  const size_t in_use = BytesInUse();
  changed.ChangeAll();
  // The nodes are in the list of changes now, and their records are not needed any more.
  CHECK(BytesInUse() - in_use <= 2 * kChanges * sizeof(Znode*));
  const Ending ending = End(&changed, false);
  CHECK(ending.touched == 0);
  changed.Begin();
  CHECK(changed.TakeAll() == 1 + 3 * kChanges);
}

}  // namespace
}  // namespace quorate::tree
