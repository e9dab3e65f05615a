// SPDX-License-Identifier: Apache-2.0

#include "rpc/zookeeper/wire/wire.h"

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
  writer.Int(static_cast<int32_t>(kPing));
  return Framed(packet);
}

std::string EncodeAuth(std::string_view scheme, std::string_view credentials) {
  std::string packet;
  BigEndianWriter writer(&packet);
  writer.Int(kAuthXid);
  writer.Int(static_cast<int32_t>(kAuth));
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

RequestWriter::RequestWriter(std::string* out, int32_t xid, OpCode op)
    : out_(*out), start_(out->size()), body_(out) {
  body_.Int<int32_t>(0);  // the length, set by the destructor
  body_.Int(xid);
  body_.Int(static_cast<int32_t>(op));
}

RequestWriter::~RequestWriter() {
  const size_t length = out_.size() - start_ - sizeof(int32_t);
  StoreInt<std::endian::big>(out_.data() + start_, static_cast<int32_t>(length));
}

void WriteCreate(std::string_view path, std::string_view data, tree::CreateMode mode,
                 BigEndianWriter& to) {
  to.String(path);
  to.String(data);
  to.Int<int32_t>(1);  // number of entries of the ACL
  to.Int(tree::permission::kAll);
  to.String("world");
  to.String("anyone");
  to.Int(static_cast<int32_t>(mode));
}

void WriteDelete(std::string_view path, int32_t version, BigEndianWriter& to) {
  to.String(path);
  to.Int(version);
}

void WriteSetData(std::string_view path, std::string_view data, int32_t version,
                  BigEndianWriter& to) {
  to.String(path);
  to.String(data);
  to.Int(version);
}

void WriteRead(std::string_view path, bool watch, BigEndianWriter& to) {
  to.String(path);
  to.Int<uint8_t>(watch ? 1 : 0);
}

void WriteMultiHeader(OpCode op, BigEndianWriter& to) {
  to.Int(static_cast<int32_t>(op));
  to.Int<uint8_t>(0);   // not the end
  to.Int<int32_t>(-1);  // an error, which only answers have
}

void WriteMultiEnd(BigEndianWriter& to) {
  to.Int(static_cast<int32_t>(kError));
  to.Int<uint8_t>(1);
  to.Int<int32_t>(-1);
}

Cut CutPacket(std::string_view* bytes, std::string_view* packet) {
  if (bytes->size() < sizeof(int32_t)) return Cut::kIncomplete;
  const int32_t length = LoadInt<std::endian::big, int32_t>(bytes->data());
  if (length < 0 || length > kPacketBytesMax) return Cut::kBad;
  const auto size = static_cast<size_t>(length);
  if (bytes->size() - sizeof(int32_t) < size) return Cut::kIncomplete;
  *packet = bytes->substr(sizeof(int32_t), size);
  bytes->remove_prefix(sizeof(int32_t) + size);
  return Cut::kPacket;
}

bool PacketReader::Next(std::string* packet) {
  if (bad_) return false;
  std::string_view rest = bytes_;
  std::string_view cut;
  const Cut result = CutPacket(&rest, &cut);
  bad_ = result == Cut::kBad;
  if (result != Cut::kPacket) return false;
  packet->assign(cut);
  bytes_.erase(0, bytes_.size() - rest.size());
  return true;
}

}  // namespace quorate::wire
