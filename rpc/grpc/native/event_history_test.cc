#include "rpc/grpc/native/event_history.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace quorate::rpc::native {
namespace {

constexpr auto kChanged = tree::EventType::kNodeDataChanged;

const std::vector<tree::Acl> kOpen = tree::OpenAcl();
const std::vector<tree::Acl> kPrivate = {{tree::permission::kAll, {"digest", "u:hash"}}};

std::vector<int64_t> ZxidsAfter(const EventHistory& history, int64_t zxid) {
  std::vector<int64_t> zxids;
  for (uint64_t i = history.NumberAfter(tree::Zxid(zxid)); i < history.next_number(); ++i) {
    zxids.push_back(history.At(i).zxid.value());
  }
  return zxids;
}

TEST_CASE("events are found behind the zxid that was seen") {
  EventHistory history(1 << 20, tree::Zxid(4));
  for (int64_t zxid : {5, 7, 7, 9}) history.Add(kChanged, "/a", tree::Zxid(zxid), kOpen);
  CHECK(history.oldest() == tree::Zxid(4));
  CHECK(ZxidsAfter(history, 4) == std::vector<int64_t>{5, 7, 7, 9});
  CHECK(ZxidsAfter(history, 5) == std::vector<int64_t>{7, 7, 9});
  CHECK(ZxidsAfter(history, 6) == std::vector<int64_t>{7, 7, 9});
  CHECK(ZxidsAfter(history, 7) == std::vector<int64_t>{9});
  CHECK(ZxidsAfter(history, 9).empty());
  CHECK(ZxidsAfter(history, 12).empty());
}

TEST_CASE("the oldest transactions make room, each with all of its events") {
  EventHistory history(2000);
  for (int64_t zxid = 1; zxid <= 100; ++zxid) {
    for (int i = 0; i < 3; ++i) {
      history.Add(kChanged, "/path-" + std::to_string(i), tree::Zxid(zxid), kOpen);
    }
    CHECK(history.bytes() <= 2000);
    const std::vector<int64_t> kept = ZxidsAfter(history, history.oldest().value());
    CHECK(kept.size() == static_cast<size_t>(3 * (zxid - history.oldest().value())));
  }
  CHECK(history.oldest() > tree::Zxid(90));
  CHECK(history.oldest() < tree::Zxid(100));
  CHECK(history.IsLost(0));
  CHECK_FALSE(history.IsLost(history.next_number()));
}

TEST_CASE("a history of no bytes knows nothing but the present") {
  EventHistory history(0);
  history.Add(kChanged, "/a", tree::Zxid(3), kOpen);
  CHECK(history.oldest() == tree::Zxid(3));
  CHECK(ZxidsAfter(history, 3).empty());
  CHECK(history.bytes() == 0);
}

TEST_CASE("a transaction that is too large to be kept is told of and lost as a whole") {
  EventHistory history(1000);
  history.Add(kChanged, "/before", tree::Zxid(2), kOpen);
  const uint64_t first = history.next_number();
  const std::string name(100, 'n');
  for (uint64_t i = 0; i < 50; ++i) {
    const auto event = history.Add(kChanged, "/" + name, tree::Zxid(3), kPrivate);
    CHECK(event->zxid == tree::Zxid(3));
    CHECK(event->readers != nullptr);
    CHECK(history.next_number() == first + i + 1);
    CHECK(history.bytes() <= 1000);
  }
  CHECK(history.oldest() == tree::Zxid(3));
  CHECK(history.IsLost(first));
  CHECK(ZxidsAfter(history, 3).empty());
  history.Add(kChanged, "/after", tree::Zxid(4), kOpen);
  CHECK(ZxidsAfter(history, 3) == std::vector<int64_t>{4});
}

TEST_CASE("nothing is known of what was before another tree") {
  EventHistory history(1 << 20);
  history.Add(kChanged, "/a", tree::Zxid(1), kPrivate);
  const uint64_t next = history.next_number();
  history.Clear(tree::Zxid(50));
  CHECK(history.oldest() == tree::Zxid(50));
  CHECK(history.bytes() == 0);
  CHECK(history.IsLost(next));
  history.Add(kChanged, "/b", tree::Zxid(51), kPrivate);
  CHECK(ZxidsAfter(history, 50) == std::vector<int64_t>{51});
}

TEST_CASE("a list is kept once, as long as an event has it") {
  EventHistory history(5000);
  const auto first = history.Add(kChanged, "/a", tree::Zxid(1), kPrivate);
  const size_t bytes = history.bytes();
  const auto second = history.Add(kChanged, "/b", tree::Zxid(2), kPrivate);
  REQUIRE(first->readers != nullptr);
  CHECK(first->readers == second->readers);
  CHECK(history.bytes() - bytes < bytes);
  CHECK(history.Add(kChanged, "/c", tree::Zxid(3), kOpen)->readers == nullptr);
  for (int64_t zxid = 4; zxid < 200; ++zxid) history.Add(kChanged, "/c", tree::Zxid(zxid), kOpen);
  CHECK(first.use_count() == 1);
  CHECK(first->readers.use_count() == 2);  // with the second event
}

}  // namespace
}  // namespace quorate::rpc::native
