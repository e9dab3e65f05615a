// SPDX-License-Identifier: Apache-2.0

#include "tools/backup/recover.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "consensus/core/membership.h"
#include "consensus/log/membership_file.h"
#include "rpc/membership/members.h"
#include "tools/backup/new_member.h"
#include "tools/backup/recovered_files.h"
#include "tools/backup/restored_tree.h"
#include "tools/cli/text.h"
#include "tools/offline/load_member.h"
#include "tools/offline/printing.h"
#include "tree/command.h"

namespace quorate::tools {
namespace {

using consensus::Env;
using consensus::MemberId;
using consensus::Membership;
using nlohmann::ordered_json;

class NoListener : public tree::ApplyListener {
 public:
  void OnNodeEvent(tree::EventType, std::string_view, tree::Zxid, const tree::EventAcls&) override {
  }
  void OnSessionAttached(const tree::SessionInfo&) override {}
  void OnSessionClosed(tree::SessionId, tree::Zxid) override {}
  void OnResult(tree::ApplyResult) override {}
};

// One of the directories that were given.
struct Survivor {
  MemberPaths paths;
  std::optional<MemberLock> lock;
  MemberId member;
  std::string cluster_id;
  uint64_t term = 0;  // of the last entry
  uint64_t index = 0;
  CommitFacts commit;
  std::optional<int64_t> time_ms;  // of the newest command in the log
  std::optional<Membership> membership;
  uint32_t version = consensus::kVersionBase;  // of the cluster
  bool is_normal = false;                      // it votes and counts in a majority

  auto position() const { return std::pair(term, index); }
};

std::optional<int64_t> NewestTime(const consensus::RecoveredLog& log) {
  std::optional<int64_t> time_ms;
  for (auto segment = log.segments.rbegin(); segment != log.segments.rend(); ++segment) {
    const absl::Status read =
        ForEachEntry(**segment, [&](const consensus::RecordView& entry, uint64_t) {
          if (entry.kind != consensus::EntryKind::kCommand) return;
          const auto header = tree::DecodeHeader(entry.payload);
          if (header.ok()) time_ms = header->time_ms;
        });
    if (!read.ok() || time_ms.has_value()) break;
  }
  return time_ms;
}

std::string Numbers(const std::vector<MemberId>& members) {
  return absl::StrJoin(members, ", ", [](std::string* out, MemberId member) {
    absl::StrAppend(out, member.value());
  });
}

absl::StatusOr<Survivor> ExamineSurvivor(const MemberPaths& paths) {
  Survivor result;
  result.paths = paths;
  auto lock = MemberLock::Take(paths, Env::PosixReadOnly());
  if (!lock.ok()) return lock.status();
  result.lock = *std::move(lock);
  Progress progress;
  const MemberExamination examined = ExamineMember(paths, &progress);
  for (const Finding& finding : examined.findings) {
    if (!finding.is_problem) continue;
    return absl::DataLossError(
        absl::StrCat(finding.file, ": ", finding.what,
                     ". Nothing is recovered while a given directory is damaged: its log could "
                     "have been the longest. `quorate verify ",
                     paths.data_dir, "` shows all that is wrong; leave the directory out if ",
                     "the others are to be used without it"));
  }
  const auto commit = CommitFactsOf(examined);
  const bool has_log = examined.log.has_value() && !examined.log_is_replaced;
  if (has_log) {
    result.index = examined.log->log.last_index.value();
    result.term = examined.log->log.last_term.value();
    result.time_ms = NewestTime(examined.log->log);
  }
  std::optional<consensus::SnapshotMeta> checkpoint;
  if (examined.checkpoint.has_value()) checkpoint = examined.checkpoint->meta;
  if (checkpoint.has_value()) {
    std::tie(result.term, result.index) =
        std::max(result.position(), std::pair(checkpoint->term.value(), checkpoint->index.value()));
    result.version = checkpoint->version;
  }
  if (!commit.has_value() || result.index == 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        paths.data_dir, ": holds no data, because the member is new; leave this directory out"));
  }
  result.commit = *commit;
  result.member = examined.identity->member;
  result.cluster_id = examined.identity->cluster_id;
  std::vector<consensus::Entry> control_entries;
  if (has_log) control_entries = examined.log->log.control_entries;
  result.membership = NewestMembership(checkpoint, control_entries);
  if (!result.membership.has_value()) {
    auto kept = consensus::ReadMembershipFile(Env::PosixReadOnly(), paths.log_dir);
    if (kept.ok()) result.membership = *std::move(kept);
  }
  for (const consensus::Entry& entry : control_entries) {
    if (entry.kind != consensus::EntryKind::kVersion) continue;
    const auto version = consensus::DecodeVersion(entry.payload.view());
    if (version.ok()) result.version = std::max(result.version, *version);
  }
  const auto hard_state = NewestHardState(examined);
  result.is_normal =
      hard_state.has_value() && hard_state->state.member_state == consensus::MemberState::kNormal;
  return result;
}

