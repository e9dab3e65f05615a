// SPDX-License-Identifier: Apache-2.0

// Random runs of small clusters. Each step is checked against Raft's guarantees (paper, figure 3)
// and against the disks themselves. The network loses, repeats and reorders messages. Writes take
// time and are torn by crashes. Limits are tiny. Each run depends only on its seed.
//
// Runs of another kind are about followers that feed observers: feeders are restarted, demoted, elected
// and cut off, and what was read and sent for an earlier leader arrives late.
//
// Then all faults end, and the cluster must come to rest with equal logs. A cluster that violates
// nothing only because it makes no progress fails there.
//
// QUORATE_RAFT_SEED=n runs only seed n, of each kind; QUORATE_RAFT_RUNS=n runs n seeds.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "consensus/core/membership.h"
#include "consensus/core/quorum.h"
#include "consensus/core/testing/test_member.h"

namespace quorate::consensus {
namespace {

enum class Kind : uint8_t { kMixed, kFeeding };

class Run {
 public:
  // If `traced`, computes trace_hash(), which takes most of the time.
  explicit Run(uint64_t seed, Kind kind = Kind::kMixed, bool traced = false);

  // Runs `steps` steps with faults.
  void Chaos(int steps);
  // Ends the faults. Returns false if the cluster does not come to rest.
  bool Heals();
  // Lets a cluster that has come to rest go on, until one follower feeds each observer, which has all.
  // Returns what is not so in the end; empty if all is well.
  std::string FeedingProblem();

  struct Totals {
    size_t committed = 0, terms = 0, reads_ok = 0, crashes = 0, ranges_from_log = 0, log_reads = 0,
           truncations = 0, transfers = 0, changes = 0, compactions = 0, installs = 0,
           lost_disks = 0, fed = 0, fed_chunks = 0, demoted = 0, other_reads = 0, taken_back = 0;
  };
  Totals totals() const;
  uint64_t trace_hash() const { return trace_hash_; }
  std::string Describe() const;

 private:
  struct Committed {
    Entry entry;
    Term term;  // of the leader that committed it
  };
  struct Before {
    size_t truncations = 0;
    Index commit;
    Role role = Role::kFollower;
  };
  struct Packet {
    Message message;
    uint64_t not_before;  // in steps
  };
  // How often each input and each fault is chosen. It is drawn for each run, so that runs differ.
  struct Mix {
    uint64_t tick, persist, apply, propose, read, deliver;
    uint64_t log_read = 1, unreachable = 1, transfer = 1, change = 1, checkpoint = 1, snapshot = 4,
             forget = 0;
    bool changes, lost_disks, versions, stage_fails;
    uint64_t loss_one_in, repeat_one_in, delay_one_in, crash_one_in, partition_one_in;
  };

  TestMember& Any() { return members_[random_.Below(members_.size())]; }
  bool Cut(MemberId a, MemberId b) const { return cut_.contains({a, b}); }
  void OneStep();
  void Input(TestMember* member, uint64_t choice);
  void Deliver();
  void CrashOrRestart(TestMember* member);
  // Returns whether Raft can survive the loss of the disk: a majority of the voters have their
  // disks.
  bool MayLoseDisk(const TestMember& member) const;
  void LoseDisk(TestMember* member);
  void Change(TestMember* member);
  void MoveSnapshot(TestMember* member);
  // Delivers all messages, makes all writes durable and applies all entries, without faults.
  void WorkOff();
  void CheckChange(const Entry& entry);
  // Crashes, partitions or reads at the moments that are most likely to reveal a mistake.
  void StrikeAt(TestMember* member);
  void ReadAtDeposedLeaders();
  // Does to a feeder, its leader or its observer what may bring the feeder to send what it must not.
  void Provoke();
  void Demote(TestMember* leader, MemberId voter);
  void CutOff(MemberId member, MemberId other);
  void Partition();
  void Propose(TestMember* member);
  void Read(TestMember* member);
  void AfterStep(TestMember* member);
  void TakeMessages(TestMember* member);
  void CheckSending(const TestMember& member, const Message& message);
  void CheckFeeding(const TestMember& member, const Message& message);
  std::string FeedingProblemNow();
  void CheckLog(TestMember* member);
  void CheckCommit(const TestMember& member);
  void CheckLeader(const TestMember& member);
  void CheckReads(TestMember* member);
  void Hash(const std::string& text);
  bool AtRest() const;

  const Kind kind_;
  const bool traced_;
  TestRandom random_;
  std::vector<TestRandom> timeouts_;
  Membership membership_;    // the first one, later the last committed one
  Membership before_joint_;  // the committed one before membership_, if that is joint
  std::vector<TestMember> members_;
  std::vector<Packet> network_;
  uint64_t step_ = 0;
  std::vector<Before> before_;
  Mix mix_;
  std::vector<uint64_t> tick_one_in_;  // clocks differ
  MemberId stopped_clock_;             // the clock of one member may stop for a while
  std::set<std::pair<MemberId, MemberId>> cut_;
  bool faults_ = true;
  MemberId feeder_;                                    // the last one that fed an observer
  std::map<MemberId, std::set<MemberId>> feeders_of_;  // who has fed each observer

