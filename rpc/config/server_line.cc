// SPDX-License-Identifier: Apache-2.0

#include "rpc/config/server_line.h"

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/strings.h"
#include "rpc/config/config_value.h"

namespace quorate::rpc {
namespace {

constexpr const char* kForm =
    "it has to be host:peerPort:electionPort[:participant|:observer][;[clientHost:]clientPort]";

// Splits "host:port" or "[v6]:port" into the host and the text after the colon.
bool SplitHost(absl::string_view text, std::string* host, absl::string_view* rest) {
  size_t end;
  if (absl::StartsWith(text, "[")) {
    end = text.find(']');
    if (end == absl::string_view::npos) return false;
    *host = std::string(text.substr(1, end - 1));
    ++end;
  } else {
    end = text.find(':');
    if (end == absl::string_view::npos) return false;
    *host = std::string(text.substr(0, end));
  }
  // FormatServerLine would write a host with brackets so that it is not read again.
  if (host->empty() || absl::StrContains(*host, '[') || absl::StrContains(*host, ']')) return false;
  if (end >= text.size() || text[end] != ':') return false;
  *rest = text.substr(end + 1);
  return true;
}

}  // namespace

absl::StatusOr<ServerLine> ParseServerLine(std::string_view value) {
  const auto malformed = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("\"", ToAbsl(value), "\"", what, kForm));
  };
  absl::Status bad_port;
  const auto read_port = [&](absl::string_view text, uint16_t* to) {
    const absl::StatusOr<uint16_t> port = ParsePort(std::string(text));
    if (port.ok()) *to = *port;
    bad_port = port.status();
    return port.ok();
  };
  ServerLine line;
  const std::vector<std::string> parts = absl::StrSplit(ToAbsl(value), ';');
  absl::string_view rest;
  if (parts.size() > 2 || !SplitHost(absl::StripAsciiWhitespace(parts[0]), &line.host, &rest)) {
    return malformed(" is not allowed; ");
  }
  const std::vector<std::string> fields = absl::StrSplit(rest, ':');
  if (fields.size() > 3) return malformed(": ");
  if (!read_port(fields[0], &line.peer_port)) return bad_port;
  if (fields.size() > 1 && !read_port(fields[1], &line.election_port)) return bad_port;
  if (fields.size() > 2) {
    line.observer = absl::EqualsIgnoreCase(fields[2], "observer");
    if (!line.observer && !absl::EqualsIgnoreCase(fields[2], "participant")) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", fields[2], "\" is not allowed; ", kForm));
    }
  }
  if (parts.size() == 2) {
    absl::string_view port = absl::StripAsciiWhitespace(parts[1]);
    absl::string_view after;
    if (SplitHost(port, &line.client_host, &after)) port = after;
    if (!read_port(port, &line.client_port)) return bad_port;
  }
  return line;
}

std::string FormatServerLine(const ServerLine& line) {
  std::string text = absl::StrCat(InBrackets(line.host), ":", line.peer_port, ":",
                                  line.election_port, line.observer ? ":observer" : ":participant");
  if (line.client_port != 0) {
    absl::StrAppend(&text, ";", line.client_host.empty() ? "0.0.0.0" : InBrackets(line.client_host),
                    ":", line.client_port);
  }
  return text;
}

std::string FormatMembers(const ServerLines& members, std::string_view version) {
  std::string text;
  for (const auto& [id, line] : members) {
    absl::StrAppend(&text, "server.", id, "=", FormatServerLine(line), "\n");
  }
  return absl::StrCat(text, "version=", ToAbsl(version));
}

std::string InBrackets(std::string_view host) {
  return absl::StrContains(ToAbsl(host), ':') ? absl::StrCat("[", ToAbsl(host), "]")
                                              : std::string(host);
}

}  // namespace quorate::rpc
