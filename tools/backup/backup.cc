// SPDX-License-Identifier: Apache-2.0

#include "tools/backup/backup.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "base/crc32c.h"
#include "rpc/proto/times.h"
#include "tools/backup/backup_stream.h"
#include "tools/cli/cluster_client.h"
#include "tools/cli/progress_bar.h"
#include "tools/cli/text.h"
#include "tools/offline/load_backup.h"
#include "tree/record.h"
#include "tree/store/backup_file.h"

namespace quorate::tools {
namespace {

constexpr auto kMessageTimeout = std::chrono::seconds(30);
// The most failures in a row, without a new record in between, before the backup fails.
constexpr int kFailuresMax = 12;
// The most failures in a row after which the backup resumes. After more, it drops the data that it
// has and starts from the beginning.
constexpr int kResumesMax = 4;
constexpr auto kRetryAfterMin = std::chrono::milliseconds(100);
constexpr auto kRetryAfterMax = std::chrono::seconds(2);

struct Options {
  std::string file;
  bool force = false;
  uint64_t mebibytes_per_second = 0;
};

// Fetches a backup into a file from one member, and starts again from another one if that fails.
// Does not resume an earlier run, but replaces its file: that file lacks writes that were
// acknowledged since that run began, and the member drops the checkpoint from which it was read
// some minutes after the connection has ended.
class Download {
 public:
  Download(std::vector<std::string> servers, const Access& access, std::string path,
           uint64_t bytes_per_second)
      : servers_(std::move(servers)),
        access_(access),
        path_(std::move(path)),
        bytes_per_second_(bytes_per_second),
        progress_("backup") {}

  absl::Status Run();

  // Return the address of the member that sent the backup, and the totals of the file.
  const std::string& source() const { return source_; }
  const tree::BackupTotals& totals() const { return totals_; }

 private:
  // Returns the best member to ask: among those that serve and have failed least often, the one
  // with the lowest load. Unavailable if there is none.
  absl::StatusOr<std::string> Choose();
  // Continues the current backup, or begins one. Returns OK once everything is written.
  absl::Status Fetch();
  absl::Status Take(const v1::BackupResponse& response);
  absl::Status Begin(const v1::BackupBegin& begin);
  absl::Status TakeRecords(const v1::BackupRecords& records);
  absl::Status Finish(const v1::BackupEnd& end);
  // Marks an error of the local disk: asking again is pointless.
  absl::Status Local(absl::Status status) {
    if (!status.ok()) local_error_ = true;
    return status;
  }
  void Forget();

  const std::vector<std::string> servers_;
  const Access access_;
  const std::string path_;
  const uint64_t bytes_per_second_;
  ProgressBar progress_;
  std::map<std::string, int> failures_of_;  // by server
  int failures_ = 0;                        // in a row

