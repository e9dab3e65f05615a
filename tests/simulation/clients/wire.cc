// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/clients/wire.h"

#include <algorithm>
#include <numeric>
#include <optional>
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
    case OperationKind::kCheckNotExists:
      return wire::kCheckNotExists;
    case OperationKind::kCreateIfNotExists:
      return wire::kCreateIfNotExists;
    case OperationKind::kRemoveRecursive:
      return wire::kRemoveRecursive;
    case OperationKind::kCheckStat:
      return wire::kCheckStat;
    case OperationKind::kTryRemove:
      return wire::kTryRemove;
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
    case OperationKind::kFilteredList:
      return wire::kFilteredList;
    case OperationKind::kFilteredListDetailed:
      return wire::kFilteredListDetailed;
    case OperationKind::kListRecursive:
      return wire::kListRecursive;
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

void WriteStep(const Step& step, BigEndianWriter& to) {
  to.String(step.path);
  if (step.kind == OperationKind::kRemoveRecursive) {
    to.Int(step.limit);
    return;
  }
  if (IsCreate(step.kind) || step.kind == OperationKind::kSetData) {
    if (step.has_data) {
      to.String(step.data);
    } else {
      to.Int<int32_t>(-1);
    }
  }
  if (IsCreate(step.kind) || step.kind == OperationKind::kSetAcl) WriteOpenAcl(to);
  to.Int(IsCreate(step.kind) ? static_cast<int32_t>(step.mode) : step.version);
  if (step.kind == OperationKind::kCheckStat) WriteStat(step.expected, to);
}

// Writes the fields of a read that follow its path.
void WriteReadRest(const Request& request, BigEndianWriter& to) {
  if (request.kind == OperationKind::kListRecursive) {
    to.Int(request.max);
    return;
  }
  to.Int<uint8_t>(request.watch ? 1 : 0);
  const bool is_detailed = request.kind == OperationKind::kFilteredListDetailed;
  if (request.kind != OperationKind::kFilteredList && !is_detailed) return;
  to.Int(static_cast<uint8_t>(request.child_kind));
  if (!is_detailed) return;
  to.Int<uint8_t>(request.wants_child_stats ? 1 : 0);
  to.Int<uint8_t>(request.wants_child_data ? 1 : 0);
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
  if (code == wire::kCreate || code == wire::kCreate2 || code == wire::kCreateIfNotExists) {
    result.path = wire::ReadBuffer(reader);
  }
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

void ReadNames(BigEndianReader& reader, std::vector<std::string>* names) {
  for (int32_t left = reader.Int<int32_t>(); left > 0 && reader.ok(); --left) {
    names->emplace_back(wire::ReadBuffer(reader));
  }
}

// Reads the children of a filtered list, and sorts them by their names.
bool ReadFilteredList(BigEndianReader& reader, const Request& request, Reply* reply) {
  std::vector<std::string> names;
  ReadNames(reader, &names);
  reply->stat = wire::ReadStat(reader);
  std::vector<size_t> order(names.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return names[a] < names[b]; });
  std::vector<tree::Stat> stats;
  std::vector<std::optional<std::string>> data;
  if (request.kind == OperationKind::kFilteredListDetailed) {
    for (int32_t left = reader.Int<int32_t>(); left > 0 && reader.ok(); --left) {
      stats.push_back(wire::ReadStat(reader));
    }
    for (int32_t left = reader.Int<int32_t>(); left > 0 && reader.ok(); --left) {
      bool has_data = false;
      std::string each(wire::ReadBuffer(reader, &has_data));
      data.push_back(has_data ? std::optional(std::move(each)) : std::nullopt);
    }
  }
  if (stats.size() != (request.wants_child_stats ? names.size() : 0) ||
      data.size() != (request.wants_child_data ? names.size() : 0)) {
    return false;
  }
  for (const size_t from : order) {
    reply->children.push_back(std::move(names[from]));
    if (request.wants_child_stats) reply->child_stats.push_back(stats[from]);
    if (request.wants_child_data) reply->child_data.push_back(std::move(data[from]));
  }
  return true;
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
    if (IsRead(request.kind)) WriteReadRest(request, writer);
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
      ReadNames(reader, &reply->children);
      std::sort(reply->children.begin(), reply->children.end());
      if (request.wants_stat) reply->stat = wire::ReadStat(reader);
      break;
    case OperationKind::kFilteredList:
    case OperationKind::kFilteredListDetailed:
      if (!ReadFilteredList(reader, request, reply)) return false;
      break;
    case OperationKind::kListRecursive:
      ReadNames(reader, &reply->children);
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
