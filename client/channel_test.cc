// SPDX-License-Identifier: Apache-2.0

#include "client/channel.h"

#include <grpcpp/grpcpp.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "client/connection_problem.h"
#include "rpc/tls/testing/test_certificates.h"

namespace quorate::internal {
namespace {

using rpc::tls::MakeIdentity;
using rpc::tls::TestIdentity;
using rpc::tls::TestPath;
using rpc::tls::ToPem;
using rpc::tls::WriteTestFile;

constexpr std::chrono::milliseconds kPatience{10'000};

std::string CertificateFile(const std::string& name, const TestIdentity& identity) {
  return WriteTestFile(name + ".crt", ToPem(identity.certificate.get()));
}
std::string KeyFile(const std::string& name, const TestIdentity& identity,
                    const std::string& password = "") {
  return WriteTestFile(name + ".key", ToPem(identity.key.get(), password));
}

std::string ProblemOf(const TlsOptions& options) {
  return std::string(ChannelFactory::Create(options).status().message());
}

bool Has(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

// A gRPC server without services.
class Server {
 public:
  explicit Server(const std::shared_ptr<grpc::ServerCredentials>& credentials) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", credentials, &port);
    queue_ = builder.AddCompletionQueue();  // gRPC starts no server without one
    server_ = builder.BuildAndStart();
    REQUIRE(port != 0);
    thread_ = std::thread([this] {
      void* tag = nullptr;
      bool ok = false;
      while (queue_->Next(&tag, &ok)) {
      }
    });
    address = "127.0.0.1:" + std::to_string(port);
  }
  ~Server() {
    server_->Shutdown();
    queue_->Shutdown();
    thread_.join();
  }

  std::string address;

 private:
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  std::thread thread_;  // gRPC serves connections while it waits for the queue
};

std::shared_ptr<grpc::ServerCredentials> Credentials(const TestIdentity& server,
                                                     const TestIdentity* client_authority) {
  grpc::SslServerCredentialsOptions options(
      client_authority == nullptr ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                  : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_key_cert_pairs.push_back({ToPem(server.key.get()), ToPem(server.certificate.get())});
  if (client_authority != nullptr) {
    options.pem_root_certs = ToPem(client_authority->certificate.get());
  }
  return grpc::SslServerCredentials(options);
}

TEST_CASE("files of TLS that cannot be used are errors that name them") {
  const TestIdentity ca = MakeIdentity({.common_name = "ca", .is_ca = true});
  const TestIdentity alice = MakeIdentity({.common_name = "alice", .issuer = &ca});
  const TestIdentity bob = MakeIdentity({.common_name = "bob", .issuer = &ca});
  TlsOptions options{.enabled = true, .ca_file = CertificateFile("ca", ca)};
  CHECK(ChannelFactory::Create(options).ok());
  options.certificate_file = CertificateFile("alice", alice);
  CHECK(Has(ProblemOf(options), "name both files"));
  options.key_file = KeyFile("alice", alice);
  CHECK(ChannelFactory::Create(options).ok());
  options.key_file = KeyFile("bob", bob);
  CHECK(Has(ProblemOf(options), "bob.key: is not that of the certificate"));
  options.key_file = KeyFile("secret", alice, "password");
  CHECK(Has(ProblemOf(options), "is encrypted"));
  options.key_file = options.certificate_file;
  CHECK(Has(ProblemOf(options), "has no private key in PEM"));
  options.certificate_file = KeyFile("alice", alice);
  CHECK(Has(ProblemOf(options), "has no certificate in PEM"));
  options.ca_file = TestPath("none");
  CHECK(Has(ProblemOf(options), "none: cannot be read"));
  options.ca_file = "/";
  CHECK(Has(ProblemOf(options), "/: cannot be read: Is a directory"));
  options.enabled = false;
  CHECK(ChannelFactory::Create(options).ok());
}

TEST_CASE("what is wrong with TLS is found out, with the address") {
  const TestIdentity ca = MakeIdentity({.common_name = "ca", .is_ca = true});
  const TestIdentity other = MakeIdentity({.common_name = "other", .is_ca = true});
  const TestIdentity good = MakeIdentity({.common_name = "server", .issuer = &ca});
  const TestIdentity expired =
      MakeIdentity({.common_name = "server", .issuer = &ca, .ends_s = -60});
  const TestIdentity early =
      MakeIdentity({.common_name = "server", .issuer = &ca, .starts_s = 3600, .ends_s = 7200});
  const TestIdentity alice = MakeIdentity({.common_name = "alice", .issuer = &ca});
  const TestIdentity stranger = MakeIdentity({.common_name = "stranger", .issuer = &other});
  const TestIdentity late = MakeIdentity({.common_name = "late", .issuer = &ca, .ends_s = -60});
  const TlsOptions plain;
  TlsOptions options{
      .enabled = true, .ca_file = CertificateFile("ca", ca), .server_name = "server"};
  const auto problem = [](const Server& server, const TlsOptions& with) {
    const std::string text = ConnectionProblem(server.address, with, kPatience);
    CHECK((text.empty() || text.find(server.address) != std::string::npos));
    return text;
  };
  const auto as = [&options](const std::string& name, const TestIdentity& identity) {
    TlsOptions with = options;
    with.certificate_file = CertificateFile(name, identity);
    with.key_file = KeyFile(name, identity);
    return with;
  };
  {
    const Server server(Credentials(good, nullptr));
    CHECK(problem(server, options).empty());
    CHECK(Has(problem(server, plain), "takes TLS only"));
    TlsOptions with = options;
    with.server_name = "elsewhere";
    CHECK(Has(problem(server, with), "is not for elsewhere"));
    with.server_name = "";
    CHECK(Has(problem(server, with), "is not for 127.0.0.1"));
    with = options;
    with.ca_file = CertificateFile("other", other);
    CHECK(Has(problem(server, with), "is of an authority that is not in"));
  }
  {
    const Server server(Credentials(expired, nullptr));
    CHECK(Has(problem(server, options), "has expired"));
  }
  {
    const Server server(Credentials(early, nullptr));
    CHECK(Has(problem(server, options), "is not valid yet"));
  }
  {
    const Server server(grpc::InsecureServerCredentials());
    CHECK(Has(problem(server, options), "does not take TLS"));
    CHECK(problem(server, plain).empty());
  }
  {
    const Server server(Credentials(good, &ca));
    CHECK(problem(server, as("alice", alice)).empty());
    CHECK(Has(problem(server, options), "needs a client certificate"));
    CHECK(Has(problem(server, as("stranger", stranger)), "refuses this client's certificate"));
    CHECK(Has(problem(server, as("late", late)), "it has expired"));
  }
  CHECK(ConnectionProblem("unix:/s", options, kPatience).empty());
  CHECK(ConnectionProblem("nonsense", options, kPatience).empty());
}

}  // namespace
}  // namespace quorate::internal
