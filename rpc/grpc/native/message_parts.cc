// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/native/message_parts.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "rpc/proto/errors.h"
#include "rpc/proto/quorate/v1/lock.pb.h"

namespace quorate::rpc::native {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// A message of at most this size in bytes cannot have kPartsMax messages within it.
constexpr size_t kSurelyFewBytes = 2 * kPartsMax;
// The memory, in bytes, of an operation with its kind, and of an entry of an access control list.
constexpr size_t kOperationBytes = 192;
constexpr size_t kAclBytes = 96;
// The contender in a request of LockService or ElectionService, and its session.
constexpr uint32_t kContenderTag = WireFormatLite::MakeTag(
    v1::AcquireRequest::kContenderFieldNumber, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
constexpr uint32_t kContenderSessionTag =
    WireFormatLite::MakeTag(v1::Contender::kSessionIdFieldNumber, WireFormatLite::WIRETYPE_VARINT);
static_assert(v1::AcquireRequest::kContenderFieldNumber == 1 &&
              v1::CampaignRequest::kContenderFieldNumber == 1 &&
              v1::ReleaseRequest::kContenderFieldNumber == 1 &&
              v1::ResignRequest::kContenderFieldNumber == 1 &&
              v1::ProclaimRequest::kContenderFieldNumber == 1);

// Adds to `*parts` the number of messages in the rest of `in`, up to its limit. Stops when there
// are more than `max`. The recursion is bounded, because no type contains itself.
void AddParts(const Descriptor& type, CodedInputStream* in, size_t max, size_t* parts) {
  while (const uint32_t tag = in->ReadTag()) {
    const FieldDescriptor* field = type.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
    if (field == nullptr || field->message_type() == nullptr ||
        WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      if (!WireFormatLite::SkipField(in, tag)) return;
      continue;
    }
    uint32_t length = 0;
    if (++*parts > max || !in->ReadVarint32(&length)) return;
    const CodedInputStream::Limit limit = in->PushLimit(static_cast<int>(length));
    AddParts(*field->message_type(), in, max, parts);
    if (*parts > max || in->BytesUntilLimit() != 0) return;
    in->PopLimit(limit);
  }
}

CodedInputStream StreamOf(std::string_view bytes) {
  return CodedInputStream(reinterpret_cast<const uint8_t*>(bytes.data()),
                          static_cast<int>(bytes.size()));
}

}  // namespace

size_t CountField(std::string_view bytes, int number) {
  CodedInputStream in = StreamOf(bytes);
  size_t count = 0;
  while (const uint32_t tag = in.ReadTag()) {
    if (WireFormatLite::GetTagFieldNumber(tag) == number) ++count;
    if (!WireFormatLite::SkipField(&in, tag)) break;
  }
  return count;
}

size_t CountParts(const Descriptor& type, std::string_view bytes, size_t max) {
  CodedInputStream in = StreamOf(bytes);
  size_t parts = 0;
  AddParts(type, &in, max, &parts);
  return parts;
}

absl::Status CheckParts(const Descriptor& type, std::string_view bytes) {
  if (bytes.size() <= kSurelyFewBytes || CountParts(type, bytes, kPartsMax) <= kPartsMax) {
    return absl::OkStatus();
  }
  return ToStatus(v1::ERROR_CODE_TOO_LARGE,
                  absl::StrCat("a message may have ", kPartsMax,
                               " operations, entries of access control lists and "
                               "the like"));
}

std::optional<int64_t> ContenderSessionOf(std::string_view bytes) {
  std::optional<int64_t> session;
  CodedInputStream in = StreamOf(bytes);
  while (const uint32_t tag = in.ReadTag()) {
    if (tag != kContenderTag) {
      if (!WireFormatLite::SkipField(&in, tag)) break;
      continue;
    }
    uint32_t length = 0;
    if (!in.ReadVarint32(&length)) break;
    const CodedInputStream::Limit limit = in.PushLimit(static_cast<int>(length));
    while (const uint32_t inner = in.ReadTag()) {
      uint64_t value = 0;
      if (inner != kContenderSessionTag) {
        if (!WireFormatLite::SkipField(&in, inner)) return session;
        continue;
      }
      if (!in.ReadVarint64(&value)) return session;
      session = static_cast<int64_t>(value);
    }
    in.PopLimit(limit);
  }
  return session;
}

size_t DecodedBytes(const v1::Request& request) {
  size_t bytes = request.ByteSizeLong();
  if (request.kind_case() != v1::Request::kWrite) return bytes;
  const v1::Request::Write& write = request.write();
  for (const auto* operations : {&write.operations(), &write.otherwise()}) {
    for (const v1::Operation& operation : *operations) {
      size_t acls = 0;
      if (operation.has_create()) acls = static_cast<size_t>(operation.create().acl_size());
      if (operation.has_create_if_not_exists()) {
        acls = static_cast<size_t>(operation.create_if_not_exists().acl_size());
      }
      if (operation.has_set_acl()) acls = static_cast<size_t>(operation.set_acl().acl_size());
      bytes += kOperationBytes + kAclBytes * acls;
    }
  }
  return bytes + kOperationBytes * static_cast<size_t>(write.compares_size());
}

}  // namespace quorate::rpc::native
