// SPDX-License-Identifier: Apache-2.0

#include "consensus/log/data_dir.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/assert.h"
#include "base/seeded_bug.h"
#include "base/strings.h"
#include "consensus/core/membership.h"
#include "consensus/log/file_names.h"
#include "consensus/log/hard_state_file.h"
#include "consensus/log/identity.h"
#include "consensus/log/membership_file.h"
#include "consensus/log/segment.h"

namespace quorate::consensus {
namespace {

bool Has(const std::vector<std::string>& names, std::string_view name) {
  return std::binary_search(names.begin(), names.end(), name, std::less<>());
}

// Returns the members as text: "voters 1, 2, 3" or "voters 1 and observers 4".
std::string MembersText(const Membership& membership) {
  const auto list = [](const std::vector<MemberId>& members) {
    return absl::StrJoin(members, ", ", [](std::string* out, MemberId member) {
      absl::StrAppend(out, member.value());
    });
  };
  std::string out = absl::StrCat("voters ", list(membership.voters));
  if (!membership.learners.empty()) {
    absl::StrAppend(&out, " and observers ", list(membership.learners));
  }
  return out;
}

// Returns whether `configured` names the members of `known`. If `known` is joint, `configured` may
// name its new members or its old voters.
bool Fits(const Membership& configured, const Membership& known) {
  Membership after = known;
  after.outgoing.clear();
  if (configured.HasSameMembers(after)) return true;
  return known.joint() && configured.voters == known.outgoing;
}

bool HasAside(const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(),
                     [](const std::string& name) { return name.starts_with(kAsidePrefix); });
}

}  // namespace

class DataDir::Impl {
 public:
  Impl(Env* env, std::string path, MemberId member, uint64_t directory_epoch_if_new)
      : env_(*env), path_(std::move(path)), identity_{member, {}, directory_epoch_if_new} {
    ASSERT(member != kNoMember);
    ASSERT(directory_epoch_if_new > 0);
  }

  absl::Status Open(SegmentLogOptions options) {
    if (absl::Status s = env_.CreateDirectories(path_); !s.ok()) return s;
    absl::StatusOr<std::vector<std::string>> names = env_.List(path_);
    if (!names.ok()) return names.status();
    // This check comes before the lock: LockDirectory creates a file, also in a directory that does
    // not belong to a member.
    if (absl::Status s = CheckOurs(*names); !s.ok()) return s;
    absl::StatusOr<std::unique_ptr<DirectoryLock>> lock = env_.LockDirectory(path_);
    if (!lock.ok()) return lock.status();
    lock_ = *std::move(lock);
    names = env_.List(path_);
    if (!names.ok()) return names.status();
    return Has(*names, kIdentityName) ? OpenFormatted(options) : Format(*names, options);
  }

