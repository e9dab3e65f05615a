// SPDX-License-Identifier: Apache-2.0

// Tests what the options for a Java machine, and keys of TLS, ask for: each is granted, refused, or logged.

#include "rpc/config/java_options.h"

#include <catch2/catch.hpp>
#include <string>

#include "rpc/config/config.h"

namespace quorate::rpc {
namespace {

constexpr char kRest[] = "dataDir=/d\nclientPort=1\n";
constexpr char kTls[] =
    "secureClientPort=2\nssl.keyStore.location=/k\nssl.trustStore.location=/t\n"
    "sslQuorum=true\nssl.quorum.keyStore.location=/k\nssl.quorum.trustStore.location=/t\n";

absl::StatusOr<std::string> NoFile(const std::string& path) { return absl::NotFoundError(path); }

absl::StatusOr<Config> Parse(const std::string& lines, const std::string& options = "") {
  return ParseConfig("zoo.cfg", kRest + lines, NoFile, options);
}

// Returns why the configuration is refused; "" if it is not.
std::string Problem(const std::string& lines, const std::string& options = "") {
  return std::string(Parse(lines, options).status().message());
}

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("limits and words of ZooKeeper are properties, too") {
  const auto config = Parse("",
                            "-Dzookeeper.maxCnxns=7 -Dzookeeper.globalOutstandingLimit=8 "
                            "-Dzookeeper.snapCount=9 -Dzookeeper.4lw.commands.whitelist=ruok,mntr");
  REQUIRE(config.ok());
  CHECK(config->max_connections == 7);
  CHECK(config->global_outstanding_limit == 8);
  CHECK(config->snap_count == 9);
  CHECK(config->AllowsFourLetterWord("mntr"));
  CHECK_FALSE(config->AllowsFourLetterWord("cons"));
  CHECK(config->warnings.empty());
}

TEST_CASE("a property that asks for protection and has no effect is refused") {
  for (const std::string key :
       {"grpcTls", "grpcTlsClientAuth", "administratorTokenFile", "administrator.subjects",
        "secureClientPort", "secureClientPortAddress", "sslQuorumReloadCertFiles", "jaasFile",
        "limits.watches"}) {
    INFO(key);
    const std::string problem = Problem("", "-Dzookeeper." + key + "=1");
    CHECK(Contains(problem, "the environment (JVMFLAGS, SERVER_JVMFLAGS, JAVA_OPTS): zookeeper." +
                                key + ": "));
    CHECK(Contains(problem, "write " + key + " there"));
  }
}

TEST_CASE("a property that switches a protection off has no effect, and is logged") {
  const auto config = Parse("", "-Dzookeeper.sslQuorumReloadCertFiles=False");
  REQUIRE(config.ok());
  REQUIRE(config->warnings.size() == 1);
  CHECK(Contains(config->warnings[0], "zookeeper.sslQuorumReloadCertFiles: has no effect: "));
  CHECK(
      Contains(Problem("", "-Dzookeeper.sslQuorumReloadCertFiles=true"), "write sslQuorumReload"));
}

TEST_CASE("other properties without effect are logged, except for those of scripts") {
  const auto config = Parse("", "-Dzookeeper.clientPort=7 -Dzookeeper.enforce.auth.enabeld=true");
  REQUIRE(config.ok());
  CHECK(config->client_port == 1);
  REQUIRE(config->warnings.size() == 2);
  CHECK(Contains(config->warnings[0], "JAVA_OPTS): zookeeper.clientPort: has no effect: "));
  CHECK(Contains(config->warnings[1], "zookeeper.enforce.auth.enabeld: not a key"));
  const auto known = Parse(
      "",
      "-Xmx1g -Dcom.example.x=1 -Dzookeeper.log.dir=/l -Dzookeeper.root.logger=INFO "
      "-Dzookeeper.jmx.log4j.disable=true -Dzookeeper.fips-mode=false "
      "-Dzookeeper.serverCnxnFactory=x -Dzookeeper.console.threshold=INFO "
      "-Dzookeeper.authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider");
  REQUIRE(known.ok());
  CHECK(known->warnings.empty());
}

TEST_CASE("all keys of TLS are known with both prefixes, and all others are refused") {
  for (const std::string prefix : {"ssl.", "ssl.quorum."}) {
    for (const std::string pair :
         {"keyStore.location=/k", "keyStore.password=p", "keyStore.passwordPath=/p",
          "keyStore.type=PEM", "trustStore.location=/t", "trustStore.password=p",
          "trustStore.passwordPath=/p", "trustStore.type=JKS", "protocol=TLSv1.3",
          "enabledProtocols=TLSv1.2", "ciphersuites=A", "clientAuth=want",
          "hostnameVerification=true", "clientHostnameVerification=false",
          "allowReverseDnsLookup=false", "crl=true", "ocsp=false",
          "handshakeDetectionTimeoutMillis=9", "sslProvider=OPENSSL"}) {
      INFO(prefix + pair);
      CHECK(Problem(kTls + prefix + pair + "\n").empty());
      CHECK(Problem(kTls, "-Dzookeeper." + prefix + pair).empty());
    }
    for (const std::string pair :
         {"unheardOf=1", "keystore.location=/k", "Crl=true", "ocsp=true", "ocsp=yes",
          "context.supplier.class=a.B", "clientAuth=needed",
          "clientAuth=", "enabledProtocols=TLSv1.1", "enabledProtocols=TLSv1.2,SSLv3",
          "protocol=TLS", "crl=enabled", "hostnameVerification=on",
          "clientHostnameVerification=maybe", "handshakeDetectionTimeoutMillis=5s",
          "keyStore.location=", "trustStore.location=", "keyStore.passwordPath="}) {
      INFO(prefix + pair);
      CHECK(Contains(Problem(kTls + prefix + pair + "\n"), prefix));
      CHECK(Contains(Problem(kTls, "-Dzookeeper." + prefix + pair), prefix));
    }
  }
  CHECK(Contains(Problem("ssl.authProvider=own\n"), "ssl.authProvider"));
  CHECK(Contains(Problem("metricsProvider.httpsPort=7001\n"), "admin.forceHttps"));
  CHECK(Problem("metricsProvider.httpsPort=-1\n").empty());  // ZooKeeper's default
}

TEST_CASE("Java's property for revocation lists is refused where no list is checked") {
  const std::string asked = "-Dcom.sun.net.ssl.checkRevocation=true";
  CHECK(Problem("", asked).empty());
  CHECK(Contains(Problem(kTls, asked), "com.sun.net.ssl.checkRevocation: "));
  CHECK(Contains(Problem(kTls, asked), "set ssl.crl=true"));
  CHECK(Contains(Problem(std::string(kTls) + "ssl.crl=true\n", asked), "set ssl.quorum.crl=true"));
  CHECK(Problem(std::string(kTls) + "ssl.crl=true\nssl.quorum.crl=true\n", asked).empty());
  CHECK(Problem(kTls, "-Dcom.sun.net.ssl.checkRevocation=false").empty());
  const std::string grpc =
      "grpcPort=7001\ngrpcTls=true\nssl.keyStore.location=/k\nssl.trustStore.location=/t\n";
  CHECK(Problem(grpc).empty());
  CHECK(Contains(Problem(grpc, asked), "remove grpcTls"));
  CHECK_FALSE(Contains(Problem(grpc, asked), "ssl.crl"));
  const std::string https = "admin.forceHttps=true\nssl.quorum.keyStore.location=/k\n";
  CHECK(Problem(https).empty());
  CHECK(Contains(Problem(https, asked), "set ssl.quorum.crl=true"));
  CHECK(Problem(https + "ssl.quorum.crl=true\nssl.quorum.trustStore.location=/t\n", asked).empty());
}

}  // namespace
}  // namespace quorate::rpc
