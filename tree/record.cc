// SPDX-License-Identifier: Apache-2.0

#include "tree/record.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "base/strings.h"
#include "tree/path.h"

namespace quorate::tree {
namespace {

constexpr uint8_t kFormat = 1;
constexpr uint8_t kHeadFormatAfterLeap = 2;
constexpr int32_t kSessionFormat = -2;  // format of a session with numbered writes
constexpr size_t kProposerBytes = 18;
constexpr size_t kMinAclBytes = 12;
constexpr size_t kMaxStringBytes = std::numeric_limits<int32_t>::max();

// The sign bit, flipped so that negative numbers come first in the order of bytes.
constexpr uint64_t kSignBit = uint64_t{1} << 63;

constexpr uint8_t kHasData = 1;
constexpr uint8_t kHasOwner = 2;
constexpr uint8_t kHasAcl = 4;
constexpr uint8_t kAllFlags = kHasData | kHasOwner | kHasAcl;

void ReadAcl(LittleEndianReader* reader, std::vector<Acl>* acl) {
  const uint32_t count = reader->Int<uint32_t>();
  // Refuses a count that is larger than the rest can hold, before memory is allocated for it.
  if (count == 0 || count > reader->rest().size() / kMinAclBytes) return reader->Fail();
  acl->reserve(count);
  for (uint32_t i = 0; i < count && reader->ok(); ++i) {
    Acl& entry = acl->emplace_back();
    entry.permissions = reader->Int<int32_t>();
    entry.identity.scheme = reader->String();
    entry.identity.id = reader->String();
  }
}

// Returns whether a name has only letters, digits and common punctuation: a fast check. Other names
// are checked in full.
bool IsPlainName(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  });
}

bool IsValidName(std::string_view name) {
  if (IsPlainName(name)) return true;
  if (name.empty() || name.find('/') != std::string_view::npos) return false;
  std::string path = "/";
  path.append(name);
  return IsValidPath(path);
}

