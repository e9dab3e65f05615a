// SPDX-License-Identifier: Apache-2.0

#include "rpc/tls/context.h"

#include <openssl/err.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "base/strings.h"
#include "rpc/tls/subject.h"
#include "rpc/tls/testing/test_certificates.h"

namespace quorate::rpc::tls {
namespace {

using Catch::Matchers::Contains;
using ClientContext = std::unique_ptr<SSL_CTX, OpensslDeleter<SSL_CTX_free>>;

struct Outcome {
  bool is_done = false;
  std::string failure;
  int version = 0;
  std::string cipher;
  std::string subject;
};

// The CA, a server, a client, and the server's stores in PEM.
class Fixture {
 public:
  Fixture() {
    SetServer(server);
    SetTrust(ToPem(ca.certificate.get()));
  }

  void SetServer(const TestIdentity& identity) {
    options.key_store.location =
        WriteTestFile("server.pem", ToPem(identity.key.get()) + ToPem(identity.certificate.get()));
  }

  void SetTrust(const std::string& pem) {
    options.trust_store.location = WriteTestFile("ca.pem", pem);
  }

  // Returns a client that trusts the CA; `identity` may be nullptr.
  ClientContext Client(const TestIdentity* identity, int version = 0) const {
    ClientContext made(SSL_CTX_new(TLS_client_method()));
    X509_STORE_add_cert(SSL_CTX_get_cert_store(made.get()), ca.certificate.get());
    SSL_CTX_set_verify(made.get(), SSL_VERIFY_PEER, nullptr);
    SSL_CTX_set_min_proto_version(made.get(), version);
    SSL_CTX_set_max_proto_version(made.get(), version);
    if (identity != nullptr) {
      SSL_CTX_use_certificate(made.get(), identity->certificate.get());
      SSL_CTX_use_PrivateKey(made.get(), identity->key.get());
    }
    return made;
  }

  std::shared_ptr<const Context> Create() const {
    auto context = Context::Create(options);
    if (!context.ok()) FAIL(context.status().ToString());
    return *context;
  }

  // Connects a client to a server with the options.
  Outcome Connect(const ClientContext& by) const { return Connect(*Create(), by); }
  static Outcome Connect(const Context& context, const ClientContext& by);

  std::string CreateError() const {
    const auto context = Context::Create(options);
    return context.ok() ? "" : std::string(ToStd(context.status().message()));
  }

  const TestIdentity ca = MakeIdentity({.common_name = "ca", .is_ca = true});
  const TestIdentity server = MakeIdentity({.common_name = "server", .issuer = &ca});
  const TestIdentity client = MakeIdentity({.common_name = "client", .issuer = &ca});
  Options options;
};

Outcome Fixture::Connect(const Context& context, const ClientContext& by) {
  const Context::SslPtr at_server = context.NewServer();
  const Context::SslPtr at_client(SSL_new(by.get()));
  SSL_set_connect_state(at_client.get());
  BIO* server_end = nullptr;
  BIO* client_end = nullptr;
  REQUIRE(BIO_new_bio_pair(&server_end, 0, &client_end, 0) == 1);
  SSL_set_bio(at_server.get(), server_end, server_end);
  SSL_set_bio(at_client.get(), client_end, client_end);
  Outcome outcome;
  for (int round = 0; round < 50 && !outcome.is_done; ++round) {
    ERR_clear_error();
    SSL_do_handshake(at_client.get());
    ERR_clear_error();
    const int result = SSL_do_handshake(at_server.get());
    outcome.is_done = result == 1 && SSL_is_init_finished(at_client.get()) == 1;
    if (result != 1 && SSL_get_error(at_server.get(), result) == SSL_ERROR_SSL) {
      outcome.failure = FailureOf(at_server.get());
      break;
    }
  }
  if (!outcome.is_done) return outcome;
  outcome.version = SSL_version(at_server.get());
  outcome.cipher = SSL_get_cipher_name(at_server.get());
  const X509* certificate = SSL_get0_peer_certificate(at_server.get());
  if (certificate != nullptr) outcome.subject = SubjectOf(certificate);
  // Data goes through in both directions. The client also reads tickets, if there are any.
  REQUIRE(SSL_write(at_client.get(), "ruok", 4) == 4);
  char data[8];
  REQUIRE(SSL_read(at_server.get(), data, sizeof(data)) == 4);
  REQUIRE(SSL_write(at_server.get(), "imok", 4) == 4);
  REQUIRE(SSL_read(at_client.get(), data, sizeof(data)) == 4);
  return outcome;
}

TEST_CASE("a client with a certificate connects with TLS 1.2 and 1.3") {
  const Fixture fixture;
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    const Outcome outcome = fixture.Connect(fixture.Client(&fixture.client, version));
    CHECK(outcome.failure.empty());
    CHECK(outcome.version == version);
    CHECK(outcome.subject == "CN=client,O=Example,C=US");
  }
  CHECK(fixture.Create()->warnings().empty());
}

TEST_CASE("a client without a certificate connects with none and want, not with need") {
  Fixture fixture;
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    const ClientContext client = fixture.Client(nullptr, version);
    fixture.options.client_auth = ClientAuth::kNone;
    CHECK(fixture.Connect(client).is_done);
    fixture.options.client_auth = ClientAuth::kWant;
    const Outcome outcome = fixture.Connect(client);
    CHECK(outcome.is_done);
    CHECK(outcome.subject.empty());
    fixture.options.client_auth = ClientAuth::kNeed;
    CHECK(fixture.Connect(client).failure == "peer did not return a certificate");
  }
}

