// SPDX-License-Identifier: Apache-2.0

#include "tests/differential/requests.h"

#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "rpc/zookeeper/wire/wire.h"

namespace quorate::differential {
namespace {

std::string Quoted(const Text& text) {
  return text ? absl::StrCat("\"", Printable(*text), "\"") : "null";
}

std::string Listed(const AclEntries& acl) {
  if (!acl) return "null";
  std::string text = "[";
  for (const AclEntry& entry : *acl) {
    absl::StrAppend(&text, text.size() > 1 ? " " : "", entry.perms, ":", Printable(entry.scheme),
                    ":", Printable(entry.id));
  }
  return text + "]";
}

// Writes a request's body.
class Writer {
 public:
  Writer(wire::OpCode op, const std::string& text) : bytes_(&request_.body) {
    request_.op = op;
    request_.text = absl::StrCat(OpName(op), text.empty() ? "" : " ", text);
  }

  Writer& Put(const Text& text) {
    if (text) {
      bytes_.String(*text);
    } else {
      bytes_.Int<int32_t>(-1);
    }
    return *this;
  }
  Writer& Put(const AclEntries& acl) {
    bytes_.Int(acl ? static_cast<int32_t>(acl->size()) : -1);
    if (!acl) return *this;
    for (const AclEntry& entry : *acl) {
      bytes_.Int(entry.perms);
      bytes_.String(entry.scheme);
      bytes_.String(entry.id);
    }
    return *this;
  }
  Writer& Int(int32_t value) {
    bytes_.Int(value);
    return *this;
  }
  Writer& Long(int64_t value) {
    bytes_.Int(value);
    return *this;
  }
  Writer& Flag(bool value) {
    bytes_.Int<uint8_t>(value ? 1 : 0);
    return *this;
  }
  Writer& Raw(const std::string& bytes) {
    bytes_.Raw(bytes);
    return *this;
  }

  Request Done() { return std::move(request_); }

 private:
  Request request_;
  BigEndianWriter bytes_;
};

}  // namespace

Request MakeCreate(wire::OpCode op, const Text& path, const Text& data, const AclEntries& acl,
                   int32_t flags, int64_t ttl_ms) {
  std::string text =
      absl::StrCat(Quoted(path), " data ", Quoted(data), " acl ", Listed(acl), " flags ", flags);
  const bool with_ttl = op == wire::kCreateTtl;
  if (with_ttl) absl::StrAppend(&text, " ttl ", ttl_ms);
  Writer writer(op, text);
  writer.Put(path).Put(data).Put(acl).Int(flags);
  if (with_ttl) writer.Long(ttl_ms);
  return writer.Done();
}

Request MakeVersioned(wire::OpCode op, const Text& path, int32_t version) {
  return Writer(op, absl::StrCat(Quoted(path), " version ", version)).Put(path).Int(version).Done();
}

Request MakeSetData(const Text& path, const Text& data, int32_t version) {
  return Writer(wire::kSetData,
                absl::StrCat(Quoted(path), " data ", Quoted(data), " version ", version))
      .Put(path)
      .Put(data)
      .Int(version)
      .Done();
}

Request MakeSetAcl(const Text& path, const AclEntries& acl, int32_t version) {
  return Writer(wire::kSetAcl,
                absl::StrCat(Quoted(path), " acl ", Listed(acl), " version ", version))
      .Put(path)
      .Put(acl)
      .Int(version)
      .Done();
}

Request MakeRead(wire::OpCode op, const Text& path, bool watch) {
  return Writer(op, absl::StrCat(Quoted(path), watch ? " watch" : "")).Put(path).Flag(watch).Done();
}

Request MakePathOnly(wire::OpCode op, const Text& path) {
  return Writer(op, Quoted(path)).Put(path).Done();
}

Request MakeWatch(wire::OpCode op, const Text& path, int32_t mode_or_type) {
  return Writer(op, absl::StrCat(Quoted(path), op == wire::kAddWatch ? " mode " : " type ",
                                 mode_or_type))
      .Put(path)
      .Int(mode_or_type)
      .Done();
}

Request MakeAuth(const Text& scheme, const Text& credentials) {
  return Writer(wire::kAuth, absl::StrCat(Quoted(scheme), " ", Quoted(credentials)))
      .Int(0)
      .Put(scheme)
      .Put(credentials)
      .Done();
}

Request MakeSetWatches(wire::OpCode op, std::optional<int64_t> relative_zxid,
                       const std::vector<std::vector<std::string>>& lists) {
  std::string text = absl::StrCat("since ", relative_zxid ? absl::StrCat(*relative_zxid) : "seen");
  for (const auto& list : lists) {
    absl::StrAppend(&text, " [");
    for (const std::string& path : list) absl::StrAppend(&text, " ", Quoted(path));
    absl::StrAppend(&text, " ]");
  }
  Writer writer(op, text);
  writer.Long(relative_zxid.value_or(0));
  for (const auto& list : lists) {
    writer.Int(static_cast<int32_t>(list.size()));
    for (const std::string& path : list) writer.Put(Text(path));
  }
  Request request = writer.Done();
  request.has_relative_zxid = !relative_zxid;
  return request;
}

Request MakeMulti(wire::OpCode op, const std::vector<Request>& items) {
  std::string text = "{";
  for (const Request& item : items) absl::StrAppend(&text, text.size() > 1 ? "; " : "", item.text);
  Writer writer(op, text + "}");
  for (const Request& item : items)
    writer.Int(static_cast<int32_t>(item.op)).Flag(false).Int(-1).Raw(item.body);
  return writer.Int(-1).Flag(true).Int(-1).Done();
}

Request MakeReconfig(const Text& joining, const Text& leaving, const Text& members,
                     int64_t configuration) {
  return Writer(wire::kReconfig,
                absl::StrCat("joining ", Quoted(joining), " leaving ", Quoted(leaving), " members ",
                             Quoted(members), " configuration ", configuration))
      .Put(joining)
      .Put(leaving)
      .Put(members)
      .Long(configuration)
      .Done();
}

Request MakeEmpty(wire::OpCode op) { return Writer(op, "").Done(); }

}  // namespace quorate::differential