  std::vector<Committed> committed_;
  std::map<Term, MemberId> leaders_;
  std::map<std::tuple<MemberId, uint64_t, Term>, MemberId> votes_;  // member, directory, term
  // (index, term) -> the payload, and the term of the previous entry. By induction, logs with an
  // equal entry are equal up to it.
  std::map<std::pair<Index, Term>, std::pair<Slice, Term>> entries_;
  std::map<MemberId, std::vector<Entry>> checked_log_;
  std::map<MemberId, Index> checked_commit_;
  // The unanswered reads: the member that was asked, and the lowest index to be returned.
  std::map<uint64_t, std::pair<MemberId, Index>> reads_;
  uint64_t next_read_ = 1;
  uint64_t next_value_ = 1;
  Totals totals_;
  uint64_t trace_hash_ = 14695981039346656037u;
};

Run::Run(uint64_t seed, Kind kind, bool traced) : kind_(kind), traced_(traced), random_(seed) {
  const bool is_feeding = kind_ == Kind::kFeeding;
  const uint32_t voters = random_.OneIn(8) ? 1 : random_.OneIn(3) ? 5 : 3;
  for (uint32_t i = 1; i <= voters; ++i) membership_.voters.push_back(MemberId{i});
  if (random_.OneIn(4)) membership_.learners.push_back(MemberId{voters + 1});
  while (is_feeding && membership_.Members().size() < 5) {
    const auto id = static_cast<uint32_t>(membership_.Members().size()) + 1;
    (id <= 3 ? membership_.voters : membership_.learners).push_back(MemberId{id});
  }
  mix_.changes = !random_.OneIn(3);
  mix_.lost_disks = random_.OneIn(3);
  mix_.versions = random_.OneIn(3);
  // The additional members, which may be added.
  const size_t count = membership_.voters.size() + membership_.learners.size() +
                       (mix_.changes ? 1 + random_.Below(3) : 0);
  RaftOptions options;
  options.membership = membership_;
  options.election_ticks = 3 + static_cast<int>(random_.Below(8));
  options.heartbeat_ticks = 1 + static_cast<int>(random_.Below(2));
  options.cluster_id_if_new = "cluster";
  options.trailing_entries = random_.Below(random_.OneIn(2) ? 3 : 30);
  options.retained_entries_max =
      options.trailing_entries + random_.Below(random_.OneIn(2) ? 4 : 30);
  options.compaction_step_entries = 1 + random_.Below(5);
  options.snapshot_chunk_bytes = 50 + random_.Below(random_.OneIn(2) ? 3000 : 300);
  options.snapshot_bytes_per_tick = 50 + random_.Below(500);
  options.snapshot_window_bytes_max = 1 + random_.Below(random_.OneIn(2) ? 500 : 5000);
  options.snapshot_stall_ticks = random_.OneIn(2) ? 0 : 10 + static_cast<int>(random_.Below(100));
  options.retained_ticks_max = random_.OneIn(2) ? 0 : 1 + static_cast<int>(random_.Below(50));
  options.retained_bytes_max = 1 + random_.Below(random_.OneIn(2) ? 300 : 3000);
  options.transfer_bytes_max = options.retained_bytes_max + random_.Below(5000);
  options.disk_stall_ticks = random_.OneIn(2) ? 0 : 5 + static_cast<int>(random_.Below(60));
  options.append_bytes_max = 1 + random_.Below(300);
  options.inflight_messages_max = 1 + random_.Below(5);
  options.inflight_bytes_max = options.append_bytes_max + random_.Below(500);
  options.uncommitted_bytes_max = 100 + random_.Below(1000);
  options.cached_bytes_max = 1 + random_.Below(random_.OneIn(2) ? 200 : 2000);
  options.apply_bytes_max = 1 + random_.Below(3000);
  options.commit_hint_entries = 1 + random_.Below(random_.OneIn(2) ? 1 : 20);
  if (is_feeding) {
    // Small faults are rarer, so that leaders have the time to give observers away.
    options.election_ticks += 7;
    options.cached_bytes_max = 1 + random_.Below(50);
    options.commit_hint_entries = 1 + random_.Below(40);
  }
  auto weight = [this](uint64_t max) { return 1 + random_.Below(max); };
  mix_.tick = 10 + weight(50);
  mix_.persist = weight(8);
  mix_.apply = weight(4);
  mix_.propose = 5 + weight(10);
  mix_.read = weight(10);
  mix_.deliver = 20 + weight(30);
  mix_.change = mix_.changes ? 2 + weight(6) : 0;
  mix_.checkpoint = random_.OneIn(5) ? 0 : weight(3);
  mix_.snapshot = weight(6);
  mix_.forget = random_.Below(2);
  mix_.stage_fails = random_.OneIn(4);
  mix_.loss_one_in = random_.OneIn(3) ? 1000 : 4 + random_.Below(30);
  mix_.repeat_one_in = random_.OneIn(3) ? 1000 : 3 + random_.Below(30);
  mix_.delay_one_in = random_.OneIn(3) ? 1000 : 3 + random_.Below(30);
  mix_.crash_one_in = 200 + random_.Below(1000);
  mix_.partition_one_in = 200 + random_.Below(1200);
  if (is_feeding) {
    mix_.deliver += 60;
    mix_.persist += 30;
    mix_.apply += 10;
    mix_.snapshot += 10;
    mix_.log_read += 2;
    mix_.loss_one_in += 50;
    mix_.delay_one_in += 10;
    mix_.crash_one_in += 1000;
    mix_.partition_one_in += 500;
  }
  before_.resize(count);
  timeouts_.reserve(count);
  members_.reserve(count);
  // Drawn apart, so that the other choices of a seed stay what they were.
  TestRandom feeding(seed ^ 0xfeed);
  const bool feeds = feeding.OneIn(2) || is_feeding;
  for (uint32_t i = 1; i <= count; ++i) {
    timeouts_.emplace_back(random_.Next());
    options.self = MemberId{i};
    options.feeds_observers = feeds && (!feeding.OneIn(4) || is_feeding);
    tick_one_in_.push_back(random_.OneIn(is_feeding ? 12 : 3) ? 1 + random_.Below(12) : 1);
    options.version = mix_.versions && random_.OneIn(2) ? kVersionBase : kVersionNewest;
    TestMember::Disk disk;
    disk.hard_state.member_state = MemberState::kNew;
    members_.emplace_back(options, std::move(disk), &timeouts_.back());
  }
}

void Run::Hash(const std::string& text) {
  for (char c : text) trace_hash_ = (trace_hash_ ^ static_cast<unsigned char>(c)) * 1099511628211u;
}

std::string Run::Describe() const {
  std::string out;
  for (const TestMember& member : members_) {
    out += member.running() ? member.raft().ToString() : "down";
    out += '\n';
  }
  return out + "open reads: " + std::to_string(reads_.size());
}

Run::Totals Run::totals() const {
  Totals totals = totals_;
  totals.committed = committed_.size();
  totals.terms = leaders_.size();
  for (const TestMember& member : members_) {
    totals.ranges_from_log += member.ranges_from_log;
    totals.log_reads += member.log_reads_answered;
    totals.compactions += member.compactions;
    totals.installs += member.installs;
  }
  return totals;
}

// --- Steps ---------------------------------------------------------------------------------------

void Run::Chaos(int steps) {
  for (int i = 0; i < steps; ++i) OneStep();
}

void Run::OneStep() {
  ++step_;
  if (random_.OneIn(mix_.partition_one_in)) return Partition();
  if (kind_ == Kind::kFeeding && random_.OneIn(100)) return Provoke();
  TestMember& member = Any();
  if (random_.OneIn(member.running() ? mix_.crash_one_in : 30)) {
    const bool lose = mix_.lost_disks && !member.running() && random_.OneIn(2);
    return lose && MayLoseDisk(member) ? LoseDisk(&member) : CrashOrRestart(&member);
  }
  const uint64_t weights = mix_.tick + mix_.persist + mix_.apply + mix_.propose + mix_.read +
                           mix_.log_read + mix_.unreachable + mix_.transfer + mix_.deliver +
                           mix_.change + mix_.checkpoint + mix_.snapshot + mix_.forget;
  uint64_t choice = random_.Below(weights);
  if (choice < mix_.deliver) {
    for (uint64_t i = random_.Below(14); i > 0; --i) Deliver();
    return;
  }
  choice -= mix_.deliver;
  // Most inputs except ticks go to members that lead, or that believe they lead.
  TestMember* chosen = &member;
  for (int i = choice < mix_.tick ? 3 : 0;
       i < 3 && !(chosen->running() && chosen->raft().role() == Role::kLeader); ++i) {
    if (random_.OneIn(2)) chosen = &Any();
  }
  if (!chosen->running()) return;
  Input(chosen, choice);
  AfterStep(chosen);
}

void Run::Input(TestMember* member, uint64_t choice) {
  Raft& raft = member->raft();
  auto is = [&choice](uint64_t weight) {
    const bool chosen = choice < weight;
    choice -= weight;  // wraps around once something is chosen, and is not used after that
    return chosen;
  };
  if (is(mix_.tick)) {
    const bool ticks = member->id != stopped_clock_;
    if (ticks && random_.OneIn(tick_one_in_[member->id.value() - 1])) raft.Tick();
  } else if (is(mix_.persist)) {
    if (member->unpersisted() > 0) member->Persist(1 + random_.Below(member->unpersisted()));
  } else if (is(mix_.apply)) {
    if (member->can_apply()) member->ApplyOne();
  } else if (is(mix_.propose)) {
    Propose(member);
  } else if (is(mix_.read)) {
    Read(member);
  } else if (is(mix_.log_read)) {
    if (member->can_read_log()) {
      if (raft.role() != Role::kLeader) ++totals_.other_reads;
      member->AnswerLogRead();
    }
  } else if (is(mix_.unreachable)) {
    raft.PeerUnreachable(Any().id);
  } else if (is(mix_.change)) {
    Change(member);
  } else if (is(mix_.checkpoint)) {
    if (!member->applied().empty() && !member->can_install()) member->Checkpoint();
  } else if (is(mix_.snapshot)) {
    MoveSnapshot(member);
  } else if (is(mix_.forget)) {
    if (random_.OneIn(10)) member->ForgetCheckpoints();
  } else if (random_.OneIn(4)) {
    raft.CancelTransfer();
  } else if (raft.TransferLeadership(MemberId{0}).ok()) {
    ++totals_.transfers;
  }
}

void Run::MoveSnapshot(TestMember* member) {
  if (member->can_read_snapshot()) member->AnswerSnapshotRead();
  if (member->can_stage()) {
    if (mix_.stage_fails && random_.OneIn(20)) {
      member->FailToStage("on purpose");
    } else {
      member->StageOne();
    }
  }
  if (member->can_install() && random_.OneIn(3)) member->Install();
  if (random_.OneIn(200)) member->raft().SetSpaceIsShort(random_.OneIn(2));
}

void Run::Change(TestMember* member) {
  if (member->raft().role() != Role::kLeader) return;
  Membership target = member->raft().membership();
  target.outgoing.clear();
  for (uint64_t i = 1 + random_.Below(2); i > 0; --i) {
    const MemberId moved = Any().id;
    auto remove = [moved](std::vector<MemberId>* members) { std::erase(*members, moved); };
    const bool was_learner = std::erase(target.learners, moved) > 0;
    const bool was_member = member->raft().membership().Contains(moved);
    remove(&target.voters);
    if (was_learner ? !random_.OneIn(4) : was_member && random_.OneIn(3)) {
      target.voters.push_back(moved);
      std::sort(target.voters.begin(), target.voters.end());
    } else if (!was_member || random_.OneIn(2)) {
      target.learners.push_back(moved);
      std::sort(target.learners.begin(), target.learners.end());
    }
  }
  // Two voters do not survive the loss of a disk, and a disk may have been lost already without
  // this leader's knowledge.
  if (mix_.lost_disks && target.voters.size() < 3) return;
  target.addresses.clear();
  if (!target.voters.empty()) target.addresses[target.voters[0]] = std::to_string(step_);
  if (member->raft().ChangeMembership(target).ok()) ++totals_.changes;
}

void Run::Deliver() {
  // Chooses mostly among the older packets.
  std::vector<size_t> ready;
  const size_t ready_max = random_.OneIn(4) ? network_.size() : 4;
  for (size_t i = 0; i < network_.size() && ready.size() < ready_max; ++i) {
    if (!faults_ || network_[i].not_before <= step_) ready.push_back(i);
  }
  if (ready.empty()) return;
  const size_t position = ready[random_.Below(ready.size())];
  Message message = network_[position].message;
  if (faults_ && random_.OneIn(mix_.repeat_one_in)) {
    network_[position].not_before = step_ + random_.Below(400);
  } else {
    network_.erase(network_.begin() + static_cast<std::ptrdiff_t>(position));
  }
  const auto* append = std::get_if<AppendRequest>(&message.body);
  if (message.on_behalf_of != kNoMember && append != nullptr) totals_.fed += append->entries.size();
  if (message.on_behalf_of != kNoMember && append == nullptr &&
      std::holds_alternative<SnapshotChunk>(message.body)) {
    ++totals_.fed_chunks;
  }
  if (faults_ && (random_.OneIn(mix_.loss_one_in) || Cut(message.from, message.to))) return;
  TestMember& member = members_[message.to.value() - 1];
  if (!member.running()) return;
  if (random_.OneIn(4)) {
    std::string bytes;
    EncodeMessage(message, &bytes);
    auto buffer = std::make_shared<const std::string>(std::move(bytes));
    absl::StatusOr<Message> decoded = DecodeMessage(buffer, *buffer);
    ASSERT(decoded.ok());
    ASSERT(*decoded == message);
    message = *std::move(decoded);
  }
  if (traced_) Hash(ToString(message));
  member.raft().Step(std::move(message));
  AfterStep(&member);
}

void Run::CrashOrRestart(TestMember* member) {
  if (!member->running()) {
    if (mix_.versions && (!faults_ || random_.OneIn(2))) {
      member->SetVersion(!faults_ || random_.OneIn(3) ? kVersionNewest : member->options().version);
    }
    member->Restart(Index{random_.Below(member->applied().size() + 1)});
    checked_log_[member->id] = {};
    checked_commit_[member->id] = Index{0};
    before_[member->id.value() - 1] = {};
    CheckLog(member);
    CheckCommit(*member);
    return;
  }
  ++totals_.crashes;
  TestMember::Torn torn;
  const size_t waiting = member->unpersisted();
  torn.whole_batches = random_.Below(waiting + 1);
  torn.hard_states = random_.Below(waiting - std::min(waiting, torn.whole_batches) + 1);
  torn.cut = random_.OneIn(2);
  torn.entries = random_.Below(4);
  member->Crash(torn);
  for (auto read = reads_.begin(); read != reads_.end();) {
    read = read->second.first == member->id ? reads_.erase(read) : std::next(read);
  }
}

bool Run::MayLoseDisk(const TestMember& member) const {
  size_t recovering = 0;
  for (const TestMember& other : members_) {
    const bool reliable = other.disk().hard_state.member_state == MemberState::kNormal;
    Membership known = membership_;
    if (other.running()) {
      known = other.raft().membership();
    } else {
      for (const Entry& entry : other.disk().log) {
        if (entry.kind == EntryKind::kMembership) known = *DecodeMembership(entry.payload.view());
      }
    }
    if (other.id != member.id && !reliable && membership_.IsVoter(other.id)) ++recovering;
    if (other.running() && other.raft().role() == Role::kPreCandidate &&
        other.raft().last_index() == Index{0}) {
      return false;
    }
    if (known.IsVoter(member.id) && known.voters.size() < 3) return false;
    if (known.joint() || known != membership_) return false;
  }
  // With programs of an older version, only one member may recover at a time.
  if (recovering > 0 && mix_.versions) return false;
  // The other voters must suffice to elect a leader.
  return recovering == 0 ||
         membership_.voters.size() - recovering - 1 >= MajorityOf(membership_.voters.size());
}

void Run::LoseDisk(TestMember* member) {
  ++totals_.lost_disks;
  // No answer to a pre-vote is in flight for as long as it takes to replace a disk.
  std::erase_if(network_, [](const Packet& packet) {
    const auto* response = std::get_if<VoteResponse>(&packet.message.body);
    return response != nullptr && response->pre_vote;
  });
  member->RestartNew();
  checked_log_[member->id] = {};
  checked_commit_[member->id] = Index{0};
  before_[member->id.value() - 1] = {};
}

void Run::CutOff(MemberId member, MemberId other) {
  cut_.insert({member, other});
  cut_.insert({other, member});
}

void Run::Demote(TestMember* leader, MemberId voter) {
  Membership target = leader->raft().membership();
  if (!target.IsVoter(voter) || voter == leader->id || target.joint()) return;
  std::erase(target.voters, voter);
  if (!target.learners.empty() && random_.OneIn(2)) {
    target.voters.push_back(target.learners[random_.Below(target.learners.size())]);
    std::sort(target.voters.begin(), target.voters.end());
    std::erase_if(target.learners, [&](MemberId member) { return target.IsVoter(member); });
  }
  if (target.voters.size() < (mix_.lost_disks ? 3u : 2u)) return;
  target.learners.push_back(voter);
  std::sort(target.learners.begin(), target.learners.end());
  if (leader->raft().ChangeMembership(target).ok()) ++totals_.demoted;
}

void Run::Provoke() {
  TestMember* leader = nullptr;
  for (TestMember& member : members_) {
    if (!member.running() || member.raft().role() != Role::kLeader) continue;
    if (leader == nullptr || leader->raft().term() < member.raft().term()) leader = &member;
  }
  if (leader == nullptr || feeder_ == kNoMember || feeder_ == leader->id) return;
  TestMember& feeder = members_[feeder_.value() - 1];
  switch (random_.Below(9)) {
    case 0:  // It starts with an old commit index.
      if (feeder.running()) CrashOrRestart(&feeder);
      CrashOrRestart(&feeder);
      AfterStep(&feeder);
      return;
    case 1:
      if (leader->raft().TransferLeadership(feeder_).ok()) ++totals_.transfers;
      break;
    case 2:
    case 6:
    case 7:
      Demote(leader, feeder_);
      break;
    case 3:
      CutOff(leader->id, feeder_);
      break;
    case 4:
      if (feeder.running()) feeder.raft().PeerUnreachable(leader->id);
      leader->raft().PeerUnreachable(feeder_);
      break;
    case 5:
      for (TestMember* member : {leader, &feeder}) {
        if (!member->running() || member->applied().empty() || member->can_install()) continue;
        member->Checkpoint();
        AfterStep(member);
      }
      return;
    default:
      // The leader is deposed while it reads its log for others.
      for (MemberId voter : membership_.voters) {
        if (voter != leader->id) CutOff(leader->id, voter);
      }
      break;
  }
  if (feeder.running()) AfterStep(&feeder);
  AfterStep(leader);
}

void Run::Partition() {
  cut_.clear();
  stopped_clock_ = kNoMember;
  const uint64_t kind = random_.Below(6);
  if (kind == 0 || kind > 3) return;
  // Cuts the network into two sides, one of which is a single member or a leader; or cuts some
  // pairs in some direction, so that there are also members that hear from others but are not
  // heard.
  std::set<MemberId> side;
  if (kind == 1) side.insert(Any().id);
  for (const TestMember& member : members_) {
    const bool leads = member.running() && member.raft().role() == Role::kLeader;
    if (kind == 2 && leads) side.insert(member.id);
    // The leader does not notice, because its clock stands still.
    if (kind == 2 && leads && random_.OneIn(2)) stopped_clock_ = member.id;
  }
  for (const TestMember& a : members_) {
    for (const TestMember& b : members_) {
      const bool cut = kind == 3 ? random_.OneIn(3) : side.contains(a.id) != side.contains(b.id);
      if (cut) cut_.insert({a.id, b.id});
    }
  }
}

void Run::Propose(TestMember* member) {
  std::vector<Slice> payloads;
  for (uint64_t i = random_.Below(4); i > 0; --i) {
    payloads.emplace_back(std::to_string(next_value_++) + std::string(random_.Below(30), '.'));
  }
  const absl::Status status = member->raft().Propose(std::move(payloads));
  const bool leads = member->raft().role() == Role::kLeader;
  ASSERT(leads || status.code() == absl::StatusCode::kFailedPrecondition);
}

void Run::Read(TestMember* member) {
  const uint64_t id = next_read_++;
  reads_[id] = {member->id, Index{committed_.size()}};
  member->raft().ReadIndex(id);
}

// --- Checks --------------------------------------------------------------------------------------

void Run::AfterStep(TestMember* member) {
  member->raft().CheckInvariants();
  // Whether an output is taken after a step is random too.
  if (random_.OneIn(4)) {
    // Messages that were ready to be sent are sent nevertheless.
    TakeMessages(member);
    return;
  }
  std::string trace;
  member->Collect(traced_ ? &trace : nullptr);
  Hash(trace);
  TakeMessages(member);
  CheckLog(member);
  CheckCommit(*member);
  CheckLeader(*member);
  CheckReads(member);
  if (faults_) StrikeAt(member);
}

void Run::StrikeAt(TestMember* member) {
  const size_t number = member->id.value() - 1;
  const Before before = std::exchange(
      before_[number], {member->truncations, member->raft().commit_index(), member->raft().role()});
  totals_.truncations += member->truncations - before.truncations;
  const bool leads = member->raft().role() == Role::kLeader;
  const bool elected = leads && before.role != Role::kLeader;
  const bool committed = leads && member->raft().commit_index() > before.commit;
  const uint64_t seldom = kind_ == Kind::kFeeding ? 10 : 1;
  if (elected && random_.OneIn(4 * seldom)) {
    // The member has an entry that no other member has.
    if (member->unpersisted() > 0) member->Persist(member->unpersisted());
    member->outbox.clear();
    return CrashOrRestart(member);
  }
  if (elected) ReadAtDeposedLeaders();
  if (committed && random_.OneIn(20 * seldom)) return CrashOrRestart(member);
  if (committed && random_.OneIn(4)) ReadAtDeposedLeaders();
  if (member->truncations > before.truncations && random_.OneIn(3)) return CrashOrRestart(member);
}

void Run::ReadAtDeposedLeaders() {
  for (TestMember& member : members_) {
    if (!member.running() || member.raft().role() != Role::kLeader) continue;
    if (member.raft().term() == leaders_.rbegin()->first) continue;
    Read(&member);
    member.Collect();
    TakeMessages(&member);
    CheckReads(&member);
  }
}

void Run::TakeMessages(TestMember* member) {
  for (Message& message : member->outbox) {
    CheckSending(*member, message);
    CheckFeeding(*member, message);
    const bool late = faults_ && random_.OneIn(mix_.delay_one_in);
    network_.push_back({std::move(message), late ? step_ + random_.Below(400) : step_});
  }
  member->outbox.clear();
}

// Checks that a member gives one vote in a term, also across restarts. (TestMember checks that the
// promise of a message is on the disk when the message is sent.)
void Run::CheckSending(const TestMember& member, const Message& message) {
  const auto* response = std::get_if<VoteResponse>(&message.body);
  const auto* request = std::get_if<VoteRequest>(&message.body);
  MemberId candidate = kNoMember;
  if (response && response->granted && !response->pre_vote) candidate = message.to;
  if (request && !request->pre_vote) candidate = member.id;
  if (candidate == kNoMember) return;
  const auto vote =
      votes_.emplace(std::tuple(member.id, member.directories_lost(), message.term), candidate);
  ASSERT(vote.first->second == candidate, "one vote a term");
}

// Checks that a follower sends for its leader, and sends only what is committed.
void Run::CheckFeeding(const TestMember& member, const Message& message) {
  if (message.on_behalf_of == kNoMember) return;
  feeder_ = member.id;
  feeders_of_[message.to].insert(member.id);
  const auto leader = leaders_.find(message.term);
  ASSERT(leader == leaders_.end() || leader->second == message.on_behalf_of);
  const auto* append = std::get_if<AppendRequest>(&message.body);
  if (append == nullptr) return;
  const Index commit = member.raft().commit_index();
  ASSERT(append->commit <= commit && append->prev_index <= commit);
  for (const Entry& entry : append->entries) {
    ASSERT(entry.index <= commit, "a follower feeds what is committed");
    if (entry.index.value() > committed_.size()) continue;
    ASSERT(committed_[entry.index.value() - 1].entry == entry,
           "a follower feeds what is committed");
  }
}

// Checks log matching, and that a leader's log only grows.
void Run::CheckLog(TestMember* member) {
  std::vector<Entry>& before = checked_log_[member->id];
  const std::vector<Entry>& now = member->log();
  size_t same = std::min(before.size(), now.size());
  while (same > 0 && before[same - 1].term != now[same - 1].term) --same;
  before.resize(same);
  for (size_t i = same; i < now.size(); ++i) {
    const Term previous = i == 0 ? Term{0} : now[i - 1].term;
    const auto known =
        entries_.emplace(std::pair(now[i].index, now[i].term), std::pair(now[i].payload, previous));
    ASSERT(known.first->second == std::pair(now[i].payload, previous), "log matching");
    before.push_back(now[i]);
  }
}

// Checks state machine safety, and that committed entries are on a majority of the disks.
void Run::CheckCommit(const TestMember& member) {
  Index& checked = checked_commit_[member.id];
  const Index commit = member.raft().commit_index();
  ASSERT(commit >= checked, "the commit index never decreases");
  for (Index i = checked + 1; i <= commit; ++i) {
    const Entry& entry = member.log()[i.value() - 1];
    if (i.value() <= committed_.size()) {
      ASSERT(committed_[i.value() - 1].entry == entry, "state machine safety");
      continue;
    }
    ASSERT(i.value() == committed_.size() + 1);
    // Checks the entry by the membership that was in effect when it was committed: the newest one
    // up to this entry, or one that follows it in the log.
    bool held = false;
    Membership in_force = membership_;
    auto holds = [&](MemberId id) {
      const std::vector<Entry>& log = members_[id.value() - 1].disk().log;
      return log.size() >= i.value() && log[i.value() - 1] == entry;
    };
    for (size_t next = i.value() - 1; next <= member.log().size(); ++next) {
      held = held || Quorum(in_force).Has(holds);
      if (next == member.log().size()) break;
      if (member.log()[next].kind != EntryKind::kMembership) continue;
      in_force = *DecodeMembership(member.log()[next].payload.view());
      if (next + 1 == i.value()) held = Quorum(in_force).Has(holds);
    }
    ASSERT(held || totals_.lost_disks > 0, "a committed entry is durable on a quorum");
    CheckChange(entry);
    committed_.push_back({entry, member.raft().term()});
  }
  checked = commit;
  const std::vector<Entry>& applied = member.applied();
  ASSERT(applied.size() <= commit.value());
  if (!applied.empty()) ASSERT(committed_[applied.size() - 1].entry == applied.back());
}

// Checks that memberships follow each other by joint consensus.
void Run::CheckChange(const Entry& entry) {
  if (entry.kind != EntryKind::kMembership) return;
  const Membership next = *DecodeMembership(entry.payload.view());
  if (membership_.joint()) {
    ASSERT(next == LeaveJoint(membership_) || next == before_joint_,
           "a change is finished as it was begun, or taken back");
    totals_.taken_back += next == before_joint_ ? 1 : 0;
  } else if (next.joint()) {
    ASSERT(next.outgoing == membership_.voters, "config safety");
  } else {
    ASSERT(next.voters == membership_.voters, "voters change jointly");
  }
  if (next.joint()) before_joint_ = membership_;
  membership_ = next;
}

// Checks election safety and leader completeness.
void Run::CheckLeader(const TestMember& member) {
  if (member.raft().role() != Role::kLeader) return;
  const Term term = member.raft().term();
  const auto [known, is_new] = leaders_.emplace(term, member.id);
  ASSERT(known->second == member.id, "election safety");
  if (!is_new) return;
  const HardState& hard_state = member.disk().hard_state;
  ASSERT(hard_state.term == term, "a candidate's own vote counts once it is durable");
  ASSERT(hard_state.vote == member.id, "a candidate's own vote counts once it is durable");
  for (const Committed& committed : committed_) {
    if (committed.term >= term) continue;
    const size_t position = committed.entry.index.value() - 1;
    ASSERT(position < member.log().size(), "leader completeness");
    ASSERT(member.log()[position] == committed.entry, "leader completeness");
  }
}

// Checks that a read sees at least the entries that were committed when it was requested.
void Run::CheckReads(TestMember* member) {
  for (const ReadResult& read : member->reads) {
    const auto open = reads_.find(read.request_id);
    ASSERT(open != reads_.end(), "a read is answered once");
    ASSERT(open->second.first == member->id, "a read is answered at the member that was asked");
    if (read.ok) {
      ++totals_.reads_ok;
      ASSERT(read.index >= open->second.second, "linearizable");
      ASSERT(read.index.value() <= committed_.size());
    }
    reads_.erase(open);
  }
  member->reads.clear();
}

// --- Liveness ------------------------------------------------------------------------------------

bool Run::AtRest() const {
  if (!reads_.empty() || !network_.empty()) return false;
  bool established = false;
  if (membership_.joint()) return false;
  for (const TestMember& member : members_) {
    if (!membership_.Contains(member.id)) continue;
    if (member.applied().size() != committed_.size()) return false;
    if (member.log().size() != committed_.size() || member.unpersisted() > 0) return false;
    if (member.raft().member_state() != MemberState::kNormal) return false;
    if (member.raft().cluster_version() != kVersionNewest) return false;
    established = established || member.status.leader_established;
  }
  return established;
}

void Run::WorkOff() {
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 100 && !network_.empty(); ++i) Deliver();
    for (TestMember& member : members_) {
      if (member.unpersisted() > 0) member.Persist(1);
      if (member.can_read_log()) member.AnswerLogRead();
      if (member.can_apply()) member.ApplyOne();
      MoveSnapshot(&member);
      AfterStep(&member);
    }
  }
}

