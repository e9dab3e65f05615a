// SPDX-License-Identifier: Apache-2.0

#include "tools/offline/member_examination.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/strings.h"
#include "consensus/core/membership.h"
#include "consensus/log/file_names.h"
#include "rpc/member/checkpoints/checkpoint_metadata.h"
#include "rpc/member/checkpoints/divergence_marker.h"
#include "rpc/member/disk/incarnation.h"
#include "tools/offline/printing.h"
#include "tree/command.h"
#include "tree/snapshot.h"
#include "tree/store/rocks_record_store.h"
#include "tree/tree.h"

namespace quorate::tools {
namespace {

namespace fs = std::filesystem;
using consensus::Env;
using consensus::Index;
using consensus::Term;

constexpr std::string_view kRebuild =
    "`quorate rebuild` puts the data of this member aside, and the others fill it again when it "
    "starts. If it is the only member, restore it from a backup";
constexpr size_t kPieceBytes = 1u << 20;

bool IsDirectory(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

std::string ReadTextFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  std::string result = text.str();
  result.resize(result.find_last_not_of(" \t\r\n") + 1);
  return result;
}

class Examiner {
 public:
  Examiner(const MemberPaths& paths, Progress* progress) : progress_(*progress) {
    result_.paths = paths;
  }

  MemberExamination Run() {
    if (env_.Exists(In(consensus::kIncompleteName))) {
      Problem(
          In(consensus::kIncompleteName), std::nullopt,
          "the directory is incomplete: `quorate restore`, `import` or `recover` was interrupted",
          "run the same command again");
      return std::move(result_);
    }
    ExamineIdentity();
    ExamineHardState();
    ExamineLog();
    ExamineCheckpoint();
    CompareCheckpointWithLog();
    CompareClusters();
    ExamineSmallFiles();
    ExamineDivergence();
    return std::move(result_);
  }

 private:
  std::string In(std::string_view name) const { return result_.paths.In(name); }

  void Problem(std::string file, std::optional<uint64_t> offset, std::string_view what,
               std::string_view advice = kRebuild) {
    result_.findings.push_back(
        {true, std::move(file), offset, std::string(what), std::string(advice)});
  }

  void Remark(std::string file, std::optional<uint64_t> offset, std::string_view what) {
    result_.findings.push_back({false, std::move(file), offset, std::string(what), ""});
  }

  // Reports the message of an error without the path before it and the advice after it, which have
  // separate fields.
  void ProblemOf(const absl::Status& status, std::string file,
                 std::optional<uint64_t> offset = std::nullopt) {
    std::string_view what = ToStd(status.message());
    if (what.starts_with(file + ": ")) what.remove_prefix(file.size() + 2);
    bool is_damage = false;
    for (std::string_view advice : {consensus::kRejoinAdvice, tree::kRebuildAdvice}) {
      if (!what.ends_with(advice)) continue;
      what.remove_suffix(advice.size());
      is_damage = true;
    }
    const bool has_advice = !is_damage && !absl::IsDataLoss(status);
    Problem(std::move(file), offset, what, has_advice ? std::string_view() : kRebuild);
  }

  // --- Each file by itself -----------------------------------------------------------------------

  void ExamineIdentity() {
    auto identity = ReadIdentityFile(&env_, result_.paths.log_dir);
    if (identity.ok()) {
      result_.identity = *std::move(identity);
    } else if (!absl::IsNotFound(identity.status())) {
      ProblemOf(identity.status(), In(consensus::kIdentityName));
    } else if (env_.Exists(In(consensus::kHardStateName)) || env_.Exists(In(consensus::kLogName))) {
      Problem(In(consensus::kIdentityName), std::nullopt,
              "is missing: it is unknown which member the directory belongs to");
    } else {
      Problem(result_.paths.log_dir, std::nullopt,
              "holds no log of a member: a server would start here as a new member",
              "if dataLogDir is configured, give it with --log-dir");
    }
  }

