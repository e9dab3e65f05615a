// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/shared_value.h"

#include <optional>
#include <utility>

#include "client/recipes/waiting.h"

namespace quorate {
namespace {

// Returns a listener for the TreeCache that passes the values to `listener`.
TreeCache::Listener Translate(SharedValue::Listener listener) {
  if (listener == nullptr) return nullptr;
  return [listener = std::move(listener)](const TreeCache::Change& change) {
    using Type = TreeCache::Change::Type;
    if (change.type == Type::kAdded || change.type == Type::kChanged) {
      listener({change.znode.data, change.znode.stat});
    } else if (change.type == Type::kRemoved) {
      listener({});
    }
  };
}

}  // namespace

absl::StatusOr<std::unique_ptr<SharedValue>> SharedValue::Start(Client* client, std::string path,
                                                                std::string seed, Listener listener,
                                                                int deadline_ms) {
  const internal::WaitDeadline deadline(deadline_ms);
  std::unique_ptr<SharedValue> shared(new SharedValue(client, path));
  // Nothing if the znode exists.
  const auto seeded = shared->value_.TrySet(VersionedValue{}, std::move(seed));
  if (!seeded.ok()) return seeded.status();
  auto copy =
      TreeCache::Start(client, std::move(path), Translate(std::move(listener)), WatchScope::kNode);
  if (!copy.ok()) return copy.status();
  shared->copy_ = *std::move(copy);
  const int left_ms = deadline_ms <= 0 ? 0 : deadline.ReadDeadlineMs();
  if (absl::Status s = shared->copy_->WaitUntilLoaded(left_ms); !s.ok()) return s;
  return shared;
}

VersionedValue SharedValue::Get() const {
  std::optional<TreeCache::Znode> znode = copy_->Find(path_);
  if (!znode.has_value()) return {};
  return {std::move(znode->data), znode->stat};
}

absl::Status SharedValue::Set(std::string data) { return value_.Set(std::move(data)).status(); }

absl::StatusOr<bool> SharedValue::TrySet(const VersionedValue& previous, std::string data) {
  const auto made = value_.TrySet(previous, std::move(data));
  if (!made.ok()) return made.status();
  return made->has_value();
}

}  // namespace quorate
