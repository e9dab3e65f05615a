// SPDX-License-Identifier: Apache-2.0

#include "rpc/admin/console.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/strings.h"
#include "rpc/admin/children_page.h"
#include "rpc/admin/console_files.h"
#include "rpc/admin/console_lists.h"
#include "rpc/admin/health.h"
#include "rpc/admin/request_origin.h"
#include "rpc/admin/slow_requests_json.h"
#include "rpc/frontend/config_node.h"
#include "tree/acl.h"
#include "tree/path.h"

namespace quorate::rpc::admin {
namespace {

constexpr char kPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

HttpResponse FileResponse(const ConsoleFile& file) {
  HttpResponse response;
  response.content_type = file.content_type;
  response.body = file.content;
  response.headers = {{"Content-Security-Policy", kPolicy},
                      {"X-Frame-Options", "DENY"},
                      {"Referrer-Policy", "no-referrer"},
                      {"Cross-Origin-Opener-Policy", "same-origin"},
                      {"Cross-Origin-Resource-Policy", "same-origin"}};
  return response;
}

HttpResponse TreeFailure(const std::string& path, tree::ErrorCode error) {
  switch (error) {
    case tree::ErrorCode::kNoNode:
      return Failure(404, path + ": there is no such znode");
    case tree::ErrorCode::kNoAuth:
      return Failure(403, path +
                              ": its access control list does not let you read it; sign in with "
                              "the credentials of a user in that list");
    default:
      return Failure(400, absl::StrCat(path, ": ", ToAbsl(tree::ToString(error))));
  }
}

Json StatFields(const tree::Stat& stat) {
  return {{"czxid", HexText(stat.czxid.value())},
          {"mzxid", HexText(stat.mzxid.value())},
          {"pzxid", HexText(stat.pzxid.value())},
          {"ctime_ms", stat.ctime_ms},
          {"mtime_ms", stat.mtime_ms},
          {"version", stat.version},
          {"cversion", stat.cversion},
          {"aversion", stat.aversion},
          {"data_length", stat.data_length},
          {"num_children", stat.num_children}};
}

std::string PermissionText(int32_t permissions) {
  std::string text;
  constexpr std::pair<int32_t, char> kLetters[] = {{tree::permission::kCreate, 'c'},
                                                   {tree::permission::kDelete, 'd'},
                                                   {tree::permission::kRead, 'r'},
                                                   {tree::permission::kWrite, 'w'},
                                                   {tree::permission::kAdmin, 'a'}};
  for (const auto& [bit, letter] : kLetters) {
    if ((permissions & bit) != 0) text += letter;
  }
  return text;
}

// The requests that read.
constexpr std::string_view kReads[] = {"overview", "slow", "sessions", "clients",
                                       "watches",  "node", "children", "events"};

void AddProblem(std::string what, std::string_view remedy, Json* problems) {
  problems->push_back({{"what", std::move(what)}, {"remedy", std::string(remedy)}});
}

void AddServerProblems(const ServerStatus& status, const ServerMetrics& metrics,
                       int64_t contact_limit_ms, Json* problems) {
  if (!status.leader_known) {
    AddProblem("there is no leader",
               "Start the members that are stopped, and check the network "
               "between them: a majority of the voters has to reach one another.",
               problems);
  } else if (!status.caught_up) {
    AddProblem("this server has not caught up with the leader yet",
               "Wait while it receives entries or a snapshot; its log says which.", problems);
  } else if (!status.in_touch || status.leader_contact_age_ms > contact_limit_ms) {
    AddProblem(absl::StrCat("this server has had no contact with a leader for ",
                            status.leader_contact_age_ms, " ms"),
               "Check the network to the leader, and the load of this machine and its disk.",
               problems);
  }
  if (status.disk_low) {
    AddProblem("this server has little free disk space",
               "Free space on the disks of dataDir and dataLogDir, or enlarge them.", problems);
  }
  if (status.data_refused) {
    AddProblem("writes that add data are refused: disks or memory are almost full",
               "Delete znodes, free disk space, or raise memoryLimitMb.", problems);
  }
  if (metrics.digest_mismatches > 0 || metrics.digest_is_undecided) {
    AddProblem("the trees of members have differed since this server's start",
               "Run `quorate doctor`; it says which member has to be rebuilt.", problems);
  }
}

}  // namespace

Console::Console(const Config& config, zk::ZkFrontend* frontend, Administrators* administrators,
                 const Clock* clock, const ConsoleChanges::Parts& changes, std::string_view version)
    : config_(config),
      frontend_(*frontend),
      service_(frontend->service()),
      administration_(*changes.administration),
      administrators_(*administrators),
      version_(version),
      members_text_(config.MembersText()),
      tokens_(clock, RandomBytes::System()),
      changes_(changes) {}

bool Console::WantsPage(const HttpRequest& request) {
  return absl::StrContains(request.accept, "text/html");
}

HttpResponse Console::Page() { return FileResponse(*FindConsoleFile("index.html")); }

std::optional<HttpResponse> Console::Respond(const RequestTarget& target,
                                             const HttpRequest& request) {
  const std::string& path = target.path;
  if (!path.starts_with(kConsoleApiPrefix)) {
    const ConsoleFile* file = FindConsoleFile(std::string_view(path).substr(kConsolePrefix.size()));
    return file == nullptr ? std::nullopt : std::make_optional(FileResponse(*file));
  }
  const std::string_view name = std::string_view(path).substr(kConsoleApiPrefix.size());
  const bool is_change = ConsoleChanges::IsChange(name);
  if (!is_change && std::find(std::begin(kReads), std::end(kReads), name) == std::end(kReads)) {
    return std::nullopt;
  }
  const std::string_view method = is_change ? "POST" : "GET";
  if (request.method != method) {
    HttpResponse response =
        Failure(405, absl::StrCat("this path takes the method ", ToAbsl(method), " only"));
    response.headers.emplace_back("Allow", is_change ? "POST" : "GET, HEAD");
    return response;
  }
  const bool drops_address = request.is_passed_on;  // it is that of the proxy
  Caller caller{request.caller,
                ClientIdentities(config_, drops_address ? "" : request.caller.address)};
  if (const absl::Status s = Identify(request, &caller); !s.ok()) {
    if (absl::IsUnauthenticated(s) || absl::IsUnavailable(s)) {
      changes_.RecordFailedAuthentication(caller);
    }
    const int code = absl::IsUnauthenticated(s) ? 401 : absl::IsUnavailable(s) ? 429 : 403;
    return Failure(code, ToStd(s.message()));
  }
  caller.actor = ActorOf(caller);
  if (is_change) return Change(name, request, caller);
  if (name == "overview") return Overview(request, caller);
  if (auto response = OfAllClients(name, target, request, caller)) return response;
  if (const std::string why = TreeReason(request, caller); !why.empty()) return Failure(403, why);
  if (caller.identities.lacks_required()) return Failure(401, caller.identities.RequiredText());
  const ServerStatus status = service_.status();
  if (!status.serving() && !status.read_only) {
    return Failure(503, "this server does not serve now; the overview says why");
  }
  const auto asked = target.Find("path");
  if (!asked.has_value() || !tree::IsValidPath(*asked)) {
    return Failure(400, "?path= has to be the path of a znode, such as /a/b");
  }
  if (name == "events") return EventsResponse(&frontend_, target, *asked, caller.identities);
  return name == "children" ? Children(target, caller) : Node(target, caller);
}

std::optional<HttpResponse> Console::OfAllClients(std::string_view name,
                                                  const RequestTarget& target,
                                                  const HttpRequest& request,
                                                  const Caller& caller) const {
  if (name != "slow" && name != "sessions" && name != "clients" && name != "watches") {
    return std::nullopt;
  }
  if (!SeesAll(request, caller)) {
    return Failure(403, "this is shown to administrators and to the super user");
  }
  if (name == "slow") return Slow();
  if (name == "sessions") return SessionsResponse(&frontend_, target);
  if (name == "clients") return ConnectionsResponse(&frontend_);
  const auto asked = target.Find("path");
  if (!asked.has_value() || !tree::IsValidPath(*asked)) {
    return Failure(400, "?path= has to be the path of a znode, such as /a/b");
  }
  return WatchesResponse(&frontend_, *asked);
}

bool Console::IsChange(std::string_view target) {
  return target.starts_with(kConsoleApiPrefix) &&
         ConsoleChanges::IsChange(
             target.substr(0, target.find_first_of("?#")).substr(kConsoleApiPrefix.size()));
}

std::optional<HttpResponse> Console::RefuseForeign(const HttpRequest& request) const {
  if (const std::string why = ForeignPageReason(request); !why.empty()) return Failure(403, why);
  if (request.content_type != "application/json") {
    return Failure(415, "the header Content-Type has to be application/json");
  }
  if (!tokens_.IsGood(request)) {
    return Failure(
        403,
        "the header X-Quorate-Page has to have the token of the page, which the overview "
        "has, for the same caller, and which is good for five minutes");
  }
  return std::nullopt;
}

HttpResponse Console::Change(std::string_view name, const HttpRequest& request,
                             const Caller& caller) {
  if (auto refusal = RefuseForeign(request)) return *std::move(refusal);
  const bool is_of_tree = ConsoleChanges::IsOfTree(name);
  if (!is_of_tree) {
    const bool may = SeesAll(request, caller) && config_.admin_console_changes != "none";
    return changes_.Respond(name, request, caller, may);
  }
  if (const std::string why = TreeReason(request, caller); !why.empty()) return Failure(403, why);
  if (caller.identities.lacks_required()) return Failure(401, caller.identities.RequiredText());
  return changes_.Respond(name, request, caller, MayChangeTree(request, caller));
}

absl::Status Console::Identify(const HttpRequest& request, Caller* caller) {
  if (const std::string why = CrossSiteReason(request); !why.empty()) {
    return absl::PermissionDeniedError(why);
  }
  if (!caller->principal.subject.empty() &&
      !caller->identities.AddCertificate(caller->principal.subject)) {
    return absl::PermissionDeniedError("the client certificate has too long a subject");
  }
  // With TLS, the browser has compared the name with the server's certificate. Credentials prove
  // nothing here: every user and password is an identity.
  if (!request.is_encrypted) {
    if (const std::string why = HostReason(request); !why.empty()) {
      return absl::PermissionDeniedError(why);
    }
  }
  if (request.authorization.empty()) return absl::OkStatus();
  if (!IsPrivate(request)) {
    return absl::PermissionDeniedError(
        "credentials are taken only over HTTPS or from the server's own machine; set "
        "admin.forceHttps or admin.portUnification");
  }
  if (!request.has_several_authorizations &&
      absl::StartsWithIgnoreCase(request.authorization, "Bearer ")) {
    return administrators_.Authenticate(request.authorization, &caller->principal);
  }
  std::string credentials;
  if (request.has_several_authorizations || !absl::StartsWith(request.authorization, "Basic ") ||
      !absl::Base64Unescape(request.authorization.substr(6), &credentials) ||
      credentials.find(':') == std::string::npos) {
    return administrators_.RefuseCredentials(
        "the header Authorization has to be Basic and the base64 of user:password, or Bearer and "
        "an "
        "administrator's token, once",
        caller->principal);
  }
  const bool was_super = tree::HasSuper(caller->identities.shown());
  absl::Status added = caller->identities.AddDigest(credentials, service_.super_failures());
  if (added.ok() && !was_super && tree::HasSuper(caller->identities.shown())) {
    caller->principal.digest_user = credentials.substr(0, credentials.find(':'));
    caller->principal.is_super = true;
  }
  // A wrong password makes another user of the same name, as in ZooKeeper.
  const std::string_view super = config_.super_digest;
  if (added.ok() && !super.empty() && !tree::HasSuper(caller->identities.shown()) &&
      credentials.starts_with(super.substr(0, super.find(':') + 1))) {
    changes_.RecordFailedAuthentication(*caller);
  }
  if (absl::IsUnauthenticated(added) || absl::IsUnavailable(added)) {
    service_.CountFailedAuthentication();
  }
  return added;
}

std::string Console::TreeReason(const HttpRequest& request, const Caller& caller) const {
  if (!IsPrivate(request)) {
    return "the tree is shown only over HTTPS or on the server's own machine, because its data "
           "would "
           "be readable on the network; set admin.forceHttps or admin.portUnification";
  }
  const bool clients_may_lack_certificate =
      config_.client_port != 0 ||
      (config_.secure_client_port != 0 && config_.ssl_client_auth != "need");
  const bool is_known = !caller.principal.subject.empty() ||
                        tree::HasSuper(caller.identities.shown()) ||
                        IsAdministrator(request, caller);
  if (clients_may_lack_certificate || is_known) return "";
  return "the clients of this server need a certificate (ssl.clientAuth=need), and so does a "
         "browser "
         "that reads its tree: set admin.needClientAuth=true, or sign in as an administrator";
}

bool Console::IsAdministrator(const HttpRequest& request, const Caller& caller) const {
  return administrators_.IsAdministrator(caller.principal) &&
         ForeignReason(request, caller.principal).empty();
}

std::string Console::HostReason(const HttpRequest& request) const {
  if (IsOwnHost(request.host) || IsAddress(request.host)) return "";
  const std::string name = absl::AsciiStrToLower(ToAbsl(HostName(request.host)));
  std::array<char, 256> own{};
  if (gethostname(own.data(), own.size() - 1) == 0 && name == absl::AsciiStrToLower(own.data())) {
    return "";
  }
  for (const auto& [id, line] : config_.servers) {
    if (name == absl::AsciiStrToLower(line.host)) return "";
  }
  return "the request names this server by a name that it does not know as its own; use its "
         "address or the name of its server line, or HTTPS";
}

bool Console::SeesAll(const HttpRequest& request, const Caller& caller) const {
  return tree::HasSuper(caller.identities.shown()) || IsAdministrator(request, caller);
}

bool Console::MayChangeTree(const HttpRequest& request, const Caller& caller) const {
  const std::string& who = config_.admin_console_changes;
  if (who == "none") return false;
  if (SeesAll(request, caller)) return true;
  if (who == "administrators") return false;
  const auto shown = caller.identities.shown();
  const auto has = [shown](std::string_view scheme) {
    return std::any_of(shown.begin(), shown.end(), [scheme](const tree::Identity& identity) {
      return identity.scheme == scheme;
    });
  };
  // The certificate of a proxy is not that of its client.
  if (has("x509") && !request.is_passed_on) return true;
  const bool is_of_this_machine = caller.principal.origin == Principal::Origin::kLoopback &&
                                  ForeignReason(request, caller.principal).empty();
  return has("digest") && (who == "users" || is_of_this_machine);
}

std::string Console::ActorOf(const Caller& caller) const {
  Principal principal = caller.principal;
  principal.is_super = false;
  // Without its password, the certificate would have given no right.
  const bool is_by_password =
      caller.principal.is_super && !administrators_.IsAdministrator(principal);
  if (is_by_password) principal.subject.clear();
  return principal.Name();
}

HttpResponse Console::Slow() const {
  Json fields = Json::object();
  AddSlowRequests(service_.slow_requests(), kConsoleSlowRequestsMax, &fields);
  return JsonResponse(200, fields);
}

HttpResponse Console::Overview(const HttpRequest& request, const Caller& caller) const {
  const ServerStatus status = service_.status();
  const ClusterView view = administration_.cluster_view();
  const bool shows_all = SeesAll(request, caller);
  Json problems = Json::array();
  AddServerProblems(status, service_.metrics(), config_.ContactLimitMs(), &problems);
  Json members = Json::array();
  for (const ClusterView::Member& member : view.members) {
    Json fields = {{"id", member.id.value()},
                   {"role", member.id == view.leader ? "leader"
                            : member.observer        ? "observer"
                                                     : "follower"},
                   {"reachable", member.id == view.self || member.reachable}};
    if (view.is_leader) {
      fields["in_sync"] = member.in_sync;
      fields["lag"] = std::max<int64_t>(0, static_cast<int64_t>(view.commit_index.value()) -
                                               static_cast<int64_t>(member.match_index.value()));
    }
    const std::string not_to_stop =
        ReasonNotToStop(member.id, status, view, config_.ContactLimitMs());
    fields["safe_to_stop"] = not_to_stop.empty();
    fields["not_to_stop"] = not_to_stop;
    if (shows_all && member.addresses.has_value()) {
      fields["address"] = absl::StrCat(member.addresses->host, ":", member.addresses->peer_port);
    }
    if (member.id != view.self && !member.reachable) {
      AddProblem(absl::StrCat("member ", member.id.value(), " cannot be reached from here",
                              shows_all && !member.problem.empty() ? ": " : "",
                              shows_all ? member.problem : ""),
                 "Start it if it is stopped, and check the network to it; its log says more.",
                 &problems);
    }
    members.push_back(std::move(fields));
  }
  Json identities = Json::array();
  for (const tree::Identity& identity : caller.identities.shown()) {
    identities.push_back(
        absl::StrCat(identity.scheme, ":", ToAbsl(ClientIdentities::ShownId(identity))));
  }
  return JsonResponse(200,
                      {{"version", version_},
                       {"cluster_version", service_.cluster_version()},
                       {"self", view.self.value()},
                       {"leader", view.leader.value()},
                       {"standalone", status.standalone},
                       {"term", view.term.value()},
                       {"commit_index", view.commit_index.value()},
                       {"applied_index", view.applied_index.value()},
                       {"changing", view.changing},
                       {"membership_index", view.membership_index.value()},
                       {"members", std::move(members)},
                       {"problems", std::move(problems)},
                       {"identities", std::move(identities)},
                       {"takes_credentials", IsPrivate(request)},
                       {"token", tokens_.Make(request)},
                       {"is_leader", view.is_leader},
                       {"may_change_tree", IsPrivate(request) && MayChangeTree(request, caller)},
                       {"sees_all", shows_all}});
}

HttpResponse Console::Children(const RequestTarget& target, const Caller& caller) const {
  ChildrenRequest request{.path = std::string(*target.Find("path")),
                          .prefix = std::string(target.Find("prefix").value_or("")),
                          .after = std::string(target.Find("after").value_or("")),
                          .limit = kConsoleChildrenDefault};
  const auto limit = target.Find("limit");
  if (limit.has_value() && (!absl::SimpleAtoi(ToAbsl(*limit), &request.limit) ||
                            request.limit == 0 || request.limit > kConsoleChildrenMax)) {
    return Failure(400, absl::StrCat("?limit= has to be from 1 to ", kConsoleChildrenMax));
  }
  ChildrenPage page;
  const tree::ErrorCode error = ReadChildrenPage(service_, request, caller.identities.all(), &page);
  if (error != tree::ErrorCode::kOk) return TreeFailure(request.path, error);
  Json children = Json::array();
  {
    const auto tree = service_.ReadTree();
    const std::string parent = request.path == "/" ? "" : request.path;
    for (const std::string& name : page.names) {
      tree::Stat stat;
      // It may have been deleted since.
      if (tree->Exists(absl::StrCat(parent, "/", name), &stat) != tree::ErrorCode::kOk) continue;
      children.push_back({{"name", name},
                          {"num_children", stat.num_children},
                          {"ephemeral", stat.ephemeral_owner != tree::kNoSession}});
    }
  }
  Json next = page.has_more ? Json(page.names.back()) : Json(nullptr);
  return JsonResponse(200, {{"path", request.path},
                            {"num_children", page.stat.num_children},
                            {"children", std::move(children)},
                            {"next", std::move(next)}});
}

HttpResponse Console::Node(const RequestTarget& target, const Caller& caller) const {
  const std::string path(*target.Find("path"));
  tree::Stat stat;
  std::string shown;
  bool has_data = false;
  tree::SessionInfo owner;
  bool has_owner = false;
  std::vector<tree::Acl> acl;
  {
    const auto tree = service_.ReadTree();
    std::string_view data;
    const auto error = tree->GetData(path, caller.identities.all(), &data, &has_data, &stat);
    if (error != tree::ErrorCode::kOk) return TreeFailure(path, error);
    CompleteConfigNode(members_text_, path, &stat, &data, &has_data);
    shown = data.substr(0, kConsoleDataBytesMax);
    tree::Stat ignored;
    if (tree->GetAcl(path, caller.identities.all(), &acl, &ignored) != tree::ErrorCode::kOk) {
      acl.clear();
    }
    has_owner =
        stat.ephemeral_owner != tree::kNoSession && tree->FindSession(stat.ephemeral_owner, &owner);
  }
  Json entries = Json::array();
  for (const tree::Acl& entry : acl) {
    if (entries.size() == kConsoleAclEntriesMax) break;
    entries.push_back(absl::StrCat(entry.identity.scheme, ":",
                                   ToAbsl(ClientIdentities::ShownId(entry.identity)), ":",
                                   PermissionText(entry.permissions)));
  }
  Json fields = {{"path", path},
                 {"stat", StatFields(stat)},
                 {"data", has_data ? Json(absl::Base64Escape(shown)) : Json(nullptr)},
                 {"truncated", static_cast<size_t>(stat.data_length) > shown.size()},
                 {"acl", std::move(entries)},
                 {"owner", nullptr}};
  if (stat.ephemeral_owner != tree::kNoSession) {
    fields["owner"] = {{"session", HexText(stat.ephemeral_owner.value())}};
    if (has_owner) {
      fields["owner"]["server"] = owner.member;
      fields["owner"]["timeout_ms"] = owner.timeout_ms;
    }
  }
  return JsonResponse(200, fields);
}

}  // namespace quorate::rpc::admin
