// SPDX-License-Identifier: Apache-2.0

#include "tree/store/record_files.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/assert.h"
#include "rocksdb/sst_file_writer.h"
#include "tree/store/rocks.h"

namespace quorate::tree {
namespace {

// The free space to ensure, in bytes: more than a database writes to its manifest for a checkpoint.
constexpr size_t kReservedBytes = 256 << 10;

}  // namespace

namespace {

// The last record in a buffer exceeds the buffer's size, mostly by no more than this.
constexpr size_t kSlackBytes = 64u << 10;

}  // namespace

RecordFiles::RecordFiles(const rocksdb::Options& options, std::string directory,
                         size_t buffer_bytes)
    : options_(options), directory_(std::move(directory)), buffer_bytes_(buffer_bytes) {}

RecordFiles::~RecordFiles() {
  // Files that cannot be removed now are removed when the store is opened the next time.
  RemoveDirectory(options_.env, directory_).IgnoreError();
}

std::string_view RecordFiles::Key(const Entry& entry) const {
  return std::string_view(bytes_).substr(entry.at, entry.key_size);
}

absl::Status RecordFiles::Add(std::string_view key, std::optional<std::string_view> value) {
  const std::string_view bytes = value.value_or(std::string_view());
  ASSERT(key.size() <= std::numeric_limits<uint32_t>::max());
  ASSERT(bytes.size() <= std::numeric_limits<uint32_t>::max());
  // Reserves the whole buffer at once instead of growing it, which would copy it. Unused pages take
  // no memory.
  if (bytes_.capacity() < buffer_bytes_) bytes_.reserve(buffer_bytes_ + kSlackBytes);
  entries_.push_back({bytes_.size(), static_cast<uint32_t>(key.size()),
                      static_cast<uint32_t>(bytes.size()), !value.has_value()});
  bytes_.append(key);
  bytes_.append(bytes);
  return bytes_.size() < buffer_bytes_ ? absl::OkStatus() : WriteFile();
}

void RecordFiles::Normalize() {
  std::stable_sort(entries_.begin(), entries_.end(),
                   [this](const Entry& a, const Entry& b) { return Key(a) < Key(b); });
  // Goes from the back, because the last entry of each key is kept.
  const auto kept =
      std::unique(entries_.rbegin(), entries_.rend(),
                  [this](const Entry& a, const Entry& b) { return Key(a) == Key(b); });
  entries_.erase(entries_.begin(), kept.base());
}

absl::Status RecordFiles::WriteFile() {
  rocksdb::Status status;
  if (paths_.empty()) {
    if (absl::Status removed = RemoveDirectory(options_.env, directory_); !removed.ok()) {
      return removed;
    }
    status = options_.env->CreateDir(directory_);
    if (!status.ok()) return ToStatus(status, "creating " + directory_);
  }
  Normalize();
  const std::string& path =
      paths_.emplace_back(directory_ + "/" + std::to_string(paths_.size()) + ".sst");
  rocksdb::SstFileWriter writer(rocksdb::EnvOptions(options_), options_);
  status = writer.Open(path);
  for (const Entry& entry : entries_) {
    if (!status.ok()) break;
    const std::string_view value =
        std::string_view(bytes_).substr(entry.at + entry.key_size, entry.value_size);
    status = entry.removed ? writer.Delete(ToSlice(Key(entry)))
                           : writer.Put(ToSlice(Key(entry)), ToSlice(value));
  }
  // Finish syncs the file too.
  if (status.ok()) status = writer.Finish();
  entries_.clear();
  bytes_.clear();
  return ToStatus(status, "writing " + path);
}

absl::Status RecordFiles::Finish() {
  if (!entries_.empty()) {
    if (absl::Status written = WriteFile(); !written.ok()) return written;
  }
  if (paths_.empty()) return absl::OkStatus();
  // Tests the free space by writing a file, and expects that the space is still free shortly after.
  const std::string path = directory_ + "/room";
  const std::string contents(kReservedBytes, 'r');
  rocksdb::Status status =
      rocksdb::WriteStringToFile(options_.env, contents, path, /*should_sync=*/true);
  if (status.ok()) status = options_.env->DeleteFile(path);
  return ToStatus(status, "writing " + path);
}

absl::Status RecordFiles::TakeInto(rocksdb::DB* db) {
  ASSERT(entries_.empty(), "all entries are written");
  if (paths_.empty()) return absl::OkStatus();
  rocksdb::IngestExternalFileOptions options;
  options.move_files = true;
  // RocksDB must not write to files that are already synced.
  options.write_global_seqno = false;
  // Without this, a file that is partly unreadable would be ingested, and at a wrong place.
  options.verify_checksums_before_ingest = true;
  return ToStatus(db->IngestExternalFile(paths_, options), "taking files into " + db->GetName());
}

}  // namespace quorate::tree
