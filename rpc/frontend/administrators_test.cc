// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/administrators.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/escaping.h"
#include "base/failure_limit.h"
#include "base/testing/manual_clock.h"
#include "rpc/frontend/client_identities.h"
#include "rpc/member/testing/captured_log.h"

namespace quorate::rpc {
namespace {

using Origin = Principal::Origin;
using absl::StatusCode;

const std::string kToken = "0123456789abcdef0123456789abcdef";
const std::string kOtherToken = "fedcba9876543210fedcba9876543210";

class TokenFile {
 public:
  explicit TokenFile(const std::string& text, mode_t mode = 0600) {
    std::string pattern = (std::filesystem::temp_directory_path() / "tokens-XXXXXX").string();
    const int descriptor = mkstemp(pattern.data());
    REQUIRE(descriptor >= 0);
    close(descriptor);
    path = pattern;
    Write(text, mode);
  }
  ~TokenFile() { std::remove(path.c_str()); }

  // Replaces the file, as an editor does.
  void Write(const std::string& text, mode_t mode = 0600) const {
    const std::string next = path + ".new";
    std::ofstream(next, std::ios::binary) << text;
    REQUIRE(chmod(next.c_str(), mode) == 0);
    REQUIRE(std::rename(next.c_str(), path.c_str()) == 0);
  }

