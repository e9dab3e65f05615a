// SPDX-License-Identifier: Apache-2.0

// Requests and responses of HTTP, between the server (http_server.h) and the handlers.
//
// Thread-safety: plain values, and an interface whose functions say who calls them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "rpc/frontend/authorization.h"

namespace quorate::rpc::admin {

struct HttpRequest {
  std::string method;         // "GET", "POST", ...; the server turns HEAD into GET
  std::string target;         // as it was sent
  Principal caller;           // its address, and the subject of its valid certificate
  bool is_encrypted = false;  // by TLS of this server
  // The values of headers; empty if they are not there.
  std::string host;
  std::string authorization;
  std::string accept;
  std::string origin;      // Origin, the site whose page sends the request
  std::string fetch_site;  // Sec-Fetch-Site, by which browsers tell which site sends the request
  std::string content_type;
  std::string page_token;  // X-Quorate-Page (page_token.h)
  bool has_several_authorizations = false;
  bool is_passed_on = false;    // by a proxy, which has added Forwarded, X-Forwarded-For or Via
  bool has_large_body = false;  // of more bytes than are read; `body` is empty then
  std::string body;
};

// A body that is made while it is sent, so that it is never in memory as a whole. Its destructor frees
// what it holds, and may take long: it runs on HttpThread::kStreams when the body is sent, or its client
// is gone, or where the server is stopped.
class HttpStream {
 public:
  virtual ~HttpStream() = default;
  // Returns the number of bytes of the whole body.
  virtual uint64_t size() const = 0;
  // Sets `*piece` to the next bytes of the body, at least one. Called on HttpThread::kStreams, when the
  // client has taken the piece before, and until all bytes are there. An error ends the connection, from
  // which the client learns that the body is not whole.
  virtual absl::Status Next(std::string* piece) = 0;
  // Called on HttpThread::kStreams, after the client has taken the last byte.
  virtual void OnSent() {}
};

struct HttpResponse {
  unsigned status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;  // beside the usual ones
  std::shared_ptr<HttpStream> stream;                        // in place of `body`, if it is set
  // If this function is set, it is called on HttpThread::kStreams, and the client gets the response that it
  // returns; the other fields of this response are ignored. So a handler checks a request before the request
  // takes one of the few places that wait for that thread. The returned response has no such function. Not
  // for requests that are handled on HttpThread::kConnections.
  std::function<HttpResponse()> make_on_streams;
};

// The threads of a server on which requests are handled.
enum class HttpThread : uint8_t {
  kConnections,  // serves all connections: for requests without files and without long work
  kCommands,
  kConsole,  // for requests that read long lists, so that commands need not wait for them
  kChanges,  // for requests that wait until the cluster has made a change
  kStreams,  // for requests whose response is a stream
};

class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // Returns the thread that is to handle the request. Called on the thread of connections.
  virtual HttpThread ThreadOf(const HttpRequest& request) const = 0;
  // Returns whether the handler answers the request although its body is larger than kBodyBytesMax; it then
  // gets no body, and HttpRequest::has_large_body is set. The server answers other such requests with
  // status 413. Called on the thread of connections.
  virtual bool TakesLargeBody(const HttpRequest& /*request*/) const { return false; }
  // Returns the response to a request that is not handled, whoever sends it; nullopt for others. Called
  // on the thread of connections, before the request takes a place among those that wait for a thread,
  // of which there are few; it must not wait for anything.
  virtual std::optional<HttpResponse> Refuse(const HttpRequest& /*request*/) const {
    return std::nullopt;
  }
  // Called on the thread that ThreadOf names. All threads may call at once.
  virtual HttpResponse Handle(const HttpRequest& request) = 0;
};

// Returns a response with a line of text.
inline HttpResponse TextResponse(unsigned status, std::string text) {
  HttpResponse response;
  response.status = status;
  response.body = std::move(text);
  response.body += '\n';
  return response;
}

}  // namespace quorate::rpc::admin
