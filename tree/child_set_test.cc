// SPDX-License-Identifier: Apache-2.0

#include "tree/child_set.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tree/hash.h"
#include "tree/znode.h"

namespace quorate::tree {
namespace {

// Owns nodes. Must outlive the set that contains them.
class Nodes {
 public:
  ~Nodes() {
    for (Znode* node : all_) Znode::Delete(node);
  }
  Znode* New(const std::string& name) {
    all_.push_back(Znode::New(&memory_, nullptr, name, kNoSession));
    return all_.back();
  }

 private:
  NodeMemory memory_;
  std::vector<Znode*> all_;
};

std::vector<std::string> Names(const ChildSet& set) {
  std::vector<std::string> names;
  set.ForEach([&names](Znode* node) { names.emplace_back(node->name()); });
  std::sort(names.begin(), names.end());
  return names;
}

TEST_CASE("child sets of all sizes find, list and erase children") {
  const bool reserves = GENERATE(false, true);
  for (size_t count : {0, 1, 2, 3, 8, 9, 16, 17, 18, 100, 447, 448, 449, 1000, 5000, 100'000}) {
    CAPTURE(count);
    Nodes nodes;
    std::vector<Znode*> children;
    std::vector<std::string> names;
    ChildSet set;
    if (reserves) set.Reserve(static_cast<uint32_t>(count));
    for (size_t i = 0; i < count; ++i) {
      names.push_back("node-" + std::to_string(i));
      children.push_back(nodes.New(names.back()));
      REQUIRE(set.Find(names.back()) == nullptr);
      if (i % 2 == 0) {
        set.Insert(children.back());
      } else {
        REQUIRE(set.FindOrInsert(children.back()) == nullptr);
      }
      REQUIRE(set.Find(names.back()) == children.back());
    }
    REQUIRE(set.size() == count);
    REQUIRE(set.empty() == (count == 0));
    for (size_t i = 0; i < count; ++i) REQUIRE(set.Find(names[i]) == children[i]);
    for (size_t i = 0; i < count; ++i) {
      REQUIRE(set.FindOrInsert(nodes.New(names[i])) == children[i]);
    }
    REQUIRE(set.size() == count);
    REQUIRE(set.Find("node-") == nullptr);
    REQUIRE(set.Find("") == nullptr);
    std::vector<std::string> sorted = names;
    std::sort(sorted.begin(), sorted.end());
    REQUIRE(Names(set) == sorted);

    // Erases every other child, and then the rest from the end.
    for (size_t i = 0; i < count; i += 2) set.Erase(children[i]);
    REQUIRE(set.size() == count / 2);
    for (size_t i = 0; i < count; ++i) {
      REQUIRE(set.Find(names[i]) == (i % 2 == 0 ? nullptr : children[i]));
    }
    for (size_t i = count; i-- > 0;) {
      if (i % 2 == 1) set.Erase(children[i]);
    }
    REQUIRE(set.empty());
    REQUIRE(Names(set).empty());
    if (count > 0) {
      set.Insert(children[0]);
      REQUIRE(set.Find(names[0]) == children[0]);
    }
  }
}

TEST_CASE("a child set agrees with a map under random changes of all sizes") {
  for (uint64_t seed : {1, 2, 3}) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    Nodes nodes;
    std::vector<Znode*> pool;
    for (int i = 0; i < 6000; ++i) pool.push_back(nodes.New("n" + std::to_string(i)));
    std::set<Znode*> expected;
    ChildSet set;
    // The target size jumps, so that the set crosses each change of layout in both directions.
    for (int phase = 0; phase < 40; ++phase) {
      static constexpr size_t kTargets[] = {0, 1, 2, 7, 12, 16, 17, 20, 60, 500, 2000, 6000};
      const size_t target = kTargets[random() % std::size(kTargets)];
      while (expected.size() != target) {
        Znode* node = pool[random() % pool.size()];
        const bool present = expected.count(node) > 0;
        REQUIRE(set.Find(node->name()) == (present ? node : nullptr));
        if (expected.size() < target && !present) {
          set.Insert(node);
          expected.insert(node);
        } else if (expected.size() > target && present) {
          set.Erase(node);
          expected.erase(node);
        }
      }
      REQUIRE(set.size() == expected.size());
      std::set<Znode*> listed;
      set.ForEach([&listed](Znode* node) { REQUIRE(listed.insert(node).second); });
      REQUIRE(listed == expected);
    }
  }
}

TEST_CASE("ForEachFrom visits groups in the order of positions, in each layout") {
  for (size_t count : {0, 1, 5, 16, 17, 300, 449, 5000}) {
    CAPTURE(count);
    Nodes nodes;
    ChildSet set;
    for (size_t i = 0; i < count; ++i) set.Insert(nodes.New("n" + std::to_string(i)));
    std::set<Znode*> listed;
    uint64_t position = ChildSet::kFirstPosition;
    do {
      const uint64_t from = position;
      size_t group = 0;
      position = set.ForEachFrom(position, 1, [&](Znode* node) {
        ++group;
        REQUIRE(listed.insert(node).second);
        REQUIRE(ChildSet::PositionOf(node->name()) >= from);
      });
      REQUIRE((position == ChildSet::kFirstPosition || position > from));
      REQUIRE(group < 600);
    } while (position != ChildSet::kFirstPosition);
    CHECK(listed.size() == count);
  }
}

// Uses names whose hashes agree in the bits that choose the segment, as an attacker could choose
// them.
TEST_CASE("names of one segment leave the set correct and do not grow the directory") {
  Nodes nodes;
  ChildSet set;
  std::vector<Znode*> children;
  for (uint64_t i = 0; children.size() < 1500; ++i) {
    const std::string name = std::to_string(i);
    if ((HashName(name) & 0xFF) != 0) continue;
    children.push_back(nodes.New(name));
    set.Insert(children.back());
  }
  for (Znode* child : children) REQUIRE(set.Find(child->name()) == child);
  REQUIRE(Names(set).size() == children.size());
  for (Znode* child : children) set.Erase(child);
  REQUIRE(set.empty());
}

TEST_CASE("a nearly empty segment is not joined with a part of a neighbour of greater depth") {
  Nodes nodes;
  ChildSet set;
  std::vector<Znode*> even;
  std::vector<Znode*> odd;
  for (uint64_t i = 0; even.size() < 20 || odd.size() < 3000; ++i) {
    const std::string name = std::to_string(i);
    std::vector<Znode*>& side = (HashName(name) & 1) == 0 ? even : odd;
    if (side.size() == (&side == &even ? 20u : 3000u)) continue;
    side.push_back(nodes.New(name));
    set.Insert(side.back());
  }
  std::vector<Znode*> kept;
  for (Znode* child : odd) {
    if ((HashName(child->name()) & 7) == 1) {
      set.Erase(child);
    } else {
      kept.push_back(child);
    }
  }
  for (Znode* child : even) set.Erase(child);
  REQUIRE(set.size() == kept.size());
  for (Znode* child : kept) REQUIRE(set.Find(child->name()) == child);
  REQUIRE(Names(set).size() == kept.size());
  for (Znode* child : odd) {
    if ((HashName(child->name()) & 7) == 1) set.Insert(child);
  }
  for (Znode* child : odd) REQUIRE(set.Find(child->name()) == child);
}

TEST_CASE("a cleared child set is empty") {
  for (size_t count : {1, 5, 100, 3000}) {
    Nodes nodes;
    ChildSet set;
    for (size_t i = 0; i < count; ++i) set.Insert(nodes.New(std::to_string(i)));
    set.Clear();
    CHECK(set.empty());
    CHECK(set.Find("0") == nullptr);
  }
}

}  // namespace
}  // namespace quorate::tree
