// SPDX-License-Identifier: Apache-2.0

// The name of a certificate's owner as access control lists have it.
//
// Thread-safety: functions without state.
#pragma once

#include <openssl/x509.h>

#include <string>

namespace quorate::rpc::tls {

// Returns the subject of `certificate` as Java's X500Principal.getName() does, which is the id of
// ZooKeeper's scheme x509, such as "CN=app,OU=dev,O=Example,C=US". It is RFC 2253 with these rules:
// - The parts (RDNs) come in the reverse order of the certificate.
// - Only CN, C, L, ST, O, OU, STREET, DC and UID have keywords. Any other type is its dotted OID,
//   and its value "#" and the DER encoding in hexadecimal digits; so is a value of a string type
//   other than PrintableString, T61String, IA5String, GeneralString, BMPString and UTF8String.
// - A backslash stands before , = + < > # ; " \ and before each leading or trailing space or
//   carriage return; a NUL is \00. Other characters are copied; bytes that are not UTF-8 become U+FFFD.
std::string SubjectOf(const X509* certificate);

}  // namespace quorate::rpc::tls
