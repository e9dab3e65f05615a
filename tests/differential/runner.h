// SPDX-License-Identifier: Apache-2.0

// Runs episodes: sequences of operations at both servers, each from empty trees. Collects the
// differences, one of each kind, and finds out which operations lead to it.
//
// Thread-safety: belongs to one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/differential/comparison.h"
#include "tests/differential/pair.h"
#include "tests/differential/servers.h"
#include "tests/differential/spoiler.h"

namespace quorate::differential {

struct RunOptions {
  uint64_t seed = 1;
  int64_t operations = 0;
  size_t members = 1;  // servers on each side
  int64_t episode_operations = 500;
  // The number of operations between two comparisons of the whole tree.
  int64_t tree_operations = 100;
  std::set<std::string> without;  // names of requests that are not generated
  // Whether to reduce the operations that lead to each kind of difference.
  bool shrink = true;
  // Ends the run after so many kinds of differences.
  size_t kinds_max = 200;
};

// All differences of one kind.
struct Found {
  int64_t count = 0;
  uint64_t episode_seed = 0;
  size_t position = 0;  // of the operation in the episode
  Difference difference;
  std::vector<Operation> operations;  // the operations that lead to it; the last one shows it
  bool shrunk = false;
};

class Runner {
 public:
  // Restarts the servers; Unavailable if that is not possible.
  using StartServers = std::function<absl::Status(Addresses*)>;

  Runner(RunOptions options, Spoiler spoiler, StartServers start);

  // Errors: Unavailable if the servers could not be brought to the same state.
  absl::Status Run();

  const std::map<std::string, Found>& found() const { return found_; }
  const Comparison& comparison() const { return *comparison_; }
  int64_t operations() const { return operations_; }
  // Returns a readable report.
  std::string Report() const;

 private:
  // Sometimes ZooKeeper never answers a request, but answers it when the episode is repeated. So
  // such an episode is repeated once; if a request is still not answered, that is a difference.
  absl::Status RunEpisode(uint64_t seed, int64_t count, bool is_repeated = false);
  absl::Status Reset();
  absl::Status Restart();
  // Counts the first of the differences of one operation. Returns whether there is any.
  bool Record(const std::vector<Difference>& differences, uint64_t seed,
              const std::vector<Operation>& operations, size_t position);
  absl::Status Shrink(const std::string& kind, Found* found);
  // Sets `*leads` to whether these operations, from empty trees, lead to a difference of that kind.
  absl::Status Leads(const std::vector<Operation>& operations, const std::string& kind,
                     Difference* difference, bool* leads);

  const RunOptions options_;
  Spoiler spoiler_;
  const StartServers start_;
  std::unique_ptr<Comparison> comparison_;
  std::unique_ptr<Pair> pair_;
  std::map<std::string, Found> found_;
  int64_t operations_ = 0;
  int64_t restarts_ = 0;
  int64_t stalls_ = 0;  // episodes that were repeated
};

}  // namespace quorate::differential
