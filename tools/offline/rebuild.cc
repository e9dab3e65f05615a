// SPDX-License-Identifier: Apache-2.0

#include "tools/offline/rebuild.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/strings.h"
#include "consensus/core/membership.h"
#include "consensus/log/file_names.h"
#include "rpc/member/checkpoints/checkpoint_metadata.h"
#include "rpc/member/checkpoints/divergence_marker.h"
#include "rpc/member/disk/incarnation.h"
#include "tools/offline/printing.h"
#include "tree/store/rocks_record_store.h"

namespace quorate::tools {
namespace {

namespace fs = std::filesystem;
using consensus::Env;
using consensus::MemberId;

// The identity files are moved first, then the checkpoints, then the rest. A server refuses a log
// directory that holds any of the rest without an identity, so it never takes an old checkpoint for
// that of a new member.
constexpr std::string_view kIdentities[] = {consensus::kIdentityName,
                                            consensus::kIdentityTemporaryName};
constexpr std::string_view kRestOfLogDir[] = {
    consensus::kMembershipName, consensus::kMembershipTemporaryName,
    consensus::kHardStateName,  consensus::kLogName,
    rpc::kIncarnationName,      rpc::kIncarnationTemporaryName,
    rpc::kDivergenceMarkerName};

struct Move {
  std::string from;
  std::string to;
};

absl::Status MoveError(const Move& move, const std::error_code& error) {
  return absl::InternalError(
      absl::StrCat(move.from, ": cannot be moved to ", move.to, ": ", error.message()));
}

std::string AsideName(const std::string& directory, int64_t now_ms) {
  const auto seconds = static_cast<std::time_t>(now_ms / 1000);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  const std::string name =
      absl::StrFormat("%s/%s%04d%02d%02d-%02d%02d%02d", directory, ToAbsl(consensus::kAsidePrefix),
                      parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday, parts.tm_hour,
                      parts.tm_min, parts.tm_sec);
  std::string unused = name;
  for (int i = 2; fs::exists(unused); ++i) unused = absl::StrCat(name, "-", i);
  return unused;
}

class Rebuilder {
 public:
  Rebuilder(const MemberPaths& paths, const RebuildOptions& options, std::ostream& out)
      : paths_(paths), options_(options), out_(out) {}

  absl::Status Run() {
    auto lock = MemberLock::Take(paths_, &env_);
    if (!lock.ok()) return lock.status();
    if (env_.Exists(paths_.In(consensus::kIncompleteName))) {
      return absl::FailedPreconditionError(
          absl::StrCat(paths_.log_dir,
                       ": is incomplete: `quorate restore`, `import` or `recover` was interrupted. "
                       "Run the same command again"));
    }
    Plan();
    if (moves_.empty()) {
      return absl::NotFoundError(
          absl::StrCat(paths_.data_dir,
                       ": holds nothing of a member; if dataLogDir is configured, give it with "
                       "--log-dir"));
    }
    if (absl::Status s = CheckNotAlone(); !s.ok()) return s;
    if (!options_.json) Announce();
    if (!options_.confirm()) return absl::CancelledError("nothing was changed");
    if (absl::Status s = MoveAll(); !s.ok()) return s;
    if (options_.remove) {
      if (absl::Status s = RemoveAsides(); !s.ok()) return s;
    }
    Report();
    return absl::OkStatus();
  }

 private:
  void PlanMoves(const std::string& directory, const std::string& aside, std::string_view name) {
    const std::string from = absl::StrCat(directory, "/", ToAbsl(name));
    if (env_.Exists(from)) moves_.push_back({from, absl::StrCat(aside, "/", ToAbsl(name))});
  }

  void Plan() {
    const std::string log_aside = AsideName(paths_.log_dir, options_.now_ms);
    const bool apart = paths_.log_dir != paths_.data_dir;
    const std::string data_aside = apart ? AsideName(paths_.data_dir, options_.now_ms) : log_aside;
    for (std::string_view name : kIdentities) PlanMoves(paths_.log_dir, log_aside, name);
    PlanMoves(paths_.data_dir, data_aside, rpc::kCheckpointDirectoryName);
    for (std::string_view name : kRestOfLogDir) PlanMoves(paths_.log_dir, log_aside, name);
    // What an interrupted `quorate recover` left, before it changed anything.
    PlanMoves(paths_.log_dir, log_aside, consensus::kRecoveringName);
    if (apart) PlanMoves(paths_.data_dir, data_aside, consensus::kRecoveringName);
    for (const std::string& aside :
         apart ? std::vector{log_aside, data_aside} : std::vector{log_aside}) {
      const auto into = [&](const Move& move) { return fs::path(move.to).parent_path() == aside; };
      if (std::any_of(moves_.begin(), moves_.end(), into)) asides_.push_back(aside);
    }
  }