// The two ends of a handshake between servers, and why it failed at each.
struct MemberOutcome {
  std::string connecting;
  std::string accepting;
  bool is_done() const { return connecting.empty() && accepting.empty(); }
};

MemberOutcome ConnectMembers(const Context& connecting, const Context& accepting,
                             const std::string& host = "127.0.0.1") {
  const Context::SslPtr client = connecting.NewClient(host);
  const Context::SslPtr server = accepting.NewServer();
  BIO* server_end = nullptr;
  BIO* client_end = nullptr;
  REQUIRE(BIO_new_bio_pair(&server_end, 0, &client_end, 0) == 1);
  SSL_set_bio(server.get(), server_end, server_end);
  SSL_set_bio(client.get(), client_end, client_end);
  MemberOutcome outcome;
  char unread;
  // With TLS 1.3, a client reads an alert of the server only after its part of the handshake.
  for (int round = 0; round < 50; ++round) {
    for (const auto& [ssl, failure] : {std::pair(client.get(), &outcome.connecting),
                                       std::pair(server.get(), &outcome.accepting)}) {
      if (!failure->empty()) continue;
      ERR_clear_error();
      const int result =
          SSL_is_init_finished(ssl) == 1 ? SSL_read(ssl, &unread, 1) : SSL_do_handshake(ssl);
      if (result != 1 && SSL_get_error(ssl, result) == SSL_ERROR_SSL) *failure = FailureOf(ssl);
    }
  }
  if (!outcome.is_done()) return outcome;
  CHECK(SSL_is_init_finished(client.get()) == 1);
  CHECK(SSL_is_init_finished(server.get()) == 1);
  CHECK(SSL_get0_peer_certificate(client.get()) != nullptr);
  return outcome;
}

TEST_CASE("servers check each other's certificates") {
  Fixture fixture;
  fixture.options.connects = true;
  const auto own = fixture.Create();
  CHECK(ConnectMembers(*own, *own).is_done());
  CHECK(ConnectMembers(*own, *own, "name.example.com").is_done());
  CHECK(X509_cmp(own->certificate(), fixture.server.certificate.get()) == 0);

  Fixture other;  // with a CA of its own
  other.options.connects = true;
  const MemberOutcome outcome = ConnectMembers(*other.Create(), *own);
  CHECK_THAT(outcome.connecting, Contains("the server's certificate is refused: "));
  CHECK_THAT(outcome.accepting, Contains("the other end refuses the connection: "));

  // A server that trusts the other one's CA is refused by it all the same.
  other.SetTrust(ToPem(fixture.ca.certificate.get()));
  const MemberOutcome refused = ConnectMembers(*other.Create(), *own);
  CHECK_THAT(refused.accepting, Contains("the client's certificate is refused: "));
  CHECK_THAT(refused.connecting, Contains("the other end refuses the connection: "));
}

