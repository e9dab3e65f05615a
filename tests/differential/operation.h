// SPDX-License-Identifier: Apache-2.0

// The operations that the comparison performs at both servers: steps of clients with sessions, as
// the bytes that both servers get.
//
// Thread-safety: values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rpc/zookeeper/wire/wire.h"

namespace quorate::differential {

// One request. The value that differs between the servers (the last zxid that the client has seen)
// is filled in when it is sent.
struct Request {
  int32_t xid = 0;
  wire::OpCode op = wire::kNotification;
  std::string body;  // after the header
  // The body begins with a zxid, which is replaced by the last one that the client has seen.
  bool has_relative_zxid = false;
  // `body` is sent as it is, without a length and a header.
  bool raw = false;
  std::string text;  // a description for reports
};

enum class OperationKind {
  kConnect,   // on a new TCP connection; the old one stays open until the new one is up
  kRequests,  // one or more requests, sent together
  kDrop,      // the TCP connection is closed; the session remains
};

// The kinds of connect requests.
enum class ConnectKind {
  kNewSession,
  kOwnSession,
  kWrongPassword,
  kUnknownSession,
  kZxidOfTheFuture,
};

struct Operation {
  OperationKind kind = OperationKind::kRequests;
  int slot = 0;  // the number of the client

  // kConnect.
  ConnectKind connect = ConnectKind::kNewSession;
  int32_t timeout_ms = 0;
  bool with_read_only = true;

  // kRequests; a client that is not connected connects first.
  std::vector<Request> requests;

  // Returns a description for reports, in one line.
  std::string Describe() const;
};

// "create", "getData", ...; the number of an unknown operation.
std::string OpName(wire::OpCode op);
// "NoNode(-101)"
std::string ErrorName(int32_t error);
// Printable ASCII as it is, the rest as \xNN; long text is cut in the middle.
std::string Printable(const std::string& text);

// Returns whether a server answers the request without ending the connection.
bool KeepsConnection(wire::OpCode op);
// Returns whether the request may change the tree or cause watch events.
bool IsMutation(wire::OpCode op);

}  // namespace quorate::differential
