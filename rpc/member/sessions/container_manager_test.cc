// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/sessions/container_manager.h"

#include <algorithm>
#include <catch2/catch.hpp>

namespace quorate::rpc {
namespace {

// Removes as many of `*left` nodes as allowed within `ms`, in ticks of 10 ms. Returns how many were
// removed.
size_t Pass(ContainerManager* manager, int64_t ms, size_t* left) {
  size_t removed = 0;
  for (int64_t passed = 0; passed < ms; passed += 10) {
    manager->Advance(10);
    const size_t found = std::min(manager->allowed(), *left);
    if (manager->allowed() > 0) manager->OnFound(found);
    removed += found;
    *left -= found;
  }
  return removed;
}

TEST_CASE("nodes are looked for once an interval") {
  ContainerManager manager(1000, 60'000);
  manager.Advance(999);
  CHECK(manager.allowed() == 0);
  manager.Advance(1);
  CHECK(manager.allowed() == 1);
  manager.OnFound(0);
  CHECK(manager.allowed() == 0);
  manager.Advance(500);
  CHECK(manager.allowed() == 0);
  manager.Advance(500);
  CHECK(manager.allowed() == 1);
}

TEST_CASE("a round removes as many a minute as are allowed, and goes on to the end") {
  ContainerManager manager(1000, 600);  // one removal each 100 ms
  size_t left = 1000;
  CHECK(Pass(&manager, 990, &left) == 0);
  CHECK(Pass(&manager, 10, &left) == 1);
  CHECK(Pass(&manager, 10'000, &left) == 100);
  left = 3;
  CHECK(Pass(&manager, 1000, &left) == 3);
  left = 5;
  CHECK(Pass(&manager, 1000, &left) >= 1);
}

TEST_CASE("however fast, there is a limit to what is removed at once") {
  ContainerManager manager(1000, 1'000'000'000);
  manager.Advance(1000);
  manager.OnFound(1);
  manager.Advance(100'000'000);
  CHECK(manager.allowed() == 512);
}

TEST_CASE("a slow rate is kept to") {
  ContainerManager manager(1000, 1);
  size_t left = 100;
  CHECK(Pass(&manager, 10 * 60'000, &left) <= 11);
  CHECK(left <= 91);
}

TEST_CASE("a new leader waits for an interval") {
  ContainerManager manager(1000, 60'000);
  manager.Advance(1000);
  CHECK(manager.allowed() > 0);
  manager.Reset();
  CHECK(manager.allowed() == 0);
  manager.Advance(999);
  CHECK(manager.allowed() == 0);
  manager.Advance(1);
  CHECK(manager.allowed() == 1);
}

}  // namespace
}  // namespace quorate::rpc
