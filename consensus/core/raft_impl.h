// The state of a Raft object, and how its algorithm is split:
//
//   raft.cc         inputs, terms and roles, the Output, invariants
//   election.cc     votes, pre-votes, check-quorum, leadership transfer
//   replication.cc  the log: proposals, append, acknowledgement, commit, apply
//   read_index.cc   linearizable reads
//   reconfiguration.cc  changes of membership and of the cluster version
//   snapshot.cc     compaction of the log, transfer of checkpoints
//   data_loss.cc    new and lost disks, and a log that lost its end
//
// What only a leader, a candidate or a follower has lives in that alternative of `role_`, so that
// it ends with the role. Messages whose content depends on the state (appends, acknowledgements,
// heartbeats) are made in TakeOutput, so that everything that came in before travels in one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "consensus/core/durability.h"
#include "consensus/core/entry_cache.h"
#include "consensus/core/log_sizes.h"
#include "consensus/core/membership.h"
#include "consensus/core/message.h"
#include "consensus/core/output.h"
#include "consensus/core/progress.h"
#include "consensus/core/quorum.h"
#include "consensus/core/raft.h"
#include "consensus/core/term_history.h"
#include "consensus/core/types.h"

namespace quorate::consensus {

class Raft::Impl {
 public:
  Impl(RaftOptions options, InitialState state, RandomSource* random);

  void Tick();
  void Step(Message message);
  absl::Status Propose(std::vector<Slice> payloads);
  void ReadIndex(uint64_t request_id);
  void Persisted(PersistId id);
  void Applied(Index index);
  void LogRead(MemberId follower, std::vector<Entry> entries);
  void PeerUnreachable(MemberId member);
  absl::Status TransferLeadership(MemberId target);
  void CancelTransfer();
  absl::Status ChangeMembership(Membership target);
  void Checkpointed(Index index);
  void SetSpaceIsShort(bool is_short);
  void SnapshotRead(MemberId follower, SnapshotMeta meta, uint64_t offset, Slice bytes, bool last);
  void SnapshotReadFailed(MemberId follower);
  void SnapshotWritten(Index index, uint64_t next_offset);
  void SnapshotWriteFailed(Index index, std::string reason);
  void SnapshotInstalled(Index index);
  bool HasOutput() const;
  bool ApplyWaits() const;
  bool PersistWaits() const;
  int IdleTicks() const;
  Output TakeOutput();

  Role role() const;
  Term term() const { return term_; }
  MemberId leader() const { return leader_; }
  Index commit_index() const { return commit_; }
  Index last_index() const { return terms_.last_index(); }
  Index durable_index() const { return durability_.durable(); }
  Index base_index() const { return terms_.base_index(); }
  const Membership& membership() const { return memberships_.newest(); }
  MemberState member_state() const { return member_state_; }
  uint32_t cluster_version() const { return versions_.At(commit_); }
  uint32_t version_of(MemberId member) const;
  int ticks_since_leader() const;
  uint64_t leader_contacts() const { return leader_contacts_; }
  Index match_index(MemberId member) const;
  std::string ToString() const;
  void CheckInvariants() const;

