// SPDX-License-Identifier: Apache-2.0

// The Raft algorithm (Ongaro and Ousterhout 2014; "thesis" is Ongaro's). It is deterministic: the
// functions below take inputs, and TakeOutput returns the work for the driver. It has no I/O,
// threads, clock, locks or callbacks. Equal inputs give equal outputs, to the byte.
//
// Storage is asynchronous. A leader sends entries to its followers while its own write is in
// progress. It counts itself towards a quorum only when Persisted() says that its own copy is
// durable, even in a cluster of one. A message that promises durability is sent after the write: a
// granted vote, an acknowledgement of entries, and a candidate's vote request, which implies its
// vote for itself.
//
// The files:
//
//   raft.cc         inputs, terms and roles, the Output, invariants
//   election.cc     votes, pre-votes, check-quorum, leadership transfer
//   replication.cc  the log: proposals, append, acknowledgement, commit, apply
//   read_index.cc   linearizable reads
//   reconfiguration.cc  changes of membership and of the cluster version
//   snapshot.cc     compaction of the log, transfer of checkpoints
//   raft_feeding.cc observers that a follower feeds instead of the leader
//   data_loss.cc    new and lost disks, and a log that lost its end
//
// Parts with a state of their own, each a class with unit tests:
//
//   ElectionTimer, Durability, ApplyProgress   time, the own disk, the state machine
//   TermHistory, LogSizes, EntryCache          what is known of the log, and its newest entries
//   LogSettings                                the membership and version that the log has set
//   Progress, SnapshotTransfer, SnapshotRate   what a leader knows of a follower, and sends it
//   FeedPlan                                   which followers feed which observers
//   CatchUp                                    whether a follower may become a voter
//   ReadRounds, ForwardedReads                 linearizable reads, at a leader and elsewhere
//   LogRetention                               what is kept of the log before a checkpoint
//   SnapshotStaging                            a snapshot that is being received
//   Peers, Recovery, LaterDirectoryReports, DirectoryAnnouncements   recovery from lost disks
//
// The state that only a leader, a candidate or a follower has is in the corresponding alternative
// of `role_`, so that it ends with the role. Messages whose content depends on the state (appends,
// acknowledgements, heartbeats) are made in TakeOutput, so that one message covers all earlier
// inputs.
//
// Thread-safety: none; one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "consensus/core/apply_progress.h"
#include "consensus/core/directory_reports.h"
#include "consensus/core/durability.h"
#include "consensus/core/election_timer.h"
#include "consensus/core/entry_cache.h"
#include "consensus/core/feed_plan.h"
#include "consensus/core/initial_state.h"
#include "consensus/core/log_retention.h"
#include "consensus/core/log_settings.h"
#include "consensus/core/log_sizes.h"
#include "consensus/core/membership.h"
#include "consensus/core/message.h"
#include "consensus/core/options.h"
#include "consensus/core/output.h"
#include "consensus/core/peers.h"
#include "consensus/core/pending_reads.h"
#include "consensus/core/progress.h"
#include "consensus/core/quorum.h"
#include "consensus/core/recovery.h"
#include "consensus/core/snapshot_rate.h"
#include "consensus/core/snapshot_staging.h"
#include "consensus/core/term_history.h"
#include "consensus/core/types.h"

namespace quorate::consensus {

class Raft {
 public:
  // Creates a member. `random` must outlive it. REQUIRES: options.Validate().ok(), and `state` is
  // consistent.
  Raft(RaftOptions options, InitialState state, RandomSource* random);
  ~Raft();
  Raft& operator=(const Raft&) = delete;

  // Returns an independent copy that uses the same random source. It is for tests that try several
  // continuations of one run.
  std::unique_ptr<Raft> Clone() const;

  // Records that one unit of time has passed.
  void Tick();
  // Returns the number of coming ticks that start no election and send no heartbeat, unless another
  // input comes first. A driver may delay that many calls of Tick and make them together later. The
  // other checks of a tick (lost quorum, stalled disk, lost message, compaction) are delayed by as
  // much.
  int IdleTicks() const;

  // Handles a message from another member. Messages may be old, duplicated or reordered. A message
  // from an unknown member, or for another member, is ignored.
  void Step(Message message);

