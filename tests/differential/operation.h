// What the comparison does to both servers: steps of clients that hold sessions, as the bytes that
// both servers get.
//
// Thread-safety: values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rpc/zk/wire/wire.h"

namespace quorate::differential {

// One request. What differs between the servers (the last zxid that the client has seen) is filled
// in when it is sent.
struct Request {
  int32_t xid = 0;
  wire::OpCode op = wire::kNotification;
  std::string body;  // after the header
  // The body begins with a zxid: it becomes the last one that the client has seen.
  bool has_relative_zxid = false;
  // `body` is sent as it is, without a length and a header.
  bool raw = false;
  std::string text;  // for people
};

enum class OperationKind {
  kConnect,   // on a new TCP connection; the old one stays open until the new one is up
  kRequests,  // one or more, sent at once
  kDrop,      // the TCP connection is closed; the session lives on
};

// What a connect asks for.
enum class ConnectKind {
  kNewSession,
  kOwnSession,
  kWrongPassword,
  kUnknownSession,
  kZxidOfTheFuture,
};

struct Operation {
  OperationKind kind = OperationKind::kRequests;
  int slot = 0;  // which client

  // kConnect.
  ConnectKind connect = ConnectKind::kNewSession;
  int32_t timeout_ms = 0;
  bool with_read_only = true;

  // kRequests; a client that is not connected connects first.
  std::vector<Request> requests;

  // One line, for people.
  std::string Describe() const;
};

// "create", "getData", ...; the number if it is none that is known.
std::string OpName(wire::OpCode op);
// "NoNode(-101)"
std::string ErrorName(int32_t error);
// Printable ASCII as it is, the rest as \xNN; long text is cut in the middle.
std::string Printable(const std::string& text);

// Whether it is a request that a server answers without ending the connection.
bool KeepsConnection(wire::OpCode op);
// Whether it may change the tree, or what watches see.
bool IsMutation(wire::OpCode op);

}  // namespace quorate::differential
