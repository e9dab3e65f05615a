#include "consensus/core/raft.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "base/assert.h"
#include "base/seeded_bug.h"
#include "consensus/core/describe.h"
#include "consensus/core/limits.h"
#include "consensus/core/membership.h"
#include "consensus/core/raft_impl.h"

namespace quorate::consensus {
// --- Options -------------------------------------------------------------------------------------

RaftOptions::RaftOptions()
    : retained_bytes_max(kRetainedBytesMax),
      transfer_bytes_max(kTransferBytesMax),
      snapshot_window_bytes_max(kSnapshotWindowBytesMax),
      append_bytes_max(kAppendBytesMax),
      inflight_messages_max(kInflightMessagesMax),
      inflight_bytes_max(kInflightBytesMax),
      uncommitted_bytes_max(kUncommittedBytesMax),
      cached_bytes_max(kCachedBytesMax),
      apply_bytes_max(kApplyBytesMax) {}

absl::Status RaftOptions::Validate() const {
  if (absl::Status status = ValidateMembership(membership); !status.ok()) return status;
  if (membership.joint()) {
    return absl::InvalidArgumentError("membership.outgoing must be empty at the beginning");
  }
  if (self == kNoMember || self.value() > kMemberIdMax) {
    return absl::InvalidArgumentError("self is " + Describe(self) + "; it must be in 1 to 254");
  }
  if (heartbeat_ticks <= 0 || heartbeat_ticks >= election_ticks) {
    return absl::InvalidArgumentError("heartbeat_ticks is " + std::to_string(heartbeat_ticks) +
                                      "; it must be positive and less than election_ticks, " +
                                      std::to_string(election_ticks));
  }
  const std::pair<const char*, int> times[] = {{"disk_stall_ticks", disk_stall_ticks},
                                               {"retained_ticks_max", retained_ticks_max},
                                               {"snapshot_stall_ticks", snapshot_stall_ticks}};
  for (const auto& [field, value] : times) {
    if (value < 0) return absl::InvalidArgumentError(std::string(field) + " is negative");
  }
  if (transfer_bytes_max < retained_bytes_max) {
    return absl::InvalidArgumentError(
        "transfer_bytes_max is " + std::to_string(transfer_bytes_max) +
        ", less than retained_bytes_max, " + std::to_string(retained_bytes_max));
  }
  if (retained_entries_max < trailing_entries) {
    return absl::InvalidArgumentError(
        "retained_entries_max is " + std::to_string(retained_entries_max) +
        ", less than trailing_entries, " + std::to_string(trailing_entries));
  }
  if (cluster_id_if_new.size() > kEntryPayloadBytesMax) {
    return absl::InvalidArgumentError("cluster_id_if_new is larger than an entry may be");
  }
  const std::pair<const char*, size_t> bounds[] = {
      {"append_bytes_max", append_bytes_max},
      {"inflight_messages_max", inflight_messages_max},
      {"inflight_bytes_max", inflight_bytes_max},
      {"uncommitted_bytes_max", uncommitted_bytes_max},
      {"cached_bytes_max", cached_bytes_max},
      {"apply_bytes_max", apply_bytes_max},
      {"directory_epoch", directory_epoch},
      {"version", version},
      {"snapshot_chunk_bytes", snapshot_chunk_bytes},
      {"snapshot_window_bytes_max", snapshot_window_bytes_max},
      {"snapshot_bytes_per_tick", snapshot_bytes_per_tick},
      {"retained_bytes_max", retained_bytes_max},
      {"compaction_step_entries", compaction_step_entries},
  };
  for (const auto& [field, value] : bounds) {
    if (value == 0) return absl::InvalidArgumentError(std::string(field) + " must not be 0");
  }
  if (append_bytes_max > inflight_bytes_max) {
    return absl::InvalidArgumentError("append_bytes_max is " + std::to_string(append_bytes_max) +
                                      ", more than inflight_bytes_max, " +
                                      std::to_string(inflight_bytes_max));
  }
  return absl::OkStatus();
}

// --- The public class ----------------------------------------------------------------------------

Raft::Raft(RaftOptions options, InitialState state, RandomSource* random)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(state), random)) {}
Raft::Raft(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Raft::~Raft() = default;
std::unique_ptr<Raft> Raft::Clone() const {
  return std::unique_ptr<Raft>(new Raft(std::make_unique<Impl>(*impl_)));
}
void Raft::Tick() { impl_->Tick(); }
void Raft::Step(Message message) { impl_->Step(std::move(message)); }
absl::Status Raft::Propose(std::vector<Slice> payloads) {
  return impl_->Propose(std::move(payloads));
}
void Raft::ReadIndex(uint64_t request_id) { impl_->ReadIndex(request_id); }
void Raft::Persisted(PersistId id) { impl_->Persisted(id); }
void Raft::Applied(Index index) { impl_->Applied(index); }
void Raft::LogRead(MemberId follower, std::vector<Entry> entries) {
  impl_->LogRead(follower, std::move(entries));
}
void Raft::PeerUnreachable(MemberId member) { impl_->PeerUnreachable(member); }
absl::Status Raft::TransferLeadership(MemberId target) { return impl_->TransferLeadership(target); }
void Raft::CancelTransfer() { impl_->CancelTransfer(); }
absl::Status Raft::ChangeMembership(Membership target) {
  return impl_->ChangeMembership(std::move(target));
}
void Raft::Checkpointed(Index index) { impl_->Checkpointed(index); }
void Raft::SetSpaceIsShort(bool is_short) { impl_->SetSpaceIsShort(is_short); }
void Raft::SnapshotRead(MemberId follower, SnapshotMeta meta, uint64_t offset, Slice bytes,
                        bool last) {
  impl_->SnapshotRead(follower, std::move(meta), offset, std::move(bytes), last);
}
void Raft::SnapshotReadFailed(MemberId follower) { impl_->SnapshotReadFailed(follower); }
void Raft::SnapshotWritten(Index index, uint64_t next_offset) {
  impl_->SnapshotWritten(index, next_offset);
}
void Raft::SnapshotWriteFailed(Index index, std::string reason) {
  impl_->SnapshotWriteFailed(index, std::move(reason));
}
void Raft::SnapshotInstalled(Index index) { impl_->SnapshotInstalled(index); }
bool Raft::HasOutput() const { return impl_->HasOutput(); }
bool Raft::ApplyWaits() const { return impl_->ApplyWaits(); }
bool Raft::PersistWaits() const { return impl_->PersistWaits(); }
int Raft::IdleTicks() const { return impl_->IdleTicks(); }
Output Raft::TakeOutput() { return impl_->TakeOutput(); }
Role Raft::role() const { return impl_->role(); }
Term Raft::term() const { return impl_->term(); }
MemberId Raft::leader() const { return impl_->leader(); }
Index Raft::commit_index() const { return impl_->commit_index(); }
Index Raft::last_index() const { return impl_->last_index(); }
Index Raft::durable_index() const { return impl_->durable_index(); }
Index Raft::base_index() const { return impl_->base_index(); }
const Membership& Raft::membership() const { return impl_->membership(); }
MemberState Raft::member_state() const { return impl_->member_state(); }
uint32_t Raft::cluster_version() const { return impl_->cluster_version(); }
uint32_t Raft::version_of(MemberId member) const { return impl_->version_of(member); }
int Raft::ticks_since_leader() const { return impl_->ticks_since_leader(); }
uint64_t Raft::leader_contacts() const { return impl_->leader_contacts(); }
Index Raft::match_index(MemberId member) const { return impl_->match_index(member); }
std::string Raft::ToString() const { return impl_->ToString(); }
void Raft::CheckInvariants() const { impl_->CheckInvariants(); }

// --- Construction --------------------------------------------------------------------------------

namespace {

// The distance of marks in LogSizes: well below the bounds that are computed from them.
size_t SizeMarkBytes(const RaftOptions& options) {
  constexpr uint64_t kMarkBytesMax = 256u << 10;
  return static_cast<size_t>(
      std::clamp<uint64_t>(options.retained_bytes_max / 1024, 1, kMarkBytesMax));
}

}  // namespace

Raft::Impl::Impl(RaftOptions options, InitialState state, RandomSource* random)
    : options_(std::move(options)),
      random_(*random),
      term_(state.hard_state.term),
      vote_(state.hard_state.vote),
      role_(FollowerRole{}),
      memberships_(state.checkpoint ? state.checkpoint->index : Index{0},
                   state.checkpoint ? state.checkpoint->membership : options_.membership),
      versions_(state.checkpoint ? state.checkpoint->index : Index{0},
                state.checkpoint ? state.checkpoint->version : kVersionBase),
      member_state_(state.hard_state.member_state),
      directory_epoch_(state.hard_state.member_state == MemberState::kNormal
                           ? options_.directory_epoch
                           : kNoDirectoryEpoch),
      terms_(state.base_index, state.base_term, std::move(state.term_runs), state.last_index),
      sizes_(state.base_index, state.size_runs, state.last_index, SizeMarkBytes(options_)),
      cache_(state.last_index),
      // The hint was committed when it was written, and never exceeds the index that was durable
      // then.
      commit_(std::max(std::min(state.hard_state.commit, state.last_index), state.applied)),
      durability_(state.last_index, state.hard_state.commit, options_.commit_hint_entries),
      applied_(state.applied),
      apply_handed_(state.applied),
      checkpoint_(state.checkpoint ? state.checkpoint->index : Index{0}),
      previous_checkpoint_(state.base_index) {
  ASSERT(options_.Validate().ok());
  ASSERT(terms_.last_term() <= term_, "the hard state is written before entries of its term");
  ASSERT(applied_ <= state.last_index, "what is applied is in the log");
  ASSERT(applied_ >= base_index(), "what the log lost is in the checkpoint");
  ASSERT(checkpoint_ >= base_index() && checkpoint_ <= last_index());
  ASSERT(vote_ == kNoMember || term_ > Term{0});
  commit_ = std::max(commit_, checkpoint_);
  if (state.checkpoint) configured_until_ = ConfiguredUntil(*state.checkpoint);
  for (const Entry& entry : state.control_entries) {
    if (entry.kind == EntryKind::kMembership && entry.index <= checkpoint_) {
      configured_until_ = Index{0};
    }
    // Earlier settings are included in the checkpoint.
    if (entry.index > checkpoint_) FollowControl(entry);
  }
  if (member_state_ == MemberState::kRecovering) recovery_.emplace(Recovery{});
  // A new member may have a log: the entries became durable before the hard state of their batch.
  if (last_index() > Index{0}) RecordCluster();
  ResetElectionTimer();
}

// --- Terms and roles -----------------------------------------------------------------------------

Role Raft::Impl::role() const {
  static_assert(
      std::is_same_v<decltype(role_),
                     std::variant<FollowerRole, PreCandidateRole, CandidateRole, LeaderRole>>,
      "the alternatives are in the order of Role");
  return static_cast<Role>(role_.index());
}

void Raft::Impl::SetTerm(Term term) {
  ASSERT(term > term_, "terms only grow");
  term_ = term;
  vote_ = kNoMember;
  durability_.HardStateChanged();
}

void Raft::Impl::SetLeader(MemberId leader) {
  if (leader == leader_) return;
  // Another leader does not know the forwarded reads.
  FailForwardedReads();
  leader_ = leader;
}

void Raft::Impl::BecomeFollower(Term term, MemberId leader) {
  ASSERT(term >= term_);
  const bool new_term = term > term_;
  const bool was_follower = role() == Role::kFollower;
  const bool was_leader = role() == Role::kLeader;
  if (const auto* old = std::get_if<LeaderRole>(&role_)) {
    FailLeaderReads(*old);
    RecordFormerHold(*old);
  }
  if (new_term) SetTerm(term);
  // `matched` and `acked` hold for one leader only.
  if (new_term || !was_follower || leader != leader_) role_ = FollowerRole{};
  SetLeader(leader);
  // A candidate that was refused has not heard from a leader by that: ticks_since_leader_ runs on,
  // so that its clients learn in time that there is no leader.
  if (was_leader) ticks_since_leader_ = 0;
  if (!was_follower) ResetElectionTimer();
}

bool Raft::Impl::AcceptLeader(MemberId from) {
  // A term has at most one leader. It need not be in this member's membership (thesis 4.1).
  if (role() == Role::kLeader) return false;
  if (leader_ != kNoMember && leader_ != from) return false;
  BecomeFollower(term_, from);
  ticks_since_leader_ = 0;
  ++leader_contacts_;
  ResetElectionTimer();
  return true;
}

void Raft::Impl::AnswerOldTerm(const Message& message) {
  ASSERT(message.term < term_);
  // Without an answer an old leader would not learn the new term: perhaps no other member has a
  // message for it, and this member is not elected.
  if (std::holds_alternative<AppendRequest>(message.body)) {
    Send(message.from, AppendRejected{});
  } else if (std::holds_alternative<Heartbeat>(message.body)) {
    Send(message.from, HeartbeatResponse{});
  } else if (std::holds_alternative<SnapshotChunk>(message.body)) {
    Send(message.from, SnapshotAck{});
  } else if (const auto* request = std::get_if<DirectoryEpochRequest>(&message.body)) {
    Handle(message.from, *request);
  }
}

bool Raft::Impl::RecordSender(const Message& message) {
  Peer& peer = peers_[message.from];
  Progress* progress = FindProgress(message.from);
  peer.voting = message.voting;
  // Acknowledgements without a directory epoch are not from this directory: a member that chooses
  // an epoch first sends messages with `voting` false.
  const bool is_another =
      message.directory_epoch > peer.directory_epoch && peer.heard_ticks > 0 && message.voting;
  if (message.directory_epoch < peer.directory_epoch ||
      (message.directory_epoch > peer.directory_epoch &&
       peer.directory_epoch != kNoDirectoryEpoch) ||
      is_another) {
    if (peer.directory_epoch != kNoDirectoryEpoch && !AdmitOtherDirectoryEpoch(message, peer))
      return false;
    // A directory without an epoch is heard, but does not take the place of the one before it.
    if (message.directory_epoch < peer.directory_epoch) return true;
    if (progress != nullptr) {
      // What the lost directory acknowledged does not count any more.
      const bool leaving = progress->leaving();
      *progress = MakeProgress(message.from);
      progress->SetLeaving(leaving);
    }
  }
  peer = {message.directory_epoch, message.version, now_ticks_, message.voting};
  if (progress != nullptr) {
    const bool votes_again = message.voting && !progress->voting();
    progress->RecordSender(message.version, message.voting);
    if (votes_again) CommitByCounting();
  }
  return true;
}

void Raft::Impl::Step(Message message) {
  if (message.to != options_.self || message.from == options_.self) return;
  // The sender need not be in this member's membership: either may be out of date (thesis 4.1).
  if (message.from == kNoMember || message.from.value() > kMemberIdMax) return;
  if (!RecordSender(message)) return;
  Dispatch(std::move(message));
  Advance();
}

void Raft::Impl::Dispatch(Message message) {
  if (const auto* request = std::get_if<VoteRequest>(&message.body)) {
    HandleVoteRequest(message, *request);
    return;
  }
  if (std::holds_alternative<AppendRequest>(message.body) ||
      std::holds_alternative<Heartbeat>(message.body) ||
      std::holds_alternative<SnapshotChunk>(message.body)) {
    RecordCluster();
  }
  const auto* vote = std::get_if<VoteResponse>(&message.body);
  if (vote != nullptr && vote->pre_vote && vote->granted) {
    // Its term is the one after the pre-candidate's, which perhaps no member has reached yet.
    HandlePreVoteGranted(message, *vote);
    return;
  }
  if (message.term < term_) {
    AnswerOldTerm(message);
    return;
  }
  if (message.term > term_) BecomeFollower(message.term, kNoMember);
  ASSERT(message.term == term_);
  if (Progress* progress = FindProgress(message.from)) {
    // A silence is two heartbeats without an answer.
    progress->Heard(std::min(2 * options_.heartbeat_ticks, options_.election_ticks));
  }
  std::visit([&](auto& body) { Handle(message.from, body); }, message.body);
}

void Raft::Impl::Tick() {
  ++now_ticks_;
  ExpireForwardedReads();
  TickRole();
  TickRecovery();
  TickStaging();
  TickSuspicions();
  TickAnnouncements();
  Advance();
  Compact();
}

int Raft::Impl::IdleTicks() const {
  if (HasOutput() || recovery_ || lost_ || !forwarded_order_.empty() || !suspicions_.empty() ||
      !unaware_.empty()) {
    return 0;
  }
  if (const auto* leader = std::get_if<LeaderRole>(&role_)) {
    // The bytes of a snapshot that may leave are bounded for each tick.
    const bool sends_snapshot = std::any_of(
        leader->followers.begin(), leader->followers.end(),
        [](const auto& progress) { return progress.state() == Progress::State::kSnapshot; });
    if (leader->transfer || sends_snapshot) return 0;
    return std::max(0, options_.heartbeat_ticks - leader->ticks_since_heartbeat - 1);
  }
  if (IsOnlyVoter()) return 0;
  return std::max(0, election_timeout_ - election_elapsed_ - 1);
}

void Raft::Impl::Advance() {
  if (auto* leader = std::get_if<LeaderRole>(&role_)) AdvanceVersion(leader);
  if (auto* leader = std::get_if<LeaderRole>(&role_)) AdvanceMembership(leader);
  AdvanceRecovery();
  AdvanceLoss();
}

void Raft::Impl::TickRole() {
  if (auto* leader = std::get_if<LeaderRole>(&role_)) {
    TickLeader(leader);
    return;
  }
  constexpr int kTicksMax = 1 << 30;
  ticks_since_leader_ = std::min(ticks_since_leader_ + 1, kTicksMax);
  ++election_elapsed_;
  if (IsOnlyVoter() && MayCampaign()) {
    // No other member can lead: this one campaigns at once, and waits for its own vote only.
    if (role() != Role::kCandidate) Campaign(false, member_state_ == MemberState::kNew);
    return;
  }
  if (election_elapsed_ < election_timeout_) return;
  if (MayCampaign() && member_state_ == MemberState::kNormal && SeededBug("no pre-vote")) {
    Campaign(false, false);
  } else if (MayCampaign()) {
    StartPreVote(false);
  } else {
    BecomeFollower(term_, kNoMember);
    ResetElectionTimer();
  }
}

// --- Durability ----------------------------------------------------------------------------------

bool Raft::Impl::HasUnpersisted() const {
  const bool due = durability_.IsDue(last_index());
  ASSERT(due || messages_after_persist_.empty());
  return due;
}

bool Raft::Impl::PersistDue() const { return HasUnpersisted() && !install_handed_; }

// An install waits until the last batch was handed out, so that all batches come before it.
bool Raft::Impl::InstallDue() const { return installing_ && !install_handed_ && !PersistDue(); }

void Raft::Impl::TakePersistBatch(Output* output) {
  ASSERT(PersistDue());
  const Durability::Batch batch = durability_.Take(last_index(), commit_, now_ticks_);
  output->persist_id = batch.id;
  if (batch.commit_hint) {
    output->hard_state = HardState{term_, vote_, *batch.commit_hint, member_state_};
  }
  if (batch.hard_state_changed) {
    if (auto* candidate = std::get_if<CandidateRole>(&role_); candidate != nullptr) {
      if (!candidate->own_vote_batch) candidate->own_vote_batch = batch.id;
    }
  }
  const bool became_normal = batch.member_state_changed && member_state_ == MemberState::kNormal;
  if (became_normal && directory_epoch_ != options_.directory_epoch)
    output->directory_epoch = directory_epoch_;
  output->truncate_after = batch.truncate_after;
  if (batch.first <= batch.last) {
    output->entries = cache_.Collect(batch.first, batch.last, cache_.BytesAfter(batch.first - 1));
    ASSERT(output->entries.size() == batch.last - batch.first + 1);
  }
  output->messages_after_persist = std::exchange(messages_after_persist_, {});
}

void Raft::Impl::Persisted(PersistId id) {
  if (!durability_.Persisted(id)) return;
  OwnVoteDurable(id);
  if (role() == Role::kLeader) CommitByCounting();
  if (auto* follower = std::get_if<FollowerRole>(&role_)) {
    // Entries of an earlier leader became durable under this one: no other message would
    // acknowledge them.
    const Index matched = std::min({follower->matched, DurableInTerm(), LastUnderstood()});
    if (matched > follower->acked) follower->ack_due = true;
  }
  TrimCache();
  Advance();
}

// --- Output --------------------------------------------------------------------------------------

Status Raft::Impl::CurrentStatus() const {
  Status status;
  status.role = role();
  status.term = term_;
  status.leader = leader_;
  if (const auto* leader = std::get_if<LeaderRole>(&role_)) {
    status.leader_established = IsEstablished(*leader);
  }
  status.member_state = member_state_;
  status.version = cluster_version();
  status.removed = IsRemoved();
  if (lost_) {
    status.lost_first = lost_->first;
    status.lost_last = lost_->last;
  }
  status.later_directory_epoch = later_directory_epoch_;
  status.refused_by = refused_by_;
  if (DiffersFromAnother()) {
    std::tie(status.differs_from, status.other_configured) = *differing_.begin();
  }
  if (versions_.newest() > options_.version) {
    status.version_needed = versions_.newest();
  } else if (SnapshotIsTooNew()) {
    status.version_needed = snapshot_version_;
  }
  return status;
}

bool Raft::Impl::LeaderHasOutput(const LeaderRole& leader) const {
  if (leader.heartbeat_due || ReadRoundDue(leader) || TimeoutNowDue(leader)) return true;
  return std::any_of(leader.followers.begin(), leader.followers.end(),
                     [&](const Progress& p) { return NextSending(p) != Sending::kNothing; });
}

void Raft::Impl::TakeLeaderOutput(LeaderRole* leader, Output* output) {
  // A regular heartbeat also starts a round for the waiting reads, so that reads do not depend on
  // one round whose messages were lost.
  const bool round = ReadRoundDue(*leader) ||
                     (leader->heartbeat_due && IsEstablished(*leader) && !leader->waiting.empty());
  if (round) StartReadRound(leader);
  if (round || leader->heartbeat_due) SendHeartbeats(leader);
  if (round) ConfirmReads(leader);
  for (Progress& progress : leader->followers) SendAppends(&progress, output);
  if (TimeoutNowDue(*leader)) {
    leader->transfer->timeout_now_sent = true;
    Send(leader->transfer->target, TimeoutNow{});
  }
}

bool Raft::Impl::HasOutput() const {
  if (!messages_now_.empty() || !reads_.empty() || PersistDue() || ApplyDue()) return true;
  if (membership_changed_ || compact_to_ || InstallDue()) return true;
  if (discard_staging_ || (staging_ && !staging_->writes.empty())) return true;
  if (!snapshot_rejections_.empty() || checkpoint_wanted_) return true;
  if (const auto* leader = std::get_if<LeaderRole>(&role_); leader && LeaderHasOutput(*leader)) {
    return true;
  }
  if (const auto* follower = std::get_if<FollowerRole>(&role_); follower && follower->ack_due) {
    return true;
  }
  return last_status_ != CurrentStatus();
}

Output Raft::Impl::TakeOutput() {
  Output output;
  if (InstallDue()) {
    install_handed_ = true;
    output.install = installing_;
  }
  if (auto* leader = std::get_if<LeaderRole>(&role_)) TakeLeaderOutput(leader, &output);
  if (auto* follower = std::get_if<FollowerRole>(&role_)) TakeAcknowledgement(follower);
  if (PersistDue()) TakePersistBatch(&output);
  if (ApplyDue()) output.apply = TakeApplyRange();
  output.messages_now = std::exchange(messages_now_, {});
  output.reads = std::exchange(reads_, {});
  output.compact_to = std::exchange(compact_to_, std::nullopt);
  output.discard_staging = std::exchange(discard_staging_, false);
  if (staging_) {
    staging_->writing += staging_->writes.size();
    output.snapshot_writes.assign(std::make_move_iterator(staging_->writes.begin()),
                                  std::make_move_iterator(staging_->writes.end()));
    staging_->writes.clear();
  }
  output.snapshot_rejections = std::exchange(snapshot_rejections_, {});
  output.checkpoint_wanted = std::exchange(checkpoint_wanted_, std::nullopt);
  if (std::exchange(membership_changed_, false)) output.membership = membership();
  if (Status status = CurrentStatus(); last_status_ != status) {
    last_status_ = status;
    output.status = status;
  }
  ASSERT(output.persist_id || output.messages_after_persist.empty());
  ASSERT(!HasOutput() || ApplyDue() || InstallDue(), "only apply is taken in pieces");
  return output;
}

// --- What it knows -------------------------------------------------------------------------------

Progress* Raft::Impl::FindProgress(MemberId member) {
  return const_cast<Progress*>(std::as_const(*this).FindProgress(member));
}

const Progress* Raft::Impl::FindProgress(MemberId member) const {
  const auto* leader = std::get_if<LeaderRole>(&role_);
  if (leader == nullptr) return nullptr;
  const auto found = std::lower_bound(leader->followers.begin(), leader->followers.end(), member,
                                      [](const Progress& p, MemberId m) { return p.member() < m; });
  return found != leader->followers.end() && found->member() == member ? &*found : nullptr;
}

uint32_t Raft::Impl::version_of(MemberId member) const {
  const auto peer = peers_.find(member);
  return peer == peers_.end() ? 0 : peer->second.version;
}

int Raft::Impl::ticks_since_leader() const {
  return role() == Role::kLeader ? 0 : ticks_since_leader_;
}

Index Raft::Impl::match_index(MemberId member) const {
  if (role() == Role::kLeader && member == options_.self) return durable_index();
  const Progress* progress = FindProgress(member);
  return progress == nullptr ? Index{0} : progress->match();
}

std::string Raft::Impl::ToString() const {
  std::string out = Describe(options_.self) + " " + consensus::ToString(role()) +
                    " term=" + Describe(term_) + " vote=" + Describe(vote_) +
                    " leader=" + Describe(leader_) +
                    " last=" + DescribePosition(last_index(), terms_.last_term()) +
                    " commit=" + Describe(commit_) + " durable=" + Describe(durable_index()) +
                    " applied=" + Describe(applied_);
  if (base_index() > Index{0}) out += " base=" + Describe(base_index());
  if (member_state_ != MemberState::kNormal) out += " " + consensus::ToString(member_state_);
  if (membership().joint()) out += " joint";
  if (installing_) out += " installing=" + Describe(installing_->index);
  if (const auto* leader = std::get_if<LeaderRole>(&role_)) {
    for (const Progress& progress : leader->followers) out += " [" + progress.ToString() + "]";
    if (leader->transfer) out += " transfer=" + Describe(leader->transfer->target);
  }
  return out;
}

// --- Invariants ----------------------------------------------------------------------------------

void Raft::Impl::CheckLogInvariants() const {
  ASSERT(base_index() <= applied_);
  ASSERT(applied_ <= apply_handed_);
  ASSERT(apply_handed_ <= commit_);
  ASSERT(commit_ <= last_index());
  durability_.CheckInvariants(last_index());
  ASSERT(cache_.last_index() == last_index());
  ASSERT(cache_.first_index() <= durable_index() + 1, "what is not durable is in memory");
  CheckMemoryInvariants();
  ASSERT(terms_.last_term() <= term_);
  ASSERT(applying_.empty() == (applied_ == apply_handed_));
}

void Raft::Impl::CheckMemoryInvariants() const {
  ASSERT(!staging_ || staging_->ticks_since_chunk < SnapshotStallTicks(),
         "a staging for which nothing comes is given back");
  // While this disk lags behind those of the majority, entries stay in memory until it counts as
  // stalled.
  if (durable_index() < commit_) return;
  // Several leaders may have filled their windows one after another, and each window and limit
  // takes one entry of any size.
  constexpr size_t kWindows = 16;
  constexpr size_t kControlBytes = 4096;
  const size_t window_bytes =
      options_.inflight_bytes_max + options_.append_bytes_max + cache_.largest_entry_bytes();
  const size_t bytes_max = options_.cached_bytes_max + 2 * options_.uncommitted_bytes_max +
                           kWindows * window_bytes + kControlBytes;
  ASSERT(cache_.ByteSize() <= bytes_max, "what is kept in memory is bounded");
}

void Raft::Impl::CheckRoleInvariants() const {
  ASSERT((leader_ == options_.self) == (role() == Role::kLeader));
  if (const auto* follower = std::get_if<FollowerRole>(&role_)) {
    ASSERT(follower->matched <= last_index());
    ASSERT(follower->acked <= follower->matched);
    ASSERT(follower->matched == Index{0} || term_ > Term{0});
  } else if (role() == Role::kLeader) {
    const auto& leader = std::get<LeaderRole>(role_);
    ASSERT(vote_ == options_.self);
    ASSERT(leader.first_index <= last_index());
    ASSERT(leader.first_index <= base_index() || terms_.TermAt(leader.first_index) == term_);
    ASSERT(terms_.last_term() == term_);
    ASSERT(!durability_.truncate_due() || *durability_.truncate_due() < leader.first_index,
           "a leader only appends");
    for (const Progress& progress : leader.followers) {
      progress.CheckInvariants(last_index());
      ASSERT(progress.read_round() <= leader.round);
      ASSERT((progress.state() == Progress::State::kSnapshot) == NeedsSnapshot(progress));
      ASSERT(membership().Contains(progress.member()) != progress.leaving());
    }
  } else {
    ASSERT(leader_ == kNoMember);
    ASSERT(role() != Role::kCandidate || vote_ == options_.self);
  }
  ASSERT(leader_ != kNoMember || forwarded_reads_.empty());
}

void Raft::Impl::CheckInvariants() const {
  CheckLogInvariants();
  CheckRoleInvariants();
  CheckSettingInvariants();
  ASSERT(messages_after_persist_.empty() || HasUnpersisted());
}

void Raft::Impl::CheckSettingInvariants() const {
  ASSERT(memberships_.settings().front().first <= commit_);
  ASSERT(memberships_.newest_index() <= last_index());
  ASSERT(versions_.newest_index() <= last_index());
  ASSERT(ValidateMembership(membership()).ok());
  ASSERT(recovery_.has_value() == (member_state_ == MemberState::kRecovering));
  ASSERT(member_state_ != MemberState::kNew || last_index() == Index{0}, "a log is evidence");
  ASSERT(member_state_ == MemberState::kNormal || role() == Role::kFollower ||
         (member_state_ == MemberState::kNew && role() == Role::kPreCandidate));
  ASSERT(!lost_ || role() == Role::kFollower);
  ASSERT(!install_handed_ || installing_);
  ASSERT(!installing_ || (role() == Role::kFollower && installing_->index > commit_));
  ASSERT(!installing_ || !staging_);
  ASSERT(!staging_ || staging_->staged <= staging_->received);
  ASSERT(!staging_ || role() != Role::kLeader);
}

}  // namespace quorate::consensus