  void ExamineHardState() {
    const std::string path = In(consensus::kHardStateName);
    if (!env_.Exists(path)) {
      if (result_.identity) Problem(path, std::nullopt, "is missing: term and vote are lost");
      return;
    }
    auto found = consensus::HardStateFile::Examine(&env_, path);
    if (!found.ok()) return ProblemOf(found.status(), path);
    result_.hard_state = *std::move(found);
    if (!result_.hard_state->newest().has_value()) {
      return Problem(path, 0, "both copies of term and vote are damaged");
    }
    for (size_t place = 0; place < result_.hard_state->copies.size(); ++place) {
      if (result_.hard_state->copies[place].has_value()) continue;
      Remark(
          path, place * consensus::kHardStateCopyBytes,
          "one of the two copies of term and vote is not whole, as after a crash during a write; "
          "the other copy is whole, and counts. The next start writes both");
    }
  }

  void ExamineLog() {
    const std::string path = In(consensus::kLogName);
    if (!env_.Exists(path)) {
      if (result_.identity) Problem(path, std::nullopt, "is missing: the log is lost");
      return;
    }
    const auto hard_state = NewestHardState(result_);
    result_.log =
        consensus::ExamineLog(&env_, path, hard_state ? hard_state->durable_index : Index{0});
    const consensus::LogExamination& log = *result_.log;
    if (!log.status.ok()) {
      ProblemOf(log.status, log.damaged_path.empty() ? path : log.damaged_path, log.damaged_offset);
    } else if (log.segments.empty() && result_.identity) {
      Problem(path, std::nullopt, "holds no file of the log: the log is lost");
    }
    if (log.status.ok() && log.log.torn_bytes > 0) {
      Remark(log.log.segments.back()->path, log.log.segments.back()->end,
             absl::StrCat("the last ", log.log.torn_bytes,
                          " bytes are no whole record, as after a crash during a write; the next "
                          "start removes them. If the power did not fail, check the disk"));
    }
    for (const std::string& file : log.replaced) {
      Remark(file, std::nullopt, "is replaced by newer files; the next start removes it");
    }
    if (hard_state && !log.log.term_runs.empty() &&
        log.log.term_runs.back().term > hard_state->state.term) {
      Problem(In(consensus::kHardStateName), std::nullopt,
              absl::StrCat("knows terms up to ", hard_state->state.term.value(),
                           " only, but the log has entries of term ",
                           log.log.term_runs.back().term.value(),
                           ": an old copy was put back, and the votes given since are lost"));
    }
    ExamineEntries(log);
  }

  void ExamineEntries(const consensus::LogExamination& log) {
    uint64_t count = 0;
    bool behind_damage = false;
    for (const auto& segment : log.segments) {
      if (segment == nullptr) continue;
      if (behind_damage && !segment->empty()) {
        Remark(segment->path, std::nullopt,
               absl::StrCat("behind the damage, entries ", segment->name.first.value(), " to ",
                            segment->next.value() - 1, " can be read (`quorate log dump`)"));
      }
      behind_damage = behind_damage || segment->path == log.damaged_path;
      absl::Status status = ForEachEntry(*segment, [&](const consensus::RecordView& entry,
                                                       uint64_t offset) {
        if (absl::Status s = CheckEntry(entry); !s.ok()) {
          Problem(segment->path, offset,
                  absl::StrCat("entry ", entry.index.value(),
                               " is whole, but no server can apply it: ", s.message()));
        }
        ++count;
        progress_.Update([&] { return absl::StrCat("checked ", count, " entries of the log"); });
      });
      if (!status.ok()) ProblemOf(status, segment->path);
    }
  }

  void ExamineCheckpoint() {
    const std::string path = rpc::CheckpointDirectory(result_.paths.data_dir);
    if (!env_.Exists(path)) return;
    auto view = tree::RocksRecordStore::Look(path, {.env = nullptr, .check_files = true});
    if (absl::IsFailedPrecondition(view.status())) return;
    if (!view.ok()) {
      checkpoint_is_readable_ = false;
      return ProblemOf(view.status(), path);
    }
    CheckpointFacts& facts = result_.checkpoint.emplace();
    facts.metadata = (*view)->metadata();
    auto meta = rpc::DecodeCheckpointMetadata(facts.metadata);
    if (meta.ok()) {
      facts.meta = *std::move(meta);
    } else {
      ProblemOf(meta.status(), path);
    }
    absl::Status status = (*view)->ReadEvents(
        [](uint64_t /*part*/, std::string_view /*bytes*/) { return absl::OkStatus(); });
    if (status.ok()) status = LoadTree(view->get(), &facts);
    if (!status.ok()) ProblemOf(status, path);
  }