  // Appends commands to the log, in order: all of them or none.
  // Errors: FailedPrecondition if this member does not lead (or is handing leadership over),
  // ResourceExhausted if too much is uncommitted (try again after commits), InvalidArgument if a
  // payload is larger than kEntryPayloadBytesMax.
  absl::Status Propose(std::vector<Slice> payloads);

  // Asks for a linearizable read point (thesis 6.4), at a leader or at any other member. A
  // ReadResult in a later Output is the answer. `request_id` must never have been used, in this
  // process or in an earlier one.
  void ReadIndex(uint64_t request_id);

  // Records that batch `id` and all batches before it are durable. Ids ascend; some may be skipped.
  void Persisted(PersistId id);
  // Returns whether a call of Persisted would allow progress at once: a leader's commit, or an
  // acknowledgement or vote of another member. Messages that are sent after the batch do not count,
  // and neither do a leader's entries that too few followers have.
  bool PersistWaits() const;

  // Records that the state machine has applied everything up to `index`. REQUIRES: an Output had
  // `index` in a range to apply.
  void Applied(Index index);
  // Returns whether committed entries are held back until the state machine has applied more.
  bool ApplyWaits() const;

  // Answers a LogReadRequest with the entries from its `first` on, at least one. Ignored if the
  // follower no longer needs them.
  void LogRead(MemberId follower, std::vector<Entry> entries);

  // Records that the transport lost its connection to `member`, as it does at once when a process
  // dies. A leader stops pipelining to that member until the member answers. If `member` is the
  // leader, this member starts an election within a heartbeat interval instead of an election
  // timeout.
  void PeerUnreachable(MemberId member);

  // Hands leadership over to `target` (thesis 3.10), or to the most up-to-date voter if it is
  // kNoMember. The transfer is given up after an election timeout. Errors: FailedPrecondition if
  // this member does not lead or there is no such voter.
  absl::Status TransferLeadership(MemberId target);

  // Cancels a leadership transfer that is in progress, so that Propose works again. The target may
  // have received its TimeoutNow already, and may still win the election.
  void CancelTransfer();

  // Changes the membership to `target`, through a joint membership if voters change (thesis 4.3).
  // The change is complete when the committed membership is `target` (Output::membership, status);
  // a later leader completes a change that was begun. `based_on` is the membership_index() of the
  // membership from which the caller made `target`; nullopt: any.
  // Errors: InvalidArgument if `target` is not valid or is joint. Aborted if the membership has
  // changed since `based_on`. FailedPrecondition if this member does not lead, has not committed an
  // entry of its term yet or hands leadership over; if another change is under way; if the cluster
  // version does not allow it, or a new member does not understand the cluster version (the message
  // names these members). Unavailable, to be tried again, if a new voter is not a learner yet, was
  // not heard lately, is recovering, or has not caught up (catch_up.h; the message says how far it
  // is).
  absl::Status ChangeMembership(Membership target, std::optional<Index> based_on = std::nullopt);

  // Records that a durable checkpoint of the state machine has everything up to `index`. REQUIRES:
  // `index` is applied.
  void Checkpointed(Index index);
  // Sets whether the disk is almost full. If it is, compaction keeps as few entries as it can.
  void SetSpaceIsShort(bool is_short);

  // Answers a SnapshotReadRequest. Ignored if the follower no longer needs it.
  void SnapshotRead(MemberId follower, SnapshotMeta meta, uint64_t offset, Slice bytes, bool last);
  // Answers a SnapshotReadRequest for a checkpoint that does not exist any more.
  void SnapshotReadFailed(MemberId follower);
  // Answers a SnapshotWriteRequest for the snapshot of `index`: everything before `next_offset` is
  // staged, durably if that chunk was the last. Answers come in the order of the requests.
  void SnapshotWritten(Index index, uint64_t next_offset);
  // Answers a SnapshotWriteRequest whose chunk could not be stored. The staged chunks are gone. The
  // leader receives `reason`.
  void SnapshotWriteFailed(Index index, std::string reason);
  // Records that the snapshot in Output::install was installed.
  void SnapshotInstalled(Index index);

  // Returns whether TakeOutput would return any work.
  bool HasOutput() const;
  Output TakeOutput();

