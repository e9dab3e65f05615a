// SPDX-License-Identifier: Apache-2.0

// The answers of a server, decoded into named fields, so that two servers' answers can be compared
// field by field.
//
// Thread-safety: values and functions without state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/zookeeper/wire/wire.h"

namespace quorate::differential {

enum class FieldKind {
  kNumber,    // must be the same number
  kError,     // the same, an error code
  kText,      // must be the same bytes
  kZxid,      // the zxid of a change: must have the same place in the order of changes
  kSeenZxid,  // the zxid of a reply header: must not contradict the order of others
  kTime,      // ms since the epoch; the time of the kZxid field `partner` positions before it
  kSession,   // must be the same session
};

struct Field {
  std::string name;
  FieldKind kind = FieldKind::kNumber;
  int64_t number = 0;
  std::string text;
  size_t partner = 0;

  std::string Describe() const;
};

enum class AnswerKind {
  kHandshake,
  kReply,
  kEvent,
  kClosed,   // the server has ended the connection
  kNothing,  // no packet came in time
  kNoMore,   // the end: no more packets came, as expected
};

// One packet from a server, or the end of its packets.
struct Answer {
  AnswerKind kind = AnswerKind::kNoMore;
  wire::OpCode op = wire::kNotification;  // of a reply: the operation of its request
  int32_t xid = 0;                        // of a reply
  int32_t error = 0;
  std::vector<Field> fields;

  std::string Describe() const;
};

std::string_view ToString(AnswerKind kind);

// Decodes `packet`, which has no length prefix.
Answer DecodeHandshake(std::string_view packet);
// Decodes a reply to a request of kind `op`.
Answer DecodeReplyTo(wire::OpCode op, std::string_view packet);
Answer DecodeEvent(std::string_view packet);

}  // namespace quorate::differential
