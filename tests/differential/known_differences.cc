// SPDX-License-Identifier: Apache-2.0

#include "tests/differential/known_differences.h"

#include <algorithm>
#include <array>
#include <string>

#include "rpc/zookeeper/wire/wire.h"

namespace quorate::differential {
namespace {

constexpr int64_t kNoWatcher = -121;

bool IsNotificationZxid(const Mismatch& mismatch) {
  return mismatch.our_field != nullptr && mismatch.reference.kind == AnswerKind::kEvent &&
         mismatch.our_field->name == "event zxid" && mismatch.reference_field->number == -1 &&
         mismatch.our_field->number > 0;
}

bool IsCreate2InMulti(const Mismatch& mismatch) {
  return mismatch.our_field != nullptr && mismatch.reference.op == wire::kMulti &&
         mismatch.our_field->name == "item type" &&
         mismatch.reference_field->number == static_cast<int32_t>(wire::kCreate) &&
         mismatch.our_field->number == static_cast<int32_t>(wire::kCreate2);
}

void LeaveOutStat(std::vector<Field>* ours, size_t field) {
  (*ours)[field].number = static_cast<int32_t>(wire::kCreate);
  constexpr size_t kFieldsBeforeStat = 4;  // type, done, error, path
  constexpr size_t kStatFields = 11;
  const size_t from = std::min(field + kFieldsBeforeStat, ours->size());
  const size_t to = std::min(from + kStatFields, ours->size());
  ours->erase(ours->begin() + static_cast<ptrdiff_t>(from),
              ours->begin() + static_cast<ptrdiff_t>(to));
}

// Java encodes a character above U+FFFF as two surrogates of three bytes each.
bool IsSyncOfFourByteCharacter(const Mismatch& mismatch) {
  return mismatch.our_field != nullptr && mismatch.reference.op == wire::kSync &&
         mismatch.our_field->name == "path" &&
         mismatch.our_field->text.find('\xf0') != std::string::npos &&
         mismatch.reference_field->text.find("\xed\xa0") != std::string::npos;
}

bool IsDisconnectedByStranger(const Mismatch& mismatch) {
  return mismatch.operation.kind == OperationKind::kConnect &&
         mismatch.operation.connect == ConnectKind::kWrongPassword &&
         mismatch.reference.kind == AnswerKind::kClosed &&
         mismatch.ours.kind == AnswerKind::kNoMore;
}

// The two clusters have different ports, and ZooKeeper writes this node at each start.
bool IsConfigurationOfTheCluster(const Mismatch& mismatch) {
  if (mismatch.our_field == nullptr) return false;
  const std::string& name = mismatch.our_field->name;
  const auto& requests = mismatch.operation.requests;
  return (name == "data" || name == "dataLength" || name == "mtime") &&
         std::any_of(requests.begin(), requests.end(), [](const Request& request) {
           return request.body.find("/zookeeper/config") != std::string::npos;
         });
}

bool IsWatchOfAnotherClient(const Mismatch& mismatch) {
  return mismatch.our_field != nullptr && mismatch.reference.op == wire::kCheckWatches &&
         mismatch.our_field->name == "err" && mismatch.reference_field->number == 0 &&
         mismatch.our_field->number == kNoWatcher;
}

constexpr std::array kKnownDifferences{
    KnownDifference{"cluster-configuration", IsConfigurationOfTheCluster, nullptr},
    KnownDifference{"notification-zxid", IsNotificationZxid, nullptr},
    KnownDifference{"create2-in-multi", IsCreate2InMulti, LeaveOutStat},
    KnownDifference{"four-byte-utf-8", IsSyncOfFourByteCharacter, nullptr},
    KnownDifference{"watches-of-others", IsWatchOfAnotherClient, nullptr},
    KnownDifference{"stranger-cannot-disconnect", IsDisconnectedByStranger, nullptr},
};

}  // namespace

const KnownDifference* FindKnownDifference(const Mismatch& mismatch) {
  for (const KnownDifference& difference : kKnownDifferences) {
    if (difference.matches(mismatch)) return &difference;
  }
  return nullptr;
}

}  // namespace quorate::differential
