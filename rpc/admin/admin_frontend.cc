// SPDX-License-Identifier: Apache-2.0

#include "rpc/admin/admin_frontend.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/strings.h"
#include "rpc/admin/health.h"
#include "rpc/admin/request_origin.h"
#include "rpc/audit/request_audit.h"

namespace quorate::rpc::admin {
namespace {

constexpr char kMetricsPath[] = "/metrics";
constexpr std::string_view kHealthPrefix = "/health/";
constexpr std::string_view kNotPrivate =
    "the tree and an administrator's credentials are sent only over HTTPS or on the server's own "
    "machine, because they would be readable on the network; set admin.forceHttps or "
    "admin.portUnification";
constexpr auto kFailureLogPeriod = std::chrono::seconds(5);

HttpResponse NotFound(const RequestTarget& target) {
  return TextResponse(404, absl::StrCat(target.path, ": there is no such path; / lists them"));
}

// Returns the response to a method other than GET and HEAD; nullopt for these.
std::optional<HttpResponse> RefuseMethod(const HttpRequest& request) {
  if (request.method == "GET") return std::nullopt;
  // As ZooKeeper: a response to TRACE would show a browser's credentials to its scripts.
  if (request.method == "TRACE") return TextResponse(403, "TRACE is not allowed");
  HttpResponse response = TextResponse(405, "only GET and HEAD are allowed");
  response.headers.emplace_back("Allow", "GET, HEAD");
  return response;
}

// Returns the settings of HTTPS.
tls::Options HttpsOptions(const Config& config) {
  tls::Options options;
  options.key_store = {config.quorum_ssl_key_store, config.quorum_ssl_key_store_password,
                       config.quorum_ssl_key_store_password_file, config.quorum_ssl_key_store_type};
  options.trust_store = {config.quorum_ssl_trust_store, config.quorum_ssl_trust_store_password,
                         config.quorum_ssl_trust_store_password_file,
                         config.quorum_ssl_trust_store_type};
  options.protocols = config.quorum_ssl_enabled_protocols;
  options.cipher_suites = config.quorum_ssl_cipher_suites;
  options.check_revocation = config.quorum_ssl_crl;
  // Browsers ask their user which certificate to send, so that none is wanted without a use for it.
  const bool has_use = !config.administrator_subjects.empty() || !config.x509_super_user.empty();
  options.client_auth = config.admin_need_client_auth ? tls::ClientAuth::kNeed
                        : has_use && !config.quorum_ssl_trust_store.empty()
                            ? tls::ClientAuth::kWant
                            : tls::ClientAuth::kNone;
  return options;
}

}  // namespace

class AdminFrontend::AdminHandler final : public HttpHandler {
 public:
  explicit AdminHandler(AdminFrontend* frontend) : frontend_(*frontend) {}
  // So health is answered while a command waits for a disk.
  HttpThread ThreadOf(const HttpRequest& request) const override {
    if (request.target.starts_with(kHealthPrefix)) return HttpThread::kConnections;
    if (!request.target.starts_with(kConsolePrefix)) return HttpThread::kCommands;
    if (IsChange(request)) return HttpThread::kChanges;
    // The others are refused at once.
    return request.method == "POST" ? HttpThread::kConnections : HttpThread::kConsole;
  }
  // A restore is refused for another reason.
  bool TakesLargeBody(const HttpRequest& request) const override {
    const CommandInfo* command = frontend_.CommandOf(request.target);
    return request.method == "POST" && command != nullptr &&
           command->operation == Operation::kHttpRestore;
  }
  std::optional<HttpResponse> Refuse(const HttpRequest& request) const override {
    return IsChange(request) ? frontend_.console_.RefuseForeign(request) : std::nullopt;
  }
  HttpResponse Handle(const HttpRequest& request) override { return frontend_.Respond(request); }

 private:
  bool IsChange(const HttpRequest& request) const {
    return request.method == "POST" && frontend_.parts_.config.admin_console &&
           Console::IsChange(request.target);
  }

