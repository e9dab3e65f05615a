// What a message of a client takes when it is decoded. A message within a message, an operation or
// an entry of an access control list say, takes two bytes on the wire and some fifty or more in
// memory, so messages with very many of them are refused before they are decoded.
//
// Thread-safety: functions without state.
#pragma once

#include <cstddef>
#include <string_view>

#include "absl/status/status.h"
#include "rpc/proto/quorate/v1/session.pb.h"

namespace quorate::rpc::native {

// The most messages within one message, at any depth. More than the largest write that MakeRequest
// accepts has: see kIdentityChecksMax.
inline constexpr size_t kPartsMax = 1'000'000;

// Returns how often the field with this number stands in an encoded message. What cannot be decoded
// ends the count.
size_t CountField(std::string_view bytes, int number);

// Returns how many messages there are at any depth within an encoded message of this type, but at
// most one more than `max`. What cannot be decoded is not counted.
size_t CountParts(const google::protobuf::Descriptor& type, std::string_view bytes, size_t max);

// Returns TOO_LARGE, with the reason for the client, if an encoded message of this type has more
// than kPartsMax messages within it.
absl::Status CheckParts(const google::protobuf::Descriptor& type, std::string_view bytes);

// Returns about how many bytes of memory a request takes.
size_t DecodedBytes(const v1::Request& request);

}  // namespace quorate::rpc::native