  // --- State, for status pages and tests ---------------------------------------------------------
  Role role() const;
  Term term() const { return term_; }
  MemberId leader() const { return leader_; }
  Index commit_index() const { return commit_; }
  Index last_index() const { return terms_.last_index(); }
  Index durable_index() const { return durability_.durable(); }
  // Returns the index after which the log begins.
  Index base_index() const { return terms_.base_index(); }
  // Returns the newest membership in the log. It is in effect whether it is committed or not
  // (thesis 4.1).
  const Membership& membership() const { return settings_.membership(); }
  // Returns the index of the entry that set it. It is at most base_index() if the log has no such
  // entry any more, and 0 if the membership comes from the configuration.
  Index membership_index() const { return settings_.membership_index(); }
  // Returns whether that entry is committed.
  bool MembershipIsCommitted() const { return membership_index() <= commit_; }
  // Returns the membership before the newest one; the newest one if that is committed.
  const Membership& MembershipBefore() const {
    return MembershipIsCommitted() ? membership() : settings_.MembershipBefore();
  }
  MemberState member_state() const { return member_state_; }
  // Returns the cluster version: the newest committed version.
  uint32_t cluster_version() const { return settings_.VersionAt(commit_); }
  // Returns the newest version that `member` understands, according to its last message; 0 if there
  // was none.
  uint32_t version_of(MemberId member) const { return peers_.VersionOf(member); }
  // Returns the ticks since a leader was last heard from; 0 at a leader.
  int ticks_since_leader() const;
  // Returns the number of times that a leader was heard from. A caller can compare two values to
  // learn whether a leader was heard from in between.
  uint64_t leader_contacts() const { return election_timer_.leader_contacts(); }
  // Returns, at a leader, the highest index up to which `member`'s durable log is known to match;
  // otherwise 0.
  Index match_index(MemberId member) const;
  // Returns, at a leader, whether `member`'s durable log is known to have all committed entries; of an
  // observer that a follower feeds, whether it had those of a short time before the last report
  // (feed_plan.h). Returns false elsewhere.
  bool IsInSync(MemberId member) const;
  // Returns, at a leader, whether `member` has caught up (catch_up.h); false for itself and elsewhere.
  bool HasCaughtUp(MemberId member) const;
  // Returns the state on one line.
  std::string ToString() const;

  // Checks the invariants that hold after every input; aborts with a message if one is violated.
  // O(members).
  void CheckInvariants() const;

 private:
  Raft(const Raft&);

  // The observers that a follower feeds (raft_feeding.cc).
  struct Feeding {
    explicit Feeding(size_t snapshot_bytes_per_tick) : snapshot_rate(snapshot_bytes_per_tick) {}

    std::vector<Progress> observers;  // ascending
    bool heartbeat_due = false;
    int ticks_since_list = 0;  // since the leader's last heartbeat, which named them
    SnapshotRate snapshot_rate;
  };
  struct FollowerRole {
    // The log is known to equal the leader's up to this index, durable or not.
    Index matched;
    // The largest match_index in an acknowledgement made so far.
    Index acked;
    bool ack_due = false;
    // The follower that sent the newest entries or chunks on the leader's behalf, and receives the
    // acknowledgements; kNoMember: the leader sends them itself.
    MemberId feeder;
    std::optional<Feeding> feeding;
    // Ticks since this follower last reported to the leader that it can feed observers.
    int ticks_since_report = kNeverReported;
  };
  static constexpr int kNeverReported = 1 << 29;
  struct PreCandidateRole {
    VoteTally votes;
    bool leadership_transfer = false;  // the leader asked for it
  };
  struct CandidateRole {
    VoteTally votes;
    // The batch that makes this member's vote for itself durable; set once the batch was handed
    // out.
    std::optional<PersistId> own_vote_batch;
  };
  struct Transfer {
    MemberId target;
    int ticks = 0;
    bool timeout_now_sent = false;
    // The member steps down even if the transfer fails: it was removed, or its disk stalls.
    bool must_leave = false;
  };
  struct LeaderRole {
    LeaderRole(Index first, size_t snapshot_bytes_per_tick)
        : first_index(first), snapshot_rate(snapshot_bytes_per_tick) {}

