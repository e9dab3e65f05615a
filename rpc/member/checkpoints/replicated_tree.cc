// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/checkpoints/replicated_tree.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>

#include "base/assert.h"
#include "base/seeded_bug.h"
#include "rpc/audit/request_audit.h"
#include "rpc/membership/members.h"
#include "tree/limits.h"

namespace quorate::rpc {
namespace {

// The most entries that are applied under one hold of the lock, because a read waits for so long.
constexpr size_t kEntriesPerLockMax = 256;
// No further entry is applied under one hold once requests have visited this many znodes besides
// those that their operations name, or repeated requests have copied as many bytes of responses: one
// request may visit some thousands.
constexpr uint64_t kVisitsPerLockMax = 4096;
// The most changes that TryApply makes, which take some milliseconds.
constexpr size_t kChangesAtOnceMax = 500;
// How often an exceeded quota of one path is logged, and for how many paths at most.
constexpr int64_t kQuotaLogIntervalMs = 15 * 60 * 1000;
constexpr size_t kQuotasLoggedMax = 1000;

// Returns about how many changes a request makes; more than kChangesAtOnceMax if it deletes a
// subtree, creates the parents of a node, or reads.
size_t ChangesOf(const tree::Request& request) {
  const bool is_deep = std::any_of(request.ops.begin(), request.ops.end(), [](const tree::Op& op) {
    return op.kind == tree::OpKind::kDeleteRecursive || op.kind == tree::OpKind::kRemoveSubtree ||
           op.with_parents;
  });
  return is_deep || tree::HasReads(request) ? kChangesAtOnceMax + 1
                                            : request.ops.size() + request.compares.size();
}

}  // namespace

void ReplicatedTree::Apply(std::span<const consensus::Entry> entries) {
  ASSERT(frontend_ != nullptr);
  if (replay_.has_value()) replay_->Begin();
  while (!entries.empty()) {
    const size_t applied = ApplySome(entries.first(std::min(entries.size(), kEntriesPerLockMax)));
    frontend_->OnBatchApplied();
    RecordApplied(entries[applied - 1].index);
    entries = entries.subspan(applied);
  }
  PublishNews();
}

bool ReplicatedTree::TryApply(std::span<const consensus::Entry> entries) {
  ASSERT(frontend_ != nullptr);
  // Entries of a replay are left to Apply, which logs its progress.
  if (replay_.has_value()) return false;
  if (entries.size() > kEntriesPerLockMax || !frontend_->AllowsInlineApply()) return false;
  {
    std::optional<GuardedTree::WriteGuard> tree = tree_.TryWrite();
    if (!tree.has_value()) return false;
    size_t changes = 0;
    for (const consensus::Entry& entry : entries) changes += Changes(entry, **tree);
    if (changes > kChangesAtOnceMax) return false;
    ApplyLocked(entries, std::numeric_limits<uint64_t>::max(), &**tree);
  }
  frontend_->OnBatchApplied();
  PublishNews();
  return true;
}

size_t ReplicatedTree::Changes(const consensus::Entry& entry, const tree::Tree& tree) {
  if (entry.kind != consensus::EntryKind::kCommand) return 0;
  const std::string_view command = entry.payload.view();
  const auto header = tree::DecodeHeader(command);
  if (!header.ok()) return 0;
  switch (header->kind) {
    case tree::CommandKind::kCreateSession:
    case tree::CommandKind::kAttachSession:
    case tree::CommandKind::kDeleteContainer:
      return 1;
    case tree::CommandKind::kCloseSession:
    case tree::CommandKind::kExpireSession:
      return 1 + tree.EphemeralCount(header->session);
    case tree::CommandKind::kRequest: {
      const auto request = tree::DecodeRequest(command);
      return request.ok() ? ChangesOf(*request) : 1;
    }
    case tree::CommandKind::kSequencedRequest: {
      const auto sequenced = tree::DecodeSequencedRequest(command);
      if (!sequenced.ok()) return 1;
      tree::SessionInfo session;
      const bool is_repeated = tree.FindSession(header->session, &session) &&
                               sequenced->sequence <= session.last_sequence;
      return is_repeated ? kChangesAtOnceMax + 1 : ChangesOf(sequenced->request);
    }
  }
  return 0;
}

void ReplicatedTree::PublishNews() {
  MutexLock lock(&news_mutex_);
  news_.own_sequence = pending_.own_sequence;
  news_.no_op_term = pending_.no_op_term;
  news_.later_incarnation = pending_.later_incarnation;
  news_.command_ms = pending_.command_ms;
  if (pending_.replaced || news_.sessions.empty()) {
    news_.replaced |= pending_.replaced;
    news_.sessions.swap(pending_.sessions);
  } else {
    news_.sessions.insert(news_.sessions.end(), pending_.sessions.begin(), pending_.sessions.end());
  }
  pending_.replaced = false;
  pending_.sessions.clear();
}

void ReplicatedTree::Replace(std::unique_ptr<tree::Tree> tree, consensus::Term term,
                             std::span<const std::string> events) {
  const tree::DedupTable::Last last = tree->LastOf(self_.member);
  pending_.own_sequence = last.incarnation == self_.incarnation ? last.sequence : 0;
  if (last.incarnation > self_.incarnation) pending_.later_incarnation = last.incarnation;
  // The no-op with which the leader of `term` began is at or before the last entry of `tree`.
  pending_.no_op_term = term;
  pending_.replaced = true;
  replay_.reset();
  pending_.sessions.clear();
  for (const tree::SessionInfo& session : tree->Sessions()) {
    pending_.sessions.push_back({false, session});
  }
  {
    GuardedTree::WriteGuard guard = tree_.Write();
    guard.Swap(&tree);
    digests_.Restart(guard->last_zxid(), guard->digest());
    if (frontend_ != nullptr) frontend_->OnTreeReplaced(*guard);
    if (frontend_ != nullptr && !events.empty())
      frontend_->OnRecentEvents(events, guard->last_zxid());
  }
  if (frontend_ != nullptr) frontend_->OnBatchApplied();
  PublishNews();
}

// Returns the command of entry `i`, or, if that bug is seeded, the command of its neighbour.
std::string_view ReplicatedTree::CommandOf(std::span<const consensus::Entry> entries,
                                           size_t i) const {
  if (SeededBug("entries are applied in the wrong order") && self_.member == 2) {
    const size_t neighbour = i ^ 1;
    if (neighbour < entries.size() && entries[neighbour].kind == consensus::EntryKind::kCommand) {
      i = neighbour;
    }
  }
  return entries[i].payload.view();
}

size_t ReplicatedTree::ApplySome(std::span<const consensus::Entry> entries) {
  GuardedTree::WriteGuard tree = tree_.Write();
  return ApplyLocked(entries, tree->visited_nodes() + kVisitsPerLockMax, &*tree);
}

size_t ReplicatedTree::ApplyLocked(std::span<const consensus::Entry> entries, uint64_t visits_max,
                                   tree::Tree* tree) {
  std::array<uint64_t, kEntriesPerLockMax> digests;
  ASSERT(!entries.empty() && entries.size() <= digests.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    if (i > 0 && tree->visited_nodes() >= visits_max) entries = entries.first(i);
    if (i == entries.size()) break;
    const consensus::Entry& entry = entries[i];
    const tree::Zxid zxid(static_cast<int64_t>(entry.index.value()));
    const bool forgotten =
        (SeededBug("an entry is not applied") || SeededBug("a tree differs unseen")) &&
        self_.member == 2 && zxid.value() % 50 == 0;
    if (entry.kind == consensus::EntryKind::kCommand && !forgotten) {
      const std::string_view command = CommandOf(entries, i);
      applying_ms_ = tree->time_ms();
      applying_ = command;
      tree->Apply(zxid, command, self_, this);
      RecordProposer(command);
    } else {
      applying_ = {};
      ApplyControl(entry.kind, entry.payload.view(), zxid, tree, this);
      pending_.no_op_term = entry.term;
    }
    digests[i] = tree->digest();
    if (observer_ != nullptr) observer_->OnEntryApplied(entry, *tree);
  }
  SetAppliedMark(entries.back().index);
  digests_.Add(std::span(digests).first(entries.size()));
  if (entries.back().kind == consensus::EntryKind::kCommand) {
    const auto header = tree::DecodeHeader(entries.back().payload.view());
    if (header.ok()) pending_.command_ms = header->time_ms;
  }
  return entries.size();
}

void ReplicatedTree::SetAppliedMark(consensus::Index index) {
  if (applied_marks_ != nullptr) applied_marks_->Add(index.value(), marks_clock_->Now());
}

void ReplicatedTree::RecordProposer(std::string_view command) {
  const tree::Proposer proposer = tree::ProposerOf(command);
  if (proposer.member == self_.member && proposer.incarnation > self_.incarnation) {
    pending_.later_incarnation = proposer.incarnation;
  }
}

void ReplicatedTree::RecordApplied(consensus::Index index) {
  if (replay_.has_value() && replay_->OnApplied(index)) replay_.reset();
}

ReplicatedTree::News ReplicatedTree::TakeNews() {
  MutexLock lock(&news_mutex_);
  News news = news_;
  news_.sessions.clear();
  news_.replaced = false;
  return news;
}

bool ReplicatedTree::WantsNodeValues() const { return frontend_->WantsNodeValues(); }

void ReplicatedTree::OnNodeValues(const tree::EventValues& values) {
  frontend_->OnNodeValues(values);
}

void ReplicatedTree::OnNodeEvent(tree::EventType type, std::string_view path, tree::Zxid zxid,
                                 const tree::EventAcls& acls) {
  if (SeededBug("the event of a deletion is lost") && type == tree::EventType::kNodeDeleted) {
    return;
  }
  if (audit_ != nullptr && type == tree::EventType::kNodeDeleted) AuditDeletion(path);
  frontend_->OnNodeEvent(type, path, zxid, acls);
}

void ReplicatedTree::AuditDeletion(std::string_view path) {
  const auto header = tree::DecodeHeader(applying_);
  if (!header.ok()) return;
  if (header->kind == tree::CommandKind::kCloseSession ||
      header->kind == tree::CommandKind::kExpireSession ||
      header->kind == tree::CommandKind::kDeleteContainer) {
    audit_->OnServerDeletion(header->session, path);
  }
}

void ReplicatedTree::OnSessionAttached(const tree::SessionInfo& session) {
  pending_.sessions.push_back({false, session});
  frontend_->OnSessionAttached(session);
}

void ReplicatedTree::OnSessionClosed(tree::SessionId session, tree::Zxid zxid) {
  pending_.sessions.push_back({true, {session, 0, zxid, 0, 0}});
  frontend_->OnSessionClosed(session, zxid);
}

void ReplicatedTree::OnQuotaExceeded(const tree::QuotaExcess& excess) {
  const int64_t now_ms = applying_ms_;
  const auto logged = quotas_logged_ms_.find(excess.path);
  if (logged != quotas_logged_ms_.end() && now_ms - logged->second < kQuotaLogIntervalMs) return;
  if (logged == quotas_logged_ms_.end() && quotas_logged_ms_.size() >= kQuotasLoggedMax) return;
  quotas_logged_ms_[std::string(excess.path)] = now_ms;
  spdlog::warn("quota exceeded: {} would have {} {}, its {} limit is {}", excess.path, excess.value,
               excess.is_bytes ? "bytes" : "nodes", excess.is_hard ? "hard" : "soft", excess.limit);
}

void ReplicatedTree::OnTimeLeap(int64_t from_ms, int64_t to_ms) {
  time_leaps_.fetch_add(1, std::memory_order_relaxed);
  spdlog::warn(
      "time leaps: seconds={} from_ms={} to_ms={}: the clock of a leader is wrong or was, unless "
      "nothing was written for so long; znodes with a TTL stay for {} s more; check the clocks",
      (to_ms - from_ms) / 1000, from_ms, to_ms, tree::kLeapHoldMs / 1000);
}

void ReplicatedTree::OnResult(tree::ApplyResult result) {
  pending_.own_sequence = std::max(pending_.own_sequence, result.header.sequence);
  if (audit_ != nullptr) audit_->OnCommandApplied(applying_, result);
  frontend_->OnResult(std::move(result));
}

}  // namespace quorate::rpc
