// SPDX-License-Identifier: Apache-2.0

// Connects consensus to the tree: applies committed entries, notifies the front ends, and collects
// what the node thread has to know of the applied entries (News).
//
// Thread-safety: Apply, TryApply and Replace are called from one thread at a time (the one that
// applies); the accessors of the tree from any thread; TakeNews from the node thread.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "consensus/core/state_machine.h"
#include "consensus/core/types.h"
#include "rpc/frontend/guarded_tree.h"
#include "rpc/frontend/service.h"
#include "rpc/member/checkpoints/digest_history.h"
#include "rpc/member/checkpoints/start_progress.h"
#include "tree/tree.h"

namespace quorate::rpc {

// An observer for checks. It is called for each entry just after the entry was applied, while the
// tree is locked.
class ApplyObserver {
 public:
  virtual ~ApplyObserver() = default;
  virtual void OnEntryApplied(const consensus::Entry& entry, const tree::Tree& tree) = 0;
};

class ReplicatedTree : public consensus::StateMachine, private tree::ApplyListener {
 public:
  // `self` identifies the commands of this server, whose results the front end is given.
  explicit ReplicatedTree(tree::Proposer self) : self_(self) {
    const GuardedTree::ReadGuard tree = tree_.Read();
    digests_.Restart(tree->last_zxid(), tree->digest());
  }

  // Sets the front end that is notified. REQUIRES: called before the first Apply; `frontend`
  // outlives the last one.
  void SetFrontend(Frontend* frontend) {
    frontend_ = frontend;
    audit_ = frontend == nullptr ? nullptr : frontend->request_audit();
  }

  // Sets where marks of applied entries are set, and the clock for them. REQUIRES: as SetFrontend.
  void SetMarks(MarkRing* applied, const Clock* clock) {
    applied_marks_ = applied;
    marks_clock_ = clock;
  }

  // Sets the observer of applied entries. REQUIRES: as SetFrontend.
  void SetObserver(ApplyObserver* observer) { observer_ = observer; }

  // Logs the progress of applying the entries `first` to `last`, which the log holds at the start.
  // REQUIRES: called before the first Apply; first <= last; `clock` outlives the last Apply.
  void ExpectReplay(consensus::Index first, consensus::Index last, const Clock* clock) {
    replay_.emplace(first, last, clock);
  }

  void Apply(std::span<const consensus::Entry> entries) override;
  // As StateMachine::TryApply. Also returns false, without applying, if that could take long.
  bool TryApply(std::span<const consensus::Entry> entries) override;

  // Replaces the tree by `tree`, a later state of the cluster: from a checkpoint at the start, or
  // from a snapshot. `term` is the term of the last entry in it. Notifies the front end that events
  // may be missing, and gives it `events`: all parts of what TakeRecentEvents returned for that
  // tree, or none.
  void Replace(std::unique_ptr<tree::Tree> tree, consensus::Term term,
               std::span<const std::string> events = {});
  // Returns the recent events, which the front end gets back at the next start; may return null.
  // REQUIRES: the tree's lock is held, for reading or for writing.
  std::shared_ptr<const RecentEvents> TakeRecentEvents() const {
    return frontend_ == nullptr ? nullptr : frontend_->TakeRecentEvents();
  }

  GuardedTree::ReadGuard ReadTree() const { return tree_.Read(); }
  // Returns the tree for checkpoint deltas (rpc/member/checkpoints/tree_checkpoints.h).
  GuardedTree& guarded_tree() { return tree_; }
  const GuardedTree& guarded_tree() const { return tree_; }
  // Returns the digest that the tree has, or had, at `zxid`; nullopt if it is not known (any more,
  // or yet). From any thread.
  std::optional<uint64_t> DigestAt(tree::Zxid zxid) const { return digests_.At(zxid); }

  // Returns how often the time of a command was a leap (tree/limits.h). From any thread.
  uint64_t time_leaps() const { return time_leaps_.load(std::memory_order_relaxed); }

  // What the node thread has to know of the applied entries. `replaced` and `sessions` cover the
  // time since the last call of TakeNews; the other fields have their newest values.
  struct News {
    uint64_t own_sequence = 0;       // this server's commands are applied up to this number
    consensus::Term no_op_term;      // of the newest applied entry that is no command
    uint64_t later_incarnation = 0;  // a later one in the log: this process is outdated; 0: none
    // The leader's time in the newest command that was the last entry of its batch; 0: there was
    // none.
    int64_t command_ms = 0;
    struct SessionChange {
      bool closed = false;
      tree::SessionInfo session;
    };
    // Whether the tree was replaced. Then `sessions` begins with all sessions of the new tree, and
    // the sessions known before are gone.
    bool replaced = false;
    std::vector<SessionChange> sessions;  // in order
  };
  News TakeNews();

 private:
  bool WantsNodeValues() const override;
  void OnNodeValues(const tree::EventValues& values) override;
  void OnNodeEvent(tree::EventType type, std::string_view path, tree::Zxid zxid,
                   const tree::EventAcls& acls) override;
  void OnSessionAttached(const tree::SessionInfo& session) override;
  void OnSessionClosed(tree::SessionId session, tree::Zxid zxid) override;
  void OnQuotaExceeded(const tree::QuotaExcess& excess) override;
  void OnTimeLeap(int64_t from_ms, int64_t to_ms) override;
  void OnResult(tree::ApplyResult result) override;

  std::string_view CommandOf(std::span<const consensus::Entry> entries, size_t i) const;
  // Returns an estimate of the changes that `entry` makes, in znodes and sessions; more than
  // TryApply allows if it deletes a subtree, reads, or repeats a numbered request.
  static size_t Changes(const consensus::Entry& entry, const tree::Tree& tree);
  // Apply entries, and return how many: fewer than all, but at least one, if they visit so many znodes
  // that the lock must be released, that is once tree->visited_nodes() is `visits_max`. REQUIRES: the
  // entries are few enough to be applied under one lock.
  size_t ApplySome(std::span<const consensus::Entry> entries);
  size_t ApplyLocked(std::span<const consensus::Entry> entries, uint64_t visits_max,
                     tree::Tree* tree);
  void RecordProposer(std::string_view command);
  // Records the deletion of a znode, if the command being applied is one of the cluster itself.
  void AuditDeletion(std::string_view path);
  void RecordApplied(consensus::Index index);
  void SetAppliedMark(consensus::Index index);
  // Adds pending_ to news_.
  void PublishNews();

  const tree::Proposer self_;
  Frontend* frontend_ = nullptr;
  RequestAudit* audit_ = nullptr;  // the front end's
  ApplyObserver* observer_ = nullptr;
  MarkRing* applied_marks_ = nullptr;
  const Clock* marks_clock_ = nullptr;  // set if applied_marks_ is
  GuardedTree tree_;
  DigestHistory digests_;
  std::optional<ReplayProgress> replay_;  // until it is done; apply thread
  News pending_;                          // of the batch being applied; apply thread
  int64_t applying_ms_ = 0;               // the tree's time before the entry being applied
  std::string_view applying_;             // the command being applied
  // When an exceeded quota was last logged, by path, in the tree's time; apply thread.
  std::map<std::string, int64_t, std::less<>> quotas_logged_ms_;

  std::atomic<uint64_t> time_leaps_{0};

  Mutex news_mutex_;
  News news_ ABSL_GUARDED_BY(news_mutex_);
};

}  // namespace quorate::rpc
