// SPDX-License-Identifier: Apache-2.0

// Observers that a follower feeds, so that the leader sends as much for many observers as for a few.
// A follower with RaftOptions::feeds_observers says in answers to heartbeats that it is ready. The
// leader gives it observers, by the list in its heartbeats, and from then on sends nothing to them.
// The follower sends them entries, heartbeats and checkpoints on the leader's behalf
// (Message::on_behalf_of), and tells the leader in its answers how far they are.
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

void Raft::TakeBack(LeaderRole* leader, Progress* progress) {
  ASSERT(leader->feed_plan.FeederOf(progress->member()) == kNoMember);
  *progress = MakeProgress(progress->member());
  progress->SetLeaving(!membership().Contains(progress->member()));
}

MemberId Raft::ChooseFeeder(const LeaderRole& leader, MemberId observer) const {
  std::vector<MemberId> ready;
  for (const Progress& progress : leader.followers) {
    if (membership().IsVoter(progress.member()) &&
        leader.feed_plan.IsReady(progress.member(), options_.election_ticks)) {
      ready.push_back(progress.member());
    }
  }
  return ready.empty() ? kNoMember : leader.feed_plan.Choose(observer, ready);
}

void Raft::PlanFeeding(LeaderRole* leader) {
  FeedPlan& plan = leader->feed_plan;
  plan.Tick();
  for (Progress& progress : leader->followers) {
    const MemberId member = progress.member();
    const bool is_observer = !progress.leaving() && !membership().IsVoter(member);
    const MemberId feeder = plan.FeederOf(member);
    if (feeder != kNoMember) {
      const bool feeds =
          membership().IsVoter(feeder) && plan.IsReady(feeder, options_.election_ticks);
      const bool is_silent = plan.IsSilent(member, options_.election_ticks);
      if (is_observer && feeds && !is_silent) continue;
      if (feeds && is_silent) {
        plan.Failed(member, options_.election_ticks);
      } else {
        plan.Hold(member, 0);
      }
      TakeBack(leader, &progress);
    } else if (!is_observer) {
      plan.Forget(member);
    } else if (std::min(progress.version(), options_.version) >= kVersionFeeding &&
               progress.ticks_since_heard() < options_.election_ticks && plan.MayAssign(member)) {
      const MemberId chosen = ChooseFeeder(*leader, member);
      if (chosen != kNoMember) plan.Assign(member, chosen);
    }
  }
}

void Raft::HandleFeedReport(LeaderRole* leader, MemberId from,
                            const std::vector<FedObserver>& fed) {
  if (!membership().IsVoter(from)) return;
  leader->feed_plan.Reported(from);
  for (const FedObserver& observer : fed) {
    Progress* progress = FindProgress(observer.member);
    if (leader->feed_plan.FeederOf(observer.member) != from || progress == nullptr ||
        observer.match > last_index()) {
      continue;
    }
    leader->feed_plan.ObserverReported(observer.member, observer.match);
    progress->RecordSender(observer.version, observer.voting);
    progress->Heard(options_.election_ticks);
    progress->catch_up().Advance(observer.match, last_index());
    peers_.HeardElsewhere(observer.member, observer.directory_epoch, observer.version, now_ticks_);
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
  const bool is_ready = options_.feeds_observers && IsDurablyNormal() && !installing_ && !lost_ &&
                        std::min(version_of(leader_), options_.version) >= kVersionFeeding;
  if (!is_ready || heartbeat.observers.empty()) follower.feeding.reset();
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
    fed.push_back({progress.member(), progress.match(), peer->directory_epoch, progress.version(),
                   progress.voting()});
  }
  return fed;
}

void Raft::TickFeeding(FollowerRole* follower) {
  follower->ticks_since_report = std::min(follower->ticks_since_report + 1, kNeverReported);
  if (!follower->feeding) return;
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
