// SPDX-License-Identifier: Apache-2.0

// Estimates the memory that a client's message takes when it is decoded. A message within a
// message, such as an operation or an entry of an access control list, takes two bytes on the wire,
// but some fifty or more in memory. Therefore a message with very many of them is refused before it
// is decoded.
//
// Thread-safety: functions without state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "rpc/proto/quorate/v1/session.pb.h"

namespace quorate::rpc::native {

// The maximum number of messages within one message, at any depth. It is more than the number in
// the largest write that MakeRequest accepts: see kIdentityChecksMax.
inline constexpr size_t kPartsMax = 1'000'000;

// Returns how often the field with this number occurs in an encoded message. Counting ends at the
// first part that cannot be decoded.
size_t CountField(std::string_view bytes, int number);

// Returns the number of messages that an encoded message of this type contains at any depth, but at
// most `max` + 1. Parts that cannot be decoded are not counted.
size_t CountParts(const google::protobuf::Descriptor& type, std::string_view bytes, size_t max);

// Returns TOO_LARGE, with the reason for the client, if an encoded message of this type has more
// than kPartsMax messages within it.
absl::Status CheckParts(const google::protobuf::Descriptor& type, std::string_view bytes);

// Returns the session of the contender in an encoded request of LockService or ElectionService; nullopt if
// it has none.
std::optional<int64_t> ContenderSessionOf(std::string_view bytes);

// Returns the approximate memory of a request in bytes.
size_t DecodedBytes(const v1::Request& request);

}  // namespace quorate::rpc::native
