// SPDX-License-Identifier: Apache-2.0

// Observers that a follower feeds, so that the leader sends as much for many observers as for a few.
// A follower with RaftOptions::feeds_observers says in answers to heartbeats that it is ready. The
// leader gives it observers, by the list in its heartbeats, and from then on sends them heartbeats
// only. The follower sends them entries and checkpoints on the leader's behalf
// (Message::on_behalf_of), and tells the leader in its answers how far they are. It sends heartbeats
// too, to learn whether an observer is there.
//
// Why it is safe:
//
//  - A follower sends committed entries only, in the term in which it follows the leader that it
//    names. Every leader of that term or a later one has these entries, and a member in a later term
//    refuses them. For the receiver they are what the leader itself would send.
//  - Only learners are fed. What a follower reports of them counts in no majority. Before a learner
//    becomes a voter, the leader takes it back and learns from the learner itself what it has.
//  - A follower sends heartbeats only when it receives one. Therefore an observer does not hear from a
//    leader that its feeder does not hear.
//  - Two members may feed one observer for a while, the leader and a follower or two followers. Both
//    send what the leader's log has.
//
// Who feeds: a voter that has caught up with the leader. A member that ceases to be a voter ceases to
// feed when it learns of that, at the latest with the leader's next heartbeat, which names nobody. For
// an election timeout, nobody feeds it. So no observer feeds another one.
//
// Reads, writes and sessions do not take this way: an observer knows the leader, and talks to it.
#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "consensus/core/describe.h"
#include "consensus/core/raft.h"

