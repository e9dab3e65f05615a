#include "tests/lib/wire/wire.h"

namespace quorate::wire {
namespace {

constexpr int32_t kPacketBytesMax = 64 << 20;

}  // namespace

std::string Framed(std::string_view packet) {
  std::string framed;
  BigEndianWriter(&framed).String(packet);
  return framed;
}

std::string_view ReadBuffer(BigEndianReader& reader, bool* has) {
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

}  // namespace quorate::wire