  absl::Status SetClusterId(const std::string& cluster_id) {
    if (cluster_id.size() != kClusterIdBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("a cluster id has ", kClusterIdBytes, " bytes, not ", cluster_id.size()));
    }
    if (identity_.cluster_id == cluster_id) return absl::OkStatus();
    if (!identity_.cluster_id.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat(path_, ": belongs to cluster ", absl::BytesToHexString(identity_.cluster_id),
                       ", not to cluster ", absl::BytesToHexString(cluster_id),
                       ": give this server the addresses of its own cluster, or an empty directory "
                       "to join the other one"));
    }
    return WriteIdentity({identity_.member, cluster_id, identity_.directory_epoch});
  }

  absl::Status WriteHardState(const HardState& state, Index durable_index) {
    const HardState& old = hard_state_->content().state;
    ASSERT(state.term >= old.term, "a term is never forgotten");
    ASSERT(state.term > old.term || old.vote == kNoMember || state.vote == old.vote,
           "one vote in a term");
    ASSERT(state.member_state >= old.member_state, "a member state is not lost");
    ASSERT(durable_index <= log_->last_index());
    return hard_state_->Write({state, durable_index});
  }

  const std::string& path() const { return path_; }
  const std::string& cluster_id() const { return identity_.cluster_id; }
  uint64_t directory_epoch() const { return identity_.directory_epoch; }
  absl::Status SetDirectoryEpoch(uint64_t directory_epoch) {
    ASSERT(directory_epoch > identity_.directory_epoch);
    return WriteIdentity({identity_.member, identity_.cluster_id, directory_epoch});
  }

  absl::StatusOr<Membership> SettleMembership(const Membership& configured,
                                              const std::optional<SnapshotMeta>& checkpoint,
                                              bool runs_alone) {
    ASSERT(!configured.joint());
    if (SeededBug("voters are taken from the file")) return configured;
    const std::vector<Membership> logged = LoggedMemberships(checkpoint);
    if (!logged.empty()) {
      // Once the log has addresses, it alone says who the members are: the configuration names those
      // of an earlier time.
      const bool has_addresses =
          std::ranges::any_of(logged,
                              [](const Membership& known) { return !known.addresses.empty(); }) &&
          !runs_alone;
      // `configured` may match any of them: each may turn out to be the one in force.
      const bool fits =
          has_addresses || std::any_of(logged.begin(), logged.end(), [&](const Membership& known) {
            return Fits(configured, known);
          });
      // Raft starts from the membership in the file if there is no checkpoint, because all later
      // ones are in the log, where they may be truncated.
      absl::StatusOr<Membership> first = ReadMembershipFile(&env_, path_);
      if (!fits && logged.front().Contains(identity_.member)) {
        return OtherMembers(configured, logged.front());
      }
      if (checkpoint.has_value() || absl::IsNotFound(first.status())) return configured;
      return first;
    }
    absl::StatusOr<Membership> kept = ReadMembershipFile(&env_, path_);
    if (!kept.ok() && !absl::IsNotFound(kept.status())) return kept.status();
    const bool is_new = hard_state().member_state != MemberState::kNormal;
    if (kept.ok() && !is_new && !configured.HasSameMembers(*kept)) {
      return OtherMembers(configured, *kept);
    }
    if (kept.ok() && configured.HasSameMembers(*kept)) return configured;
    const MemberId vote = hard_state().vote;
    if (vote != kNoMember && !configured.IsVoter(vote)) {
      return absl::FailedPreconditionError(absl::StrCat(
          path_, ": this member has voted for server ", vote.value(),
          ", which is none of the voters that the configuration names (", MembersText(configured),
          "): restore the server lines that the cluster was bootstrapped with"));
    }
    const absl::Status written = WriteMembershipFile(&env_, path_, configured);
    // A directory that was in use before must open on a full disk, too; a later start then writes
    // the file.
    if (!written.ok() && (is_new || !absl::IsResourceExhausted(written))) return written;
    return configured;
  }
  const HardState& hard_state() const { return hard_state_->content().state; }
  SegmentLog& log() { return *log_; }

  absl::Status AlignLog(Index checkpoint_index, Term checkpoint_term) {
    const Index base_index = log_->base_index();
    const std::optional<Term> term = log_->TermAt(checkpoint_index);
    if (checkpoint_index < base_index ||
        (checkpoint_index == base_index && term != checkpoint_term)) {
      return absl::DataLossError(absl::StrCat(
          PathOf(kLogName), ": begins behind entry ", base_index.value(), " of term ",
          log_->base_term().value(), ", but the newest checkpoint of the state machine ",
          checkpoint_index == Index{0} ? "is missing"
                                       : absl::StrCat("ends with entry ", checkpoint_index.value(),
                                                      " of term ", checkpoint_term.value()),
          ": entries are lost", ToAbsl(kRejoinAdvice)));
    }
    HardStateFile::Content content = hard_state_->content();
    if (term != checkpoint_term) {
      content.durable_index = std::min(content.durable_index, checkpoint_index);
    }
    if (checkpoint_term > content.state.term) {
      content.state.term = checkpoint_term;
      content.state.vote = kNoMember;
    }
    if (content != hard_state_->content()) {
      if (absl::Status s = hard_state_->Write(content); !s.ok()) return s;
    }
    if (term == checkpoint_term) return absl::OkStatus();
    if (absl::Status s = log_->Reset(checkpoint_index, checkpoint_term); !s.ok()) return s;
    return log_->Sync();
  }

  InitialState initial_state(std::optional<SnapshotMeta> checkpoint) const {
    InitialState initial;
    initial.hard_state = hard_state();
    initial.base_index = log_->base_index();
    initial.base_term = log_->base_term();
    initial.last_index = log_->last_index();
    initial.term_runs = log_->term_runs();
    initial.size_runs = log_->size_runs();
    initial.control_entries = log_->control_entries();
    if (checkpoint.has_value()) {
      ASSERT(log_->TermAt(checkpoint->index) == checkpoint->term);
      ASSERT(checkpoint->term <= initial.hard_state.term);
      initial.applied = checkpoint->index;
    }
    ASSERT(initial.base_index <= initial.applied);
    // The hint may be written before the entries that it covers are durable here, and may be older
    // than the checkpoint.
    initial.hard_state.commit =
        std::clamp(initial.hard_state.commit, initial.applied, initial.last_index);
    initial.checkpoint = std::move(checkpoint);
    return initial;
  }

 private:
  std::string PathOf(std::string_view name) const { return absl::StrCat(path_, "/", ToAbsl(name)); }

  // Returns the memberships that may be in force, newest first: those in the log, down to the
  // newest that is known to be committed. The last one may be that of the checkpoint or, without a
  // checkpoint, that of the file `membership`. Empty if neither the log nor the checkpoint holds
  // one.
  std::vector<Membership> LoggedMemberships(const std::optional<SnapshotMeta>& checkpoint) const {
    const Index base = checkpoint.has_value() ? checkpoint->index : Index{0};
    const Index committed = std::max(base, hard_state().commit);
    std::vector<Membership> memberships;
    const std::vector<Entry> entries = log_->control_entries();
    for (auto entry = entries.rbegin(); entry != entries.rend() && entry->index > base; ++entry) {
      if (entry->kind != EntryKind::kMembership) continue;
      absl::StatusOr<Membership> membership = DecodeMembership(entry->payload.view());
      ASSERT(membership.ok(), "the log checks control entries when it is opened");
      memberships.push_back(*std::move(membership));
      if (entry->index <= committed) return memberships;
    }
    if (checkpoint.has_value()) {
      memberships.push_back(checkpoint->membership);
    } else if (!memberships.empty()) {
      absl::StatusOr<Membership> kept = ReadMembershipFile(&env_, path_);
      if (kept.ok()) memberships.push_back(*std::move(kept));
    }
    return memberships;
  }

  absl::Status OtherMembers(const Membership& configured, const Membership& known) const {
    return absl::FailedPreconditionError(absl::StrCat(
        path_, ": the members of this cluster are ", MembersText(known),
        ", but the server lines of the configuration name ", MembersText(configured),
        ". Restore those lines (addresses may change). If this cluster never had those members, "
        "because "
        "this server was upgraded with wrong server lines, correct the lines and run `quorate "
        "rebuild` on this directory. To make a cluster of other members of this "
        "data, stop the whole cluster, move this directory aside, and run `quorate restore "
        "--from-member` with it for each member of the new one. If this server is to belong to "
        "another cluster, give it an empty directory"));
  }

  absl::Status CheckOurs(const std::vector<std::string>& names) const {
    if (Has(names, kIncompleteName)) {
      return absl::FailedPreconditionError(
          absl::StrCat(path_, ": is incomplete (it holds the file ", ToAbsl(kIncompleteName),
                       "): `quorate restore`, `import` or `recover` was interrupted. Run the same "
                       "command again"));
    }
    if (Has(names, kIdentityName)) return absl::OkStatus();
    if (Has(names, kZooKeeperDataName)) {
      return absl::FailedPreconditionError(absl::StrCat(
          path_, ": is a ZooKeeper data directory (it holds ", ToAbsl(kZooKeeperDataName),
          "); it is not touched. Give this server an empty directory, and import ZooKeeper's data "
          "into the running cluster"));
    }
    for (const std::string& name : names) {
      // Format makes the hard state before the log, so it never leaves a log alone.
      if (name == kLockName || name == kIdentityTemporaryName || name == kMembershipName ||
          name == kMembershipTemporaryName || name == kHardStateName ||
          (name == kLogName && Has(names, kHardStateName)) || MayStandInNewDirectory(name)) {
        continue;
      }
      return absl::FailedPreconditionError(absl::StrCat(
          path_, ": is neither empty nor a Quorate directory (it holds ", name, " and no ",
          ToAbsl(kIdentityName), "); it is not touched. Give this server an empty directory",
          HasAside(names) ? ", or run `quorate rebuild` again if it was interrupted" : ""));
    }
    return absl::OkStatus();
  }

  // Formats the directory, or completes a formatting that was interrupted. The identity is written
  // last, so a directory with an identity must have all other files, too.
  absl::Status Format(const std::vector<std::string>& names, SegmentLogOptions options) {
    if (absl::Status s = CheckOurs(names); !s.ok()) return s;
    if (absl::Status s = FormatHardState(names); !s.ok()) return s;
    absl::StatusOr<std::unique_ptr<SegmentLog>> log =
        SegmentLog::Open(&env_, PathOf(kLogName), options, Index{0});
    if (!log.ok()) return log.status();
    log_ = *std::move(log);
    if (hard_state_->content() != HardStateFile::New() || log_->last_index() != Index{0}) {
      return absl::DataLossError(absl::StrCat(
          PathOf(kIdentityName), ": is missing, though the directory was in use (term ",
          hard_state().term.value(), ", last entry ", log_->last_index().value(), ")",
          ToAbsl(kRejoinAdvice)));
    }
    return WriteIdentity(identity_);
  }

  absl::Status FormatHardState(const std::vector<std::string>& names) {
    absl::StatusOr<std::unique_ptr<HardStateFile>> file = absl::NotFoundError("");
    if (Has(names, kHardStateName)) {
      file = HardStateFile::Open(&env_, PathOf(kHardStateName));
      // A damaged file without a log is left from a formatting that was interrupted.
      if (!file.ok() && (!absl::IsDataLoss(file.status()) || Has(names, kLogName))) {
        return file.status();
      }
    }
    if (!file.ok()) file = HardStateFile::Create(&env_, PathOf(kHardStateName));
    if (!file.ok()) return file.status();
    hard_state_ = *std::move(file);
    return env_.SyncDirectory(path_);
  }

  absl::Status OpenFormatted(SegmentLogOptions options) {
    if (absl::Status s = CheckIdentity(); !s.ok()) return s;
    // The process that renamed the identity file may have died before it synced the directory.
    if (absl::Status s = env_.SyncDirectory(path_); !s.ok()) return s;
    absl::StatusOr<std::unique_ptr<HardStateFile>> file =
        HardStateFile::Open(&env_, PathOf(kHardStateName));
    if (absl::IsNotFound(file.status())) return Missing(kHardStateName, "term and vote are lost");
    if (!file.ok()) return file.status();
    hard_state_ = *std::move(file);
    const absl::StatusOr<bool> has_segment = HasSegment();
    if (!has_segment.ok()) return has_segment.status();
    if (!*has_segment) return Missing(kLogName, "the log is lost");
    absl::StatusOr<std::unique_ptr<SegmentLog>> log =
        SegmentLog::Open(&env_, PathOf(kLogName), options, hard_state_->content().durable_index);
    if (!log.ok()) return log.status();
    log_ = *std::move(log);
    const std::vector<TermRun> runs = log_->term_runs();
    if (!runs.empty() && runs.back().term > hard_state().term) {
      return absl::DataLossError(absl::StrCat(
          PathOf(kHardStateName), ": knows terms up to ", hard_state().term.value(),
          " only, but the log has entries of term ", runs.back().term.value(),
          ": an old copy was put back, and the votes given since are lost", ToAbsl(kRejoinAdvice)));
    }
    return absl::OkStatus();
  }

  absl::Status Missing(std::string_view name, std::string_view consequence) const {
    return absl::DataLossError(
        absl::StrCat(PathOf(name), ": is missing: ", ToAbsl(consequence), ToAbsl(kRejoinAdvice)));
  }

  // Returns whether the log has a segment; false if the log's directory does not exist. An error
  // means that the directory cannot be read, not that the log is damaged.
  absl::StatusOr<bool> HasSegment() {
    absl::StatusOr<std::vector<std::string>> names = env_.List(PathOf(kLogName));
    if (absl::IsNotFound(names.status())) return false;
    if (!names.ok()) return names.status();
    return std::any_of(names->begin(), names->end(), [](const std::string& name) {
      return ParseSegmentFileName(name).has_value();
    });
  }

  absl::Status CheckIdentity() {
    absl::StatusOr<Identity> identity = ReadIdentityFile(&env_, path_);
    if (!identity.ok()) return identity.status();
    if (identity->member != identity_.member) {
      return absl::FailedPreconditionError(absl::StrCat(
          path_, ": belongs to member ", identity->member.value(), ", but this server is member ",
          identity_.member.value(),
          ": correct its number (in the file myid), or give it a directory of its own"));
    }
    identity_ = *std::move(identity);
    return absl::OkStatus();
  }

  absl::Status WriteIdentity(const Identity& identity) {
    if (absl::Status s = WriteIdentityFile(&env_, path_, identity); !s.ok()) return s;
    identity_ = identity;
    return absl::OkStatus();
  }

  Env& env_;
  const std::string path_;
  Identity identity_;
  std::unique_ptr<DirectoryLock> lock_;  // released last
  std::unique_ptr<HardStateFile> hard_state_;
  std::unique_ptr<SegmentLog> log_;
};

