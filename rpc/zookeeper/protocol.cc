// SPDX-License-Identifier: Apache-2.0

#include "rpc/zookeeper/protocol.h"

#include "base/assert.h"

namespace quorate::rpc::zk {
namespace {

constexpr int32_t kStateSyncConnected = 3;

// Reads a string or buffer. Null reads as empty. Sets `*has`, if given, to whether it is not null.
std::string_view ReadBuffer(BigEndianReader& reader, bool* has = nullptr) {
  const int32_t length = reader.Int<int32_t>();
  if (has != nullptr) *has = length >= 0;
  if (length == -1) return {};
  if (length < -1) {
    reader.Fail();
    return {};
  }
  return reader.Raw(static_cast<size_t>(length));
}

// Reads the count of a vector whose elements take at least `element_bytes_min` each. Null (-1)
// reads as 0, and so does any other negative count, as in ZooKeeper. Sets `*has`, if given, to
// whether the vector is not null.
size_t ReadCount(BigEndianReader& reader, size_t element_bytes_min, bool* has = nullptr) {
  const int32_t count = reader.Int<int32_t>();
  if (has != nullptr) *has = count != -1;
  if (count <= 0) return 0;
  if (static_cast<size_t>(count) > reader.rest().size() / element_bytes_min) {
    reader.Fail();
    return 0;
  }
  return static_cast<size_t>(count);
}

// Reads a vector of paths; neither the vector nor a path may be null.
std::vector<std::string_view> ReadPaths(BigEndianReader& reader) {
  std::vector<std::string_view> paths;
  bool has = false;
  size_t left = ReadCount(reader, 4, &has);
  if (!has) reader.Fail();
  for (; left > 0; --left) {
    paths.push_back(ReadBuffer(reader, &has));
    if (!has) reader.Fail();
  }
  return paths;
}

void ReadAcl(BigEndianReader& reader, std::vector<tree::Acl>* acl) {
  for (size_t left = ReadCount(reader, 12); left > 0; --left) {
    tree::Acl& entry = acl->emplace_back();
    entry.permissions = reader.Int<int32_t>();
    entry.identity.scheme = std::string(ReadBuffer(reader));
    bool has_id = false;
    entry.identity.id = std::string(ReadBuffer(reader, &has_id));
    // A null id is an error only for the schemes that read the id.
    const std::string& scheme = entry.identity.scheme;
    if (!has_id && (scheme == "world" || scheme == "digest" || scheme == "ip")) reader.Fail();
  }
}

tree::Stat ReadStat(BigEndianReader& reader) {
  tree::Stat stat;
  stat.czxid = tree::Zxid(reader.Int<int64_t>());
  stat.mzxid = tree::Zxid(reader.Int<int64_t>());
  stat.ctime_ms = reader.Int<int64_t>();
  stat.mtime_ms = reader.Int<int64_t>();
  stat.version = reader.Int<int32_t>();
  stat.cversion = reader.Int<int32_t>();
  stat.aversion = reader.Int<int32_t>();
  stat.ephemeral_owner = tree::SessionId(reader.Int<int64_t>());
  stat.data_length = reader.Int<int32_t>();
  stat.num_children = reader.Int<int32_t>();
  stat.pzxid = tree::Zxid(reader.Int<int64_t>());
  return stat;
}

// Reads the record of one operation. Returns false if this opcode has none. Sets `*has_path` to
// false if the path is null and that is no error here.
bool ReadOp(OpCode code, BigEndianReader& reader, tree::Op* op, bool* has_path) {
  op->path = ReadBuffer(reader, has_path);
  // For operations whose path ZooKeeper checks first, a null path is an invalid path, not a
  // decoding error.
  const bool checks_path =
      code == OpCode::kSetData || code == OpCode::kSetAcl || code == OpCode::kCheck;
  if (!*has_path && !checks_path && !IsCreate(code)) reader.Fail();
  switch (code) {
    case OpCode::kCreate:
    case OpCode::kCreate2:
    case OpCode::kCreateContainer:
    case OpCode::kCreateTtl:
    case OpCode::kCreateIfNotExists:
      op->kind = code == OpCode::kCreateContainer     ? tree::OpKind::kCreateContainer
                 : code == OpCode::kCreateTtl         ? tree::OpKind::kCreateTtl
                 : code == OpCode::kCreateIfNotExists ? tree::OpKind::kCreateIfNotExists
                                                      : tree::OpKind::kCreate;
      op->data = ReadBuffer(reader, &op->has_data);
      ReadAcl(reader, &op->acl);
      op->mode = static_cast<tree::CreateMode>(reader.Int<int32_t>());
      if (code == OpCode::kCreateTtl) op->ttl_ms = reader.Int<int64_t>();
      return true;
    case OpCode::kDelete:
      op->kind = tree::OpKind::kDelete;
      op->version = reader.Int<int32_t>();
      return true;
    case OpCode::kSetData:
      op->kind = tree::OpKind::kSetData;
      op->data = ReadBuffer(reader, &op->has_data);
      op->version = reader.Int<int32_t>();
      return true;
    case OpCode::kSetAcl:
      op->kind = tree::OpKind::kSetAcl;
      ReadAcl(reader, &op->acl);
      op->version = reader.Int<int32_t>();
      return true;
    case OpCode::kCheck:
      op->kind = tree::OpKind::kCheck;
      op->version = reader.Int<int32_t>();
      return true;
    case OpCode::kCheckNotExists:
      op->kind = tree::OpKind::kCheckNotExists;
      op->version = reader.Int<int32_t>();
      return true;
    case OpCode::kTryRemove:
      op->kind = tree::OpKind::kTryDelete;
      op->version = reader.Int<int32_t>();
      return true;
    case OpCode::kRemoveRecursive:
      op->kind = tree::OpKind::kRemoveSubtree;
      op->limit = reader.Int<uint32_t>();
      return true;
    case OpCode::kCheckStat:
      op->kind = tree::OpKind::kCheckStat;
      op->version = reader.Int<int32_t>();
      op->expected = ReadStat(reader);
      return true;
    default:
      return false;
  }
}

struct MultiHeader {
  OpCode type = OpCode::kError;
  bool done = false;
  int32_t error = 0;
};

MultiHeader ReadMultiHeader(BigEndianReader& reader) {
  MultiHeader header;
  header.type = static_cast<OpCode>(reader.Int<int32_t>());
  header.done = reader.Int<uint8_t>() != 0;
  header.error = reader.Int<int32_t>();
  return header;
}

void WriteMultiHeader(const MultiHeader& header, BigEndianWriter& to) {
  to.Int(static_cast<int32_t>(header.type));
  to.Int<uint8_t>(header.done ? 1 : 0);
  to.Int(header.error);
}

// In a multi, ZooKeeper determines the kind of a create by its flags alone, and replies as for that
// kind: with a stat for a container or a TTL, but without one for a create2. The C client, however,
// expects a stat for a create2, and without it misreads the rest of the reply. So a create2 gets a
// stat here. Returns false if the flags need a TTL and the operation has none.
bool ResolveCreateInMulti(OpCode code, tree::Op* op, OpCode* shape) {
  using tree::CreateMode;
  const bool has_ttl = op->mode == CreateMode::kPersistentWithTtl ||
                       op->mode == CreateMode::kPersistentSequentialWithTtl;
  if (has_ttl && code != OpCode::kCreateTtl) return false;
  const bool is_container = op->mode == CreateMode::kContainer;
  op->kind = has_ttl        ? tree::OpKind::kCreateTtl
             : is_container ? tree::OpKind::kCreateContainer
                            : tree::OpKind::kCreate;
  const bool has_stat = has_ttl || is_container || code == OpCode::kCreate2;
  *shape = has_stat ? OpCode::kCreate2 : OpCode::kCreate;
  return true;
}

tree::ErrorCode DecodeMulti(std::string_view body, tree::Request* request,
                            std::vector<OpCode>* shapes) {
  BigEndianReader reader(body);
  request->multi = true;
  while (true) {
    const MultiHeader header = ReadMultiHeader(reader);
    if (!reader.ok()) return tree::ErrorCode::kMarshallingError;
    if (header.done) break;
    OpCode code = header.type;
    if (InfoOf(code).container != Container::kMulti) return tree::ErrorCode::kMarshallingError;
    tree::Op& op = request->ops.emplace_back();
    bool has_path = false;
    if (!ReadOp(code, reader, &op, &has_path) || !reader.ok()) {
      return tree::ErrorCode::kMarshallingError;
    }
    const bool has_kind_by_flags = IsCreate(code) && code != OpCode::kCreateIfNotExists;
    if (!has_path || (has_kind_by_flags && !ResolveCreateInMulti(code, &op, &code))) {
      return tree::ErrorCode::kMarshallingError;
    }
    shapes->push_back(code);
  }
  return tree::ErrorCode::kOk;
}

// Reads what a filtered list has behind its path and watch flag.
void ReadDetails(OpCode op, BigEndianReader& reader, ListDetails* details) {
  const auto kind = reader.Int<uint8_t>();
  if (kind > static_cast<uint8_t>(ChildKind::kEphemeral)) reader.Fail();
  details->kind = static_cast<ChildKind>(kind);
  if (op != OpCode::kFilteredListDetailed) return;
  details->has_stats = reader.Int<uint8_t>() != 0;
  details->has_data = reader.Int<uint8_t>() != 0;
}

}  // namespace

absl::StatusOr<ConnectRequest> DecodeConnectRequest(std::string_view packet) {
  BigEndianReader reader(packet);
  ConnectRequest request;
  request.protocol_version = reader.Int<int32_t>();
  request.last_zxid_seen = reader.Int<int64_t>();
  request.timeout_ms = reader.Int<int32_t>();
  request.session_id = reader.Int<int64_t>();
  request.password = std::string(ReadBuffer(reader));
  if (!reader.ok()) return absl::InvalidArgumentError("the connect request does not decode");
  if (!reader.empty()) {
    request.has_read_only = true;
    request.read_only = reader.Int<uint8_t>() != 0;
  }
  return request;
}

void AppendConnectResponse(const ConnectResponse& response, std::string* out) {
  BigEndianWriter writer(out);
  writer.Int<int32_t>(response.has_read_only ? 37 : 36);
  writer.Int<int32_t>(0);  // protocol version
  writer.Int(response.timeout_ms);
  writer.Int(response.session_id);
  writer.String(response.password);
  if (response.has_read_only) writer.Int<uint8_t>(response.read_only ? 1 : 0);
}

bool DecodeReadRequest(std::string_view body, bool has_watch_flag, ReadRequest* request) {
  BigEndianReader reader(body);
  request->path = ReadBuffer(reader, &request->has_path);
  if (has_watch_flag) request->watch = reader.Int<uint8_t>() != 0;
  return reader.ok();
}

bool DecodeAuthRequest(std::string_view body, AuthRequest* request) {
  BigEndianReader reader(body);
  reader.Int<int32_t>();  // type, not used
  request->scheme = ReadBuffer(reader);
  request->credentials = ReadBuffer(reader, &request->has_credentials);
  return reader.ok();
}

bool DecodeSetWatches(OpCode op, std::string_view body, SetWatchesRequest* request) {
  BigEndianReader reader(body);
  request->relative_zxid = reader.Int<int64_t>();
  request->data_watches = ReadPaths(reader);
  request->exist_watches = ReadPaths(reader);
  request->child_watches = ReadPaths(reader);
  if (op == OpCode::kSetWatches2) {
    request->persistent_watches = ReadPaths(reader);
    request->persistent_recursive_watches = ReadPaths(reader);
  }
  return reader.ok();
}

bool DecodeWatchRequest(std::string_view body, WatchRequest* request) {
  BigEndianReader reader(body);
  request->path = ReadBuffer(reader, &request->has_path);
  request->mode_or_type = reader.Int<int32_t>();
  return reader.ok();
}

bool DecodeFilteredList(OpCode op, std::string_view body, FilteredListRequest* request) {
  BigEndianReader reader(body);
  bool has_path = false;
  request->path = ReadBuffer(reader, &has_path);
  request->watch = reader.Int<uint8_t>() != 0;
  ReadDetails(op, reader, &request->details);
  return has_path && reader.ok();
}

bool DecodeListRecursive(std::string_view body, ListRecursiveRequest* request) {
  BigEndianReader reader(body);
  bool has_path = false;
  request->path = ReadBuffer(reader, &has_path);
  request->max = reader.Int<uint32_t>();
  return has_path && reader.ok();
}

bool DecodeMultiRead(std::string_view body, bool serves_keeper, std::vector<MultiReadItem>* items) {
  BigEndianReader reader(body);
  while (true) {
    const MultiHeader header = ReadMultiHeader(reader);
    if (!reader.ok()) return false;
    if (header.done) return true;
    MultiReadItem& item = items->emplace_back();
    item.op = header.type;
    const Container container = InfoOf(item.op).container;
    if (container != Container::kMultiRead &&
        !(serves_keeper && container == Container::kMultiReadOfKeeper)) {
      return false;
    }
    bool has_path = false;
    item.path = ReadBuffer(reader, &has_path);
    reader.Int<uint8_t>();  // whether to watch
    if (IsOfKeeper(item.op)) ReadDetails(item.op, reader, &item.details);
    if (!has_path || !reader.ok()) return false;
  }
}

bool DecodeReconfig(std::string_view body, Reconfiguration* request) {
  BigEndianReader reader(body);
  for (auto* text : {&request->joining, &request->leaving, &request->new_members}) {
    bool has_text = false;
    const std::string_view read = ReadBuffer(reader, &has_text);
    if (has_text) *text = std::string(read);
  }
  request->based_on = reader.Int<int64_t>();
  return reader.ok();
}

tree::ErrorCode DecodeWrite(OpCode op, std::string_view body, tree::Request* request,
                            std::vector<OpCode>* shapes) {
  ASSERT(IsWrite(op));
  if (op == OpCode::kMulti) return DecodeMulti(body, request, shapes);
  if (op == OpCode::kDeleteContainer) return tree::ErrorCode::kBadArguments;
  BigEndianReader reader(body);
  tree::Op& only = request->ops.emplace_back();
  bool has_path = false;
  if (!ReadOp(op, reader, &only, &has_path) || !reader.ok()) {
    return tree::ErrorCode::kMarshallingError;
  }
  if (has_path || !IsCreate(op)) return tree::ErrorCode::kOk;
  // ZooKeeper checks the mode before the path.
  return tree::IsValidCreate(only) ? tree::ErrorCode::kMarshallingError
                                   : tree::ErrorCode::kBadArguments;
}

bool DecodeSaslRequest(std::string_view body, std::string_view* token) {
  BigEndianReader reader(body);
  *token = ReadBuffer(reader);
  return reader.ok();
}

ReplyWriter::ReplyWriter(std::string* out, int32_t xid, tree::Zxid zxid, tree::ErrorCode error)
    : out_(*out), start_(out->size()), body_(out) {
  ASSERT(!tree::IsOwnError(error), "ZooKeeper's clients do not know it");
  body_.Int<int32_t>(0);  // the length, written at the end
  body_.Int(xid);
  body_.Int(zxid.value());
  body_.Int(static_cast<int32_t>(error));
}

ReplyWriter::~ReplyWriter() {
  StoreInt<std::endian::big>(out_.data() + start_, static_cast<int32_t>(out_.size() - start_ - 4));
}

void WriteStat(const tree::Stat& stat, BigEndianWriter& to) {
  to.Int(stat.czxid.value());
  to.Int(stat.mzxid.value());
  to.Int(stat.ctime_ms);
  to.Int(stat.mtime_ms);
  to.Int(stat.version);
  to.Int(stat.cversion);
  to.Int(stat.aversion);
  to.Int(stat.ephemeral_owner.value());
  to.Int(stat.data_length);
  to.Int(stat.num_children);
  to.Int(stat.pzxid.value());
}

void WriteAcl(const std::vector<tree::Acl>& acl, BigEndianWriter& to) {
  to.Int(static_cast<int32_t>(acl.size()));
  for (const tree::Acl& entry : acl) {
    to.Int(entry.permissions);
    to.String(entry.identity.scheme);
    to.String(entry.identity.id);
  }
}

void WriteData(bool has_data, std::string_view data, BigEndianWriter& to) {
  if (has_data) {
    to.String(data);
  } else {
    to.Int<int32_t>(-1);
  }
}

void WriteOpResult(OpCode shape, const tree::OpResult& result, BigEndianWriter& to) {
  if (result.error != tree::ErrorCode::kOk) return;
  const WriteResult kind = InfoOf(shape).write_result;
  if (kind == WriteResult::kPath || kind == WriteResult::kPathStat) to.String(result.path);
  if (kind == WriteResult::kStat || kind == WriteResult::kPathStat) WriteStat(result.stat, to);
}

void WriteMultiResultHeader(OpCode shape, BigEndianWriter& to) {
  WriteMultiHeader({shape, false, 0}, to);
}

void WriteMultiReadErrorOfKeeper(OpCode op, tree::ErrorCode error, BigEndianWriter& to) {
  WriteMultiHeader({op, false, static_cast<int32_t>(error)}, to);
}

void WriteMultiError(tree::ErrorCode error, BigEndianWriter& to) {
  ASSERT(!tree::IsOwnError(error), "ZooKeeper's clients do not know it");
  WriteMultiHeader({OpCode::kError, false, static_cast<int32_t>(error)}, to);
  to.Int(static_cast<int32_t>(error));
}

void WriteMultiEnd(BigEndianWriter& to) { WriteMultiHeader({OpCode::kError, true, -1}, to); }

void WriteMultiResult(const std::vector<OpCode>& shapes, const std::vector<tree::OpResult>& results,
                      BigEndianWriter& to) {
  ASSERT(shapes.size() == results.size());
  bool failed = false;
  for (const tree::OpResult& result : results) failed |= result.error != tree::ErrorCode::kOk;
  for (size_t i = 0; i < results.size(); ++i) {
    if (failed) {
      WriteMultiError(results[i].error, to);
    } else {
      WriteMultiResultHeader(shapes[i], to);
      WriteOpResult(shapes[i], results[i], to);
    }
  }
  WriteMultiEnd(to);
}

void AppendNotification(tree::EventType type, std::string_view path, tree::Zxid zxid,
                        std::string* out) {
  ReplyWriter packet(out, kNotificationXid, zxid, tree::ErrorCode::kOk);
  packet.body().Int(static_cast<int32_t>(type));
  packet.body().Int(kStateSyncConnected);
  packet.body().String(path);
}

}  // namespace quorate::rpc::zk
