#include "rpc/zk/protocol.h"

#include "base/assert.h"

namespace quorate::rpc::zk {
namespace {

constexpr int32_t kStateSyncConnected = 3;
constexpr int32_t kErrorItem = -1;

// A string or buffer; null is empty, and `*has` (if given) tells the difference.
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

// The count of a vector whose elements take at least `element_bytes_min` each; null is empty.
size_t ReadCount(BigEndianReader& reader, size_t element_bytes_min) {
  const int32_t count = reader.Int<int32_t>();
  if (count == -1) return 0;
  if (count < -1 || static_cast<size_t>(count) > reader.rest().size() / element_bytes_min) {
    reader.Fail();
    return 0;
  }
  return static_cast<size_t>(count);
}

std::vector<std::string_view> ReadStrings(BigEndianReader& reader) {
  std::vector<std::string_view> strings;
  for (size_t left = ReadCount(reader, 4); left > 0; --left) strings.push_back(ReadBuffer(reader));
  return strings;
}

void ReadAcl(BigEndianReader& reader, std::vector<tree::Acl>* acl) {
  for (size_t left = ReadCount(reader, 12); left > 0; --left) {
    tree::Acl& entry = acl->emplace_back();
    entry.permissions = reader.Int<int32_t>();
    entry.identity.scheme = std::string(ReadBuffer(reader));
    entry.identity.id = std::string(ReadBuffer(reader));
  }
}

// Reads the record of one operation; false if there is none for this opcode.
bool ReadOp(OpCode code, BigEndianReader& reader, tree::Op* op) {
  op->path = ReadBuffer(reader);
  switch (code) {
    case OpCode::kCreate:
    case OpCode::kCreate2:
      op->kind = tree::OpKind::kCreate;
      op->data = ReadBuffer(reader, &op->has_data);
      ReadAcl(reader, &op->acl);
      op->mode = static_cast<tree::CreateMode>(reader.Int<int32_t>());
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
    default:
      return false;
  }
}

struct MultiHeader {
  int32_t type = 0;
  bool done = false;
  int32_t error = 0;
};

MultiHeader ReadMultiHeader(BigEndianReader& reader) {
  MultiHeader header;
  header.type = reader.Int<int32_t>();
  header.done = reader.Int<uint8_t>() != 0;
  header.error = reader.Int<int32_t>();
  return header;
}

void WriteMultiHeader(const MultiHeader& header, BigEndianWriter& to) {
  to.Int(header.type);
  to.Int<uint8_t>(header.done ? 1 : 0);
  to.Int(header.error);
}

bool AllowedInMulti(OpCode code) {
  return code == OpCode::kCreate || code == OpCode::kCreate2 || code == OpCode::kDelete ||
         code == OpCode::kSetData || code == OpCode::kCheck;
}

bool KnownMode(tree::CreateMode mode) {
  return mode >= tree::CreateMode::kPersistent && mode <= tree::CreateMode::kEphemeralSequential;
}

tree::ErrorCode DecodeMulti(std::string_view body, tree::Request* request,
                            std::vector<OpCode>* shapes) {
  BigEndianReader reader(body);
  request->multi = true;
  while (true) {
    const MultiHeader header = ReadMultiHeader(reader);
    if (!reader.ok()) return tree::ErrorCode::kMarshallingError;
    if (header.done) break;
    const auto code = static_cast<OpCode>(header.type);
    if (!AllowedInMulti(code)) return tree::ErrorCode::kMarshallingError;
    tree::Op& op = request->ops.emplace_back();
    if (!ReadOp(code, reader, &op) || !reader.ok()) return tree::ErrorCode::kMarshallingError;
    // ZooKeeper refuses bad create flags in a multi while it reads them.
    if (op.kind == tree::OpKind::kCreate && !KnownMode(op.mode)) {
      return tree::ErrorCode::kMarshallingError;
    }
    shapes->push_back(code);
  }
  return tree::ErrorCode::kOk;
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
  if (response.has_read_only) writer.Int<uint8_t>(0);
}

bool DecodeReadRequest(std::string_view body, bool has_watch_flag, ReadRequest* request) {
  BigEndianReader reader(body);
  request->path = ReadBuffer(reader);
  if (has_watch_flag) request->watch = reader.Int<uint8_t>() != 0;
  return reader.ok();
}

bool DecodeAuthRequest(std::string_view body, AuthRequest* request) {
  BigEndianReader reader(body);
  reader.Int<int32_t>();  // type, not used
  request->scheme = ReadBuffer(reader);
  request->credentials = ReadBuffer(reader);
  return reader.ok();
}

bool DecodeSetWatches(std::string_view body, SetWatchesRequest* request) {
  BigEndianReader reader(body);
  request->relative_zxid = reader.Int<int64_t>();
  request->data_watches = ReadStrings(reader);
  request->exist_watches = ReadStrings(reader);
  request->child_watches = ReadStrings(reader);
  return reader.ok();
}

bool IsWrite(OpCode op) {
  switch (op) {
    case OpCode::kCreate:
    case OpCode::kCreate2:
    case OpCode::kDelete:
    case OpCode::kSetData:
    case OpCode::kSetAcl:
    case OpCode::kMulti:
      return true;
    default:
      return false;
  }
}

tree::ErrorCode DecodeWrite(OpCode op, std::string_view body, tree::Request* request,
                            std::vector<OpCode>* shapes) {
  ASSERT(IsWrite(op));
  if (op == OpCode::kMulti) return DecodeMulti(body, request, shapes);
  BigEndianReader reader(body);
  if (!ReadOp(op, reader, &request->ops.emplace_back()) || !reader.ok()) {
    return tree::ErrorCode::kMarshallingError;
  }
  return tree::ErrorCode::kOk;
}

ReplyWriter::ReplyWriter(std::string* out, int32_t xid, tree::Zxid zxid, tree::ErrorCode error)
    : out_(*out), start_(out->size()), body_(out) {
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
  if (shape == OpCode::kCreate || shape == OpCode::kCreate2) to.String(result.path);
  if (shape == OpCode::kCreate2 || shape == OpCode::kSetData || shape == OpCode::kSetAcl) {
    WriteStat(result.stat, to);
  }
}

void WriteMultiResult(const std::vector<OpCode>& shapes, const std::vector<tree::OpResult>& results,
                      BigEndianWriter& to) {
  ASSERT(shapes.size() == results.size());
  bool failed = false;
  for (const tree::OpResult& result : results) failed |= result.error != tree::ErrorCode::kOk;
  for (size_t i = 0; i < results.size(); ++i) {
    if (failed) {
      const auto error = static_cast<int32_t>(results[i].error);
      WriteMultiHeader({kErrorItem, false, error}, to);
      to.Int(error);
    } else {
      WriteMultiHeader({static_cast<int32_t>(shapes[i]), false, 0}, to);
      WriteOpResult(shapes[i], results[i], to);
    }
  }
  WriteMultiHeader({kErrorItem, true, -1}, to);
}

void AppendNotification(tree::EventType type, std::string_view path, tree::Zxid zxid,
                        std::string* out) {
  ReplyWriter packet(out, kNotificationXid, zxid, tree::ErrorCode::kOk);
  packet.body().Int(static_cast<int32_t>(type));
  packet.body().Int(kStateSyncConnected);
  packet.body().String(path);
}

}  // namespace quorate::rpc::zk
