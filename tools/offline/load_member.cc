// SPDX-License-Identifier: Apache-2.0

#include "tools/offline/load_member.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/strings.h"
#include "rpc/member/checkpoints/checkpoint_metadata.h"
#include "rpc/membership/members.h"
#include "tools/offline/progress.h"
#include "tree/snapshot.h"
#include "tree/store/backup_file.h"
#include "tree/store/rocks_record_store.h"

namespace quorate::tools {
namespace {

using consensus::Index;

constexpr size_t kPieceBytes = 1u << 20;

class NoListener : public tree::ApplyListener {
 public:
  void OnNodeEvent(tree::EventType, std::string_view, tree::Zxid, const tree::EventAcls&) override {
  }
  void OnSessionAttached(const tree::SessionInfo&) override {}
  void OnSessionClosed(tree::SessionId, tree::Zxid) override {}
  void OnResult(tree::ApplyResult) override {}
};

absl::StatusOr<std::unique_ptr<tree::Tree>> LoadCheckpoint(const MemberPaths& paths) {
  auto view = tree::RocksRecordStore::Look(rpc::CheckpointDirectory(paths.data_dir), {});
  if (!view.ok()) return view.status();
  tree::TreeLoader loader;
  for (bool more = true; more;) {
    auto next = (*view)->Next(kPieceBytes, [&](std::string_view key, std::string_view value) {
      return loader.Add(key, value);
    });
    if (!next.ok()) return next.status();
    more = *next;
  }
  return loader.Finish((*view)->metadata().zxid, (*view)->metadata().digest);
}

// Applies the entries after the tree's zxid.
absl::Status ApplyLog(const consensus::RecoveredLog& log, Progress* progress, tree::Tree* tree) {
  NoListener listener;
  for (const auto& segment : log.segments) {
    absl::Status status = ForEachEntry(*segment, [&](const consensus::RecordView& entry, uint64_t) {
      const tree::Zxid zxid(static_cast<int64_t>(entry.index.value()));
      if (zxid <= tree->last_zxid()) return;
      if (entry.kind == consensus::EntryKind::kCommand) {
        tree->Apply(zxid, entry.payload, {}, &listener);
      } else {
        rpc::ApplyControl(entry.kind, entry.payload, zxid, tree, &listener);
      }
      progress->Update([&] {
        return absl::StrCat("applied entry ", entry.index.value(), " of ", log.last_index.value());
      });
    });
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckWhole(const MemberExamination& member) {
  for (const Finding& finding : member.findings) {
    if (!finding.is_problem) continue;
    return absl::DataLossError(absl::StrCat(
        finding.file, ": ", finding.what,
        ". Nothing can be restored from damaged data; `quorate "
        "verify ",
        member.paths.data_dir,
        "` shows all that is wrong. Use the directory of another member, or a backup"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LoadedMember> LoadMember(const MemberPaths& paths) {
  auto lock = MemberLock::Take(paths, consensus::Env::PosixReadOnly());
  if (!lock.ok()) return lock.status();
  return LoadLockedMember(paths);
}

absl::StatusOr<LoadedMember> LoadLockedMember(const MemberPaths& paths) {
  Progress progress;
  const MemberExamination examined = ExamineMember(paths, &progress);
  if (absl::Status s = CheckWhole(examined); !s.ok()) return s;
  const std::optional<CommitFacts> commit = CommitFactsOf(examined);
  const bool has_log = examined.log.has_value() && examined.log->log.last_index > Index{0};
  if (!commit.has_value() || (!has_log && !examined.checkpoint.has_value())) {
    return absl::FailedPreconditionError(
        absl::StrCat(paths.data_dir,
                     ": holds no data, because the member is new. Use the directory of "
                     "another member, or a backup"));
  }
  LoadedMember loaded;
  loaded.commit = *commit;
  loaded.member = examined.identity->member;
  loaded.cluster_id = examined.identity->cluster_id;
  const auto hard_state = NewestHardState(examined);
  loaded.was_recovering = hard_state.has_value() &&
                          hard_state->state.member_state == consensus::MemberState::kRecovering;
  loaded.tree = std::make_unique<tree::Tree>();
  if (examined.checkpoint.has_value()) {
    auto tree = LoadCheckpoint(paths);
    if (!tree.ok()) return tree.status();
    loaded.tree = *std::move(tree);
    loaded.term = examined.checkpoint->meta->term.value();
  }
  if (has_log && !examined.log_is_replaced) {
    const consensus::RecoveredLog& log = examined.log->log;
    if (absl::Status s = ApplyLog(log, &progress, loaded.tree.get()); !s.ok()) return s;
    loaded.term = std::max(loaded.term, log.last_term.value());
  }
  tree::BackupChecksum checksum;
  checksum.Add(absl::StrCat("member ", loaded.member.value(), " term ", loaded.term, " zxid ",
                            loaded.tree->last_zxid().value(), ";"));
  checksum.Add(loaded.cluster_id);
  loaded.tree->ForEachRecord([&](std::string_view key, std::optional<std::string_view> value) {
    ++loaded.records;
    for (const std::string_view part : {key, *value}) {
      checksum.Add(absl::StrCat(part.size(), ";"));
      checksum.Add(part);
    }
  });
  loaded.checksum = checksum.Value();
  return loaded;
}

}  // namespace quorate::tools