TEST_CASE("a server that connects checks the other one whatever clientAuth is") {
  Fixture fixture;
  fixture.options.connects = true;
  fixture.options.client_auth = ClientAuth::kNone;
  const auto own = fixture.Create();
  CHECK(ConnectMembers(*own, *own).is_done());
  Fixture other;
  other.options.connects = true;
  other.options.client_auth = ClientAuth::kNone;
  CHECK_THAT(ConnectMembers(*own, *other.Create()).connecting,
             Contains("the server's certificate is refused: "));
  fixture.options.trust_store.location.clear();
  CHECK_THAT(fixture.CreateError(), Contains("set trustStore.location"));
}

TEST_CASE("certificates between servers need to be good for both roles") {
  Fixture fixture;
  fixture.options.connects = true;
  const auto context_for = [&](const std::string& usage, long ends_s) {
    const TestIdentity identity = MakeIdentity(
        {.common_name = "one", .issuer = &fixture.ca, .usage = usage, .ends_s = ends_s});
    fixture.options.key_store.location =
        WriteTestFile("one.pem", ToPem(identity.key.get()) + ToPem(identity.certificate.get()));
    return fixture.Create();
  };
  const auto both = context_for("serverAuth,clientAuth", 86400);
  CHECK(ConnectMembers(*both, *both).is_done());
  const auto server = context_for("serverAuth", 86400);
  CHECK(ConnectMembers(*both, *server).is_done());
  CHECK_THAT(ConnectMembers(*server, *both).accepting, Contains("lacks clientAuth"));
  const auto client = context_for("clientAuth", 86400);
  CHECK(ConnectMembers(*client, *both).is_done());
  CHECK_THAT(ConnectMembers(*both, *client).connecting, Contains("lacks serverAuth"));
  const auto expired = context_for("serverAuth,clientAuth", -60);
  CHECK_THAT(ConnectMembers(*both, *expired).connecting, Contains("certificate has expired"));
  const MemberOutcome outcome = ConnectMembers(*expired, *both);
  CHECK_THAT(outcome.accepting, Contains("certificate has expired"));
  CHECK_THAT(outcome.connecting, Contains("expired"));
}

TEST_CASE("a certificate that is not asked for gives no identity") {
  Fixture fixture;
  fixture.options.client_auth = ClientAuth::kNone;
  const Outcome outcome = fixture.Connect(fixture.Client(&fixture.client));
  CHECK(outcome.is_done);
  CHECK(outcome.subject.empty());
}

TEST_CASE("a client's certificate of another CA is refused with want and need") {
  Fixture fixture;
  const TestIdentity other_ca = MakeIdentity({.common_name = "ca", .is_ca = true});
  const TestIdentity client = MakeIdentity({.common_name = "client", .issuer = &other_ca});
  for (const ClientAuth auth : {ClientAuth::kWant, ClientAuth::kNeed}) {
    fixture.options.client_auth = auth;
    const Outcome outcome = fixture.Connect(fixture.Client(&client));
    CHECK(!outcome.is_done);
    CHECK_THAT(outcome.failure, Contains("the client's certificate is refused"));
  }
}

TEST_CASE("a client's certificate is refused before and after its validity") {
  const Fixture fixture;
  const TestIdentity expired =
      MakeIdentity({.common_name = "old", .issuer = &fixture.ca, .ends_s = -60});
  CHECK_THAT(fixture.Connect(fixture.Client(&expired)).failure, Contains("expired"));
  const TestIdentity early =
      MakeIdentity({.common_name = "new", .issuer = &fixture.ca, .starts_s = 3600});
  CHECK_THAT(fixture.Connect(fixture.Client(&early)).failure, Contains("not yet valid"));
}

TEST_CASE("each certificate of the trust store is trusted, without its issuer, too") {
  Fixture fixture;
  const TestIdentity middle =
      MakeIdentity({.common_name = "middle", .issuer = &fixture.ca, .is_ca = true});
  const TestIdentity client = MakeIdentity({.common_name = "app", .issuer = &middle});
  fixture.SetTrust(ToPem(middle.certificate.get()));
  CHECK(fixture.Connect(fixture.Client(&client)).subject == "CN=app,O=Example,C=US");
  fixture.SetTrust(ToPem(client.certificate.get()));
  CHECK(fixture.Connect(fixture.Client(&client)).is_done);
  CHECK(!fixture.Connect(fixture.Client(&fixture.client)).is_done);
}