 private:
  struct FollowerRole {
    // The log is known to equal the leader's up to here, durable or not.
    Index matched;
    // The largest match_index in an acknowledgement made so far.
    Index acked;
    bool ack_due = false;
  };
  struct PreCandidateRole {
    VoteTally votes;
    bool leadership_transfer = false;  // the leader asked for it
  };
  struct CandidateRole {
    VoteTally votes;
    // The batch that makes the vote for itself durable, once it was handed out.
    std::optional<PersistId> own_vote_batch;
  };
  struct PendingRead {
    uint64_t request_id;
    MemberId from;  // this member, or the follower that forwarded it
    // The answer is at least this: what a recovering member must have.
    Index floor{};
  };
  struct ReadBatch {
    ReadRound round;
    Index index;  // the commit index when the round began
    std::vector<PendingRead> reads;
  };
  struct Transfer {
    MemberId target;
    int ticks = 0;
    bool timeout_now_sent = false;
    // It leads on in no case: it was removed, or its disk stalls.
    bool must_leave = false;
  };
  struct LeaderRole {
    // All members but this one, and those that were removed lately; ascending.
    std::vector<Progress> followers;
    Index first_index;  // of the no-op that began this leadership
    int ticks_since_heartbeat = 0;
    bool heartbeat_due = false;
    ReadRound round;                   // the newest that was begun
    std::vector<PendingRead> waiting;  // not yet in a round
    std::deque<ReadBatch> confirming;  // ascending rounds
    std::optional<Transfer> transfer;
    // Bytes of all snapshots that may leave between two ticks; adapts.
    size_t snapshot_rate_bytes = 0;
    // The last index at each of the last ticks, the oldest at now_ticks_ modulo their number: what
    // is not committed by now takes long.
    std::array<Index, 3> last_before = {};
  };
  // A snapshot that is being received. It outlives its sender's leadership: the next leader may be
  // able to go on with it.
  struct Staging {
    SnapshotMeta meta;
    uint64_t staged = 0;                      // everything before it is staged
    uint64_t received = 0;                    // everything before it was received
    std::deque<SnapshotWriteRequest> writes;  // to be given out
    size_t writing = 0;                       // given out and not answered
    bool last = false;                        // the last chunk was received
    Term offered_in;  // in which the leader, who began another one, was asked to go on with this
    int ticks_since_chunk = 0;
  };
  // What this member's leadership, which ended then, kept the log for.
  struct FormerHold {
    Index from;
    uint64_t ended_ticks = 0;
  };
  // What a member knows of another's process, from its messages.
  struct Peer {
    uint64_t directory_epoch = kNoDirectoryEpoch;  // the greatest
    uint32_t version = 0;                          // the newest that it understands; 0: not heard
    uint64_t heard_ticks = 0;                      // when a message with that directory epoch came
    bool voting = false;                           // it said so in its last message
  };
  // Another member says that it knows a later directory of this one (data_loss.cc).
  struct Suspicion {
    int confirmations = 0;
    uint64_t asked_ticks = 0;
    bool asked = false;  // and there is no answer yet
  };
  // A member that recovers (data_loss.cc).
  struct Recovery {
    std::map<MemberId, uint64_t> known;  // which directory of this member they know
    std::set<MemberId> acknowledged;     // they drop what this member's lost directory has sent
    int ticks_since_request = 0;
    int ticks_since_read = 0;
    // The read index, once it was asked for: of whom, in what term, and who had acknowledged by
    // then.
    std::optional<uint64_t> request_id;
    MemberId leader;
    Term term;
    std::set<MemberId> acknowledged_before;
    std::optional<Index> index;
  };
  // What this member had acknowledged and has not (data_loss.cc).
  struct Loss {
    Index first;
    Index last;
    Term last_term;  // of the last of them
    Term told_in;
  };
  enum class Sending : uint8_t {
    kNothing,
    kProbe,
    kEntries,
    kLogRead,
    kCommitNews,
    kSnapshotRead,
    kSnapshotChunk
  };

  // --- raft.cc ---
  bool IsVoter() const { return membership().IsVoter(options_.self); }
  bool IsOnlyVoter() const { return IsVoter() && OtherVoters().empty(); }
  Quorum quorum() const { return Quorum(membership()); }
  // What follows from an input, whatever it was.
  void Advance();
  void SetTerm(Term term);
  void SetLeader(MemberId leader);
  void BecomeFollower(Term term, MemberId leader);
  // A message only a leader of the current term sends came from `from`. False if it cannot be.
  bool AcceptLeader(MemberId from);
  void AnswerOldTerm(const Message& message);
  template <typename Body>
  void Send(MemberId to, Body body) {
    SendAtTerm(to, term_, std::move(body));
  }
  template <typename Body>
  void SendAtTerm(MemberId to, Term term, Body body) {
    messages_now_.push_back(MakeMessage(to, term, std::move(body)));
  }
  // REQUIRES: something is to be persisted, so that there is a batch to wait for.
  template <typename Body>
  void SendAfterPersist(MemberId to, Body body) {
    messages_after_persist_.push_back(MakeMessage(to, term_, std::move(body)));
  }
  template <typename Body>
  Message MakeMessage(MemberId to, Term term, Body body) const {
    return {options_.self,    to, term, std::move(body), directory_epoch_, options_.version,
            IsDurablyNormal()};
  }
  // Notes what `message` says of its sender. False if it is from an older directory of it.
  bool RecordSender(const Message& message);
  Progress* FindProgress(MemberId member);
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
  void StepNoted(Message message);
  void TickRole();
  void CheckLogInvariants() const;