bool Run::Heals() {
  faults_ = false;
  cut_.clear();
  mix_.stage_fails = false;
  for (TestMember& member : members_) {
    if (member.running()) member.raft().SetSpaceIsShort(false);
    if (member.running() && member.options().version < kVersionNewest) CrashOrRestart(&member);
    if (!member.running()) CrashOrRestart(&member);
  }
  bool proposed = false;
  // With the narrowest limits, a member that lags gets entries one at a time, and snapshots in
  // pieces.
  const size_t ticks_max = 1000 + 6 * committed_.size();
  for (size_t tick = 0; tick < ticks_max; ++tick) {
    for (TestMember& member : members_) {
      member.raft().Tick();
      if (!proposed && member.status.leader_established && tick > 100) {
        // A new entry, and a read at each member, must get through.
        proposed = member.raft().Propose({Slice("last")}).ok();
        for (TestMember& reader : members_) Read(&reader);
      }
      AfterStep(&member);
    }
    WorkOff();
    if (proposed && AtRest()) return true;
  }
  return false;
}

std::string Run::FeedingProblem() {
  const int window_ticks = 5 * members_[0].options().election_ticks;
  std::string problem;
  // An observer may wait long for another feeder, after many failures.
  for (int window = 0; window < 60; ++window) {
    feeders_of_.clear();
    for (int tick = 0; tick < window_ticks; ++tick) {
      for (TestMember& member : members_) {
        member.raft().Tick();
        member.Collect();
        AfterStep(&member);
      }
      WorkOff();
    }
    problem = FeedingProblemNow();
    if (problem.empty()) break;
  }
  return problem;
}

