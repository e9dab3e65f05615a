// SPDX-License-Identifier: Apache-2.0

// Whether a certificate is for a host, by the rules of HTTPS (RFC 2818, RFC 6125).
//
// Thread-safety: functions without state.
#pragma once

#include <openssl/x509.h>

#include <string>

namespace quorate::rpc::tls {

// Returns whether `host` is an IPv4 or IPv6 address, without brackets.
bool IsAddress(const std::string& host);

// Returns `host` without a dot at its end, as certificates and TLS have a name.
std::string DnsName(const std::string& host);

// Returns why `certificate` is not for `host`, with the names that it has; empty if it is for
// `host`. An address must be among its iPAddress entries (subjectAltName). A name must match one of
// its dNSName entries, in any case; "*" stands for the whole first label. Only a certificate
// without such entries may have the name as the common name (CN) of its subject, and not if its
// extendedKeyUsage lacks serverAuth: the CN of a client's certificate is the name of the client, such
// as a user, and may be any text. Nothing is looked up, neither addresses of names nor names of
// addresses.
std::string NameProblem(const X509* certificate, const std::string& host);

}  // namespace quorate::rpc::tls