// Checks that the directories are those of different members of one cluster.
absl::Status CheckSameCluster(const std::vector<Survivor>& survivors) {
  std::map<MemberId, const Survivor*> by_member;
  const Survivor& first = survivors.front();
  for (const Survivor& survivor : survivors) {
    if (survivor.cluster_id != first.cluster_id) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the directories are of different clusters: ", first.paths.data_dir, " of ",
          HexBytes(first.cluster_id), ", ", survivor.paths.data_dir, " of ",
          HexBytes(survivor.cluster_id), "; give only those of the cluster to recover"));
    }
    const auto [other, is_new] = by_member.emplace(survivor.member, &survivor);
    if (!is_new) {
      return absl::FailedPreconditionError(absl::StrCat(
          other->second->paths.data_dir, " and ", survivor.paths.data_dir, " are both of member ",
          survivor.member.value(), "; give the one with which its server ran last"));
    }
  }
  return absl::OkStatus();
}

bool IsMajority(const std::vector<MemberId>& voters, const std::set<MemberId>& present) {
  const auto count = static_cast<size_t>(std::count_if(
      voters.begin(), voters.end(), [&](MemberId voter) { return present.contains(voter); }));
  return count * 2 > voters.size();
}

// Checks the members against those that the chosen directory knows.
absl::Status CheckMembers(const std::vector<Survivor>& survivors, const Survivor& chosen) {
  if (!chosen.membership.has_value()) {
    return absl::FailedPreconditionError(absl::StrCat(
        chosen.paths.data_dir,
        ": does not say who the members of its cluster are, so nobody can tell whether "
        "a majority is lost; use `quorate restore --from-member` (docs/operations/"
        "lost-majority.md)"));
  }
  const Membership& membership = *chosen.membership;
  std::set<MemberId> normal;
  for (const Survivor& survivor : survivors) {
    if (!membership.Contains(survivor.member)) {
      return absl::FailedPreconditionError(absl::StrCat(
          survivor.paths.data_dir, ": member ", survivor.member.value(),
          " is not among the members that the newest log, in ", chosen.paths.data_dir, ", knows (",
          ToString(membership), "): it was removed. Leave this directory out"));
    }
    if (survivor.is_normal) normal.insert(survivor.member);
  }
  if (!IsMajority(membership.voters, normal)) return absl::OkStatus();
  if (membership.joint() && !IsMajority(membership.outgoing, normal)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "these directories are those of a majority of the voters (", Numbers(membership.voters),
      "): start their servers, which elect a leader and lose nothing. Nothing was changed"));
}

class Recoverer {
 public:
  Recoverer(const std::vector<MemberPaths>& paths, const RecoverOptions& options, std::ostream& out)
      : paths_(paths), options_(options), out_(out) {}

  absl::Status Run() {
    for (const MemberPaths& paths : paths_) {
      if (IsHalfRecovered(paths)) return Complete(paths);
    }
    for (const MemberPaths& paths : paths_) {
      auto survivor = ExamineSurvivor(paths);
      if (!survivor.ok()) return survivor.status();
      survivors_.push_back(*std::move(survivor));
    }
    if (absl::Status s = CheckSameCluster(survivors_); !s.ok()) return s;
    Choose();
    if (survivors_.size() == 1 && chosen_->commit.only_voter) return ReportNothingToDo();
    if (absl::Status s = CheckMembers(survivors_, *chosen_); !s.ok()) return s;
    if (absl::Status s = Plan(); !s.ok()) return s;
    // The lock for changes excludes the one for reading. Whatever happens between the two is seen.
    chosen_->lock.reset();
    auto lock = MemberLock::Take(chosen_->paths, Env::Posix());
    if (!lock.ok()) return lock.status();
    auto loaded = LoadLockedMember(chosen_->paths);
    if (!loaded.ok()) return loaded.status();
    last_zxid_ = static_cast<uint64_t>(loaded->tree->last_zxid().value());
    if (std::pair(loaded->term, last_zxid_) != chosen_->position()) {
      return absl::FailedPreconditionError(
          absl::StrCat(chosen_->paths.data_dir, ": has changed meanwhile; stop its server"));
    }
    loss_ = LossText(*loaded, last_zxid_);
    if (!options_.json) Announce();
    if (!options_.confirm()) return absl::CancelledError("nothing was changed");
    if (absl::Status s = MakeNewFiles(&*loaded); !s.ok()) {
      // The directory is as before, and a part of the new files would fill its disk.
      RemoveNewFiles(chosen_->paths).IgnoreError();
      return s;
    }
    auto aside = PutNewFilesInPlace(options_.env, chosen_->paths, options_.now_ms);
    if (!aside.ok()) return aside.status();
    Report(*aside);
    return absl::OkStatus();
  }

