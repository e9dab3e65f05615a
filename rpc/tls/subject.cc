// SPDX-License-Identifier: Apache-2.0

#include "rpc/tls/subject.h"

#include <openssl/asn1.h>
#include <openssl/objects.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

namespace quorate::rpc::tls {
namespace {

struct Keyword {
  int type;  // OpenSSL's number
  std::string_view text;
};
constexpr Keyword kKeywords[] = {
    {NID_commonName, "CN"},        {NID_countryName, "C"},
    {NID_localityName, "L"},       {NID_stateOrProvinceName, "ST"},
    {NID_organizationName, "O"},   {NID_organizationalUnitName, "OU"},
    {NID_streetAddress, "STREET"}, {NID_domainComponent, "DC"},
    {NID_userId, "UID"},
};

// Returns the keyword of a type, or an empty text if it has none.
std::string_view KeywordOf(const ASN1_OBJECT* type) {
  for (const Keyword& keyword : kKeywords) {
    if (keyword.type == OBJ_obj2nid(type)) return keyword.text;
  }
  return {};
}

bool IsText(const ASN1_STRING* value) {
  switch (ASN1_STRING_type(value)) {
    case V_ASN1_PRINTABLESTRING:
    case V_ASN1_T61STRING:
    case V_ASN1_IA5STRING:
    case V_ASN1_GENERALSTRING:
    case V_ASN1_BMPSTRING:
    case V_ASN1_UTF8STRING:
      return true;
    default:
      return false;
  }
}

std::string OidOf(const ASN1_OBJECT* type) {
  std::array<char, 80> shortest{};
  const int size = OBJ_obj2txt(shortest.data(), shortest.size(), type, 1);
  if (size < static_cast<int>(shortest.size())) return shortest.data();
  std::string text(static_cast<size_t>(size) + 1, '\0');
  OBJ_obj2txt(text.data(), static_cast<int>(text.size()), type, 1);
  text.resize(static_cast<size_t>(size));
  return text;
}

void AppendHexadecimal(const ASN1_STRING* value, std::string* out) {
  ASN1_TYPE wrapped;
  wrapped.type = ASN1_STRING_type(value);
  wrapped.value.asn1_string = const_cast<ASN1_STRING*>(value);  // it is only read
  unsigned char* der = nullptr;
  const int size = i2d_ASN1_TYPE(&wrapped, &der);
  out->push_back('#');
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (int i = 0; i < size; ++i) {
    out->push_back(kDigits[der[i] >> 4]);
    out->push_back(kDigits[der[i] & 15]);
  }
  OPENSSL_free(der);
}

// Returns the length of the longest beginning of `text` that valid UTF-8 can begin with, up to one
// character, and whether it is a whole character. REQUIRES: `text` is not empty.
std::pair<size_t, bool> FirstCharacter(std::string_view text) {
  const auto byte = [text](size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned first = byte(0);
  if (first < 0x80) return {1, true};
  if (first < 0xC2 || first > 0xF4) return {1, false};
  const size_t size = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  // The second byte has narrower limits where the character could have a shorter form, or be beyond
  // the last one.
  const unsigned second_min = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned second_max = first == 0xF4 ? 0x8F : 0xBF;
  for (size_t at = 1; at < size; ++at) {
    const unsigned min = at == 1 ? second_min : 0x80;
    const unsigned max = at == 1 ? second_max : 0xBF;
    if (at == text.size() || byte(at) < min || byte(at) > max) return {at, false};
  }
  // Half of a surrogate pair is no character; Java replaces its three bytes at once.
  const bool is_surrogate = first == 0xED && byte(1) >= 0xA0;
  return {size, !is_surrogate};
}

// Returns `text` with U+FFFD in place of bytes that are not UTF-8.
std::string ToUtf8(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const auto [size, is_valid] = FirstCharacter(text);
    result.append(is_valid ? text.substr(0, size) : "\xEF\xBF\xBD");
    text.remove_prefix(size);
  }
  return result;
}

bool IsSpace(char c) { return c == ' ' || c == '\r'; }

void AppendText(std::string_view text, std::string* out) {
  const auto first = std::find_if_not(text.begin(), text.end(), IsSpace);
  const auto last = std::find_if_not(text.rbegin(), text.rend(), IsSpace).base();
  for (auto at = text.begin(); at != text.end(); ++at) {
    const bool is_outer_space = at < first || at >= last;
    constexpr std::string_view kSpecial = ",=+<>#;\"\\";
    if (*at == '\0') {
      out->append("\\00");
      continue;
    }
    if (is_outer_space || kSpecial.find(*at) != std::string_view::npos) out->push_back('\\');
    out->push_back(*at);
  }
}

void AppendEntry(const X509_NAME_ENTRY* entry, std::string* out) {
  const ASN1_OBJECT* type = X509_NAME_ENTRY_get_object(entry);
  const ASN1_STRING* value = X509_NAME_ENTRY_get_data(entry);
  const std::string_view keyword = KeywordOf(type);
  if (keyword.empty()) {
    out->append(OidOf(type));
  } else {
    out->append(keyword);
  }
  out->push_back('=');
  if (keyword.empty() || !IsText(value)) return AppendHexadecimal(value, out);
  AppendText(ToUtf8({reinterpret_cast<const char*>(ASN1_STRING_get0_data(value)),
                     static_cast<size_t>(ASN1_STRING_length(value))}),
             out);
}

}  // namespace

std::string SubjectOf(const X509* certificate) {
  const X509_NAME* name = X509_get_subject_name(certificate);
  // The entries of an RDN follow each other and have its number.
  std::vector<std::string> parts;
  int set = -1;
  for (int i = 0; i < X509_NAME_entry_count(name); ++i) {
    const X509_NAME_ENTRY* entry = X509_NAME_get_entry(name, i);
    if (parts.empty() || X509_NAME_ENTRY_set(entry) != set) {
      parts.emplace_back();
    } else {
      parts.back().push_back('+');
    }
    set = X509_NAME_ENTRY_set(entry);
    AppendEntry(entry, &parts.back());
  }
  std::string result;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (part != parts.rbegin()) result.push_back(',');
    result.append(*part);
  }
  return result;
}

}  // namespace quorate::rpc::tls