  std::string source_;
  std::optional<v1::BackupBegin> begin_;
  std::unique_ptr<tree::BackupFileWriter> writer_;
  std::string last_key_;
  uint64_t records_ = 0;
  uint64_t records_of_stream_ = 0;
  uint64_t records_total_ = 0;
  bool finished_ = false;
  bool local_error_ = false;
  tree::BackupTotals totals_;
};

absl::Status Download::Run() {
  while (true) {
    if (source_.empty()) {
      auto chosen = Choose();
      if (chosen.ok()) {
        source_ = *chosen;
        progress_.Say(absl::StrCat("backup from ", source_));
        progress_.Restart(absl::StrCat("backup from ", source_));
      } else if (++failures_ > kFailuresMax || absl::IsInvalidArgument(chosen.status())) {
        return chosen.status();
      }
    }
    if (!source_.empty()) {
      const absl::Status status = Fetch();
      if (status.ok()) {
        progress_.Finish();
        return absl::OkStatus();
      }
      const absl::Status failed(status.code(), absl::StrCat(source_, ": ", status.message()));
      if (local_error_) return status;
      if (absl::IsPermissionDenied(status) || absl::IsUnauthenticated(status)) return failed;
      if (++failures_ > kFailuresMax) return failed;
      ++failures_of_[source_];
      const bool goes_on =
          begin_.has_value() && !absl::IsNotFound(status) && failures_ <= kResumesMax;
      progress_.Say(
          absl::StrCat(std::string(failed.message()), goes_on ? "; going on where it broke off"
                                                              : "; starting from the beginning"));
      if (!goes_on) Forget();
    }
    const auto wait = kRetryAfterMin * (1 << std::min(failures_ - 1, 8));
    std::this_thread::sleep_for(std::min<std::chrono::milliseconds>(wait, kRetryAfterMax));
  }
}

absl::StatusOr<std::string> Download::Choose() {
  // The leader has the highest load, an observer the lowest.
  const auto cost = [](v1::Role role) {
    return role == v1::ROLE_OBSERVER ? 0 : role == v1::ROLE_FOLLOWER ? 1 : 2;
  };
  std::optional<std::pair<int, int>> best_cost;
  std::string best;
  std::string problems;
  for (const StatusAnswer& answer : AskAll(servers_, access_)) {
    if (!answer.status.ok()) {
      absl::StrAppend(&problems, "; ", answer.address, ": ", answer.status.status().message());
    } else if (!answer.status->serving()) {
      absl::StrAppend(&problems, "; ", answer.address, ": it has no leader");
    } else {
      const std::pair<int, int> its_cost(failures_of_[answer.address], cost(answer.status->role()));
      if (best_cost.has_value() && *best_cost <= its_cost) continue;
      best_cost = its_cost;
      best = answer.address;
    }
  }
  if (best_cost.has_value()) return best;
  return absl::UnavailableError(absl::StrCat("no server can make a backup", problems));
}

void Download::Forget() {
  source_.clear();
  begin_.reset();
  writer_.reset();
  last_key_.clear();
  records_ = records_total_ = 0;
}

absl::Status Download::Fetch() {
  ClusterClient client(source_, access_);
  v1::BackupRequest request;
  request.set_bytes_per_second_max(bytes_per_second_);
  if (begin_.has_value()) {
    request.mutable_resume()->set_zxid(begin_->zxid());
    request.mutable_resume()->set_last_key(last_key_);
  }
  records_of_stream_ = 0;
  finished_ = false;
  BackupStream stream(&client, request);
  v1::BackupResponse response;
  while (true) {
    const auto more = stream.Next(&response, kMessageTimeout);
    if (!more.ok()) return more.status();
    if (!*more) break;
    if (absl::Status s = Take(response); !s.ok()) return s;
  }
  return finished_ ? absl::OkStatus()
                   : absl::DataLossError("the stream ended before the backup was complete");
}

absl::Status Download::Take(const v1::BackupResponse& response) {
  if (finished_) return absl::DataLossError("the server sent more after the end of the backup");
  switch (response.part_case()) {
    case v1::BackupResponse::kBegin:
      return Begin(response.begin());
    case v1::BackupResponse::kRecords:
      return TakeRecords(response.records());
    case v1::BackupResponse::kEnd:
      return Finish(response.end());
    default:
      return absl::DataLossError("the server sent a message of an unknown kind");
  }
}

absl::Status Download::Begin(const v1::BackupBegin& begin) {
  if (begin_.has_value()) {
    const bool same = begin_->zxid() == begin.zxid() && begin_->digest() == begin.digest() &&
                      begin_->cluster_id() == begin.cluster_id();
    return same ? absl::OkStatus()
                : absl::NotFoundError(
                      "the server does not have the interrupted backup any more; start the backup "
                      "again");
  }
  if (begin.cluster_id().size() != 16 || begin.zxid() <= 0 || begin.term() == 0) {
    return absl::DataLossError(
        "the server began a backup without naming its cluster, zxid and term; use another server");
  }
  tree::BackupHeader header;
  header.cluster_id = begin.cluster_id();
  header.zxid = tree::Zxid(begin.zxid());
  header.term = begin.term();
  header.digest = begin.digest();
  header.made_ms = v1::ToMs(begin.begin_time()).value_or(0);
  header.voters.assign(begin.voters().begin(), begin.voters().end());
  header.observers.assign(begin.observers().begin(), begin.observers().end());
  auto writer = tree::BackupFileWriter::Create(path_, header);
  if (!writer.ok()) return Local(writer.status());
  writer_ = *std::move(writer);
  begin_ = begin;
  return absl::OkStatus();
}

absl::Status Download::TakeRecords(const v1::BackupRecords& records) {
  if (writer_ == nullptr) return absl::DataLossError("the server sent records too early");
  if (Crc32c(records.records()) != records.crc32c()) {
    return absl::DataLossError("records were damaged on their way");
  }
  LittleEndianReader reader(records.records());
  while (!reader.empty()) {
    const auto key_size = reader.Int<uint32_t>();
    const auto value_size = reader.Int<uint32_t>();
    const std::string_view key = reader.Raw(key_size);
    const std::string_view value = reader.Raw(value_size);
    if (!reader.ok() || key <= last_key_ ||
        key.size() + value.size() > tree::kBackupRecordBytesMax) {
      return absl::DataLossError(
          "the server sent records that cannot be decoded or are out of order");
    }
    if (records_ == 0) {
      const auto head = tree::DecodeHead(key, value);
      if (head.ok()) records_total_ = 1 + head->nodes + head->sessions;
    }
    if (absl::Status s = Local(writer_->Add(key, value)); !s.ok()) return s;
    last_key_ = key;
    ++records_;
    ++records_of_stream_;
  }
  failures_ = 0;
  progress_.Update(records_, records_total_, writer_->bytes());
  return absl::OkStatus();
}

absl::Status Download::Finish(const v1::BackupEnd& end) {
  if (writer_ == nullptr || end.records() != records_of_stream_) {
    return absl::DataLossError("the server's number of records differs from that received");
  }
  auto totals = writer_->Finish();
  if (!totals.ok()) return Local(totals.status());
  writer_.reset();
  totals_ = *totals;
  finished_ = true;
  return absl::OkStatus();
}

// --- The command ---------------------------------------------------------------------------------

void Print(const LoadedBackup& backup, const std::string& file, const std::string& source,
           bool json) {
  const tree::BackupHeader& header = backup.header;
  const auto zxid = static_cast<uint64_t>(header.zxid.value());
  if (json) {
    const nlohmann::ordered_json document = {
        {"file", file},
        {"server", source},
        {"zxid", Hex(zxid)},
        {"term", header.term},
        {"nodes", backup.tree->node_count()},
        {"sessions", backup.tree->session_count()},
        {"digest", Hex(header.digest)},
        {"bytes", backup.totals.file_bytes},
        {"checksum", HexBytes(backup.totals.checksum)},
        {"cluster_id", HexBytes(header.cluster_id)},
        {"made_ms", header.made_ms},
    };
    std::cout << document.dump(2) << "\n";
    return;
  }
  std::cout << file << ": zxid " << Hex(zxid) << ", " << backup.tree->node_count() << " znodes, "
            << backup.tree->session_count() << " sessions, digest " << Hex(header.digest) << ", "
            << backup.totals.file_bytes << " bytes\n";
}

absl::Status RunBackup(const GlobalOptions& global, const Options& options) {
  auto servers = ParseServers(global.servers);
  if (!servers.ok()) return servers.status();
  std::error_code error;
  if (!options.force && std::filesystem::exists(options.file, error)) {
    return absl::FailedPreconditionError(
        absl::StrCat(options.file, ": it is there already; choose another name, or use --force"));
  }
  const std::string partial = options.file + ".partial";
  auto access = Access::Load(global.tls, {.file = global.token_file}, *servers);
  if (!access.ok()) return access.status();
  Download download(*servers, *access, partial, options.mebibytes_per_second << 20);
  if (absl::Status s = download.Run(); !s.ok()) return s;
  ProgressBar progress("reading the file again");
  auto backup = LoadBackup(partial, &progress);
  if (!backup.ok()) return backup.status();
  if (backup->totals != download.totals()) {
    return absl::DataLossError(
        absl::StrCat(partial, ": its contents differ from what was written"));
  }
  if (std::rename(partial.c_str(), options.file.c_str()) != 0) {
    return absl::InternalError(
        absl::StrCat(partial, ": cannot be renamed to ", options.file, ": ", std::strerror(errno)));
  }
  if (absl::Status s = tree::SyncDirectoryOf(options.file); !s.ok()) return s;
  Print(*backup, options.file, download.source(), global.json);
  return absl::OkStatus();
}

}  // namespace

void AddBackupCommand(CommandLine* command_line) {
  auto options = std::make_shared<Options>();
  CLI::App* command = command_line->Add(
      command_line->root(), "backup", "Save the whole tree and its sessions in a file",
      [command_line, options] { return RunBackup(command_line->global(), *options); });
  command->add_option("file", options->file, "The file to create")->required();
  command->add_flag("--force", options->force, "Replace the file if it exists");
  command
      ->add_option("--rate", options->mebibytes_per_second,
                   "MiB a second at most (default: what the server allows)")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 20));
  command->footer(
      "The file has every write that was acknowledged before the command began. The command asks\n"
      "the members that --server names, followers before the leader. The file is called\n"
      "FILE.partial until it is complete and was read again. It holds all znodes, even those that\n"
      "access control lists protect, and the passwords of sessions: keep it where only\n"
      "administrators can read it.\n"
      "\n"
      "If a connection breaks, the backup resumes; if a member dies, the backup starts from the\n"
      "beginning with another member. If the command itself was ended, run it again: it replaces\n"
      "FILE.partial and starts from the beginning, because the file has to have the writes that\n"
      "were acknowledged since the earlier run began.");
}

}  // namespace quorate::tools
