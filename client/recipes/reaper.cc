// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/reaper.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/assert.h"

namespace quorate {
namespace {

// A write ends with its answer or with the session: its outcome would be unknown otherwise.
constexpr CallOptions kNoDeadline{.deadline_ms = -1};

int64_t SteadyMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Reaper::Reaper(Client* client, std::string path, ReaperOptions options)
    : client_(client), path_(std::move(path)), options_([&] {
        if (options.now_ms == nullptr) options.now_ms = &SteadyMs;
        return std::move(options);
      }()) {
  ASSERT(options_.remembered_max > 0);
}

absl::StatusOr<int> Reaper::Reap() {
  if (absl::Status s = internal::CallbackThread::CheckMayBlock(); !s.ok()) return s;
  std::lock_guard<std::mutex> lock(mutex_);
  // A child is empty at least from the end of the list that shows it first to the begin of the last one.
  const int64_t begin_ms = options_.now_ms();
  const absl::StatusOr<ListResult> listed = client_->List(
      path_, {.linearizable = true}, {.kind = ChildKind::kPersistent, .with_stats = true});
  if (ErrorOf(listed.status()) == ErrorCode::kNoNode) {
    empty_.clear();
    return 0;
  }
  if (!listed.ok()) return listed.status();
  const int64_t end_ms = options_.now_ms();
  const std::map<std::string, Empty> before = std::exchange(empty_, {});
  for (size_t i = 0; i < listed->children.size(); ++i) {
    const std::string& name = listed->children[i];
    const Stat& stat = listed->child_stats[i];
    if (stat.children != 0 || stat.ephemeral_session != 0) continue;
    if (stat.data_bytes != 0 && !options_.removes_data) continue;
    Empty empty{stat.created_zxid, stat.modified_zxid, stat.children_version, end_ms};
    const auto seen = before.find(name);
    const bool is_same = seen != before.end() && seen->second.created_zxid == empty.created_zxid &&
                         seen->second.modified_zxid == empty.modified_zxid &&
                         seen->second.children_version == empty.children_version;
    if (is_same) {
      empty.since_ms = seen->second.since_ms;
      empty.is_seen_again = true;
    }
    // Those that were remembered before have precedence.
    if (!is_same && empty_.size() + before.size() >= options_.remembered_max) continue;
    empty_.emplace(name, empty);
  }
  int removed = 0;
  for (auto each = empty_.begin(); each != empty_.end();) {
    const Empty& empty = each->second;
    if (!empty.is_seen_again || begin_ms - empty.since_ms < options_.empty_for_ms) {
      ++each;
      continue;
    }
    const absl::StatusOr<bool> is_removed = Remove(each->first, empty);
    if (!is_removed.ok()) return is_removed.status();
    removed += *is_removed ? 1 : 0;
    each = empty_.erase(each);
  }
  return removed;
}

absl::StatusOr<bool> Reaper::Remove(const std::string& name, const Empty& empty) {
  const std::string node = path_ == "/" ? "/" + name : absl::StrCat(path_, "/", name);
  const absl::Status status =
      client_
          ->Commit(Transaction()
                       .CheckStat(node, {.created_zxid = empty.created_zxid,
                                         .modified_zxid = empty.modified_zxid,
                                         .children_version = empty.children_version,
                                         .children = 0})
                       .Delete(node),
                   kNoDeadline)
          .status();
  if (status.ok()) return true;
  const std::optional<ErrorCode> error = ErrorOf(status);
  const bool is_kept = error == ErrorCode::kNoNode || error == ErrorCode::kBadVersion ||
                       error == ErrorCode::kNotEmpty || error == ErrorCode::kNoAuth;
  if (!is_kept) return status;
  return false;
}

}  // namespace quorate