  AdminFrontend& frontend_;
};

class AdminFrontend::MetricsHandler final : public HttpHandler {
 public:
  explicit MetricsHandler(AdminFrontend* frontend) : frontend_(*frontend) {}
  HttpThread ThreadOf(const HttpRequest& /*request*/) const override {
    return HttpThread::kCommands;
  }
  HttpResponse Handle(const HttpRequest& request) override {
    return frontend_.RespondWithMetrics(request);
  }

 private:
  AdminFrontend& frontend_;
};

AdminFrontend::AdminFrontend(const AdminParts& parts)
    : parts_(parts),
      commands_(parts.config, parts.frontend, parts.administration, parts.clock,
                parts.configuration_text),
      snapshots_(parts.config, parts.administration, parts.clock),
      metrics_(parts.frontend, parts.administration, parts.clock, parts.version),
      console_(parts.config, parts.frontend, parts.administrators, parts.clock,
               {.administration = parts.administration,
                .writer = parts.writer,
                .closer = parts.closer,
                .audit = parts.audit,
                .request_audit = parts.frontend->request_audit()},
               parts.version),
      admin_handler_(std::make_unique<AdminHandler>(this)),
      metrics_handler_(std::make_unique<MetricsHandler>(this)) {}

AdminFrontend::~AdminFrontend() { Close(); }

absl::Status AdminFrontend::OpenTls() {
  const Config& config = parts_.config;
  // Without HTTPS, the certificate of the members is read only to show when it expires.
  if (!config.has_admin_tls() && !config.ssl_quorum && !config.peer_port_unification) {
    return absl::OkStatus();
  }
  auto context = tls::CurrentContext::Create(HttpsOptions(config), config.quorum_cert_reload);
  if (!context.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(config.file, ": HTTPS (ssl.quorum.*): ", context.status().message()));
  }
  tls_ = *std::move(context);
  return absl::OkStatus();
}

absl::Status AdminFrontend::Open() {
  const Config& config = parts_.config;
  if (absl::Status s = OpenTls(); !s.ok()) return s;
  if (config.admin_server) {
    using Encryption = HttpServerOptions::Encryption;
    admin_server_.emplace(
        HttpServerOptions{
            .address_key = "admin.serverAddress",
            .port_key = "admin.serverPort",
            .address = config.admin_address,
            .port = config.admin_port,
            .encryption = config.admin_force_https        ? Encryption::kTls
                          : config.admin_port_unification ? Encryption::kEither
                                                          : Encryption::kNone,
            .tls = tls_.get(),
            .idle_timeout_ms = config.admin_idle_timeout_ms,
            .clock = parts_.clock,
            .on_failed_handshake =
                [this](const std::string& address, std::string_view why, bool is_refused) {
                  OnFailedHandshake(address, why, is_refused);
                }},
        admin_handler_.get());
    if (absl::Status s = admin_server_->Start(); !s.ok()) return s;
    spdlog::info("listening protocol=http address={} port={}", config.admin_address,
                 admin_server_->port());
  }
  if (!config.metrics_server) return absl::OkStatus();
  metrics_server_.emplace(HttpServerOptions{.address_key = "metricsProvider.httpHost",
                                            .port_key = "metricsProvider.httpPort",
                                            .address = config.metrics_address,
                                            .port = config.metrics_port,
                                            .idle_timeout_ms = config.admin_idle_timeout_ms},
                          metrics_handler_.get());
  if (absl::Status s = metrics_server_->Start(); !s.ok()) return s;
  spdlog::info("listening protocol=metrics address={} port={}", config.metrics_address,
               metrics_server_->port());
  return absl::OkStatus();
}

void AdminFrontend::OnFailedHandshake(const std::string& address, std::string_view why,
                                      bool is_refused) {
  parts_.frontend->statistics().tls_handshakes_failed.fetch_add(1);
  // The rates are limited, as a client whose certificate does not fit tries again and again. Those of the
  // two logs are counted apart, so that clients that send nothing do not keep failures out of the audit log.
  const auto now = parts_.clock->Now();
  const auto is_due = [now](std::optional<std::chrono::steady_clock::time_point>* last) {
    if (last->has_value() && now - **last < kFailureLogPeriod) return false;
    *last = now;
    return true;
  };
  if (is_due(&handshake_logged_)) {
    spdlog::info("the TLS handshake with {} failed: {}", address, why);
  }
  RequestAudit* audit = parts_.frontend->request_audit();
  if (audit == nullptr || !is_refused || !is_due(&handshake_recorded_)) return;
  audit->OnFailedAuthentication(address, absl::StrCat("x509: ", ToAbsl(why)));
}

