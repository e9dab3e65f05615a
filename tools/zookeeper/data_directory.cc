// SPDX-License-Identifier: Apache-2.0

#include "tools/zookeeper/data_directory.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/strings.h"
#include "rpc/zookeeper_files/digest.h"
#include "tools/zookeeper/byte_source.h"
#include "tools/zookeeper/mapped_file.h"
#include "tools/zookeeper/snapshot_file.h"
#include "tools/zookeeper/transaction_log.h"

namespace quorate::tools::zookeeper {
namespace {

using tree::Zxid;

constexpr size_t kTransactionsBetweenProgress = 1'000'000;
constexpr char kGiveWholeLog[] =
    "; give the dataLogDir of zoo.cfg, with all its files, with --zookeeper-log";
constexpr char kOrGoOn[] = ", or --ignore-gaps to continue without them";

struct File {
  Zxid zxid;  // from its name
  std::string path;
};

std::string Hex(Zxid zxid) { return absl::StrFormat("0x%x", zxid.value()); }
int64_t EpochOf(Zxid zxid) { return zxid.value() >> 32; }
int64_t CounterOf(Zxid zxid) { return zxid.value() & 0xFFFFFFFF; }

// Returns the zxid of a file's name, such as "log.2a" with the prefix "log."; no value if the name
// has another form.
std::optional<Zxid> ZxidOf(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  for (const std::string_view extension : {".gz", ".snappy"}) {
    if (name.ends_with(extension)) name.remove_suffix(extension.size());
  }
  int64_t zxid = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), zxid, 16);
  const bool is_number = error == std::errc{} && end == name.data() + name.size();
  // Excludes the greatest zxid, which has no next one.
  if (!is_number || zxid < 0 || zxid == std::numeric_limits<int64_t>::max()) return std::nullopt;
  return Zxid(zxid);
}

// Returns the directory version-2 in `directory`, or `directory` itself if that is version-2.
std::string VersionDirectory(const std::string& directory) {
  std::error_code error;
  const std::filesystem::path inside = std::filesystem::path(directory) / "version-2";
  return std::filesystem::is_directory(inside, error) ? inside.string() : directory;
}

// Returns the files in ascending order of their zxids.
absl::StatusOr<std::vector<File>> ListFiles(const std::string& directory, std::string_view prefix) {
  std::error_code error;
  std::filesystem::directory_iterator at(directory, error);
  std::vector<File> files;
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    const std::optional<Zxid> zxid = ZxidOf(at->path().filename().string(), prefix);
    if (zxid.has_value()) files.push_back({*zxid, at->path().string()});
  }
  if (error) {
    return absl::NotFoundError(absl::StrCat("cannot read ", directory, ": ", error.message()));
  }
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) {
    return a.zxid != b.zxid ? a.zxid < b.zxid : a.path < b.path;
  });
  return files;
}

class Loader {
 public:
  Loader(const DataDirectory& directory, const std::function<void(const std::string&)>& progress)
      : directory_(directory), progress_(progress) {}

  absl::StatusOr<LoadedDirectory> Load() {
    if (absl::Status s = LoadSnapshot(); !s.ok()) return s;
    if (absl::Status s = ReplayLogs(); !s.ok()) return s;
    if (absl::Status s = CheckComplete(); !s.ok()) return s;
    if (absl::Status s = CheckDigest(); !s.ok()) return s;
    const absl::StatusOr<size_t> orphans = loaded_.data_tree->Finish(loaded_.last_zxid);
    if (!orphans.ok()) return orphans.status();
    loaded_.orphans = *orphans;
    return std::move(loaded_);
  }

 private:
  absl::Status LoadSnapshot();
  absl::Status ReplayLogs();
  absl::Status ReplayLog(const File& file, bool is_last);
  absl::Status CheckFollows(const TransactionLog& log, Zxid zxid);
  void CompareDigest(uint64_t digest, const std::string& where);
  void CompareSnapshotDigest();
  void CompareDigests(const TransactionLog& log, const Transaction& transaction);
  absl::Status CheckDigest();
  absl::Status CheckComplete();
  void Warn(std::string warning) { loaded_.warnings.push_back(std::move(warning)); }

