// SPDX-License-Identifier: Apache-2.0

// Decodes the types of ZooKeeper's serialization, jute, besides plain numbers: byte strings that
// may be null, and access control lists. `Reader` is a BigEndianReader or a class with the same
// interface.
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

namespace quorate::zookeeper_files {

// Reads a ustring or buffer; no value if it is null. The reader fails if the bytes are cut off.
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

// Reads a ustring; null counts as empty.
template <typename Reader>
std::string_view ReadString(Reader* reader) {
  return ReadBuffer(reader).value_or(std::string_view());
}

// Reads a list into `*acl`, replacing its content; a null list counts as empty.
template <typename Reader>
void ReadAcl(Reader* reader, std::vector<tree::Acl>* acl) {
  acl->clear();
  const int32_t count = reader->template Int<int32_t>();
  if (count < -1) reader->Fail();
  // Reserves no memory for the count, which may be wrong.
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

}  // namespace quorate::zookeeper_files
