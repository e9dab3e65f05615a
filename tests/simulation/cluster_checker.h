// SPDX-License-Identifier: Apache-2.0

// The invariants of consensus that hold in every run, whatever faults occur. They are checked from
// outside, over all members and all their restarts.
//
// - one leader a term: at most one member sends messages as the leader of a term
// - one vote a term: a member votes for at most one member in a term, also across restarts
// - leaders are complete: the log of the leader of a term has every entry that was committed in an
//   earlier term: the same term and the same bytes at each index
// - equal logs: at an index, all members apply the same entry, and never another one
// - equal trees: after an index, the trees of all members have the same digest
// - nothing is skipped: between two starts, a member applies each index once, in order
// - promises are durable: what a member acknowledges, and its vote, is on its disk, whatever a
//   power failure at that moment would leave of the disk
// - commits are durable: what a leader commits, and what any member applies, is on the disks of a
//   quorum of a membership that is in force there
// - memberships intersect: under two consecutive memberships, no two disjoint sets of members can
//   both decide
// - /zookeeper/config shows the members: on each member, its content after an index is that of the
//   last completed change of members with addresses
// - a voter has caught up when it is added: a leader that makes a member a voter has an
//   acknowledgement of what its log had some election timeouts before
// - a removed member does not campaign: once it knows that its removal is committed
// - nothing goes back: neither the term nor the commit index of a process decreases
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "consensus/core/message.h"
#include "consensus/core/raft.h"
#include "consensus/core/types.h"
#include "consensus/log/data_dir.h"
#include "consensus/log/testing/fault_env.h"
#include "tests/simulation/sim_environment.h"
#include "tests/simulation/sim_peer_network.h"
#include "tests/simulation/simulation.h"

namespace quorate::simulation {

class Machine;

class ClusterChecker : public MessageObserver {
 public:
  // `observers` are notified of what is applied. Both must outlive the checker.
  ClusterChecker(Simulation* simulation, std::vector<ServerObserver*>* observers)
      : simulation_(*simulation),
        observers_(*observers),
        random_(simulation->random("cluster checker")) {}

  // Call it in the order of the machines' numbers, before the run begins.
  void AddMachine(Machine* machine);

  // `call` is called with each member that begins to lead.
  void OnElection(std::function<void(size_t member)> call) { on_election_ = std::move(call); }

  // A message, digest note or disk report leaves a member.
  void OnMessage(size_t member, const consensus::Message& message) override;
  void OnDigestNote(size_t member, size_t to, const rpc::DigestNote& note) override;
  void OnDiskReport(size_t member, size_t to, const rpc::DiskReport& report) override;
  // `call` is called for each entry, with the member that is the first to apply it.
  void OnFirstApplied(std::function<void(size_t member)> call) {
    on_first_applied_ = std::move(call);
  }
  // A member has appended this membership to its log, or began with it.
  void RecordMembership(consensus::Membership membership);
  // A process has determined the membership from its data directory and its configuration.
  void OnMembershipLoaded(size_t member, const consensus::Membership& membership);
  // `call` is called when a leader has appended a membership to its log, with that leader.
  void OnMembershipAppended(std::function<void(size_t member)> call) {
    on_membership_appended_ = std::move(call);
  }
  // The content of /zookeeper/config in the tree of a member that has applied everything up to
  // `applied`; empty if it was never set. REQUIRES: applied <= committed().
  void OnConfigNode(size_t member, consensus::Index applied, std::string_view content);
  // A process has opened its directory.
  void OnStart(size_t member, consensus::DataDir& data_dir);
  // The member's tree is that of a checkpoint or of a snapshot from another member, or new and
  // empty.
  void OnStateLoaded(size_t member, consensus::Index applied, uint64_t digest);
  void OnApplied(size_t member, const consensus::Entry& entry, uint64_t digest);
  // The next three calls are passed on to the observers.
  void OnSessionAttached(size_t member, const tree::SessionInfo& session);
  void OnSessionClosed(size_t member, tree::SessionId session, tree::Zxid zxid, bool expired);
  void OnResult(size_t member, const tree::ApplyResult& result);
  // A process has made progress: `previous` was its state at the last call, `now` is its state now.
  struct Progress {
    consensus::Term term;
    consensus::Index commit;
    bool leads;
  };
  void OnStoodStill(size_t member, int64_t from_us);
  void OnProgress(size_t member, const Progress& previous, const Progress& now);
  // A tick of a process has passed.
  void OnTick(size_t member, const consensus::Raft& raft);

  // The last index that was applied by any member.
  consensus::Index committed() const { return consensus::Index(entries_.size()); }
  // The index up to which the member's log must reach to prove that it never lost anything: all
  // that is committed by now or that the member has acknowledged.
  consensus::Index Needed(size_t member) const;
  // The memberships that members had in force when they were last seen, and the last committed one.
  std::vector<consensus::Membership> MembershipsInForce() const;
  // The newest committed membership, and the index of its entry; index 0: that of the bootstrap.
  const std::pair<const consensus::Index, consensus::Membership>& newest_membership() const {
    return *memberships_.rbegin();
  }
  // The number of leaders so far, each in a term of its own.
  size_t leaders() const { return leaders_.size(); }
  // Compares a member's log on disk with what was committed. REQUIRES: last <= committed().
  void CheckLog(size_t member, consensus::DataDir& data_dir, consensus::Index last);

