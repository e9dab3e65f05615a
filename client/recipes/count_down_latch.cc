// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/count_down_latch.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/recipes/waiting.h"

namespace quorate {
namespace {

constexpr char kClosed[] = "/closed";
// The data of a latch that is too large to be removed at once, and is being removed in parts.
constexpr char kRemoved[] = "removed";
constexpr size_t kDeletesTogether = 1000;

// Deletes the children of `path` except `closed`, whose deletion wakes the waiters at the end.
// Stops with an error if the version of `path` is not `version` any more.
absl::Status DeleteNames(Client* client, const std::string& path, int32_t version) {
  const absl::StatusOr<ListResult> list = client->List(path);
  if (!list.ok()) return list.status();
  std::vector<std::string> names;
  for (const std::string& name : list->children) {
    if ("/" + name != kClosed) names.push_back(absl::StrCat(path, "/", name));
  }
  for (size_t at = 0; at < names.size(); at += kDeletesTogether) {
    Transaction transaction;
    transaction.CheckVersion(path, version);
    const size_t end = std::min(at + kDeletesTogether, names.size());
    for (size_t i = at; i < end; ++i) transaction.Delete(names[i]);
    if (absl::Status s = client->Commit(transaction).status(); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int64_t> CountDownLatch::Parse(std::string_view data) const {
  const std::optional<int64_t> count = internal::ParseNumber(data);
  if (count.has_value() && *count >= 0) return *count;
  return absl::FailedPreconditionError(
      absl::StrCat(path_, " is not a latch: its data is not a number"));
}

absl::StatusOr<GetResult> CountDownLatch::Read(int deadline_ms) {
  for (;;) {
    // Linearizable, because a server that lags would show an older state: a former latch that is
    // open, or no latch yet.
    absl::StatusOr<GetResult> read =
        client_->Get(path_, {.linearizable = true, .deadline_ms = deadline_ms});
    if (!read.ok() || read->data != kRemoved) return read;
    // The client that began the removal may have crashed.
    if (absl::Status s = FinishRemoval(); !s.ok()) return s;
  }
}

absl::StatusOr<bool> CountDownLatch::Create(int64_t count) {
  if (count < 0) return absl::InvalidArgumentError("the count of a latch must not be negative");
  Transaction transaction;
  transaction.Create(path_, absl::StrCat(count));
  if (count > 0) transaction.Create(absl::StrCat(path_, kClosed));
  absl::Status status = client_->Commit(transaction).status();
  const std::optional<std::string> parent = internal::ParentOf(path_);
  if (ErrorOf(status) == ErrorCode::kNoNode && parent.has_value()) {
    if (absl::Status s = internal::EnsureZnode(client_, *parent); !s.ok()) return s;
    status = client_->Commit(transaction).status();
  }
  if (status.ok()) return true;
  if (ErrorOf(status) != ErrorCode::kNodeExists) return status;
  const absl::StatusOr<GetResult> read = Read();
  if (ErrorOf(read.status()) == ErrorCode::kNoNode) return Create(count);
  if (!read.ok()) return read.status();
  return false;
}

absl::StatusOr<int64_t> CountDownLatch::CountDown(std::string_view name) {
  for (int attempts = 1;; ++attempts) {
    const absl::StatusOr<GetResult> read = Read();
    if (!read.ok()) return read.status();
    const absl::StatusOr<int64_t> count = Parse(read->data);
    if (!count.ok() || *count == 0) return count;
    Transaction transaction;
    transaction.Set(path_, absl::StrCat(*count - 1), read->stat.version);
    if (!name.empty()) transaction.Create(path_ + "/by-" + std::string(name));
    if (*count == 1) transaction.Delete(absl::StrCat(path_, kClosed));
    const absl::Status status = client_->Commit(transaction).status();
    if (status.ok()) return *count - 1;
    const std::optional<ErrorCode> error = ErrorOf(status);
    if (error == ErrorCode::kNodeExists) return Count();
    if (error != ErrorCode::kBadVersion) return status;
    internal::PauseAfterConflict(attempts);
  }
}

absl::StatusOr<int64_t> CountDownLatch::Count() {
  const absl::StatusOr<GetResult> read = Read();
  if (!read.ok()) return read.status();
  return Parse(read->data);
}

absl::Status CountDownLatch::Wait(int deadline_ms) {
  const internal::WaitDeadline deadline(deadline_ms);
  return internal::WaitUntil(client_, absl::StrCat(path_, kClosed), WatchScope::kNode, deadline,
                             absl::StrCat("the latch at ", path_), [&]() -> absl::StatusOr<bool> {
                               const absl::StatusOr<GetResult> read =
                                   Read(deadline.ReadDeadlineMs());
                               if (!read.ok()) return read.status();
                               const absl::StatusOr<int64_t> count = Parse(read->data);
                               if (!count.ok()) return count.status();
                               return *count == 0;
                             });
}

absl::Status CountDownLatch::Remove() {
  absl::Status status = client_->Delete(path_, {.recursive = true}).status();
  if (ErrorOf(status) == ErrorCode::kTooLarge) {
    // Mark the latch first: no name may be deleted while the latch still counts.
    status = client_->Set(path_, kRemoved).status();
    if (status.ok()) return FinishRemoval();
  }
  return ErrorOf(status) == ErrorCode::kNoNode ? absl::OkStatus() : status;
}

absl::Status CountDownLatch::FinishRemoval() {
  for (;;) {
    const absl::StatusOr<GetResult> read = client_->Get(path_, {.linearizable = true});
    if (ErrorOf(read.status()) == ErrorCode::kNoNode) return absl::OkStatus();
    if (!read.ok()) return read.status();
    // This is another latch, created since the removal.
    if (read->data != kRemoved) return absl::OkStatus();
    const int32_t version = read->stat.version;
    absl::Status status = DeleteNames(client_, path_, version);
    if (status.ok()) {
      status = client_->Delete(path_, {.version = version, .recursive = true}).status();
    }
    // Other clients may be removing the latch, too.
    const std::optional<ErrorCode> error = ErrorOf(status);
    if (!status.ok() && error != ErrorCode::kNoNode && error != ErrorCode::kBadVersion) {
      return status;
    }
  }
}

}  // namespace quorate
