// What a server sent, taken apart into named fields, so that two servers' answers can be compared
// field by field.
//
// Thread-safety: values and functions without state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/zk/wire/wire.h"

namespace quorate::differential {

enum class FieldKind {
  kNumber,    // has to be the same number
  kError,     // the same, an error code
  kText,      // has to be the same bytes
  kZxid,      // of a change: the same place in the order of changes
  kSeenZxid,  // of a reply header: contradicts no other order
  kTime,      // ms since the epoch; belongs to the kZxid field `partner` positions before it
  kSession,   // the same session
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
  kNothing,  // nothing came in time
  kNoMore,   // nothing more came, as was to be expected
};

// One packet from a server, or the end of them.
struct Answer {
  AnswerKind kind = AnswerKind::kNoMore;
  wire::OpCode op = wire::kNotification;  // of a reply: what was asked
  int32_t xid = 0;                        // of a reply
  int32_t error = 0;
  std::vector<Field> fields;

  std::string Describe() const;
};

std::string_view ToString(AnswerKind kind);

// `packet` without its length prefix.
Answer DecodeHandshake(std::string_view packet);
// A reply to a request of kind `op`.
Answer DecodeReplyTo(wire::OpCode op, std::string_view packet);
Answer DecodeEvent(std::string_view packet);

}  // namespace quorate::differential