 private:
  struct Committed {
    consensus::Term term;
    uint64_t hash = 0;  // of kind and payload
    uint64_t digest = 0;
  };
  // A leader that must hold entries of which only the indexes are known, because no member has
  // applied them yet.
  struct Awaited {
    consensus::MemberId leader;
    consensus::Term term;
    consensus::Index required;             // the index of the last such entry
    std::vector<consensus::TermRun> runs;  // of the leader's log
  };
  // The ends of the log of a leader after its last ticks, oldest first.
  struct LogEnds {
    consensus::Term term;
    std::deque<consensus::Index> ends;
    bool is_whole = false;  // they go back as far as the check needs
  };
  // Checks a membership that a leader has appended after `before`.
  void CheckNewVoters(size_t leader, const consensus::Membership& before,
                      const consensus::Membership& appended);
  void CheckMayCampaign(size_t member, consensus::Term term);
  void OnLeader(consensus::MemberId leader, consensus::Term term);
  void CheckComplete(consensus::MemberId leader, consensus::Term term);
  // Compares entries of a member's log on disk with what was committed. REQUIRES: first and last
  // are in the log, last <= committed().
  void CompareLog(std::string_view invariant, size_t member, const consensus::SegmentLog& log,
                  consensus::Index first, consensus::Index last);
  // Compares the term of a leader's entry with that of the committed one. REQUIRES: index <=
  // committed().
  void CheckTerm(const Awaited& leader, consensus::Index index);
  // Records the entry as committed: its first member has applied it.
  void RecordCommitted(const consensus::Entry& entry);
  // Checks that the committed versions before a command allow it.
  void CheckVersion(const consensus::Entry& entry);
  void CheckIntersection(const consensus::Membership& before, const consensus::Membership& after,
                         std::string_view where);
  // The index up to which the log of a leader of `term` must reach: everything known to be
  // committed in an earlier term. That is not all that was committed earlier in time: a leader that
  // won and was then paused may send messages after a leader of a later term has committed more.
  consensus::Index CommittedBefore(consensus::Term term) const;
  // Fails if either of the two members runs a version that does not know `what`.
  void CheckKnows(size_t member, size_t to, std::string_view what);
  void OnVote(consensus::MemberId voter, consensus::Term term, consensus::MemberId candidate);
  void CheckPromise(size_t member, const consensus::Message& message);
  // Checks that the entry at `index`, which `member` has committed or applied, is on the disks of a
  // quorum of a membership in force there. `term` is the term of the entry, if known.
  void CheckCommitIsDurable(size_t member, consensus::Index index,
                            std::optional<consensus::Term> term, std::string_view what);
  // The membership that holds at `index` by the committed entries.
  const consensus::Membership& MembershipAt(consensus::Index index) const;
  // What a power failure leaves at least of a disk, and the data directory on it.
  struct DurableDisk {
    // The disk from which `env` was made, and its change counters at that time.
    const consensus::FaultEnv* of = nullptr;
    uint64_t operations = 0;
    uint64_t other_changes = 0;
    std::unique_ptr<consensus::FaultEnv> env;
    std::unique_ptr<consensus::DataDir> data_dir;
  };
  // Opens what a power failure at this moment leaves at least; returns nullptr if no data directory
  // remains. Valid until the next call for that member.
  DurableDisk* OpenDurable(size_t member);
  // The index of the newest checkpoint of a member that survives a power failure. `env` is what the
  // failure leaves of the disk.
  consensus::Index DurableCheckpoint(size_t member, consensus::FaultEnv* env);
  static uint64_t HashOf(const consensus::Entry& entry);

  Simulation& simulation_;
  std::vector<ServerObserver*>& observers_;
  Random& random_;
  std::vector<Machine*> machines_;
  std::function<void(size_t member)> on_election_;
  std::function<void(size_t member)> on_first_applied_;
  std::function<void(size_t member)> on_membership_appended_;
  std::map<consensus::Term, consensus::MemberId> leaders_;
  std::map<std::pair<consensus::MemberId, consensus::Term>, consensus::MemberId> votes_;
  std::vector<Committed> entries_;  // from index 1 on
  // The highest commit index that was seen in a process of a term: those entries were committed in
  // this term or before.
  std::map<consensus::Term, consensus::Index> commits_;
  // By the commit index to which a leader advanced: the membership in its log at that moment.
  std::map<consensus::Index, consensus::Membership> decided_under_;
  std::map<size_t, consensus::Index> acknowledged_;  // by member: the highest acknowledged index
  std::map<size_t, LogEnds> log_ends_;               // by member; of leaders only
  // By member that knows of its removal: the term in which it learned that.
  std::map<size_t, consensus::Term> removed_in_;
  std::vector<Awaited> awaited_;
  uint32_t version_ = consensus::kVersionBase;  // of the cluster, as committed
  // The committed memberships, by the index of their entries; the one at 0 is that of the
  // bootstrap.
  std::map<consensus::Index, consensus::Membership> memberships_;
  // By member: the membership in force after its last step; no element before its first step.
  std::map<size_t, consensus::Membership> in_force_;
  // All memberships that any member ever had in force: those bootstrapped and those appended by
  // leaders.
  std::vector<consensus::Membership> known_;
  std::map<size_t, DurableDisk> durable_disks_;  // by member: what OpenDurable made last
};

}  // namespace quorate::simulation
