// Holds every reply against the committed log, replayed by the reference model: a write is in the
// log exactly once, in its session's order, and was answered what the model says it did; a read was
// answered what the model shows at the zxid of its reply; sessions are accepted and refused as the
// log has them; members' trees are what the log makes.
//
// How a command in the log is known to be a request of a client: each connection authenticates
// itself as a user named after its link before it sends anything else, and that name is in all of
// its commands; the commands of a link are its writes in the order in which it sent them.
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

// The credentials of the digest scheme by which a connection names its link.
std::string LinkCredentials(LinkId link);

// Is told what the log holds, in its order.
class LogListener {
 public:
  virtual ~LogListener() = default;
  // After the model has applied it.
  virtual void OnEntry(const consensus::Entry& entry, const Model::Applied& applied) {
    (void)entry, (void)applied;
  }
  // `operation` was found in the log.
  virtual void OnLogged(const Operation& operation, int64_t zxid) { (void)operation, (void)zxid; }
};

class ReplayChecker : public HistoryListener, public ServerObserver {
 public:
  // Adds itself to the history and to the environment, which must outlive the run.
  explicit ReplayChecker(History* history);

  void AddListener(LogListener* listener) { listeners_.push_back(listener); }
  // `closes(session)` says whether a client that is not in the history may close the session.
  void SetClosesElsewhere(std::function<bool(int64_t session)> closes) {
    closes_elsewhere_ = std::move(closes);
  }
  const Model& model() const { return model_; }
  // Where an operation is in the log; 0 if it is not there (yet).
  int64_t LogZxid(OperationId operation) const;

  // Whether a member's tree is what the log makes, up to what it has applied.
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
    std::vector<OperationId> logged;  // what goes through the log, in the order of sending
    size_t found = 0;                 // so many of them are in the log
    int64_t attach_zxid = 0;          // 0: not known yet
  };
  struct Found {
    int64_t zxid = 0;
    tree::ErrorCode error = tree::ErrorCode::kOk;
    std::vector<StepResult> steps;
  };

  void FindRequest(const Model::Applied& applied);
  void FindClose(const Model::Applied& applied);
  void Match(LinkId link, const Model::Applied& applied);
  // The next one in the log: the place in `logged` of the first that `is_it`, unless there is one
  // before it that cannot have been refused; then the size.
  size_t FindNext(const LinkState& state, const std::function<bool(OperationId)>& is_it) const;
  // Whether its server might have refused it by now, because disks were full.
  bool MightBeRefused(const Operation& operation) const;
  // Whether it was answered that disks are full, and is not in the log.
  bool IsRefused(const Operation& operation);
  void CheckWrite(const Operation& operation) const;
  void CheckRead(const Operation& operation) const;
  // That a read saw the writes sent before it on the connection, and none sent after it.
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
