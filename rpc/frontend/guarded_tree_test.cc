// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/guarded_tree.h"

#include <catch2/catch.hpp>
#include <optional>
#include <thread>

namespace quorate::rpc {
namespace {

TEST_CASE("a writer that finds the lock free waits for nothing") {
  GuardedTree tree;
  { const GuardedTree::WriteGuard guard = tree.Write(); }
  { const GuardedTree::ReadGuard guard = tree.Read(); }
  { const GuardedTree::WriteGuard guard = tree.Write(); }
  CHECK(tree.waits().count == 0);
  CHECK(tree.waits().longest_us == 0);
}

TEST_CASE("how long a writer waits for readers is counted") {
  GuardedTree tree;
  // A writer that comes so late that it need not wait is not counted; then the test tries again.
  while (tree.waits().over_5ms == 0) {
    std::optional<GuardedTree::ReadGuard> reader = tree.Read();
    std::thread writer([&] { const GuardedTree::WriteGuard guard = tree.Write(); });
    std::this_thread::sleep_for(std::chrono::milliseconds(6));
    reader.reset();
    writer.join();
  }
  const TreeLockWaits waits = tree.waits();
  CHECK(waits.over_1ms >= waits.over_5ms);
  CHECK(waits.count >= waits.over_1ms);
  CHECK(waits.longest_us > 5000);
}

TEST_CASE("a reader knows whether it has waited for the lock") {
  GuardedTree tree;
  {
    const GuardedTree::ReadGuard guard = tree.Read();
    CHECK(!guard.has_waited());
  }
  CHECK(tree.read_waits() == 0);
  std::optional<GuardedTree::WriteGuard> writer = tree.Write();
  bool has_waited = false;
  std::thread reader([&] {
    const GuardedTree::ReadGuard guard = tree.Read();
    has_waited = guard.has_waited();
  });
  while (tree.read_waits() == 0) std::this_thread::yield();
  writer.reset();
  reader.join();
  CHECK(has_waited);
}

}  // namespace
}  // namespace quorate::rpc
