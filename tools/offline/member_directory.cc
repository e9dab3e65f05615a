// SPDX-License-Identifier: Apache-2.0

#include "tools/offline/member_directory.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/strings.h"
#include "consensus/core/membership.h"
#include "consensus/log/file_names.h"
#include "rpc/member/checkpoints/checkpoint_metadata.h"
#include "rpc/member/disk/incarnation.h"
#include "tools/offline/file_owner.h"
#include "tree/record.h"

namespace quorate::tools {
namespace {

using consensus::MemberId;
using consensus::NewDataDir;

constexpr std::string_view kMyIdName = "myid";

// The files that MemberDirectoryWriter creates besides those of NewDataDir.
constexpr std::string_view kMadeInLogDir[] = {rpc::kIncarnationName,
                                              rpc::kIncarnationTemporaryName};
constexpr std::string_view kMadeInDataDir[] = {rpc::kCheckpointDirectoryName};
constexpr std::string_view kMadeInOneDir[] = {rpc::kIncarnationName, rpc::kIncarnationTemporaryName,
                                              rpc::kCheckpointDirectoryName};

// The files that the server of a new member has to be able to change or to read.
constexpr std::string_view kOwnedInLogDir[] = {consensus::kLockName, consensus::kIdentityName,
                                               consensus::kHardStateName, consensus::kLogName,
                                               rpc::kIncarnationName};
constexpr std::string_view kOwnedInDataDir[] = {rpc::kCheckpointDirectoryName, kMyIdName};

// Returns the canonical path, so that different spellings of a directory are equal.
std::filesystem::path DirectoryOf(const std::string& path) {
  std::error_code error;
  const std::filesystem::path canonical = std::filesystem::weakly_canonical(path, error);
  const std::filesystem::path plain = error ? std::filesystem::path(path) : canonical;
  return plain.has_filename() ? plain : plain.parent_path();
}

absl::StatusOr<std::vector<MemberId>> MemberIds(std::vector<uint64_t> numbers) {
  std::sort(numbers.begin(), numbers.end());
  std::vector<MemberId> ids;
  for (uint64_t number : numbers) {
    if (number == 0 || number > consensus::kMemberIdMax) {
      return absl::InvalidArgumentError(absl::StrCat("a member has a number from 1 to ",
                                                     consensus::kMemberIdMax, ", not ", number));
    }
    ids.push_back(MemberId(static_cast<uint32_t>(number)));
  }
  return ids;
}

absl::StatusOr<consensus::SnapshotMeta> MetaOf(const NewMember& member, tree::Zxid zxid,
                                               uint64_t term) {
  if (zxid <= tree::Zxid{0}) return absl::InvalidArgumentError("the zxid must be above 0");
  if (term == 0) return absl::InvalidArgumentError("the term must be above 0");
  if (member.cluster_id.size() != consensus::kClusterIdBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a cluster id has ", consensus::kClusterIdBytes,
                                                   " bytes, not ", member.cluster_id.size()));
  }
  absl::StatusOr<std::vector<MemberId>> voters = MemberIds(member.voters);
  if (!voters.ok()) return voters.status();
  absl::StatusOr<std::vector<MemberId>> observers = MemberIds(member.observers);
  if (!observers.ok()) return observers.status();
  consensus::SnapshotMeta meta;
  meta.index = consensus::Index(static_cast<uint64_t>(zxid.value()));
  meta.term = consensus::Term(term);
  meta.membership.voters = *std::move(voters);
  meta.membership.learners = *std::move(observers);
  for (const auto& [id, address] : member.addresses) {
    meta.membership.addresses[MemberId(static_cast<uint32_t>(id))] = address;
  }
  meta.version = member.version;
  meta.cluster_id = member.cluster_id;
  if (absl::Status s = ValidateMembership(meta.membership); !s.ok()) return s;
  if (!meta.membership.Contains(MemberId(static_cast<uint32_t>(member.member)))) {
    return absl::InvalidArgumentError(
        absl::StrCat("member ", member.member, " is neither a voter nor an observer"));
  }
  return meta;
}