void AdminFrontend::Close() {
  console_.Close();
  snapshots_.Close();
  if (admin_server_.has_value()) admin_server_->Stop();
  if (metrics_server_.has_value()) metrics_server_->Stop();
}

std::string AdminFrontend::Overview() const {
  std::string text = absl::StrCat(parts_.config.admin_command_url, "\n", kMetricsPath, "\n");
  for (const std::string_view path : kHealthPaths) absl::StrAppend(&text, ToAbsl(path), "\n");
  return text;
}

HttpResponse AdminFrontend::Respond(const HttpRequest& request) {
  const bool is_post_to_console = request.method == "POST" && parts_.config.admin_console &&
                                  request.target.starts_with(kConsoleApiPrefix);
  const CommandInfo* command = CommandOf(request.target);
  const bool is_restore = command != nullptr && command->operation == Operation::kHttpRestore;
  if (is_restore && request.method == "GET") {
    HttpResponse response = Commands::Refuse(405, command->name, "restore is a POST");
    response.headers.emplace_back("Allow", "POST");
    return response;
  }
  // The console itself refuses it where it is not a change.
  if (!is_post_to_console && !(is_restore && request.method == "POST")) {
    if (std::optional<HttpResponse> refusal = RefuseMethod(request)) return *std::move(refusal);
  }
  const auto target = ParseRequestTarget(request.target);
  if (!target.ok()) return TextResponse(400, std::string(target.status().message()));
  const std::string_view path = target->path;
  if (path == kMetricsPath) return Metrics(*target);
  if (path.starts_with(kHealthPrefix)) {
    auto health =
        HealthResponse(*target, parts_.frontend->service().status(),
                       parts_.administration->cluster_view(), parts_.config.ContactLimitMs());
    return health.has_value() ? *std::move(health) : NotFound(*target);
  }
  const std::string& url = parts_.config.admin_command_url;
  if (path == url || path == url + "/") return Commands::Index(url);
  if (path.starts_with(url + "/")) {
    return RunCommand(path.substr(url.size() + 1), *target, request);
  }
  // The thread was chosen by the target as it was sent, so one with escapes in the path is refused.
  const bool has_console = parts_.config.admin_console;
  if (has_console && path.starts_with(kConsolePrefix) && request.target.starts_with(path)) {
    auto response = console_.Respond(*target, request);
    return response.has_value() ? *std::move(response) : NotFound(*target);
  }
  if (path == "/") {
    HttpResponse response;
    if (has_console && Console::WantsPage(request)) {
      response = Console::Page();
    } else {
      response.body = Overview();
    }
    response.headers.emplace_back("Vary", "Accept");
    return response;
  }
  return NotFound(*target);
}

HttpResponse AdminFrontend::RespondWithMetrics(const HttpRequest& request) {
  if (std::optional<HttpResponse> refusal = RefuseMethod(request)) return *std::move(refusal);
  const auto target = ParseRequestTarget(request.target);
  if (!target.ok()) return TextResponse(400, std::string(target.status().message()));
  if (target->path == kMetricsPath) return Metrics(*target);
  return TextResponse(404, absl::StrCat(target->path, ": only ", kMetricsPath, " is here"));
}

HttpResponse AdminFrontend::Metrics(const RequestTarget& target) {
  std::set<std::string, std::less<>> only;
  for (const auto& [key, value] : target.parameters) {
    if (key == "name[]") only.insert(value);
  }
  HttpResponse response;
  response.content_type = kMetricsContentType;
  response.body = MetricsText(only);
  return response;
}

std::string AdminFrontend::MetricsText(const std::set<std::string, std::less<>>& names) {
  std::vector<CertificateExpiry> certificates;
  if (const auto context = parts_.client_tls(); context != nullptr) {
    certificates.push_back({"ssl", ExpirySeconds(*context)});
  }
  if (tls_ != nullptr) certificates.push_back({"ssl.quorum", ExpirySeconds(*tls_->Get())});
  return metrics_.Text(names, certificates);
}