 private:
  // Completes a recovery that was interrupted.
  absl::Status Complete(const MemberPaths& paths) {
    auto lock = MemberLock::Take(paths, Env::Posix());
    if (!lock.ok()) return lock.status();
    auto aside = PutNewFilesInPlace(options_.env, paths, options_.now_ms);
    if (!aside.ok()) return aside.status();
    if (options_.json) {
      Print({{"recovered", true}, {"data_dir", paths.data_dir}, {"old_data", *aside}});
    } else {
      out_ << Escape(paths.data_dir)
           << ": a recovery that was interrupted is complete now. The old data is in "
           << Escape(*aside) << "\n";
    }
    return absl::OkStatus();
  }

  // Chooses the longest log: a member whose log is not shorter than those of a majority has all that
  // was acknowledged (Raft 5.4.1). Of equal logs, which have equal content, it prefers that of a
  // member with a vote.
  void Choose() {
    const auto rank = [](const Survivor& survivor) {
      const bool votes = survivor.membership && survivor.membership->IsVoter(survivor.member);
      return std::tuple(survivor.term, survivor.index, survivor.is_normal, votes);
    };
    // The first of those that are equal.
    chosen_ =
        &*std::max_element(survivors_.begin(), survivors_.end(),
                           [&](const Survivor& a, const Survivor& b) { return rank(a) < rank(b); });
  }

