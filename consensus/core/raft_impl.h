// The state of a Raft object, and how its algorithm is split:
//
//   raft.cc         inputs, terms and roles, the Output, invariants
//   election.cc     votes, pre-votes, check-quorum, leadership transfer
//   replication.cc  the log: proposals, append, acknowledgement, commit, apply
//   read_index.cc   linearizable reads
//
// What only a leader, a candidate or a follower has lives in that alternative of `role_`, so that
// it ends with the role. Messages whose content depends on the state (appends, acknowledgements,
// heartbeats) are made in TakeOutput, so that everything that came in before travels in one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "consensus/core/entry_cache.h"
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
  bool HasOutput() const;
  Output TakeOutput();

  Role role() const;
  Term term() const { return term_; }
  MemberId leader() const { return leader_; }
  Index commit_index() const { return commit_; }
  Index last_index() const { return terms_.last_index(); }
  Index durable_index() const { return durable_; }
  int ticks_since_leader() const;
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
  };
  struct CandidateRole {
    VoteTally votes;
    // The batch that makes the vote for itself durable, once it was handed out.
    std::optional<PersistId> own_vote_batch;
  };
  struct PendingRead {
    uint64_t request_id;
    MemberId from;  // this member, or the follower that forwarded it
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
  };
  struct LeaderRole {
    std::vector<Progress> followers;  // voters and learners but this member, ascending
    Index first_index;                // of the no-op that began this leadership
    int ticks_since_heartbeat = 0;
    bool heartbeat_due = false;
    ReadRound round;                   // the newest that was begun
    std::vector<PendingRead> waiting;  // not yet in a round
    std::deque<ReadBatch> confirming;  // ascending rounds
    std::optional<Transfer> transfer;
  };
  // A batch that was handed out and is not known to be durable.
  struct PersistBatch {
    PersistId id;
    // The log up to here is durable once the batch is. Cut back when entries are replaced: the
    // entry of that index in an older batch is another one than the log's (the ABA case).
    Index last;
  };
  enum class Sending : uint8_t { kNothing, kProbe, kEntries, kLogRead, kCommitNews };

  // --- raft.cc ---
  bool IsVoter() const { return options_.membership.IsVoter(options_.self); }
  bool IsOnlyVoter() const { return options_.membership.voters.size() == 1 && IsVoter(); }
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
    messages_now_.push_back({options_.self, to, term, std::move(body)});
  }
  // REQUIRES: something is to be persisted, so that there is a batch to wait for.
  template <typename Body>
  void SendAfterPersist(MemberId to, Body body) {
    messages_after_persist_.push_back({options_.self, to, term_, std::move(body)});
  }
  Progress* FindProgress(MemberId member);
  const Progress* FindProgress(MemberId member) const;
  Status CurrentStatus() const;
  bool PersistDue() const;
  void TakePersistBatch(Output* output);
  void TakeLeaderOutput(LeaderRole* leader, Output* output);
  bool LeaderHasOutput(const LeaderRole& leader) const;
  void CheckRoleInvariants() const;
  void CheckLogInvariants() const;

  // --- election.cc ---
  void ResetElectionTimer();
  // The connection to the leader broke: its process has probably died.
  void DoubtLeader();
  // Whether a leader was heard from so recently that no other is wanted.
  bool HearsFromLeader() const;
  void StartPreVote();
  void Campaign(bool leadership_transfer);
  void CountVote(MemberId voter, bool granted);
  void OwnVoteDurable(PersistId id);
  void BecomeLeader();
  void TickLeader(LeaderRole* leader);
  bool HasQuorum(const LeaderRole& leader) const;
  bool TimeoutNowDue(const LeaderRole& leader) const;
  void HandleVoteRequest(MemberId from, Term term, const VoteRequest& request);
  void GrantVote(MemberId candidate);
  void HandlePreVoteGranted(MemberId from, Term term);
  void Handle(MemberId from, const VoteResponse& response);
  void Handle(MemberId from, const TimeoutNow&);
  // Votes are dealt with before terms are compared.
  void Handle(MemberId, const VoteRequest&) {}

  // --- replication.cc ---
  void AppendEntry(Entry entry);
  void TruncateLog(Index index);
  void CommitTo(Index index);
  // Commits what a majority holds (paper 5.3, 5.4.2).
  void CommitByCounting();
  void TrimCache();
  bool IsPlausible(const AppendRequest& request) const;
  void Handle(MemberId from, AppendRequest& request);
  void Handle(MemberId from, const AppendResponse& response);
  void TakeAcknowledgement(FollowerRole* follower);
  Sending NextSending(const Progress& progress) const;
  void SendAppends(Progress* progress, Output* output);
  void SendAppend(Progress* progress, std::vector<Entry> entries);
  bool ApplyDue() const;
  ApplyRange TakeApplyRange();

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

  const RaftOptions options_;
  RandomSource& random_;

  Term term_;
  MemberId vote_;
  MemberId leader_;
  std::variant<FollowerRole, PreCandidateRole, CandidateRole, LeaderRole> role_;

  uint64_t now_ticks_ = 0;
  int ticks_since_leader_ = 0;
  int election_elapsed_ = 0;  // since the timer was reset, which also votes and campaigns do
  int election_timeout_ = 0;

  // The log: terms of all, the newest entries themselves. commit_ <= last_index().
  TermHistory terms_;
  EntryCache cache_;
  Index commit_;

  // Durability. durable_ <= handed_ <= last_index(): handed_ was given out for persisting.
  Index durable_;
  Index handed_;
  bool hard_state_changed_ = false;       // term or vote, since the last batch
  Index commit_hint_;                     // the last one given out
  std::optional<Index> truncate_after_;   // to be told with the next batch
  PersistId last_batch_;                  // given out
  PersistId persisted_;                   // known to be durable
  PersistId vote_batch_;                  // the last with a change of term or vote
  std::deque<PersistBatch> in_progress_;  // ascending

  // Apply. applied_ <= apply_handed_ <= commit_.
  Index applied_;
  Index apply_handed_;
  std::deque<Index> applying_;  // the ends of the ranges given out and not yet applied

  // Reads forwarded to the leader: when, by id; and in order, for their expiry.
  std::map<uint64_t, uint64_t> forwarded_reads_;
  std::deque<std::pair<uint64_t, uint64_t>> forwarded_order_;  // (ticks, id)

  std::vector<Message> messages_now_;
  std::vector<Message> messages_after_persist_;
  std::vector<ReadResult> reads_;
  std::optional<Status> last_status_;
};

}  // namespace quorate::consensus
