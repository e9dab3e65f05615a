// SPDX-License-Identifier: Apache-2.0

// JAAS files, and rules of security.auth_to_local with a name.
#include <string>

#include "base/assert.h"
#include "rpc/sasl/jaas.h"
#include "rpc/sasl/names.h"
#include "tests/fuzz/fuzz.h"

namespace quorate::fuzz {
namespace {

void RunJaas(std::string_view text) {
  const rpc::sasl::PropertyLookup property = [](std::string_view name) {
    return name == "p" ? std::optional<std::string>("value") : std::nullopt;
  };
  const auto file = rpc::sasl::ParseJaas("jaas", text, property);
  if (!file.ok()) {
    ASSERT(file.status().message().find("jaas:") == 0);
    return;
  }
  for (const auto& [name, modules] : *file) ASSERT(!modules.empty());
}

void RunRules(Input input) {
  const std::string_view name = input.TakePiece();
  auto rules = rpc::sasl::NameRules::Parse(input.rest(), "REALM");
  if (!rules.ok()) return;
  const rpc::sasl::IdMapping ids(*std::move(rules), false, true);
  const auto id = ids.IdOf(name, "");
  if (!id.ok()) ASSERT(!rpc::sasl::ParseKerberosName(name).has_value());
}

}  // namespace

void Run(Input input) {
  if (input.Take<uint8_t>() % 2 == 0) {
    RunJaas(input.rest());
  } else {
    RunRules(input);
  }
}

}  // namespace quorate::fuzz