    // All other members, and those that were removed recently; ascending.
    std::vector<Progress> followers;
    Index first_index;  // index of the no-op that began this leadership
    int ticks_since_heartbeat = 0;
    bool heartbeat_due = false;
    ReadRounds reads;
    std::optional<Transfer> transfer;
    SnapshotRate snapshot_rate;
    FeedPlan feed_plan;
  };
  // The entries that this member had acknowledged and no longer has (data_loss.cc).
  struct Loss {
    Index first;
    Index last;
    Term last_term;  // term of the last entry
    Term notified_in_term;
  };
  enum class Sending : uint8_t {
    kNothing,
    kProbe,
    kEntries,
    kLogRead,
    kCommitIndex,
    kSnapshotRead,
    kSnapshotChunk
  };

  // --- raft.cc ---
  bool IsVoter() const { return membership().IsVoter(options_.self); }
  bool IsOnlyVoter() const { return IsVoter() && OtherVoters().empty(); }
  Quorum quorum() const { return Quorum(membership()); }
  // Does the work common to most inputs. It runs after Step, Tick, Persisted, Applied and
  // SnapshotInstalled.
  void Advance();
  void SetTerm(Term term);
  void SetLeader(MemberId leader);
  void BecomeFollower(Term term, MemberId leader);
  // Handles a message that only `leader`, the leader of the current term, sends, or a follower on
  // its behalf. Follows that leader and returns true. Returns false if `leader` cannot lead.
  bool AcceptLeader(MemberId leader);
  void AnswerOldTerm(const Message& message);
  template <typename Body>
  void Send(MemberId to, Body body) {
    SendAtTerm(to, term_, std::move(body));
  }
  template <typename Body>
  void SendAtTerm(MemberId to, Term term, Body body) {
    messages_now_.push_back(MakeMessage(to, term, std::move(body)));
  }
  // Sends a message once the next batch is durable. REQUIRES: there is something to persist, so
  // that there is a batch to wait for.
  template <typename Body>
  void SendAfterPersist(MemberId to, Body body) {
    messages_after_persist_.push_back(MakeMessage(to, term_, std::move(body)));
  }
  template <typename Body>
  Message MakeMessage(MemberId to, Term term, Body body) const {
    return {options_.self,    to, term, std::move(body), directory_epoch_, options_.version,
            IsDurablyNormal()};
  }
  // Sends a message to one of receivers(); a follower does on the leader's behalf.
  template <typename Body>
  void SendToReceiver(MemberId to, Body body) {
    Message message = MakeMessage(to, term_, std::move(body));
    if (role() != Role::kLeader) message.on_behalf_of = leader_;
    messages_now_.push_back(std::move(message));
  }
  // Records what `message` says of its sender. Returns false if the message must be dropped because
  // of its directory epoch.
  bool RecordSender(const Message& message);
  // Returns the members to which this one sends entries: a leader's followers, and the observers that
  // a follower feeds; nullptr if there are none. Ascending.
  const std::vector<Progress>* receivers() const;
  Progress* FindProgress(MemberId member);
  // Returns the same, or nullptr if another member feeds `member`. Then answers to earlier requests
  // of this member do not count.
  Progress* FindReceiver(MemberId member);
  const Progress* FindProgress(MemberId member) const;
  Status CurrentStatus() const;
  bool HasUnpersisted() const;
  bool PersistDue() const;
  bool InstallDue() const;
  void TakePersistBatch(Output* output);
  void TakeLeaderOutput(LeaderRole* leader, Output* output);
  bool LeaderHasOutput(const LeaderRole& leader) const;
  void CheckMemoryInvariants() const;
  void CheckRoleInvariants() const;
  void CheckSettingInvariants() const;
  void Dispatch(Message message);
  void TickRole();
  void CheckLogInvariants() const;

