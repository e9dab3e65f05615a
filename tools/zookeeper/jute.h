// What ZooKeeper's serialization, jute, has beside plain numbers: byte strings that may be null and
// access control lists. `Reader` is a BigEndianReader or whatever else reads like one.
//
// Thread-safety: functions without state.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "tree/types.h"

namespace quorate::tools::zookeeper {

// A ustring or buffer; no value if it is null. The reader fails if it is cut off.
template <typename Reader>
std::optional<std::string_view> ReadBuffer(Reader* reader) {
  const int32_t size = reader->template Int<int32_t>();
  if (size == -1) return std::nullopt;
  if (size < 0) {
    reader->Fail();
    return std::nullopt;
  }
  return reader->Raw(static_cast<size_t>(size));
}

// One that counts as empty if it is null.
template <typename Reader>
std::string_view ReadString(Reader* reader) {
  return ReadBuffer(reader).value_or(std::string_view());
}

// Replaces `*acl`; a null list is an empty one.
template <typename Reader>
void ReadAcl(Reader* reader, std::vector<tree::Acl>* acl) {
  acl->clear();
  const int32_t count = reader->template Int<int32_t>();
  if (count < -1) reader->Fail();
  // No memory is set aside for a count that was only claimed.
  for (int32_t i = 0; i < count && reader->ok(); ++i) {
    tree::Acl& entry = acl->emplace_back();
    entry.permissions = reader->template Int<int32_t>();
    entry.identity.scheme = ReadString(reader);
    entry.identity.id = ReadString(reader);
  }
}

inline void AppendAcl(std::span<const tree::Acl> acl, std::string* out) {
  BigEndianWriter writer(out);
  writer.Int(static_cast<int32_t>(acl.size()));
  for (const tree::Acl& entry : acl) {
    writer.Int(entry.permissions);
    writer.String(entry.identity.scheme);
    writer.String(entry.identity.id);
  }
}

}  // namespace quorate::tools::zookeeper