  const DataDirectory& directory_;
  const std::function<void(const std::string&)>& progress_;
  LoadedDirectory loaded_;
  SnapshotDigest snapshot_digest_;
  // The newest change in the snapshot. Before this zxid the tree is not that of a single point in
  // time.
  Zxid fuzzy_until_;
  // How the last checked digest differs; empty if it was equal. Only the last one counts: a
  // snapshot may contain a few changes that are newer than its digest, and differs until the log
  // has reached them, too.
  std::string digest_differs_;
  // The newest zxid of the unusable snapshots: the logs must reach it.
  Zxid known_;
};

absl::Status Loader::LoadSnapshot() {
  const std::string directory = VersionDirectory(directory_.data_dir);
  absl::StatusOr<std::vector<File>> files = ListFiles(directory, "snapshot.");
  if (!files.ok()) return files.status();
  absl::Status first_error;
  for (auto file = files->rbegin(); file != files->rend(); ++file) {
    progress_(absl::StrCat("reading ", file->path));
    auto data_tree = std::make_unique<DataTree>();
    absl::StatusOr<SnapshotDigest> digest = [&]() -> absl::StatusOr<SnapshotDigest> {
      auto source = OpenFile(file->path);
      if (!source.ok()) return source.status();
      auto bytes = Decompress(*std::move(source));
      if (!bytes.ok()) {
        return absl::Status(bytes.status().code(),
                            absl::StrCat(file->path, ": ", bytes.status().message()));
      }
      return ReadSnapshot(file->path, bytes->get(), data_tree.get(),
                          [this](size_t nodes) { progress_(absl::StrCat(nodes, " nodes read")); });
    }();
    if (!digest.ok()) {
      if (first_error.ok()) first_error = digest.status();
      Warn(absl::StrCat("not used: ", digest.status().message()));
      known_ = std::max(known_, file->zxid);
      continue;
    }
    loaded_.data_tree = std::move(data_tree);
    loaded_.last_zxid = file->zxid;
    loaded_.snapshot = file->path;
    snapshot_digest_ = *digest;
    fuzzy_until_ = std::max(loaded_.data_tree->newest_change(), snapshot_digest_.zxid);
    CompareSnapshotDigest();
    return absl::OkStatus();
  }
  if (!first_error.ok()) return first_error;
  return absl::NotFoundError(absl::StrCat(
      directory,
      " has no snapshot of ZooKeeper (files called snapshot.<zxid>): is it the dataDir "
      "of zoo.cfg? A server writes its first snapshot when it starts"));
}

