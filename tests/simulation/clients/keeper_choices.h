// SPDX-License-Identifier: Apache-2.0

// Which operations of ClickHouse Keeper a simulated client makes, and when: servers have them from
// cluster version 8 on, and close the connection of a client that sends them before. As ClickHouse
// does, a client reads on each connection whether its server announces them.
//
// Thread-safety: none; one thread.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "tests/simulation/checkers/history.h"
#include "tests/simulation/clients/operation.h"
#include "tests/simulation/random.h"

namespace quorate::simulation {

class KeeperChoices {
 public:
  // `random` must outlive the object. All choices are drawn from it.
  explicit KeeperChoices(Random* random) : random_(*random) {}

  // Whether the client should now ask the server of this link, with AskRequest. It asks often, and
  // until the server announces the operations.
  bool Asks(LinkId link);
  static Request AskRequest();
  // Called with the answer.
  void OnAsked(const Operation& operation);
  // Whether the server of this link has the operations.
  bool IsServedOn(LinkId link) const { return served_on_ == link; }

  bool Chance(double probability) { return random_.Chance(probability); }
  // Returns a write of this path. `value` is the data of a create.
  Step PickStep(std::string path, std::string value, int32_t version);
  // Returns a read of this path.
  Request PickRead(std::string path, bool watch);
  // Returns a write of an ephemeral node.
  Request PickEphemeral(const std::string& path, std::string value);

  // Called with answered reads: a later checkStat compares with their stats.
  void Remember(const Operation& operation);

 private:
  tree::Stat PickExpected(const std::string& path);

  Random& random_;
  std::optional<LinkId> served_on_;
  std::map<std::string, tree::Stat> stats_;  // by path, as last read
};

}  // namespace quorate::simulation