std::string Run::FeedingProblemNow() {
  const TestMember& leader = members_[leaders_.rbegin()->second.value() - 1];
  for (MemberId learner : membership_.learners) {
    const std::set<MemberId>& feeders = feeders_of_[learner];
    const std::string member = std::to_string(learner.value());
    if (feeders.size() != (membership_.voters.size() > 1 ? 1u : 0u)) {
      return std::to_string(feeders.size()) + " members feed " + member;
    }
    if (!feeders.empty() && !membership_.IsVoter(*feeders.begin())) {
      return "an observer feeds " + member;
    }
    if (!leader.raft().IsInSync(learner)) return member + " is not in sync";
  }
  return "";
}

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

TEST_CASE("random runs keep Raft's guarantees, and come to rest") {
  const uint64_t first = FromEnvironment("QUORATE_RAFT_SEED", 1);
  const bool one = std::getenv("QUORATE_RAFT_SEED") != nullptr;
  const uint64_t runs = FromEnvironment("QUORATE_RAFT_RUNS", one ? 1 : 1000);
  Run::Totals sum;
  for (uint64_t seed = first; seed < first + runs; ++seed) {
    INFO("QUORATE_RAFT_SEED=" << seed);
    Run run(seed);
    run.Chaos(seed % 4 == 0 ? 20000 : 6000);
    const bool heals = run.Heals();
    INFO(run.Describe());
    REQUIRE(heals);
    const Run::Totals totals = run.totals();
    sum.committed += totals.committed;
    sum.terms += totals.terms;
    sum.reads_ok += totals.reads_ok;
    sum.crashes += totals.crashes;
    sum.ranges_from_log += totals.ranges_from_log;
    sum.log_reads += totals.log_reads;
    sum.truncations += totals.truncations;
    sum.transfers += totals.transfers;
    sum.changes += totals.changes;
    sum.taken_back += totals.taken_back;
    sum.compactions += totals.compactions;
    sum.installs += totals.installs;
    sum.lost_disks += totals.lost_disks;
    sum.fed += totals.fed;
    sum.fed_chunks += totals.fed_chunks;
  }
  if (one) return;
  // The runs must have covered the cases for which they exist.
  CAPTURE(sum.committed, sum.terms, sum.reads_ok, sum.crashes, sum.ranges_from_log, sum.log_reads,
          sum.truncations, sum.transfers, sum.changes, sum.compactions, sum.installs,
          sum.lost_disks, sum.fed, sum.fed_chunks, sum.taken_back);
  CHECK(sum.committed > 20 * runs);
  CHECK(sum.terms > 2 * runs);
  CHECK(sum.reads_ok > 10 * runs);
  CHECK(sum.crashes > runs);
  CHECK(sum.ranges_from_log > runs / 2);
  CHECK(sum.log_reads > runs / 2);
  CHECK(sum.truncations > runs / 5);
  CHECK(sum.transfers > runs / 4);
  CHECK(sum.changes > runs / 2);
  CHECK(sum.taken_back > runs / 100);
  CHECK(sum.compactions > 2 * runs);
  CHECK(sum.installs > runs / 5);
  CHECK(sum.lost_disks > runs / 5);
  CHECK(sum.fed > runs);
  CHECK(sum.fed_chunks > runs / 20);
}

