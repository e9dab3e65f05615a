// SPDX-License-Identifier: Apache-2.0

// The part of a replica that logs changes of its own state and of the other servers, and that ends
// the server when it cannot go on.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "rpc/member/exit_status.h"
#include "rpc/member/replica.h"

namespace quorate::rpc {

using consensus::MemberId;
using consensus::Membership;

void Replica::LogLeader(const consensus::Status& status) {
  if (status.leader == raft_status_.leader && status.role == raft_status_.role &&
      status.leader_established == raft_status_.leader_established) {
    return;
  }
  const MemberId self = options_.node.raft.self;
  const MemberId before = raft_status_.leader;
  if (status.leader_established) {
    spdlog::info("leading in term {}", status.term.value());
  } else if (status.leader != consensus::kNoMember && status.leader != self) {
    spdlog::info("following server {} in term {}", status.leader.value(), status.term.value());
  } else if (status.leader != consensus::kNoMember || before == consensus::kNoMember) {
    return;
  } else if (before == self) {
    spdlog::info("no longer leading (term {})", status.term.value());
  } else if (links_->DownForMs(before) > 0) {
    spdlog::warn("no leader (term {}): the connection to server {}, which led, is lost: {}",
                 status.term.value(), before.value(), links_->ProblemOf(before));
  } else if (node_->raft().ticks_since_leader() >= options_.node.raft.election_ticks) {
    spdlog::warn("no leader (term {}): server {}, which led, was silent for {} ms",
                 status.term.value(), before.value(),
                 int64_t{node_->raft().ticks_since_leader()} * options_.node.tick_ms);
  } else {
    spdlog::info("no leader (term {}): another server wants to lead instead of server {}",
                 status.term.value(), before.value());
  }
}

void Replica::CheckMemberState(const consensus::Status& status) {
  if (status.later_directory_epoch > 0) {
    host_->OnEnd(absl::FailedPreconditionError(absl::StrCat(
        "the data directory ", options_.data_dir,
        " is out of date: a majority of the servers knows "
        "a later data directory of server ",
        options_.node.raft.self.value(),
        ". It is an old copy, or another server with the same number has run meanwhile. Run one "
        "server with this number, on the later data directory. Keep this directory until `quorate "
        "status` shows that server as in sync: until then, some entries may be on this disk "
        "alone")));
  }
  if (status.refused_by != raft_status_.refused_by && status.refused_by != consensus::kNoMember) {
    spdlog::error(
        "server {} rejected the data directory {}: server {} is alive with another one; two "
        "servers have the same number. Correct the number of this server (in the file myid), or "
        "stop the other one: then this one takes its place",
        status.refused_by.value(), options_.data_dir, options_.node.raft.self.value());
  }
  if (status.differs_from != raft_status_.differs_from &&
      status.differs_from != consensus::kNoMember) {
    spdlog::error(
        "server {} was started with other members ({}) than this server ({}), and no log "
        "holds the membership yet: this server does not become leader until the server lines of "
        "their configurations agree",
        status.differs_from.value(), consensus::ToString(status.other_configured),
        consensus::ToString(options_.node.raft.membership));
  }
  if (status.version_needed > 0) {
    const uint32_t understood = options_.node.raft.version;
    host_->OnEnd(absl::FailedPreconditionError(absl::StrCat(
        "the cluster uses version ", status.version_needed, " of the log, and this ",
        status.version_needed <= consensus::kVersionNewest
            ? absl::StrCat("server is kept at ", understood,
                           " by clusterVersionMax; remove that line from the configuration")
            : absl::StrCat("program knows ", understood,
                           " at most; start a newer program on the same data"))));
  }
  if (status.member_state != raft_status_.member_state) {
    if (status.member_state == consensus::MemberState::kRecovering) {
      spdlog::info(
          "this server's data directory is new to a cluster that exists: it catches up, and "
          "neither votes nor counts until it has");
    } else if (raft_status_.member_state == consensus::MemberState::kRecovering) {
      spdlog::info("this server has caught up, and counts as a member again");
    }
  }
  LogLoss(status);
  if (status.removed && !raft_status_.removed) {
    spdlog::warn("this server was removed from the cluster");
  }
}

void Replica::EndIfRemoved(int64_t elapsed_ms) {
  // Scripts of ZooKeeper's users remove a member and add it with another role at once. Clients are
  // disconnected as soon as the server is no member.
  constexpr int64_t kPatienceMs = 30'000;
  // A pause of the process is no time in which it might have been added again.
  constexpr int64_t kTickMsMax = 1'000;
  const consensus::Raft& raft = node_->raft();
  const MemberId self = options_.node.raft.self;
  const Membership& membership = raft.membership();
  has_voted_ = has_voted_ ||
               (!membership.joint() && raft.MembershipIsCommitted() && membership.IsVoter(self));
  // A server that was removed while it did not run, or before it had caught up, waits to be admitted:
  // if it ended, whatever starts it would start it again and again. So does one that should have become a
  // voter, and was taken out because the others that came with it did not answer. A leader that still
  // speaks to it may have more to tell, such as that it was added again.
  const auto own = options_.servers.find(self.value());
  const bool is_for_observing = own != options_.servers.end() && own->second.observer;
  const bool is_removed = raft_status_.removed && caught_up_ && (has_voted_ || is_for_observing) &&
                          !membership.Contains(self) && raft_status_.leader == consensus::kNoMember;
  removed_for_ms_ = is_removed ? removed_for_ms_ + std::min(elapsed_ms, kTickMsMax) : 0;
  if (removed_for_ms_ < kPatienceMs) return;
  host_->OnEnd(
      WithExitStatus(absl::FailedPreconditionError(absl::StrCat(
                         "its clients were sent to the other members, which have all data; nothing "
                         "has to be done. To "
                         "take it back, put the data in ",
                         options_.data_dir,
                         " aside (`quorate rebuild`), start it, and add it (`quorate member add ",
                         options_.node.raft.self.value(), "`)")),
                     ExitStatus::kRemoved));
}

void Replica::LogLoss(const consensus::Status& status) {
  if (status.lost_last == raft_status_.lost_last) return;
  if (status.lost_last > consensus::Index{0}) {
    ++counts_.log_losses;
    spdlog::error(
        "the log in {} has lost the entries {} to {}, which this server had acknowledged: the disk "
        "forgot what it had reported as written (a write cache without power protection?). They "
        "come again from the leader; until then this server votes "
        "only for those who have them",
        options_.data_dir, status.lost_first.value(), status.lost_last.value());
  } else {
    spdlog::info("the entries that the log had lost were received again");
  }
}

void Replica::ReportWait(std::chrono::steady_clock::time_point now) {
  // A leader cannot serve before its first entry is applied.
  const bool waits = !status().serving() || applied_term_ != raft_status_.term;
  const auto waited = wait_reporter_.Tick(waits, now);
  if (!waited.has_value()) return;
  spdlog::info("this server does not serve, for {} s now: it waits for {}", waited->count(),
               WaitText(FindWaitFacts()));
}

WaitFacts Replica::FindWaitFacts() const {
  const consensus::Raft& raft = node_->raft();
  const MemberId self = options_.node.raft.self;
  WaitFacts facts;
  facts.self = self;
  facts.member_state = raft_status_.member_state;
  facts.removed = raft_status_.removed;
  facts.is_voter = raft.membership().IsVoter(self);
  for (MemberId voter : raft.membership().voters) {
    if (voter == self) continue;
    facts.others.push_back({voter, links_->DownForMs(voter) == 0, links_->ProblemOf(voter)});
  }
  facts.leader = raft_status_.leader;
  facts.leader_silent_ms = int64_t{raft.ticks_since_leader()} * options_.node.tick_ms;
  facts.refused_by = raft_status_.refused_by;
  facts.differs_from = raft_status_.differs_from;
  facts.applied = applied_;
  facts.commit = raft.commit_index();
  facts.snapshot_bytes = checkpoints_.has_value() ? checkpoints_->staged_bytes() : 0;
  facts.log_full = log_full_.load(std::memory_order_relaxed);
  facts.log_out_of_descriptors = log_out_of_descriptors_.load(std::memory_order_relaxed);
  return facts;
}

void Replica::RecordSession(const ReplicatedTree::News::SessionChange& change) {
  // Sessions that a replay creates again after a start were logged before.
  if (change.closed || !caught_up_ || change.session.member != proposer_.member) return;
  const tree::SessionId id = change.session.id;
  session_log_.Note(tracker_.Knows(id) ? SessionLog::Event::kMoved : SessionLog::Event::kOpened, id,
                    change.session.timeout_ms, clock_->Now());
}

void Replica::CompareClocks(int64_t command_ms) {
  // One comparison per tick is enough. Only the newest command is compared, because the time of an
  // older one would be compared with too late a time.
  if (command_ms == compared_command_ms_ || clocks_compared_ == last_tick_) return;
  const bool is_new = caught_up_ && applied_ == node_->raft().commit_index();
  compared_command_ms_ = command_ms;
  clocks_compared_ = last_tick_;
  const MemberId leader = raft_status_.leader;
  if (!is_new || leader == consensus::kNoMember || leader == options_.node.raft.self) return;
  const auto found = clocks_.Note(leader, command_ms, clock_->WallMs(), clock_->Now());
  if (!found.has_value()) return;
  spdlog::warn(
      "this server's clock is {} ms {} that of the leader, server {}; check both clocks (NTP): "
      "times of znodes and TTLs follow the leader's",
      std::abs(found->ahead_ms), found->ahead_ms > 0 ? "ahead of" : "behind",
      found->leader.value());
}

void Replica::OnSnapshotRejected(const consensus::SnapshotRejection& rejection) {
  spdlog::error(
      "snapshot rejected member={} zxid=0x{:x} reason=\"{}\"; it is sent again later, from a newer "
      "checkpoint if there is one",
      rejection.follower.value(), rejection.index.value(), rejection.reason);
}

void Replica::LogRefused(MemberId from, const absl::Status& error) {
  // The sender may repeat the batch as soon as it has a new link.
  constexpr auto kInterval = std::chrono::seconds(10);
  const auto now = clock_->Now();
  MutexLock lock(&refusals_mutex_);
  const auto last = refusals_.find(from);
  if (last != refusals_.end() && now - last->second < kInterval) return;
  refusals_[from] = now;
  spdlog::error("server {} forwards a write that cannot be applied, and is refused: {}",
                from.value(), std::string(error.message()));
}

}  // namespace quorate::rpc
