// SPDX-License-Identifier: Apache-2.0

// A shared value of any bytes, of which each client has a copy that follows its changes.
//
//   auto limit = quorate::SharedValue::Start(client.get(), "/limit", "100",
//                                            [](const quorate::VersionedValue& value) { ... });
//   if (!limit.ok()) return limit.status();
//   std::string now = (*limit)->Get().data;     // from memory
//
// Layout and rules for changes: those of AtomicValue (atomic_value.h), with which it can share a
// path, and so with Curator's SharedValue.
//
// The copy never goes back to an older value. A value is in the copy when a member has told of it,
// soon after it was set, by this object as well as by another client; WaitUntilCurrent waits for that.
// Values that follow each other quickly may be skipped. If the znode is deleted, the value is "".
//
// If the session is lost, the copy stays as it is, and follows again in the session by which the
// client replaces it; calls in flight return UNAUTHENTICATED (kSessionExpired). After the client's
// last session has ended it stays for good, which status() reports.
//
// Thread-safety: all functions may be called from any thread; the destructor and functions that
// block (Start, Set, TrySet, WaitUntilCurrent) must not be called on the callback thread. The listener
// is called on the callback thread, and must not block.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/recipes/atomic_value.h"
#include "client/recipes/tree_cache.h"

namespace quorate {

// A copy of a value in a znode, which follows all changes.
class SharedValue {
 public:
  // Called with each value that a member tells of, those of this object included, and with the first.
  // Without a znode, `stat` is nullopt.
  using Listener = std::function<void(const VersionedValue& value)>;

  // Creates the znode with the value `seed`, if it does not exist, and blocks until the copy has its
  // value. `deadline_ms` limits the wait for the value (0: without a deadline), not that for a member that
  // creates and watches the znode. Errors are those of Client. REQUIRES: `client` outlives the returned
  // object.
  static absl::StatusOr<std::unique_ptr<SharedValue>> Start(Client* client, std::string path,
                                                            std::string seed,
                                                            Listener listener = nullptr,
                                                            int deadline_ms = 0);
  // The listener is not called any more after the destructor has returned.
  ~SharedValue() = default;
  SharedValue(const SharedValue&) = delete;
  SharedValue& operator=(const SharedValue&) = delete;

  // Returns the value as it is known locally.
  VersionedValue Get() const;

  // Sets the value unconditionally. Errors are those of AtomicValue.
  absl::Status Set(std::string data);
  // Sets the value if it is still `previous`, a result of Get. Returns whether it was; if not, the copy
  // may not have the newer value yet. AtomicValue::Update repeats a change until it is made.
  absl::StatusOr<bool> TrySet(const VersionedValue& previous, std::string data);

  // Blocks until the copy has every change that was acknowledged to any client before this call.
  // Deadline and errors are those of TreeCache::WaitUntilCurrent.
  absl::Status WaitUntilCurrent(int deadline_ms = 0) {
    return copy_->WaitUntilCurrent(deadline_ms);
  }
  // Returns OK while the copy follows changes, also between two sessions; otherwise the reason why it
  // no longer does.
  absl::Status status() const { return copy_->status(); }

 private:
  SharedValue(Client* client, std::string path) : value_(client, path), path_(std::move(path)) {}

  AtomicValue value_;
  const std::string path_;
  std::unique_ptr<TreeCache> copy_;
};

}  // namespace quorate