TEST_CASE("a cipher list with one name leaves that suite and its protocol") {
  Fixture fixture;
  fixture.options.cipher_suites = {"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"};
  Outcome outcome = fixture.Connect(fixture.Client(&fixture.client));
  CHECK(outcome.version == TLS1_2_VERSION);
  CHECK(outcome.cipher == "ECDHE-ECDSA-AES256-GCM-SHA384");
  CHECK(!fixture.Connect(fixture.Client(&fixture.client, TLS1_3_VERSION)).is_done);
  fixture.options.cipher_suites = {"TLS_AES_128_GCM_SHA256"};
  outcome = fixture.Connect(fixture.Client(&fixture.client));
  CHECK(outcome.cipher == "TLS_AES_128_GCM_SHA256");
  CHECK(!fixture.Connect(fixture.Client(&fixture.client, TLS1_2_VERSION)).is_done);
}

TEST_CASE("unknown cipher suites are skipped with a warning, and refused if none is left") {
  Fixture fixture;
  fixture.options.cipher_suites = {"TLS_NO_SUCH_SUITE", "TLS_AES_256_GCM_SHA384"};
  const auto context = fixture.Create();
  REQUIRE(context->warnings().size() == 1);
  CHECK_THAT(context->warnings()[0], Contains("TLS_NO_SUCH_SUITE"));
  CHECK(Fixture::Connect(*context, fixture.Client(&fixture.client)).is_done);
  fixture.options.cipher_suites = {"TLS_NO_SUCH_SUITE"};
  CHECK_THAT(fixture.CreateError(), Contains("none of the cipher suites TLS_NO_SUCH_SUITE"));
  fixture.options.cipher_suites = {"TLS_AES_256_GCM_SHA384"};
  fixture.options.protocols = {"TLSv1.2"};
  CHECK_THAT(fixture.CreateError(), Contains("none of the cipher suites"));
}

TEST_CASE("only the protocols of the list are on, and old ones are skipped") {
  Fixture fixture;
  fixture.options.protocols = {"TLSv1", "TLSv1.1", "TLSv1.2"};
  CHECK(fixture.Create()->warnings().size() == 2);
  CHECK(fixture.Connect(fixture.Client(&fixture.client)).version == TLS1_2_VERSION);
  fixture.options.protocols = {"TLSv1.3"};
  CHECK(fixture.Connect(fixture.Client(&fixture.client)).version == TLS1_3_VERSION);
  CHECK(!fixture.Connect(fixture.Client(&fixture.client, TLS1_2_VERSION)).is_done);
  fixture.options.protocols = {"TLSv1.1"};
  CHECK_THAT(fixture.CreateError(), Contains("add TLSv1.2 or TLSv1.3"));
  fixture.options.protocols = {"TLSv4"};
  CHECK_THAT(fixture.CreateError(), Contains("\"TLSv4\" is no TLS protocol"));
}

TEST_CASE("the certificates of the CAs above the server's are sent") {
  Fixture fixture;
  const TestIdentity middle =
      MakeIdentity({.common_name = "middle", .issuer = &fixture.ca, .is_ca = true});
  const TestIdentity server = MakeIdentity({.common_name = "server", .issuer = &middle});
  const std::string pem = ToPem(server.key.get()) + ToPem(server.certificate.get());
  fixture.options.key_store.location = WriteTestFile("alone.pem", pem);
  CHECK(!fixture.Connect(fixture.Client(&fixture.client)).is_done);
  fixture.options.key_store.location =
      WriteTestFile("server.jks", MakeJks(&server, {middle.certificate.get()}, {}, "pw"));
  fixture.options.key_store.password = "pw";
  CHECK(fixture.Connect(fixture.Client(&fixture.client)).is_done);
}

TEST_CASE("an SSL object has the modes of a non-blocking socket and outlives its context") {
  const Fixture fixture;
  auto context = fixture.Create();
  const Context::SslPtr ssl = context->NewServer();
  context.reset();
  constexpr long kModes = SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                          SSL_MODE_RELEASE_BUFFERS;
  CHECK((SSL_get_mode(ssl.get()) & kModes) == kModes);
  CHECK(SSL_is_server(ssl.get()) == 1);
  CHECK((SSL_get_options(ssl.get()) & SSL_OP_NO_RENEGOTIATION) != 0);
}

