// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/administrators.h"

#include <fcntl.h>
#include <openssl/sha.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/secrets.h"
#include "base/strings.h"
#include "rpc/frontend/client_identities.h"
#include "rpc/poller/descriptor.h"

namespace quorate::rpc {
namespace {

constexpr char kTokenFileKey[] = "administratorTokenFile";
constexpr size_t kFileBytesMax = 2u << 20;
constexpr size_t kNameBytesMax = 64;
// The time after which an address may send wrong credentials once more.
constexpr auto kFailurePeriod = std::chrono::seconds(2);
// The longest value of `authorization` that is looked at.
constexpr size_t kAuthorizationBytesMax = 8u << 10;
constexpr char kTooManyWrong[] =
    "too many wrong credentials have come from this address; they are looked at again after some "
    "seconds";

std::array<unsigned char, 32> Sha256(std::string_view text) {
  static_assert(SHA256_DIGEST_LENGTH == 32);
  std::array<unsigned char, 32> hash{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), hash.data());
  return hash;
}

std::string_view BytesOf(const std::array<unsigned char, 32>& hash) {
  return {reinterpret_cast<const char*>(hash.data()), hash.size()};
}

absl::Status WrongLine(size_t line, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("line ", line, ": ", why));
}

bool IsName(absl::string_view name) {
  return !name.empty() && name.size() <= kNameBytesMax &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                  absl::string_view("._@-").find(c) != absl::string_view::npos;
         });
}

absl::Status NotSuper() {
  return absl::UnauthenticatedError(
      "these are not the credentials of DigestAuthenticationProvider.superDigest");
}

absl::Status FileError(const std::string& path, absl::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat(kTokenFileKey, ": ", path, ": ", why));
}

}  // namespace

absl::StatusOr<std::vector<AdministratorToken>> ParseAdministratorTokens(std::string_view text) {
  std::vector<AdministratorToken> tokens;
  size_t number = 0;
  for (absl::string_view line : absl::StrSplit(ToAbsl(text), '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#') continue;
    std::string name = absl::StrCat("line", number);
    const size_t colon = line.find(':');
    if (colon != absl::string_view::npos) {
      if (!IsName(line.substr(0, colon))) {
        return WrongLine(number,
                         "the text before the colon is the name of the token, and has to be at "
                         "most 64 letters, digits and ._@-");
      }
      name = std::string(line.substr(0, colon));
      line.remove_prefix(colon + 1);
    }
    if (line.size() < kAdministratorTokenBytesMin || line.size() > kAdministratorTokenBytesMax) {
      return WrongLine(
          number, absl::StrCat("the token has ", line.size(), " characters; it has to have ",
                               kAdministratorTokenBytesMin, " to ", kAdministratorTokenBytesMax,
                               " (openssl rand -hex 32 makes one)"));
    }
    if (!std::all_of(line.begin(), line.end(),
                     [](char c) { return absl::ascii_isgraph(static_cast<unsigned char>(c)); })) {
      return WrongLine(number, "the token may have only printable characters of ASCII, no spaces");
    }
    if (tokens.size() == kAdministratorTokensMax) {
      return WrongLine(number, absl::StrCat("there are more than ", kAdministratorTokensMax,
                                            " tokens; remove some"));
    }
    tokens.push_back({std::move(name), Sha256(ToStd(line))});
  }
  if (tokens.empty()) {
    return absl::InvalidArgumentError(
        "there is no token in it; write one, such as that of openssl rand -hex 32");
  }
  return tokens;
}

Administrators::Administrators(const Config& config, const Clock* clock,
                               std::atomic<int64_t>* failure_counter)
    : config_(config),
      failure_counter_(failure_counter),
      is_configured_(!config.administrator_token_file.empty() ||
                     !config.administrator_subjects.empty() || !config.x509_super_user.empty() ||
                     !config.super_digest.empty()),
      limit_(clock, kFailurePeriod) {}

