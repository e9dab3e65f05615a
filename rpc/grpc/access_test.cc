// SPDX-License-Identifier: Apache-2.0

// Tests how connections reach the gRPC server: TLS, changed certificates, and the Unix socket.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "rpc/config/config.h"
#include "rpc/frontend/administrators.h"
#include "rpc/grpc/caller.h"
#include "rpc/grpc/grpc_server.h"
#include "rpc/grpc/server_certificates.h"
#include "rpc/grpc/unix_socket.h"
#include "rpc/member/testing/captured_log.h"
#include "rpc/proto/quorate/v1/cluster.grpc.pb.h"
#include "rpc/tls/options.h"
#include "rpc/tls/testing/test_certificates.h"

namespace quorate::rpc {
namespace {

using tls::ClientAuth;
using tls::MakeIdentity;
using tls::TestIdentity;
using tls::ToPem;

std::string KeyStoreOf(const TestIdentity& identity) {
  return ToPem(identity.key.get()) + ToPem(identity.certificate.get());
}

// An authority with the certificate of a server.
struct Authority {
  explicit Authority(const std::string& name)
      : ca(MakeIdentity({.common_name = name, .is_ca = true})),
        server(MakeIdentity({.common_name = "server", .issuer = &ca})) {}
  void Write() const {
    tls::WriteTestFile("server.pem", KeyStoreOf(server));
    tls::WriteTestFile("ca.pem", ToPem(ca.certificate.get()));
  }
  TestIdentity ca;
  TestIdentity server;
};

tls::Options OptionsFor(ClientAuth auth) {
  tls::Options options;
  options.key_store.location = tls::TestPath("server.pem");
  options.trust_store.location = tls::TestPath("ca.pem");
  options.client_auth = auth;
  return options;
}

std::shared_ptr<grpc::ChannelCredentials> TlsOf(const TestIdentity& authority,
                                                const TestIdentity* client) {
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = ToPem(authority.certificate.get());
  if (client != nullptr) {
    options.pem_private_key = ToPem(client->key.get());
    options.pem_cert_chain = ToPem(client->certificate.get());
  }
  return grpc::SslCredentials(options);
}

std::shared_ptr<grpc::Channel> Connect(const std::string& address,
                                       const std::shared_ptr<grpc::ChannelCredentials>& with) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetString(GRPC_SSL_TARGET_NAME_OVERRIDE_ARG, "server");
  return grpc::CreateCustomChannel(address, with, arguments);
}

// Calls a method with an empty request; that of the health service by default. Returns the status.
grpc::Status Ask(const std::shared_ptr<grpc::Channel>& channel,
                 const std::string& method = "/grpc.health.v1.Health/Check") {
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  const grpc::ByteBuffer request(nullptr, 0);
  auto call = stub.PrepareUnaryCall(&context, method, request, &queue);
  call->StartCall();
  grpc::ByteBuffer response;
  grpc::Status status;
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  REQUIRE(queue.Next(&tag, &ok));
  return status;
}

class Server {
 public:
  explicit Server(ServerCertificates* certificates) {
    const absl::Status started =
        server_.Start({.address = "127.0.0.1:0", .certificates = certificates}, {});
    INFO(started.message());
    REQUIRE(started.ok());
  }
  ~Server() { server_.Stop(); }
  std::string address() const { return "127.0.0.1:" + std::to_string(server_.port()); }
  bool Serves(const std::shared_ptr<grpc::ChannelCredentials>& credentials) const {
    return Ask(Connect(address(), credentials)).ok();
  }

 private:
  GrpcServer server_;
};

std::unique_ptr<ServerCertificates> Certificates(const tls::Options& options) {
  auto certificates = ServerCertificates::Create(options, /*reloads=*/false);
  INFO(certificates.status().message());
  REQUIRE(certificates.ok());
  return *std::move(certificates);
}

// Admits every call as one that needs an administrator, of which none is configured, and keeps the
// peers of the calls.
class AdmittingService : public v1::ClusterService::CallbackService {
 public:
  explicit AdmittingService(GrpcServer* server) {
    administrators_.SetAdmissions([server](std::string_view peer) { server->OnAdmitted(peer); });
  }
  using v1::ClusterService::CallbackService::Status;
  grpc::ServerUnaryReactor* Status(grpc::CallbackServerContext* context, const v1::StatusRequest*,
                                   v1::StatusResponse*) override {
    const bool is_admitted = AdmitCall(Operation::kClusterBackup, *context, &administrators_).ok();
    {
      const std::lock_guard lock(mutex_);
      peers_.push_back(context->peer());
    }
    auto* const reactor = context->DefaultReactor();
    reactor->Finish(is_admitted ? grpc::Status::OK : grpc::Status::CANCELLED);
    return reactor;
  }
  std::vector<std::string> peers() {
    const std::lock_guard lock(mutex_);
    return peers_;
  }

