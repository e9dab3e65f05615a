// SPDX-License-Identifier: Apache-2.0

#include "rpc/config/config.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>

#include "rpc/config/config_keys.h"
#include "rpc/config/config_value.h"

namespace quorate::rpc {
namespace {

absl::StatusOr<std::string> MyIdIsTwo(const std::string& path) {
  if (path == "/data/myid") return std::string("2\n");
  return absl::NotFoundError(path);
}
absl::StatusOr<std::string> NoFile(const std::string& path) { return absl::NotFoundError(path); }

constexpr char kThree[] =
    "# three servers\n"
    "tickTime=1000\n"
    "dataDir = /data \n"
    "clientPort=2182\n"
    "server.1=127.0.0.1:2888:3888\n"
    "server.2=[::1]:2889:3889:participant;2182\n"
    "server.3=host3:2890:3890:observer;0.0.0.0:2183\n"
    "4lw.commands.whitelist=ruok, mntr\n";

std::string Problem(const std::string& text, ReadFile read_file = NoFile) {
  auto config = ParseConfig("zoo.cfg", text, read_file);
  REQUIRE_FALSE(config.ok());
  return std::string(config.status().message());
}

TEST_CASE("staleReadLimitMs limits the age of the state for reads") {
  const std::string rest = "tickTime=2000\ndataDir=/d\nclientPort=1\n";
  const auto limit = [&](const std::string& keys) {
    const auto config = ParseConfig("zoo.cfg", rest + keys, NoFile);
    REQUIRE(config.ok());
    CHECK(config->warnings.empty());
    return std::pair(config->StaleReadLimitMs(), config->ContactLimitMs());
  };
  CHECK(limit("") == std::pair<int64_t, int64_t>(10'000, 10'000));
  CHECK(limit("syncLimit=2\n") == std::pair<int64_t, int64_t>(4000, 4000));
  CHECK(limit("syncLimit=2\nstaleReadLimitMs=7\n") == std::pair<int64_t, int64_t>(7, 7));
  CHECK(limit("syncLimit=2\nstaleReadLimitMs=-1\n") == std::pair<int64_t, int64_t>(-1, 4000));
  for (const std::string bad : {"0", "-2", "x"}) {
    const auto config = ParseConfig("zoo.cfg", rest + "staleReadLimitMs=" + bad + "\n", NoFile);
    CHECK(std::string(config.status().message()).find("staleReadLimitMs") != std::string::npos);
  }
}

TEST_CASE("a configuration of three servers is read as in ZooKeeper") {
  auto config = ParseConfig("zoo.cfg", kThree, MyIdIsTwo);
  REQUIRE(config.ok());
  CHECK(config->my_id == 2);
  CHECK(config->data_dir == "/data");
  CHECK(config->log_dir == "/data");
  CHECK(config->tick_time_ms == 1000);
  CHECK(config->min_session_timeout_ms == 2000);
  CHECK(config->max_session_timeout_ms == 20000);
  REQUIRE(config->servers.size() == 3);
  CHECK(config->servers.at(2).host == "::1");
  CHECK(config->servers.at(2).client_port == 2182);
  CHECK(config->servers.at(3).observer);
  CHECK(config->servers.at(3).client_host == "0.0.0.0");
  CHECK(config->client_port == 2182);
  CHECK(config->client_address.empty());
  CHECK(config->ClientEndpoint() == "*:2182");
  CHECK(config->AllowsFourLetterWord("mntr"));
  CHECK(config->AllowsFourLetterWord("srvr"));
  CHECK_FALSE(config->AllowsFourLetterWord("stat"));
  REQUIRE(config->warnings.size() == 1);
  CHECK(config->warnings[0].find("2 servers have a vote") != std::string::npos);
}

TEST_CASE("a host has no brackets inside, so that a line is read as it was written") {
  for (const char* bad :
       {"[[a]:1:2", "a]:1:2", "a[b:1:2", "[a[b]:1:2", "a:1:2;[[b]:3", "a:1:2;b]:3"}) {
    INFO(bad);
    CHECK_FALSE(ParseServerLine(bad).ok());
  }
  const auto line = ParseServerLine("[fe80::1]:1:2:observer;[::1]:3");
  REQUIRE(line.ok());
  CHECK(line->host == "fe80::1");
  CHECK(FormatServerLine(*line) == "[fe80::1]:1:2:observer;[::1]:3");
}

TEST_CASE("without server lines, or with one, a server is standalone and needs no myid") {
  auto none = ParseConfig("zoo.cfg", "dataDir=/d\nclientPort=2181\n", NoFile);
  REQUIRE(none.ok());
  CHECK(none->standalone());
  auto one = ParseConfig("zoo.cfg", "dataDir=/d\nserver.1=a:1:2;2181\nclientPort=2181\n", NoFile);
  REQUIRE(one.ok());
  CHECK(one->standalone());
  auto own = ParseConfig("zoo.cfg", "dataDir=/d\nserver.1=a:1:2;2182\n", NoFile);
  REQUIRE(own.ok());
  CHECK(own->standalone());
  CHECK(own->client_port == 2182);
}

TEST_CASE("lines are those of Java's Properties") {
  auto config = ParseConfig("zoo.cfg",
                            "! a comment \\\n"
                            "dataDir /d\n"
                            "clientPort: 2181\n"
                            "tickTime\t= 1000\n"
                            "clientPortAddress [::1\n"
                            "4lw.commands.whitelist=ruok, \\\n"
                            "    mntr\n"
                            "noSuchKey=1\\  \n"
                            "DigestAuthenticationProvider.superDigest = super\\:a+b\\=\r\n",
                            NoFile);
  REQUIRE(config.ok());
  CHECK(config->data_dir == "/d");
  CHECK(config->client_port == 2181);
  CHECK(config->tick_time_ms == 1000);
  CHECK(config->client_address == "[::1");
  CHECK(config->AllowsFourLetterWord("mntr"));
  REQUIRE(config->warnings.size() == 1);
  CHECK(config->warnings[0].find("zoo.cfg:8: noSuchKey") == 0);
  CHECK(config->super_digest == "super:a+b=");
  CHECK(Problem("dataDir=/d\nclientPort=1\nsuperDigest=\\u0041\n").find("\\u is not read") !=
        std::string::npos);
}

TEST_CASE("escaped white space in a value is read as java.util.Properties reads it") {
  const auto config = ParseConfig("zoo.cfg", "dataDir=/d\\tx\\ny\\rz\\fw\nclientPort=1\n", NoFile);
  REQUIRE(config.ok());
  CHECK(config->data_dir == "/d\tx\ny\rz\fw");
}

constexpr char kMembers[] =
    "server.1=a:1:2:participant;3\nserver.2=b:1:2:participant;4\nversion=100000000\n";
template <const char* kText>
absl::StatusOr<std::string> MembersFile(const std::string& path) {
  if (path == "members.dynamic") return std::string(kText);
  return MyIdIsTwo(path);
}

TEST_CASE("members are read from the file of dynamicConfigFile") {
  const std::string text = "dataDir=/data\ndynamicConfigFile=members.dynamic\n";
  auto config = ParseConfig("zoo.cfg", text, MembersFile<kMembers>);
  REQUIRE(config.ok());
  CHECK(config->my_id == 2);
  CHECK(config->servers.size() == 2);
  CHECK(config->client_port == 4);
  CHECK(config->warnings.size() == 1);  // the warning about two voters
  // A server that ignored the missing file would be standalone, and accept writes.
  CHECK(Problem(text).find("zoo.cfg: dynamicConfigFile: members.dynamic cannot be read") == 0);
  CHECK(Problem(text + "server.1=a:1:2\n", MembersFile<kMembers>).find("members.dynamic") !=
        std::string::npos);
  static constexpr char kNone[] = "version=1\n";
  CHECK(Problem(text, MembersFile<kNone>).find("members.dynamic: server.N: there is no") == 0);
  static constexpr char kOther[] = "server.1=a:1:2\ntickTime=5\n";
  CHECK(Problem(text, MembersFile<kOther>).find("members.dynamic:2: tickTime: it does not") == 0);
}

TEST_CASE("a key that requests a protection or a quorum that is not implemented is an error") {
  const std::string rest = "dataDir=/d\nclientPort=1\n";
  for (const std::string line :
       {"requireClientAuthScheme=digest", "ssl.quorum.ocsp=true",
        "zookeeper.ssl.quorum.context.supplier.class=com.example.Supplier",
        "ssl.quorum.keyStore.locaton=/k", "quorum.auth.enableSasl=true",
        "quorum.auth.learnerRequireSasl=true", "quorum.auth.serverRequireSasl=true",
        "audit.impl.class=com.example.Audit",
        "authProvider.1=org.apache.zookeeper.server.auth.KerberosProvider", "ssl.ocsp=true",
        "ssl.authProvider=own", "zookeeper.ssl.context.supplier.class=com.example.Supplier",
        "authProvider.own=com.example.Provider", "zookeeper.authProvider.1=x",
        "zookeeper.DigestAuthenticationProvider.digestAlg=SHA-256"}) {
    INFO(line);
    CHECK(Problem(rest + line).find("unsupported value") != std::string::npos);
  }
  for (const std::string line : {"group.1=1:2", "weight.1=2", "weight.1=0"}) {
    INFO(line);
    CHECK(Problem(rest + line).find("zoo.cfg:3: " + line.substr(0, 5)) == 0);
  }
  for (const std::string line :
       {"sslQuorum=false", "portUnification=false", "sslQuorumReloadCertFiles=true",
        "ssl.quorum.ocsp=false", "ssl.quorum.keyStore.location=/k", "enforce.auth.enabled=False",
        "sessionRequireClientSASLAuth=false",
        "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider", "weight.1=1",
        "audit.enable=false", "audit.impl.class=org.apache.zookeeper.audit.Slf4jAuditLogger",
        "authProvider.digest=org.apache.zookeeper.server.auth.DigestAuthenticationProvider",
        "authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider",
        "ssl.ocsp=false", "ssl.authProvider=x509", "DigestAuthenticationProvider.digestAlg=SHA1"}) {
    INFO(line);
    const auto config = ParseConfig("zoo.cfg", rest + line, NoFile);
    REQUIRE(config.ok());
    CHECK(config->warnings.empty());
  }
}

TEST_CASE("the rate of requests is limited unless its key is 0") {
  const std::string common = "dataDir=/d\nclientPort=1\n";
  CHECK(ParseConfig("zoo.cfg", common, NoFile)->requests_per_second_max == 1'000'000);
  const auto none = ParseConfig("zoo.cfg", common + "limits.requestsPerSecond=0\n", NoFile);
  CHECK(none->requests_per_second_max == 0);
  const auto few = ParseConfig("zoo.cfg", common + "limits.requestsPerSecond=7\n", NoFile);
  CHECK(few->requests_per_second_max == 7);
}

TEST_CASE("not every SASL user can be made super") {
  const auto config =
      ParseConfig("zoo.cfg", "dataDir=/d\nclientPort=1\nletAnySaslUserDoX=super\n", NoFile);
  REQUIRE_FALSE(config.ok());
  CHECK(std::string(config.status().message()).find("name another id than super") !=
        std::string::npos);
}

TEST_CASE("the keys of SASL are read") {
  const auto config =
      ParseConfig("zoo.cfg",
                  "dataDir=/d\nclientPort=1\njaasFile=/jaas\nzookeeper.sasl.serverconfig=Other\n"
                  "SASLAuthenticationProvider.superPassword=pw\nsuperUser=a,b\nsuperUser.1=c@R\n"
                  "superUser.1=d@R\nletAnySaslUserDoX=anyone\nallowSaslFailedClients=true\n"
                  "kerberos.removeHostFromPrincipal=true\nkerberos.removeRealmFromPrincipal=true\n"
                  "security.auth_to_local=RULE:[1:$1]s/\\\\./_/ DEFAULT\nkinit=/usr/bin/kinit\n"
                  "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n",
                  NoFile);
  INFO(config.status().message());
  REQUIRE(config.ok());
  CHECK(config->jaas_file == "/jaas");
  CHECK(config->sasl_section == "Other");
  CHECK(config->sasl_super_password == "pw");
  CHECK(config->sasl_super_users == std::vector<std::string>{"a,b", "d@R"});
  CHECK(config->sasl_any_user_id == "anyone");
  CHECK(config->admits_clients_that_fail_sasl);
  CHECK(config->kerberos_removes_host);
  CHECK(config->kerberos_removes_realm);
  CHECK(config->auth_to_local_rules == "RULE:[1:$1]s/\\./_/ DEFAULT");
  CHECK(config->sasl_acl_scheme);
  CHECK(config->required_auth_schemes.empty());
  CHECK(config->warnings.size() == 1);  // kinit has no effect
  const std::string rest = "dataDir=/d\nclientPort=1\n";
  const auto java =
      ParseConfig("zoo.cfg", rest, NoFile,
                  "-Djava.security.auth.login.config==file:/j -Dzookeeper.superUser=a");
  REQUIRE(java.ok());
  CHECK(java->jaas_file == "/j");
  CHECK(java->sasl_section == "Server");
  CHECK(java->sasl_super_users == std::vector<std::string>{"a"});
  // Keys in the file take precedence.
  const auto both =
      ParseConfig("zoo.cfg", rest + "superUser=b\njava.security.auth.login.config=/k\n", NoFile,
                  "-Djava.security.auth.login.config=/j -Dzookeeper.superUser=a");
  REQUIRE(both.ok());
  CHECK(both->jaas_file == "/k");
  CHECK(both->sasl_super_users == std::vector<std::string>{"b"});
}

TEST_CASE("required authentication needs schemes that this server has") {
  const std::string rest = "dataDir=/d\nclientPort=1\n";
  const std::string enforce = rest + "enforce.auth.enabled=true\n";
  const std::string provider =
      "authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n";
  const auto required = [](const std::string& text) {
    const auto config = ParseConfig("zoo.cfg", text, NoFile);
    INFO(config.status().message());
    REQUIRE(config.ok());
    return config->required_auth_schemes;
  };
  using List = std::vector<std::string>;
  CHECK(required(rest + "enforce.auth.schemes=digest\n").empty());
  CHECK(required(enforce + "enforce.auth.schemes=digest, ip\n") == List{"digest", "ip"});
  CHECK(required(enforce + provider + "enforce.auth.schemes=sasl,digest\n") ==
        List{"sasl", "digest"});
  CHECK(required(enforce + "enforce.auth.schemes=x509\n"
                           "authProvider.x509=org.apache.zookeeper.server.auth."
                           "X509AuthenticationProvider\n") == List{"x509"});
  const std::string sasl = rest + provider + "jaasFile=/j\n";
  CHECK(required(sasl + "sessionRequireClientSASLAuth=true\nenforce.auth.schemes=digest\n") ==
        List{"sasl"});
  CHECK(required(sasl + "sessionRequireClientSASLAuth=false\n").empty());
  const auto old = ParseConfig("zoo.cfg", sasl + "requireClientAuthScheme=sasl\n", NoFile);
  REQUIRE(old.ok());
  CHECK(old->required_auth_schemes == List{"sasl"});
  REQUIRE(old->warnings.size() == 1);
  CHECK(old->warnings[0].find("ZooKeeper ignores this key") != std::string::npos);

  CHECK(Problem(enforce).find("zoo.cfg: enforce.auth.schemes: it is missing") == 0);
  CHECK(Problem(enforce + "enforce.auth.schemes=,\n").find("it is missing") != std::string::npos);
  for (const std::string scheme :
       {"sasl", "x509", "kerberos", "world", "auth", "super", "Digest"}) {
    INFO(scheme);
    CHECK(Problem(enforce + "enforce.auth.schemes=digest," + scheme + "\n")
              .find("the scheme \"" + scheme + "\" is not available") != std::string::npos);
  }
  CHECK(Problem(rest + provider + "sessionRequireClientSASLAuth=true\n")
            .find("there is no JAAS file") != std::string::npos);
  CHECK(Problem(rest + "jaasFile=/j\nrequireClientAuthScheme=sasl\n")
            .find("the scheme \"sasl\" is not available") != std::string::npos);
  CHECK(Problem(rest + "enforce.auth.enabled=maybe\n").find("true or false") != std::string::npos);
}

TEST_CASE("TLS of clients needs the stores, and allows known values only") {
  const std::string rest = "dataDir=/d\nclientPort=1\n";
  const std::string keys = "ssl.keyStore.location=/k\n";
  const std::string trust = "ssl.trustStore.location=/t\n";
  auto config = ParseConfig("zoo.cfg",
                            "dataDir=/d\nsecureClientPort=2\nsecureClientPortAddress=127.0.0.1\n"
                            "ssl.keyStore.location=/k.jks\nssl.keyStore.password=\n"
                            "zookeeper.ssl.keyStore.passwordPath=/p\nssl.keyStore.type=JKS\n"
                            "ssl.trustStore.location=/t\nssl.clientAuth=WANT\nssl.crl=true\n"
                            "ssl.protocol=TLSv1.3\nssl.ciphersuites=A,B\nclient.certReload=true\n"
                            "ssl.handshakeDetectionTimeoutMillis=0\n"
                            "X509AuthenticationProvider.superUser=CN=admin,O=Example\n",
                            NoFile);
  REQUIRE(config.ok());
  CHECK(config->warnings.empty());
  CHECK(config->client_port == 0);
  CHECK(config->ClientEndpoints() == "127.0.0.1:2 with TLS");
  CHECK(config->secure_client_port == 2);
  CHECK(config->has_client_tls());
  CHECK(config->ssl_key_store_password_file == "/p");
  CHECK(config->ssl_client_auth == "want");
  CHECK(config->ssl_enabled_protocols == std::vector<std::string>{"TLSv1.3"});
  CHECK(config->ssl_cipher_suites == std::vector<std::string>{"A", "B"});
  CHECK(config->ssl_handshake_detection_timeout_ms == 5000);
  CHECK(config->x509_super_user == "CN=admin,O=Example");
  // Without a port for it, TLS needs no stores.
  CHECK_FALSE(ParseConfig("zoo.cfg", rest + keys, NoFile)->has_client_tls());
  const std::string unified = rest + "client.portUnification=true\n";
  CHECK(ParseConfig("zoo.cfg", unified + keys + trust + "secureClientPort=2\n", NoFile)
            ->ClientEndpoints() == "*:1 with and without TLS, and on *:2 with TLS");
  CHECK(ParseConfig("zoo.cfg", unified + keys + trust, NoFile)->ssl_client_auth == "need");
  CHECK(ParseConfig("zoo.cfg", unified + keys + "ssl.clientAuth=none\n", NoFile).ok());
  CHECK(Problem(unified).find("zoo.cfg: ssl.keyStore.location: it is missing") == 0);
  CHECK(Problem(unified + keys).find("zoo.cfg: ssl.trustStore.location: it is missing") == 0);
  CHECK(Problem(rest + "secureClientPort=1\n" + keys + trust).find("is the clientPort too") !=
        std::string::npos);
  CHECK(Problem(rest + "ssl.clientAuth=maybe\n").find("none, want or need") != std::string::npos);
  CHECK(Problem(rest + "ssl.enabledProtocols=SSLv3\n").find("TLSv1.2 or TLSv1.3") !=
        std::string::npos);
}

TEST_CASE("TLS between servers needs the stores, and allows known values only") {
  const std::string rest = "dataDir=/d\nclientPort=1\n";
  const std::string stores = "ssl.quorum.keyStore.location=/k\nssl.quorum.trustStore.location=/t\n";
  auto config = ParseConfig(
      "zoo.cfg",
      rest + stores +
          "sslQuorum=true\nportUnification=TRUE\nsslQuorumReloadCertFiles=true\n"
          "zookeeper.ssl.quorum.keyStore.passwordPath=/p\nssl.quorum.keyStore.type=PKCS12\n"
          "ssl.quorum.trustStore.password=x\nssl.quorum.clientAuth=Want\nssl.quorum.crl=true\n"
          "ssl.quorum.protocol=TLSv1.3\nssl.quorum.ciphersuites=A,B\n"
          "ssl.quorum.hostnameVerification=false\nssl.quorum.clientHostnameVerification=false\n"
          "ssl.quorum.handshakeDetectionTimeoutMillis=0\nmemberSecretFile=/s\n"
          "memberSecretRequired=false\n",
      NoFile);
  REQUIRE(config.ok());
  CHECK(config->warnings.empty());
  CHECK(config->ssl_quorum);
  CHECK(config->peer_port_unification);
  CHECK(config->quorum_cert_reload);
  CHECK(config->quorum_ssl_key_store == "/k");
  CHECK(config->quorum_ssl_key_store_password_file == "/p");
  CHECK(config->quorum_ssl_key_store_type == "PKCS12");
  CHECK(config->quorum_ssl_trust_store == "/t");
  CHECK(config->quorum_ssl_trust_store_password == "x");
  CHECK(config->quorum_ssl_client_auth == "want");
  CHECK(config->quorum_ssl_enabled_protocols == std::vector<std::string>{"TLSv1.3"});
  CHECK(config->quorum_ssl_cipher_suites == std::vector<std::string>{"A", "B"});
  CHECK(config->quorum_ssl_crl);
  CHECK_FALSE(config->quorum_ssl_hostname_verification);
  CHECK_FALSE(config->quorum_ssl_client_hostname_verification);
  CHECK(config->quorum_ssl_handshake_detection_timeout_ms == 5000);
  CHECK(config->member_secret_file == "/s");
  CHECK_FALSE(config->member_secret_required);
  CHECK_FALSE(config->has_client_tls());
  for (const std::string on : {"sslQuorum=true\n", "portUnification=true\n"}) {
    CHECK(ParseConfig("zoo.cfg", rest + on + stores, NoFile)->quorum_ssl_client_auth == "need");
    CHECK(Problem(rest + on).find("zoo.cfg: ssl.quorum.keyStore.location: it is missing") == 0);
    CHECK(Problem(rest + on + "ssl.quorum.keyStore.location=/k\n")
              .find("zoo.cfg: ssl.quorum.trustStore.location: it is missing") == 0);
  }
  CHECK(Problem(rest + "ssl.quorum.clientAuth=maybe\n").find("ssl.quorum.clientAuth") !=
        std::string::npos);
  CHECK(Problem(rest + "ssl.quorum.enabledProtocols=SSLv3\n").find("TLSv1.2 or TLSv1.3") !=
        std::string::npos);
  CHECK(Problem(rest + "sslQuorum=maybe\n").find("true or false") != std::string::npos);
  CHECK(Problem(rest + "memberSecretRequired=true\n").find("there is no memberSecretFile") !=
        std::string::npos);
  CHECK(Problem(rest + "quorum.auth.enableSasl=true\n").find("memberSecretFile") !=
        std::string::npos);
  const auto properties =
      ParseConfig("zoo.cfg", rest, NoFile,
                  "-Dzookeeper.sslQuorum=true -Dzookeeper.ssl.quorum.keyStore.location=/k "
                  "-Dzookeeper.ssl.quorum.trustStore.location=/t");
  REQUIRE(properties.ok());
  CHECK(properties->ssl_quorum);
  CHECK(properties->quorum_ssl_trust_store == "/t");
  const auto bad = ParseConfig("zoo.cfg", rest, NoFile, "-Dzookeeper.ssl.quorum.ocsp=true");
  CHECK(bad.status().message().find("ssl.quorum.ocsp") != absl::string_view::npos);
}

TEST_CASE("the log is text or JSON") {
  const std::string rest = "dataDir=/d\nclientPort=1\n";
  CHECK(ParseConfig("zoo.cfg", rest + "log.format=text\n", NoFile).ok());
  CHECK(ParseConfig("zoo.cfg", rest + "log.format=json\n", NoFile)->warnings.empty());
  const auto refused = ParseConfig("zoo.cfg", rest + "log.format=xml\n", NoFile);
  CHECK(refused.status().message() ==
        "zoo.cfg:3: log.format: \"xml\" is not allowed; it has to be text or json");
}

TEST_CASE("TLS of gRPC has the stores of clients, and refuses what gRPC cannot keep to") {
  const std::string rest = "dataDir=/d\nclientPort=1\ngrpcPort=2\ngrpcTls=true\n";
  const std::string stores = "ssl.keyStore.location=/k\nssl.trustStore.location=/t\n";
  const auto config = [&](const std::string& keys) {
    return ParseConfig("zoo.cfg", rest + stores + keys, NoFile);
  };
  REQUIRE(config("").ok());
  CHECK(config("")->grpc_tls);
  CHECK(config("")->grpc_tls_client_auth == "need");
  CHECK(config("ssl.clientAuth=want\n")->grpc_tls_client_auth == "want");
  CHECK(config("ssl.clientAuth=want\ngrpcTlsClientAuth=NONE\n")->grpc_tls_client_auth == "none");
  CHECK(config("ssl.enabledProtocols=TLSv1.3,TLSv1.2\n").ok());
  CHECK(config("ssl.crl=true\ngrpcTlsClientAuth=none\n").ok());
  CHECK(ParseConfig("zoo.cfg", rest + "ssl.keyStore.location=/k\ngrpcTlsClientAuth=none\n", NoFile)
            .ok());
  const auto problem = [&](const std::string& keys) { return Problem(rest + stores + keys); };
  CHECK(problem("grpcTlsClientAuth=maybe\n").find("grpcTlsClientAuth: \"maybe\"") !=
        std::string::npos);
  CHECK(problem("ssl.crl=true\n").find("zoo.cfg: ssl.crl: gRPC") == 0);
  CHECK(problem("ssl.clientHostnameVerification=true\n")
            .find("zoo.cfg: ssl.clientHostnameVerification: gRPC") == 0);
  CHECK(config("ssl.clientHostnameVerification=true\nssl.hostnameVerification=false\n").ok());
  CHECK(problem("ssl.enabledProtocols=TLSv1.3\n").find("zoo.cfg: ssl.enabledProtocols: gRPC") == 0);
  CHECK(problem("ssl.protocol=TLSv1.2\n").find("zoo.cfg: ssl.enabledProtocols: gRPC") == 0);
  CHECK(problem("grpcPort=0\n").find("zoo.cfg: grpcTls: there is no grpcPort") == 0);
  CHECK(Problem(rest).find("zoo.cfg: ssl.keyStore.location: it is missing; grpcTls") == 0);
  CHECK(Problem(rest + "ssl.keyStore.location=/k\n").find("zoo.cfg: ssl.trustStore.location") == 0);
}

TEST_CASE("addresses in clients' certificates are checked as ZooKeeper's two keys say") {
  const std::string rest =
      "dataDir=/d\nsecureClientPort=2\nssl.keyStore.location=/k\nssl.trustStore.location=/t\n";
  const std::string checked = rest + "ssl.clientHostnameVerification=true\n";
  const auto parse = [](const std::string& text) { return ParseConfig("zoo.cfg", text, NoFile); };
  CHECK_FALSE(parse(rest)->checks_client_addresses());
  CHECK(parse(rest)->warnings.empty());
  CHECK(parse(checked)->checks_client_addresses());
  CHECK(parse(checked)->warnings.empty());
  const auto off = parse(checked + "ssl.hostnameVerification=false\n");
  CHECK_FALSE(off->checks_client_addresses());
  REQUIRE(off->warnings.size() == 1);
  CHECK(off->warnings[0].find("zoo.cfg: ssl.clientHostnameVerification: it has no effect") == 0);
  const auto some = parse(checked + "ssl.clientAuth=want\n");
  REQUIRE(some->warnings.size() == 1);
  CHECK(some->warnings[0].find("clients without a certificate are not checked") !=
        std::string::npos);
}

TEST_CASE("an address for TLS without a port has no effect, with a warning") {
  const std::string rest = "dataDir=/d\nclientPort=1\nsecureClientPortAddress=127.0.0.1\n";
  const auto config = ParseConfig("zoo.cfg", rest, NoFile);
  REQUIRE(config->warnings.size() == 1);
  CHECK(config->warnings[0].find("zoo.cfg: secureClientPortAddress: it has no effect") == 0);
  CHECK(ParseConfig("zoo.cfg",
                    rest + "secureClientPort=2\nssl.keyStore.location=/k\n"
                           "ssl.trustStore.location=/t\n",
                    NoFile)
            ->warnings.empty());
}

TEST_CASE("administrators are subjects, which hold commas, and tokens in a file") {
  const std::string rest = "dataDir=/d\nclientPort=1\n";
  const auto config =
      ParseConfig("zoo.cfg",
                  rest + "administrator.subjects=CN=a,O=b; CN=c\nadministratorTokenFile=/tokens\n" +
                      "grpcUnixSocket=/run/s\n",
                  NoFile);
  REQUIRE(config.ok());
  CHECK(config->administrator_subjects == std::vector<std::string>{"CN=a,O=b", "CN=c"});
  CHECK(config->administrator_token_file == "/tokens");
  CHECK(config->grpc_unix_socket == "/run/s");
  CHECK(Problem(rest + "grpcUnixSocket=s\n").find("it has to begin with /") != std::string::npos);
}

TEST_CASE("properties are taken from the options for a Java machine, below those of the file") {
  const std::string rest = "dataDir=/d\nclientPort=1\n";
  const auto config = ParseConfig("zoo.cfg", rest + "ssl.trustStore.location=/file\n", NoFile,
                                  " -Xmx1g -Dzookeeper.ssl.keyStore.location=/java\n"
                                  "-Dzookeeper.ssl.trustStore.location=/java -Djute.maxbuffer=4096 "
                                  "-Djava.net.x=1 -Dzookeeper.clientPort=7 -D -Dzookeeper.x");
  REQUIRE(config.ok());
  CHECK(config->ssl_key_store == "/java");
  CHECK(config->ssl_trust_store == "/file");
  CHECK(config->jute_max_buffer_bytes == 4096);
  CHECK(config->client_port == 1);
  const auto bad = ParseConfig("zoo.cfg", rest, NoFile, "-Dzookeeper.ssl.ocsp=true");
  CHECK(bad.status().message().find("JVMFLAGS") != absl::string_view::npos);
  CHECK_FALSE(ParseConfig("zoo.cfg", rest, NoFile, "-Djute.maxbuffer=x").ok());
}

TEST_CASE("the server's own line can set the address for clients") {
  const std::string servers = "dataDir=/data\nserver.1=a:1:2\nserver.2=b:1:2;";
  const auto endpoint = [&](const std::string& where, const std::string& keys = "") {
    auto config = ParseConfig("zoo.cfg", servers + where + "\n" + keys, MyIdIsTwo);
    REQUIRE(config.ok());
    return config->ClientEndpoint();
  };
  const auto problem = [&](const std::string& where, const std::string& keys) {
    return Problem(servers + where + "\n" + keys, MyIdIsTwo);
  };
  CHECK(endpoint("5") == "*:5");
  CHECK(endpoint("c:5") == "c:5");
  CHECK(endpoint("[::1]:5", "clientPort=5\n") == "[::1]:5");
  CHECK(endpoint("5", "clientPort=5\nclientPortAddress=d\n") == "d:5");
  CHECK(endpoint("c:5", "clientPort=5\nclientPortAddress=0.0.0.0\n") == "c:5");
  CHECK(problem("5", "clientPort=6\n").find("zoo.cfg: server.2: its client port is 5") == 0);
  CHECK(problem("c:5", "clientPortAddress=d\n").find("its client address is c") !=
        std::string::npos);
}

TEST_CASE("checkpoints and segments have the configured sizes") {
  auto config = ParseConfig(
      "zoo.cfg", "dataDir=/d\nclientPort=1\nsnapCount=50\nlogSegmentBytes=65536\ndiskReserveMb=9\n",
      NoFile);
  REQUIRE(config.ok());
  CHECK(config->warnings.empty());
  CHECK(config->snap_count == 50);
  CHECK(config->log_segment_bytes == 65536);
  CHECK(config->disk_reserve_mb == 9);
  auto none = ParseConfig("zoo.cfg", "dataDir=/d\nclientPort=1\n", NoFile);
  REQUIRE(none.ok());
  CHECK(none->snap_count == 0);
  CHECK(none->log_segment_bytes == 0);
}

TEST_CASE("eventHistoryBytes limits the events kept for gRPC clients") {
  const std::string rest = "dataDir=/d\nclientPort=1\n";
  auto config = ParseConfig("zoo.cfg", rest + "eventHistoryBytes=1000\n", NoFile);
  REQUIRE(config.ok());
  CHECK(config->warnings.empty());
  CHECK(config->event_history_bytes == 1000);
  CHECK(ParseConfig("zoo.cfg", rest, NoFile)->event_history_bytes == 8 << 20);
}

TEST_CASE("properties of ZooKeeper are accepted with and without their prefix") {
  auto config = ParseConfig("zoo.cfg",
                            "dataDir=/d\nclientPort=1\nznode.container.checkIntervalMs=500\n"
                            "zookeeper.znode.container.maxPerMinute=7\n"
                            "zookeeper.enforceQuota=true\n",
                            NoFile);
  REQUIRE(config.ok());
  CHECK(config->warnings.empty());
  CHECK(config->container_check_interval_ms == 500);
  CHECK(config->container_max_per_minute == 7);
  CHECK(config->enforce_quota);
  CHECK(Problem("dataDir=/d\nclientPort=1\nznode.container.maxPerMinute=0\n")
            .find("zoo.cfg:3: znode.container.maxPerMinute") == 0);
}

TEST_CASE("superDigest and skipACL are read") {
  const std::string common = "dataDir=/d\nclientPort=1\n";
  for (const std::string prefix : {"", "zookeeper."}) {
    auto config = ParseConfig("zoo.cfg",
                              common + prefix + "DigestAuthenticationProvider.superDigest=s:h=\n" +
                                  prefix + "skipACL=yes\n",
                              NoFile);
    REQUIRE(config.ok());
    CHECK(config->warnings.empty());
    CHECK(config->super_digest == "s:h=");
    CHECK(config->skip_acl);
  }
  auto none = ParseConfig("zoo.cfg", common + "skipACL=no\n", NoFile);
  REQUIRE(none.ok());
  CHECK(none->super_digest.empty());
  CHECK_FALSE(none->skip_acl);
  CHECK(Problem(common + "skipACL=true\n").find("yes or no") != std::string::npos);
}

TEST_CASE("MembersText returns the members in ZooKeeper's format") {
  const auto one = [](const std::string&) -> absl::StatusOr<std::string> { return "1"; };
  auto config = ParseConfig("zoo.cfg",
                            "dataDir=/d\nclientPort=1\nserver.1=a:2888:3888\n"
                            "server.10=b:2888:3888:observer;2181\n"
                            "server.2=[fe80::1]:2888:3888:participant;[::]:2182\n",
                            one);
  REQUIRE(config.ok());
  CHECK(config->MembersText() ==
        "server.1=a:2888:3888:participant\n"
        "server.2=[fe80::1]:2888:3888:participant;[::]:2182\n"
        "server.10=b:2888:3888:observer;0.0.0.0:2181\n"
        "version=0");
  auto standalone = ParseConfig("zoo.cfg", "dataDir=/d\nclientPort=1\n", NoFile);
  REQUIRE(standalone.ok());
  CHECK(standalone->MembersText().empty());
}

TEST_CASE("limits and read-only mode are read") {
  const std::string common = "dataDir=/d\nclientPort=1\n";
  auto none = ParseConfig("zoo.cfg", common, NoFile);
  REQUIRE(none.ok());
  auto few = ParseConfig(
      "zoo.cfg", common + "maxClientCnxns=-1\nsnapCount=1\nmaxSessionTimeout=2147483647\n", NoFile);
  REQUIRE(few.ok());
  CHECK(few->max_client_connections == 0);
  CHECK(few->snap_count == 2);
  CHECK(few->max_session_timeout_ms == 2147483647);
  CHECK(none->max_client_connections == 60);
  CHECK(none->max_connections == 0);
  CHECK(none->global_outstanding_limit == 0);
  CHECK(none->jute_max_buffer_bytes == 0xfffff);
  CHECK_FALSE(none->read_only_mode);
  CHECK_FALSE(none->AllowsFourLetterWord("isro"));
  for (const std::string prefix : {"", "zookeeper."}) {
    auto config =
        ParseConfig("zoo.cfg",
                    common + "maxClientCnxns=0\nmaxCnxns=7\nglobalOutstandingLimit=9\n" + prefix +
                        "jute.maxbuffer=0x200000\n" + prefix + "readonlymode.enabled=true\n",
                    NoFile);
    REQUIRE(config.ok());
    CHECK(config->warnings.empty());
    CHECK(config->max_client_connections == 0);
    CHECK(config->max_connections == 7);
    CHECK(config->global_outstanding_limit == 9);
    CHECK(config->jute_max_buffer_bytes == 2 << 20);
    CHECK(config->read_only_mode);
    CHECK(config->AllowsFourLetterWord("isro"));
    CHECK(config->AllowsFourLetterWord("srvr"));
    CHECK_FALSE(config->AllowsFourLetterWord("stat"));
  }
  CHECK(Problem(common + "jute.maxbuffer=1m").find("from 1024 to") != std::string::npos);
  CHECK(Problem(common + "jute.maxbuffer=0xzz").find("jute.maxbuffer") != std::string::npos);
  CHECK(none->max_reply_bytes == 64 << 20);
  CHECK(ParseConfig("zoo.cfg", common + "maxReplyBytes=2000000\n", NoFile)->max_reply_bytes ==
        2'000'000);
  CHECK(Problem(common + "maxReplyBytes=1000000").find("at least 1049") != std::string::npos);
  CHECK(Problem(common + "globalOutstandingLimit=0").find("from 1 to") != std::string::npos);
}

TEST_CASE("a key without effect causes a warning with its name and line") {
  auto config = ParseConfig(
      "zoo.cfg", "dataDir=/d\nclientPort=1\npreAllocSize=5\nnoSuchKey=1\nadmin.httpVersion=11\n",
      NoFile);
  REQUIRE(config.ok());
  REQUIRE(config->warnings.size() == 3);
  CHECK(config->warnings[0].find("zoo.cfg:3: preAllocSize") == 0);
  CHECK(config->warnings[1].find("zoo.cfg:4: noSuchKey") == 0);
  CHECK(config->warnings[2].find("zoo.cfg:5: admin.httpVersion") == 0);
}

TEST_CASE("an unknown key causes a warning that suggests a similar key") {
  auto config = ParseConfig("zoo.cfg", "dataDir=/d\nclientPort=1\nclinetPort=2\n", NoFile);
  REQUIRE(config.ok());
  REQUIRE(config->warnings.size() == 1);
  CHECK(config->warnings[0].find("zoo.cfg:3: clinetPort") == 0);
  CHECK(config->warnings[0].find("did you mean clientPort?") != std::string::npos);
}

TEST_CASE("the error about a missing key lists the unknown keys, one of which may be meant") {
  const std::string problem = Problem("dataDir=/d\nclinetPort=2181\n");
  CHECK(problem.find("zoo.cfg: clientPort: it is missing") == 0);
  CHECK(problem.find("zoo.cfg:2: clinetPort: not a key") != std::string::npos);
  CHECK(problem.find("did you mean clientPort?") != std::string::npos);
}

TEST_CASE("ZooKeeper's keys without effect are known by name") {
  for (const std::string key : {"ssl.quorum.allowReverseDnsLookup", "fsync.warningthresholdms",
                                "zookeeper.ssl.sslProvider", "peerType"}) {
    auto config = ParseConfig("zoo.cfg", "dataDir=/d\nclientPort=1\n" + key + "=5\n", NoFile);
    REQUIRE(config.ok());
    REQUIRE(config->warnings.size() == 1);
    CHECK(config->warnings[0].find("zoo.cfg:3: " + key + ": has no effect: ") == 0);
  }
}

TEST_CASE("the keys of reconfig are read, and are off by default") {
  const std::string common =
      "dataDir=/d\nclientPort=1\nserver.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\n";
  const auto my_id = [](const std::string&) { return absl::StatusOr<std::string>("1"); };
  auto config = ParseConfig("zoo.cfg", common, my_id);
  REQUIRE(config.ok());
  CHECK_FALSE(config->reconfig_enabled);
  CHECK(config->standalone_enabled);
  config =
      ParseConfig("zoo.cfg", common + "reconfigEnabled=TRUE\nstandaloneEnabled=false\n", my_id);
  REQUIRE(config.ok());
  CHECK(config->reconfig_enabled);
  CHECK_FALSE(config->standalone_enabled);
  CHECK(config->warnings.empty());
  // One participant is standalone, unless it may grow.
  const std::string one = "dataDir=/d\nclientPort=1\nserver.1=a:1:2\n";
  CHECK(ParseConfig("zoo.cfg", one, my_id)->standalone());
  CHECK_FALSE(ParseConfig("zoo.cfg", one + "standaloneEnabled=false\n", my_id)->standalone());
}

TEST_CASE("the cluster version has no limit unless one is given") {
  const std::string common = "dataDir=/d\nclientPort=1\n";
  CHECK(ParseConfig("zoo.cfg", common, NoFile)->cluster_version_max == 0);
  auto config = ParseConfig("zoo.cfg", common + "clusterVersionMax=8\n", NoFile);
  REQUIRE(config.ok());
  CHECK(config->cluster_version_max == 8);
  CHECK(config->warnings.empty());
  CHECK_FALSE(ParseConfig("zoo.cfg", common + "clusterVersionMax=0\n", NoFile).ok());
}

TEST_CASE("observers follow the leader unless there is a port of observer masters") {
  const std::string common = "dataDir=/d\nclientPort=1\n";
  CHECK(ParseConfig("zoo.cfg", common, NoFile)->observer_master_port == 0);
  auto config = ParseConfig("zoo.cfg", common + "observerMasterPort=2191\n", NoFile);
  REQUIRE(config.ok());
  CHECK(config->observer_master_port == 2191);
  CHECK(config->warnings.empty());
  CHECK_FALSE(ParseConfig("zoo.cfg", common + "observerMasterPort=70000\n", NoFile).ok());
}

TEST_CASE("a byte order mark is skipped with a warning") {
  auto config = ParseConfig("zoo.cfg",
                            "\xEF\xBB\xBF"
                            "dataDir=/d\nclientPort=1\n",
                            NoFile);
  REQUIRE(config.ok());
  CHECK(config->data_dir == "/d");
  REQUIRE(config->warnings.size() == 1);
  CHECK(config->warnings[0].find("byte order mark") != std::string::npos);
}

TEST_CASE("two servers with one address, and two protocols on one port, are refused") {
  const std::string common = "dataDir=/data\nclientPort=7\n";
  CHECK(Problem(common + "grpcPort=7\n").find("zoo.cfg: grpcPort: 7 is the clientPort too") == 0);
  const std::string same = Problem(common + "server.2=a:1:2\nserver.3=a:1:3\n", MyIdIsTwo);
  CHECK(same.find("zoo.cfg: server.3: server.2 has the same address, a:1") == 0);
}

TEST_CASE("an even number of voters causes a warning") {
  const std::string common = "dataDir=/data\nclientPort=7\n";
  const auto warnings = [&](const std::string& servers) {
    return ParseConfig("zoo.cfg", common + servers, MyIdIsTwo)->warnings;
  };
  const std::string two = "server.2=a:1:2\nserver.3=b:1:2\n";
  REQUIRE(warnings(two).size() == 1);
  CHECK(
      warnings(two)[0].find("2 servers have a vote: they survive the loss of 0, no more than 1") !=
      std::string::npos);
  CHECK(warnings(two + "server.4=c:1:2\n").empty());
  CHECK(warnings(two + "server.4=c:1:2\nserver.5=d:1:2:observer\n").empty());
}

TEST_CASE("an unreadable file is distinguished from a missing one") {
  const std::string servers = "dataDir=/d\nclientPort=1\nserver.1=a:1:2\nserver.2=b:1:2\n";
  const ReadFile denied = [](const std::string&) {
    return absl::StatusOr<std::string>(absl::FailedPreconditionError("Permission denied"));
  };
  CHECK(Problem(servers, denied)
            .find("/d/myid: the file with the number of this server cannot be "
                  "read: Permission denied") == 0);
  const absl::StatusOr<Config> directory = LoadConfig("/");
  REQUIRE_FALSE(directory.ok());
  CHECK(directory.status().message() ==
        "/: the configuration file cannot be read: Is a directory; give the path of a zoo.cfg");
  CHECK(absl::IsNotFound(LoadConfig("/no/such/file").status()));
  const absl::StatusOr<std::string> endless = ReadConfigFile("/dev/zero");
  REQUIRE_FALSE(endless.ok());
  CHECK(endless.status().message() ==
        "/dev/zero: the configuration file cannot be read: the file is larger than 4194304 bytes");
}

TEST_CASE("of the variables with options for a Java machine, JVMFLAGS has the last word") {
  const std::string file = std::string(std::getenv("TEST_TMPDIR")) + "/zoo.cfg";
  std::ofstream(file) << "dataDir=/d\nclientPort=1\n";
  setenv("JVMFLAGS", "-Djute.maxbuffer=5000", 1);
  setenv("SERVER_JVMFLAGS", "-Djute.maxbuffer=4000 -Dzookeeper.ssl.keyStore.location=/k", 1);
  setenv("JAVA_OPTS", "-Djute.maxbuffer=3000 -Dzookeeper.ssl.trustStore.location=/t", 1);
  const auto config = LoadConfig(file);
  unsetenv("JVMFLAGS");
  unsetenv("SERVER_JVMFLAGS");
  unsetenv("JAVA_OPTS");
  REQUIRE(config.ok());
  CHECK(config->jute_max_buffer_bytes == 5000);
  CHECK(config->ssl_key_store == "/k");
  CHECK(config->ssl_trust_store == "/t");
}

TEST_CASE("the audit log is off, or has a file") {
  const std::string common = "dataDir=/d\nclientPort=1\n";
  CHECK_FALSE(ParseConfig("zoo.cfg", common, NoFile)->audit);
  const std::string enabled = common + "audit.enable=true\n";
  CHECK(Problem(enabled) ==
        "zoo.cfg: auditFile: it is missing: audit.enable needs a file to write; give its path "
        "here, or a directory of log files in the environment variable ZOO_LOG_DIR");
  const auto parsed = [&](const std::string& keys, const std::string& options) {
    const auto config = ParseConfig("zoo.cfg", enabled + keys, NoFile, options);
    REQUIRE(config.ok());
    CHECK(config->audit);
    CHECK(config->warnings.empty());
    return *config;
  };
  CHECK(parsed("auditFile=/a/b\n", "").audit_file == "/a/b");
  CHECK(parsed("", "-Dzookeeper.log.dir=/logs").audit_file == "/logs/zookeeper_audit.log");
  CHECK(parsed("", "-Dzookeeper.log.dir=/l -Dzookeeper.auditlog.file=x").audit_file == "/l/x");
  CHECK(parsed("", "-Dzookeeper.auditlog.file=/own/x").audit_file == "/own/x");
  CHECK(parsed("auditFile=/a\n", "-Dzookeeper.log.dir=/l").audit_file == "/a");
  CHECK(Problem(enabled + "auditFile=/d/sub/../audit.log\n") ==
        "zoo.cfg: auditFile: /d/sub/../audit.log is inside /d, which holds data only; name another "
        "directory");
  CHECK(parsed("auditFile=/data/audit.log\n", "").audit_file == "/data/audit.log");
  const Config sizes = parsed("auditFile=/a\nauditFileBytes=100000\nauditFiles=3\n", "");
  CHECK(sizes.audit_file_bytes == 100'000);
  CHECK(sizes.audit_files == 3);
  CHECK_FALSE(sizes.audit_failures_only);
}

TEST_CASE("the threshold of the audit log is honoured, or refused") {
  const std::string text = "dataDir=/d\nclientPort=1\nauditFile=/a\naudit.enable=true\n";
  const auto with = [&](const std::string& threshold) {
    return ParseConfig("zoo.cfg", text, NoFile, "-Dzookeeper.auditlog.threshold=" + threshold);
  };
  for (const char* all : {"INFO", "info", "ALL", "DEBUG", "TRACE"}) {
    REQUIRE(with(all).ok());
    CHECK_FALSE(with(all)->audit_failures_only);
  }
  for (const char* failures : {"ERROR", "WARN"}) {
    REQUIRE(with(failures).ok());
    CHECK(with(failures)->audit_failures_only);
  }
  for (const char* none : {"OFF", "FATAL", "x"}) {
    CHECK(with(none).status().message().find("zookeeper.auditlog.threshold") !=
          absl::string_view::npos);
  }
}

TEST_CASE("the directory of log files in the environment is that of the audit log") {
  const std::string file = std::string(std::getenv("TEST_TMPDIR")) + "/audit.cfg";
  std::ofstream(file) << "dataDir=/d\nclientPort=1\naudit.enable=true\n";
  setenv("ZOO_LOG_DIR", "/logs", 1);
  const auto of_scripts = LoadConfig(file);
  setenv("LOGS_DIRECTORY", "/var/log/quorate", 1);
  const auto of_both = LoadConfig(file);
  unsetenv("ZOO_LOG_DIR");
  const auto of_systemd = LoadConfig(file);
  unsetenv("LOGS_DIRECTORY");
  REQUIRE(of_scripts.ok());
  CHECK(of_scripts->audit_file == "/logs/zookeeper_audit.log");
  REQUIRE(of_both.ok());
  CHECK(of_both->audit_file == "/logs/zookeeper_audit.log");
  REQUIRE(of_systemd.ok());
  CHECK(of_systemd->audit_file == "/var/log/quorate/zookeeper_audit.log");
  CHECK_FALSE(LoadConfig(file).ok());
}

TEST_CASE("HTTP is on as in ZooKeeper, and its keys are checked") {
  const std::string rest = "dataDir=/d\nclientPort=1\n";
  auto config = ParseConfig("zoo.cfg", rest, NoFile);
  REQUIRE(config.ok());
  CHECK(config->admin_server);
  CHECK(config->admin_port == 8080);
  CHECK(config->admin_address == "0.0.0.0");
  CHECK(config->admin_command_url == "/commands");
  CHECK(config->admin_idle_timeout_ms == 30'000);
  CHECK_FALSE(config->metrics_server);
  config = ParseConfig("zoo.cfg",
                       rest +
                           "admin.enableServer=false\nzookeeper.admin.commandURL=/a/b/\n"
                           "metricsProvider.className=org.apache.zookeeper.metrics.prometheus."
                           "PrometheusMetricsProvider\n",
                       NoFile);
  REQUIRE(config.ok());
  CHECK_FALSE(config->admin_server);
  CHECK(config->admin_command_url == "/a/b");
  CHECK(config->metrics_server);
  CHECK(config->metrics_port == 7000);
  CHECK(config->warnings.empty());
  CHECK(Problem(rest + "metricsProvider.className=a.B\n").find("\"a.B\" is not available") !=
        std::string::npos);
  for (const char* url : {"commands", "/", "/a b", "/a\"b", "/a?b"}) {
    INFO(url);
    CHECK(Problem(rest + "admin.commandURL=" + url + "\n").find("admin.commandURL") !=
          std::string::npos);
  }
  CHECK(ParseConfig("zoo.cfg", rest, NoFile)->admin_console_changes == "proven");
  CHECK(ParseConfig("zoo.cfg", rest + "zookeeper.admin.console.changes=users\n", NoFile)
            ->admin_console_changes == "users");
  CHECK(Problem(rest + "admin.console.changes=all\n").find("\"all\" is not allowed") !=
        std::string::npos);
  CHECK(Problem(rest + "admin.serverPort=1\n").find("1 is the clientPort too") !=
        std::string::npos);
  CHECK(
      ParseConfig("zoo.cfg", rest + "admin.serverPort=1\nadmin.enableServer=false\n", NoFile).ok());
  CHECK(Problem(rest + "admin.forceHttps=true\n").find("ssl.quorum.keyStore.location") !=
        std::string::npos);
  CHECK(Problem(rest + "admin.portUnification=true\nadmin.needClientAuth=true\n"
                       "ssl.quorum.keyStore.location=/k\n")
            .find("ssl.quorum.trustStore.location") != std::string::npos);
}

TEST_CASE("a certificate of HTTP clients can be required only with HTTPS") {
  const std::string rest =
      "dataDir=/d\nclientPort=1\nadmin.needClientAuth=true\nssl.quorum.keyStore.location=/k\n"
      "ssl.quorum.trustStore.location=/t\n";
  CHECK(Problem(rest).find("admin.needClientAuth: without HTTPS") != std::string::npos);
  CHECK(ParseConfig("zoo.cfg", rest + "admin.enableServer=false\n", NoFile).ok());
  const auto warnings = [&rest](const std::string& more) {
    const auto config = ParseConfig("zoo.cfg", rest + more, NoFile);
    REQUIRE(config.ok());
    return config->warnings;
  };
  const std::vector<std::string> shown = warnings("admin.portUnification=true\n");
  REQUIRE(shown.size() == 1);
  CHECK(shown[0].find("admin.needClientAuth: callers over plain HTTP") != std::string::npos);
  CHECK(warnings("admin.forceHttps=true\n").empty());
  CHECK(warnings("admin.forceHttps=true\nadmin.portUnification=true\n").empty());
}

TEST_CASE("the gRPC front end is on if its port is given") {
  const std::string common = "dataDir=/d\nclientPort=1\n";
  CHECK(ParseConfig("zoo.cfg", common, NoFile)->grpc_port == 0);
  const auto config = ParseConfig("zoo.cfg", common + "grpcPort=2281\n", NoFile);
  CHECK(config->grpc_port == 2281);
  CHECK(config->grpc_address == "127.0.0.1");  // the port serves administrators' calls
  const std::string everywhere = common + "grpcPort=2281\ngrpcPortAddress=::\n";
  CHECK(ParseConfig("zoo.cfg", everywhere, NoFile)->grpc_address == "::");
  CHECK(config->warnings.empty());
}

TEST_CASE("the default heartbeat interval fits the election timeout") {
  const auto heartbeat_ms = [](const std::string& keys) {
    return ParseConfig("zoo.cfg", keys + "dataDir=/d\nclientPort=1\n", NoFile)->heartbeat_ms;
  };
  CHECK(heartbeat_ms("") == 100);
  CHECK(heartbeat_ms("electionTimeoutMs=150\n") == 50);
  CHECK(heartbeat_ms("electionTimeoutMs=1000\n") == 100);
  CHECK(heartbeat_ms("electionTimeoutMs=1000\nheartbeatMs=200\n") == 200);
}

TEST_CASE("no error, warning or line of conf shows a secret") {
  const std::string rest = "\ndataDir=/d\nclientPort=1\n";
  // The rest of a password that was cut into two lines, and an escape that is not read.
  CHECK(Problem("superDigest=super:\nhunter2" + rest).find("hunter2") == std::string::npos);
  CHECK(Problem("superDigest=hunter2\\u0041" + rest).find("zoo.cfg:1: superDigest: \\u") == 0);
  CHECK(Problem("superDigest=hunter2\\u0041" + rest).find("hunter2") == std::string::npos);
  for (const char* key : {"ssl.keyStore.password", "ssl.trustStore.password",
                          "DigestAuthenticationProvider.superDigest"}) {
    CAPTURE(key);
    CHECK(IsSecretKey(key));
    const auto config = ParseConfig("zoo.cfg", std::string(key) + "=hunter2" + rest, NoFile);
    REQUIRE(config.ok());
    CHECK(ConfigLine(key, *config) == std::string(key) + "=(hidden)\n");
  }
  for (const char* key : {"ssl.keyStore.passwordPath", "ssl.keyStore.location", "memberSecretFile",
                          "memberSecretRequired", "connectionMaxTokens", "dataDir"}) {
    CHECK(!IsSecretKey(key));
  }
  // A misspelt key of TLS is refused, and its value may be a password all the same.
  for (const char* key : {"zookeeper.ssl.keystore.pasword", "ssl.quorum.keystore.pasword"}) {
    const std::string problem = Problem(std::string(key) + "=hunter2" + rest);
    CHECK(problem.find("did you mean") != std::string::npos);
    CHECK(problem.find("hunter2") == std::string::npos);
  }
  const auto unknown = ParseConfig("zoo.cfg", "zookeeper.sasl.pasword=hunter2" + rest, NoFile);
  REQUIRE(unknown.ok());
  CHECK(unknown->warnings.size() == 1);
  for (const std::string& warning : unknown->warnings) {
    CHECK(warning.find("hunter2") == std::string::npos);
  }
}

TEST_CASE("the error about a bad value names file, line, key and the allowed values") {
  const std::string rest = "\ndataDir=/d\nclientPort=1\n";
  CHECK(Problem("tickTime=fast" + rest).find("zoo.cfg:1: tickTime: \"fast\"") == 0);
  CHECK(Problem("tickTime=fast" + rest).find("from 1 to") != std::string::npos);
  CHECK(Problem("tickTime=0" + rest).find("zoo.cfg:1: tickTime") == 0);
  CHECK(Problem("clientPort=70000" + rest).find("zoo.cfg:1: clientPort") == 0);
  CHECK(Problem("words" + rest).find("zoo.cfg:1: not a setting") == 0);
  CHECK(Problem("grpcPort=70000" + rest).find("zoo.cfg:1: grpcPort") == 0);
  CHECK(Problem("quorumListenOnAllIPs=maybe" + rest).find("true or false") != std::string::npos);
  CHECK(Problem("snapCount=0" + rest).find("zoo.cfg:1: snapCount") == 0);
  CHECK(Problem("eventHistoryBytes=-1" + rest).find("eventHistoryBytes") != std::string::npos);
  CHECK(Problem("diskReserveMb=1G" + rest).find("from 0 to") != std::string::npos);
  CHECK(Problem("logSegmentBytes=64k" + rest).find("from 65536 to") != std::string::npos);
  CHECK(Problem("server.300=a:1:2" + rest).find("zoo.cfg:1: server.300") == 0);
  CHECK(Problem("server.1=a" + rest).find("host:peerPort") != std::string::npos);
  CHECK(Problem("server.1=a:1:2:spectator" + rest).find("spectator") != std::string::npos);
  CHECK(Problem("server.1=a:1:2\nserver.1=a:1:2" + rest).find("zoo.cfg:2: server.1") == 0);
  CHECK(Problem("heartbeatMs=200" + rest).find("heartbeatMs") != std::string::npos);
  CHECK(Problem("minSessionTimeout=9\nmaxSessionTimeout=8" + rest).find("maxSessionTimeout") !=
        std::string::npos);
  CHECK(Problem("clientPort=1\n").find("dataDir") != std::string::npos);
  CHECK(Problem("dataDir=/d\n").find("clientPort") != std::string::npos);
}

TEST_CASE("each key is declared once") {
  std::set<std::string_view> names;
  for (const ConfigKey& key : ConfigKeys()) {
    INFO(key.name);
    CHECK(names.insert(key.name).second);
    CHECK(FindIgnoredKey(key.name) == nullptr);
    CHECK(FindProtectionKey(key.name) == nullptr);
    CHECK(FindConfigKey(key.name) == &key);
    const std::string property = "zookeeper." + std::string(key.name);
    CHECK(FindConfigKey(property) == (key.is_property ? &key : nullptr));
  }
}

TEST_CASE("ConfigLine has the value that is in the configuration") {
  Config config;
  config.data_dir = "/d";
  config.init_limit = 10;
  config.client_port = 2181;
  config.four_letter_words = {"ruok", "mntr"};
  CHECK(ConfigLine("dataDir", config) == "dataDir=/d\n");
  CHECK(ConfigLine("initLimit", config) == "initLimit=10\n");
  CHECK(ConfigLine("clientPort", config) == "clientPort=2181\n");
  CHECK(ConfigLine("4lw.commands.whitelist", config) == "4lw.commands.whitelist=ruok,mntr\n");
  CHECK(ConfigLine("skipACL", config) == "skipACL=no\n");
  CHECK(ConfigLine("enforceQuota", config) == "enforceQuota=false\n");
}

TEST_CASE("amounts and ranges are formatted for readers") {
  CHECK(AmountText(60'000, Unit::kMilliseconds) == "60,000 ms");
  CHECK(AmountText(3000, Unit::kMilliseconds) == "3000 ms");
  CHECK(AmountText(7'200'000, Unit::kMilliseconds) == "2 h");
  CHECK(AmountText(1'234'567, Unit::kNone) == "1,234,567");
  CHECK(AmountText(64 << 20, Unit::kBytes) == "64 MiB");
  CHECK(AmountText(1 << 20, Unit::kTicks) == "2^20 ticks");
  CHECK(AmountText(0, Unit::kBytes) == "0 bytes");
  CHECK(RangeText(Integer{nullptr, 0, 1 << 30, Unit::kBytes}) == "0 to 1 GiB");
  CHECK(RangeText(Integer{nullptr, 20, 3'600'000, Unit::kMilliseconds}) == "20 ms to 1 h");
  CHECK(RangeText(Integer{nullptr, 64, 1 << 24, Unit::kMebibytes}) == "64 to 2^24 MiB");
  CHECK(RangeText(TimeLimit{nullptr, 3'600'000}) == "1 ms to 1 h, or -1");
  CHECK(RangeText(Port{nullptr}) == "0 to 65535");
}

TEST_CASE("the error about a missing or wrong myid explains it") {
  const std::string two = "dataDir=/x\nclientPort=1\nserver.1=a:1:2\nserver.3=b:1:2\n";
  CHECK(Problem(two).find("/x/myid") != std::string::npos);
  const std::string data = "dataDir=/data\nclientPort=1\nserver.1=a:1:2\nserver.3=b:1:2\n";
  CHECK(Problem(data, MyIdIsTwo).find("server.2") != std::string::npos);
}

}  // namespace
}  // namespace quorate::rpc