  absl::Status LoadTree(tree::RecordStore::View* view, CheckpointFacts* facts) {
    tree::TreeLoader loader;
    for (bool more = true; more;) {
      auto next = view->Next(kPieceBytes, [&](std::string_view key, std::string_view value) {
        return loader.Add(key, value);
      });
      if (!next.ok()) return next.status();
      more = *next;
      progress_.Update([&] {
        return absl::StrCat("checked ", loader.nodes(), " of ", loader.nodes_total(), " znodes");
      });
    }
    auto tree = loader.Finish(facts->metadata.zxid, facts->metadata.digest);
    if (!tree.ok()) return tree.status();
    facts->nodes = (*tree)->node_count();
    facts->sessions = (*tree)->session_count();
    facts->whole = true;
    return absl::OkStatus();
  }

  void ExamineDivergence() {
    const std::string path = In(rpc::kDivergenceMarkerName);
    auto divergence = rpc::ReadDivergenceMarker(&env_, result_.paths.log_dir);
    if (!divergence.ok()) return Problem(path, std::nullopt, ToStd(divergence.status().message()));
    if (!divergence->has_value()) return;
    Problem(path, std::nullopt,
            absl::StrCat("this member's tree was found to differ from that of a majority: at zxid ",
                         HexNumber(static_cast<uint64_t>((*divergence)->zxid)), " its digest is ",
                         HexNumber((*divergence)->own_digest), ", theirs ",
                         HexNumber((*divergence)->majority_digest)));
  }

  // --- All files together ------------------------------------------------------------------------

  // Returns the term of an entry in the log, or of the entry right before the log.
  std::optional<Term> TermAt(Index index) const {
    const consensus::RecoveredLog& log = result_.log->log;
    if (index < log.base_index || index > log.last_index) return std::nullopt;
    std::optional<Term> term = log.base_term;
    for (const consensus::TermRun& run : log.term_runs) {
      if (run.first <= index) term = run.term;
    }
    return term;
  }

  // Follows DataDir::AlignLog and the start of a server.
  void CompareCheckpointWithLog() {
    const std::string path = In(consensus::kLogName);
    if (!result_.log.has_value() || !checkpoint_is_readable_) return;
    const Index base = result_.log->log.base_index;
    const Term base_term = result_.log->log.base_term;
    if (!result_.checkpoint.has_value()) {
      if (base > Index{0}) {
        Problem(path, std::nullopt,
                absl::StrCat("begins behind entry ", base.value(),
                             ", and no checkpoint has the entries before: they are lost"));
      }
      return;
    }
    if (!result_.checkpoint->meta.has_value()) return;
    const consensus::SnapshotMeta& meta = *result_.checkpoint->meta;
    const std::optional<Term> term = TermAt(meta.index);
    if (meta.index < base || (meta.index == base && term != meta.term)) {
      Problem(path, std::nullopt,
              absl::StrCat("begins behind entry ", base.value(), " of term ", base_term.value(),
                           ", but the checkpoint ends with entry ", meta.index.value(), " of term ",
                           meta.term.value(), ": entries in between are lost"));
    } else if (result_.log->status.ok() && term != meta.term) {
      result_.log_is_replaced = true;
      Remark(path, std::nullopt,
             absl::StrCat("does not have the entry of the checkpoint, ", meta.index.value(),
                          " of term ", meta.term.value(),
                          ", as after a crash while a snapshot was "
                          "installed; the next start begins a new log behind it"));
    }
    const auto hard_state = NewestHardState(result_);
    if (hard_state && hard_state->state.member_state == consensus::MemberState::kNew) {
      Problem(rpc::CheckpointDirectory(result_.paths.data_dir), std::nullopt,
              absl::StrCat("there is a checkpoint, but the log in ", result_.paths.log_dir,
                           " is new: what this member promised the others is not known"),
              "give the log that belongs to it (dataLogDir, --log-dir); if that is lost, "
              "`quorate rebuild` puts the checkpoint aside too");
    }
  }