  // Returns the newest readable membership, if there is one.
  std::optional<consensus::Membership> FindMembership() {
    std::optional<consensus::SnapshotMeta> checkpoint;
    auto view = tree::RocksRecordStore::Look(rpc::CheckpointDirectory(paths_.data_dir), {});
    if (view.ok()) {
      auto meta = rpc::DecodeCheckpointMetadata((*view)->metadata());
      if (meta.ok()) checkpoint = *std::move(meta);
    }
    std::vector<consensus::Entry> control_entries;
    const std::string log_path = paths_.In(consensus::kLogName);
    if (env_.Exists(log_path)) {
      control_entries = consensus::ExamineLog(Env::PosixReadOnly(), log_path, consensus::Index{0})
                            .log.control_entries;
    }
    return NewestMembership(checkpoint, control_entries);
  }

  // Returns the member that owns the data, if its identity can be read. An interrupted rebuild has
  // already moved the identity aside.
  std::optional<MemberId> FindMember() {
    std::vector<std::string> asides;
    if (!env_.Exists(paths_.In(std::string(consensus::kIdentityName)))) {
      if (auto names = env_.List(paths_.log_dir); names.ok()) asides = *std::move(names);
    }
    std::erase_if(
        asides, [](const std::string& name) { return !name.starts_with(consensus::kAsidePrefix); });
    std::vector<std::string> places{paths_.log_dir};
    // Searches the newest directory first.
    for (auto name = asides.rbegin(); name != asides.rend(); ++name)
      places.push_back(paths_.In(*name));
    for (const std::string& place : places) {
      const auto identity = ReadIdentityFile(&env_, place);
      if (identity.ok()) return identity->member;
    }
    return std::nullopt;
  }

  absl::Status CheckNotAlone() {
    membership_ = FindMembership();
    if (!membership_.has_value() || membership_->voters.size() > 1 || membership_->joint()) {
      return absl::OkStatus();
    }
    const std::optional<MemberId> own = FindMember();
    if (own.has_value() && *own != membership_->voters.front()) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat(paths_.data_dir,
                     ": this is the only voter of its cluster: no other member has the data, and "
                     "this one would start with an empty tree. Restore it from a backup"));
  }

  void Announce() {
    out_ << "This moves the data of this member aside, where no server reads it:\n";
    for (const Move& move : moves_) {
      out_ << "    " << Escape(move.from) << "\n        to " << Escape(move.to) << "\n";
    }
    if (options_.remove) out_ << "and then deletes it (--delete).\n";
    out_
        << "myid and the configuration stay. When the server is started, it has no data and "
           "receives "
           "all data\nfrom the other members. It counts in a majority again once every other voter "
           "has answered it and\nit has caught up.\n\n"
           "CHECK FIRST that a majority of the voters runs without this one, and has a leader "
           "(srvr says\n\"Mode: leader\" at one of them): what only this member has is lost to "
           "the cluster.";
    if (membership_.has_value()) {
      out_ << " As far as can\nbe seen from here the voters are";
      for (MemberId voter : membership_->voters) out_ << " " << voter.value();
      out_ << ".";
    } else {
      out_ << "\nThe voters cannot be seen from here: if this is the only server, answer no.";
    }
    out_ << " Rebuild one member at a time.\n";
  }

  absl::Status MoveAll() {
    for (const std::string& aside : asides_) {
      if (absl::Status s = env_.CreateDirectories(aside); !s.ok()) return s;
    }
    for (const Move& move : moves_) {
      std::error_code error;
      fs::rename(move.from, move.to, error);
      if (error) return MoveError(move, error);
      // Syncs the directories, so that the order of the moves also holds on the disk.
      for (const std::string& path : {move.to, move.from}) {
        if (absl::Status s = env_.SyncDirectory(fs::path(path).parent_path()); !s.ok()) return s;
      }
    }
    return absl::OkStatus();
  }

  absl::Status RemoveAsides() {
    for (const std::string& aside : asides_) {
      std::error_code error;
      fs::remove_all(aside, error);
      if (error) {
        return absl::InternalError(absl::StrCat(
            aside, ": the member can be started, but this directory cannot be deleted: ",
            error.message()));
      }
    }
    return absl::OkStatus();
  }

  void Report() {
    if (options_.json) {
      nlohmann::ordered_json document = {{"moved", nlohmann::ordered_json::array()},
                                         {"deleted", options_.remove}};
      for (const Move& move : moves_) {
        document["moved"].push_back({{"from", move.from}, {"to", move.to}});
      }
      out_ << document.dump(2, ' ', /*ensure_ascii=*/true,
                            nlohmann::ordered_json::error_handler_t::replace)
           << "\n";
      return;
    }
    out_ << (options_.remove ? "deleted" : "put aside") << ". Start the server now";
    if (!options_.remove) {
      out_ << "; once it has caught up, remove";
      for (const std::string& aside : asides_) out_ << " " << Escape(aside);
    }
    out_ << "\n";
  }

  Env& env_ = *Env::Posix();
  const MemberPaths& paths_;
  const RebuildOptions& options_;
  std::ostream& out_;
  std::vector<Move> moves_;
  std::vector<std::string> asides_;
  std::optional<consensus::Membership> membership_;
};

}  // namespace

absl::Status Rebuild(const MemberPaths& paths, const RebuildOptions& options, std::ostream& out) {
  return Rebuilder(paths, options, out).Run();
}

}  // namespace quorate::tools