  absl::Status Plan() {
    const uint64_t member = chosen_->member.value();
    std::string address;
    if (const auto given = options_.addresses.find(member); given != options_.addresses.end()) {
      address = given->second;
    } else if (const auto known = chosen_->membership->addresses.find(chosen_->member);
               known != chosen_->membership->addresses.end()) {
      address = known->second;
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat(chosen_->paths.data_dir,
                       ": has the newest log, but it does not hold the address of member ", member,
                       ". Give it as its server.", member, " line has it: --address ", member,
                       "=HOST:PORT:PORT"));
    }
    auto line = rpc::ParseServerLine(address);
    if (!line.ok()) return line.status();
    line->observer = false;
    auto membership = rpc::MembershipOf({{static_cast<uint32_t>(member), *line}});
    if (!membership.ok()) return membership.status();
    membership_ = *std::move(membership);
    new_member_.data_dir = NewFilesOf(chosen_->paths).data_dir;
    new_member_.log_dir = NewFilesOf(chosen_->paths).log_dir;
    new_member_.member = member;
    new_member_.voters = {member};
    new_member_.addresses[member] = membership_.addresses.begin()->second;
    new_member_.version = std::max(chosen_->version, consensus::kVersionAddresses);
    return absl::OkStatus();
  }

  std::string Others() const {
    std::vector<MemberId> lost;
    for (MemberId member : chosen_->membership->Members()) {
      if (member != chosen_->member) lost.push_back(member);
    }
    return Numbers(lost);
  }

  void Announce() {
    std::vector<std::vector<std::string>> rows = {
        {"member", "last term", "last entry", "committed", "newest entry", "directory", ""}};
    for (const Survivor& survivor : survivors_) {
      std::string note = "chosen";
      if (&survivor != chosen_) {
        note = survivor.position() == chosen_->position() ? "has the same entries" : "has fewer";
      }
      if (!survivor.is_normal) absl::StrAppend(&note, "; had lost its disk, and was being filled");
      rows.push_back({absl::StrCat(survivor.member.value()), absl::StrCat(survivor.term),
                      absl::StrCat(survivor.index), absl::StrCat(survivor.commit.known.value()),
                      survivor.time_ms ? TimeText(*survivor.time_ms) : "not in the log",
                      survivor.paths.data_dir, note});
    }
    out_ << "Cluster " << HexBytes(chosen_->cluster_id) << ", " << ToString(*chosen_->membership)
         << ":\n"
         << Table(rows) << "\nThis makes a NEW cluster of member " << chosen_->member.value()
         << " alone, with all data and sessions in " << Escape(chosen_->paths.data_dir) << ".\n"
         << "Members " << Others() << " of the old cluster can never come back into it.\n\n"
         << loss_ << "\n\n"
         << "CHECK FIRST that no majority can be brought back: servers of the old cluster that run "
            "somewhere\nstill serve clients, with other data from now on.\n";
  }

  absl::Status MakeNewFiles(LoadedMember* loaded) {
    const MemberPaths& paths = chosen_->paths;
    if (absl::Status s = RemoveNewFiles(paths); !s.ok()) return s;
    RestoreOptions restore;
    restore.zxid_bump = options_.zxid_bump;
    tree::Tree& tree = *loaded->tree;
    if (absl::Status s = PrepareRestoredTree(restore, &tree); !s.ok()) return s;
    const tree::Zxid zxid = tree.last_zxid() + 1;
    NoListener listener;
    tree.SetConfig(
        zxid,
        rpc::FormatMembers(rpc::MembersOf(membership_, {}), absl::StrCat(absl::Hex(zxid.value()))),
        &listener);
    tree::BackupTotals totals;
    totals.records = loaded->records;
    totals.checksum = loaded->checksum;
    new_member_.cluster_id =
        RestoredClusterId(totals, restore, tree, new_member_.voters, {}, options_.new_name);
    new_zxid_ = static_cast<uint64_t>(zxid.value());
    return WriteMember(new_member_, tree, loaded->term + 1, loaded->records);
  }

  void Report(const std::string& aside) {
    if (options_.json) {
      ordered_json document = {{"recovered", true},
                               {"data_dir", chosen_->paths.data_dir},
                               {"member", chosen_->member.value()},
                               {"old_cluster_id", HexBytes(chosen_->cluster_id)},
                               {"cluster_id", HexBytes(new_member_.cluster_id)},
                               {"last_zxid", HexNumber(last_zxid_)},
                               {"zxid", HexNumber(new_zxid_)},
                               {"old_data", aside},
                               {"directories", ordered_json::array()}};
      for (const Survivor& survivor : survivors_) {
        document["directories"].push_back(
            {{"data_dir", survivor.paths.data_dir},
             {"member", survivor.member.value()},
             {"last_term", survivor.term},
             {"last_index", survivor.index},
             {"committed_index", survivor.commit.known.value()},
             {"time_ms", survivor.time_ms ? ordered_json(*survivor.time_ms) : ordered_json()},
             {"chosen", &survivor == chosen_}});
      }
      Print(document);
      return;
    }
    const uint64_t member = chosen_->member.value();
    out_ << Escape(chosen_->paths.data_dir) << ": member " << member << " of new cluster "
         << HexBytes(new_member_.cluster_id) << ", the only voter, at "
         << new_member_.addresses.at(member) << ", zxid " << HexNumber(new_zxid_)
         << "\nThe old data is in " << Escape(aside) << "; remove it when all is well.\n\n"
         << "Start the server of member " << member
         << ", with the zoo.cfg that it has. It serves at once. Then add the others, one by one:\n"
         << "on each machine put the old data aside (quorate rebuild DIR), start the server, and "
            "admit it:\n"
         << "    quorate --server HOST:GRPCPORT member add N HOST:PORT:PORT\n";
  }

  absl::Status ReportNothingToDo() {
    const Survivor& only = *chosen_;
    if (options_.json) {
      Print({{"recovered", false},
             {"data_dir", only.paths.data_dir},
             {"member", only.member.value()},
             {"cluster_id", HexBytes(only.cluster_id)}});
    } else {
      out_ << Escape(only.paths.data_dir) << ": member " << only.member.value()
           << " is the only voter of cluster " << HexBytes(only.cluster_id)
           << ": there is nothing to recover. Start its server\n";
    }
    return absl::OkStatus();
  }

  void Print(const ordered_json& document) {
    out_ << document.dump(2, ' ', /*ensure_ascii=*/true, ordered_json::error_handler_t::replace)
         << "\n";
  }

  const std::vector<MemberPaths>& paths_;
  const RecoverOptions& options_;
  std::ostream& out_;
  std::vector<Survivor> survivors_;
  Survivor* chosen_ = nullptr;
  Membership membership_;  // the new one
  NewMember new_member_;
  std::string loss_;
  uint64_t last_zxid_ = 0;  // in the old data
  uint64_t new_zxid_ = 0;
};

}  // namespace

absl::Status Recover(const std::vector<MemberPaths>& survivors, const RecoverOptions& options,
                     std::ostream& out) {
  if (survivors.empty()) return absl::InvalidArgumentError("name the surviving data directories");
  return Recoverer(survivors, options, out).Run();
}

}  // namespace quorate::tools