  // --- election.cc ---
  // Returns whether a leader was heard from so recently that votes for another member are refused.
  bool HearsFromLeader() const;
  // Returns whether this member may become leader: it is a voter, and its state, disk and version
  // allow it.
  bool MayCampaign() const;
  // Returns the term and index of the last entry or, if greater, those of the snapshot that is
  // being installed, or of the last entry that this member had acknowledged and lost.
  std::pair<Term, Index> LastPosition() const;
  std::vector<MemberId> OtherVoters() const;
  void StartPreVote(bool leadership_transfer);
  void Campaign(bool leadership_transfer, bool bootstrap);
  void CountVote(MemberId voter, bool granted, bool reliable = true);
  void OwnVoteDurable(PersistId id);
  void BecomeLeader();
  void TickLeader(LeaderRole* leader);
  // Returns whether the leader has recently heard from a quorum of `membership`.
  bool HasQuorum(const Membership& membership) const;
  bool TimeoutNowDue(const LeaderRole& leader) const;
  bool CountsForQuorum(const Progress* progress) const;
  const Progress* BestSuccessor(const LeaderRole& leader) const;
  // Begins to hand leadership over for good. Steps down at once if there is no successor.
  void LeaveLeadership(LeaderRole* leader);
  bool DiskStalls() const;
  void HandleVoteRequest(const Message& message, const VoteRequest& request);
  // Returns whether this member has voted for a bootstrap leader and has no entry from it, and that
  // leader, as far as is known, has forgotten the bootstrap: its directory is lost, and the cluster
  // may exist.
  bool BootstrapLeaderIsNew() const;
  void GrantVote(MemberId candidate);
  void HandlePreVoteGranted(const Message& message, const VoteResponse& response);
  void Handle(MemberId from, const VoteResponse& response);
  void Handle(MemberId from, const TimeoutNow&);
  // Never called: HandleVoteRequest handles vote requests before terms are compared.
  void Handle(MemberId, const VoteRequest&) {}

  // --- replication.cc ---
  void AppendEntry(Entry entry);
  void TruncateLog(Index index);
  void CommitTo(Index index);
  // Returns the index that a quorum has, if this member's log is durable up to `own`.
  Index ReachedWith(Index own) const;
  // Commits the entries that a quorum has (paper 5.3, 5.4.2).
  void CommitByCounting();
  void TrimCache();
  bool IsPlausible(const AppendRequest& request) const;
  void Handle(MemberId from, MemberId leader, AppendRequest& request);
  void Handle(MemberId from, const AppendAccepted& accepted);
  void Handle(MemberId from, const AppendRejected& rejected);
  // Removes from `request` the entries up to this log's base. They are committed, and therefore
  // equal.
  void DropCompacted(AppendRequest* request) const;
  void TakeAcknowledgement(FollowerRole* follower);
  // Returns the index up to which the log may be acknowledged in this term: 0 until the term is
  // durable.
  Index DurableInTerm() const;
  Sending NextSending(const Progress& progress) const;
  // Returns the last entry that may be sent: at a follower, the last committed one. The first entry
  // of a cluster is durable at its bootstrap leader before it is sent to any other member
  // (data_loss.cc).
  Index LastToSend() const;
  void SendAppends(Progress* progress, Output* output);
  void SendAppend(Progress* progress, std::vector<Entry> entries);
  bool ApplyDue() const;
  ApplyRange TakeApplyRange();
  // Returns the last entry that this program understands.
  Index LastUnderstood() const {
    return settings_.LastUnderstoodBy(options_.version, last_index());
  }

  // --- read_index.cc ---
  bool IsEstablished(const LeaderRole& leader) const { return commit_ >= leader.first_index; }
  bool ReadRoundDue(const LeaderRole& leader) const;
  void StartReadRound(LeaderRole* leader);
  void SendHeartbeats(LeaderRole* leader);
  void ConfirmReads(LeaderRole* leader);
  void FailLeaderReads(const LeaderRole& leader);
  void FailForwardedReads();
  void ExpireForwardedReads();
  void Handle(MemberId from, MemberId leader, const Heartbeat& heartbeat);
  void Handle(MemberId from, const HeartbeatResponse& response);
  void Handle(MemberId from, const ReadIndexRequest& request);
  void Handle(MemberId from, const ReadIndexResponse& response);

