// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/native/contender_queue.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include "base/assert.h"
#include "rpc/frontend/listing.h"

namespace quorate::rpc::native {
namespace {

constexpr std::string_view kLockPrefix = "lock-";
constexpr std::string_view kLatchPrefix = "latch-";
constexpr std::string_view kKazooPrefix = "__lock__";
constexpr std::string_view kProtection = "_c_";
constexpr size_t kIdBytesMax = 64;
constexpr size_t kDigits = 10;

// Returns the number if `text` is one as the tree appends it to a name.
std::optional<int32_t> NumberOf(std::string_view text) {
  const bool has_ten_digits_and_sign =
      text.size() == kDigits + 1 && text[0] == '-' && text[1] != '0';
  if (text.size() != kDigits && !has_ten_digits_and_sign) return std::nullopt;
  int32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<int32_t> NumberAfter(std::string_view name, std::string_view prefix) {
  const size_t found = name.rfind(prefix);
  if (found == std::string_view::npos) return std::nullopt;
  return NumberOf(name.substr(found + prefix.size()));
}

std::optional<int32_t> NumberOfName(const std::string& name, std::string_view prefix) {
  if (name.empty()) return std::nullopt;
  return ContenderNumber(name, prefix);
}

}  // namespace

std::optional<std::string_view> PrefixOf(v1::QueueLayout layout) {
  switch (layout) {
    case v1::QUEUE_LAYOUT_UNSPECIFIED:
    case v1::QUEUE_LAYOUT_LOCK:
      return kLockPrefix;
    case v1::QUEUE_LAYOUT_LATCH:
      return kLatchPrefix;
    default:
      return std::nullopt;
  }
}

bool IsContenderId(std::string_view id) {
  if (id.empty() || id.size() > kIdBytesMax) return false;
  return std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

std::string ContenderPrefix(std::string_view id, std::string_view prefix) {
  std::string name(kProtection);
  name.append(id).append("-").append(prefix);
  return name;
}

std::optional<int32_t> ContenderNumber(std::string_view name, std::string_view prefix) {
  const std::optional<int32_t> number = NumberAfter(name, prefix);
  if (number.has_value() || prefix != kLockPrefix) return number;
  return NumberAfter(name, kKazooPrefix);
}

std::string_view ContenderId(std::string_view name, std::string_view prefix) {
  if (name.substr(0, kProtection.size()) != kProtection) return {};
  const size_t found = name.rfind(prefix);
  if (found == std::string_view::npos || found < kProtection.size() + 1) return {};
  return name.substr(kProtection.size(), found - kProtection.size() - 1);
}

bool QueuedContender::IsBefore(std::string_view other_name, int32_t other_number) const {
  const auto distance =
      static_cast<int32_t>(static_cast<uint32_t>(number) - static_cast<uint32_t>(other_number));
  return distance == 0 ? name < other_name : distance < 0;
}

QueueScan::QueueScan(std::string path, std::string_view prefix, std::string own_prefix,
                     tree::SessionId session, std::string own_name)
    : path_(std::move(path)),
      prefix_(prefix),
      own_prefix_(std::move(own_prefix)),
      session_(session),
      own_name_(std::move(own_name)),
      own_number_(NumberOfName(own_name_, prefix_)) {}

tree::ErrorCode QueueScan::ReadNext(const tree::Tree& tree,
                                    std::span<const tree::Identity> identities, size_t* spent) {
  ASSERT(!done());
  tree::Stat stat;
  const tree::ErrorCode error = tree.ReadChildren(
      path_, identities, kNodesPerHold,
      [&](std::string_view name) {
        ++*spent;
        See(tree, name, spent);
      },
      &place_, &stat);
  if (error != tree::ErrorCode::kOk) return error;
  if (queue_zxid_.value_or(stat.czxid) != stat.czxid) {
    Restart();
  } else {
    queue_zxid_ = stat.czxid;
  }
  return error;
}

void QueueScan::Restart() {
  queue_zxid_.reset();
  place_ = {};
  own_.clear();
  first_.reset();
  before_.reset();
  ahead_ = 0;
}

void QueueScan::See(const tree::Tree& tree, std::string_view name, size_t* spent) {
  const std::optional<int32_t> number = ContenderNumber(name, prefix_);
  if (!number.has_value()) return;
  const QueuedContender seen{std::string(name), *number};
  if (!first_.has_value() || seen.IsBefore(first_->name, first_->number)) first_ = seen;
  if (own_number_.has_value() && seen.IsBefore(own_name_, *own_number_)) {
    ++ahead_;
    if (!before_.has_value() || before_->IsBefore(seen.name, seen.number)) before_ = seen;
  }
  if (!IsOwn(tree, name, spent)) return;
  const auto place = std::find_if(own_.begin(), own_.end(), [&](const QueuedContender& each) {
    return seen.IsBefore(each.name, each.number);
  });
  own_.insert(place, seen);
  if (own_.size() > kOwnMax) own_.pop_back();
}

bool QueueScan::IsOwn(const tree::Tree& tree, std::string_view name, size_t* spent) const {
  if (own_prefix_.empty() || name.substr(0, own_prefix_.size()) != own_prefix_) return false;
  if (!NumberOf(name.substr(own_prefix_.size())).has_value()) return false;
  ++*spent;
  tree::Stat stat;
  return tree.FindStat(path_ + "/" + std::string(name), &stat) && stat.ephemeral_owner == session_;
}

}  // namespace quorate::rpc::native