 private:
  const Config config_;
  Administrators administrators_{config_, Clock::System()};
  std::mutex mutex_;
  std::vector<std::string> peers_;
};

// Returns whether the server closes the connection.
bool IsClosed(boost::asio::ip::tcp::socket& socket) {
  constexpr timeval kPatience = {.tv_sec = 20, .tv_usec = 0};
  setsockopt(socket.native_handle(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
  char bytes[1000];
  ssize_t count = 0;
  while ((count = recv(socket.native_handle(), bytes, sizeof bytes, 0)) > 0) {
  }
  return count == 0 || errno == ECONNRESET;
}

TEST_CASE("gRPC closes the oldest connection without an admitted call, and keeps others") {
  using boost::asio::ip::tcp;
  for (const char* host : {"127.0.0.1", "[::1]"}) {
    ConnectionCounters counters;
    GrpcServer server;
    AdmittingService service(&server);
    // 32 connections of this machine without an admitted call.
    if (!server
             .Start({.address = std::string(host) + ":0",
                     .memory_bytes_max = 1,
                     .counters = &counters},
                    {{v1::ClusterService::service_full_name(), &service}})
             .ok()) {
      continue;  // without IPv6
    }
    const std::string address = std::string(host) + ":" + std::to_string(server.port());
    const auto channel = Connect(address, grpc::InsecureChannelCredentials());
    const std::string method = "/quorate.v1.ClusterService/Status";
    REQUIRE(Ask(channel, method).ok());
    boost::asio::io_context context;
    std::vector<tcp::socket> sockets;
    const auto own = boost::asio::ip::make_address(host[0] == '[' ? "::1" : host);
    const auto connect = [&](tcp::socket& socket) {
      socket.connect({own, static_cast<uint16_t>(server.port())});
    };
    for (int i = 0; i < 32; ++i) connect(sockets.emplace_back(context));
    // Until the oldest has had its time, others are refused.
    tcp::socket next(context);
    do {
      const int64_t refused = counters.refused;
      next = tcp::socket(context);
      connect(next);
      while (counters.replaced == 0 && counters.refused == refused) std::this_thread::yield();
    } while (counters.replaced == 0);
    CHECK(IsClosed(sockets[0]));
    CHECK(counters.replaced == 1);
    CHECK(Ask(channel, method).ok());
    const std::vector<std::string> peers = service.peers();
    REQUIRE(peers.size() == 2);
    CHECK(peers[0] == peers[1]);  // over the same connection
    server.Stop();
  }
}

TEST_CASE("clients need a valid certificate or none, as clientAuth says") {
  const Authority authority("ca");
  const Authority other("other");
  authority.Write();
  const TestIdentity good = MakeIdentity({.common_name = "good", .issuer = &authority.ca});
  const TestIdentity bad = MakeIdentity({.common_name = "bad", .issuer = &other.ca});
  const TestIdentity expired =
      MakeIdentity({.common_name = "expired", .issuer = &authority.ca, .ends_s = -60});
  struct Expected {
    ClientAuth auth;
    bool without;
    bool with_bad;
  };
  for (const Expected& expected :
       {Expected{ClientAuth::kNeed, false, false}, Expected{ClientAuth::kWant, true, false},
        Expected{ClientAuth::kNone, true, true}}) {
    const auto certificates = Certificates(OptionsFor(expected.auth));
    const Server server(certificates.get());
    CHECK(server.Serves(TlsOf(authority.ca, &good)));
    CHECK(server.Serves(TlsOf(authority.ca, nullptr)) == expected.without);
    CHECK(server.Serves(TlsOf(authority.ca, &bad)) == expected.with_bad);
    CHECK(server.Serves(TlsOf(authority.ca, &expired)) == expected.with_bad);
    CHECK_FALSE(server.Serves(TlsOf(other.ca, &good)));  // it does not trust the server
    CHECK_FALSE(server.Serves(grpc::InsecureChannelCredentials()));
  }
}

TEST_CASE("new connections of every port use changed certificates, and open ones stay") {
  const Authority before("before");
  const Authority after("after");
  before.Write();
  const auto certificates = Certificates(OptionsFor(ClientAuth::kNone));
  const Server first(certificates.get());
  const Server second(certificates.get());
  const auto open = Connect(first.address(), TlsOf(before.ca, nullptr));
  REQUIRE(Ask(open).ok());
  CHECK(second.Serves(TlsOf(before.ca, nullptr)));
  CHECK_FALSE(certificates->Refresh());
  tls::WriteTestFile("server.pem", "-----BEGIN PRIVATE KEY-----\nAAAA\n");
  const CapturedLog log;
  CHECK_FALSE(certificates->Refresh());
  CHECK(log.Lines("the changed stores of TLS cannot be used for gRPC").size() == 1);
  CHECK(first.Serves(TlsOf(before.ca, nullptr)));
  after.Write();
  REQUIRE(certificates->Refresh());
  CHECK(Ask(open).ok());
  for (const Server* server : {&first, &second}) {
    CHECK(server->Serves(TlsOf(after.ca, nullptr)));
    CHECK_FALSE(server->Serves(TlsOf(before.ca, nullptr)));
  }
}

TEST_CASE("stores of every kind serve, and a bad one is an error with its name") {
  const Authority authority("ca");
  authority.Write();
  tls::Options options = OptionsFor(ClientAuth::kNeed);
  options.key_store.password = "changeit";
  options.key_store.location = tls::WriteTestFile(
      "server.p12",
      tls::MakePkcs12(&authority.server, {authority.ca.certificate.get()}, "changeit"));
  const TestIdentity client = MakeIdentity({.common_name = "c", .issuer = &authority.ca});
  {
    const auto certificates = Certificates(options);
    CHECK(Server(certificates.get()).Serves(TlsOf(authority.ca, &client)));
  }
  options.key_store.location = tls::WriteTestFile(
      "server.jks",
      tls::MakeJks(&authority.server, {authority.ca.certificate.get()}, {}, "changeit"));
  options.trust_store.location = tls::WriteTestFile(
      "trust.jks", tls::MakeJks(nullptr, {}, {authority.ca.certificate.get()}, "changeit"));
  options.trust_store.password = "changeit";
  {
    const auto certificates = Certificates(options);
    CHECK(Server(certificates.get()).Serves(TlsOf(authority.ca, &client)));
  }
  options.key_store.location = tls::TestPath("none.pem");
  const auto missing = ServerCertificates::Create(options, false);
  CHECK(std::string(missing.status().message()).find("none.pem") != std::string::npos);
}

TEST_CASE("the subject of a certificate in PEM is that of access control lists") {
  const TestIdentity alice = MakeIdentity({.common_name = "alice"});
  CHECK(SubjectOfPem(ToPem(alice.certificate.get())) == "CN=alice,O=Example,C=US");
  CHECK(SubjectOfPem("") == "");
  CHECK(SubjectOfPem("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n") == "");
}

// A directory with a path that is short enough for a socket.
class ShortDirectory {
 public:
  ShortDirectory() { REQUIRE(mkdtemp(path_.data()) != nullptr); }
  ~ShortDirectory() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/quorate-XXXXXX";
};

TEST_CASE("the Unix socket is for the server's user alone, and replaces a stale one") {
  const ShortDirectory directory;
  const std::string path = directory.path() + "/socket";
  const auto connect = [&] {
    return Ask(Connect("unix:" + path, grpc::InsecureChannelCredentials()));
  };
  const auto mode = [&] {
    struct stat facts {};
    REQUIRE(lstat(path.c_str(), &facts) == 0);
    REQUIRE(S_ISSOCK(facts.st_mode));
    return facts.st_mode & 07777;
  };
  {
    GrpcServer server;
    REQUIRE(server.Start({.unix_socket = path}, {}).ok());
    CHECK(mode() == 0600);
    CHECK(connect().ok());
    GrpcServer other;
    const absl::Status refused = other.Start({.unix_socket = path}, {});
    CHECK(std::string(refused.message()).find("another process listens there") !=
          std::string::npos);
    CHECK(connect().ok());
    // As after a crash: the file stays, and nobody listens.
    std::filesystem::rename(path, path + ".kept");
    server.Stop();
    std::filesystem::rename(path + ".kept", path);
  }
  {
    CHECK_FALSE(connect().ok());
    GrpcServer server;
    REQUIRE(server.Start({.address = "127.0.0.1:0", .unix_socket = path}, {}).ok());
    CHECK(mode() == 0600);
    CHECK(connect().ok());
    server.Stop();
    CHECK_FALSE(std::filesystem::exists(path));
  }
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(path).parent_path())) {
    CHECK(entry.path().filename().string().find(".quorate-") == std::string::npos);
  }
}

TEST_CASE("a file that is no socket stays, and a path that is too long is refused") {
  const ShortDirectory directory;
  const std::string path = directory.path() + "/file";
  std::ofstream(path) << "data";
  const auto problem = [](const std::string& at) {
    return std::string(UnixSocketFile::Create(at).status().message());
  };
  CHECK(problem(path).find("no socket") != std::string::npos);
  CHECK(std::filesystem::file_size(path) == 4);
  CHECK(problem("/tmp/" + std::string(120, 'x')).find("too long") != std::string::npos);
  CHECK(problem("/nonexistent/s").find("cannot be written to") != std::string::npos);
}

}  // namespace
}  // namespace quorate::rpc