TEST_CASE("the failure of bytes that are no TLS is named") {
  const Fixture fixture;
  const Context::SslPtr ssl = fixture.Create()->NewServer();
  BIO* bytes = BIO_new_mem_buf("ruok and more", -1);
  SSL_set_bio(ssl.get(), bytes, bytes);
  CHECK(SSL_do_handshake(ssl.get()) < 0);
  CHECK(!FailureOf(ssl.get()).empty());
  CHECK(ERR_peek_error() == 0);
}

TEST_CASE("no session is resumed") {
  const Fixture fixture;
  const auto context = fixture.Create();
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    const ClientContext client = fixture.Client(&fixture.client, version);
    size_t sessions = 0;
    SSL_CTX_set_session_cache_mode(client.get(), SSL_SESS_CACHE_CLIENT);
    SSL_CTX_set_app_data(client.get(), &sessions);
    SSL_CTX_sess_set_new_cb(client.get(), [](SSL* ssl, SSL_SESSION* session) {
      // TLS 1.2 has a session without an identifier, which cannot be resumed.
      *static_cast<size_t*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl))) +=
          static_cast<size_t>(SSL_SESSION_is_resumable(session));
      return 0;
    });
    CHECK(Fixture::Connect(*context, client).is_done);
    CHECK(sessions == 0);
  }
}

TEST_CASE("revoked certificates are refused, by lists in the trust store or beside it") {
  Fixture fixture;
  fixture.options.check_revocation = true;
  const TestIdentity revoked = MakeIdentity({.common_name = "lost", .issuer = &fixture.ca});
  const CrlPtr list = MakeRevocationList(fixture.ca, {revoked.certificate.get()});
  const std::string ca = ToPem(fixture.ca.certificate.get());
  const bool is_beside = GENERATE(false, true);
  fixture.SetTrust(is_beside ? ca : ca + ToPem(list.get()));
  const std::string beside = fixture.options.trust_store.location + ".crl";
  std::filesystem::remove(beside);
  if (is_beside) WriteTestFile("ca.pem.crl", ToPem(list.get()));
  CHECK(fixture.Connect(fixture.Client(&fixture.client)).is_done);
  CHECK_THAT(fixture.Connect(fixture.Client(&revoked)).failure, Contains("revoked"));
  std::filesystem::remove(beside);
}

TEST_CASE("revocation lists are read from files that the server's own certificates name") {
  Fixture fixture;
  fixture.options.check_revocation = true;
  const std::string path = TestPath("points.crl");
  std::filesystem::remove(path);
  const std::string points = "URI:http://ca.example/ca.crl,URI:file://" + path;
  std::string trusted = ToPem(fixture.ca.certificate.get());
  if (GENERATE(false, true)) {
    const TestIdentity naming =
        MakeIdentity({.common_name = "naming", .is_ca = true, .distribution_points = points});
    trusted += ToPem(naming.certificate.get());
  } else {
    fixture.SetServer(MakeIdentity(
        {.common_name = "server", .issuer = &fixture.ca, .distribution_points = points}));
  }
  fixture.SetTrust(trusted);
  CHECK_THAT(fixture.CreateError(), Contains("files that its certificates name"));

  const TestIdentity revoked = MakeIdentity({.common_name = "lost", .issuer = &fixture.ca});
  const CrlPtr list = MakeRevocationList(fixture.ca, {revoked.certificate.get()});
  WriteTestFile("points.crl", ToPem(list.get()));
  REQUIRE(fixture.Create()->list_stamps().size() == 1);
  CHECK(fixture.Create()->list_stamps()[0] == StampOf(path));
  CHECK(fixture.Connect(fixture.Client(&fixture.client)).is_done);
  CHECK_THAT(fixture.Connect(fixture.Client(&revoked)).failure, Contains("revoked"));

  // With a list elsewhere, a file that is missing is a warning.
  std::filesystem::remove(path);
  fixture.SetTrust(trusted + ToPem(list.get()));
  REQUIRE(fixture.Create()->warnings().size() == 1);
  CHECK_THAT(fixture.Create()->warnings()[0], Contains(path));
}