TEST_CASE("random runs with followers that feed observers keep the same guarantees") {
  const uint64_t first = FromEnvironment("QUORATE_RAFT_SEED", 1);
  const bool one = std::getenv("QUORATE_RAFT_SEED") != nullptr;
  const uint64_t runs = FromEnvironment("QUORATE_RAFT_RUNS", one ? 1 : 500);
  Run::Totals sum;
  for (uint64_t seed = first; seed < first + runs; ++seed) {
    INFO("QUORATE_RAFT_SEED=" << seed);
    Run run(seed, Kind::kFeeding);
    run.Chaos(12000);
    const bool heals = run.Heals();
    INFO(run.Describe());
    REQUIRE(heals);
    const std::string problem = run.FeedingProblem();
    CAPTURE(problem);
    REQUIRE(problem.empty());
    const Run::Totals totals = run.totals();
    sum.fed += totals.fed;
    sum.fed_chunks += totals.fed_chunks;
    sum.demoted += totals.demoted;
    sum.other_reads += totals.other_reads;
  }
  if (one) return;
  CAPTURE(sum.fed, sum.fed_chunks, sum.demoted, sum.other_reads);
  CHECK(sum.fed > 20 * runs);
  CHECK(sum.fed_chunks > 2 * runs);
  CHECK(sum.demoted > runs / 10);
  CHECK(sum.other_reads > runs);
}

TEST_CASE("seeds that once found a mistake still pass") {
  for (uint64_t seed : {11325, 21795, 10144, 10165, 10192, 10309}) {
    INFO("QUORATE_RAFT_SEED=" << seed);
    Run run(seed);
    run.Chaos(6000);
    REQUIRE(run.Heals());
  }
}

TEST_CASE("a run depends only on its seed") {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    Run first(seed, Kind::kMixed, true);
    first.Chaos(600);
    Run second(seed, Kind::kMixed, true);
    second.Chaos(600);
    CHECK(first.trace_hash() == second.trace_hash());
  }
}

}  // namespace
}  // namespace quorate::consensus