  // --- election.cc ---
  void ResetElectionTimer();
  // The connection to the leader broke: its process has probably died.
  void DoubtLeader();
  // Whether a leader was heard from so recently that no other is wanted.
  bool HearsFromLeader() const;
  // Whether it may become leader: a voter that can be relied on.
  bool MayCampaign() const;
  // The term and index of the last entry, or of what is being installed in its place, or of what it
  // should be.
  std::pair<Term, Index> LastPosition() const;
  std::vector<MemberId> OtherVoters() const;
  void StartPreVote(bool leadership_transfer);
  void Campaign(bool leadership_transfer, bool bootstrap);
  void CountVote(MemberId voter, bool granted, bool reliable = true);
  void OwnVoteDurable(PersistId id);
  void BecomeLeader();
  void TickLeader(LeaderRole* leader);
  bool HasQuorum() const;
  bool TimeoutNowDue(const LeaderRole& leader) const;
  bool CountsForQuorum(const Progress* progress) const;
  const Progress* BestSuccessor(const LeaderRole& leader) const;
  // Begins to hand leadership over for good; steps down at once if there is nobody.
  void LeaveLeadership(LeaderRole* leader);
  bool DiskStalls() const;
  void HandleVoteRequest(const Message& message, const VoteRequest& request);
  // Whether this member has voted for one that bootstraps the cluster, has got nothing of it, and
  // that one, as far as is known, has forgotten it: its directory is lost, and the cluster may be
  // there.
  bool BootstrapLeaderIsNew() const;
  void GrantVote(MemberId candidate);
  void HandlePreVoteGranted(const Message& message, const VoteResponse& response);
  // Whether no entry says who takes part, as far as this member knows, only the configuration. A
  // checkpoint of before kVersionMembershipInLog may hold what was configured.
  bool MembershipIsConfigured() const { return memberships_.newest_index() <= configured_until_; }
  // Whether another member was started with other members, and no log says who is right.
  bool DiffersFromAnother() const { return !differing_.empty() && MembershipIsConfigured(); }
  void Handle(MemberId from, const VoteResponse& response);
  void Handle(MemberId from, const TimeoutNow&);
  // Votes are dealt with before terms are compared.
  void Handle(MemberId, const VoteRequest&) {}

  // --- replication.cc ---
  void AppendEntry(Entry entry);
  void TruncateLog(Index index);
  void CommitTo(Index index);
  // Commits what a majority holds (paper 5.3, 5.4.2).
  // What a majority holds, if this member's log is durable up to `own`.
  Index ReachedWith(Index own) const;
  void CommitByCounting();
  void TrimCache();
  bool IsPlausible(const AppendRequest& request) const;
  void Handle(MemberId from, AppendRequest& request);
  void Handle(MemberId from, const AppendAccepted& accepted);
  void Handle(MemberId from, const AppendRejected& rejected);
  // Cuts away what lies before this log's base: it is committed, so that it is equal.
  void DropCompacted(AppendRequest* request) const;
  void TakeAcknowledgement(FollowerRole* follower);
  // What of the log may be acknowledged in this term: none of it before the term is durable, too.
  Index DurableInTerm() const;
  Sending NextSending(const Progress& progress) const;
  // The last entry that others may have. The first entry of a cluster is on its bootstrap leader's
  // disk before anybody else has it: data_loss.cc.
  Index LastToSend() const;
  void SendAppends(Progress* progress, Output* output);
  void SendAppend(Progress* progress, std::vector<Entry> entries);
  bool ApplyDue() const;
  ApplyRange TakeApplyRange();
  // The last entry that this program is new enough for, if the log holds another one.
  Index LastUnderstood() const;

