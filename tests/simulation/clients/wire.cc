#include "tests/simulation/clients/wire.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/bytes.h"

namespace quorate::simulation {
namespace {

// Operation codes as they are on the wire.
constexpr int32_t kCreate = 1;
constexpr int32_t kDelete = 2;
constexpr int32_t kExists = 3;
constexpr int32_t kGetData = 4;
constexpr int32_t kSetData = 5;
constexpr int32_t kSetAcl = 7;
constexpr int32_t kGetChildren = 8;
constexpr int32_t kSync = 9;
constexpr int32_t kPing = 11;
constexpr int32_t kGetChildrenWithStat = 12;
constexpr int32_t kCheck = 13;
constexpr int32_t kMulti = 14;
constexpr int32_t kCreateWithStat = 15;
constexpr int32_t kAuth = 100;
constexpr int32_t kSetWatches = 101;
constexpr int32_t kCloseSession = -11;
constexpr int32_t kErrorItem = -1;

constexpr int32_t kStateSyncConnected = 3;
constexpr int32_t kPacketBytesMax = 64 << 20;

int32_t CodeOf(const Step& step) {
  switch (step.kind) {
    case OperationKind::kCreate:
      return step.wants_stat ? kCreateWithStat : kCreate;
    case OperationKind::kDelete:
      return kDelete;
    case OperationKind::kSetData:
      return kSetData;
    case OperationKind::kSetAcl:
      return kSetAcl;
    default:
      ASSERT(step.kind == OperationKind::kCheck, "no other operation is a step");
      return kCheck;
  }
}

int32_t CodeOf(const Request& request) {
  switch (request.kind) {
    case OperationKind::kMulti:
      return kMulti;
    case OperationKind::kCloseSession:
      return kCloseSession;
    case OperationKind::kExists:
      return kExists;
    case OperationKind::kGetData:
      return kGetData;
    case OperationKind::kGetChildren:
      return request.wants_stat ? kGetChildrenWithStat : kGetChildren;
    case OperationKind::kSync:
      return kSync;
    case OperationKind::kSetWatches:
      return kSetWatches;
    default:
      ASSERT(request.steps.size() == 1, "a write outside a multi is one step");
      return CodeOf(request.steps[0]);
  }
}

void WriteOpenAcl(BigEndianWriter& to) {
  to.Int<int32_t>(1);
  to.Int<int32_t>(31);
  to.String("world");
  to.String("anyone");
}

void WriteStep(const Step& step, BigEndianWriter& to) {
  to.String(step.path);
  if (step.kind == OperationKind::kCreate || step.kind == OperationKind::kSetData) {
    if (step.has_data) {
      to.String(step.data);
    } else {
      to.Int<int32_t>(-1);
    }
  }
  if (step.kind == OperationKind::kCreate || step.kind == OperationKind::kSetAcl) WriteOpenAcl(to);
  to.Int(step.kind == OperationKind::kCreate ? static_cast<int32_t>(step.mode) : step.version);
}

void WriteMultiHeader(int32_t type, bool done, BigEndianWriter& to) {
  to.Int(type);
  to.Int<uint8_t>(done ? 1 : 0);
  to.Int<int32_t>(-1);
}

void WriteStrings(const std::vector<std::string>& strings, BigEndianWriter& to) {
  to.Int(static_cast<int32_t>(strings.size()));
  for (const std::string& string : strings) to.String(string);
}

std::string Framed(std::string_view packet) {
  std::string framed;
  BigEndianWriter(&framed).String(packet);
  return framed;
}

std::string_view ReadBuffer(BigEndianReader& reader, bool* has = nullptr) {
  const int32_t length = reader.Int<int32_t>();
  if (has != nullptr) *has = length >= 0;
  if (length == -1) return {};
  if (length < 0) reader.Fail();
  return length < 0 ? std::string_view() : reader.Raw(static_cast<size_t>(length));
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

StepResult ReadStepResult(int32_t code, BigEndianReader& reader) {
  StepResult result;
  if (code == kCreate || code == kCreateWithStat) result.path = ReadBuffer(reader);
  if (code == kCreateWithStat || code == kSetData || code == kSetAcl)
    result.stat = ReadStat(reader);
  return result;
}

bool ReadMulti(BigEndianReader& reader, const Request& request, Reply* reply) {
  for (const Step& step : request.steps) {
    const int32_t type = reader.Int<int32_t>();
    const bool done = reader.Int<uint8_t>() != 0;
    const int32_t error = reader.Int<int32_t>();
    if (done || !reader.ok()) return false;
    if (type == kErrorItem) {
      if (reader.Int<int32_t>() != error) return false;
      StepResult& result = reply->steps.emplace_back();
      result.error = static_cast<tree::ErrorCode>(error);
    } else {
      if (type != CodeOf(step) || error != 0) return false;
      reply->steps.push_back(ReadStepResult(type, reader));
    }
  }
  const int32_t type = reader.Int<int32_t>();
  const bool done = reader.Int<uint8_t>() != 0;
  return type == -1 && done && reader.Int<int32_t>() == -1;
}

}  // namespace

std::string EncodeHandshake(const Handshake& handshake) {
  std::string packet;
  BigEndianWriter writer(&packet);
  writer.Int<int32_t>(0);  // protocol version
  writer.Int(handshake.last_zxid_seen);
  writer.Int(handshake.timeout_ms);
  writer.Int(handshake.session);
  writer.String(handshake.password);
  if (handshake.with_read_only) writer.Int<uint8_t>(0);
  return Framed(packet);
}

std::string EncodeRequest(int32_t xid, const Request& request) {
  std::string packet;
  BigEndianWriter writer(&packet);
  writer.Int(xid);
  writer.Int(CodeOf(request));
  if (request.kind == OperationKind::kMulti) {
    for (const Step& step : request.steps) {
      WriteMultiHeader(CodeOf(step), false, writer);
      WriteStep(step, writer);
    }
    WriteMultiHeader(-1, true, writer);
  } else if (request.kind == OperationKind::kSetWatches) {
    writer.Int(request.relative_zxid);
    WriteStrings(request.data_watches, writer);
    WriteStrings(request.exist_watches, writer);
    WriteStrings(request.child_watches, writer);
  } else if (IsRead(request.kind) || request.kind == OperationKind::kSync) {
    writer.String(request.path);
    if (IsRead(request.kind)) writer.Int<uint8_t>(request.watch ? 1 : 0);
  } else if (request.kind != OperationKind::kCloseSession) {
    WriteStep(request.steps[0], writer);
  }
  return Framed(packet);
}

std::string EncodePing() {
  std::string packet;
  BigEndianWriter writer(&packet);
  writer.Int(kPingXid);
  writer.Int(kPing);
  return Framed(packet);
}

std::string EncodeAuth(std::string_view scheme, std::string_view credentials) {
  std::string packet;
  BigEndianWriter writer(&packet);
  writer.Int(kAuthXid);
  writer.Int(kAuth);
  writer.Int<int32_t>(0);
  writer.String(scheme);
  writer.String(credentials);
  return Framed(packet);
}

bool DecodeHandshakeReply(std::string_view packet, bool with_read_only, HandshakeReply* reply) {
  BigEndianReader reader(packet);
  reader.Int<int32_t>();  // protocol version
  reply->timeout_ms = reader.Int<int32_t>();
  reply->session = reader.Int<int64_t>();
  reply->password = ReadBuffer(reader);
  if (with_read_only) reader.Int<uint8_t>();
  return reader.ok() && reader.empty();
}

bool DecodeReplyHeader(std::string_view packet, ReplyHeader* header, std::string_view* body) {
  BigEndianReader reader(packet);
  header->xid = reader.Int<int32_t>();
  header->zxid = reader.Int<int64_t>();
  header->error = static_cast<tree::ErrorCode>(reader.Int<int32_t>());
  *body = reader.rest();
  return reader.ok();
}

bool DecodeReply(const ReplyHeader& header, std::string_view body, const Request& request,
                 Reply* reply) {
  reply->zxid = header.zxid;
  reply->error = header.error;
  if (header.error != tree::ErrorCode::kOk) return body.empty();
  BigEndianReader reader(body);
  switch (request.kind) {
    case OperationKind::kMulti:
      if (!ReadMulti(reader, request, reply)) return false;
      break;
    case OperationKind::kGetData:
      reply->data = ReadBuffer(reader, &reply->has_data);
      reply->stat = ReadStat(reader);
      break;
    case OperationKind::kExists:
      reply->stat = ReadStat(reader);
      break;
    case OperationKind::kGetChildren:
      for (int32_t left = reader.Int<int32_t>(); left > 0 && reader.ok(); --left) {
        reply->children.emplace_back(ReadBuffer(reader));
      }
      std::sort(reply->children.begin(), reply->children.end());
      if (request.wants_stat) reply->stat = ReadStat(reader);
      break;
    case OperationKind::kSync:
      reply->path = ReadBuffer(reader);
      break;
    case OperationKind::kSetWatches:
    case OperationKind::kCloseSession:
      break;
    default:
      reply->steps.push_back(ReadStepResult(CodeOf(request), reader));
  }
  return reader.ok() && reader.empty();
}

bool DecodeWatchEvent(const ReplyHeader& header, std::string_view body, WatchEvent* event) {
  BigEndianReader reader(body);
  event->zxid = header.zxid;
  event->type = static_cast<tree::EventType>(reader.Int<int32_t>());
  const int32_t state = reader.Int<int32_t>();
  event->path = ReadBuffer(reader);
  return reader.ok() && reader.empty() && state == kStateSyncConnected &&
         event->type >= tree::EventType::kNodeCreated &&
         event->type <= tree::EventType::kNodeChildrenChanged;
}

bool PacketReader::Next(std::string* packet) {
  if (bad_ || bytes_.size() < sizeof(int32_t)) return false;
  const int32_t length = LoadInt<std::endian::big, int32_t>(bytes_.data());
  if (length < 0 || length > kPacketBytesMax) {
    bad_ = true;
    return false;
  }
  const size_t whole = sizeof(int32_t) + static_cast<size_t>(length);
  if (bytes_.size() < whole) return false;
  packet->assign(bytes_, sizeof(int32_t), static_cast<size_t>(length));
  bytes_.erase(0, whole);
  return true;
}

}  // namespace quorate::simulation
