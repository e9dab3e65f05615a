// SPDX-License-Identifier: Apache-2.0

// Generates sequences of operations of several clients on few paths, so that they collide.
//
// Thread-safety: belongs to one thread.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/differential/operation.h"
#include "tests/differential/requests.h"

namespace quorate::differential {

inline constexpr int kClients = 4;

class Generator {
 public:
  // The same seed generates the same operations; they do not depend on the servers' answers.
  // `without`: the names (OpName) of requests that are not generated.
  explicit Generator(uint64_t seed, std::set<std::string> without = {})
      : without_(std::move(without)), random_(seed), with_quotas_(Chance(400)) {
    for (Style& style : styles_) {
      style = OneOf({Style::kOneShot, Style::kOneShot, Style::kPersistent, Style::kRecursive});
    }
  }

  Operation Next();

 private:
  // 0 to `count` - 1.
  uint64_t Below(uint64_t count) { return random_() % count; }
  bool Chance(uint64_t per_mille) { return Below(1000) < per_mille; }
  template <typename T>
  T OneOf(std::initializer_list<T> values) {
    return *(values.begin() + Below(values.size()));
  }

  Operation Connect();
  Operation Requests();
  // Returns a request that may end the connection, and must therefore be sent alone.
  Request Alone();
  Request Any();
  Request AnyAtAll();
  bool IsWanted(const Request& request) const;
  Request Write();
  Request Read();
  Request Watching();
  Request Other();
  Request Create();
  Request Quota();
  Request Multi();
  Request MultiItem();
  Request MultiRead();
  bool Watches();
  Request SetWatches();
  Request Auth(bool right);
  Request Malformed();
  Request Raw();

  std::string GoodPath();
  Text Path();
  Text PathToWrite();
  Text BadPath();
  Text Data();
  Text SmallData();
  int32_t Version();
  AclEntries Acl();
  AclEntry BadAclEntry();
  void GiveXid(int slot, Request* request);

  const std::set<std::string> without_;
  std::mt19937_64 random_;
  // ZooKeeper checks a quota against the tree without the writes in flight, so that a pipeline of
  // writes may or may not exceed it: quotas are tested without pipelines.
  const bool with_quotas_;
  // The kind of watches that each client sets: one only, because ZooKeeper 3.8 keeps only the last
  // kind if one client has several on one path.
  enum class Style { kOneShot, kPersistent, kRecursive };
  std::array<Style, kClients> styles_{};
  int slot_ = 0;  // the client whose request is being generated
  int32_t last_xid_ = 0;
};

}  // namespace quorate::differential