TEST_CASE("a file that only a client's certificate names is not read") {
  Fixture fixture;
  fixture.options.check_revocation = true;
  const TestIdentity naming =
      MakeIdentity({.common_name = "naming",
                    .issuer = &fixture.ca,
                    .distribution_points = "URI:file://" + TestPath("clients.crl")});
  WriteTestFile("clients.crl",
                ToPem(MakeRevocationList(fixture.ca, {naming.certificate.get()}).get()));
  fixture.SetTrust(ToPem(fixture.ca.certificate.get()) +
                   ToPem(MakeRevocationList(fixture.ca, {}).get()));
  CHECK(fixture.Connect(fixture.Client(&naming)).is_done);
}

TEST_CASE("a client whose CA has no current revocation list is refused") {
  Fixture fixture;
  fixture.options.check_revocation = true;
  CHECK_THAT(fixture.CreateError(), Contains("ca.pem.crl") && Contains("revocation"));
  const std::string ca = ToPem(fixture.ca.certificate.get());
  const TestIdentity other = MakeIdentity({.common_name = "other", .is_ca = true});
  const CrlPtr of_other = MakeRevocationList(other, {});
  fixture.SetTrust(ca + ToPem(of_other.get()));
  CHECK_THAT(fixture.Connect(fixture.Client(&fixture.client)).failure,
             Contains("unable to get certificate CRL"));
  const CrlPtr old = MakeRevocationList(fixture.ca, {}, -60);
  fixture.SetTrust(ca + ToPem(old.get()));
  CHECK_THAT(fixture.Connect(fixture.Client(&fixture.client)).failure, Contains("CRL has expired"));
}

TEST_CASE("a CA that is trusted as it is needs no revocation list of its own issuer") {
  Fixture fixture;
  fixture.options.check_revocation = true;
  const TestIdentity middle =
      MakeIdentity({.common_name = "middle", .issuer = &fixture.ca, .is_ca = true});
  const TestIdentity client = MakeIdentity({.common_name = "app", .issuer = &middle});
  const CrlPtr list = MakeRevocationList(middle, {});
  fixture.SetTrust(ToPem(middle.certificate.get()) + ToPem(list.get()));
  const Outcome outcome = fixture.Connect(fixture.Client(&client));
  CHECK(outcome.failure.empty());
  CHECK(outcome.is_done);
}

TEST_CASE("missing stores are refused, except a trust store that is not needed") {
  Fixture fixture;
  fixture.options.trust_store = {};
  CHECK_THAT(fixture.CreateError(), Contains("trustStore.location"));
  fixture.options.client_auth = ClientAuth::kWant;
  CHECK(fixture.Create()->warnings().size() == 1);
  CHECK(fixture.Connect(fixture.Client(nullptr)).is_done);
  CHECK(!fixture.Connect(fixture.Client(&fixture.client)).is_done);
  fixture.options.client_auth = ClientAuth::kNone;
  CHECK(fixture.Create()->warnings().empty());
  fixture.options.key_store.location.clear();
  CHECK_THAT(fixture.CreateError(), Contains("keyStore.location"));
}

TEST_CASE("the server's own certificate may be out of date, with a warning") {
  Fixture fixture;
  const TestIdentity old =
      MakeIdentity({.common_name = "server", .issuer = &fixture.ca, .ends_s = -60});
  fixture.options.key_store.location =
      WriteTestFile("old.pem", ToPem(old.key.get()) + ToPem(old.certificate.get()));
  const auto context = fixture.Create();
  REQUIRE(context->warnings().size() == 1);
  CHECK_THAT(context->warnings()[0], Contains("has expired"));
}

TEST_CASE("stamps change with the files, and with what symbolic links lead to") {
  Fixture fixture;
  const std::string first = WriteTestFile("first.pem", "1");
  const std::string second = WriteTestFile("second.pem", "1");
  const std::string link = TestPath("link.pem");
  std::filesystem::remove(link);
  std::filesystem::create_symlink(first, link);
  fixture.options.trust_store.location = link;
  const auto stamps = Stamps(fixture.options);
  CHECK(stamps.size() == 2);
  CHECK(stamps == Stamps(fixture.options));
  std::filesystem::remove(link);
  CHECK(stamps != Stamps(fixture.options));
  std::filesystem::create_symlink(second, link);
  CHECK(stamps != Stamps(fixture.options));
  std::filesystem::remove(link);
  std::filesystem::create_symlink(first, link);
  CHECK(stamps == Stamps(fixture.options));
  WriteTestFile("first.pem", "22");
  CHECK(stamps != Stamps(fixture.options));
}

}  // namespace
}  // namespace quorate::rpc::tls