  std::string path;
};

Principal From(Origin origin, const std::string& address = "10.0.0.1") {
  return {.origin = origin, .address = address};
}

std::string Basic(const std::string& credentials) {
  return "Basic " + absl::Base64Escape(credentials);
}

std::string ProblemOf(const std::string& text) {
  return std::string(ParseAdministratorTokens(text).status().message());
}

bool Has(const absl::Status& status, const std::string& part) {
  INFO(status.message());
  return std::string(status.message()).find(part) != std::string::npos;
}

TEST_CASE("tokens may have names, and comments are skipped") {
  const auto tokens =
      ParseAdministratorTokens("# ours\n\nops:" + kToken + "\r\n  " + kOtherToken + "  \n");
  REQUIRE(tokens.ok());
  REQUIRE(tokens->size() == 2);
  CHECK((*tokens)[0].name == "ops");
  CHECK((*tokens)[1].name == "line4");
}

TEST_CASE("tokens that cannot be used are refused without being shown") {
  CHECK(ProblemOf("") ==
        "there is no token in it; write one, such as that of openssl rand -hex 32");
  CHECK(ProblemOf("short").find("line 1: the token has 5 characters") == 0);
  CHECK(ProblemOf("a b:" + kToken).find("line 1: the text before the colon") == 0);
  CHECK(ProblemOf(":" + kToken).find("line 1: the text before the colon") == 0);
  CHECK(ProblemOf("\n0123456789 abcdef\n").find("line 2: the token may have only") == 0);
  CHECK(ProblemOf(std::string(2000, 'x')).find("line 1: the token has 2000") == 0);
  std::string many;
  for (size_t i = 0; i <= kAdministratorTokensMax; ++i) many += kToken + "\n";
  CHECK(ProblemOf(many).find("line 1001: there are more than 1000 tokens") == 0);
  for (const char* text : {"ops:short-secret", ":0123456789abcdef-secret"}) {
    CHECK(ProblemOf(text).find("secret") == std::string::npos);
  }
}

TEST_CASE("without configured administrators, this machine is enough") {
  const Config config;
  ManualClock clock;
  Administrators administrators(config, &clock);
  REQUIRE(administrators.Open().ok());
  CHECK_FALSE(administrators.is_configured());
  const auto check = [&](Origin origin) {
    return administrators.Check(Operation::kClusterBackup, From(origin));
  };
  CHECK(check(Origin::kLoopback).ok());
  CHECK(check(Origin::kUnixSocket).ok());
  CHECK(check(Origin::kRemote).code() == StatusCode::kPermissionDenied);
  CHECK(Has(check(Origin::kRemote), "administratorTokenFile"));
  CHECK(administrators.Check(Operation::kClusterStatus, From(Origin::kRemote)).ok());
  CHECK(administrators.Check(Operation::kTreeGet, From(Origin::kRemote)).ok());
}

TEST_CASE("with configured administrators, this machine is not enough, but the Unix socket is") {
  for (const int key : {0, 1, 2, 3}) {
    const TokenFile file(kToken);
    Config config;
    if (key == 0) config.administrator_token_file = file.path;
    if (key == 1) config.administrator_subjects = {"CN=a,O=b"};
    if (key == 2) config.x509_super_user = "CN=a,O=b";
    if (key == 3) config.super_digest = DigestId("super:pw");
    ManualClock clock;
    Administrators administrators(config, &clock);
    REQUIRE(administrators.Open().ok());
    const auto check = [&](Origin origin) {
      return administrators.Check(Operation::kClusterTransferLeadership, From(origin));
    };
    CHECK(check(Origin::kLoopback).code() == StatusCode::kUnauthenticated);
    CHECK(check(Origin::kRemote).code() == StatusCode::kUnauthenticated);
    CHECK(check(Origin::kUnixSocket).ok());
    Principal admin = From(Origin::kRemote);
    admin.subject = "CN=a,O=b";
    CHECK(administrators.Check(Operation::kClusterBackup, admin).ok() == (key == 1 || key == 2));
    admin.subject = "CN=a";
    CHECK(administrators.Check(Operation::kClusterBackup, admin).code() ==
          StatusCode::kPermissionDenied);
  }
}

TEST_CASE("nobody is administrator enough for what no client may call") {
  const Config config;
  ManualClock clock;
  Administrators administrators(config, &clock);
  CHECK(administrators.Check(Operation::kZkDeleteContainer, From(Origin::kUnixSocket)).code() ==
        StatusCode::kPermissionDenied);
}

TEST_CASE("a token and the credentials of superDigest prove an administrator") {
  const TokenFile file("ops:" + kToken + "\n" + kOtherToken + "\n");
  Config config;
  config.administrator_token_file = file.path;
  config.super_digest = DigestId("super:a:b");
  ManualClock clock;
  Administrators administrators(config, &clock);
  REQUIRE(administrators.Open().ok());
  Principal principal = From(Origin::kRemote);
  REQUIRE(administrators.Authenticate("", &principal).ok());
  CHECK_FALSE(administrators.IsAdministrator(principal));
  REQUIRE(administrators.Authenticate("Bearer " + kToken, &principal).ok());
  CHECK(principal.Name() == "token:ops");
  CHECK(administrators.IsAdministrator(principal));
  CHECK_FALSE(principal.is_super);
  principal = From(Origin::kRemote);
  REQUIRE(administrators.Authenticate("bearer  " + kOtherToken, &principal).ok());
  CHECK(principal.Name() == "token:line2");
  principal = From(Origin::kRemote);
  REQUIRE(administrators.Authenticate(Basic("super:a:b"), &principal).ok());
  CHECK(principal.Name() == "digest:super");
  CHECK(principal.is_super);
  CHECK(administrators.failures() == 0);
}

TEST_CASE("wrong credentials are refused, counted, and not shown") {
  const TokenFile file(kToken);
  Config config;
  config.administrator_token_file = file.path;
  config.super_digest = DigestId("super:pw");
  ManualClock clock;
  Administrators administrators(config, &clock);
  REQUIRE(administrators.Open().ok());
  int failures = 0;
  for (const std::string& wrong :
       {"Bearer " + kOtherToken, std::string("Bearer"), "Bearer " + kToken.substr(1),
        "Token " + kToken, kToken, Basic("super:secret"), Basic("other:pw"), Basic("super"),
        std::string("Basic %%"), "Bearer " + std::string(10'000, 'x')}) {
    Principal principal = From(Origin::kRemote);
    const absl::Status status = administrators.Authenticate(wrong, &principal);
    CHECK(status.code() == StatusCode::kUnauthenticated);
    CHECK_FALSE(principal.has_proof());
    CHECK_FALSE(Has(status, kToken.substr(1)));
    CHECK_FALSE(Has(status, "secret"));
    CHECK(administrators.failures() == ++failures);
  }
}

TEST_CASE("credentials of a kind that is not configured are refused") {
  Config config;
  config.x509_super_user = "CN=a";
  ManualClock clock;
  Administrators administrators(config, &clock);
  REQUIRE(administrators.Open().ok());
  Principal principal = From(Origin::kLoopback);
  CHECK(Has(administrators.Authenticate("Bearer " + kToken, &principal), "takes no tokens"));
  CHECK(Has(administrators.Authenticate(Basic(":"), &principal), "takes no passwords"));
}

TEST_CASE("an address with many wrong credentials has to wait, and others do not") {
  const TokenFile file(kToken);
  Config config;
  config.administrator_token_file = file.path;
  ManualClock clock;
  Administrators administrators(config, &clock);
  REQUIRE(administrators.Open().ok());
  const auto try_from = [&](const char* address, const std::string& token) {
    Principal principal = From(Origin::kRemote, address);
    return administrators.Authenticate("Bearer " + token, &principal);
  };
  for (int i = 0; i < FailureLimit::kBurst; ++i) {
    CHECK(Has(try_from("10.0.0.1", kOtherToken), "none of those"));
  }
  CHECK(Has(try_from("10.0.0.1", kOtherToken), "too many wrong credentials"));
  const absl::Status not_looked_at = try_from("10.0.0.1", kToken);
  CHECK(Has(not_looked_at, "too many wrong credentials"));
  CHECK(absl::IsUnavailable(not_looked_at));  // a right token may be shown again
  CHECK(try_from("10.0.0.2", kToken).ok());
  CHECK(administrators.failures() == FailureLimit::kBurst + 2);
  clock.Advance(2000);
  CHECK(try_from("10.0.0.1", kToken).ok());
  CHECK(Has(try_from("10.0.0.1", kOtherToken), "none of those"));
  CHECK(Has(try_from("10.0.0.1", kToken), "too many wrong credentials"));
}

TEST_CASE(
    "a credential of access control lists proves the super user, and no other administrator") {
  Config config;
  config.super_digest = DigestId("super:secret");
  ManualClock clock;
  Administrators administrators(config, &clock);
  Principal principal = From(Origin::kRemote);
  CHECK(administrators.AddDigest("user:secret", &principal).ok());
  CHECK_FALSE(administrators.IsAdministrator(principal));
  CHECK_FALSE(principal.has_proof());
  const absl::Status wrong = administrators.AddDigest("super:guess", &principal);
  CHECK(wrong.code() == absl::StatusCode::kUnauthenticated);
  CHECK_FALSE(Has(wrong, "guess"));
  CHECK_FALSE(administrators.IsAdministrator(principal));
  CHECK(administrators.failures() == 1);
  CHECK(administrators.AddDigest("super:secret", &principal).ok());
  CHECK(administrators.IsAdministrator(principal));
  CHECK(principal.Name() == "digest:super");
  // Passwords are not tried without a limit.
  for (int i = 1; i < FailureLimit::kBurst; ++i) {
    CHECK(Has(administrators.AddDigest("super:guess", &principal), "not the credentials"));
  }
  const absl::Status not_looked_at = administrators.AddDigest("super:secret", &principal);
  CHECK(Has(not_looked_at, "too many wrong credentials"));
  CHECK(absl::IsUnavailable(not_looked_at));
}

TEST_CASE("a token file that others can use, or that is none, stops the start") {
  const auto open = [](const std::string& path) {
    Config config;
    config.administrator_token_file = path;
    ManualClock clock;
    return Administrators(config, &clock).Open();
  };
  CHECK(Has(open("/nonexistent/tokens"), "administratorTokenFile: /nonexistent/tokens: "));
  CHECK(Has(open("/tmp"), "is not a regular file"));
  const TokenFile readable(kToken, 0604);
  CHECK(Has(open(readable.path), "(mode 604); run chmod 600"));
  const TokenFile writable(kToken, 0620);
  CHECK(Has(open(writable.path), "run chmod 600"));
  const TokenFile group(kToken, 0640);
  CHECK(open(group.path).ok());
  const TokenFile empty("\n");
  CHECK(Has(open(empty.path), "there is no token"));
}

TEST_CASE("a changed token file is used at once; one that cannot be used changes nothing") {
  const TokenFile file(kToken);
  Config config;
  config.administrator_token_file = file.path;
  ManualClock clock;
  Administrators administrators(config, &clock);
  REQUIRE(administrators.Open().ok());
  const auto is_right = [&](const std::string& token) {
    Principal principal = From(Origin::kRemote);
    return administrators.Authenticate("Bearer " + token, &principal).ok();
  };
  CHECK(is_right(kToken));
  file.Write(kOtherToken);
  CHECK(is_right(kOtherToken));
  CHECK_FALSE(is_right(kToken));
  const CapturedLog log;
  file.Write(kToken, 0644);
  CHECK(is_right(kOtherToken));
  CHECK(is_right(kOtherToken));
  CHECK(log.Lines("the changed tokens of administrators cannot be used").size() == 1);
  file.Write(kToken);
  CHECK(is_right(kToken));
}

TEST_CASE("a token file that could not be used is tried again, even if it looks the same") {
  const TokenFile file(kToken);
  Config config;
  config.administrator_token_file = file.path;
  ManualClock clock;
  Administrators administrators(config, &clock);
  REQUIRE(administrators.Open().ok());
  const auto is_right = [&](const std::string& token) {
    Principal principal = From(Origin::kRemote);
    return administrators.Authenticate("Bearer " + token, &principal).ok();
  };
  const timespec times[] = {{1'700'000'000, 0}, {1'700'000'000, 0}};
  const CapturedLog log;
  file.Write(std::string(std::string(kOtherToken).size(), '#'));  // no token
  REQUIRE(utimensat(AT_FDCWD, file.path.c_str(), times, 0) == 0);
  CHECK(is_right(kToken));
  CHECK(is_right(kToken));
  CHECK(log.Lines("the changed tokens of administrators cannot be used").size() == 1);
  std::ofstream(file.path, std::ios::binary) << kOtherToken;  // the same inode, size and time
  REQUIRE(utimensat(AT_FDCWD, file.path.c_str(), times, 0) == 0);
  CHECK(is_right(kOtherToken));
  CHECK_FALSE(is_right(kToken));
}

TEST_CASE("the refusal names the configured ways") {
  const TokenFile file(kToken);
  Config config;
  config.administrator_subjects = {"CN=a"};
  ManualClock clock;
  Administrators administrators(config, &clock);
  const auto message = [&] {
    return administrators.Check(Operation::kClusterBackup, From(Origin::kLoopback));
  };
  CHECK(Has(message(), "set grpcTls=true"));
  config.grpc_tls = true;
  config.grpc_tls_client_auth = "want";
  CHECK(Has(message(), "use a client certificate"));
  config.grpc_unix_socket = "/s";
  CHECK(Has(message(), ", or connect to grpcUnixSocket"));
  CHECK(administrators.Description() ==
        "administrators are those of administrator.subjects, and callers through grpcUnixSocket");
}

TEST_CASE("a snapshot over HTTP needs a configured administrator, also on this machine") {
  Config config;
  ManualClock clock;
  CHECK(Administrators(config, &clock)
            .Check(Operation::kHttpSnapshot, From(Origin::kLoopback))
            .code() == absl::StatusCode::kPermissionDenied);
  config.administrator_subjects = {"CN=admin"};
  Administrators administrators(config, &clock);
  CHECK(administrators.Check(Operation::kHttpSnapshot, From(Origin::kLoopback)).code() ==
        absl::StatusCode::kUnauthenticated);
  Principal admin = From(Origin::kRemote);
  admin.subject = "CN=admin";
  CHECK(administrators.Check(Operation::kHttpSnapshot, admin).ok());
}

TEST_CASE("the log tells what callers of the machine may do over each protocol") {
  const Config config;
  ManualClock clock;
  const std::string text = Administrators(config, &clock).Description();
  for (const char* part : {"no administrators are configured", "over gRPC", "over HTTP",
                           "/commands/snapshot is refused"}) {
    CHECK(text.find(part) != std::string::npos);
  }
}

}  // namespace
}  // namespace quorate::rpc
