// SPDX-License-Identifier: Apache-2.0

// A session ends neither too early nor too late: never before its client was silent for the
// timeout, and within bounded time after a client has gone. Ephemeral nodes exist if and only if
// their session lives; that is checked against the replies of clients, not against the log.
//
// When the leader last heard from a client cannot be known from outside. What is known, and
// checked: a leader gives each session its full timeout from the moment at which it applies the
// session's attachment, and from the beginning of its own term; and no session grows older while
// the leader is paused, which it notices when it resumes.
//
// Thread-safety: none; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/simulation/checkers/history.h"
#include "tests/simulation/checkers/replay_checker.h"
#include "tests/simulation/sim_environment.h"
#include "tree/tree.h"

namespace quorate::simulation {

class SessionChecker : public HistoryListener, public LogListener, public ServerObserver {
 public:
  // Adds itself to both and to their environment, which must outlive it. `clock_drift_max`: clocks
  // of servers run faster than time by at most this fraction. `unnoticed_us`: how much of a pause a
  // server may count as time in which it ran.
  SessionChecker(History* history, ReplayChecker* replay, double clock_drift_max,
                 int64_t unnoticed_us);

  // Called when all servers work and reach each other from now on: a session whose client sends
  // messages must not expire any more after `settle_us`.
  void BeginSteadyPeriod(int64_t settle_us);

  // The sessions that their clients have abandoned, and that have not ended yet.
  std::vector<int64_t> LingeringSessions() const;
  // Checks a member's ephemerals against what clients know. REQUIRES: no work is under way.
  // `living`: the sessions that clients still have.
  void CheckEphemerals(size_t member, const tree::Tree& tree,
                       const std::set<int64_t>& living) const;

  void OnEntry(const consensus::Entry& entry, const Model::Applied& applied) override;
  void OnLinkOpened(const Link& link) override;
  void OnLinkClosed(const Link& link) override;
  void OnInvoked(const Operation& operation) override;
  void OnAnswered(const Operation& operation) override;
  void OnSessionAbandoned(size_t client, int64_t session) override;
  void OnLeads(size_t member, consensus::Term term) override;
  void OnStoodStill(size_t member, int64_t from_us) override;

 private:
  struct Attachment {
    int64_t committed_us = 0;
    int32_t timeout_ms = 0;
  };
  struct Ephemeral {
    int64_t session = 0;
    OperationId created_by = 0;
  };

  // Whether a deletion of the node may have happened at or after `from_us`, or may still happen.
  bool MayBeDeleted(const std::string& path, int64_t from_us) const;
  void CheckExpiry(const consensus::Entry& entry, int64_t session) const;
  int64_t LeastSilenceUs(int32_t timeout_ms) const;
  // For how long since `from_us` the leader of a term has been running, pauses excluded.
  int64_t LeaderRanUs(consensus::Term term, int64_t from_us) const;

  History* const history_;
  const ReplayChecker* const replay_;
  const double clock_drift_max_;
  const int64_t unnoticed_us_;
  int64_t steady_from_us_ = INT64_MAX;
  std::map<int64_t, Attachment> attached_;  // by session
  std::map<uint64_t, int64_t> term_began_us_;
  std::map<consensus::Term, size_t> leaders_;
  struct Pause {
    int64_t from_us;
    int64_t to_us;
  };
  std::map<size_t, std::vector<Pause>> pauses_;  // by member
  std::map<int64_t, LinkId> open_links_;         // by session
  std::set<int64_t> abandoned_;
  // By path: the nodes that must exist if their session lives. A deletion by any client removes the
  // path, and a recursive one the paths below too.
  std::map<std::string, Ephemeral> ephemerals_;
  struct Deletions {
    int open = 0;  // requested, and may still happen
    int64_t answered_us = -1;
  };
  std::map<std::string, Deletions> deletions_;  // by path
  std::map<std::string, Deletions> removals_;   // with all nodes below, by path
};

}  // namespace quorate::simulation
