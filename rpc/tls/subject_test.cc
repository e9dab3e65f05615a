// SPDX-License-Identifier: Apache-2.0

#include "rpc/tls/subject.h"

#include <catch2/catch.hpp>
#include <string>
#include <string_view>

#include "rpc/tls/openssl.h"

namespace quorate::rpc::tls {
namespace {

using std::string_literals::operator""s;

class Subject {
 public:
  // `set`: 0 for an RDN of its own, -1 for the RDN of the entry before.
  Subject& Add(const char* type, std::string_view value, int value_type = V_ASN1_UTF8STRING,
               int set = 0) {
    ASN1_OBJECT* object = OBJ_txt2obj(type, 0);
    X509_NAME_ENTRY* entry = X509_NAME_ENTRY_create_by_OBJ(
        nullptr, object, value_type, reinterpret_cast<const unsigned char*>(value.data()),
        static_cast<int>(value.size()));
    REQUIRE(X509_NAME_add_entry(X509_get_subject_name(certificate_.get()), entry, -1, set) == 1);
    X509_NAME_ENTRY_free(entry);
    ASN1_OBJECT_free(object);
    return *this;
  }
  std::string Text() const { return SubjectOf(certificate_.get()); }

 private:
  const CertificatePtr certificate_{X509_new()};
};

TEST_CASE("a subject has its parts in reverse order") {
  CHECK(Subject().Text().empty());
  CHECK(Subject().Add("C", "US").Add("O", "Example").Add("OU", "dev").Add("CN", "app").Text() ==
        "CN=app,OU=dev,O=Example,C=US");
}

TEST_CASE("nine types have keywords") {
  CHECK(Subject()
            .Add("CN", "a")
            .Add("C", "bb")
            .Add("L", "c")
            .Add("ST", "d")
            .Add("O", "e")
            .Add("OU", "f")
            .Add("2.5.4.9", "g")
            .Add("DC", "h", V_ASN1_IA5STRING)
            .Add("UID", "i")
            .Text() == "UID=i,DC=h,STREET=g,OU=f,O=e,ST=d,L=c,C=bb,CN=a");
}

TEST_CASE("other types are their number and the encoding of the value") {
  CHECK(Subject().Add("emailAddress", "a@b.example", V_ASN1_IA5STRING).Text() ==
        "1.2.840.113549.1.9.1=#160b6140622e6578616d706c65");
  CHECK(Subject().Add("serialNumber", "17", V_ASN1_PRINTABLESTRING).Text() == "2.5.4.5=#13023137");
  CHECK(Subject().Add("SN", "x").Text() == "2.5.4.4=#0c0178");
}

TEST_CASE("values of other string types are their encoding") {
  CHECK(Subject().Add("CN", "\0\0\0a"s, V_ASN1_UNIVERSALSTRING).Text() == "CN=#1c0400000061");
  CHECK(Subject().Add("CN", "12", V_ASN1_NUMERICSTRING).Text() == "CN=#12023132");
}

TEST_CASE("the content of each text type is taken as UTF-8") {
  CHECK(Subject().Add("CN", "\0a"s, V_ASN1_BMPSTRING).Text() == "CN=\\00a");
  CHECK(Subject().Add("CN", "\xE9t\xE9", V_ASN1_T61STRING).Text() ==
        "CN=\xEF\xBF\xBDt\xEF\xBF\xBD");
}

TEST_CASE("the entries of an RDN are joined by + in their order") {
  CHECK(Subject()
            .Add("C", "US")
            .Add("CN", "app")
            .Add("UID", "7", V_ASN1_UTF8STRING, -1)
            .Add("OU", "x")
            .Text() == "OU=x,CN=app+UID=7,C=US");
}

TEST_CASE("special characters are escaped anywhere in a value") {
  CHECK(Subject().Add("CN", R"(a,b=c+d<e>f#g;h"i\j)").Text() ==
        R"(CN=a\,b\=c\+d\<e\>f\#g\;h\"i\\j)");
  CHECK(Subject().Add("CN", "#a").Text() == "CN=\\#a");
  CHECK(Subject().Add("CN", "a\0b"s).Text() == "CN=a\\00b");
  CHECK(Subject().Add("CN", "a\nb").Text() == "CN=a\nb");
}

TEST_CASE("leading and trailing spaces are escaped one by one, inner ones are kept") {
  CHECK(Subject().Add("CN", "  a  b\r ").Text() == "CN=\\ \\ a  b\\\r\\ ");
  CHECK(Subject().Add("CN", "  ").Text() == "CN=\\ \\ ");
  CHECK(Subject().Add("CN", "a b").Text() == "CN=a b");
}

TEST_CASE("letters beyond ASCII are kept, and what is not UTF-8 is replaced") {
  CHECK(Subject().Add("CN", "J\u00FCrgen \u4E2D \U0001F600").Text() ==
        "CN=J\u00FCrgen \u4E2D \U0001F600");
  const std::string replaced = "\xEF\xBF\xBD";
  // Cut short, an over-long form, a surrogate, beyond the last character.
  CHECK(Subject().Add("CN", "\xE4\xB8").Text() == "CN=" + replaced);
  CHECK(Subject().Add("CN", "\xC0\x80").Text() == "CN=" + replaced + replaced);
  CHECK(Subject().Add("CN", "\xED\xA0\x80").Text() == "CN=" + replaced);
  CHECK(Subject().Add("CN", "\xF4\x90x").Text() == "CN=" + replaced + replaced + "x");
}

}  // namespace
}  // namespace quorate::rpc::tls