  // --- read_index.cc ---
  bool IsEstablished(const LeaderRole& leader) const { return commit_ >= leader.first_index; }
  bool ReadRoundDue(const LeaderRole& leader) const;
  void StartReadRound(LeaderRole* leader);
  void SendHeartbeats(LeaderRole* leader);
  void ConfirmReads(LeaderRole* leader);
  void FailLeaderReads(const LeaderRole& leader);
  void FailForwardedReads();
  void ExpireForwardedReads();
  void Handle(MemberId from, const Heartbeat& heartbeat);
  void Handle(MemberId from, const HeartbeatResponse& response);
  void Handle(MemberId from, const ReadIndexRequest& request);
  void Handle(MemberId from, const ReadIndexResponse& response);

  // --- reconfiguration.cc ---
  void FollowControl(const Entry& entry);
  Progress MakeProgress(MemberId member) const;
  void SyncFollowers(LeaderRole* leader);
  void AppendControl(EntryKind kind, std::string payload);
  // The members that do not understand `version`, or were not heard yet, as text; empty if none.
  std::string HoldingBack(const LeaderRole& leader, uint32_t version) const;
  absl::Status CheckNewMembers(const Membership& target) const;
  void AdvanceMembership(LeaderRole* leader);
  void AdvanceVersion(LeaderRole* leader);
  bool IsRemoved() const;
  // Up to where the configuration may be the only one to say who takes part, if the log begins
  // behind a checkpoint of `meta`.
  static Index ConfiguredUntil(const SnapshotMeta& meta);

  // --- snapshot.cc ---
  // At each tick, and when there is a new checkpoint: nobody waits for it.
  void Compact();
  // How far the log may be cut without harm to those who need it.
  Index CompactionTarget();
  Index RetentionFloor(uint64_t entries_max, uint64_t bytes_max) const;
  int SnapshotStallTicks() const;
  int RetainedTicks() const;
  void RecordFormerHold(const LeaderRole& leader);
  void ResetLog(const SnapshotMeta& meta);
  bool NeedsSnapshot(const Progress& progress) const { return progress.next() <= base_index(); }
  void CheckSnapshotNeed(Progress* progress);
  Sending NextSnapshotSending(const Progress& progress) const;
  void RequestSnapshotRead(Progress* progress, Output* output);
  void SendSnapshotChunk(Progress* progress);
  bool TakesManyChunks(const Progress& progress) const;
  // Each tick: how much of snapshots may leave before the next one.
  void ShareSnapshotBudget(LeaderRole* leader);
  void AdaptSnapshotRate(LeaderRole* leader, bool kept_back);
  // Whether the log, or what lies before it, contains what `meta` stands for.
  bool HasAllOf(const SnapshotMeta& meta) const;
  // Makes `meta` what is staged, if it is not, and tells the leader what it has to know for that.
  // False if a chunk at `offset` has nothing to follow on.
  bool PrepareStaging(const SnapshotMeta& meta, uint64_t offset);
  void StagingComplete();
  void AbandonStaging();
  void TickStaging();
  // Whether the leader has offered nothing but a snapshot that this program is too old for, for so
  // long that it is no message that came astray.
  bool SnapshotIsTooNew() const;
  void Handle(MemberId from, const SnapshotChunk& chunk);
  void Handle(MemberId from, const SnapshotAck& ack);
  void Handle(MemberId from, const SnapshotRejected& rejected);

