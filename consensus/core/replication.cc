// SPDX-License-Identifier: Apache-2.0

// The replicated log: paper 5.3 and 5.4.
#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/seeded_bug.h"
#include "consensus/core/describe.h"
#include "consensus/core/limits.h"
#include "consensus/core/raft.h"

namespace quorate::consensus {
namespace {

// The most ranges that are handed out for apply at a time: one that is being applied and one that
// waits, so that the state machine is never idle.
constexpr size_t kApplyRangesMax = 2;
// The assumed size of an entry that is no longer in memory, for the bound of a range.
constexpr size_t kUnknownEntryBytes = 1024;

}  // namespace

// --- The log -------------------------------------------------------------------------------------

void Raft::AppendEntry(Entry entry) {
  ASSERT(entry.index == last_index() + 1);
  ASSERT(entry.term <= term_);
  terms_.Append(entry.term);
  sizes_.Append(entry.ByteSize());
  if (IsControl(entry.kind)) settings_.Follow(entry);
  cache_.Append(std::move(entry));
}

void Raft::TruncateLog(Index index) {
  ASSERT(index >= commit_, "a committed entry is never replaced");
  ASSERT(role() == Role::kFollower, "a leader only appends");
  terms_.TruncateAfter(index);
  sizes_.TruncateAfter(index);
  cache_.TruncateAfter(index);
  settings_.TruncateAfter(index);
  durability_.Truncated(index);
}

void Raft::CommitTo(Index index) {
  ASSERT(index >= commit_);
  ASSERT(index <= last_index());
  commit_ = index;
}

Index Raft::ReachedWith(Index own) const {
  const auto reached = [&](MemberId member) {
    if (member == options_.self) return own;
    const Progress* progress = FindProgress(member);
    return CountsForQuorum(progress) ? progress->match() : Index{0};
  };
  if (SeededBug("one majority of a joint membership")) {
    Membership one = membership();
    one.outgoing.clear();
    return Quorum(one).Reached(reached);
  }
  return quorum().Reached(reached);
}

bool Raft::PersistWaits() const {
  if (const auto* follower = std::get_if<FollowerRole>(&role_)) {
    // Most of a follower's acknowledgements are sent after the sync. But if entries were being written
    // when this leader was elected, no message to this leader waits for them.
    return std::min(follower->matched, LastUnderstood()) > follower->acked;
  }
  return role() != Role::kLeader || ReachedWith(last_index()) > commit_;
}

void Raft::CommitByCounting() {
  ASSERT(role() == Role::kLeader);
  const Index index = ReachedWith(
      SeededBug("the leader counts what is not durable") ? last_index() : durable_index());
  // Entries of earlier terms are committed only together with an entry of this term (paper 5.4.2).
  if (index > commit_ &&
      (terms_.TermAt(index) == term_ || SeededBug("an earlier term is committed by counting"))) {
    CommitTo(index);
  }
}

void Raft::TrimCache() {
  if (SeededBug("nothing leaves memory")) return;
  cache_.Trim(std::min(durable_index(), apply_.applied()), options_.cached_bytes_max);
  // Beyond this bound, entries leave memory even if they are not applied or not known to be
  // committed. A state machine that is far behind, or a new leader with a long log, reads them from
  // the log.
  const size_t bytes_max = options_.cached_bytes_max + options_.uncommitted_bytes_max;
  cache_.Trim(durable_index(), bytes_max);
}

absl::Status Raft::Propose(std::vector<Slice> payloads) {
  const auto* leader = std::get_if<LeaderRole>(&role_);
  if (leader == nullptr) {
    return absl::FailedPreconditionError("member " + Describe(options_.self) +
                                         " does not lead; leader: " + Describe(leader_));
  }
  if (leader->transfer) {
    return absl::FailedPreconditionError("member " + Describe(options_.self) +
                                         " is handing leadership over to member " +
                                         Describe(leader->transfer->target));
  }
  size_t bytes = 0;
  for (const Slice& payload : payloads) {
    if (payload.size() > kEntryPayloadBytesMax) {
      return absl::InvalidArgumentError("a payload of " + std::to_string(payload.size()) +
                                        " bytes is larger than " +
                                        std::to_string(kEntryPayloadBytesMax));
    }
    bytes += Entry{{}, {}, EntryKind::kCommand, payload}.ByteSize();
  }
  const size_t uncommitted = cache_.BytesAfter(commit_);
  if (uncommitted > 0 && uncommitted + bytes > options_.uncommitted_bytes_max) {
    return absl::ResourceExhaustedError(
        std::to_string(uncommitted) + " bytes are not committed yet and " + std::to_string(bytes) +
        " more would exceed " + std::to_string(options_.uncommitted_bytes_max) +
        "; try again after commits");
  }
  for (Slice& payload : payloads) {
    AppendEntry({last_index() + 1, term_, EntryKind::kCommand, std::move(payload)});
  }
  return absl::OkStatus();
}

// --- At a follower -------------------------------------------------------------------------------

bool Raft::IsPlausible(const AppendRequest& request) const {
  if ((request.prev_index == Index{0}) != (request.prev_term == Term{0})) return false;
  Index index = request.prev_index;
  Term term = request.prev_term;
  for (const Entry& entry : request.entries) {
    if (entry.index != index + 1 || entry.index <= index) return false;
    if (entry.term < term || entry.term == Term{0}) return false;
    if (IsControl(entry.kind) && !ValidateControl(entry).ok()) return false;
    index = entry.index;
    term = entry.term;
  }
  return term <= term_;
}

void Raft::Handle(MemberId from, MemberId leader, AppendRequest& request) {
  if (!IsPlausible(request) || !AcceptLeader(leader)) return;
  if (installing_) return;
  snapshot_version_ = 0;
  auto& follower = std::get<FollowerRole>(role_);
  follower.feeder = from == leader ? kNoMember : from;
  DropCompacted(&request);
  const Index prev = request.prev_index;
  if (prev > last_index() || terms_.TermAt(prev) != request.prev_term) {
    // The entries up to the base are committed, and therefore in the leader's log too.
    const Index candidate =
        std::max(base_index(), terms_.LastWithTermUpTo(prev, request.prev_term));
    Send(from, AppendRejected{prev, candidate, terms_.TermAt(candidate)});
    return;
  }
  std::vector<Entry>& entries = request.entries;
  const Index received = prev + entries.size();
  // Old and repeated requests have entries that are in the log already. Only a real conflict
  // truncates the log (paper 5.3).
  size_t i = 0;
  while (i < entries.size() && entries[i].index <= last_index() &&
         terms_.TermAt(entries[i].index) == entries[i].term) {
    ++i;
  }
  if (i < entries.size() && entries[i].index <= last_index()) {
    // A leader never replaces an entry that it has sent: the request is invalid.
    if (entries[i].index <= follower.matched) return;
    TruncateLog(entries[i].index - 1);
  }
  for (; i < entries.size(); ++i) AppendEntry(std::move(entries[i]));
  // A commit-only append that extends nothing needs no answer, because its entries were
  // acknowledged.
  if (!request.commit_only || received > follower.matched) follower.ack_due = true;
  follower.matched = std::max(follower.matched, received);
  // After the last entry that this request covers, the log may differ from the leader's.
  const Index leader_commit =
      SeededBug("a follower commits what it receives") ? received : request.commit;
  if (const Index commit = std::min(leader_commit, received); commit > commit_) CommitTo(commit);
  ASSERT(follower.matched <= last_index());
}

void Raft::DropCompacted(AppendRequest* request) const {
  if (request->prev_index >= base_index()) return;
  std::vector<Entry>& entries = request->entries;
  const uint64_t drop = std::min<uint64_t>(base_index() - request->prev_index, entries.size());
  entries.erase(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(drop));
  request->prev_index = base_index();
  request->prev_term = terms_.TermAt(base_index());
}

Index Raft::DurableInTerm() const {
  // After a crash the member would be in an earlier term, in which an older leader could still
  // truncate the entries that were acknowledged to this leader.
  return durability_.IsHardStateDurable() ? durable_index() : Index{0};
}

void Raft::TakeAcknowledgement(FollowerRole* follower) {
  if (!std::exchange(follower->ack_due, false) || leader_ == kNoMember) return;
  const Index matched = std::min(follower->matched, LastUnderstood());
  // If there are new entries, there is a batch to wait for, after which all of the log is durable.
  // Otherwise the durable part is acknowledged now, and the rest when its batch is durable.
  const Index durable = DurableInTerm();
  const bool wait = durability_.handed() < last_index() && matched > durable;
  const Index match = wait ? matched : std::min(matched, durable);
  const AppendAccepted accepted{match, matched};
  follower->acked = std::max(follower->acked, match);
  if (wait) {
    SendAfterPersist(Source(), accepted);
  } else {
    Send(Source(), accepted);
  }
}

// --- At the leader -------------------------------------------------------------------------------

void Raft::Handle(MemberId from, const AppendRejected& rejected) {
  Progress* progress = FindReceiver(from);
  if (progress == nullptr) return;
  // Compares terms on both sides: nothing above the follower's candidate, and nothing above this
  // log's last entry of the candidate's term or an earlier one, can be common. Each probe settles a
  // whole term of either log.
  const Index candidate =
      terms_.LastWithTermUpTo(rejected.candidate_index, rejected.candidate_term);
  const Index acknowledged = progress->match();
  progress->Rejected(rejected.prev_index, candidate);
  if (progress->match() < acknowledged) {
    progress->catch_up().Restart(last_index());
    if (role() == Role::kLeader) SendLossNotice(from, acknowledged);
  }
  CheckSnapshotNeed(progress);
}

void Raft::Handle(MemberId from, const AppendAccepted& accepted) {
  Progress* progress = FindReceiver(from);
  if (progress == nullptr) return;
  if (accepted.match_index > accepted.received_index) return;
  // An observer may have received more from the leader than the follower that feeds it now.
  const bool feeds = role() != Role::kLeader;
  const Index received =
      feeds ? std::min(accepted.received_index, commit_) : accepted.received_index;
  const Index match = std::min(accepted.match_index, received);
  if (received > last_index()) return;
  // The follower was restarted, and does not know any more that the logs agree.
  if (received < progress->match()) progress->BecomeUnconfirmed();
  const bool grew = progress->Acknowledged(match, received);
  progress->catch_up().Advance(progress->match(), last_index());
  // It turns out that the follower has the entries for which it seemed to need a snapshot.
  const bool waits = progress->state() == Progress::State::kSnapshot;
  if (waits && progress->match() >= base_index()) progress->LeaveSnapshot(progress->match());
  if (grew && !feeds) CommitByCounting();
}

Index Raft::LastToSend() const {
  if (role() != Role::kLeader) {
    return SeededBug("a follower feeds what is not committed") ? last_index() : commit_;
  }
  return durable_index() == Index{0} ? Index{0} : last_index();
}

Raft::Sending Raft::NextSending(const Progress& progress) const {
  if (IsFedByOther(progress.member())) return Sending::kNothing;
  if (progress.state() == Progress::State::kSnapshot) return NextSnapshotSending(progress);
  if (progress.state() != Progress::State::kReplicate) {
    return progress.ProbeDue() ? Sending::kProbe : Sending::kNothing;
  }
  if (progress.next() <= LastToSend() && !progress.WindowFull()) {
    if (cache_.Has(progress.next()) || progress.HasReadEntries()) return Sending::kEntries;
    if (!progress.log_read_outstanding()) return Sending::kLogRead;
  }
  // A follower answers its own clients once it knows the commit index. Therefore this does not wait
  // for a heartbeat.
  if (std::min(commit_, progress.next() - 1) > progress.commit_sent()) return Sending::kCommitIndex;
  return Sending::kNothing;
}

void Raft::SendAppends(Progress* progress, Output* output) {
  auto from_memory = [&] {
    return cache_.Collect(progress->next(), LastToSend(), options_.append_bytes_max);
  };
  for (Sending next; (next = NextSending(*progress)) != Sending::kNothing;) {
    if (next == Sending::kSnapshotRead) {
      RequestSnapshotRead(progress, output);
    } else if (next == Sending::kSnapshotChunk) {
      SendSnapshotChunk(progress);
    } else if (next == Sending::kLogRead) {
      const Index last = std::min(cache_.first_index() - 1, LastToSend());
      ASSERT(last <= durable_index());
      ASSERT(progress->next() <= last);
      output->log_reads.push_back(
          {progress->member(), progress->next(), last, options_.append_bytes_max});
      progress->LogReadRequested();
    } else if (next == Sending::kEntries) {
      SendAppend(progress,
                 cache_.Has(progress->next()) ? from_memory() : progress->TakeReadEntries());
    } else if (next == Sending::kProbe && progress->state() == Progress::State::kProbe &&
               cache_.Has(progress->next()) && progress->next() <= LastToSend()) {
      SendAppend(progress, from_memory());
    } else {
      SendAppend(progress, {});
    }
  }
}

void Raft::SendAppend(Progress* progress, std::vector<Entry> entries) {
  const Index prev = progress->next() - 1;
  ASSERT(entries.empty() || entries.front().index == progress->next());
  ASSERT(entries.empty() || entries.back().index <= LastToSend());
  ASSERT(role() == Role::kLeader || prev <= LastToSend(), "a follower feeds what is committed");
  size_t bytes = 0;
  for (const Entry& entry : entries) bytes += entry.ByteSize();
  const bool commit_only = entries.empty() && progress->state() == Progress::State::kReplicate;
  const Index commit = role() == Role::kLeader ? commit_ : LastToSend();
  progress->Sent(prev + entries.size(), bytes, commit);
  SendToReceiver(progress->member(),
                 AppendRequest{prev, terms_.TermAt(prev), commit, std::move(entries), commit_only});
}

void Raft::LogRead(MemberId follower, std::vector<Entry> entries) {
  ASSERT(!entries.empty());
  Progress* progress = FindProgress(follower);
  if (progress == nullptr || !progress->LogReadAnswered(entries.front().index)) return;
  if (NeedsSnapshot(*progress)) return;
  // This member may have requested these entries when it led in an earlier term. Its log may have
  // been truncated since, and a follower does not send what is not committed. Entries that the log no
  // longer has, or that may not be sent, are ignored.
  Index expected = progress->next();
  for (const Entry& entry : entries) {
    ASSERT(entry.index == expected, "entries are read in the requested order");
    ++expected;
  }
  const Index last = LastToSend();
  while (!entries.empty() && entries.back().index > last) entries.pop_back();
  for (const Entry& entry : entries) {
    if (terms_.TermAt(entry.index) != entry.term) return;
  }
  progress->KeepReadEntries(std::move(entries));
}

void Raft::PeerUnreachable(MemberId member) {
  if (Progress* progress = FindProgress(member)) {
    progress->BecomeUnconfirmed();
    if (progress->state() == Progress::State::kSnapshot) progress->transfer().Rewind();
  }
  if (role() == Role::kFollower && member == leader_) election_timer_.ExpireSoon(&random_);
}

// --- Apply ---------------------------------------------------------------------------------------

bool Raft::ApplyDue() const {
  return apply_.handed_out() < std::min(commit_, LastUnderstood()) && !installing_ &&
         apply_.ranges_under_way() < kApplyRangesMax;
}

bool Raft::ApplyWaits() const {
  return apply_.handed_out() < commit_ && apply_.ranges_under_way() > 0;
}

ApplyRange Raft::TakeApplyRange() {
  ASSERT(ApplyDue());
  ApplyRange range;
  range.first = apply_.handed_out() + 1;
  const Index limit = std::min(commit_, LastUnderstood());
  if (cache_.Has(range.first)) {
    range.entries = cache_.Collect(range.first, limit, options_.apply_bytes_max);
    range.last = range.entries.back().index;
  } else {
    const uint64_t count_max = std::max<uint64_t>(1, options_.apply_bytes_max / kUnknownEntryBytes);
    range.last = std::min({limit, cache_.first_index() - 1, apply_.handed_out() + count_max});
    ASSERT(range.last <= durable_index(), "entries that are not in memory are in the log");
  }
  ASSERT(range.first <= range.last);
  apply_.HandOut(range.last);
  return range;
}

void Raft::Applied(Index index) {
  if (!apply_.Applied(index)) return;
  TrimCache();
  Advance();
}

}  // namespace quorate::consensus