  void CompareClusters() {
    if (!result_.identity.has_value() || result_.identity->cluster_id.empty()) return;
    const std::string& own = result_.identity->cluster_id;
    const auto compare = [&](const std::string& other, const std::string& file) {
      if (other.empty() || other == own) return;
      Problem(file, std::nullopt,
              absl::StrCat("is of cluster ", Hex(other), ", but ", In(consensus::kIdentityName),
                           " of cluster ", Hex(own)),
              "use dataDir and dataLogDir of the same member");
    };
    if (result_.checkpoint.has_value() && result_.checkpoint->meta.has_value()) {
      const consensus::SnapshotMeta& meta = *result_.checkpoint->meta;
      compare(meta.cluster_id, rpc::CheckpointDirectory(result_.paths.data_dir));
      if (!meta.membership.Contains(result_.identity->member)) {
        Remark(rpc::CheckpointDirectory(result_.paths.data_dir), std::nullopt,
               absl::StrCat("member ", result_.identity->member.value(),
                            " was not a member of the cluster at the checkpoint"));
      }
    }
    if (!result_.log.has_value()) return;
    for (const auto& segment : result_.log->log.segments) {
      if (segment->name.first != Index{1}) continue;
      ForEachEntry(*segment, [&](const consensus::RecordView& entry, uint64_t) {
        if (entry.index != Index{1} || entry.kind != consensus::EntryKind::kNoOp) return;
        compare(std::string(entry.payload), segment->path);
      }).IgnoreError();  // this file was read before without an error
    }
  }

  void ExamineSmallFiles() {
    if (!result_.identity.has_value()) return;
    const std::string incarnation_path = In(rpc::kIncarnationName);
    uint64_t number = 0;
    if (env_.Exists(incarnation_path) &&
        !absl::SimpleAtoi(ReadTextFile(incarnation_path), &number)) {
      Problem(incarnation_path, std::nullopt, "must hold one number, and does not",
              "remove the file: the server then derives a number from its clock");
    }
    const std::string my_id_path = result_.paths.data_dir + "/myid";
    if (!env_.Exists(my_id_path)) return;
    const std::string my_id = ReadTextFile(my_id_path);
    if (my_id == absl::StrCat(result_.identity->member.value())) return;
    Problem(my_id_path, std::nullopt,
            absl::StrCat("names member ", Escape(my_id.substr(0, 40)), ", but the log in ",
                         result_.paths.log_dir, " is of member ", result_.identity->member.value()),
            "correct the file, or give this member its own directory");
  }

  Env& env_ = *Env::PosixReadOnly();
  Progress& progress_;
  MemberExamination result_;
  bool checkpoint_is_readable_ = true;
};

// Returns whether any process holds a lock of the kind that RocksDB takes.
bool IsLockedByRecordLock(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  const bool locked = fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
  close(fd);
  return locked;
}

}  // namespace

MemberPaths MemberPaths::Of(std::string data_dir, std::string log_dir) {
  if (log_dir.empty()) log_dir = data_dir;
  for (std::string* path : {&data_dir, &log_dir}) {
    while (path->size() > 1 && path->ends_with('/')) path->pop_back();
  }
  return {std::move(data_dir), std::move(log_dir)};
}

std::string MemberPaths::In(std::string_view name) const {
  return absl::StrCat(log_dir, "/", ToAbsl(name));
}

Index LastReadableIndex(const consensus::LogExamination& log) {
  Index last = log.log.last_index;
  for (const auto& segment : log.segments) {
    if (segment == nullptr || segment->name.first > last + 1) break;
    last = std::max(last, segment->next - 1);
  }
  return last;
}

uint64_t MemberExamination::problems() const {
  return static_cast<uint64_t>(std::count_if(
      findings.begin(), findings.end(), [](const Finding& finding) { return finding.is_problem; }));
}

absl::StatusOr<MemberLock> MemberLock::Take(const MemberPaths& paths, Env* env) {
  for (const std::string& path : {paths.data_dir, paths.log_dir}) {
    if (!IsDirectory(path)) {
      return absl::NotFoundError(
          absl::StrCat(path, ": does not exist, or is not a directory; give a member's dataDir"));
    }
  }
  MemberLock result;
  auto lock = env->LockDirectory(paths.log_dir);
  if (!lock.ok()) return lock.status();
  result.lock_ = *std::move(lock);
  // A server with a separate log directory locks only its store in this directory.
  const std::string checkpoints = rpc::CheckpointDirectory(paths.data_dir);
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(checkpoints, error)) {
    if (IsLockedByRecordLock(entry.path().string() + "/LOCK")) {
      return absl::FailedPreconditionError(
          absl::StrCat(checkpoints, ": is in use by a running server; stop that server"));
    }
  }
  return result;
}

