// SPDX-License-Identifier: Apache-2.0

// A File and an Env that forward every call to another one: bases of those that change or observe a
// few calls.
//
// Thread-safety: as File and Env.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "consensus/log/env.h"

namespace quorate::consensus {

class ForwardingFile : public File {
 public:
  explicit ForwardingFile(std::unique_ptr<File> file) : file_(std::move(file)) {}

  absl::Status WriteAt(uint64_t offset, std::span<const std::string_view> pieces) override {
    return file_->WriteAt(offset, pieces);
  }
  absl::StatusOr<size_t> ReadAt(uint64_t offset, size_t size, char* to) const override {
    return file_->ReadAt(offset, size, to);
  }
  absl::Status Preallocate(uint64_t size) override { return file_->Preallocate(size); }
  absl::Status Truncate(uint64_t size) override { return file_->Truncate(size); }
  absl::Status Sync() override { return file_->Sync(); }
  absl::StatusOr<uint64_t> Size() const override { return file_->Size(); }

 private:
  const std::unique_ptr<File> file_;
};

class ForwardingEnv : public Env {
 public:
  // `env` must outlive the object.
  explicit ForwardingEnv(Env* env) : env_(*env) {}

  absl::StatusOr<std::unique_ptr<File>> OpenFile(const std::string& path, bool create) override {
    return env_.OpenFile(path, create);
  }
  absl::Status CreateDirectories(const std::string& path) override {
    return env_.CreateDirectories(path);
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    return env_.List(path);
  }
  bool Exists(const std::string& path) override { return env_.Exists(path); }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return env_.Rename(from, to);
  }
  absl::Status Remove(const std::string& path) override { return env_.Remove(path); }
  absl::Status SyncDirectory(const std::string& path) override { return env_.SyncDirectory(path); }
  absl::StatusOr<std::unique_ptr<DirectoryLock>> LockDirectory(const std::string& path) override {
    return env_.LockDirectory(path);
  }

 private:
  Env& env_;
};

}  // namespace quorate::consensus
