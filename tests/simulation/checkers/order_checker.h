// SPDX-License-Identifier: Apache-2.0

// What each client may rely on by itself: replies come in the order of its requests, and zxids
// never go back, whatever server it talks to. Uses only replies.
//
// Thread-safety: none; one thread.
#pragma once

#include <cstdint>
#include <map>

#include "tests/simulation/checkers/history.h"

namespace quorate::simulation {

class OrderChecker : public HistoryListener {
 public:
  // Adds itself to the history, which must outlive it.
  explicit OrderChecker(History* history);

  void OnLinkOpened(const Link& link) override;
  void OnAnswered(const Operation& operation) override;
  void OnPong(const Link& link, int64_t zxid) override;
  void OnEvent(const Link& link, const WatchEvent& event) override;

 private:
  struct State {
    int64_t seen_zxid = 0;   // by replies, in this session
    int64_t event_zxid = 0;  // by events on this link
    size_t answered = 0;     // of the link's operations
    LinkId link = 0;
  };

  State& StateOf(const Link& link);
  void CheckZxid(const Link& link, int64_t zxid);

  History* const history_;
  std::map<int64_t, State> sessions_;
};

}  // namespace quorate::simulation