  // --- data_loss.cc ---
  bool IsDurablyNormal() const;
  void SetMemberState(MemberState member_state);
  void RecordCluster();
  // The members whose answers a recovering member needs.
  std::vector<MemberId> AcknowledgementsNeeded() const;
  // All other voters, and the leader.
  std::vector<MemberId> MembersToAsk() const;
  // Whether the leader this member follows answers its read index by a new entry.
  bool LeaderMarksRecovery() const;
  bool IsAlive(const Peer& peer) const;
  // Whether a message of a directory that is not the one known of its sender may be handled.
  bool AdmitOtherDirectoryEpoch(const Message& message, const Peer& peer);
  // So long after it was heard, a directory counts as in use.
  uint64_t AliveTicks() const;
  // `from` says that it knows the directory `known_directory_epoch` of this member.
  void Suspect(MemberId from, uint64_t known_directory_epoch);
  void ChooseDirectoryEpoch();
  void TickRecovery();
  void TickSuspicions();
  // Asks the other voters to note this directory until each of them has.
  void TickAnnouncements();
  void RequestAcknowledgements();
  void AdvanceRecovery();
  void Handle(MemberId from, const DirectoryEpochRequest& request);
  void Handle(MemberId from, const DirectoryEpochResponse& response);
  // `member` had acknowledged everything up to there.
  void TellLoss(MemberId member, Index acknowledged);
  void AdvanceLoss();
  void Handle(MemberId from, const LossNotice& notice);

  const RaftOptions options_;
  RandomSource& random_;

  Term term_;
  MemberId vote_;
  MemberId leader_;
  std::variant<FollowerRole, PreCandidateRole, CandidateRole, LeaderRole> role_;

  uint64_t now_ticks_ = 0;
  int ticks_since_leader_ = 0;
  uint64_t leader_contacts_ = 0;
  int election_elapsed_ = 0;  // since the timer was reset, which also votes and campaigns do
  int election_timeout_ = 0;

  // What the log says of membership and version; the first of each is committed.
  SettingHistory<Membership> memberships_;
  // A membership of an entry behind this one was in the log.
  Index configured_until_{};
  SettingHistory<uint32_t> versions_;
  bool membership_changed_ = true;  // since the last Output

  MemberState member_state_;
  std::optional<Recovery> recovery_;
  std::optional<Loss> lost_;
  std::map<MemberId, Peer> peers_;
  uint64_t directory_epoch_;  // what messages carry; kNoDirectoryEpoch: none yet
  std::map<MemberId, Suspicion> suspicions_;
  // The voters that may not know this directory, which took the place of a lost one.
  std::set<MemberId> unaware_;
  int ticks_since_announcement_ = 0;
  uint64_t later_directory_epoch_ = 0;
  MemberId refused_by_;
  // The members that were started with another membership than this one, and theirs. Kept until a
  // member says that it was started with the same one; in memory only.
  std::map<MemberId, Membership> differing_;
  // A snapshot is of this version, for which this program is too old; since when.
  uint32_t snapshot_version_ = 0;
  uint64_t snapshot_version_ticks_ = 0;

  // The log: terms of all, the newest entries themselves. commit_ <= last_index().
  TermHistory terms_;
  LogSizes sizes_;
  EntryCache cache_;
  Index commit_;

  Durability durability_;

  // Apply. applied_ <= apply_handed_ <= commit_.
  Index applied_;
  Index apply_handed_;
  std::deque<Index> applying_;  // the ends of the ranges given out and not yet applied

  // Checkpoints and snapshots.
  Index checkpoint_;           // of the newest durable checkpoint
  Index previous_checkpoint_;  // of the one before; the base of the log if none is known
  bool space_is_short_ = false;
  std::optional<Index> compact_to_;  // to be told
  std::optional<FormerHold> former_hold_;
  std::optional<Staging> staging_;
  uint64_t abandoned_writes_ = 0;  // given out for an earlier staging, and not answered yet
  bool discard_staging_ = false;   // to be told
  std::vector<SnapshotRejection> snapshot_rejections_;  // to be told
  std::optional<Index> checkpoint_wanted_;              // to be told
  std::optional<SnapshotMeta> installing_;
  bool install_handed_ = false;

  // Reads forwarded to the leader: when, by id; and in order, for their expiry.
  std::map<uint64_t, uint64_t> forwarded_reads_;
  std::deque<std::pair<uint64_t, uint64_t>> forwarded_order_;  // (ticks, id)

  std::vector<Message> messages_now_;
  std::vector<Message> messages_after_persist_;
  std::vector<ReadResult> reads_;
  std::optional<Status> last_status_;
};

}  // namespace quorate::consensus
