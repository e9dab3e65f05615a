// SPDX-License-Identifier: Apache-2.0

#include "tests/differential/answer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/zookeeper/wire/wire.h"
#include "tests/differential/operation.h"

namespace quorate::differential {
namespace {

// Decodes the fields of an answer. Several fields may have the same name; differences are grouped
// by the names of fields.
class Decoder {
 public:
  Decoder(std::string_view body, std::vector<Field>* fields) : reader_(body), fields_(*fields) {}

  void Number(const char* name) { Add(name, FieldKind::kNumber, reader_.Int<int32_t>()); }
  void Byte(const char* name) { Add(name, FieldKind::kNumber, reader_.Int<uint8_t>()); }
  void Text(const char* name) {
    bool has = false;
    const std::string text(wire::ReadBuffer(reader_, &has));
    fields_.push_back({name, FieldKind::kText, has ? 1 : 0, text, 0});
  }

  void Stat() {
    Add("czxid", FieldKind::kZxid, reader_.Int<int64_t>());
    Add("mzxid", FieldKind::kZxid, reader_.Int<int64_t>());
    AddTime("ctime", reader_.Int<int64_t>());
    AddTime("mtime", reader_.Int<int64_t>());
    Number("version");
    Number("cversion");
    Number("aversion");
    Add("ephemeralOwner", FieldKind::kSession, reader_.Int<int64_t>());
    Number("dataLength");
    Number("numChildren");
    Add("pzxid", FieldKind::kZxid, reader_.Int<int64_t>());
  }

  // A list of names, whose order is not specified.
  void NameSet(const char* name) {
    std::vector<std::string> names;
    const int32_t count = reader_.Int<int32_t>();
    for (int32_t i = 0; i < count && reader_.ok(); ++i)
      names.emplace_back(wire::ReadBuffer(reader_));
    std::sort(names.begin(), names.end());
    Add("count", FieldKind::kNumber, count);
    for (std::string& text : names) {
      fields_.push_back({name, FieldKind::kText, 1, std::move(text), 0});
    }
  }

  // Entries keep their order, except those that replaced an `auth` entry of a client with several
  // identities: neighbours with the same permissions.
  void AclList() {
    struct Entry {
      int32_t perms;
      std::string scheme, id;
    };
    std::vector<Entry> entries;
    const int32_t count = reader_.Int<int32_t>();
    for (int32_t i = 0; i < count && reader_.ok(); ++i) {
      Entry& entry = entries.emplace_back();
      entry.perms = reader_.Int<int32_t>();
      entry.scheme = wire::ReadBuffer(reader_);
      entry.id = wire::ReadBuffer(reader_);
    }
    for (auto from = entries.begin(); from != entries.end();) {
      auto to = from + 1;
      while (to != entries.end() && to->perms == from->perms && to->scheme == from->scheme) ++to;
      std::sort(from, to, [](const Entry& a, const Entry& b) { return a.id < b.id; });
      from = to;
    }
    Add("count", FieldKind::kNumber, count);
    for (Entry& entry : entries) {
      const std::string text = absl::StrCat(entry.perms, ":", entry.scheme, ":", entry.id);
      fields_.push_back({"acl", FieldKind::kText, 1, text, 0});
    }
  }

  // The identities of a connection, whose order is not specified.
  void Identities() {
    std::vector<std::string> identities;
    const int32_t count = reader_.Int<int32_t>();
    for (int32_t i = 0; i < count && reader_.ok(); ++i) {
      std::string identity(wire::ReadBuffer(reader_));
      absl::StrAppend(&identity, ":", std::string(wire::ReadBuffer(reader_)));
      identities.push_back(std::move(identity));
    }
    std::sort(identities.begin(), identities.end());
    Add("count", FieldKind::kNumber, count);
    for (std::string& text : identities) {
      fields_.push_back({"identity", FieldKind::kText, 1, std::move(text), 0});
    }
  }

  void Multi() {
    while (reader_.ok()) {
      const auto type = static_cast<wire::OpCode>(reader_.Int<int32_t>());
      const bool done = reader_.Int<uint8_t>() != 0;
      const int32_t error = reader_.Int<int32_t>();
      Add("item type", FieldKind::kNumber, static_cast<int32_t>(type));
      Add("item done", FieldKind::kNumber, done ? 1 : 0);
      Add("item error", FieldKind::kError, error);
      if (done) return;
      if (type == wire::kError) {
        Add("item error again", FieldKind::kError, reader_.Int<int32_t>());
      } else if (type != wire::kCheck) {
        Body(type);
      }
    }
  }