absl::Status CheckNode(std::string_view key, const NodeRecord& node) {
  const bool is_root = node.key == NodeKey{};
  if (node.key.czxid < Zxid(0)) return BadRecord("has a negative zxid", key);
  if (is_root ? node.parent != node.key : node.parent >= node.key) {
    return BadRecord("has a parent that was not created before it", key);
  }
  if (is_root ? !node.name.empty() : !IsValidName(node.name)) {
    return BadRecord("has an illegal name", key);
  }
  if (node.mzxid < node.key.czxid || node.pzxid < node.key.czxid) {
    return BadRecord("was changed before it was created", key);
  }
  if (node.data.size() > kMaxStringBytes) return BadRecord("has too much data", key);
  const NodeKind kind = KindOf(node.owner);
  if (is_root && kind != NodeKind::kPersistent)
    return BadRecord("is a root that is not persistent", key);
  if (kind == NodeKind::kEphemeral && node.children > 0) {
    return BadRecord("is ephemeral and has children", key);
  }
  if (kind == NodeKind::kTtl && !IsValidTtl(TtlOf(node.owner))) {
    return BadRecord("has an impossible TTL", key);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status BadRecord(std::string_view what, std::string_view key) {
  constexpr size_t kShownBytes = 32;
  return absl::DataLossError(absl::StrCat(
      "record ", absl::BytesToHexString(ToAbsl(key.substr(0, kShownBytes))), " ", ToAbsl(what),
      ": damaged, or written by another version of the program; restore the data from another "
      "server or from a backup"));
}

void EncodeHeadKey(std::string* key) { key->assign(1, static_cast<char>(RecordKind::kHead)); }

void EncodeSessionKey(SessionId id, std::string* key) {
  key->clear();
  BigEndianWriter writer(key);
  writer.Int(static_cast<uint8_t>(RecordKind::kSession));
  writer.Int(static_cast<uint64_t>(id.value()) ^ kSignBit);
}

void EncodeNodeKey(const NodeKey& node, std::string* key) {
  ASSERT(node.czxid >= Zxid(0), "a negative zxid would change the order of keys");
  key->clear();
  BigEndianWriter writer(key);
  writer.Int(static_cast<uint8_t>(RecordKind::kNode));
  writer.Int(node.czxid.value());
  writer.Int(node.ordinal);
}

void EncodeHead(const HeadRecord& head, std::string* value) {
  value->clear();
  LittleEndianWriter writer(value);
  const bool after_leap = head.ttls_held_until_ms != 0;
  writer.Int(after_leap ? kHeadFormatAfterLeap : kFormat);
  writer.Int(head.zxid.value());
  writer.Int(head.time_ms);
  if (after_leap) writer.Int(head.ttls_held_until_ms);
  writer.Int(head.digest);
  writer.Int(head.nodes);
  writer.Int(head.sessions);
  writer.Int(static_cast<uint32_t>(head.proposers.size()));
  for (const auto& [member, last] : head.proposers) {
    writer.Int(member);
    writer.Int(last.incarnation);
    writer.Int(last.sequence);
  }
}

void EncodeSession(const Session& session, std::string* value) {
  ASSERT(session.timeout_ms >= 0, "a negative number would be read as a format");
  value->clear();
  LittleEndianWriter writer(value);
  if (session.answers != nullptr) writer.Int(kSessionFormat);
  writer.Int(session.timeout_ms);
  writer.Int(session.attach_zxid.value());
  writer.Int(session.member);
  if (session.answers == nullptr) {
    writer.Raw(session.password);
    return;
  }
  writer.String(session.password);
  writer.Int(session.answers->last_sequence());
  writer.Int(session.answers->acknowledged());
  writer.Raw(session.answers->bytes());
}

void EncodeNode(const Znode& node, const AclTable& acls, std::string* value) {
  const bool has_acl = node.acl_id != kOpenAclId;
  const bool has_owner = node.owner() != kNoSession;
  const NodeKey parent = KeyOf(node.parent == nullptr ? node : *node.parent);
  value->clear();
  LittleEndianWriter writer(value);
  writer.Int(static_cast<uint8_t>((node.data.has_data() ? kHasData : 0) |
                                  (has_owner ? kHasOwner : 0) | (has_acl ? kHasAcl : 0)));
  writer.Int(parent.czxid.value());
  writer.Int(parent.ordinal);
  writer.Int(node.mzxid.value());
  writer.Int(node.pzxid().value());
  writer.Int(node.ctime_ms);
  writer.Int(node.mtime_ms);
  writer.Int(node.version);
  writer.Int(node.created_children());
  writer.Int(node.aversion());
  writer.Int(node.children().size());
  if (has_owner) writer.Int(node.owner().value());
  writer.String(node.name());
  if (has_acl) {
    const std::vector<Acl>& acl = acls.Get(node.acl_id);
    writer.Int(static_cast<uint32_t>(acl.size()));
    for (const Acl& entry : acl) {
      writer.Int(entry.permissions);
      writer.String(entry.identity.scheme);
      writer.String(entry.identity.id);
    }
  }
  writer.Raw(node.data.view());
}

absl::StatusOr<RecordKind> DecodeKind(std::string_view key) {
  const uint8_t kind = key.empty() ? 0 : static_cast<uint8_t>(key.front());
  if (kind < static_cast<uint8_t>(RecordKind::kHead) ||
      kind > static_cast<uint8_t>(RecordKind::kNode)) {
    return BadRecord("is of an unknown kind", key);
  }
  return static_cast<RecordKind>(kind);
}

absl::StatusOr<HeadRecord> DecodeHead(std::string_view key, std::string_view value) {
  if (key.size() != 1) return BadRecord("has a key of the wrong size", key);
  LittleEndianReader reader(value);
  const uint8_t format = reader.Int<uint8_t>();
  const bool after_leap = format == kHeadFormatAfterLeap;
  if (format != kFormat && !after_leap) return BadRecord("has an unknown format", key);
  HeadRecord head;
  head.zxid = Zxid(reader.Int<int64_t>());
  head.time_ms = reader.Int<int64_t>();
  if (after_leap) head.ttls_held_until_ms = reader.Int<int64_t>();
  head.digest = reader.Int<uint64_t>();
  head.nodes = reader.Int<uint64_t>();
  head.sessions = reader.Int<uint64_t>();
  const uint32_t count = reader.Int<uint32_t>();
  if (!reader.ok() || reader.rest().size() != count * kProposerBytes) {
    return BadRecord("is of the wrong size", key);
  }
  if (head.zxid < Zxid(0) || head.time_ms < 0 || (after_leap && head.ttls_held_until_ms <= 0))
    return BadRecord("has negative numbers", key);
  for (uint32_t i = 0; i < count; ++i) {
    const uint16_t member = reader.Int<uint16_t>();
    DedupTable::Last last;
    last.incarnation = reader.Int<uint64_t>();
    last.sequence = reader.Int<uint64_t>();
    const bool ascends = head.proposers.empty() || head.proposers.rbegin()->first < member;
    if (member == kNoMember || last.sequence == 0 || !ascends) {
      return BadRecord("has an invalid proposer", key);
    }
    head.proposers.emplace(member, last);
  }
  return head;
}

absl::StatusOr<SessionRecord> DecodeSession(std::string_view key, std::string_view value) {
  BigEndianReader key_reader(key.substr(1));
  SessionRecord session;
  session.id = SessionId(static_cast<int64_t>(key_reader.Int<uint64_t>() ^ kSignBit));
  if (!key_reader.ok() || !key_reader.empty()) return BadRecord("has a key of wrong size", key);
  if (session.id == kNoSession) return BadRecord("is a session of id 0", key);
  LittleEndianReader reader(value);
  const int32_t first = reader.Int<int32_t>();
  const bool has_answers = first == kSessionFormat;
  session.timeout_ms = has_answers ? reader.Int<int32_t>() : first;
  if (session.timeout_ms < 0) return BadRecord("has an unknown format", key);
  session.attach_zxid = Zxid(reader.Int<int64_t>());
  session.member = reader.Int<uint16_t>();
  session.password = has_answers ? reader.String() : reader.rest();
  if (has_answers) {
    session.last_sequence = reader.Int<uint64_t>();
    session.acknowledged = reader.Int<uint64_t>();
    session.answers = reader.rest();
  }
  if (!reader.ok()) return BadRecord("is too short", key);
  if (has_answers && !ResponseCache::IsValid(session.last_sequence, session.acknowledged,
                                             session.answers, &session.answered_zxid)) {
    return BadRecord("has an invalid response cache", key);
  }
  return session;
}

absl::Status DecodeNode(std::string_view key, std::string_view value, NodeRecord* record) {
  BigEndianReader key_reader(key.substr(1));
  record->key.czxid = Zxid(key_reader.Int<int64_t>());
  record->key.ordinal = key_reader.Int<uint32_t>();
  if (!key_reader.ok() || !key_reader.empty()) return BadRecord("has a key of wrong size", key);
  LittleEndianReader reader(value);
  const uint8_t flags = reader.Int<uint8_t>();
  if ((flags & ~kAllFlags) != 0) return BadRecord("has unknown flags", key);
  record->parent.czxid = Zxid(reader.Int<int64_t>());
  record->parent.ordinal = reader.Int<uint32_t>();
  record->mzxid = Zxid(reader.Int<int64_t>());
  record->pzxid = Zxid(reader.Int<int64_t>());
  record->ctime_ms = reader.Int<int64_t>();
  record->mtime_ms = reader.Int<int64_t>();
  record->version = reader.Int<int32_t>();
  record->created_children = reader.Int<int32_t>();
  record->aversion = reader.Int<int32_t>();
  record->children = reader.Int<uint32_t>();
  const bool has_owner = (flags & kHasOwner) != 0;
  record->owner = has_owner ? SessionId(reader.Int<int64_t>()) : kNoSession;
  if (has_owner && record->owner == kNoSession) return BadRecord("has session 0 as owner", key);
  record->name = reader.String();
  record->acl.clear();
  if ((flags & kHasAcl) != 0) ReadAcl(&reader, &record->acl);
  if (!reader.ok()) return BadRecord("is cut short", key);
  record->has_data = (flags & kHasData) != 0;
  record->data = reader.rest();
  if (!record->has_data && !record->data.empty())
    return BadRecord("has bytes after its null data", key);
  if ((flags & kHasAcl) != 0 && IsOpenAcl(record->acl)) {
    return BadRecord("has the open ACL, which is never written", key);
  }
  return CheckNode(key, *record);
}

}  // namespace quorate::tree