absl::Status Administrators::Open() {
  if (config_.administrator_token_file.empty()) return absl::OkStatus();
  MutexLock lock(&mutex_);
  stamp_ = StampOf(config_.administrator_token_file);
  absl::StatusOr<std::vector<AdministratorToken>> tokens = ReadTokens();
  if (!tokens.ok()) return tokens.status();
  tokens_ = *std::move(tokens);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<AdministratorToken>> Administrators::ReadTokens() const {
  const std::string& path = config_.administrator_token_file;
  // O_NONBLOCK, because the path may be that of a pipe.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.number() < 0) {
    return FileError(path, absl::StrCat("cannot be read: ", strerror(errno),
                                        "; the server's user must be able to read it"));
  }
  struct stat facts {};
  if (fstat(file.number(), &facts) != 0 || !S_ISREG(facts.st_mode)) {
    return FileError(path, "is not a regular file; name the file with the tokens");
  }
  if ((facts.st_mode & (S_IRWXO | S_IWGRP)) != 0) {
    return FileError(
        path, absl::StrCat("others than its owner and group may use it, or its group "
                           "may write it (mode ",
                           absl::Hex(facts.st_mode >> 6 & 7), absl::Hex(facts.st_mode >> 3 & 7),
                           absl::Hex(facts.st_mode & 7), "); run chmod 600"));
  }
  std::string text(kFileBytesMax + 1, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t count = read(file.number(), text.data() + size, text.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return FileError(path, absl::StrCat("cannot be read: ", strerror(errno)));
    if (count == 0) break;
    size += static_cast<size_t>(count);
  }
  if (size > kFileBytesMax) return FileError(path, "has more than 2 MiB; remove tokens");
  text.resize(size);
  auto tokens = ParseAdministratorTokens(text);
  if (!tokens.ok()) return FileError(path, tokens.status().message());
  return tokens;
}

void Administrators::RefreshTokens() {
  const FileStamp stamp = StampOf(config_.administrator_token_file);
  const bool is_changed = stamp != stamp_;
  // A file that could not be used is tried again even if it looks the same: its content may have
  // changed within the resolution of its time, or reading it may have failed for a reason outside of
  // the file.
  if (!is_changed && !has_problem_) return;
  stamp_ = stamp;
  absl::StatusOr<std::vector<AdministratorToken>> tokens = ReadTokens();
  has_problem_ = !tokens.ok();
  if (has_problem_) {
    if (is_changed) {
      spdlog::error(
          "the changed tokens of administrators cannot be used, and those before stay: {}",
          std::string(tokens.status().message()));
    }
    return;
  }
  tokens_ = *std::move(tokens);
  spdlog::info("administrators' tokens have changed file={} tokens={}",
               config_.administrator_token_file, tokens_.size());
}

absl::Status Administrators::Fail(absl::StatusCode code, std::string_view why,
                                  const Principal& principal) {
  failures_.fetch_add(1, std::memory_order_relaxed);
  if (failure_counter_ != nullptr) failure_counter_->fetch_add(1, std::memory_order_relaxed);
  return absl::Status(code, absl::StrCat(ToAbsl(why), " (from ", principal.address, ")"));
}

absl::Status Administrators::RefuseCredentials(std::string_view why, const Principal& principal) {
  // Counts as a failed attempt, also if the address has none left.
  limit_.Take(principal.address, /*user=*/"");
  return Fail(absl::StatusCode::kUnauthenticated, why, principal);
}

absl::Status Administrators::CheckToken(std::string_view token, Principal* principal) {
  if (config_.administrator_token_file.empty()) {
    return absl::UnauthenticatedError(
        "this server takes no tokens: administratorTokenFile is not set in its configuration");
  }
  RefreshTokens();
  const std::array<unsigned char, 32> hash = Sha256(token);
  const AdministratorToken* found = nullptr;
  // Compares with all tokens, so that the time does not tell which one is close.
  for (const AdministratorToken& known : tokens_) {
    if (SecretsEqual(BytesOf(known.sha256), BytesOf(hash))) found = &known;
  }
  if (found == nullptr) {
    return absl::UnauthenticatedError(
        "the token is none of those in administratorTokenFile of this server");
  }
  principal->token = found->name;
  return absl::OkStatus();
}

absl::Status Administrators::CheckBasic(std::string_view base64, Principal* principal) const {
  if (config_.super_digest.empty()) {
    return absl::UnauthenticatedError(
        "this server takes no passwords of administrators: "
        "DigestAuthenticationProvider.superDigest is not set in its configuration");
  }
  std::string credentials;
  return absl::Base64Unescape(ToAbsl(base64), &credentials) ? CheckSuper(credentials, principal)
                                                            : NotSuper();
}

absl::Status Administrators::CheckSuper(std::string_view credentials, Principal* principal) const {
  if (credentials.find(':') == std::string_view::npos ||
      !SecretsEqual(DigestId(credentials), config_.super_digest)) {
    return NotSuper();
  }
  principal->digest_user = credentials.substr(0, credentials.find(':'));
  principal->is_super = true;
  return absl::OkStatus();
}

absl::Status Administrators::AddDigest(std::string_view credentials, Principal* principal) {
  const std::string_view super = config_.super_digest;
  if (super.empty() ||
      credentials.substr(0, credentials.find(':')) != super.substr(0, super.find(':'))) {
    return absl::OkStatus();
  }
  if (!limit_.Take(principal->address, /*user=*/""))
    return Fail(absl::StatusCode::kUnavailable, kTooManyWrong, *principal);
  const absl::Status checked = CheckSuper(credentials, principal);
  if (!checked.ok()) return Fail(checked.code(), ToStd(checked.message()), *principal);
  limit_.GiveBack(principal->address, /*user=*/"");
  return checked;
}

absl::Status Administrators::Authenticate(std::string_view authorization, Principal* principal) {
  if (authorization.empty()) return absl::OkStatus();
  MutexLock lock(&mutex_);
  if (!limit_.Take(principal->address, /*user=*/"")) {
    return Fail(absl::StatusCode::kUnavailable, kTooManyWrong, *principal);
  }
  const size_t space = std::min(authorization.find(' '), authorization.size());
  const absl::string_view scheme = ToAbsl(authorization.substr(0, space));
  const std::string_view rest =
      ToStd(absl::StripAsciiWhitespace(ToAbsl(authorization.substr(space))));
  absl::Status checked;
  if (authorization.size() > kAuthorizationBytesMax) {
    checked = absl::UnauthenticatedError("`authorization` is longer than 8 KiB");
  } else if (absl::EqualsIgnoreCase(scheme, "Bearer")) {
    checked = CheckToken(rest, principal);
  } else if (absl::EqualsIgnoreCase(scheme, "Basic")) {
    checked = CheckBasic(rest, principal);
  } else {
    checked = absl::UnauthenticatedError(
        "`authorization` has to be Bearer TOKEN, or Basic and the base64 of user:password");
  }
  if (checked.ok()) {
    limit_.GiveBack(principal->address, /*user=*/"");
    return checked;
  }
  return Fail(checked.code(), ToStd(checked.message()), *principal);
}

bool Administrators::IsAdministrator(const Principal& principal) const {
  if (principal.origin == Principal::Origin::kUnixSocket) return true;
  if (!is_configured_) return principal.origin == Principal::Origin::kLoopback;
  if (principal.is_super || !principal.token.empty()) return true;
  if (principal.subject.empty()) return false;
  const std::vector<std::string>& subjects = config_.administrator_subjects;
  return principal.subject == config_.x509_super_user ||
         std::find(subjects.begin(), subjects.end(), principal.subject) != subjects.end();
}

absl::Status Administrators::Check(Operation operation, const Principal& principal) {
  const OperationInfo& info = InfoOf(operation);
  if (info.requirement == Requirement::kNobody) {
    return absl::PermissionDeniedError(
        absl::StrCat(ToAbsl(info.name), ": no client may call this"));
  }
  // The page of a browser or a proxy of the machine can make requests of HTTP there, too.
  if (operation == Operation::kHttpSnapshot && !is_configured_) {
    return absl::PermissionDeniedError(absl::StrCat(
        ToAbsl(info.name),
        " has the whole tree and needs an administrator's credentials, also from this machine, and "
        "none is configured: set administratorTokenFile, administrator.subjects, "
        "X509AuthenticationProvider.superUser or DigestAuthenticationProvider.superDigest in the "
        "server's configuration"));
  }
  if (info.requirement != Requirement::kAdministrator || IsAdministrator(principal)) {
    return absl::OkStatus();
  }
  // Without configured administrators, no credentials can help.
  if (principal.has_proof() || !is_configured_) {
    return absl::PermissionDeniedError(absl::StrCat(ToAbsl(info.name), ": ", principal.Name(),
                                                    " is not an administrator of this server; ",
                                                    HowToAuthenticate()));
  }
  return absl::UnauthenticatedError(
      absl::StrCat(ToAbsl(info.name), " needs an administrator; ", HowToAuthenticate()));
}

std::string Administrators::HowToAuthenticate() const {
  if (!is_configured_) {
    return "none is configured, so that only callers from loopback addresses are served: set "
           "administratorTokenFile or administrator.subjects in the server's configuration, or "
           "call from that machine";
  }
  std::vector<std::string> ways;
  if (!config_.administrator_token_file.empty()) {
    ways.emplace_back("send a token of administratorTokenFile (quorate --token-file)");
  }
  const bool has_subjects =
      !config_.administrator_subjects.empty() || !config_.x509_super_user.empty();
  const bool has_grpc_certificates = config_.grpc_tls && config_.grpc_tls_client_auth != "none";
  if (has_subjects && (has_grpc_certificates || config_.has_admin_tls())) {
    ways.emplace_back(
        "use a client certificate of administrator.subjects or "
        "X509AuthenticationProvider.superUser (quorate --cert, --key)");
  }
  if (!config_.super_digest.empty()) {
    ways.emplace_back("send the credentials of superDigest as the metadata authorization");
  }
  if (!config_.grpc_unix_socket.empty()) ways.emplace_back("connect to grpcUnixSocket");
  if (ways.empty()) {
    return "the configured subjects cannot be shown without TLS: set grpcTls=true or "
           "admin.forceHttps=true in the server's configuration, or administratorTokenFile or "
           "grpcUnixSocket";
  }
  return absl::StrJoin(ways, ", or ");
}

std::string Administrators::Description() const {
  const std::string socket =
      config_.grpc_unix_socket.empty() ? "" : ", and callers through grpcUnixSocket";
  if (!is_configured_) {
    return "no administrators are configured: callers from loopback addresses may copy the whole "
           "tree, transfer leadership and change members over gRPC, and read settings, sessions "
           "and "
           "watches and reset statistics over HTTP; /commands/snapshot is refused" +
           socket;
  }
  std::vector<std::string> kinds;
  if (!config_.administrator_token_file.empty()) kinds.emplace_back("administratorTokenFile");
  if (!config_.administrator_subjects.empty()) kinds.emplace_back("administrator.subjects");
  if (!config_.x509_super_user.empty()) {
    kinds.emplace_back("X509AuthenticationProvider.superUser");
  }
  if (!config_.super_digest.empty()) kinds.emplace_back("superDigest");
  return "administrators are those of " + absl::StrJoin(kinds, ", ") + socket;
}

}  // namespace quorate::rpc