MemberExamination ExamineMember(const MemberPaths& paths, Progress* progress) {
  return Examiner(paths, progress).Run();
}

std::optional<consensus::HardStateFile::Content> NewestHardState(const MemberExamination& member) {
  if (!member.hard_state.has_value() || !member.hard_state->newest().has_value()) {
    return std::nullopt;
  }
  return member.hard_state->newest()->content;
}

std::optional<consensus::Membership> NewestMembership(
    const std::optional<consensus::SnapshotMeta>& checkpoint,
    const std::vector<consensus::Entry>& control_entries) {
  std::optional<consensus::Membership> membership;
  if (checkpoint.has_value()) membership = checkpoint->membership;
  for (const consensus::Entry& entry : control_entries) {
    if (entry.kind != consensus::EntryKind::kMembership) continue;
    auto decoded = consensus::DecodeMembership(entry.payload.view());
    if (decoded.ok()) membership = *std::move(decoded);
  }
  return membership;
}

std::optional<CommitFacts> CommitFactsOf(const MemberExamination& member) {
  if (member.problems() > 0 || !member.identity.has_value() || !member.log.has_value()) {
    return std::nullopt;
  }
  const consensus::RecoveredLog& log = member.log->log;
  std::optional<consensus::SnapshotMeta> checkpoint;
  if (member.checkpoint.has_value()) checkpoint = member.checkpoint->meta;
  // All entries in a checkpoint were applied, and a log is cut only up to a checkpoint.
  const Index applied = std::max(log.base_index, checkpoint ? checkpoint->index : Index{0});
  if (member.log_is_replaced) return CommitFacts{applied, 0, false};
  const Index last = std::max(applied, log.last_index);
  const auto membership = NewestMembership(checkpoint, log.control_entries);
  const bool only_voter = membership.has_value() && !membership->joint() &&
                          membership->voters == std::vector{member.identity->member};
  if (only_voter) return CommitFacts{last, 0, true};
  const auto hard_state = NewestHardState(member);
  const Index hint = std::min(hard_state ? hard_state->state.commit : Index{0}, last);
  const Index known = std::max(applied, hint);
  return CommitFacts{known, last - known, false};
}

absl::Status ForEachEntry(
    const consensus::Segment& segment,
    const std::function<void(const consensus::RecordView& entry, uint64_t offset)>& entry) {
  consensus::Segment opened = segment;
  auto file = Env::PosixReadOnly()->OpenFile(segment.path, /*create=*/false);
  if (!file.ok()) return file.status();
  opened.file = *std::move(file);
  return ForEachRecord(opened, [&](const consensus::RecordView& view, uint64_t offset) {
    entry(view, offset);
    return absl::OkStatus();
  });
}

absl::Status CheckEntry(const consensus::RecordView& entry) {
  if (consensus::IsControl(entry.kind)) {
    return consensus::ValidateControl(
        {entry.index, entry.term, entry.kind, Slice(std::string(entry.payload))});
  }
  if (entry.kind != consensus::EntryKind::kCommand) return absl::OkStatus();
  auto header = tree::DecodeHeader(entry.payload);
  if (!header.ok()) return header.status();
  switch (header->kind) {
    case tree::CommandKind::kCreateSession:
    case tree::CommandKind::kAttachSession:
      return tree::DecodeSessionBody(entry.payload).status();
    case tree::CommandKind::kRequest:
      return tree::DecodeRequest(entry.payload).status();
    case tree::CommandKind::kSequencedRequest:
      return tree::DecodeSequencedRequest(entry.payload).status();
    case tree::CommandKind::kDeleteContainer:
      return tree::DecodeDeleteContainer(entry.payload).status();
    case tree::CommandKind::kCloseSession:
    case tree::CommandKind::kExpireSession:
      break;
  }
  return absl::OkStatus();
}

}  // namespace quorate::tools
