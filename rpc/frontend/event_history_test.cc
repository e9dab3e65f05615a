// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/event_history.h"

#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"

namespace quorate::rpc {
namespace {

constexpr auto kChanged = tree::EventType::kNodeDataChanged;

const Readers kEverybody;
const Readers kSomebody = std::make_shared<const std::vector<tree::Acl>>(
    std::vector<tree::Acl>{{tree::permission::kAll, {"digest", "u:hash"}}});

std::vector<Event> EventsAfter(const EventHistory& history, int64_t zxid) {
  std::vector<Event> events;
  EventHistory::Reader reader(history, history.NumberAfter(tree::Zxid(zxid)));
  while (!reader.at_end()) events.push_back(reader.Next());
  CHECK(reader.number() == history.next_number());
  return events;
}

std::vector<int64_t> ZxidsAfter(const EventHistory& history, int64_t zxid) {
  std::vector<int64_t> zxids;
  for (const Event& event : EventsAfter(history, zxid)) zxids.push_back(event.zxid.value());
  return zxids;
}

TEST_CASE("the events after a given zxid are found") {
  EventHistory history(1 << 20, tree::Zxid(4));
  for (int64_t zxid : {5, 7, 7, 9}) history.Add(kChanged, "/a", tree::Zxid(zxid), kEverybody);
  CHECK(history.oldest() == tree::Zxid(4));
  CHECK(ZxidsAfter(history, 4) == std::vector<int64_t>{5, 7, 7, 9});
  CHECK(ZxidsAfter(history, 5) == std::vector<int64_t>{7, 7, 9});
  CHECK(ZxidsAfter(history, 6) == std::vector<int64_t>{7, 7, 9});
  CHECK(ZxidsAfter(history, 7) == std::vector<int64_t>{9});
  CHECK(ZxidsAfter(history, 9).empty());
  CHECK(ZxidsAfter(history, 12).empty());
}

TEST_CASE("a reader of few paths skips most other events, and none of its own") {
  EventHistory history(1 << 20);
  int64_t zxid = 0;
  std::map<std::string, int> added;
  const auto add = [&](const std::string& path) {
    history.Add(kChanged, path, tree::Zxid(++zxid), kEverybody);
    ++added[path];
  };
  constexpr int kEvents = 30'000;
  for (int i = 0; i < kEvents; ++i) {
    add("/app" + std::to_string(i % 50) + "/node" + std::to_string(i));
    if (i % 10'000 == 5000) add("/rare/a/b");
    if (i == 12'345) add("/");
  }
  REQUIRE(history.oldest() == tree::Zxid(0));
  // Returns the events at or below `path` that a skipping reader finds; counts what it reads.
  int reads = 0;
  const auto find = [&](const std::string& path) {
    const std::vector<uint64_t> hashes = {EventHistory::HashOf(path)};
    std::map<std::string, int> found;
    reads = 0;
    EventHistory::Reader reader(history, history.NumberAfter(tree::Zxid(1)));
    for (;;) {
      if (reader.SkipOthers(hashes, 7) >= 7) continue;  // a few at a time
      if (reader.at_end()) break;
      const Event& event = reader.Next();
      ++reads;
      const bool is_below = path == "/" || event.path == path || event.path.starts_with(path + "/");
      if (is_below) ++found[event.path];
    }
    return found;
  };
  for (const std::string path : {"/rare/a/b", "/rare/a", "/rare"}) {
    CHECK(find(path) == std::map<std::string, int>{{"/rare/a/b", 3}});
    CHECK(reads < kEvents / 5);
  }
  CHECK(find("/nothing").empty());
  CHECK(reads < kEvents / 5);
  CHECK(find("/app7").size() == kEvents / 50);
  CHECK(find("/").size() == added.size() - 1);  // all, without the first event
  CHECK(find("/rar").empty());
}

TEST_CASE("making filters counts as work, so that a reader does not make all of them at once") {
  EventHistory history(1 << 20);
  for (int64_t zxid = 1; zxid <= 30'000; ++zxid) {
    history.Add(kChanged, "/node" + std::to_string(zxid), tree::Zxid(zxid), kEverybody);
  }
  constexpr size_t kWork = 4096;
  constexpr size_t kChunkMax = (16 << 10) / 5;  // the most events of a chunk
  const std::vector<uint64_t> hashes = {EventHistory::HashOf("/other")};
  EventHistory::Reader reader(history, 0);
  const size_t work = reader.SkipOthers(hashes, kWork);
  CHECK(work >= kWork);
  CHECK(reader.number() <= kWork + kChunkMax);
  // Where there are filters already, a chunk counts as one event.
  EventHistory::Reader again(history, 0);
  CHECK(again.SkipOthers(hashes, 1) == 1);
  CHECK(again.number() > 100);
}

TEST_CASE("the bytes of a history include the filters of its paths") {
  constexpr size_t kBytesMax = 1 << 20;
  EventHistory history(kBytesMax);
  for (int64_t zxid = 1; zxid <= 300'000; ++zxid) {
    history.Add(kChanged, "/a", tree::Zxid(zxid), kEverybody);
  }
  const uint64_t kept = history.next_number() - history.NumberAfter(history.oldest());
  constexpr uint64_t kEventBytes = 5;   // as encoded
  constexpr uint64_t kFilterBytes = 2;  // for one event
  CHECK(kept * (kEventBytes + kFilterBytes) <= kBytesMax);
  CHECK(kept * (kEventBytes + kFilterBytes) > kBytesMax / 2);
}

TEST_CASE("the oldest transactions are dropped first, each with all its events") {
  EventHistory history(1000);
  for (int64_t zxid = 1; zxid <= 100; ++zxid) {
    for (int i = 0; i < 3; ++i) {
      history.Add(kChanged, "/path-" + std::to_string(i), tree::Zxid(zxid), kEverybody);
    }
    CHECK(history.bytes() <= 1000);
    const std::vector<int64_t> kept = ZxidsAfter(history, history.oldest().value());
    CHECK(kept.size() == static_cast<size_t>(3 * (zxid - history.oldest().value())));
  }
  CHECK(history.oldest() > tree::Zxid(80));
  CHECK(history.oldest() < tree::Zxid(100));
  CHECK(history.IsLost(0));
  CHECK_FALSE(history.IsLost(history.next_number()));
}

TEST_CASE("a history of 0 bytes keeps no event") {
  EventHistory history(0);
  history.Add(kChanged, "/a", tree::Zxid(3), kEverybody);
  CHECK(history.oldest() == tree::Zxid(3));
  CHECK(ZxidsAfter(history, 3).empty());
  CHECK(history.bytes() == 0);
}

TEST_CASE("the events of a transaction that is too large get numbers, but none is kept") {
  EventHistory history(1000);
  history.Add(kChanged, "/before", tree::Zxid(2), kEverybody);
  const uint64_t first = history.next_number();
  const std::string name(100, 'n');
  for (uint64_t i = 0; i < 50; ++i) {
    history.Add(kChanged, "/" + name, tree::Zxid(3), kSomebody);
    CHECK(history.next_number() == first + i + 1);
    CHECK(history.bytes() <= 1000);
  }
  CHECK(history.oldest() == tree::Zxid(3));
  CHECK(history.IsLost(first));
  CHECK(ZxidsAfter(history, 3).empty());
  history.Add(kChanged, "/after", tree::Zxid(4), kEverybody);
  CHECK(ZxidsAfter(history, 3) == std::vector<int64_t>{4});
}

TEST_CASE("the events before a replacement of the tree are lost") {
  EventHistory history(1 << 20);
  history.Add(kChanged, "/a", tree::Zxid(1), kSomebody);
  const uint64_t next = history.next_number();
  history.Clear(tree::Zxid(50));
  CHECK(history.oldest() == tree::Zxid(50));
  CHECK(history.bytes() == 0);
  CHECK(history.IsLost(next));
  history.Add(kChanged, "/b", tree::Zxid(51), kSomebody);
  CHECK(ZxidsAfter(history, 50) == std::vector<int64_t>{51});
}

TEST_CASE("an event is read as it was added, whatever else is in its chunk") {
  EventHistory history(1 << 20);
  const Readers others = std::make_shared<const std::vector<tree::Acl>>(
      std::vector<tree::Acl>{{tree::permission::kWrite, {"ip", "10.0.0.1"}}});
  const Readers same_as_somebody = std::make_shared<const std::vector<tree::Acl>>(*kSomebody);
  const std::string long_path = "/" + std::string(100'000, 'n');
  history.Add(tree::EventType::kNodeCreated, "/a", tree::Zxid(3), kSomebody);
  history.Add(tree::EventType::kNodeDeleted, long_path, tree::Zxid(4), others);
  history.Add(kChanged, "/c", tree::Zxid(4), kEverybody);
  history.Add(kChanged, "/d", tree::Zxid(5), others);
  history.Add(kChanged, "/e", tree::Zxid(6), same_as_somebody);
  const std::vector<Event> events = EventsAfter(history, 0);
  REQUIRE(events.size() == 5);
  CHECK(events[0].type == tree::EventType::kNodeCreated);
  CHECK(events[0].path == "/a");
  CHECK(events[0].zxid == tree::Zxid(3));
  CHECK(*events[0].readers == *kSomebody);
  CHECK(events[1].type == tree::EventType::kNodeDeleted);
  CHECK(events[1].path == long_path);
  CHECK(*events[1].readers == *others);
  CHECK(events[2].path == "/c");
  CHECK(events[2].readers == nullptr);
  CHECK(events[3].readers == others);
  CHECK(*events[4].readers == *kSomebody);
  // Reading can begin at each event.
  for (uint64_t number = 0; number < 5; ++number) {
    EventHistory::Reader reader(history, number);
    CHECK(reader.Next().path == events[number].path);
    CHECK(reader.number() == number + 1);
  }
}

TEST_CASE("a creation or deletion keeps the readers of the parent, also after a restart") {
  EventHistory history(1 << 20);
  history.Add(tree::EventType::kNodeCreated, "/a/b", tree::Zxid(3), kSomebody, kEverybody);
  history.Add(tree::EventType::kNodeDeleted, "/a/b", tree::Zxid(4), kEverybody, kSomebody);
  history.Add(kChanged, "/a/b", tree::Zxid(5), kSomebody);
  EventHistory restored(1 << 20, tree::Zxid(5));
  const std::string part = history.Take()->Encode(0);
  REQUIRE(restored.Restore({&part, 1}, tree::Zxid(5)).ok());
  for (const EventHistory* each : {&history, &restored}) {
    const std::vector<Event> events = EventsAfter(*each, 0);
    REQUIRE(events.size() == 3);
    CHECK(*events[0].readers == *kSomebody);
    CHECK(events[0].parent_readers == nullptr);
    CHECK(events[1].readers == nullptr);
    CHECK(*events[1].parent_readers == *kSomebody);
    CHECK(*events[2].readers == *kSomebody);
  }
}

TEST_CASE("events in the old format are for the readers of the znode, not of the parent") {
  std::string part;
  LittleEndianWriter writer(&part);
  writer.Int<uint8_t>(1);
  writer.Int<int64_t>(2);   // base
  writer.Int<uint64_t>(2);  // events
  writer.Int<uint32_t>(1);  // lists
  writer.Int<uint32_t>(1);
  writer.Int<int32_t>(tree::permission::kAll);
  writer.String("digest");
  writer.String("u:hash");
  const auto created = static_cast<char>(tree::EventType::kNodeCreated);
  const auto changed = static_cast<char>(kChanged);
  part += std::string{1, created, 1, 0, 2, '/', 'a'};
  part += std::string{1, changed, 0, 2, 0};
  EventHistory restored(1 << 20, tree::Zxid(9));
  REQUIRE(restored.Restore({&part, 1}, tree::Zxid(9)).ok());
  const std::vector<Event> events = EventsAfter(restored, 2);
  REQUIRE(events.size() == 2);
  CHECK(events[0].path == "/a");
  CHECK(*events[0].parent_readers == *kSomebody);
  CHECK(events[1].path == "/a");
  CHECK(events[1].readers == nullptr);
}

TEST_CASE("an access control list is stored once for many events") {
  EventHistory history(1 << 20);
  history.Add(kChanged, "/a", tree::Zxid(1), kSomebody);
  const size_t bytes = history.bytes();
  for (int64_t zxid = 2; zxid < 100; ++zxid) {
    history.Add(kChanged, "/b", tree::Zxid(zxid),
                std::make_shared<const std::vector<tree::Acl>>(*kSomebody));
  }
  CHECK(history.bytes() == bytes);  // all in one preallocated chunk
  const std::vector<Event> events = EventsAfter(history, 0);
  CHECK(events.front().readers == events.back().readers);
}

TEST_CASE("long lists and paths count, and do not displace all events at once") {
  EventHistory history(1 << 20);
  const auto long_list = [](int64_t i) {
    std::vector<tree::Acl> acl(100);
    acl[0] = {tree::permission::kAll, {"digest", "u:" + std::to_string(i)}};
    return std::make_shared<const std::vector<tree::Acl>>(std::move(acl));
  };
  for (int64_t zxid = 1; zxid <= 1000; ++zxid) {
    const std::string path = "/" + std::string(zxid % 3 == 0 ? 30'000 : 10, 'n');
    history.Add(kChanged, path, tree::Zxid(zxid), zxid % 2 == 0 ? long_list(zxid) : kEverybody);
    REQUIRE(history.bytes() <= 1 << 20);
  }
  CHECK(history.oldest() < tree::Zxid(980));
}

TEST_CASE("an event takes its path and a few bytes") {
  EventHistory history(1 << 20);
  const std::string directory = "/services/storage/region-west/instances/";
  int64_t zxid = 0;
  while (history.oldest() == tree::Zxid(0)) {
    ++zxid;
    history.Add(kChanged, directory + std::to_string(1'000'000 + zxid * 7919 % 1'000'000),
                tree::Zxid(zxid), kEverybody);
  }
  CHECK(zxid - history.oldest().value() > (1 << 20) / 13);
}

// --- Beside a checkpoint -------------------------------------------------------------------------

std::vector<std::string> EncodedBy(const RecentEvents& events) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < events.parts().size(); ++i) parts.push_back(events.Encode(i));
  return parts;
}

std::vector<std::string> Encoded(const EventHistory& history) { return EncodedBy(*history.Take()); }

void CheckSame(const std::vector<Event>& some, const std::vector<Event>& others) {
  REQUIRE(some.size() == others.size());
  for (size_t i = 0; i < some.size(); ++i) {
    CHECK(some[i].type == others[i].type);
    CHECK(some[i].path == others[i].path);
    CHECK(some[i].zxid == others[i].zxid);
    REQUIRE((some[i].readers == nullptr) == (others[i].readers == nullptr));
    if (some[i].readers != nullptr) CHECK(*some[i].readers == *others[i].readers);
  }
}

// Adds three events of each zxid. A chunk may begin between events of one zxid.
void AddMany(EventHistory* history, int64_t first, int64_t last) {
  for (int64_t zxid = first; zxid <= last; ++zxid) {
    for (int i = 0; i < 3; ++i) {
      history->Add(i == 1 ? tree::EventType::kNodeCreated : kChanged,
                   "/path" + std::to_string(zxid * 7 + i), tree::Zxid(zxid),
                   (zxid + i) % 5 == 0 ? kSomebody : kEverybody);
    }
  }
}

TEST_CASE("events stored with a checkpoint are restored") {
  for (int64_t events : {1, 2, 50, 1000}) {
    CAPTURE(events);
    EventHistory history(8 << 10, tree::Zxid(4));
    AddMany(&history, 5, 4 + events);
    const std::vector<std::string> parts = Encoded(history);
    CHECK((parts.size() > 1) == (events >= 50));
    const int64_t zxid = 10 + events;
    EventHistory restored(1 << 20);
    restored.Clear(tree::Zxid(zxid));
    REQUIRE(restored.Restore(parts, tree::Zxid(zxid)).ok());
    const tree::Zxid oldest = history.oldest();
    CHECK(restored.oldest() == oldest);
    CheckSame(EventsAfter(restored, oldest.value()), EventsAfter(history, oldest.value()));
    restored.Add(kChanged, "/next", tree::Zxid(zxid + 1), kSomebody);
    CHECK(ZxidsAfter(restored, zxid) == std::vector<int64_t>{zxid + 1});
  }
}

TEST_CASE("the result of Take does not change, and later results have the same parts") {
  EventHistory history(16 << 10);
  AddMany(&history, 1, 300);
  const auto events = history.Take();
  const std::vector<std::string> before = EncodedBy(*events);
  const std::vector<Event> wanted = EventsAfter(history, history.oldest().value());
  AddMany(&history, 301, 400);
  const auto later = history.Take();
  std::map<std::pair<uint64_t, size_t>, std::string> same;
  for (size_t i = 0; i < later->parts().size(); ++i) {
    same[{later->parts()[i].number, later->parts()[i].bytes}] = later->Encode(i);
  }
  size_t found = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    const auto part = same.find({events->parts()[i].number, events->parts()[i].bytes});
    if (part == same.end()) continue;
    ++found;
    CHECK(part->second == before[i]);
  }
  CHECK(found > 0);
  CHECK(found < before.size());  // the last part has grown, and the first parts are gone
  AddMany(&history, 401, 2000);
  CHECK(EncodedBy(*events) == before);
  EventHistory restored(1 << 20, tree::Zxid(300));
  REQUIRE(restored.Restore(before, tree::Zxid(300)).ok());
  CheckSame(EventsAfter(restored, restored.oldest().value()), wanted);
}

TEST_CASE("a smaller history restores the newest events of a checkpoint") {
  EventHistory history(1 << 20);
  const std::string name(50, 'n');
  for (int64_t zxid = 1; zxid <= 50; ++zxid) {
    for (int i = 0; i < 10; ++i) {
      history.Add(kChanged, "/" + std::to_string(zxid * 7 + i) + name, tree::Zxid(zxid), kSomebody);
    }
  }
  for (size_t bytes_max : {0, 300, 5000}) {
    EventHistory restored(bytes_max, tree::Zxid(50));
    REQUIRE(restored.Restore(Encoded(history), tree::Zxid(50)).ok());
    CHECK(restored.bytes() <= bytes_max);
    CHECK(restored.oldest() > tree::Zxid(0));
    const int64_t oldest = restored.oldest().value();
    CHECK(ZxidsAfter(restored, oldest) == ZxidsAfter(history, oldest));
    restored.Add(kChanged, "/next", tree::Zxid(51), kEverybody);
    CHECK(restored.oldest() >= tree::Zxid(oldest));
  }
}

TEST_CASE("a checkpoint without events restores that there were none") {
  EventHistory history(1 << 20, tree::Zxid(9));
  const std::vector<std::string> parts = Encoded(history);
  EventHistory restored(1 << 20, tree::Zxid(12));
  REQUIRE(restored.Restore(parts, tree::Zxid(12)).ok());
  CHECK(restored.oldest() == tree::Zxid(9));
  CHECK(ZxidsAfter(restored, 9).empty());
  restored.Add(kChanged, "/a", tree::Zxid(13), kEverybody);
  CHECK(ZxidsAfter(restored, 9) == std::vector<int64_t>{13});
  // The first events make another part, or a longer one.
  const auto before = history.Take()->parts();
  history.Add(kChanged, "/a", tree::Zxid(10), kEverybody);
  const auto after = history.Take()->parts();
  REQUIRE(after.size() == 1);
  CHECK((after[0].number != before[0].number || after[0].bytes != before[0].bytes));
  CHECK(before[0].bytes == parts[0].size());
}

TEST_CASE("parts that no history has encoded are refused, and no event is restored") {
  EventHistory history(1 << 20);
  history.Add(kChanged, "/a", tree::Zxid(3), kSomebody);
  history.Add(kChanged, "/b", tree::Zxid(5), kEverybody);
  const std::vector<std::string> encoded = Encoded(history);
  REQUIRE(encoded.size() == 1);
  const std::string& part = encoded.front();
  const auto restore = [](const std::vector<std::string>& parts, int64_t zxid = 8) {
    EventHistory restored(1 << 20, tree::Zxid(zxid));
    const absl::Status status = restored.Restore(parts, tree::Zxid(zxid));
    if (!status.ok()) {
      CHECK(absl::IsDataLoss(status));
      CHECK(restored.oldest() == tree::Zxid(zxid));
      CHECK(restored.bytes() == 0);
    }
    return status.ok();
  };
  CHECK(restore(encoded));
  CHECK_FALSE(restore({""}));
  CHECK_FALSE(restore(encoded, 4));  // events of a later tree
  for (size_t size = 1; size < part.size(); ++size) {
    CHECK_FALSE(restore({part.substr(0, size)}));
  }
  CHECK_FALSE(restore({part + "x"}));
  CHECK_FALSE(restore({part, part}));  // the second part does not follow the first
  std::string other_path = part;
  other_path[other_path.size() - 2] = 'b';
  CHECK_FALSE(restore({other_path}));
}

TEST_CASE("a missing part between others is detected") {
  EventHistory history(8 << 10);
  AddMany(&history, 1, 200);
  std::vector<std::string> parts = Encoded(history);
  REQUIRE(parts.size() > 3);
  parts.erase(parts.begin() + 1);
  EventHistory restored(1 << 20, tree::Zxid(200));
  CHECK(absl::IsDataLoss(restored.Restore(parts, tree::Zxid(200))));
  CHECK(restored.oldest() == tree::Zxid(200));
}

}  // namespace
}  // namespace quorate::rpc
