#include "consensus/log/data_dir.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/strings.h"
#include "consensus/log/hard_state_file.h"
#include "consensus/log/segment.h"

namespace quorate::consensus {
namespace {

constexpr std::string_view kIdentity = "identity";
constexpr std::string_view kIdentityTemporary = "identity.tmp";
constexpr std::string_view kHardState = "hard_state";
constexpr std::string_view kLog = "log";
constexpr std::string_view kLock = "LOCK";
constexpr std::string_view kZooKeeperData = "version-2";

// What may stand in a directory that is not yet formatted, because an operator or ZooKeeper's
// conventions put it there.
constexpr std::string_view kToleratedNames[] = {"myid", "lost+found"};
constexpr std::string_view kToleratedPrefixes[] = {"zoo.cfg", "server.log"};
constexpr std::string_view kToleratedSuffix = ".pid";

constexpr std::string_view kIdentityMagic = "QuorDir\n";
constexpr size_t kIdentityCrcBytes = 4;

bool Has(const std::vector<std::string>& names, std::string_view name) {
  return std::binary_search(names.begin(), names.end(), name, std::less<>());
}

bool IsTolerated(std::string_view name) {
  return std::find(std::begin(kToleratedNames), std::end(kToleratedNames), name) !=
             std::end(kToleratedNames) ||
         name.ends_with(kToleratedSuffix) ||
         std::any_of(std::begin(kToleratedPrefixes), std::end(kToleratedPrefixes),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

// Of a directory that was formatted before there were births: it is older than all that have one.
constexpr uint64_t kBirthOfVersion1 = 1;

struct Identity {
  MemberId member;
  std::string cluster_id;
  uint64_t birth = kBirthOfVersion1;
};

std::string EncodeIdentity(const Identity& identity) {
  std::string bytes;
  LittleEndianWriter writer(&bytes);
  writer.Raw(kIdentityMagic);
  writer.Int(kDataDirFormatVersion);
  writer.Int(identity.member.value());
  writer.String(identity.cluster_id);
  writer.Int(identity.birth);
  writer.Int(Crc32c(bytes));
  return bytes;
}

// Magic, version and the CRC at the end are the same in every version, so that damage is told from
// a newer format.
absl::StatusOr<Identity> ParseIdentity(const std::string& path, std::string_view bytes) {
  const absl::Status damaged = absl::DataLossError(absl::StrCat(
      path, ": is damaged: it no longer says whose directory this is", ToAbsl(kRejoinAdvice)));
  if (bytes.size() < kIdentityMagic.size() + kIdentityCrcBytes ||
      !bytes.starts_with(kIdentityMagic)) {
    return damaged;
  }
  const std::string_view body = bytes.substr(0, bytes.size() - kIdentityCrcBytes);
  if (Crc32c(body) != LoadInt<std::endian::little, uint32_t>(body.data() + body.size())) {
    return damaged;
  }
  LittleEndianReader reader(body.substr(kIdentityMagic.size()));
  const uint32_t version = reader.Int<uint32_t>();
  if (version > kDataDirFormatVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, ": the directory has format version ", version, ", this program knows up to ",
        kDataDirFormatVersion, ": run the version that wrote it, or newer"));
  }
  Identity identity;
  identity.member = MemberId(reader.Int<uint32_t>());
  identity.cluster_id = std::string(reader.String());
  if (version > 1) identity.birth = reader.Int<uint64_t>();
  if (!reader.ok() || !reader.empty() ||
      (!identity.cluster_id.empty() && identity.cluster_id.size() != kClusterIdBytes)) {
    return damaged;
  }
  return identity;
}

}  // namespace

class DataDir::Impl {
 public:
  Impl(Env* env, std::string path, MemberId member, uint64_t birth_if_new)
      : env_(*env), path_(std::move(path)), identity_{member, {}, birth_if_new} {
    ASSERT(member != kNoMember);
    ASSERT(birth_if_new > 0);
  }

  absl::Status Open(SegmentLogOptions options) {
    if (absl::Status s = env_.CreateDirectories(path_); !s.ok()) return s;
    absl::StatusOr<std::vector<std::string>> names = env_.List(path_);
    if (!names.ok()) return names.status();
    // Before the lock, which would leave its file in somebody else's directory.
    if (absl::Status s = CheckOurs(*names); !s.ok()) return s;
    absl::StatusOr<std::unique_ptr<DirectoryLock>> lock = env_.LockDirectory(path_);
    if (!lock.ok()) return lock.status();
    lock_ = *std::move(lock);
    names = env_.List(path_);
    if (!names.ok()) return names.status();
    return Has(*names, kIdentity) ? OpenFormatted(options) : Format(*names, options);
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
    return WriteIdentity({identity_.member, cluster_id, identity_.birth});
  }