  // --- raft_feeding.cc ---
  // Returns whether `observer` is fed by a follower, so that this leader sends it heartbeats only.
  bool IsFedByOther(MemberId observer) const;
  // Returns the index up to which `progress` is known to match: for an observer that another member
  // feeds, what that one reported.
  static Index KnownMatch(const LeaderRole& leader, const Progress& progress);
  // Decides who feeds which observer. Runs at each tick.
  void PlanFeeding(LeaderRole* leader);
  // Takes an observer back that is fed no more, or not well.
  void ReviewFeeding(LeaderRole* leader, Progress* progress);
  // Begins to feed `progress` itself, from scratch.
  void TakeBack(LeaderRole* leader, Progress* progress);
  // Forgets how far the log of `progress` is, and what was sent.
  void Restart(Progress* progress) const;
  bool MayGiveAway(const LeaderRole& leader, const Progress& progress) const;
  // Returns the ticks for which a feeder, or an observer that it feeds, may go unreported.
  int ReportTimeoutTicks() const;
  // Returns whether `feeder` says that it is ready.
  bool IsReady(const LeaderRole& leader, MemberId feeder) const;
  // Returns whether `feeder` has what it is to send.
  bool IsUpToDate(const Progress& feeder) const;
  MemberId ChooseFeeder(const LeaderRole& leader, MemberId observer) const;
  void HandleFeedReport(LeaderRole* leader, MemberId from, const std::vector<FedObserver>& fed);
  // Feeds the observers that `heartbeat` names from now on. Returns the report that is due.
  std::optional<std::vector<FedObserver>> Feed(const Heartbeat& heartbeat);
  // Takes observers back that `target` makes voters. Returns Unavailable if there are any.
  absl::Status FeedNewVoters(const Membership& target);
  // Ends all feeding at this member, if there is any.
  void EndFeeding();
  void TickFeeding(FollowerRole* follower);
  bool FeedingHasOutput(const FollowerRole& follower) const;
  void TakeFeedingOutput(FollowerRole* follower, Output* output);
  // Returns the member that sends this one entries and chunks, and receives the acknowledgements:
  // the leader or a follower that feeds this member; kNoMember if there is no leader.
  MemberId Source() const;

  // --- reconfiguration.cc ---
  // Returns the progress of a member of whose log nothing is known yet.
  Progress MakeProgress(MemberId member) const;
  void SyncFollowers(LeaderRole* leader);
  void AppendControl(EntryKind kind, std::string payload);
  // Returns, as text, the members that do not understand `version` or were not heard from yet;
  // empty if there are none.
  std::string MembersBelowVersion(const LeaderRole& leader, uint32_t version) const;
  absl::Status CheckNewMembers(const Membership& target) const;
  // Returns FailedPrecondition if the cluster version does not allow an entry of `target`.
  absl::Status CheckVersionOf(const LeaderRole& leader, const Membership& target) const;
  void AdvanceMembership(LeaderRole* leader);
  // Takes the change of voters back that this leader has begun, if the old voters have a quorum and
  // the new ones have none. Returns whether it did.
  bool TakeBackChange();
  void AdvanceVersion(LeaderRole* leader);

  // --- snapshot.cc ---
  // Compacts the log if enough entries can be dropped. Runs at each tick and when there is a new
  // checkpoint.
  void Compact();
  // Returns the index up to which the log may be dropped without harm to members that need it. Ends
  // what is held for those that have caught up.
  Index CompactionTarget();
  // Ends what is held for those of `receivers` that have caught up. `followers` has them in the same
  // order.
  void ReleaseHeld(const std::vector<LogRetention::Follower>& followers,
                   std::vector<Progress>* receivers) const;
  // Returns `options_` as limits. REQUIRES: `options_` is constructed.
  LogRetention::Limits RetentionLimits() const;
  static std::vector<LogRetention::Follower> RetentionFollowers(const LeaderRole& leader);
  static std::vector<LogRetention::Follower> RetentionFollowers(const Feeding& feeding);
  int SnapshotStallTicks() const;
  void ResetLog(const SnapshotMeta& meta);
  bool NeedsSnapshot(const Progress& progress) const { return progress.next() <= base_index(); }
  void CheckSnapshotNeed(Progress* progress);
  Sending NextSnapshotSending(const Progress& progress) const;
  void RequestSnapshotRead(Progress* progress, Output* output);
  void SendSnapshotChunk(Progress* progress);
  bool TakesManyChunks(const Progress& progress) const;
  // Distributes the bytes of snapshots that may be sent before the next tick. Runs at each tick.
  void ShareSnapshotBudget(std::vector<Progress>* receivers, SnapshotRate* rate);
  // Returns whether this member sends a snapshot to `progress`.
  bool SendsSnapshotTo(const Progress& progress) const {
    return progress.state() == Progress::State::kSnapshot && !IsFedByOther(progress.member());
  }
  // Returns whether this member has everything that the snapshot of `meta` contains.
  bool HasAllOf(const SnapshotMeta& meta) const;
  void StagingComplete();
  void TickStaging();
  // Returns whether for at least an election timeout the leader has offered nothing but a snapshot
  // that needs a newer program, so that the offer is not a stray message.
  bool SnapshotIsTooNew() const;
  void Handle(MemberId from, MemberId leader, const SnapshotChunk& chunk);
  void Handle(MemberId from, const SnapshotAck& ack);
  void Handle(MemberId from, const SnapshotRejected& rejected);

