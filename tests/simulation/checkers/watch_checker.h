// SPDX-License-Identifier: Apache-2.0

// One-shot watches: each fires at most once each time it is set, for the first change after that,
// before any reply that shows the change; none is lost, also not while the client moves from one
// server to another. The model supplies the changes and their zxids.
//
// Thread-safety: none; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/simulation/checkers/history.h"
#include "tests/simulation/checkers/model.h"

namespace quorate::simulation {

class WatchChecker : public HistoryListener {
 public:
  // Adds itself to the history; both must outlive it. REQUIRES: the model is given an entry before
  // this checker is given a reply that shows the entry.
  WatchChecker(History* history, const Model* model);

  void OnLinkOpened(const Link& link) override;
  void OnLinkClosed(const Link& link) override;
  void OnInvoked(const Operation& operation) override;
  void OnAnswered(const Operation& operation) override;
  void OnPong(const Link& link, int64_t zxid) override;
  void OnEvent(const Link& link, const WatchEvent& event) override;

  // How many watches are set now, in all sessions.
  size_t set_count() const;

 private:
  using Key = std::pair<std::string, Model::Table>;
  struct Watch {
    int64_t since_zxid = 0;
    // No change that fires this watch happened up to this zxid: the search continues from here.
    int64_t quiet_until_zxid = 0;
    bool for_creation = false;
  };
  struct State {
    std::map<Key, Watch> set;       // on the link that is open
    std::map<Key, Watch> to_renew;  // from earlier links, until setWatches is answered
    std::vector<WatchEvent> found_by_set_watches;
    std::optional<OperationId> set_watches;  // the one under way
  };

  void Set(const Operation& operation);
  void Renew(const Operation& operation);
  void CheckNothingDue(const Link& link, int64_t zxid);
  // The keys that an event consumes.
  static std::vector<Key> Consumed(const WatchEvent& event);

  History* const history_;
  const Model* const model_;
  std::map<int64_t, State> sessions_;
};

}  // namespace quorate::simulation
