// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/native/scoped_watches.h"

#include <catch2/catch.hpp>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace quorate::rpc::native {
namespace {

std::vector<uint64_t> Find(const ScopedWatches& watches, std::string_view path) {
  std::vector<uint64_t> numbers;
  watches.Find(path, &numbers);
  return numbers;
}

TEST_CASE("the scope of a watch determines how far below its path events are found") {
  ScopedWatches watches;
  watches.Add(1, "/a", Scope::kNode);
  watches.Add(2, "/a", Scope::kChildren);
  watches.Add(3, "/a", Scope::kSubtree);
  watches.Add(4, "/", Scope::kChildren);
  watches.Add(5, "/", Scope::kSubtree);
  CHECK(Find(watches, "/a") == std::vector<uint64_t>{1, 2, 3, 4, 5});
  CHECK(Find(watches, "/a/b") == std::vector<uint64_t>{2, 3, 5});
  CHECK(Find(watches, "/a/b/c") == std::vector<uint64_t>{3, 5});
  CHECK(Find(watches, "/ab") == std::vector<uint64_t>{4, 5});
  CHECK(Find(watches, "/") == std::vector<uint64_t>{4, 5});
}

TEST_CASE("a watcher that was added twice stays until it was removed twice") {
  ScopedWatches watches;
  watches.Add(7, "/a", Scope::kSubtree);
  watches.Add(7, "/a", Scope::kSubtree);
  CHECK(Find(watches, "/a/b") == std::vector<uint64_t>{7});
  watches.Remove(7, "/a", Scope::kSubtree);
  CHECK(Find(watches, "/a/b") == std::vector<uint64_t>{7});
  watches.Remove(7, "/a", Scope::kSubtree);
  CHECK(Find(watches, "/a/b").empty());
  CHECK(watches.empty());
}

TEST_CASE("Find returns exactly the watches that cover the path") {
  const std::vector<std::string> paths = {"/", "/a", "/b", "/a/a", "/a/b", "/a/a/a", "/aa"};
  std::mt19937 random(7);
  const auto below = [&](size_t limit) { return random() % limit; };
  std::multiset<std::tuple<uint64_t, std::string, Scope>> model;
  ScopedWatches watches;
  for (int step = 0; step < 3000; ++step) {
    if (model.empty() || below(3) > 0) {
      const auto watch =
          std::tuple(below(9), paths[below(paths.size())], static_cast<Scope>(below(kScopes)));
      model.insert(watch);
      watches.Add(std::get<0>(watch), std::get<1>(watch), std::get<2>(watch));
    } else {
      auto it = model.begin();
      std::advance(it, below(model.size()));
      watches.Remove(std::get<0>(*it), std::get<1>(*it), std::get<2>(*it));
      model.erase(it);
    }
    const std::string& path = paths[below(paths.size())];
    std::set<uint64_t> expected;
    for (const auto& [number, watched, scope] : model) {
      if (Sees(scope, watched, path)) expected.insert(number);
    }
    REQUIRE(Find(watches, path) == std::vector<uint64_t>(expected.begin(), expected.end()));
  }
}

}  // namespace
}  // namespace quorate::rpc::native