DataDir::DataDir(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DataDir::~DataDir() = default;

absl::StatusOr<std::unique_ptr<DataDir>> DataDir::Open(Env* env, std::string path, MemberId member,
                                                       SegmentLogOptions options,
                                                       uint64_t directory_epoch_if_new) {
  auto impl = std::make_unique<Impl>(env, std::move(path), member, directory_epoch_if_new);
  if (absl::Status s = impl->Open(options); !s.ok()) return s;
  return std::unique_ptr<DataDir>(new DataDir(std::move(impl)));
}

const std::string& DataDir::path() const { return impl_->path(); }
const std::string& DataDir::cluster_id() const { return impl_->cluster_id(); }
absl::Status DataDir::SetClusterId(const std::string& cluster_id) {
  return impl_->SetClusterId(cluster_id);
}
uint64_t DataDir::directory_epoch() const { return impl_->directory_epoch(); }
absl::Status DataDir::SetDirectoryEpoch(uint64_t directory_epoch) {
  return impl_->SetDirectoryEpoch(directory_epoch);
}
absl::StatusOr<Membership> DataDir::SettleMembership(const Membership& configured,
                                                     const std::optional<SnapshotMeta>& checkpoint,
                                                     bool runs_alone) {
  return impl_->SettleMembership(configured, checkpoint, runs_alone);
}
const HardState& DataDir::hard_state() const { return impl_->hard_state(); }
absl::Status DataDir::WriteHardState(const HardState& state, Index durable_index) {
  return impl_->WriteHardState(state, durable_index);
}
SegmentLog& DataDir::log() { return impl_->log(); }
absl::Status DataDir::AlignLog(Index checkpoint_index, Term checkpoint_term) {
  return impl_->AlignLog(checkpoint_index, checkpoint_term);
}
InitialState DataDir::initial_state(std::optional<SnapshotMeta> checkpoint) const {
  return impl_->initial_state(std::move(checkpoint));
}

}  // namespace quorate::consensus