absl::Status Loader::ReplayLogs() {
  const std::string& directory =
      directory_.log_dir.empty() ? directory_.data_dir : directory_.log_dir;
  absl::StatusOr<std::vector<File>> files = ListFiles(VersionDirectory(directory), "log.");
  if (!files.ok()) return files.status();
  if (files->empty()) {
    Warn(absl::StrCat(VersionDirectory(directory),
                      " has no log (files called log.<zxid>): what was written after the snapshot "
                      "of zxid ",
                      Hex(loaded_.last_zxid),
                      " is not there; if zoo.cfg has a dataLogDir, give it with --zookeeper-log"));
  }
  // Reads the log during which the snapshot was written, and all later logs.
  const Zxid next(loaded_.last_zxid.value() + 1);
  const auto behind =
      std::upper_bound(files->begin(), files->end(), next,
                       [](Zxid zxid, const File& file) { return zxid < file.zxid; });
  for (auto file = behind == files->begin() ? behind : behind - 1; file != files->end(); ++file) {
    if (absl::Status s = ReplayLog(*file, file + 1 == files->end()); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status Loader::ReplayLog(const File& file, bool is_last) {
  progress_(absl::StrCat("reading ", file.path));
  auto mapped = MappedFile::Open(file.path);
  if (!mapped.ok()) return mapped.status();
  TransactionLog log(file.path, (*mapped)->bytes());
  absl::StatusOr<bool> more = log.Open();
  Transaction transaction;
  while (more.ok() && *more) {
    more = log.Next(&transaction);
    if (!more.ok() || !*more) break;
    // The snapshot certainly contains this transaction, or a server wrote it again after losing it.
    if (transaction.zxid <= loaded_.last_zxid) continue;
    if (absl::Status s = CheckFollows(log, transaction.zxid); !s.ok()) return s;
    loaded_.data_tree->Apply(transaction);
    loaded_.last_zxid = transaction.zxid;
    if (++loaded_.transactions % kTransactionsBetweenProgress == 0) {
      progress_(absl::StrCat(loaded_.transactions, " transactions applied"));
    }
    CompareDigests(log, transaction);
  }
  if (!more.ok()) return more.status();
  if (log.torn_at().has_value()) {
    // The beginning of the next log shows whether transactions are missing.
    Warn(absl::StrCat(file.path, " ends with a torn record at offset ", *log.torn_at(),
                      is_last ? ", which was never acknowledged" : ""));
  }
  return absl::OkStatus();
}

absl::Status Loader::CheckFollows(const TransactionLog& log, Zxid zxid) {
  const Zxid last = loaded_.last_zxid;
  // A new leader begins a new epoch, whose counter begins at 1.
  const bool is_new_epoch = EpochOf(zxid) > EpochOf(last) && CounterOf(zxid) <= 1;
  if (zxid.value() == last.value() + 1 || is_new_epoch) return absl::OkStatus();
  const std::string what =
      absl::StrCat("transactions are missing: after ", Hex(last), " comes ", Hex(zxid), " (",
                   log.name(), ", offset ", log.offset(), ")");
  if (!directory_.ignore_gaps) {
    return absl::DataLossError(absl::StrCat(what, kGiveWholeLog, kOrGoOn));
  }
  Warn(what);
  return absl::OkStatus();
}

void Loader::CompareDigest(uint64_t digest, const std::string& where) {
  if (digest == loaded_.data_tree->digest()) {
    ++loaded_.digests_checked;
    digest_differs_.clear();
  } else if (digest_differs_.empty()) {
    digest_differs_ = absl::StrCat("at zxid ", Hex(loaded_.last_zxid),
                                   " the tree is not what ZooKeeper's digest says (", where, ")");
  }
}

void Loader::CompareSnapshotDigest() {
  const bool is_there = snapshot_digest_.zxid > Zxid(0) &&
                        snapshot_digest_.version == zookeeper_files::kDigestVersion;
  if (!is_there || snapshot_digest_.zxid != loaded_.last_zxid) return;
  CompareDigest(snapshot_digest_.digest, loaded_.snapshot);
}

void Loader::CompareDigests(const TransactionLog& log, const Transaction& transaction) {
  CompareSnapshotDigest();
  if (transaction.zxid < fuzzy_until_ ||
      transaction.digest_version != zookeeper_files::kDigestVersion)
    return;
  CompareDigest(transaction.digest, absl::StrCat(log.name(), ", offset ", log.offset()));
}

absl::Status Loader::CheckDigest() {
  if (digest_differs_.empty()) return absl::OkStatus();
  if (!directory_.ignore_digest) {
    return absl::DataLossError(absl::StrCat(
        digest_differs_, "; the data of another server may be better; --ignore-digest continues"));
  }
  Warn(digest_differs_);
  return absl::OkStatus();
}

absl::Status Loader::CheckComplete() {
  const Zxid last = loaded_.last_zxid;
  const Zxid newest = loaded_.data_tree->newest_change();
  if (newest > last) {
    return absl::DataLossError(absl::StrCat(
        loaded_.snapshot, " holds changes up to zxid ", Hex(newest), ", and the log ends at ",
        Hex(last),
        ": a snapshot is not of a single point in time and needs the log written during it",
        kGiveWholeLog));
  }
  // The greatest zxid that a later snapshot, or the end of this one, proves to have existed.
  const Zxid known = std::max(known_, snapshot_digest_.zxid);
  if (known <= last) return absl::OkStatus();
  const std::string what = absl::StrCat("transactions are missing: the log ends at zxid ",
                                        Hex(last), ", and there were some up to ", Hex(known));
  if (!directory_.ignore_gaps) {
    return absl::DataLossError(absl::StrCat(what, kGiveWholeLog, kOrGoOn));
  }
  Warn(what);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LoadedDirectory> LoadDirectory(
    const DataDirectory& directory, const std::function<void(const std::string&)>& progress) {
  return Loader(directory, progress).Load();
}

}  // namespace quorate::tools::zookeeper
