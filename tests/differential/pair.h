// SPDX-License-Identifier: Apache-2.0

// The same clients at both servers: performs each operation at both, and compares the results.
//
// Thread-safety: belongs to one thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/differential/client.h"
#include "tests/differential/comparison.h"
#include "tests/differential/operation.h"
#include "tests/differential/servers.h"
#include "tests/differential/spoiler.h"

namespace quorate::differential {

class Pair {
 public:
  // `comparison` and `spoiler` must outlive it.
  Pair(const Addresses& addresses, Comparison* comparison, Spoiler* spoiler);

  // Performs the operation at both servers, and compares what all clients have seen of it.
  std::vector<Difference> Do(const Operation& operation);

  // Compares the trees, as a client that may read everything.
  std::vector<Difference> CompareTrees();

  // Drops all connections, and with them watches and identities, in which the servers may differ
  // without notice. Ends sessions that exist at only one server.
  void DropConnections();

  // Ends all sessions, removes all nodes, and makes the versions of the nodes that cannot be
  // removed equal. Returns false if the servers could not be made equal.
  bool Reset();

 private:
  static constexpr size_t kReference = 0;
  static constexpr size_t kOurs = 1;
  static constexpr std::array<size_t, 2> kBoth{kReference, kOurs};

  std::vector<Difference> DoConnected(const Operation& operation);
  void Observe(const Operation& operation, int asked, std::vector<Difference>* differences);
  void Settle(int slot);
  void EndSession(size_t server, int slot);
  // Returns one server's answer to a request of the admin client, which may do everything.
  Answer Ask(size_t server, Request request);
  bool ConnectAdmin();
  void RemoveTree(size_t server, const std::string& path, bool itself);
  bool Equalize(const std::string& path);
  void RaiseVersions(size_t server, const std::string& path, int64_t version, int64_t aversion,
                     int64_t creates);

  Comparison& comparison_;
  Spoiler& spoiler_;
  std::array<int64_t, 2> newest_zxids_{};
  std::array<std::vector<Client>, 2> clients_;
  std::array<std::unique_ptr<Client>, 2> admins_;
};

}  // namespace quorate::differential