  // --- data_loss.cc ---
  bool IsDurablyNormal() const;
  void SetMemberState(MemberState member_state);
  void RecordCluster();
  // Returns the members whose answers a recovering member needs.
  std::vector<MemberId> AcknowledgementsNeeded() const;
  // Returns all other voters, and the leader.
  std::vector<MemberId> MembersToAsk() const;
  // Returns whether the leader appends an entry for a recovering member's read index request.
  bool LeaderMarksRecovery() const;
  // Returns the ticks for which a directory counts as in use after a message from it.
  uint64_t AliveTicks() const;
  // Handles the answer of `from` that it knows the directory `known_directory_epoch` of this member.
  void RecordKnownDirectory(MemberId from, uint64_t known_directory_epoch);
  void TickRecovery();
  // Asks the members whose reports of a later directory need a confirmation, and those that have to
  // record this directory.
  void TickReports();
  void RequestAcknowledgements();
  void AdvanceRecovery();
  void Handle(MemberId from, const DirectoryEpochRequest& request);
  void Handle(MemberId from, const DirectoryEpochResponse& response);
  // Notifies `member` that it lacks entries. It had acknowledged everything up to `acknowledged`.
  void SendLossNotice(MemberId member, Index acknowledged);
  void AdvanceLoss();
  void Handle(MemberId from, const LossNotice& notice);

  const RaftOptions options_;
  RandomSource& random_;

  Term term_;
  MemberId vote_;
  MemberId leader_;
  std::variant<FollowerRole, PreCandidateRole, CandidateRole, LeaderRole> role_;

  uint64_t now_ticks_ = 0;
  ElectionTimer election_timer_;

  LogSettings settings_;

  MemberState member_state_;
  MemberState durable_member_state_;  // the newest one that is durable
  std::optional<Recovery> recovery_;
  std::optional<Loss> lost_;
  Peers peers_;
  uint64_t directory_epoch_;  // sent in messages; kNoDirectoryEpoch: none yet
  // A report counts when the other member has confirmed it three times.
  LaterDirectoryReports later_directories_{/*confirmations=*/3};
  uint64_t later_directory_epoch_ = 0;  // confirmed by a majority; 0: there is none
  DirectoryAnnouncements announcements_;
  MemberId refused_by_;
  // If not 0, the version of an offered snapshot for which this program is too old, and the time
  // since when.
  uint32_t snapshot_version_ = 0;
  uint64_t snapshot_version_ticks_ = 0;

  // The log: the terms and sizes of all entries, and the newest entries themselves. commit_ <=
  // last_index().
  TermHistory terms_;
  LogSizes sizes_;
  EntryCache cache_;
  Index commit_;

  Durability durability_;

  ApplyProgress apply_;  // up to at most commit_

  LogRetention retention_;
  std::optional<Index> compact_to_;  // for the next Output
  SnapshotStaging staging_;
  std::vector<SnapshotRejection> snapshot_rejections_;  // for the next Output
  std::optional<Index> checkpoint_wanted_;              // for the next Output
  std::optional<SnapshotMeta> installing_;
  bool install_handed_ = false;

  ForwardedReads forwarded_reads_;

  std::vector<Message> messages_now_;
  std::vector<Message> messages_after_persist_;
  std::vector<ReadResult> reads_;
  std::optional<Status> last_status_;
};

}  // namespace quorate::consensus