absl::StatusOr<std::string> ReadMyId(consensus::Env* env, const std::string& path) {
  auto file = env->OpenFile(path, /*create=*/false);
  if (!file.ok()) return file.status();
  std::string text(32, '\0');
  auto size = (*file)->ReadAt(0, text.size(), text.data());
  if (!size.ok()) return size.status();
  text.resize(*size);
  text.resize(text.find_last_not_of(" \t\r\n") + 1);
  return text;
}

}  // namespace

MemberDirectoryWriter::MemberDirectoryWriter(NewMember member, consensus::SnapshotMeta meta,
                                             uint64_t digest, MemberDirectoryEnvs envs)
    : member_(std::move(member)), meta_(std::move(meta)), digest_(digest), envs_(envs) {}

absl::StatusOr<std::unique_ptr<MemberDirectoryWriter>> MemberDirectoryWriter::Create(
    NewMember member, tree::Zxid zxid, uint64_t term, uint64_t digest, MemberDirectoryEnvs envs) {
  if (member.data_dir.empty()) return absl::InvalidArgumentError("a data directory must be given");
  if (member.log_dir.empty()) member.log_dir = member.data_dir;
  absl::StatusOr<consensus::SnapshotMeta> meta = MetaOf(member, zxid, term);
  if (!meta.ok()) return meta.status();
  std::unique_ptr<MemberDirectoryWriter> writer(
      new MemberDirectoryWriter(std::move(member), *std::move(meta), digest, envs));
  if (absl::Status s = writer->Begin(); !s.ok()) return s;
  return writer;
}

absl::Status MemberDirectoryWriter::Begin() {
  if (is_apart()) {
    // The mark of a data directory counts only together with that of its log directory, which is
    // set first and removed first.
    const absl::Status usable =
        NewDataDir::IsMarked(envs_.env, member_.log_dir)
            ? NewDataDir::CheckNewOrIncomplete(envs_.env, member_.data_dir, kMadeInDataDir)
            : NewDataDir::CheckNew(envs_.env, member_.data_dir);
    if (!usable.ok()) return usable;
  }
  if (absl::Status s = CheckMyId(); !s.ok()) return s;
  auto new_data_dir = NewDataDir::Create(
      envs_.env, member_.log_dir,
      is_apart() ? NewDataDir::Names(kMadeInLogDir) : NewDataDir::Names(kMadeInOneDir));
  if (!new_data_dir.ok()) return new_data_dir.status();
  new_data_dir_ = *std::move(new_data_dir);
  if (absl::Status s = PrepareDataDir(); !s.ok()) return s;
  tree::RocksRecordStore::Options options;
  options.env = envs_.store_env;
  auto store = tree::RocksRecordStore::Open(rpc::CheckpointDirectory(member_.data_dir), options);
  if (!store.ok()) return store.status();
  store_ = *std::move(store);
  return absl::OkStatus();
}

absl::Status MemberDirectoryWriter::CheckMyId() const {
  const std::string path = absl::StrCat(member_.data_dir, "/", ToAbsl(kMyIdName));
  if (!envs_.env->Exists(path)) return absl::OkStatus();
  absl::StatusOr<std::string> my_id = ReadMyId(envs_.env, path);
  if (!my_id.ok()) return my_id.status();
  // An interrupted run may have created the file without writing to it.
  if (*my_id == std::to_string(member_.member) || my_id->empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(path, ": names member ", *my_id, ", not ", member_.member,
                   ": give this member another directory, or remove the file"));
}

absl::Status MemberDirectoryWriter::PrepareDataDir() const {
  if (is_apart()) {
    if (absl::Status s = envs_.env->CreateDirectories(member_.data_dir); !s.ok()) return s;
    if (absl::Status s = NewDataDir::Mark(envs_.env, member_.data_dir); !s.ok()) return s;
  }
  const std::string checkpoints = rpc::CheckpointDirectory(member_.data_dir);
  std::error_code error;
  std::filesystem::remove_all(checkpoints, error);
  if (!error) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(
      checkpoints, ": the files of an interrupted run cannot be removed: ", error.message()));
}

