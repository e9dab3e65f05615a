// Runs episodes: from empty trees, a sequence of operations at both servers. Collects the
// differences, one of a kind, and finds out which operations each of them needs.
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
  size_t members = 1;  // on each side
  int64_t episode_operations = 500;
  // Operations between two comparisons of the whole tree.
  int64_t tree_operations = 100;
  std::set<std::string> without;  // requests that are not made
  // Whether to look for the fewest operations of each kind of difference.
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
  std::vector<Operation> operations;  // that lead to it, the last one shows it
  bool shrunk = false;
};

class Runner {
 public:
  // Starts the servers again, where that is possible; Unavailable if not.
  using StartServers = std::function<absl::Status(Addresses*)>;

  Runner(RunOptions options, Spoiler spoiler, StartServers start);

  // Errors: Unavailable if the servers could not be brought to the same state.
  absl::Status Run();

  const std::map<std::string, Found>& found() const { return found_; }
  const Comparison& comparison() const { return *comparison_; }
  int64_t operations() const { return operations_; }
  // A report for people.
  std::string Report() const;

 private:
  // ZooKeeper at times never answers one request, and does when all is done again: such an episode
  // is repeated, once. What stays unanswered then is a difference.
  absl::Status RunEpisode(uint64_t seed, int64_t count, bool is_repeated = false);
  absl::Status Reset();
  absl::Status Restart();
  // Counts the first of the differences of one operation; whether there is any.
  bool Record(const std::vector<Difference>& differences, uint64_t seed,
              const std::vector<Operation>& operations, size_t position);
  absl::Status Shrink(const std::string& kind, Found* found);
  // Whether these operations from empty trees lead to a difference of that kind.
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
