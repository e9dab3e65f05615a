// SPDX-License-Identifier: Apache-2.0

#include "tools/backup/restored_tree.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tree/command.h"

namespace quorate::tools {
namespace {

class NoListener : public tree::ApplyListener {
 public:
  void OnNodeEvent(tree::EventType, std::string_view, tree::Zxid, const tree::EventAcls&) override {
  }
  void OnSessionAttached(const tree::SessionInfo&) override {}
  void OnSessionClosed(tree::SessionId, tree::Zxid) override {}
  void OnResult(tree::ApplyResult) override {}
};

void CloseSessions(tree::Tree* tree) {
  NoListener listener;
  for (const tree::SessionInfo& session : tree->Sessions()) {
    tree::CommandHeader header;
    header.kind = tree::CommandKind::kExpireSession;
    header.session = session.id;
    header.attach_zxid = session.attach_zxid;
    header.time_ms = tree->time_ms();
    std::string command;
    tree::AppendCloseSession(header, &command);
    tree->Apply(tree->last_zxid() + 1, command, {}, &listener);
  }
}

// Empties /zookeeper/config if it names the members of the cluster that was backed up, which are not
// those of the new one: servers then show the members of their configuration.
void ForgetMembers(tree::Tree* tree) {
  tree::Stat stat;
  // Data that an administrator wrote has another version.
  if (!tree->FindStat("/zookeeper/config", &stat) || stat.data_length == 0 || stat.version != -1) {
    return;
  }
  NoListener listener;
  tree->SetConfig(tree->last_zxid() + 1, "", &listener);
}

}  // namespace

absl::Status PrepareRestoredTree(const RestoreOptions& options, tree::Tree* tree) {
  const auto backup_zxid = static_cast<uint64_t>(tree->last_zxid().value());
  constexpr uint64_t kFirstZxidMax = uint64_t{1} << 62;
  if (backup_zxid > kFirstZxidMax || options.zxid_bump > kFirstZxidMax - backup_zxid) {
    return absl::InvalidArgumentError(
        absl::StrCat("the backup's zxid ", backup_zxid, " plus ", options.zxid_bump,
                     " is above 2^62, and would leave too few zxids; use a smaller --zxid-bump"));
  }
  const tree::Zxid first(static_cast<int64_t>(backup_zxid + options.zxid_bump));
  if (first > tree->last_zxid()) tree->Skip(first);
  ForgetMembers(tree);
  if (options.without_sessions) CloseSessions(tree);
  return absl::OkStatus();
}

std::string RestoredClusterId(const tree::BackupTotals& totals, const RestoreOptions& options,
                              const tree::Tree& tree, std::vector<uint64_t> voters,
                              std::vector<uint64_t> observers, const std::string& cluster_name) {
  std::sort(voters.begin(), voters.end());
  std::sort(observers.begin(), observers.end());
  tree::BackupChecksum id;
  id.Add("cluster");
  id.Add(totals.checksum);
  id.Add(absl::StrCat("sessions ", options.without_sessions ? "closed" : "kept", ";"));
  id.Add(absl::StrCat("zxid ", tree.last_zxid().value(), " digest ", tree.digest(), ";"));
  id.Add(absl::StrCat("voters ", absl::StrJoin(voters, ","), ";"));
  id.Add(absl::StrCat("observers ", absl::StrJoin(observers, ","), ";"));
  id.Add(cluster_name);
  return id.Value();
}

}  // namespace quorate::tools