HttpResponse AdminFrontend::RunCommand(std::string_view name, const RequestTarget& target,
                                       const HttpRequest& request) {
  const CommandInfo* command = Commands::Find(name);
  if (command == nullptr) {
    return Commands::Refuse(200, name, absl::StrCat("Unknown command: ", ToAbsl(name)));
  }
  if (InfoOf(command->operation).requirement != Requirement::kAdministrator) {
    return commands_.Run(*command, target);
  }
  Principal caller = request.caller;
  if (std::optional<HttpResponse> refusal = CheckCaller(*command, request, &caller)) {
    Record(*command, caller, *refusal);
    return *std::move(refusal);
  }
  const auto run = [this, command, target, request, caller = std::move(caller)] {
    HttpResponse response = RunAllowed(*command, target, request);
    Record(*command, caller, response);
    return response;
  };
  if (command->operation != Operation::kHttpSnapshot) return run();
  HttpResponse later;
  later.make_on_streams = run;
  return later;
}

void AdminFrontend::Record(const CommandInfo& command, const Principal& caller,
                           const HttpResponse& response) {
  if (parts_.audit == nullptr) return;
  parts_.audit->RecordCall(caller.Name(), caller.address, command.name, "protocol=http",
                           response.status >= 400 ? AuditResult::kFailure : AuditResult::kInvoked);
}

HttpResponse AdminFrontend::RunAllowed(const CommandInfo& command, const RequestTarget& target,
                                       const HttpRequest& request) {
  if (command.run != nullptr) return commands_.Run(command, target);
  // Whether the body is read was chosen by the target as it was sent, so one with escapes in the name is
  // refused.
  if (CommandOf(request.target) != &command) return NotFound(target);
  if (command.operation == Operation::kHttpRestore) return SnapshotCommand::RefuseRestore();
  if (!parts_.frontend->service().status().serving()) {
    // Not 200, as for other commands: a client would keep the response as the file.
    HttpResponse response = Commands::RefuseIdle(command.name);
    response.status = 503;
    return response;
  }
  return snapshots_.Run(target);
}

const CommandInfo* AdminFrontend::CommandOf(std::string_view target) const {
  const std::string& url = parts_.config.admin_command_url;
  if (!target.starts_with(url)) return nullptr;
  target.remove_prefix(url.size());
  if (!target.starts_with('/')) return nullptr;
  target.remove_prefix(1);
  return Commands::Find(target.substr(0, target.find('?')));
}

absl::Status AdminFrontend::Authenticate(const HttpRequest& request, Principal* caller) {
  // ZooKeeper's own form of the header: a scheme of access control lists. The address and the
  // certificate of the caller are known without it.
  constexpr std::string_view kDigest = "digest ";
  const std::string_view sent = request.authorization;
  if (sent == "ip" || sent == "x509") return absl::OkStatus();
  return sent.starts_with(kDigest)
             ? parts_.administrators->AddDigest(sent.substr(kDigest.size()), caller)
             : parts_.administrators->Authenticate(sent, caller);
}

std::optional<HttpResponse> AdminFrontend::CheckCaller(const CommandInfo& command,
                                                       const HttpRequest& request,
                                                       Principal* caller) {
  // The credentials are not looked at, so that nobody gets used to send them.
  if (command.operation == Operation::kHttpSnapshot && !IsPrivate(request)) {
    return Commands::Refuse(403, command.name, kNotPrivate);
  }
  absl::Status status = request.has_several_authorizations
                            ? parts_.administrators->RefuseCredentials(
                                  "a request may have the header Authorization once", *caller)
                            : Authenticate(request, caller);
  if (status.ok()) status = parts_.administrators->Check(command.operation, *caller);
  if (status.ok()) {
    const std::string reason = ForeignReason(request, *caller);
    if (reason.empty()) return std::nullopt;
    return Commands::Refuse(403, command.name, reason);
  }
  const bool is_unknown = absl::IsUnauthenticated(status);
  const int code = is_unknown ? 401 : absl::IsUnavailable(status) ? 429 : 403;
  HttpResponse response = Commands::Refuse(code, command.name, ToStd(status.message()));
  if (is_unknown) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

}  // namespace quorate::rpc::admin