  absl::Status WriteHardState(const HardState& state, Index durable_index) {
    const HardState& old = hard_state_->content().state;
    ASSERT(state.term >= old.term, "a term is never forgotten");
    ASSERT(state.term > old.term || old.vote == kNoMember || state.vote == old.vote,
           "one vote in a term");
    ASSERT(state.standing >= old.standing, "a standing is not lost");
    ASSERT(durable_index <= log_->last_index());
    return hard_state_->Write({state, durable_index});
  }

  const std::string& path() const { return path_; }
  const std::string& cluster_id() const { return identity_.cluster_id; }
  uint64_t birth() const { return identity_.birth; }
  const HardState& hard_state() const { return hard_state_->content().state; }
  SegmentLog& log() { return *log_; }

  absl::Status AlignLog(Index checkpoint_index, Term checkpoint_term) {
    const Index base_index = log_->base_index();
    const std::optional<Term> term = log_->TermAt(checkpoint_index);
    if (checkpoint_index < base_index ||
        (checkpoint_index == base_index && term != checkpoint_term)) {
      return absl::DataLossError(absl::StrCat(
          PathOf(kLog), ": begins behind entry ", base_index.value(), " of term ",
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
    initial.control_entries = log_->control_entries();
    if (checkpoint.has_value()) {
      ASSERT(log_->TermAt(checkpoint->index) == checkpoint->term);
      ASSERT(checkpoint->term <= initial.hard_state.term);
      initial.applied = checkpoint->index;
    }
    ASSERT(initial.base_index <= initial.applied);
    // The hint is written before the entries it speaks of are durable here, and may be older than
    // the checkpoint.
    initial.hard_state.commit =
        std::clamp(initial.hard_state.commit, initial.applied, initial.last_index);
    initial.checkpoint = std::move(checkpoint);
    return initial;
  }

 private:
  std::string PathOf(std::string_view name) const { return absl::StrCat(path_, "/", ToAbsl(name)); }

  absl::Status CheckOurs(const std::vector<std::string>& names) const {
    if (Has(names, kIdentity)) return absl::OkStatus();
    if (Has(names, kZooKeeperData)) {
      return absl::FailedPreconditionError(absl::StrCat(
          path_, ": is a ZooKeeper data directory (it holds ", ToAbsl(kZooKeeperData),
          "); it is not touched. Give this server an empty directory, and import ZooKeeper's data "
          "into the running cluster"));
    }
    for (const std::string& name : names) {
      // Formatting makes the hard state before the log.
      if (name == kLock || name == kIdentityTemporary || name == kHardState ||
          (name == kLog && Has(names, kHardState)) || IsTolerated(name)) {
        continue;
      }
      return absl::FailedPreconditionError(absl::StrCat(
          path_, ": is neither empty nor a Quorate directory (it holds ", name, " and no ",
          ToAbsl(kIdentity), "); it is not touched. Give this server an empty directory"));
    }
    return absl::OkStatus();
  }

  // The identity is written last, so that where it stands all the rest must stand too.
  absl::Status Format(const std::vector<std::string>& names, SegmentLogOptions options) {
    if (absl::Status s = CheckOurs(names); !s.ok()) return s;
    if (absl::Status s = FormatHardState(names); !s.ok()) return s;
    absl::StatusOr<std::unique_ptr<SegmentLog>> log =
        SegmentLog::Open(&env_, PathOf(kLog), options, Index{0});
    if (!log.ok()) return log.status();
    log_ = *std::move(log);
    if (hard_state_->content() != HardStateFile::Blank() || log_->last_index() != Index{0}) {
      return absl::DataLossError(
          absl::StrCat(PathOf(kIdentity), ": is missing, though the directory was in use (term ",
                       hard_state().term.value(), ", last entry ", log_->last_index().value(), ")",
                       ToAbsl(kRejoinAdvice)));
    }
    return WriteIdentity(identity_);
  }

  absl::Status FormatHardState(const std::vector<std::string>& names) {
    absl::StatusOr<std::unique_ptr<HardStateFile>> file = absl::NotFoundError("");
    if (Has(names, kHardState)) {
      file = HardStateFile::Open(&env_, PathOf(kHardState));
      // Without a log, this is the file of a formatting that was interrupted.
      if (!file.ok() && (!absl::IsDataLoss(file.status()) || Has(names, kLog))) {
        return file.status();
      }
    }
    if (!file.ok()) file = HardStateFile::Create(&env_, PathOf(kHardState));
    if (!file.ok()) return file.status();
    hard_state_ = *std::move(file);
    return env_.SyncDirectory(path_);
  }

  absl::Status OpenFormatted(SegmentLogOptions options) {
    if (absl::Status s = ReadIdentity(); !s.ok()) return s;
    // The process that renamed it may not have lived to do this.
    if (absl::Status s = env_.SyncDirectory(path_); !s.ok()) return s;
    absl::StatusOr<std::unique_ptr<HardStateFile>> file =
        HardStateFile::Open(&env_, PathOf(kHardState));
    if (absl::IsNotFound(file.status())) return Missing(kHardState, "term and vote are lost");
    if (!file.ok()) return file.status();
    hard_state_ = *std::move(file);
    if (!HasSegment()) return Missing(kLog, "the log is lost");
    absl::StatusOr<std::unique_ptr<SegmentLog>> log =
        SegmentLog::Open(&env_, PathOf(kLog), options, hard_state_->content().durable_index);
    if (!log.ok()) return log.status();
    log_ = *std::move(log);
    const std::vector<TermRun> runs = log_->term_runs();
    if (!runs.empty() && runs.back().term > hard_state().term) {
      return absl::DataLossError(absl::StrCat(
          PathOf(kHardState), ": knows terms up to ", hard_state().term.value(),
          " only, but the log has entries of term ", runs.back().term.value(),
          ": an old copy was put back, and the votes given since are lost", ToAbsl(kRejoinAdvice)));
    }
    return absl::OkStatus();
  }

  absl::Status Missing(std::string_view name, std::string_view consequence) const {
    return absl::DataLossError(
        absl::StrCat(PathOf(name), ": is missing: ", ToAbsl(consequence), ToAbsl(kRejoinAdvice)));
  }

  bool HasSegment() {
    absl::StatusOr<std::vector<std::string>> names = env_.List(PathOf(kLog));
    return names.ok() && std::any_of(names->begin(), names->end(), [](const std::string& name) {
             return ParseSegmentFileName(name).has_value();
           });
  }

  absl::Status ReadIdentity() {
    const std::string path = PathOf(kIdentity);
    absl::StatusOr<std::unique_ptr<File>> file = env_.OpenFile(path, /*create=*/false);
    if (!file.ok()) return file.status();
    absl::StatusOr<uint64_t> size = (*file)->Size();
    if (!size.ok()) return size.status();
    // A whole one is far smaller; more need not be read to see that it is damaged.
    std::string bytes(std::min<uint64_t>(*size, kIdentityBytesMax), '\0');
    absl::StatusOr<size_t> got = (*file)->ReadAt(0, bytes.size(), bytes.data());
    if (!got.ok()) return got.status();
    bytes.resize(*got);
    absl::StatusOr<Identity> identity = ParseIdentity(path, bytes);
    if (!identity.ok()) return identity.status();
    if (identity->member != identity_.member) {
      return absl::FailedPreconditionError(absl::StrCat(
          path_, ": belongs to member ", identity->member.value(), ", but this server is member ",
          identity_.member.value(), ": correct its member id, or give it a directory of its own"));
    }
    identity_ = *std::move(identity);
    return absl::OkStatus();
  }

  absl::Status WriteIdentity(const Identity& identity) {
    const std::string temporary = PathOf(kIdentityTemporary);
    absl::StatusOr<std::unique_ptr<File>> file = env_.OpenFile(temporary, /*create=*/true);
    if (!file.ok()) return file.status();
    const std::string bytes = EncodeIdentity(identity);
    const std::string_view piece = bytes;
    if (absl::Status s = (*file)->Truncate(0); !s.ok()) return s;
    if (absl::Status s = (*file)->WriteAt(0, {&piece, 1}); !s.ok()) return s;
    if (absl::Status s = (*file)->Sync(); !s.ok()) return s;
    if (absl::Status s = env_.Rename(temporary, PathOf(kIdentity)); !s.ok()) return s;
    if (absl::Status s = env_.SyncDirectory(path_); !s.ok()) return s;
    identity_ = identity;
    return absl::OkStatus();
  }

  static constexpr uint64_t kIdentityBytesMax = 4096;

  Env& env_;
  const std::string path_;
  Identity identity_;
  std::unique_ptr<DirectoryLock> lock_;  // let go last
  std::unique_ptr<HardStateFile> hard_state_;
  std::unique_ptr<SegmentLog> log_;
};

DataDir::DataDir(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DataDir::~DataDir() = default;

absl::StatusOr<std::unique_ptr<DataDir>> DataDir::Open(Env* env, std::string path, MemberId member,
                                                       SegmentLogOptions options,
                                                       uint64_t birth_if_new) {
  auto impl = std::make_unique<Impl>(env, std::move(path), member, birth_if_new);
  if (absl::Status s = impl->Open(options); !s.ok()) return s;
  return std::unique_ptr<DataDir>(new DataDir(std::move(impl)));
}

const std::string& DataDir::path() const { return impl_->path(); }
const std::string& DataDir::cluster_id() const { return impl_->cluster_id(); }
absl::Status DataDir::SetClusterId(const std::string& cluster_id) {
  return impl_->SetClusterId(cluster_id);
}
uint64_t DataDir::birth() const { return impl_->birth(); }
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
