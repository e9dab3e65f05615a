// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/raft.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "base/assert.h"
#include "base/seeded_bug.h"
#include "consensus/core/describe.h"
#include "consensus/core/limits.h"

namespace quorate::consensus {

// --- Construction --------------------------------------------------------------------------------

namespace {

// Returns the distance of marks in LogSizes, well below the bounds that are computed from them.
size_t SizeMarkBytes(const RaftOptions& options) {
  constexpr uint64_t kMarkBytesMax = 256u << 10;
  return static_cast<size_t>(
      std::clamp<uint64_t>(options.retained_bytes_max / 1024, 1, kMarkBytesMax));
}

}  // namespace

Raft::Raft(RaftOptions options, InitialState state, RandomSource* random)
    : options_(std::move(options)),
      random_(*random),
      term_(state.hard_state.term),
      vote_(state.hard_state.vote),
      role_(FollowerRole{}),
      election_timer_(options_.election_ticks, options_.heartbeat_ticks),
      settings_(state.checkpoint, options_.membership, state.control_entries),
      member_state_(state.hard_state.member_state),
      durable_member_state_(member_state_),
      peers_(AliveTicks()),
      directory_epoch_(state.hard_state.member_state == MemberState::kNormal
                           ? options_.directory_epoch
                           : kNoDirectoryEpoch),
      terms_(state.base_index, state.base_term, std::move(state.term_runs), state.last_index),
      sizes_(state.base_index, state.size_runs, state.last_index, SizeMarkBytes(options_)),
      cache_(state.last_index),
      // The hint was committed when it was written, and never exceeds the index that was durable at
      // that time.
      commit_(std::max(std::min(state.hard_state.commit, state.last_index), state.applied)),
      durability_(state.last_index, state.hard_state.commit, options_.commit_hint_entries),
      apply_(state.applied),
      retention_(RetentionLimits(), state.checkpoint ? state.checkpoint->index : Index{0},
                 state.base_index),
      staging_(options_.snapshot_window_bytes_max) {
  ASSERT(options_.Validate().ok());
  ASSERT(terms_.last_term() <= term_, "the hard state is written before entries of its term");
  ASSERT(apply_.applied() <= state.last_index,
         "applied entries are in the log or in the checkpoint");
  ASSERT(apply_.applied() >= base_index(), "the state machine has the entries before the log");
  const Index checkpoint = retention_.checkpoint();
  ASSERT(checkpoint >= base_index() && checkpoint <= last_index());
  ASSERT(vote_ == kNoMember || term_ > Term{0});
  commit_ = std::max(commit_, checkpoint);
  if (member_state_ == MemberState::kRecovering) recovery_.emplace(Recovery{});
  // A new member may have a log, because the entries became durable before the hard state of their
  // batch.
  if (last_index() > Index{0}) RecordCluster();
  election_timer_.Restart(&random_);
}

Raft::Raft(const Raft&) = default;
Raft::~Raft() = default;

std::unique_ptr<Raft> Raft::Clone() const { return std::unique_ptr<Raft>(new Raft(*this)); }

// --- Terms and roles -----------------------------------------------------------------------------

Role Raft::role() const {
  static_assert(
      std::is_same_v<decltype(role_),
                     std::variant<FollowerRole, PreCandidateRole, CandidateRole, LeaderRole>>,
      "the alternatives are in the order of Role");
  return static_cast<Role>(role_.index());
}

void Raft::SetTerm(Term term) {
  ASSERT(term > term_, "a term never decreases");
  term_ = term;
  vote_ = kNoMember;
  durability_.HardStateChanged();
}

void Raft::SetLeader(MemberId leader) {
  if (leader == leader_) return;
  // The new leader does not know the reads that were forwarded.
  FailForwardedReads();
  leader_ = leader;
}

void Raft::BecomeFollower(Term term, MemberId leader) {
  ASSERT(term >= term_);
  const bool new_term = term > term_;
  const bool was_follower = role() == Role::kFollower;
  const bool was_leader = role() == Role::kLeader;
  if (const auto* old = std::get_if<LeaderRole>(&role_)) {
    FailLeaderReads(*old);
    retention_.EndedSending(RetentionFollowers(*old), now_ticks_);
  }
  if (new_term) SetTerm(term);
  // `matched` and `acked` are valid for one leader only.
  if (new_term || !was_follower || leader != leader_) {
    EndFeeding();
    role_ = FollowerRole{};
  }
  SetLeader(leader);
  // A candidate that was refused has not heard from a leader by that. Therefore its silence goes on,
  // so that its clients learn in time that there is no leader.
  if (was_leader) election_timer_.EndedLeading();
  if (!was_follower) election_timer_.Restart(&random_);
}

bool Raft::AcceptLeader(MemberId leader) {
  // A term has at most one leader. The leader need not be in this member's membership (thesis 4.1).
  if (role() == Role::kLeader) return false;
  if (leader_ != kNoMember && leader_ != leader) return false;
  BecomeFollower(term_, leader);
  election_timer_.HeardLeader(&random_);
  return true;
}

void Raft::AnswerOldTerm(const Message& message) {
  ASSERT(message.term < term_);
  // Without an answer an old leader might not learn the new term: perhaps no other member has a
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

bool Raft::RecordSender(const Message& message) {
  const Peers::Received received = peers_.Receive(message, term_, now_ticks_);
  if (received.answer) Send(message.from, *received.answer);
  if (received.sender == Peers::Sender::kDropped) return false;
  Progress* progress = FindProgress(message.from);
  if (received.sender == Peers::Sender::kUnrecorded || progress == nullptr) return true;
  if (received.sender == Peers::Sender::kNewDirectory) {
    // The acknowledgements of the lost directory do not count any more.
    Restart(progress);
    progress->catch_up().Restart(last_index());
    if (auto* leader = std::get_if<LeaderRole>(&role_)) leader->feed_plan.ForgetMatch(message.from);
  }
  const bool votes_again = message.voting && !progress->voting();
  progress->RecordSender(message.version, message.voting);
  if (votes_again && role() == Role::kLeader) CommitByCounting();
  return true;
}

namespace {

// Whether only a leader, or a follower on its behalf, sends such a message.
template <typename Body>
constexpr bool kIsFromLeader =
    std::is_same_v<Body, AppendRequest> || std::is_same_v<Body, Heartbeat> ||
    std::is_same_v<Body, SnapshotChunk>;

bool IsFromLeader(const Message& message) {
  return std::visit([]<typename Body>(const Body&) { return kIsFromLeader<Body>; }, message.body);
}

// Returns whether `message` may have been sent by a follower on behalf of the leader.
bool IsPlausibleOnBehalf(const Message& message) {
  const MemberId leader = message.on_behalf_of;
  return IsFromLeader(message) && leader != message.from && leader != message.to &&
         leader.value() <= kMemberIdMax;
}

}  // namespace

void Raft::Step(Message message) {
  if (message.to != options_.self || message.from == options_.self) return;
  // The sender need not be in this member's membership: the membership of either member may be
  // outdated (thesis 4.1).
  if (message.from == kNoMember || message.from.value() > kMemberIdMax) return;
  if (message.on_behalf_of != kNoMember && !IsPlausibleOnBehalf(message)) return;
  if (!RecordSender(message)) return;
  Dispatch(std::move(message));
  Advance();
}

void Raft::Dispatch(Message message) {
  if (const auto* request = std::get_if<VoteRequest>(&message.body)) {
    HandleVoteRequest(message, *request);
    return;
  }
  if (IsFromLeader(message)) RecordCluster();
  const auto* vote = std::get_if<VoteResponse>(&message.body);
  if (vote != nullptr && vote->pre_vote && vote->granted) {
    // The term of a granted pre-vote is the one after the pre-candidate's, which perhaps no member
    // has reached yet.
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
    // Two heartbeats without an answer count as a silence.
    progress->Heard(std::min(2 * options_.heartbeat_ticks, options_.election_ticks));
  }
  const MemberId leader = message.on_behalf_of == kNoMember ? message.from : message.on_behalf_of;
  std::visit(
      [&]<typename Body>(Body& body) {
        if constexpr (kIsFromLeader<Body>) {
          Handle(message.from, leader, body);
        } else {
          Handle(message.from, body);
        }
      },
      message.body);
}

void Raft::Tick() {
  ++now_ticks_;
  ExpireForwardedReads();
  TickRole();
  TickRecovery();
  TickStaging();
  TickReports();
  Advance();
  Compact();
}

int Raft::IdleTicks() const {
  if (HasOutput() || recovery_ || lost_ || forwarded_reads_.needs_ticks() ||
      !later_directories_.empty() || !announcements_.empty()) {
    return 0;
  }
  // The bytes of snapshots that may be sent are limited for each tick.
  const std::vector<Progress>* to = receivers();
  if (to != nullptr &&
      std::any_of(to->begin(), to->end(), [this](const auto& p) { return SendsSnapshotTo(p); })) {
    return 0;
  }
  if (const auto* leader = std::get_if<LeaderRole>(&role_)) {
    if (leader->transfer) return 0;
    return std::max(0, options_.heartbeat_ticks - leader->ticks_since_heartbeat - 1);
  }
  if (IsOnlyVoter()) return 0;
  return election_timer_.IdleTicks();
}

void Raft::Advance() {
  if (auto* leader = std::get_if<LeaderRole>(&role_)) AdvanceVersion(leader);
  if (auto* leader = std::get_if<LeaderRole>(&role_)) AdvanceMembership(leader);
  AdvanceRecovery();
  AdvanceLoss();
}

void Raft::TickRole() {
  if (auto* leader = std::get_if<LeaderRole>(&role_)) {
    TickLeader(leader);
    return;
  }
  if (auto* follower = std::get_if<FollowerRole>(&role_)) TickFeeding(follower);
  election_timer_.Tick();
  if (IsOnlyVoter() && MayCampaign()) {
    // No other member can lead: this member campaigns at once, and waits only for its own vote.
    if (role() != Role::kCandidate) Campaign(false, member_state_ == MemberState::kNew);
    return;
  }
  if (!election_timer_.has_expired()) return;
  const bool is_normal = member_state_ == MemberState::kNormal;
  if (is_normal &&
      ((MayCampaign() && SeededBug("no pre-vote")) ||
       (settings_.IsRemoved(commit_, options_.self) && SeededBug("a removed member disturbs")))) {
    Campaign(false, false);
  } else if (MayCampaign()) {
    StartPreVote(false);
  } else {
    BecomeFollower(term_, kNoMember);
    election_timer_.Restart(&random_);
  }
}

// --- Durability ----------------------------------------------------------------------------------

bool Raft::HasUnpersisted() const {
  const bool due = durability_.IsDue(last_index());
  ASSERT(due || messages_after_persist_.empty());
  return due;
}

bool Raft::PersistDue() const { return HasUnpersisted() && !install_handed_; }

// Returns whether an install is due. It waits until the last batch was handed out, so that all
// batches come before it.
bool Raft::InstallDue() const { return installing_ && !install_handed_ && !PersistDue(); }

void Raft::TakePersistBatch(Output* output) {
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

void Raft::Persisted(PersistId id) {
  if (!durability_.Persisted(id)) return;
  if (durability_.IsMemberStateDurable()) durable_member_state_ = member_state_;
  OwnVoteDurable(id);
  if (role() == Role::kLeader) CommitByCounting();
  if (auto* follower = std::get_if<FollowerRole>(&role_)) {
    // Entries of an earlier leader became durable under this one. No other message would
    // acknowledge them.
    const Index matched = std::min({follower->matched, DurableInTerm(), LastUnderstood()});
    if (matched > follower->acked) follower->ack_due = true;
  }
  TrimCache();
  Advance();
}

// --- Output --------------------------------------------------------------------------------------

Status Raft::CurrentStatus() const {
  Status status;
  status.role = role();
  status.term = term_;
  status.leader = leader_;
  if (const auto* leader = std::get_if<LeaderRole>(&role_)) {
    status.leader_established = IsEstablished(*leader);
  }
  status.member_state = durable_member_state_;
  status.version = cluster_version();
  status.removed = settings_.IsRemoved(commit_, options_.self);
  if (lost_) {
    status.lost_first = lost_->first;
    status.lost_last = lost_->last;
  }
  status.later_directory_epoch = later_directory_epoch_;
  status.refused_by = refused_by_;
  if (const auto* differing = settings_.Differing()) {
    std::tie(status.differs_from, status.other_configured) = *differing;
  }
  if (settings_.version() > options_.version) {
    status.version_needed = settings_.version();
  } else if (SnapshotIsTooNew()) {
    status.version_needed = snapshot_version_;
  }
  return status;
}

bool Raft::LeaderHasOutput(const LeaderRole& leader) const {
  if (leader.heartbeat_due || ReadRoundDue(leader) || TimeoutNowDue(leader)) return true;
  return std::any_of(leader.followers.begin(), leader.followers.end(),
                     [&](const Progress& p) { return NextSending(p) != Sending::kNothing; });
}

void Raft::TakeLeaderOutput(LeaderRole* leader, Output* output) {
  // A regular heartbeat starts a round for the waiting reads too, so that reads do not depend on
  // one round whose messages were lost.
  const bool round = ReadRoundDue(*leader) || (leader->heartbeat_due && IsEstablished(*leader) &&
                                               leader->reads.has_waiting());
  if (round) StartReadRound(leader);
  if (round || leader->heartbeat_due) SendHeartbeats(leader);
  if (round) ConfirmReads(leader);
  for (Progress& progress : leader->followers) SendAppends(&progress, output);
  if (TimeoutNowDue(*leader)) {
    leader->transfer->timeout_now_sent = true;
    Send(leader->transfer->target, TimeoutNow{});
  }
}

bool Raft::HasOutput() const {
  if (!messages_now_.empty() || !reads_.empty() || PersistDue() || ApplyDue()) return true;
  if (settings_.membership_changed() || compact_to_ || InstallDue()) return true;
  if (staging_.has_output() || !snapshot_rejections_.empty() || checkpoint_wanted_) return true;
  if (const auto* leader = std::get_if<LeaderRole>(&role_); leader && LeaderHasOutput(*leader)) {
    return true;
  }
  const auto* follower = std::get_if<FollowerRole>(&role_);
  if (follower != nullptr && (follower->ack_due || FeedingHasOutput(*follower))) return true;
  return last_status_ != CurrentStatus();
}

Output Raft::TakeOutput() {
  Output output;
  if (InstallDue()) {
    install_handed_ = true;
    output.install = installing_;
  }
  if (auto* leader = std::get_if<LeaderRole>(&role_)) TakeLeaderOutput(leader, &output);
  if (auto* follower = std::get_if<FollowerRole>(&role_)) {
    TakeAcknowledgement(follower);
    TakeFeedingOutput(follower, &output);
  }
  if (PersistDue()) TakePersistBatch(&output);
  if (ApplyDue()) output.apply = TakeApplyRange();
  output.messages_now = std::exchange(messages_now_, {});
  output.reads = std::exchange(reads_, {});
  output.compact_to = std::exchange(compact_to_, std::nullopt);
  output.discard_staging = staging_.TakeDiscard();
  output.snapshot_writes = staging_.TakeWrites();
  output.snapshot_rejections = std::exchange(snapshot_rejections_, {});
  output.checkpoint_wanted = std::exchange(checkpoint_wanted_, std::nullopt);
  if (settings_.TakeMembershipChange()) output.membership = membership();
  if (Status status = CurrentStatus(); last_status_ != status) {
    last_status_ = status;
    output.status = status;
  }
  ASSERT(output.persist_id || output.messages_after_persist.empty());
  ASSERT(!HasOutput() || ApplyDue() || InstallDue(), "only apply is taken in pieces");
  return output;
}

// --- Status --------------------------------------------------------------------------------------

Progress* Raft::FindProgress(MemberId member) {
  return const_cast<Progress*>(std::as_const(*this).FindProgress(member));
}

const std::vector<Progress>* Raft::receivers() const {
  if (const auto* leader = std::get_if<LeaderRole>(&role_)) return &leader->followers;
  const auto* follower = std::get_if<FollowerRole>(&role_);
  return follower != nullptr && follower->feeding ? &follower->feeding->observers : nullptr;
}

Progress* Raft::FindReceiver(MemberId member) {
  return IsFedByOther(member) ? nullptr : FindProgress(member);
}

const Progress* Raft::FindProgress(MemberId member) const {
  const std::vector<Progress>* all = receivers();
  if (all == nullptr) return nullptr;
  const auto found = std::lower_bound(all->begin(), all->end(), member,
                                      [](const Progress& p, MemberId m) { return p.member() < m; });
  return found != all->end() && found->member() == member ? &*found : nullptr;
}

int Raft::ticks_since_leader() const {
  return role() == Role::kLeader ? 0 : election_timer_.silence_ticks();
}

Index Raft::match_index(MemberId member) const {
  if (role() == Role::kLeader && member == options_.self) return durable_index();
  const auto* leader = std::get_if<LeaderRole>(&role_);
  const Progress* progress = leader == nullptr ? nullptr : FindProgress(member);
  return progress == nullptr ? Index{0} : KnownMatch(*leader, *progress);
}

bool Raft::IsInSync(MemberId member) const {
  const auto* leader = std::get_if<LeaderRole>(&role_);
  if (leader == nullptr) return false;
  return IsFedByOther(member) ? leader->feed_plan.IsInSync(member) : match_index(member) >= commit_;
}

bool Raft::HasCaughtUp(MemberId member) const {
  const Progress* progress = role() == Role::kLeader ? FindProgress(member) : nullptr;
  return progress != nullptr && progress->catch_up().IsCaughtUp(options_.election_ticks);
}

std::string Raft::ToString() const {
  std::string out = Describe(options_.self) + " " + consensus::ToString(role()) +
                    " term=" + Describe(term_) + " vote=" + Describe(vote_) +
                    " leader=" + Describe(leader_) +
                    " last=" + DescribePosition(last_index(), terms_.last_term()) +
                    " commit=" + Describe(commit_) + " durable=" + Describe(durable_index()) +
                    " applied=" + Describe(apply_.applied());
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

void Raft::CheckLogInvariants() const {
  ASSERT(base_index() <= apply_.applied());
  ASSERT(apply_.applied() <= apply_.handed_out());
  ASSERT(apply_.handed_out() <= commit_);
  ASSERT(commit_ <= last_index());
  durability_.CheckInvariants(last_index());
  ASSERT(cache_.last_index() == last_index());
  ASSERT(cache_.first_index() <= durable_index() + 1, "entries that are not durable are in memory");
  CheckMemoryInvariants();
  ASSERT(terms_.last_term() <= term_);
  ASSERT((apply_.ranges_under_way() == 0) == (apply_.applied() == apply_.handed_out()));
}

void Raft::CheckMemoryInvariants() const {
  staging_.CheckInvariants(SnapshotStallTicks());
  // While this disk lags behind the disks of the majority, entries stay in memory until the disk
  // counts as stalled.
  if (durable_index() < commit_) return;
  // Several leaders may have filled their windows one after another, and each window and limit may
  // be exceeded by one entry of any size.
  constexpr size_t kWindows = 16;
  constexpr size_t kControlBytes = 4096;
  const size_t window_bytes =
      options_.inflight_bytes_max + options_.append_bytes_max + cache_.largest_entry_bytes();
  const size_t bytes_max = options_.cached_bytes_max + 2 * options_.uncommitted_bytes_max +
                           kWindows * window_bytes + kControlBytes;
  ASSERT(cache_.ByteSize() <= bytes_max, "the entries in memory are bounded");
}

void Raft::CheckRoleInvariants() const {
  ASSERT((leader_ == options_.self) == (role() == Role::kLeader));
  if (const auto* follower = std::get_if<FollowerRole>(&role_)) {
    ASSERT(follower->matched <= last_index());
    ASSERT(follower->acked <= follower->matched);
    ASSERT(follower->matched == Index{0} || term_ > Term{0});
    if (!follower->feeding) return;
    ASSERT(leader_ != kNoMember && !installing_);
    for (const Progress& progress : follower->feeding->observers) {
      progress.CheckInvariants(last_index());
      ASSERT((progress.state() == Progress::State::kSnapshot) == NeedsSnapshot(progress));
    }
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
      ASSERT(progress.read_round() <= leader.reads.round());
      ASSERT((progress.state() == Progress::State::kSnapshot) == NeedsSnapshot(progress));
      ASSERT(membership().Contains(progress.member()) != progress.leaving());
    }
  } else {
    ASSERT(leader_ == kNoMember);
    ASSERT(role() != Role::kCandidate || vote_ == options_.self);
  }
  ASSERT(leader_ != kNoMember || forwarded_reads_.empty());
}

void Raft::CheckInvariants() const {
  CheckLogInvariants();
  CheckRoleInvariants();
  CheckSettingInvariants();
  ASSERT(messages_after_persist_.empty() || HasUnpersisted());
}

void Raft::CheckSettingInvariants() const {
  settings_.CheckInvariants(commit_, last_index());
  ASSERT(recovery_.has_value() == (member_state_ == MemberState::kRecovering));
  ASSERT(member_state_ != MemberState::kNew || last_index() == Index{0}, "a new member has no log");
  ASSERT(member_state_ == MemberState::kNormal || role() == Role::kFollower ||
         (member_state_ == MemberState::kNew && role() == Role::kPreCandidate));
  ASSERT(!lost_ || role() == Role::kFollower);
  ASSERT(!install_handed_ || installing_);
  ASSERT(!installing_ || (role() == Role::kFollower && installing_->index > commit_));
  ASSERT(!staging_.is_active() || (!installing_ && role() != Role::kLeader));
}

}  // namespace quorate::consensus