absl::Status MemberDirectoryWriter::CheckHead(std::string_view key, std::string_view value) {
  absl::StatusOr<tree::HeadRecord> head = tree::DecodeHead(key, value);
  if (!head.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the records do not begin with a head: ", head.status().message()));
  }
  if (head->zxid != rpc::ZxidOf(meta_.index) || head->digest != digest_) {
    return absl::InvalidArgumentError("the head record has an unexpected zxid or digest");
  }
  for (const auto& [member, last] : head->proposers) {
    last_incarnation_ = std::max(last_incarnation_, last.incarnation);
  }
  return absl::OkStatus();
}

absl::Status MemberDirectoryWriter::Add(std::string_view key, std::string_view value) {
  if (absl::StatusOr<tree::RecordKind> kind = tree::DecodeKind(key); !kind.ok()) {
    return absl::InvalidArgumentError(kind.status().message());
  }
  if (last_key_.empty()) {
    if (absl::Status s = CheckHead(key, value); !s.ok()) return s;
  } else if (key <= last_key_) {
    return absl::InvalidArgumentError("the records are not in the order of their keys");
  }
  last_key_ = key;
  return store_->Write(key, value);
}

absl::Status MemberDirectoryWriter::WriteMyId() {
  auto file =
      envs_.env->OpenFile(absl::StrCat(member_.data_dir, "/", ToAbsl(kMyIdName)), /*create=*/true);
  if (!file.ok()) return file.status();
  const std::string text = absl::StrCat(member_.member, "\n");
  const std::string_view piece = text;
  if (absl::Status s = (*file)->Truncate(0); !s.ok()) return s;
  if (absl::Status s = (*file)->WriteAt(0, {&piece, 1}); !s.ok()) return s;
  if (absl::Status s = (*file)->Sync(); !s.ok()) return s;
  return envs_.env->SyncDirectory(member_.data_dir);
}

absl::Status MemberDirectoryWriter::Finish() {
  ASSERT(!last_key_.empty(), "the head was added");
  if (absl::Status s = store_->Commit(rpc::MakeCheckpointMetadata(meta_, digest_)); !s.ok())
    return s;
  store_.reset();
  if (absl::Status s = WriteMyId(); !s.ok()) return s;
  const int64_t now_ms = Clock::System()->WallMs();
  // The tree ignores commands of older incarnations, so the next start must have a greater one.
  const uint64_t incarnation = std::max(last_incarnation_, static_cast<uint64_t>(now_ms));
  if (absl::Status s = rpc::SaveIncarnation(envs_.env, member_.log_dir, incarnation); !s.ok()) {
    return s;
  }
  const consensus::Identity identity{MemberId(static_cast<uint32_t>(member_.member)),
                                     member_.cluster_id, consensus::kFirstDirectoryEpoch};
  if (absl::Status s = new_data_dir_->Finish(identity, meta_.index, meta_.term); !s.ok()) return s;
  if (is_apart()) {
    if (absl::Status s = NewDataDir::Unmark(envs_.env, member_.data_dir); !s.ok()) return s;
  }
  return GiveToOwners();
}

absl::Status MemberDirectoryWriter::GiveToOwners() const {
  const auto give = [](const std::string& directory, std::span<const std::string_view> names) {
    for (const std::string_view name : names) {
      const std::string path = absl::StrCat(directory, "/", ToAbsl(name));
      if (absl::Status s = GiveToOwnerOf(directory, path); !s.ok()) {
        return absl::Status(s.code(), absl::StrCat(s.message(),
                                                   "; the data is complete: give it to that user "
                                                   "by chown before you start the server"));
      }
    }
    return absl::OkStatus();
  };
  if (absl::Status s = give(member_.log_dir, kOwnedInLogDir); !s.ok()) return s;
  return give(member_.data_dir, kOwnedInDataDir);
}

bool MemberDirectoryWriter::is_apart() const {
  return DirectoryOf(member_.data_dir) != DirectoryOf(member_.log_dir);
}

}  // namespace quorate::tools