  void Body(wire::OpCode op) {
    switch (op) {
      case wire::kCreate:
      case wire::kSync:
        return Text("path");
      case wire::kCreate2:
      case wire::kCreateContainer:
      case wire::kCreateTtl:
        Text("path");
        return Stat();
      case wire::kExists:
      case wire::kSetData:
      case wire::kSetAcl:
      case wire::kCheck:
        return Stat();
      case wire::kGetData:
      case wire::kReconfig:
        Text("data");
        return Stat();
      case wire::kGetAcl:
        AclList();
        return Stat();
      case wire::kGetChildren:
        return NameSet("child");
      case wire::kGetChildren2:
        NameSet("child");
        return Stat();
      case wire::kGetEphemerals:
        return NameSet("ephemeral");
      case wire::kGetAllChildrenNumber:
        return Number("totalNumber");
      case wire::kAddWatch:
        return Number("err");
      case wire::kWhoAmI:
        return Identities();
      case wire::kMulti:
      case wire::kMultiRead:
        return Multi();
      default:
        return;
    }
  }

  // The bytes behind the last known field.
  void Rest() {
    if (!reader_.ok()) fields_.push_back({"cut short", FieldKind::kText, 1, "", 0});
    if (!reader_.empty()) {
      fields_.push_back({"rest", FieldKind::kText, 1, std::string(reader_.rest()), 0});
    }
  }

  void Add(const char* name, FieldKind kind, int64_t number) {
    fields_.push_back({name, kind, number, "", 0});
  }

 private:
  void AddTime(const char* name, int64_t time) {
    fields_.push_back({name, FieldKind::kTime, time, "", 2});
  }

  BigEndianReader reader_;
  std::vector<Field>& fields_;
};

}  // namespace

std::string_view ToString(AnswerKind kind) {
  switch (kind) {
    case AnswerKind::kHandshake:
      return "handshake";
    case AnswerKind::kReply:
      return "reply";
    case AnswerKind::kEvent:
      return "event";
    case AnswerKind::kClosed:
      return "connection closed";
    case AnswerKind::kNothing:
      return "nothing in time";
    case AnswerKind::kNoMore:
      return "nothing more";
  }
  return "?";
}

std::string Field::Describe() const {
  if (kind == FieldKind::kText) {
    return absl::StrCat(name, "=",
                        number == 0 ? "null" : absl::StrCat("\"", Printable(text), "\""));
  }
  if (kind == FieldKind::kError)
    return absl::StrCat(name, "=", ErrorName(static_cast<int32_t>(number)));
  return absl::StrCat(name, "=", number);
}

std::string Answer::Describe() const {
  std::string description(ToString(kind));
  if (kind == AnswerKind::kReply) absl::StrAppend(&description, " to ", OpName(op), " xid ", xid);
  for (const Field& field : fields) absl::StrAppend(&description, " ", field.Describe());
  return description;
}

Answer DecodeHandshake(std::string_view packet) {
  Answer answer;
  answer.kind = AnswerKind::kHandshake;
  BigEndianReader reader(packet);
  auto add = [&](const char* name, FieldKind kind, int64_t number) {
    answer.fields.push_back({name, kind, number, "", 0});
  };
  add("protocolVersion", FieldKind::kNumber, reader.Int<int32_t>());
  add("timeOut", FieldKind::kNumber, reader.Int<int32_t>());
  add("sessionId", FieldKind::kSession, reader.Int<int64_t>());
  add("password length", FieldKind::kNumber, static_cast<int64_t>(wire::ReadBuffer(reader).size()));
  answer.fields.push_back({"rest", FieldKind::kText, 1, std::string(reader.rest()), 0});
  return answer;
}

Answer DecodeReplyTo(wire::OpCode op, std::string_view packet) {
  Answer answer;
  answer.kind = AnswerKind::kReply;
  answer.op = op;
  BigEndianReader reader(packet);
  answer.xid = reader.Int<int32_t>();
  const int64_t zxid = reader.Int<int64_t>();
  answer.error = reader.Int<int32_t>();
  Decoder decoder(reader.rest(), &answer.fields);
  decoder.Add("xid", FieldKind::kNumber, answer.xid);
  decoder.Add("err", FieldKind::kError, answer.error);
  decoder.Add("zxid", FieldKind::kSeenZxid, zxid);
  // ZooKeeper also sends partial results of a failed multi; clients do not read behind an error.
  if (answer.error != 0 && (op == wire::kMulti || op == wire::kMultiRead)) return answer;
  if (answer.error == 0) decoder.Body(op);
  decoder.Rest();
  return answer;
}

Answer DecodeEvent(std::string_view packet) {
  Answer answer;
  answer.kind = AnswerKind::kEvent;
  BigEndianReader reader(packet);
  answer.xid = reader.Int<int32_t>();
  const int64_t zxid = reader.Int<int64_t>();
  answer.error = reader.Int<int32_t>();
  Decoder decoder(reader.rest(), &answer.fields);
  decoder.Number("type");
  decoder.Number("state");
  decoder.Text("path");
  decoder.Add("err", FieldKind::kError, answer.error);
  decoder.Add("event zxid", FieldKind::kNumber, zxid);
  decoder.Rest();
  return answer;
}

}  // namespace quorate::differential
