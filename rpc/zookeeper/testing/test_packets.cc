// SPDX-License-Identifier: Apache-2.0

#include "rpc/zookeeper/testing/test_packets.h"

#include "base/bytes.h"

namespace quorate::rpc::zk {
namespace {

constexpr size_t kLengthBytes = 4;

std::string WithLength(const std::string& packet) {
  std::string framed;
  BigEndianWriter(&framed).String(packet);
  return framed;
}

}  // namespace

Packet DecodePacket(const std::string& frame) {
  BigEndianReader reader(frame);
  Packet packet;
  packet.xid = reader.Int<int32_t>();
  packet.zxid = reader.Int<int64_t>();
  packet.error = static_cast<tree::ErrorCode>(reader.Int<int32_t>());
  packet.body = std::string(reader.rest());
  return packet;
}

std::string ConnectPacket(const ConnectPacketOptions& options) {
  std::string packet;
  BigEndianWriter writer(&packet);
  writer.Int<int32_t>(0);
  writer.Int(options.last_zxid);
  writer.Int(options.timeout_ms);
  writer.Int(options.session);
  writer.String(options.password);
  if (options.with_read_only) writer.Int<uint8_t>(options.read_only ? 1 : 0);
  return WithLength(packet);
}

bool DecodeConnectResponse(const std::string& frame, bool with_read_only,
                           ConnectResponse* response) {
  if (frame.size() != (with_read_only ? 37u : 36u)) return false;
  BigEndianReader reader(frame);
  reader.Int<int32_t>();
  response->timeout_ms = reader.Int<int32_t>();
  response->session_id = reader.Int<int64_t>();
  response->password = std::string(reader.String());
  response->has_read_only = with_read_only;
  response->read_only = with_read_only && reader.Int<uint8_t>() != 0;
  return true;
}

std::string RequestPacket(int32_t xid, OpCode op, const std::string& body) {
  std::string packet;
  BigEndianWriter writer(&packet);
  writer.Int(xid);
  writer.Int(static_cast<int32_t>(op));
  writer.Raw(body);
  return WithLength(packet);
}

std::string Create(const std::string& path, const std::string& data, int32_t flags) {
  std::string body;
  BigEndianWriter writer(&body);
  writer.String(path);
  writer.String(data);
  WriteAcl(tree::OpenAcl(), writer);
  writer.Int(flags);
  return body;
}

std::string SetData(const std::string& path, const std::string& data) {
  std::string body;
  BigEndianWriter writer(&body);
  writer.String(path);
  writer.String(data);
  writer.Int<int32_t>(tree::kAnyVersion);
  return body;
}

std::string Path(const std::string& path) {
  std::string body;
  BigEndianWriter(&body).String(path);
  return body;
}

std::string PathAndWatch(const std::string& path, bool watch) {
  return Path(path) + std::string(1, watch ? '\1' : '\0');
}

std::string Multi(const std::vector<std::pair<OpCode, std::string>>& items) {
  std::string body;
  BigEndianWriter writer(&body);
  for (const auto& [op, item] : items) {
    writer.Int(static_cast<int32_t>(op));
    writer.Int<uint8_t>(0);
    writer.Int<int32_t>(-1);
    writer.Raw(item);
  }
  writer.Int<int32_t>(-1);
  writer.Int<uint8_t>(1);
  writer.Int<int32_t>(-1);
  return body;
}

std::string DataOf(const Packet& packet) {
  BigEndianReader reader(packet.body);
  return std::string(reader.String());
}

bool TakeFrame(std::string* bytes, std::string* frame) {
  if (bytes->size() < kLengthBytes) return false;
  const auto length = static_cast<size_t>(LoadInt<std::endian::big, int32_t>(bytes->data()));
  if (bytes->size() - kLengthBytes < length) return false;
  frame->assign(*bytes, kLengthBytes, length);
  bytes->erase(0, kLengthBytes + length);
  return true;
}

}  // namespace quorate::rpc::zk
