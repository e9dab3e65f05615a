// SPDX-License-Identifier: Apache-2.0

#include "tools/administration/sessions_command.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/escape.h"
#include "rpc/proto/errors.h"
#include "rpc/proto/times.h"
#include "tools/cli/cluster_client.h"
#include "tools/cli/text.h"

namespace quorate::tools {
namespace {

using nlohmann::ordered_json;

constexpr auto kAnswerTimeout = std::chrono::seconds(10);
constexpr uint32_t kSessionsMax = 1000;

std::string IdOf(int64_t id) { return Hex(static_cast<uint64_t>(id)); }

std::string ProtocolName(v1::ClientProtocol protocol) {
  switch (protocol) {
    case v1::CLIENT_PROTOCOL_ZOOKEEPER:
      return "zookeeper";
    case v1::CLIENT_PROTOCOL_GRPC:
      return "grpc";
    default:
      return "unknown";
  }
}

// The servers of --server, with the caller's access to them.
struct Servers {
  std::vector<std::string> addresses;
  Access access;

  static absl::StatusOr<Servers> Of(const GlobalOptions& global) {
    auto addresses = ParseServers(global.servers);
    if (!addresses.ok()) return addresses.status();
    auto access = Access::Load(global.tls, {.file = global.token_file}, *addresses);
    if (!access.ok()) return access.status();
    return Servers{*std::move(addresses), *std::move(access)};
  }
};

// Calls a method of one server. The error names the address.
template <class Request, class Response>
using Method = grpc::Status (v1::ClusterService::Stub::*)(grpc::ClientContext*, const Request&,
                                                          Response*);
template <class Request, class Response>
absl::StatusOr<Response> Ask(const Servers& servers, const std::string& address,
                             Method<Request, Response> method, const Request& request) {
  ClusterClient client(address, servers.access);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kAnswerTimeout);
  client.Authorize(&context);
  Response response;
  const grpc::Status status = (client.stub()->*method)(&context, request, &response);
  if (status.ok()) return response;
  const absl::Status error = v1::FromGrpc(status);
  return absl::Status(error.code(), absl::StrCat(address, ": ", error.message()));
}

// Calls a method of all servers at the same time. Returns the answers in the order of the addresses.
template <class Request, class Response>
std::vector<absl::StatusOr<Response>> AskEach(const Servers& servers,
                                              Method<Request, Response> method,
                                              const Request& request) {
  std::vector<std::future<absl::StatusOr<Response>>> questions;
  for (const std::string& address : servers.addresses) {
    questions.push_back(std::async(std::launch::async, [&servers, address, method, &request] {
      return Ask(servers, address, method, request);
    }));
  }
  std::vector<absl::StatusOr<Response>> answers;
  for (auto& question : questions) answers.push_back(question.get());
  return answers;
}

// Returns the first answer that is no error, or the first error.
template <class Response>
const absl::StatusOr<Response>& FirstOf(const std::vector<absl::StatusOr<Response>>& answers) {
  const auto found = std::ranges::find_if(answers, [](const auto& one) { return one.ok(); });
  return found == answers.end() ? answers.front() : *found;
}

ordered_json ToJson(const v1::Session& session) {
  ordered_json json = {{"id", IdOf(session.id())},
                       {"timeout_ms", v1::ToMs(session.timeout()).value_or(0)},
                       {"member", session.member()},
                       {"attach_zxid", IdOf(session.attach_zxid())},
                       {"ephemerals", session.ephemerals()}};
  if (!session.has_client()) return json;
  const v1::SessionClient& client = session.client();
  json["client"] = {{"protocol", ProtocolName(client.protocol())},
                    {"address", client.address()},
                    {"identities", client.identities()},
                    {"attached_for_ms", v1::ToMs(client.attached_for()).value_or(0)},
                    {"watches", client.watches()}};
  return json;
}

std::vector<std::string> RowOf(const v1::Session& session) {
  std::vector<std::string> row = {IdOf(session.id()), absl::StrCat(session.member()),
                                  Duration(v1::ToMs(session.timeout()).value_or(0)),
                                  absl::StrCat(session.ephemerals())};
  if (!session.has_client()) return row;
  const v1::SessionClient& client = session.client();
  row.insert(row.end(), {ProtocolName(client.protocol()), client.address(),
                         Duration(v1::ToMs(client.attached_for()).value_or(0)),
                         absl::StrCat(client.watches()), absl::StrJoin(client.identities(), " ")});
  return row;
}

struct ListOptions {
  uint32_t limit = kSessionsMax;
  std::string after;
};

absl::Status RunList(const GlobalOptions& global, const ListOptions& options) {
  auto servers = Servers::Of(global);
  if (!servers.ok()) return servers.status();
  v1::ListSessionsRequest request;
  request.set_limit(options.limit);
  if (!options.after.empty()) {
    auto after = ParseSessionId(options.after);
    if (!after.ok()) return after.status();
    request.set_after_id(*after);
  }
  const auto answers = AskEach(*servers, &v1::ClusterService::Stub::ListSessions, request);
  const auto& first = FirstOf(answers);
  if (!first.ok()) return first.status();
  std::vector<v1::Session> sessions(first->sessions().begin(), first->sessions().end());
  bool more = first->more();
  for (const auto& answer : answers) {
    if (!answer.ok()) continue;
    AddClients({answer->sessions().begin(), answer->sessions().end()}, &sessions);
    if (answer->more()) more |= CutTo(*answer, &sessions);
  }
  if (global.json) {
    ordered_json json = {{"sessions", ordered_json::array()}, {"more", more}};
    for (const v1::Session& session : sessions) json["sessions"].push_back(ToJson(session));
    std::cout << json.dump(2, ' ', false, ordered_json::error_handler_t::replace) << "\n";
    return absl::OkStatus();
  }
  std::vector<std::vector<std::string>> rows = {{"SESSION", "MEMBER", "TIMEOUT", "EPHEMERALS",
                                                 "PROTOCOL", "ADDRESS", "ATTACHED", "WATCHES",
                                                 "IDENTITIES"}};
  for (const v1::Session& session : sessions) rows.push_back(RowOf(session));
  std::cout << Table(rows);
  if (more) {
    std::cout << "There are more: add --after " << IdOf(sessions.back().id()) << "\n";
  }
  return absl::OkStatus();
}

absl::Status NoSession(const std::string& id, const absl::Status& problem = absl::OkStatus()) {
  std::string text = absl::StrCat("there is no session ", id);
  if (!problem.ok()) {
    absl::StrAppend(&text,
                    "; it is not known whether this command has closed it: ", problem.message());
  }
  return absl::NotFoundError(text);
}

// Reads all ephemeral znodes of a session from one server.
absl::Status ReadEphemerals(const Servers& servers, const std::string& address, bool more,
                            v1::GetSessionRequest request, std::vector<std::string>* paths) {
  while (more && !paths->empty()) {
    request.set_after_path(paths->back());
    auto page = Ask(servers, address, &v1::ClusterService::Stub::GetSession, request);
    if (!page.ok()) return page.status();
    paths->insert(paths->end(), page->ephemerals().begin(), page->ephemerals().end());
    more = page->more();
  }
  return absl::OkStatus();
}

absl::Status RunShow(const GlobalOptions& global, const std::string& text) {
  auto id = ParseSessionId(text);
  if (!id.ok()) return id.status();
  auto servers = Servers::Of(global);
  if (!servers.ok()) return servers.status();
  v1::GetSessionRequest request;
  request.set_id(*id);
  const auto answers = AskEach(*servers, &v1::ClusterService::Stub::GetSession, request);
  const auto& any = FirstOf(answers);
  if (!any.ok()) return any.status();
  // A member that is behind may not know the session yet.
  const auto known =
      std::ranges::find_if(answers, [](const auto& one) { return one.ok() && one->has_session(); });
  if (known == answers.end()) return NoSession(IdOf(*id));
  std::vector<v1::Session> session = {(*known)->session()};
  for (const auto& answer : answers) {
    if (answer.ok() && answer->has_session()) AddClients({answer->session()}, &session);
  }
  std::vector<std::string> paths((*known)->ephemerals().begin(), (*known)->ephemerals().end());
  const std::string& address = servers->addresses[static_cast<size_t>(known - answers.begin())];
  if (absl::Status s = ReadEphemerals(*servers, address, (*known)->more(), request, &paths);
      !s.ok()) {
    return s;
  }
  if (global.json) {
    ordered_json json = ToJson(session[0]);
    json["ephemeral_paths"] = paths;
    std::cout << json.dump(2, ' ', false, ordered_json::error_handler_t::replace) << "\n";
    return absl::OkStatus();
  }
  std::cout << "session: " << IdOf(*id) << "\nmember: " << session[0].member()
            << "\ntimeout: " << Duration(v1::ToMs(session[0].timeout()).value_or(0)) << "\n";
  if (session[0].has_client()) {
    const v1::SessionClient& client = session[0].client();
    std::cout << "client: " << EscapeLine(client.address()) << " over "
              << ProtocolName(client.protocol()) << ", attached for "
              << Duration(v1::ToMs(client.attached_for()).value_or(0))
              << "\nidentities: " << EscapeLine(absl::StrJoin(client.identities(), " "))
              << "\nwatches: " << client.watches() << "\n";
  } else {
    std::cout << "client: none of the servers asked serves it; --server can name others\n";
  }
  std::cout << "ephemeral znodes: " << paths.size() << "\n";
  for (const std::string& path : paths) std::cout << "  " << EscapeLine(path) << "\n";
  return absl::OkStatus();
}

absl::Status RunClose(const GlobalOptions& global, const std::string& text) {
  auto id = ParseSessionId(text);
  if (!id.ok()) return id.status();
  auto servers = Servers::Of(global);
  if (!servers.ok()) return servers.status();
  v1::CloseSessionRequest request;
  request.set_id(*id);
  const auto close = [&](const std::string& address) -> absl::StatusOr<bool> {
    auto answer = Ask(*servers, address, &v1::ClusterService::Stub::CloseSession, request);
    if (!answer.ok()) return answer.status();
    return answer->closed();
  };
  if (absl::Status s = CloseAtAny(servers->addresses, *id, close); !s.ok()) return s;
  if (global.json) {
    std::cout << ordered_json{{"session", IdOf(*id)}, {"closed", true}}.dump(2) << "\n";
  } else {
    std::cout << "Closed session " << IdOf(*id) << ".\n";
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int64_t> ParseSessionId(const std::string& text) {
  const absl::string_view digits =
      absl::StartsWithIgnoreCase(text, "0x") ? absl::string_view(text).substr(2) : text;
  uint64_t id = 0;
  if (digits.empty() || digits.size() > 16 ||
      !std::ranges::all_of(
          digits, [](char c) { return absl::ascii_isxdigit(static_cast<unsigned char>(c)); }) ||
      !absl::SimpleHexAtoi(digits, &id)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", EscapeLine(text), "\" is not the id of a session, such as 0x10000a1b2c3d4e5"));
  }
  return static_cast<int64_t>(id);
}

void AddClients(const std::vector<v1::Session>& others, std::vector<v1::Session>* sessions) {
  for (const v1::Session& other : others) {
    if (!other.has_client()) continue;
    const auto same = std::ranges::lower_bound(*sessions, other.id(), {}, &v1::Session::id);
    if (same == sessions->end() || same->id() != other.id()) continue;
    // If two claim the client, one of them does not know yet that the session has moved.
    if (same->has_client() && same->attach_zxid() >= other.attach_zxid()) continue;
    *same = other;
  }
}

bool CutTo(const v1::ListSessionsResponse& page, std::vector<v1::Session>* sessions) {
  if (page.sessions().empty()) return false;
  const int64_t last = page.sessions().rbegin()->id();
  const auto beyond = std::ranges::upper_bound(*sessions, last, {}, &v1::Session::id);
  if (beyond == sessions->begin() || beyond == sessions->end()) return false;
  sessions->erase(beyond, sessions->end());
  return true;
}

absl::Status CloseAtAny(const std::vector<std::string>& addresses, int64_t id,
                        const std::function<absl::StatusOr<bool>(const std::string&)>& close) {
  // Any member closes it. One that did not answer may have closed it.
  absl::Status problem;
  for (const std::string& address : addresses) {
    const absl::StatusOr<bool> closed = close(address);
    if (closed.ok()) return *closed ? absl::OkStatus() : NoSession(IdOf(id), problem);
    problem = closed.status();
    if (!absl::IsUnavailable(problem) && !absl::IsDeadlineExceeded(problem) &&
        !absl::IsResourceExhausted(problem)) {
      return problem;
    }
  }
  return problem;
}

void AddSessionsCommands(CommandLine* command_line) {
  CLI::App* group = command_line->AddGroup("sessions", "List, show and close sessions of clients");
  constexpr char kWhoKnows[] =
      "Each server knows all sessions. The address, identities and watches of a client are known\n"
      "to the server that serves it: name all servers in --server.";
  auto list_options = std::make_shared<ListOptions>();
  CLI::App* list = command_line->Add(
      group, "list",
      "List sessions, with their clients as far as the servers of --server serve them",
      [command_line, list_options] { return RunList(command_line->global(), *list_options); });
  list->add_option("--limit", list_options->limit, "Most sessions to list")
      ->capture_default_str()
      ->check(CLI::Range(1U, kSessionsMax));
  list->add_option("--after", list_options->after, "List sessions with greater ids than this one");
  list->footer(kWhoKnows);
  auto shown = std::make_shared<std::string>();
  CLI::App* show =
      command_line->Add(group, "show", "Show a session with its ephemeral znodes",
                        [command_line, shown] { return RunShow(command_line->global(), *shown); });
  show->add_option("ID", *shown, "Session id, in hexadecimal")->required();
  show->footer(kWhoKnows);
  auto closed = std::make_shared<std::string>();
  CLI::App* close = command_line->Add(
      group, "close", "Close a session at once, and delete its ephemeral znodes",
      [command_line, closed] { return RunClose(command_line->global(), *closed); });
  close->add_option("ID", *closed, "Session id, in hexadecimal")->required();
  close->footer(
      "The client learns that its session has expired. Exit status: 1 if there is no such "
      "session,\nalso if a server of --server that did not answer may have closed it.");
}

}  // namespace quorate::tools
