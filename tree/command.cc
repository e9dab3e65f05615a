// SPDX-License-Identifier: Apache-2.0

#include "tree/command.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "base/strings.h"
#include "tree/node_kind.h"

namespace quorate::tree {
namespace {

constexpr uint8_t kFormat = 1;
constexpr size_t kTimeOffset = 8;
constexpr size_t kSequenceOffset = 24;
constexpr size_t kMaxStringBytes = std::numeric_limits<int32_t>::max();

// The minimum size of an element of a list, in bytes. A count that is too large for the rest of the
// command is refused before memory is allocated for it.
constexpr size_t kMinIdentityBytes = 8;
constexpr size_t kMinAclBytes = 12;
constexpr size_t kMinOpBytes = 5;
constexpr size_t kMinCompareBytes = 10;

// Flags in the first byte of a request. A request without kEnforcesQuota has the same bytes as
// before quotas were added.
constexpr uint8_t kIsMulti = 1;
constexpr uint8_t kEnforcesQuota = 2;
constexpr uint8_t kHasBranches = 4;

// The bit in the kind of a create that holds Op::with_parents.
constexpr uint8_t kWithParents = 0x80;

// The bit in a header's time field that holds CommandHeader::bounds_time.
constexpr int64_t kBoundsTime = int64_t{1} << 62;

int64_t EncodeTime(int64_t time_ms, bool bounds_time) {
  return bounds_time ? time_ms | kBoundsTime : time_ms;
}

void AppendHeader(const CommandHeader& header, CommandKind kind, std::string* out) {
  LittleEndianWriter writer(out);
  writer.Int(kFormat);
  writer.Int(static_cast<uint8_t>(kind));
  writer.Int(header.proposer.member);
  writer.Int(header.proposer_tag);
  writer.Int(EncodeTime(header.time_ms, header.bounds_time));
  writer.Int(header.proposer.incarnation);
  writer.Int(header.sequence);
  writer.Int(header.session.value());
  writer.Int(header.attach_zxid.value());
}

void AppendString(std::string_view bytes, LittleEndianWriter* writer) {
  ASSERT(bytes.size() <= kMaxStringBytes, "front ends limit the size of each string");
  writer->String(bytes);
}

void AppendSessionBody(const CommandHeader& header, CommandKind kind, int32_t timeout_ms,
                       std::string_view password, std::string* out) {
  ASSERT(header.session != kNoSession, "a session has an id");
  AppendHeader(header, kind, out);
  LittleEndianWriter writer(out);
  writer.Int(timeout_ms);
  AppendString(password, &writer);
}

void AppendAcl(const std::vector<Acl>& acl, LittleEndianWriter* writer) {
  writer->Int(static_cast<uint32_t>(acl.size()));
  for (const Acl& entry : acl) {
    writer->Int(entry.permissions);
    AppendString(entry.identity.scheme, writer);
    AppendString(entry.identity.id, writer);
  }
}

void AppendData(const Op& op, LittleEndianWriter* writer) {
  ASSERT(op.has_data || op.data.empty(), "null data has no bytes");
  writer->Int(static_cast<uint8_t>(op.has_data));
  if (op.has_data) AppendString(op.data, writer);
}

void AppendStat(const Stat& stat, LittleEndianWriter* writer) {
  writer->Int(stat.czxid.value());
  writer->Int(stat.mzxid.value());
  writer->Int(stat.ctime_ms);
  writer->Int(stat.mtime_ms);
  writer->Int(stat.version);
  writer->Int(stat.cversion);
  writer->Int(stat.aversion);
  writer->Int(stat.ephemeral_owner.value());
  writer->Int(stat.data_length);
  writer->Int(stat.num_children);
  writer->Int(stat.pzxid.value());
}

bool IsCreate(OpKind kind) {
  return kind == OpKind::kCreate || kind == OpKind::kCreateContainer ||
         kind == OpKind::kCreateTtl || kind == OpKind::kCreateIfNotExists;
}

void AppendOp(const Op& op, LittleEndianWriter* writer) {
  ASSERT(!op.with_parents || IsCreate(op.kind), "only creates have missing parents");
  writer->Int(
      static_cast<uint8_t>(static_cast<uint8_t>(op.kind) | (op.with_parents ? kWithParents : 0)));
  AppendString(op.path, writer);
  switch (op.kind) {
    case OpKind::kCreate:
    case OpKind::kCreateContainer:
    case OpKind::kCreateTtl:
    case OpKind::kCreateIfNotExists:
      writer->Int(static_cast<int32_t>(op.mode));
      AppendData(op, writer);
      AppendAcl(op.acl, writer);
      if (op.kind == OpKind::kCreateTtl) writer->Int(op.ttl_ms);
      return;
    case OpKind::kDelete:
    case OpKind::kDeleteRecursive:
    case OpKind::kCheck:
    case OpKind::kCheckNotExists:
    case OpKind::kTryDelete:
      writer->Int(op.version);
      return;
    case OpKind::kCheckAbsent:
    case OpKind::kGet:
    case OpKind::kExists:
    case OpKind::kGetChildren:
      return;
    case OpKind::kRemoveSubtree:
      writer->Int(op.limit);
      return;
    case OpKind::kCheckStat:
      writer->Int(op.version);
      AppendStat(op.expected, writer);
      return;
    case OpKind::kCheckCreated:
      writer->Int(op.created_zxid.value());
      return;
    case OpKind::kRefused:
      ASSERT(IsRefusal(op.refusal));
      writer->Int(static_cast<int32_t>(op.refusal));
      return;
    case OpKind::kSetData:
      writer->Int(op.version);
      AppendData(op, writer);
      return;
    case OpKind::kSetAcl:
      writer->Int(op.version);
      AppendAcl(op.acl, writer);
      return;
  }
  ASSERT(false, "unknown kind of operation");
}

void AppendCompare(const Compare& compare, LittleEndianWriter* writer) {
  writer->Int(static_cast<uint8_t>(compare.target));
  writer->Int(static_cast<uint8_t>(compare.relation));
  AppendString(compare.path, writer);
  if (compare.target == CompareTarget::kValue) {
    AppendString(compare.value, writer);
  } else {
    writer->Int(compare.number);
  }
}

void AppendBranches(const Request& request, LittleEndianWriter* writer) {
  ASSERT(request.multi, "a request with branches is a multi");
  ASSERT(request.then_count <= request.ops.size());
  writer->Int(static_cast<uint32_t>(request.then_count));
  writer->Int(static_cast<uint32_t>(request.compares.size()));
  for (const Compare& compare : request.compares) AppendCompare(compare, writer);
}

void AppendRequestBody(const Request& request, LittleEndianWriter* writer) {
  ASSERT(request.multi || request.ops.size() == 1, "several operations are a multi");
  writer->Int(static_cast<uint8_t>((request.multi ? kIsMulti : 0) |
                                   (request.enforces_quota ? kEnforcesQuota : 0) |
                                   (request.has_branches ? kHasBranches : 0)));
  writer->Int(static_cast<uint32_t>(request.identities.size()));
  for (const Identity& identity : request.identities) {
    AppendString(identity.scheme, writer);
    AppendString(identity.id, writer);
  }
  writer->Int(static_cast<uint32_t>(request.ops.size()));
  for (const Op& op : request.ops) AppendOp(op, writer);
  if (request.has_branches) AppendBranches(request, writer);
}

std::string_view ReadString(LittleEndianReader* reader) {
  const std::string_view bytes = reader->String();
  if (bytes.size() > kMaxStringBytes) reader->Fail();
  return bytes;
}

bool ReadBool(LittleEndianReader* reader) {
  const uint8_t value = reader->Int<uint8_t>();
  if (value > 1) reader->Fail();
  return value == 1;
}

// Reads the number of elements of a list; 0 if the rest of the command cannot hold that many.
uint32_t ReadCount(size_t min_element_bytes, LittleEndianReader* reader) {
  const uint32_t count = reader->Int<uint32_t>();
  if (count > reader->rest().size() / min_element_bytes) {
    reader->Fail();
    return 0;
  }
  return count;
}

Identity ReadIdentity(LittleEndianReader* reader) {
  Identity identity;
  identity.scheme = ReadString(reader);
  identity.id = ReadString(reader);
  return identity;
}

void ReadAcl(LittleEndianReader* reader, std::vector<Acl>* acl) {
  const uint32_t count = ReadCount(kMinAclBytes, reader);
  acl->reserve(count);
  for (uint32_t i = 0; i < count && reader->ok(); ++i) {
    Acl& entry = acl->emplace_back();
    entry.permissions = reader->Int<int32_t>();
    entry.identity = ReadIdentity(reader);
  }
}

void ReadData(LittleEndianReader* reader, Op* op) {
  op->has_data = ReadBool(reader);
  if (op->has_data) op->data = ReadString(reader);
}

void ReadStat(LittleEndianReader* reader, Stat* stat) {
  stat->czxid = Zxid(reader->Int<int64_t>());
  stat->mzxid = Zxid(reader->Int<int64_t>());
  stat->ctime_ms = reader->Int<int64_t>();
  stat->mtime_ms = reader->Int<int64_t>();
  stat->version = reader->Int<int32_t>();
  stat->cversion = reader->Int<int32_t>();
  stat->aversion = reader->Int<int32_t>();
  stat->ephemeral_owner = SessionId(reader->Int<int64_t>());
  stat->data_length = reader->Int<int32_t>();
  stat->num_children = reader->Int<int32_t>();
  stat->pzxid = Zxid(reader->Int<int64_t>());
}

void ReadOp(LittleEndianReader* reader, Op* op) {
  const uint8_t kind = reader->Int<uint8_t>();
  op->with_parents = (kind & kWithParents) != 0;
  op->kind = static_cast<OpKind>(kind & ~kWithParents);
  if (op->with_parents && !IsCreate(op->kind)) return reader->Fail();
  op->path = ReadString(reader);
  switch (op->kind) {
    case OpKind::kCreate:
    case OpKind::kCreateContainer:
    case OpKind::kCreateTtl:
    case OpKind::kCreateIfNotExists:
      op->mode = static_cast<CreateMode>(reader->Int<int32_t>());
      ReadData(reader, op);
      ReadAcl(reader, &op->acl);
      if (op->kind == OpKind::kCreateTtl) op->ttl_ms = reader->Int<int64_t>();
      return;
    case OpKind::kDelete:
    case OpKind::kDeleteRecursive:
    case OpKind::kCheck:
    case OpKind::kCheckNotExists:
    case OpKind::kTryDelete:
      op->version = reader->Int<int32_t>();
      return;
    case OpKind::kCheckAbsent:
    case OpKind::kGet:
    case OpKind::kExists:
    case OpKind::kGetChildren:
      return;
    case OpKind::kRemoveSubtree:
      op->limit = reader->Int<uint32_t>();
      return;
    case OpKind::kCheckStat:
      op->version = reader->Int<int32_t>();
      ReadStat(reader, &op->expected);
      return;
    case OpKind::kCheckCreated:
      op->created_zxid = Zxid(reader->Int<int64_t>());
      return;
    case OpKind::kRefused:
      op->refusal = static_cast<ErrorCode>(reader->Int<int32_t>());
      if (!IsRefusal(op->refusal)) reader->Fail();
      return;
    case OpKind::kSetData:
      op->version = reader->Int<int32_t>();
      ReadData(reader, op);
      return;
    case OpKind::kSetAcl:
      op->version = reader->Int<int32_t>();
      ReadAcl(reader, &op->acl);
      return;
  }
  reader->Fail();
}

void ReadCompare(LittleEndianReader* reader, Compare* compare) {
  const uint8_t target = reader->Int<uint8_t>();
  const uint8_t relation = reader->Int<uint8_t>();
  const bool is_known = target >= static_cast<uint8_t>(CompareTarget::kExists) &&
                        target <= static_cast<uint8_t>(CompareTarget::kValue) &&
                        relation >= static_cast<uint8_t>(CompareRelation::kEqual) &&
                        relation <= static_cast<uint8_t>(CompareRelation::kGreater);
  if (!is_known) return reader->Fail();
  compare->target = static_cast<CompareTarget>(target);
  compare->relation = static_cast<CompareRelation>(relation);
  compare->path = ReadString(reader);
  if (compare->target == CompareTarget::kValue) {
    compare->value = ReadString(reader);
  } else {
    compare->number = reader->Int<int64_t>();
  }
}

void ReadBranches(LittleEndianReader* reader, Request* request) {
  request->then_count = reader->Int<uint32_t>();
  if (!request->multi || request->then_count > request->ops.size()) return reader->Fail();
  const uint32_t count = ReadCount(kMinCompareBytes, reader);
  request->compares.reserve(count);
  for (uint32_t i = 0; i < count && reader->ok(); ++i) {
    ReadCompare(reader, &request->compares.emplace_back());
  }
}

uint32_t VersionNeeded(const Op& op) {
  if (op.with_parents) return kVersionTransactions;
  switch (op.kind) {
    case OpKind::kCreate:
    case OpKind::kDelete:
    case OpKind::kSetData:
    case OpKind::kCheck:
    case OpKind::kSetAcl:
      return kVersionFirst;
    case OpKind::kCreateContainer:
    case OpKind::kCreateTtl:
      return kVersionExpiry;
    case OpKind::kCheckAbsent:
    case OpKind::kDeleteRecursive:
      return kVersionNumbered;
    case OpKind::kCheckCreated:
    case OpKind::kRefused:
      return kVersionCheckCreated;
    case OpKind::kCheckNotExists:
    case OpKind::kCreateIfNotExists:
    case OpKind::kRemoveSubtree:
    case OpKind::kCheckStat:
    case OpKind::kTryDelete:
      return kVersionKeeper;
    case OpKind::kGet:
    case OpKind::kExists:
    case OpKind::kGetChildren:
      return kVersionTransactions;
  }
  ASSERT(false, "unknown kind of operation: decoding refuses it");
}

bool IsKnownKind(uint8_t kind) {
  return kind >= static_cast<uint8_t>(CommandKind::kCreateSession) &&
         kind <= static_cast<uint8_t>(CommandKind::kSequencedRequest);
}

absl::Status BadCommand(std::string_view what, std::string_view command) {
  return absl::InvalidArgumentError(
      absl::StrCat("command of ", command.size(), " bytes ", ToAbsl(what),
                   ": written by another version of the program, or damaged"));
}

// Decodes the rest of `command` as a Request; `reader` must be at its end afterwards.
absl::StatusOr<Request> ReadRequestBody(std::string_view command, LittleEndianReader* reader) {
  Request request;
  const uint8_t flags = reader->Int<uint8_t>();
  if ((flags & ~(kIsMulti | kEnforcesQuota | kHasBranches)) != 0) reader->Fail();
  request.multi = (flags & kIsMulti) != 0;
  request.enforces_quota = (flags & kEnforcesQuota) != 0;
  request.has_branches = (flags & kHasBranches) != 0;
  const uint32_t identities = ReadCount(kMinIdentityBytes, reader);
  request.identities.reserve(identities);
  for (uint32_t i = 0; i < identities && reader->ok(); ++i) {
    request.identities.push_back(ReadIdentity(reader));
  }
  const uint32_t ops = ReadCount(kMinOpBytes, reader);
  request.ops.reserve(ops);
  for (uint32_t i = 0; i < ops && reader->ok(); ++i) ReadOp(reader, &request.ops.emplace_back());
  if (request.has_branches) ReadBranches(reader, &request);
  if (!reader->ok()) return BadCommand("has a request that is cut short or malformed", command);
  if (!reader->empty()) return BadCommand("has bytes after its request", command);
  if (!request.multi && ops != 1) {
    return BadCommand("is no multi but has not exactly one operation", command);
  }
  return request;
}

}  // namespace

bool IsValidCreate(const Op& op) {
  const CreateMode mode = op.mode;
  if (mode < CreateMode::kPersistent || mode > CreateMode::kPersistentSequentialWithTtl)
    return false;
  const bool has_ttl =
      mode == CreateMode::kPersistentWithTtl || mode == CreateMode::kPersistentSequentialWithTtl;
  if (has_ttl != (op.kind == OpKind::kCreateTtl)) return false;
  return !has_ttl || IsValidTtl(op.ttl_ms);
}

std::span<const Op> OpsOf(const Request& request, Branch branch) {
  const std::span<const Op> ops = request.ops;
  ASSERT(branch != Branch::kCompares, "compares are no operations");
  ASSERT((branch == Branch::kNone) != request.has_branches);
  if (branch == Branch::kNone) return ops;
  return branch == Branch::kThen ? ops.first(request.then_count) : ops.subspan(request.then_count);
}

bool AddsData(const Request& request) {
  return std::any_of(request.ops.begin(), request.ops.end(), [](const Op& op) {
    switch (op.kind) {
      case OpKind::kDelete:
      case OpKind::kDeleteRecursive:
      case OpKind::kCheck:
      case OpKind::kCheckAbsent:
      case OpKind::kCheckCreated:
      case OpKind::kRefused:
      case OpKind::kCheckNotExists:
      case OpKind::kRemoveSubtree:
      case OpKind::kCheckStat:
      case OpKind::kTryDelete:
      case OpKind::kGet:
      case OpKind::kExists:
      case OpKind::kGetChildren:
        return false;
      default:
        return true;
    }
  });
}

bool HasReads(const Request& request) {
  return std::any_of(request.ops.begin(), request.ops.end(), [](const Op& op) {
    return op.kind == OpKind::kGet || op.kind == OpKind::kExists || op.kind == OpKind::kGetChildren;
  });
}

bool IsRefusal(ErrorCode error) {
  return error == ErrorCode::kBadArguments || error == ErrorCode::kTooLarge ||
         error == ErrorCode::kNoSpace || error == ErrorCode::kUnimplemented;
}

uint32_t VersionNeeded(CommandKind kind) {
  if (kind == CommandKind::kSequencedRequest) return kVersionNumbered;
  return kind == CommandKind::kDeleteContainer ? kVersionExpiry : kVersionFirst;
}

uint32_t VersionNeeded(const Request& request) {
  uint32_t needed = request.enforces_quota ? kVersionExpiry : kVersionFirst;
  if (request.has_branches) needed = kVersionTransactions;
  for (const Op& op : request.ops) needed = std::max(needed, VersionNeeded(op));
  return needed;
}

uint32_t VersionNeeded(const CommandHeader& header, const Request& request) {
  const uint32_t needed = std::max(VersionNeeded(header.kind), VersionNeeded(request));
  // Older members treat a request without a session, and one of a local session, as one of a session
  // that has ended.
  if (header.session == kNoSession) return std::max(needed, kVersionNumbered);
  const bool is_local = header.kind == CommandKind::kRequest && header.attach_zxid == Zxid(0);
  return is_local ? std::max(needed, kVersionLocalSessions) : needed;
}

void AppendCreateSession(const CommandHeader& header, int32_t timeout_ms, std::string_view password,
                         std::string* out) {
  AppendSessionBody(header, CommandKind::kCreateSession, timeout_ms, password, out);
}

void AppendAttachSession(const CommandHeader& header, int32_t timeout_ms, std::string_view password,
                         std::string* out) {
  AppendSessionBody(header, CommandKind::kAttachSession, timeout_ms, password, out);
}

void AppendCloseSession(const CommandHeader& header, std::string* out) {
  ASSERT(header.kind == CommandKind::kCloseSession || header.kind == CommandKind::kExpireSession,
         "only these two end a session");
  AppendHeader(header, header.kind, out);
}

void AppendRequest(const CommandHeader& header, const Request& request, std::string* out) {
  AppendHeader(header, CommandKind::kRequest, out);
  LittleEndianWriter writer(out);
  AppendRequestBody(request, &writer);
}

void AppendSequencedRequest(const CommandHeader& header, uint64_t sequence, uint64_t acknowledged,
                            const Request& request, std::string* out) {
  ASSERT(header.session != kNoSession, "a numbered request has a session");
  ASSERT(sequence > 0, "numbers begin at 1");
  AppendHeader(header, CommandKind::kSequencedRequest, out);
  LittleEndianWriter writer(out);
  writer.Int(sequence);
  writer.Int(acknowledged);
  AppendRequestBody(request, &writer);
}

void AppendDeleteContainer(const CommandHeader& header, std::string_view path, std::string* out) {
  AppendHeader(header, CommandKind::kDeleteContainer, out);
  LittleEndianWriter writer(out);
  AppendString(path, &writer);
}

void StampTime(char* command, int64_t time_ms, bool bounds_time) {
  ASSERT(command != nullptr);
  ASSERT(static_cast<uint8_t>(command[0]) == kFormat, "the bytes are those of a command");
  StoreInt<std::endian::little>(command + kTimeOffset, EncodeTime(time_ms, bounds_time));
}

void StampSequence(char* command, uint64_t sequence) {
  ASSERT(command != nullptr);
  ASSERT(static_cast<uint8_t>(command[0]) == kFormat, "the bytes are those of a command");
  StoreInt<std::endian::little>(command + kSequenceOffset, sequence);
}

Proposer ProposerOf(std::string_view command) {
  ASSERT(command.size() >= kCommandHeaderBytes);
  return {LoadInt<std::endian::little, uint16_t>(command.data() + 2),
          LoadInt<std::endian::little, uint64_t>(command.data() + 16)};
}

std::string_view FirstPathOf(std::string_view bytes) {
  const absl::StatusOr<CommandHeader> header = DecodeHeader(bytes);
  if (!header.ok()) return {};
  LittleEndianReader reader(bytes.substr(kCommandHeaderBytes));
  if (header->kind == CommandKind::kSequencedRequest) {
    reader.Int<uint64_t>();  // its number
    reader.Int<uint64_t>();  // the number that is acknowledged
  } else if (header->kind != CommandKind::kRequest) {
    return {};
  }
  reader.Int<uint8_t>();  // flags
  const uint32_t identities = ReadCount(kMinIdentityBytes, &reader);
  for (uint32_t i = 0; i < identities && reader.ok(); ++i) {
    ReadString(&reader);
    ReadString(&reader);
  }
  if (ReadCount(kMinOpBytes, &reader) == 0) return {};
  reader.Int<uint8_t>();  // the kind of the operation
  const std::string_view path = ReadString(&reader);
  return reader.ok() ? path : std::string_view();
}

absl::StatusOr<CommandHeader> DecodeHeader(std::string_view command) {
  if (command.size() < kCommandHeaderBytes) {
    return BadCommand("is shorter than its header", command);
  }
  LittleEndianReader reader(command);
  const uint8_t format = reader.Int<uint8_t>();
  const uint8_t kind = reader.Int<uint8_t>();
  CommandHeader header;
  header.kind = static_cast<CommandKind>(kind);
  header.proposer.member = reader.Int<uint16_t>();
  header.proposer_tag = reader.Int<uint32_t>();
  const int64_t time = reader.Int<int64_t>();
  header.bounds_time = time > 0 && (time & kBoundsTime) != 0;
  header.time_ms = header.bounds_time ? time & ~kBoundsTime : time;
  header.proposer.incarnation = reader.Int<uint64_t>();
  header.sequence = reader.Int<uint64_t>();
  header.session = SessionId(reader.Int<int64_t>());
  header.attach_zxid = Zxid(reader.Int<int64_t>());
  ASSERT(reader.ok(), "a command has a whole header");
  if (format != kFormat) return BadCommand("has an unknown format", command);
  if (!IsKnownKind(kind)) return BadCommand("has an unknown kind", command);
  const bool opens =
      header.kind == CommandKind::kCreateSession || header.kind == CommandKind::kAttachSession;
  if (opens && header.session == kNoSession) return BadCommand("opens session 0", command);
  if (header.kind == CommandKind::kSequencedRequest && header.session == kNoSession) {
    return BadCommand("is a sequenced request without a session", command);
  }
  if (header.kind == CommandKind::kCreateSession &&
      KindOf(header.session) != NodeKind::kEphemeral) {
    return BadCommand("creates a session with an id that is reserved for another purpose", command);
  }
  const bool ends =
      header.kind == CommandKind::kCloseSession || header.kind == CommandKind::kExpireSession;
  if (ends && command.size() != kCommandHeaderBytes) {
    return BadCommand("ends a session but has a body", command);
  }
  return header;
}

absl::StatusOr<SessionBody> DecodeSessionBody(std::string_view command) {
  absl::StatusOr<CommandHeader> header = DecodeHeader(command);
  if (!header.ok()) return header.status();
  if (header->kind != CommandKind::kCreateSession && header->kind != CommandKind::kAttachSession) {
    return BadCommand("does not open a session", command);
  }
  LittleEndianReader reader(command.substr(kCommandHeaderBytes));
  SessionBody body;
  body.timeout_ms = reader.Int<int32_t>();
  body.password = ReadString(&reader);
  if (!reader.ok()) return BadCommand("has a session body that is cut short", command);
  if (body.timeout_ms < 0) return BadCommand("has a negative timeout", command);
  if (!reader.empty()) return BadCommand("has bytes after its session body", command);
  return body;
}

absl::StatusOr<Request> DecodeRequest(std::string_view command) {
  absl::StatusOr<CommandHeader> header = DecodeHeader(command);
  if (!header.ok()) return header.status();
  if (header->kind != CommandKind::kRequest) return BadCommand("is not a request", command);
  LittleEndianReader reader(command.substr(kCommandHeaderBytes));
  return ReadRequestBody(command, &reader);
}

absl::StatusOr<SequencedRequest> DecodeSequencedRequest(std::string_view command) {
  absl::StatusOr<CommandHeader> header = DecodeHeader(command);
  if (!header.ok()) return header.status();
  if (header->kind != CommandKind::kSequencedRequest) {
    return BadCommand("is not a sequenced request", command);
  }
  LittleEndianReader reader(command.substr(kCommandHeaderBytes));
  SequencedRequest sequenced;
  sequenced.sequence = reader.Int<uint64_t>();
  sequenced.acknowledged = reader.Int<uint64_t>();
  if (reader.ok() && sequenced.sequence == 0) return BadCommand("has the number 0", command);
  absl::StatusOr<Request> request = ReadRequestBody(command, &reader);
  if (!request.ok()) return request.status();
  sequenced.request = *std::move(request);
  return sequenced;
}

absl::StatusOr<std::string_view> DecodeDeleteContainer(std::string_view command) {
  absl::StatusOr<CommandHeader> header = DecodeHeader(command);
  if (!header.ok()) return header.status();
  if (header->kind != CommandKind::kDeleteContainer) {
    return BadCommand("does not delete a container", command);
  }
  LittleEndianReader reader(command.substr(kCommandHeaderBytes));
  const std::string_view path = ReadString(&reader);
  if (!reader.ok()) return BadCommand("has a path that is cut short", command);
  if (!reader.empty()) return BadCommand("has bytes after its path", command);
  return path;
}

}  // namespace quorate::tree
