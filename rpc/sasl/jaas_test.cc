// SPDX-License-Identifier: Apache-2.0

#include "rpc/sasl/jaas.h"

#include <catch2/catch.hpp>
#include <string>

namespace quorate::rpc::sasl {
namespace {

std::optional<std::string> NoProperty(std::string_view) { return std::nullopt; }

JaasFile Parsed(const std::string& text, const PropertyLookup& property = NoProperty) {
  const absl::StatusOr<JaasFile> file = ParseJaas("jaas.conf", text, property);
  INFO(file.status().message());
  REQUIRE(file.ok());
  return *file;
}

std::string Problem(const std::string& text) {
  const absl::StatusOr<JaasFile> file = ParseJaas("jaas.conf", text, NoProperty);
  CHECK_FALSE(file.ok());
  return std::string(file.status().message());
}

TEST_CASE("the sections of a JAAS file have modules with options") {
  const JaasFile file = Parsed(
      "// users\n# of this cluster\n/* and\n more */ Server {\n"
      "  org.apache.zookeeper.server.auth.DigestLoginModule required\n"
      "  user_super=\"admin secret\" user_bob=bob-secret_1.x$*;\n};\n"
      "\"Other name\"{ a.B OPTIONAL; a.C sufficient k='v' ; } ;");
  REQUIRE(file.size() == 2);
  const std::vector<LoginModule>& server = file.find("Server")->second;
  REQUIRE(server.size() == 1);
  CHECK(server[0].java_class == "org.apache.zookeeper.server.auth.DigestLoginModule");
  CHECK(server[0].options.find("user_super")->second == "admin secret");
  CHECK(server[0].options.find("user_bob")->second == "bob-secret_1.x$*");
  const std::vector<LoginModule>& other = file.find("Other name")->second;
  REQUIRE(other.size() == 2);
  CHECK(other[0].options.empty());
  CHECK(other[1].options.find("k")->second == "v");
  CHECK(Parsed("").empty());
  CHECK(Parsed(" \n// only a comment").empty());
}

TEST_CASE("values in quotes have Java's escapes and properties") {
  const auto value = [](const std::string& text) {
    const PropertyLookup property = [](std::string_view name) -> std::optional<std::string> {
      if (name == "dir") return "/etc/${dir}";
      return std::nullopt;
    };
    return Parsed("S { m required k=" + text + "; };", property)
        .find("S")
        ->second[0]
        .options.find("k")
        ->second;
  };
  CHECK(value(R"("a\"b\\c\td")") == "a\"b\\c\td");
  CHECK(value(R"("\101\60x\477")") == "A0x'7");
  CHECK(value("\"gr\xC3\xBC\xC3\x9F\"") == "gr\xC3\xBC\xC3\x9F");
  CHECK(value("\"${dir}${/}zk.keytab\"") == "/etc/${dir}/zk.keytab");
  CHECK(value("\"\"").empty());
  CHECK(value("\"a // b # c\"") == "a // b # c");
}

TEST_CASE("a JAAS file that is not valid is refused with its line, and without what is in quotes") {
  CHECK(Problem("S {\n m required\n user_a=\"secret\"\n}") ==
        "jaas.conf:4: here is \"}\", where an option, or a ; after the last one, has to be; a "
        "section "
        "is NAME { CLASS required KEY=\"VALUE\"; };");
  CHECK(Problem("S { m required user_a=\"x\"; }").find("here is the end of the file") !=
        std::string::npos);
  CHECK(Problem("S { m always; };").find("required, requisite, sufficient or optional") !=
        std::string::npos);
  CHECK(Problem("S { m required k=\"secret\" \"secret\"; };").find("secret") == std::string::npos);
  CHECK(Problem("S { m required k=\"one\"secret\"; };").find("secret") == std::string::npos);
  CHECK(Problem("S { m required k=\"one\" two secret; };").find("secret") == std::string::npos);
  CHECK(Problem("S { m required k=\"one\" = secret; };").find("secret") == std::string::npos);
  CHECK(Problem("S { m secret; };").find("secret") == std::string::npos);
  CHECK(Problem("S { m required k=/etc/keytab; };").find("write values in quotes") !=
        std::string::npos);
  CHECK(Problem("S { m required k=\"no end;\n };").find("jaas.conf:1: a text in quotes") == 0);
  CHECK(
      Problem("S {\n m required k=\"${no.such}\"; };").find("jaas.conf:2: the property no.such") ==
      0);
  CHECK(Problem("S { m required k=\"${open\"; };").find("has no }") != std::string::npos);
  CHECK(Problem("S { m required; }; S { m required; };").find("two sections") != std::string::npos);
  CHECK(Problem("S { };").find("has no module") != std::string::npos);
  CHECK(Problem("/* \n").find("has no */") != std::string::npos);
  CHECK(Problem("S").find("a {") != std::string::npos);
  CHECK(Problem("= { m required; };").find("the name of a section") != std::string::npos);
  CHECK(Problem(std::string(kJaasBytesMax + 1, ' ')).find("larger than") != std::string::npos);
}

TEST_CASE("a value cannot grow without bound by its properties") {
  const PropertyLookup property = [](std::string_view) -> std::optional<std::string> {
    return std::string(1000, 'x');
  };
  std::string value;
  for (int i = 0; i < 100; ++i) value += "${x}";
  CHECK_FALSE(ParseJaas("f", "S { m required k=\"" + value + "\"; };", property).ok());
}

}  // namespace
}  // namespace quorate::rpc::sasl
