// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/wait_reporter.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace quorate::rpc {
namespace {

using consensus::MemberId;
using consensus::MemberState;
using Voters = std::vector<WaitFacts::Voter>;

// Returns the voters that are not reached, each with the reason; empty if all are.
std::string MissingText(const Voters& others) {
  std::vector<std::string> missing;
  for (const WaitFacts::Voter& voter : others) {
    if (voter.reached) continue;
    missing.push_back(absl::StrCat("server ", voter.id.value(), voter.problem.empty() ? "" : " (",
                                   voter.problem, voter.problem.empty() ? "" : ")"));
  }
  return absl::StrJoin(missing, ", ");
}

// Returns "; not reached: ...", or an empty string.
std::string NotReached(const Voters& others) {
  const std::string missing = MissingText(others);
  return missing.empty() ? "" : absl::StrCat("; not reached: ", missing);
}

std::string TextWithoutLeader(const WaitFacts& facts) {
  const Voters& others = facts.others;
  const auto reached = static_cast<size_t>(
      std::count_if(others.begin(), others.end(), [](const auto& voter) { return voter.reached; }));
  const size_t voters = others.size() + (facts.is_voter ? 1 : 0);
  const size_t majority = voters / 2 + 1;
  if (facts.member_state == MemberState::kNew && facts.is_voter) {
    if (reached < others.size()) {
      return absl::StrCat("a leader, or all ", voters,
                          " voters: its data directory is empty, and a new cluster begins when all "
                          "of them are there",
                          NotReached(others));
    }
    return "a leader: its data directory is empty, and all other voters are reached. If they are "
           "empty, too, a new cluster begins at once; one that has data has to become leader "
           "first, "
           "and its log says what it waits for";
  }
  if (facts.member_state != MemberState::kNormal || !facts.is_voter) {
    return absl::StrCat("a leader, which fills it", NotReached(others));
  }
  if (reached + 1 < majority) {
    return absl::StrCat("a majority: ", majority, " of the ", voters,
                        " voters have to be there to elect a leader, and this server reaches ",
                        reached, " besides itself", NotReached(others));
  }
  return absl::StrCat(
      "a leader: enough voters for a majority are reached, and none of them is elected (servers "
      "whose disk was lost, or that have lost entries, do not vote; their logs say so)",
      NotReached(others));
}

std::string TextWithLeader(const WaitFacts& facts) {
  const uint32_t leader = facts.leader.value();
  if (facts.leader == facts.self) {
    return absl::StrCat("a majority: it leads, and the first entry of its term is not acknowledged",
                        NotReached(facts.others));
  }
  for (const WaitFacts::Voter& voter : facts.others) {
    if (voter.id != facts.leader || voter.reached) continue;
    return absl::StrCat("the connection to the leader: ", MissingText({voter}));
  }
  if (facts.snapshot_bytes > 0) {
    return absl::StrCat("the rest of a snapshot from the leader, server ", leader, ": ",
                        facts.snapshot_bytes >> 20, " MiB were received");
  }
  if (facts.applied < facts.commit) {
    return absl::StrCat("its own tree: zxid 0x", absl::Hex(facts.applied.value()),
                        " is applied of 0x", absl::Hex(facts.commit.value()),
                        " that are known to be committed");
  }
  return absl::StrCat("the leader, server ", leader,
                      ", to confirm what is committed; its last message came ",
                      facts.leader_silent_ms, " ms ago");
}

}  // namespace

std::string WaitText(const WaitFacts& facts) {
  if (facts.removed) {
    return absl::StrCat(
        "nothing: it was removed from the cluster, and can be stopped. To take it back, stop it, "
        "put "
        "its data aside (`quorate rebuild`), start it, and add it again (`quorate member add ",
        facts.self.value(), "`)");
  }
  if (facts.refused_by != consensus::kNoMember) {
    return absl::StrCat("the number ", facts.self.value(), " to be free: server ",
                        facts.refused_by.value(),
                        " says that another server with this number is alive. Correct the number "
                        "of one (in its file myid), or stop the other");
  }
  if (facts.log_out_of_descriptors) {
    return "a file descriptor for its log: too many files are open (raise ulimit -n, or close "
           "connections)";
  }
  if (facts.log_full) return "free space on the disk of its log";
  if (facts.differs_from != consensus::kNoMember) {
    return absl::StrCat(
        "the server lines of its configuration and of server ", facts.differs_from.value(),
        " to name the same members", NotReached(facts.others),
        ". Correct the wrong ones and restart those servers; if that server is not to come back, "
        "keep it stopped and restart this one");
  }
  return facts.leader == consensus::kNoMember ? TextWithoutLeader(facts) : TextWithLeader(facts);
}

std::optional<std::chrono::seconds> WaitReporter::Tick(bool waits,
                                                       std::chrono::steady_clock::time_point now) {
  if (!waits) {
    since_.reset();
    return std::nullopt;
  }
  if (!since_.has_value()) {
    since_ = now;
    next_ = now + kFirst;
  }
  if (now < next_) return std::nullopt;
  next_ = now + kAgain;
  return std::chrono::duration_cast<std::chrono::seconds>(now - *since_);
}

}  // namespace quorate::rpc
