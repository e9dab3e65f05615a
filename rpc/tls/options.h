// SPDX-License-Identifier: Apache-2.0

// Settings of TLS: ZooKeeper's keys with the prefix "ssl." for the connections of clients, and with
// the prefix "ssl.quorum." for the connections between servers.
//
// Thread-safety: plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace quorate::rpc::tls {

// A file with keys or certificates. Files above stores.h's kStoreBytesMax are refused.
struct StoreOptions {
  std::string location;
  std::string password;
  // A file with the password, of which one newline at the end is cut; wins over `password`.
  std::string password_file;
  // "JKS", "PEM" or "PKCS12", in any case, or empty. The content decides, as a file of Java 9 or
  // later that is named .jks is often PKCS12; any other type is refused.
  std::string type;
};

// Whether a client sends a certificate. One that a client sends must be valid in any case.
enum class ClientAuth : uint8_t {
  kNone,  // it is not asked for a certificate
  kWant,  // it may send one
  kNeed,  // it must send one
};

struct Options {
  // The private key and the certificate of this server, with the certificates up to the CA.
  StoreOptions key_store;
  // The certificates of the CAs of clients. kNeed and `connects` require it; with kWant and no trust
  // store each certificate of a client is refused.
  StoreOptions trust_store;
  // "TLSv1.2", "TLSv1.3"; empty: both. Older versions are skipped with a warning.
  std::vector<std::string> protocols;
  // IANA names, of which unknown ones are skipped with a warning; empty: ZooKeeper's default list.
  std::vector<std::string> cipher_suites;
  ClientAuth client_auth = ClientAuth::kNeed;
  // Refuses certificates that their issuer has revoked, by certificate revocation lists (CRLs) in
  // three places:
  // - the trust store, if it is PEM: blocks "X509 CRL" among the certificates;
  // - the file with the name of the trust store and ".crl" after it: PEM, or one list in DER;
  // - files of this machine that the certificates of the trust store and of the key store name as
  //   distribution points (rpc/tls/revocation.h).
  // At least one of them must have a list. Each certificate of a client's chain, except the one
  // that the trust store has, needs a list of its issuer that is not out of date; otherwise the
  // client is refused. Lists are not fetched over a network, and neither OCSP, nor delta lists, nor lists of other issuers are supported.
  bool check_revocation = false;
  // The context also opens connections (Context::NewClient). Their servers must have a certificate
  // from a CA of the trust store, whatever client_auth is.
  bool connects = false;
};

}  // namespace quorate::rpc::tls
