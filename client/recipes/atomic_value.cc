// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/atomic_value.h"

#include "client/recipes/waiting.h"

namespace quorate {

absl::StatusOr<VersionedValue> AtomicValue::Get(ReadOptions options) {
  absl::StatusOr<GetResult> read = client_->Get(path_, options);
  if (ErrorOf(read.status()) == ErrorCode::kNoNode) return VersionedValue{};
  if (!read.ok()) return read.status();
  return VersionedValue{std::move(read->data), read->stat};
}

absl::StatusOr<std::optional<VersionedValue>> AtomicValue::TrySet(const VersionedValue& previous,
                                                                  std::string data) {
  if (!previous.stat.has_value()) {
    const absl::StatusOr<CreateResult> created =
        client_->Create(path_, data, {.create_parents = true});
    if (ErrorOf(created.status()) == ErrorCode::kNodeExists) return std::nullopt;
    if (!created.ok()) return created.status();
    return VersionedValue{std::move(data), created->stat};
  }
  const absl::StatusOr<Stat> set = client_->Set(path_, data, {.version = previous.stat->version});
  const std::optional<ErrorCode> error = ErrorOf(set.status());
  if (error == ErrorCode::kBadVersion || error == ErrorCode::kNoNode) return std::nullopt;
  if (!set.ok()) return set.status();
  return VersionedValue{std::move(data), *set};
}

absl::StatusOr<bool> AtomicValue::CompareAndSet(std::string_view expected,
                                                std::string_view desired) {
  for (int attempts = 1;; ++attempts) {
    const absl::StatusOr<VersionedValue> before = Get();
    if (!before.ok()) return before.status();
    if (before->data != expected) return false;
    const auto made = TrySet(*before, std::string(desired));
    if (!made.ok()) return made.status();
    if (made->has_value()) return true;
    internal::PauseAfterConflict(attempts);
  }
}

absl::StatusOr<VersionedValue> AtomicValue::Update(
    const std::function<absl::StatusOr<std::string>(std::string_view before)>& change) {
  bool is_linearizable = false;
  for (int attempts = 1;; ++attempts) {
    // A stale value does no harm if it is to be changed: TrySet returns nothing, and after that this
    // session reads a newer one.
    const absl::StatusOr<VersionedValue> before = Get({.linearizable = is_linearizable});
    if (!before.ok()) return before.status();
    absl::StatusOr<std::string> data = change(before->data);
    if (!data.ok()) {
      // An error must not be that of a stale value.
      if (is_linearizable) return data.status();
      is_linearizable = true;
      continue;
    }
    auto made = TrySet(*before, *std::move(data));
    if (!made.ok()) return made.status();
    if (made->has_value()) return **std::move(made);
    internal::PauseAfterConflict(attempts);
  }
}

absl::StatusOr<VersionedValue> AtomicValue::Set(std::string data) {
  for (;;) {
    const absl::StatusOr<Stat> set = client_->Set(path_, data);
    if (set.ok()) return VersionedValue{std::move(data), *set};
    if (ErrorOf(set.status()) != ErrorCode::kNoNode) return set.status();
    auto made = TrySet(VersionedValue{}, data);
    if (!made.ok()) return made.status();
    if (made->has_value()) return **std::move(made);
  }
}

}  // namespace quorate
