// SPDX-License-Identifier: Apache-2.0

#include "rpc/zookeeper/client_sasl.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "rpc/config/java_options.h"
#include "rpc/sasl/server.h"

namespace quorate::rpc::zk {
namespace {

// Returns the content of the file, of which at most one byte too many is read.
absl::StatusOr<std::string> ReadJaasFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text;
  if (file) {
    std::vector<char> bytes(sasl::kJaasBytesMax + 1);
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    text.assign(bytes.data(), static_cast<size_t>(file.gcount()));
  }
  if (!file.eof() && text.size() <= sasl::kJaasBytesMax) {
    return absl::FailedPreconditionError(
        absl::StrCat("jaasFile: ", path, " cannot be read: ", std::strerror(errno),
                     "; the user that runs the server has to be able to read it"));
  }
  return text;
}

void WarnIfReadable(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0 || (status.st_mode & S_IROTH) == 0) return;
  spdlog::warn("every user of this machine can read {}, which has passwords; chmod o-r", path);
}

}  // namespace

absl::StatusOr<std::unique_ptr<sasl::Authenticator>> MakeAuthenticator(const Config& config) {
  if (config.jaas_file.empty()) return nullptr;
  const absl::StatusOr<std::string> text = ReadJaasFile(config.jaas_file);
  if (!text.ok()) return text.status();
  sasl::Options options;
  options.file = config.jaas_file;
  options.section = config.sasl_section;
  options.super_password = config.sasl_super_password;
  options.super_users = config.sasl_super_users;
  options.removes_host = config.kerberos_removes_host;
  options.removes_realm = config.kerberos_removes_realm;
  options.auth_to_local_rules = config.auth_to_local_rules;
  options.default_realm = JavaPropertyOfEnvironment("java.security.krb5.realm").value_or("");
  std::vector<std::string> warnings;
  auto made = sasl::MakeAuthenticator(options, *text, JavaPropertyOfEnvironment, &warnings);
  if (!made.ok()) return made.status();
  for (const std::string& warning : warnings) spdlog::warn("{}", warning);
  if (*made == nullptr) {
    if (config.required_auth_schemes == std::vector<std::string>{"sasl"}) {
      return absl::InvalidArgumentError(
          absl::StrCat(config.jaas_file, ": there is no section ", config.sasl_section,
                       ", but clients have to authenticate by SASL; add it, or name another by "
                       "sasl.serverconfig"));
    }
    return nullptr;
  }
  WarnIfReadable(config.jaas_file);
  spdlog::info("clients can authenticate by SASL jaas_file={} section={}", config.jaas_file,
               config.sasl_section);
  return made;
}

}  // namespace quorate::rpc::zk
