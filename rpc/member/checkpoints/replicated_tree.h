// Joins consensus and the tree: applies committed entries, notifies the front ends, and collects
// what the node thread has to learn of them (News).
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

// Is called for each entry just after it was applied, while the tree is locked. For checks.
class ApplyObserver {
 public:
  virtual ~ApplyObserver() = default;
  virtual void OnEntryApplied(const consensus::Entry& entry, const tree::Tree& tree) = 0;
};

class ReplicatedTree : public consensus::StateMachine, private tree::ApplyListener {
 public:
  // `self` is this server's proposer: the front end gets the results of its commands.
  explicit ReplicatedTree(tree::Proposer self) : self_(self) {
    const GuardedTree::ReadGuard tree = tree_.Read();
    digests_.Restart(tree->last_zxid(), tree->digest());
  }

  // Sets the front end that is notified. REQUIRES: called before the first Apply; `frontend`
  // outlives the last one.
  void SetFrontend(Frontend* frontend) { frontend_ = frontend; }

  // REQUIRES: as SetFrontend.
  void SetObserver(ApplyObserver* observer) { observer_ = observer; }

  // Logs the progress of applying the entries `first` to `last`, which the log holds at the start.
  // REQUIRES: called before the first Apply; first <= last; `clock` outlives the last Apply.
  void ExpectReplay(consensus::Index first, consensus::Index last, const Clock* clock) {
    replay_.emplace(first, last, clock);
  }

  void Apply(std::span<const consensus::Entry> entries) override;
  // Returns false, without applying, also if that could take long.
  bool TryApply(std::span<const consensus::Entry> entries) override;

  // Replaces the tree by `tree`, a later state of the cluster: a checkpoint at the start, or a
  // snapshot. `term` is the term of its last entry. Notifies the front end that events may be
  // missing, and gives it `events`: all parts of what TakeRecentEvents returned for that tree, or
  // none.
  void Replace(std::unique_ptr<tree::Tree> tree, consensus::Term term,
               std::span<const std::string> events = {});
  // Returns the events that the front end is to get back at the next start; may be null. REQUIRES:
  // a side of the tree's lock is held.
  std::shared_ptr<const RecentEvents> TakeRecentEvents() const {
    return frontend_ == nullptr ? nullptr : frontend_->TakeRecentEvents();
  }

  GuardedTree::ReadGuard ReadTree() const { return tree_.Read(); }
  // For deltas (rpc/member/checkpoints/tree_checkpoints.h).
  GuardedTree& guarded_tree() { return tree_; }
  const GuardedTree& guarded_tree() const { return tree_; }
  // Returns the digest that the tree has, or had, at `zxid`; nullopt if it is not known (any more,
  // or yet). From any thread.
  std::optional<uint64_t> DigestAt(tree::Zxid zxid) const { return digests_.At(zxid); }

  // Returns how often a command's time was a leap (tree/limits.h). From any thread.
  uint64_t time_leaps() const { return time_leaps_.load(std::memory_order_relaxed); }

  // The events since the last call of TakeNews.
  struct News {
    uint64_t own_sequence = 0;       // commands of this server are applied up to here
    consensus::Term no_op_term;      // of the newest no-op applied
    uint64_t later_incarnation = 0;  // in the log: this process is outdated; 0: none
    // The leader's time in the last command of the last batch that ended with a command; 0: there
    // was none.
    int64_t command_ms = 0;
    struct SessionChange {
      bool closed = false;
      tree::SessionInfo session;
    };
    // The tree was replaced: `sessions` begins with all sessions of the new tree, and those known
    // before are gone.
    bool replaced = false;
    std::vector<SessionChange> sessions;  // in order
  };
  News TakeNews();

 private:
  void OnNodeEvent(tree::EventType type, std::string_view path, tree::Zxid zxid,
                   const tree::EventAcls& acls) override;
  void OnSessionAttached(const tree::SessionInfo& session) override;
  void OnSessionClosed(tree::SessionId session, tree::Zxid zxid) override;
  void OnQuotaExceeded(const tree::QuotaExcess& excess) override;
  void OnTimeLeap(int64_t from_ms, int64_t to_ms) override;
  void OnResult(tree::ApplyResult result) override;

  std::string_view CommandOf(std::span<const consensus::Entry> entries, size_t i) const;
  // Returns how many znodes `entry` may change, at most, about.
  static size_t Changes(const consensus::Entry& entry, const tree::Tree& tree);
  void ApplySome(std::span<const consensus::Entry> entries);
  // REQUIRES: the entries are few enough to be applied under one lock.
  void ApplyLocked(std::span<const consensus::Entry> entries, tree::Tree* tree);
  void RecordProposer(std::string_view command);
  void RecordApplied(consensus::Index index);
  // Adds pending_ to news_.
  void PublishNews();

  const tree::Proposer self_;
  Frontend* frontend_ = nullptr;
  ApplyObserver* observer_ = nullptr;
  GuardedTree tree_;
  DigestHistory digests_;
  std::optional<ReplayProgress> replay_;  // until it is done; apply thread
  News pending_;                          // of the batch being applied; apply thread
  int64_t applying_ms_ = 0;               // the tree's time before the entry being applied
  // When an exceeded quota was last logged, by path, in the tree's time; apply thread.
  std::map<std::string, int64_t, std::less<>> quotas_logged_ms_;

  std::atomic<uint64_t> time_leaps_{0};

  Mutex news_mutex_;
  News news_ ABSL_GUARDED_BY(news_mutex_);
};

}  // namespace quorate::rpc
