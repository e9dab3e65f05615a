// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/memory_budget.h"

#include <catch2/catch.hpp>
#include <string>

#include "rpc/frontend/counted_bytes.h"

namespace quorate::rpc {
namespace {

TEST_CASE("memory is low from seven eighths of the limit until it is below three quarters") {
  MemoryBudget budget;
  CHECK_FALSE(budget.OnMeasured(1'000'000));
  CHECK_FALSE(budget.low());  // there is no limit
  budget.SetLimit(800);
  CHECK_FALSE(budget.OnMeasured(699));
  CHECK(budget.OnMeasured(700));
  CHECK(budget.low());
  CHECK_FALSE(budget.OnMeasured(600));
  CHECK(budget.low());
  CHECK(budget.OnMeasured(599));
  CHECK_FALSE(budget.low());
  CHECK(budget.measurements() == 5);
}

TEST_CASE("the bound is the one that ends low memory while memory is low") {
  MemoryBudget budget;
  CHECK_FALSE(budget.exceeds_bound(1'000'000));  // there is no limit
  budget.SetLimit(800);
  CHECK_FALSE(budget.exceeds_bound(650));
  CHECK(budget.exceeds_bound(700));
  budget.OnMeasured(700);
  CHECK(budget.exceeds_bound(650));
  CHECK_FALSE(budget.exceeds_bound(599));
  budget.OnMeasured(599);
  CHECK_FALSE(budget.exceeds_bound(650));
}

TEST_CASE("what is kept for nodes to come is free") {
  MemoryBudget budget;
  budget.SetLimit(800);
  CHECK_FALSE(budget.OnMeasured(790, 100, 91));
  CHECK(budget.OnMeasured(790, 100, 90));
  CHECK(budget.OnMeasured(790, 100, 191));
}

TEST_CASE("clients exceed what they may take only if the tree is not all of it") {
  MemoryBudget budget;
  budget.SetLimit(800);
  CHECK_FALSE(budget.OnMeasured(600, 0));
  CHECK_FALSE(budget.clients_exceed());  // there is enough memory
  CHECK(budget.OnMeasured(750, 650));
  CHECK(budget.low());
  CHECK_FALSE(budget.clients_exceed());
  CHECK_FALSE(budget.OnMeasured(750, 649));
  CHECK(budget.clients_exceed());
  CHECK(budget.OnMeasured(100, 0));
  CHECK_FALSE(budget.clients_exceed());
}

TEST_CASE("what clients take between two measurements counts at once") {
  MemoryBudget budget;
  budget.Add(MemoryUse::kRequests, 50);
  CHECK_FALSE(budget.clients_exceed());  // there is no limit
  budget.SetLimit(800);
  CHECK_FALSE(budget.OnMeasured(590));
  budget.Add(MemoryUse::kRequests, 100);
  CHECK_FALSE(budget.clients_exceed());  // the uses have grown little since
  budget.Add(MemoryUse::kUnsent, 10);
  CHECK(budget.clients_exceed());
  CHECK_FALSE(budget.OnMeasured(600));  // the measurement now includes the growth
  CHECK_FALSE(budget.clients_exceed());
}

TEST_CASE("replies exceed their share from a quarter of the limit on") {
  MemoryBudget budget;
  budget.Add(MemoryUse::kUnsent, 1'000'000);
  CHECK_FALSE(budget.replies_exceed());
  budget.Add(MemoryUse::kUnsent, 100 - 1'000'000);
  budget.SetLimit(800);
  budget.Add(MemoryUse::kRequests, 700);
  budget.Add(MemoryUse::kReads, 100);
  CHECK_FALSE(budget.replies_exceed());
  budget.Add(MemoryUse::kReads, 1);
  CHECK(budget.replies_exceed());
  budget.Add(MemoryUse::kReads, -1);
  CHECK_FALSE(budget.replies_exceed());
}

TEST_CASE("counted bytes are given back with what counts them") {
  MemoryBudget budget;
  {
    CountedBytes counted(&budget, MemoryUse::kReads);
    counted.Set(100);
    counted.Set(70);
    CHECK(budget.used(MemoryUse::kReads) == 70);
    CHECK(counted.bytes() == 70);
  }
  CHECK(budget.used(MemoryUse::kReads) == 0);
}

TEST_CASE("the process and the machine are measured") {
  CHECK(DefaultMemoryLimit() > 16u << 20);
  const std::string large(32u << 20, 'x');
  CHECK(MeasureResidentBytes() > large.size());
}

}  // namespace
}  // namespace quorate::rpc
