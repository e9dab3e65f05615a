// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/clients/wire.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/bytes.h"

namespace quorate::simulation {
namespace {

constexpr int32_t kStateSyncConnected = 3;

wire::OpCode CodeOf(const Step& step) {
  switch (step.kind) {
    case OperationKind::kCreate:
      return step.wants_stat ? wire::kCreate2 : wire::kCreate;
    case OperationKind::kDelete:
      return wire::kDelete;
    case OperationKind::kSetData:
      return wire::kSetData;
    case OperationKind::kSetAcl:
      return wire::kSetAcl;
    default:
      ASSERT(step.kind == OperationKind::kCheck, "no other operation is a step");
      return wire::kCheck;
  }
}

bool HasPersistentWatches(const Request& request) {
  return !request.persistent_watches.empty() || !request.recursive_watches.empty();
}

wire::OpCode CodeOf(const Request& request) {
  switch (request.kind) {
    case OperationKind::kMulti:
      return wire::kMulti;
    case OperationKind::kCloseSession:
      return wire::kCloseSession;
    case OperationKind::kExists:
      return wire::kExists;
    case OperationKind::kGetData:
      return wire::kGetData;
    case OperationKind::kGetChildren:
      return request.wants_stat ? wire::kGetChildren2 : wire::kGetChildren;
    case OperationKind::kSync:
      return wire::kSync;
    case OperationKind::kSetWatches:
      return HasPersistentWatches(request) ? wire::kSetWatches2 : wire::kSetWatches;
    case OperationKind::kAddWatch:
      return wire::kAddWatch;
    case OperationKind::kMultiRead:
      return wire::kMultiRead;
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

void WriteMultiHeader(wire::OpCode type, bool done, BigEndianWriter& to) {
  to.Int(static_cast<int32_t>(type));
  to.Int<uint8_t>(done ? 1 : 0);
  to.Int<int32_t>(-1);
}

void WriteStrings(const std::vector<std::string>& strings, BigEndianWriter& to) {
  to.Int(static_cast<int32_t>(strings.size()));
  for (const std::string& string : strings) to.String(string);
}

StepResult ReadStepResult(wire::OpCode code, BigEndianReader& reader) {
  StepResult result;
  if (code == wire::kCreate || code == wire::kCreate2) result.path = wire::ReadBuffer(reader);
  if (code == wire::kCreate2 || code == wire::kSetData || code == wire::kSetAcl)
    result.stat = wire::ReadStat(reader);
  return result;
}

enum class Item { kResult, kError, kBad };
// Reads the header before each result of a multi or multiRead: kBad if it is neither that of an
// operation with this code nor that of an error.
Item ReadItemHeader(wire::OpCode code, BigEndianReader& reader, tree::ErrorCode* error) {
  const auto type = static_cast<wire::OpCode>(reader.Int<int32_t>());
  const bool done = reader.Int<uint8_t>() != 0;
  const int32_t number = reader.Int<int32_t>();
  if (done || !reader.ok()) return Item::kBad;
  *error = static_cast<tree::ErrorCode>(number);
  if (type == wire::kError) {
    return reader.Int<int32_t>() == number ? Item::kError : Item::kBad;
  }
  return type == code && number == 0 ? Item::kResult : Item::kBad;
}

bool ReadMultiEnd(BigEndianReader& reader) {
  const auto type = static_cast<wire::OpCode>(reader.Int<int32_t>());
  const bool done = reader.Int<uint8_t>() != 0;
  return type == wire::kError && done && reader.Int<int32_t>() == -1;
}

bool ReadMulti(BigEndianReader& reader, const Request& request, Reply* reply) {
  for (const Step& step : request.steps) {
    tree::ErrorCode error{};
    const Item item = ReadItemHeader(CodeOf(step), reader, &error);
    if (item == Item::kBad) return false;
    if (item == Item::kResult) {
      reply->steps.push_back(ReadStepResult(CodeOf(step), reader));
    } else {
      reply->steps.emplace_back().error = error;
    }
  }
  return ReadMultiEnd(reader);
}

bool ReadMultiRead(BigEndianReader& reader, const Request& request, Reply* reply) {
  for (size_t i = 0; i < request.paths.size(); ++i) {
    ReadResult& result = reply->reads.emplace_back();
    const Item item = ReadItemHeader(wire::kGetData, reader, &result.error);
    if (item == Item::kBad) return false;
    if (item == Item::kError) continue;
    result.data = wire::ReadBuffer(reader);
    result.stat = wire::ReadStat(reader);
  }
  return ReadMultiEnd(reader);
}

}  // namespace

std::string EncodeRequest(int32_t xid, const Request& request) {
  std::string packet;
  BigEndianWriter writer(&packet);
  writer.Int(xid);
  writer.Int(static_cast<int32_t>(CodeOf(request)));
  if (request.kind == OperationKind::kMulti) {
    for (const Step& step : request.steps) {
      WriteMultiHeader(CodeOf(step), false, writer);
      WriteStep(step, writer);
    }
    WriteMultiHeader(wire::kError, true, writer);
  } else if (request.kind == OperationKind::kSetWatches) {
    writer.Int(request.relative_zxid);
    WriteStrings(request.data_watches, writer);
    WriteStrings(request.exist_watches, writer);
    WriteStrings(request.child_watches, writer);
    if (HasPersistentWatches(request)) {
      WriteStrings(request.persistent_watches, writer);
      WriteStrings(request.recursive_watches, writer);
    }
  } else if (request.kind == OperationKind::kMultiRead) {
    for (const std::string& path : request.paths) {
      WriteMultiHeader(wire::kGetData, false, writer);
      wire::WriteRead(path, /*watch=*/false, writer);
    }
    WriteMultiHeader(wire::kError, true, writer);
  } else if (request.kind == OperationKind::kAddWatch) {
    writer.String(request.path);
    writer.Int<int32_t>(request.recursive ? 1 : 0);
  } else if (IsRead(request.kind) || request.kind == OperationKind::kSync) {
    writer.String(request.path);
    if (IsRead(request.kind)) writer.Int<uint8_t>(request.watch ? 1 : 0);
  } else if (request.kind != OperationKind::kCloseSession) {
    WriteStep(request.steps[0], writer);
  }
  return wire::Framed(packet);
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
      reply->data = wire::ReadBuffer(reader, &reply->has_data);
      reply->stat = wire::ReadStat(reader);
      break;
    case OperationKind::kExists:
      reply->stat = wire::ReadStat(reader);
      break;
    case OperationKind::kGetChildren:
      for (int32_t left = reader.Int<int32_t>(); left > 0 && reader.ok(); --left) {
        reply->children.emplace_back(wire::ReadBuffer(reader));
      }
      std::sort(reply->children.begin(), reply->children.end());
      if (request.wants_stat) reply->stat = wire::ReadStat(reader);
      break;
    case OperationKind::kSync:
      reply->path = wire::ReadBuffer(reader);
      break;
    case OperationKind::kMultiRead:
      if (!ReadMultiRead(reader, request, reply)) return false;
      break;
    case OperationKind::kAddWatch:
      if (reader.Int<int32_t>() != 0) return false;
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
  event->path = wire::ReadBuffer(reader);
  return reader.ok() && reader.empty() && state == kStateSyncConnected &&
         event->type >= tree::EventType::kNodeCreated &&
         event->type <= tree::EventType::kNodeChildrenChanged;
}

}  // namespace quorate::simulation