namespace quorate::consensus {
namespace {

// An observer that is to become a voter stays with the leader for so many election timeouts.
constexpr int kPromotionElections = 20;

}  // namespace

// --- At the leader -------------------------------------------------------------------------------

bool Raft::IsFedByOther(MemberId observer) const {
  const auto* leader = std::get_if<LeaderRole>(&role_);
  return leader != nullptr && leader->feed_plan.FeederOf(observer) != kNoMember;
}

Index Raft::KnownMatch(const LeaderRole& leader, const Progress& progress) {
  const bool fed = leader.feed_plan.FeederOf(progress.member()) != kNoMember;
  return fed ? leader.feed_plan.MatchOf(progress.member()) : progress.match();
}

void Raft::Restart(Progress* progress) const {
  Progress restarted = MakeProgress(progress->member());
  restarted.SetLeaving(progress->leaving());
  restarted.RecordSender(progress->version(), progress->voting());
  restarted.catch_up() = progress->catch_up();
  *progress = std::move(restarted);
}

void Raft::TakeBack(LeaderRole* leader, Progress* progress) {
  ASSERT(leader->feed_plan.FeederOf(progress->member()) == kNoMember);
  Restart(progress);
  progress->catch_up().Restart(last_index());
}

int Raft::ReportTimeoutTicks() const {
  // A report comes with each heartbeat.
  return std::max(options_.election_ticks, 3 * options_.heartbeat_ticks);
}

bool Raft::IsReady(const LeaderRole& leader, MemberId feeder) const {
  return membership().IsVoter(feeder) && leader.feed_plan.IsReady(feeder, ReportTimeoutTicks());
}

bool Raft::IsUpToDate(const Progress& feeder) const {
  return feeder.state() != Progress::State::kSnapshot &&
         feeder.catch_up().IsCaughtUp(options_.election_ticks);
}

bool Raft::MayGiveAway(const LeaderRole& leader, const Progress& progress) const {
  if (std::min(progress.version(), options_.version) < kVersionFeeding ||
      progress.ticks_since_heard() >= options_.election_ticks ||
      !leader.feed_plan.MayAssign(progress.member())) {
    return false;
  }
  // The transfer of a checkpoint goes on, and so does the time after it, for which this log is held.
  if (progress.held_from() == Index{0}) return true;
  return progress.state() == Progress::State::kSnapshot
             ? progress.transfer().acked() == 0
             : progress.match() >= retention_.checkpoint();
}

MemberId Raft::ChooseFeeder(const LeaderRole& leader, MemberId observer) const {
  std::vector<MemberId> ready;
  for (const Progress& progress : leader.followers) {
    if (progress.state() == Progress::State::kReplicate && IsUpToDate(progress) &&
        IsReady(leader, progress.member())) {
      ready.push_back(progress.member());
    }
  }
  return ready.empty() ? kNoMember : leader.feed_plan.Choose(observer, ready);
}

void Raft::ReviewFeeding(LeaderRole* leader, Progress* progress) {
  FeedPlan& plan = leader->feed_plan;
  const MemberId member = progress->member();
  const MemberId feeder = plan.FeederOf(member);
  const Progress* source = FindProgress(feeder);
  // The first report arrives after about two heartbeats, if the feeder reaches the observer.
  const int first_ticks = std::min(4 * options_.heartbeat_ticks, ReportTimeoutTicks());
  const bool is_observer = !progress->leaving() && !membership().IsVoter(member);
  const bool is_ready = source != nullptr && IsReady(*leader, feeder);
  const bool works =
      is_ready && IsUpToDate(*source) && !plan.IsSilent(member, first_ticks, ReportTimeoutTicks());
  if (is_observer && works) return;
  if (is_observer && is_ready) {
    plan.Failed(member, options_.election_ticks);
  } else {
    plan.Hold(member, 0);
  }
  TakeBack(leader, progress);
}

void Raft::PlanFeeding(LeaderRole* leader) {
  FeedPlan& plan = leader->feed_plan;
  plan.Tick();
  for (Progress& progress : leader->followers) {
    const MemberId member = progress.member();
    if (plan.FeederOf(member) != kNoMember) {
      ReviewFeeding(leader, &progress);
    } else if (progress.leaving()) {
      plan.Forget(member);
    } else if (membership().IsVoter(member)) {
      // If it ceases to be one, it has to hear first that it feeds nobody any more.
      plan.Hold(member, options_.election_ticks);
    } else if (MayGiveAway(*leader, progress)) {
      const MemberId chosen = ChooseFeeder(*leader, member);
      if (chosen == kNoMember) continue;
      plan.Assign(member, chosen);
      Restart(&progress);
    }
  }
}

void Raft::HandleFeedReport(LeaderRole* leader, MemberId from,
                            const std::vector<FedObserver>& fed) {
  if (!membership().IsVoter(from)) return;
  leader->feed_plan.Reported(from);
  for (const FedObserver& observer : fed) {
    Progress* progress = FindProgress(observer.member);
    const Peers::Peer* peer = peers_.Find(observer.member);
    // What another directory of the observer had does not count.
    if (leader->feed_plan.FeederOf(observer.member) != from || progress == nullptr ||
        peer == nullptr || peer->directory_epoch != observer.directory_epoch ||
        observer.match > last_index()) {
      continue;
    }
    leader->feed_plan.ObserverReported(observer.member, observer.match);
    progress->catch_up().Advance(observer.match, last_index());
  }
}

absl::Status Raft::FeedNewVoters(const Membership& target) {
  auto* leader = std::get_if<LeaderRole>(&role_);
  ASSERT(leader != nullptr);
  std::string taken_back;
  for (MemberId voter : target.voters) {
    if (membership().IsVoter(voter) || FindProgress(voter) == nullptr) continue;
    const bool fed = IsFedByOther(voter);
    leader->feed_plan.Hold(voter, kPromotionElections * options_.election_ticks);
    if (!fed) continue;
    TakeBack(leader, FindProgress(voter));
    taken_back += (taken_back.empty() ? "" : ", ") + Describe(voter);
  }
  if (taken_back.empty()) return absl::OkStatus();
  return absl::UnavailableError("member " + taken_back +
                                " cannot become a voter yet: a follower has fed it, and the leader "
                                "has to see first what it has");
}

// --- At the follower -----------------------------------------------------------------------------

std::optional<std::vector<FedObserver>> Raft::Feed(const Heartbeat& heartbeat) {
  auto& follower = std::get<FollowerRole>(role_);
  const bool is_ready = options_.feeds_observers && IsVoter() && IsDurablyNormal() &&
                        !installing_ && !lost_ &&
                        std::min(version_of(leader_), options_.version) >= kVersionFeeding;
  if (!is_ready || heartbeat.observers.empty()) EndFeeding();
  if (!is_ready) return std::nullopt;
  if (!heartbeat.observers.empty()) {
    if (!follower.feeding) follower.feeding.emplace(options_.snapshot_bytes_per_tick);
    std::vector<Progress> observers;
    observers.reserve(heartbeat.observers.size());
    for (MemberId member : heartbeat.observers) {
      if (member == options_.self || member == leader_) continue;
      const Progress* known = FindProgress(member);
      observers.push_back(known != nullptr ? *known : MakeProgress(member));
    }
    follower.feeding->observers = std::move(observers);
    follower.feeding->ticks_since_list = 0;
  }
  // The observers get a heartbeat for each regular one of the leader, but not for each round of
  // reads.
  if (2 * follower.ticks_since_report < options_.heartbeat_ticks) return std::nullopt;
  follower.ticks_since_report = 0;
  std::vector<FedObserver> fed;
  if (!follower.feeding) return fed;
  follower.feeding->heartbeat_due = true;
  for (Progress& progress : follower.feeding->observers) {
    progress.ProbeAgain();
    const Peers::Peer* peer = peers_.Find(progress.member());
    const int recent = std::min(2 * options_.heartbeat_ticks, options_.election_ticks);
    if (peer == nullptr || progress.version() == 0 || progress.ticks_since_heard() > recent)
      continue;
    fed.push_back({progress.member(), progress.match(), peer->directory_epoch});
  }
  return fed;
}

void Raft::EndFeeding() {
  auto* follower = std::get_if<FollowerRole>(&role_);
  if (follower == nullptr || !follower->feeding) return;
  // The next leader may let this member go on.
  retention_.EndedSending(RetentionFollowers(*follower->feeding), now_ticks_);
  follower->feeding.reset();
}

void Raft::TickFeeding(FollowerRole* follower) {
  follower->ticks_since_report = std::min(follower->ticks_since_report + 1, kNeverReported);
  if (!follower->feeding) return;
  // This member may be fed itself, and not hear that its leader has given its observers to others.
  if (!IsVoter() || ++follower->feeding->ticks_since_list >= options_.election_ticks) {
    EndFeeding();
    return;
  }
  for (Progress& progress : follower->feeding->observers) {
    progress.Tick(options_.election_ticks, SnapshotStallTicks());
  }
  ShareSnapshotBudget(&follower->feeding->observers, &follower->feeding->snapshot_rate);
}

bool Raft::FeedingHasOutput(const FollowerRole& follower) const {
  if (!follower.feeding) return false;
  const std::vector<Progress>& observers = follower.feeding->observers;
  return follower.feeding->heartbeat_due ||
         std::any_of(observers.begin(), observers.end(),
                     [&](const Progress& p) { return NextSending(p) != Sending::kNothing; });
}

void Raft::TakeFeedingOutput(FollowerRole* follower, Output* output) {
  if (!follower->feeding) return;
  const bool heartbeat_due = std::exchange(follower->feeding->heartbeat_due, false);
  for (Progress& progress : follower->feeding->observers) {
    if (heartbeat_due) {
      SendToReceiver(progress.member(),
                     Heartbeat{std::min(progress.match(), commit_), ReadRound{0}});
    }
    SendAppends(&progress, output);
  }
}

// --- At the observer -----------------------------------------------------------------------------

MemberId Raft::Source() const {
  const auto* follower = std::get_if<FollowerRole>(&role_);
  if (leader_ == kNoMember || follower == nullptr || follower->feeder == kNoMember) return leader_;
  return follower->feeder;
}

}  // namespace quorate::consensus
