// SPDX-License-Identifier: Apache-2.0

// Checks every reply against the committed log, replayed by the reference model: a write is in the
// log exactly once, in its session's order, and its answer is the model's result; a read was
// answered with what the model has at the zxid of its reply; sessions are accepted and refused as
// in the log; members' trees are those that the log produces.
//
// How a command in the log is matched to a client's request: each connection first authenticates as
// a user named after its link, and that name is in all its commands; the commands of a link are its
// writes in the order in which it sent them.
//
// Thread-safety: none; one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "consensus/core/types.h"
#include "tests/simulation/checkers/history.h"
#include "tests/simulation/checkers/model.h"
#include "tests/simulation/sim_environment.h"

namespace quorate::simulation {

// The virtual node by which clients learn that their server has the operations of ClickHouse Keeper.
inline constexpr char kKeeperFlagsPath[] = "/keeper/feature_flags";

// The digest credentials by which a connection names its link.
std::string LinkCredentials(LinkId link);

// Is notified of what the log holds, in log order.
class LogListener {
 public:
  virtual ~LogListener() = default;
  // Called after the model has applied the entry.
  virtual void OnEntry(const consensus::Entry& entry, const Model::Applied& applied) {
    (void)entry, (void)applied;
  }
  // Called when `operation` was found in the log.
  virtual void OnLogged(const Operation& operation, int64_t zxid) { (void)operation, (void)zxid; }
};

class ReplayChecker : public HistoryListener, public ServerObserver {
 public:
  // Adds itself to the history and to the environment, which must outlive the run.
  explicit ReplayChecker(History* history);

  void AddListener(LogListener* listener) { listeners_.push_back(listener); }
  // `closes(session)` returns whether a client that is not in the history may close the session.
  void SetClosesElsewhere(std::function<bool(int64_t session)> closes) {
    closes_elsewhere_ = std::move(closes);
  }
  const Model& model() const { return model_; }
  // The zxid of an operation in the log; 0 if it is not there (yet).
  int64_t LogZxid(OperationId operation) const;

  // Checks that a member's tree is what the log produces, up to what the member has applied.
  void CheckTree(size_t member, const tree::Tree& tree) const;

  void OnCommitted(const consensus::Entry& entry) override;
  void OnLinkOpened(const Link& link) override;
  void OnInvoked(const Operation& operation) override;
  void OnAnswered(const Operation& operation) override;
  void OnPong(const Link& link, int64_t zxid) override;
  void OnEvent(const Link& link, const WatchEvent& event) override;
  void OnSessionRefused(size_t client, int64_t session) override;

 private:
  struct LinkState {
    std::vector<OperationId> logged;  // operations that go through the log, in the order of sending
    size_t found = 0;                 // how many of them were found in the log
    int64_t attach_zxid = 0;          // 0: not known yet
    int64_t answered_zxid = 0;        // the greatest of a reply
  };
  struct Found {
    int64_t zxid = 0;
    tree::ErrorCode error = tree::ErrorCode::kOk;
    std::vector<StepResult> steps;
  };

  void FindRequest(const Model::Applied& applied);
  void FindClose(const Model::Applied& applied);
  void Match(LinkId link, const Model::Applied& applied);
  // The index in `logged` of the next operation in the log: the first one for which `is_it` holds.
  // If an operation before it cannot have been refused, the size of `logged`.
  size_t FindNext(const LinkState& state, const std::function<bool(OperationId)>& is_it) const;
  // Whether the operation's server might have refused it by now because disks were full.
  bool MightBeRefused(const Operation& operation) const;
  // Whether the answer was that disks are full, and the operation is not in the log.
  bool IsRefused(const Operation& operation);
  void CheckWrite(const Operation& operation) const;
  void CheckAnswer(const Operation& operation);
  // Counts the outcomes of operations of ClickHouse Keeper.
  void CountKeeper(const Operation& operation) const;
  void CheckRead(const Operation& operation) const;
  void CheckOlderChildren(const Operation& operation) const;
  void CheckKeeperFlags(const Operation& operation) const;
  // Checks that a read saw the writes sent before it on the connection, and none sent after it.
  void CheckPlace(const Operation& operation) const;
  void CheckCommitted(const Link& link, int64_t zxid) const;

  History* const history_;
  Model model_;
  std::vector<LogListener*> listeners_;
  std::function<bool(int64_t session)> closes_elsewhere_;
  std::vector<LinkState> links_;
  std::map<OperationId, Found> found_;
  std::set<OperationId> refused_;  // never in the log, since disks were full
  std::map<int64_t, std::vector<LinkId>> links_of_session_;
};

}  // namespace quorate::simulation
