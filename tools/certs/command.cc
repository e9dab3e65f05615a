// SPDX-License-Identifier: Apache-2.0

#include "tools/certs/command.h"

#include <openssl/rand.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "rpc/tls/stores.h"
#include "tools/certs/certificate_facts.h"
#include "tools/certs/directory.h"
#include "tools/certs/issuing.h"
#include "tools/certs/show.h"

namespace quorate::tools {
namespace {

using certs::Identity;

constexpr int kDaysMax = 36'500;
constexpr size_t kPasswordRandomBytes = 24;
// keytool refuses shorter passwords.
constexpr size_t kPasswordBytesMin = 6;

struct Options {
  std::string directory;
  std::vector<std::string> wanted;  // lists of hosts, or names of clients
  int days = 365;
  int authority_days = 3650;
  bool pkcs12 = false;
  std::string password_file;
};

// A certificate to make, and where.
struct Wanted {
  std::string name;                // of its files, without the ending
  std::vector<std::string> hosts;  // of a member; empty: it is for a client
  std::string client;              // of a client
};

struct Made {
  std::string path;
  certs::CertificateFacts facts;
};

// What a run has made, in the order in which it was made.
struct Result {
  std::string directory;
  std::optional<Made> authority;
  std::vector<Made> certificates;
  std::vector<std::string> stores;  // PKCS12
  std::string password_file;        // of these; empty: there are none
  std::string password;
};

// Returns the name of the files for a host, without characters that mean something to a shell or
// in a path.
std::string FileNameOf(const std::string& host) {
  return absl::StrReplaceAll(host, {{":", "-"}, {"*", "any"}});
}

std::string PathOf(const Options& options, const std::string& name) {
  return absl::StrCat(options.directory, "/", name);
}

// FailedPrecondition if a file is there already, or if two certificates would have the same file.
absl::Status CheckNames(const Options& options, const std::vector<Wanted>& wanted) {
  std::set<std::string> names;
  for (const Wanted& each : wanted) {
    if (!names.insert(each.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("two certificates would be in ", PathOf(options, each.name), ".pem"));
    }
    for (const char* ending : {".pem", ".p12"}) {
      const std::string path = PathOf(options, each.name + ending);
      if (!certs::IsThere(path)) continue;
      return absl::FailedPreconditionError(
          absl::StrCat(path,
                       " is there already, and keys are not replaced; to renew it, move the "
                       "file away first"));
    }
  }
  return absl::OkStatus();
}

absl::Status MakeAuthority(const Options& options, Identity* authority, Result* result) {
  auto read = certs::ReadAuthority(options.directory);
  if (read.ok()) {
    *authority = *std::move(read);
    return absl::OkStatus();
  }
  if (!absl::IsNotFound(read.status())) return read.status();
  auto made = certs::MakeAuthority(options.authority_days);
  if (!made.ok()) return made.status();
  *authority = *std::move(made);
  auto key = certs::KeyPem(authority->key.get());
  if (!key.ok()) return key.status();
  auto certificate = certs::CertificatePem(authority->certificate.get());
  if (!certificate.ok()) return certificate.status();
  const std::string path = PathOf(options, "ca.pem");
  const std::string key_path = PathOf(options, "ca.key");
  if (absl::Status s = certs::WriteNewFile(key_path, *key); !s.ok()) return s;
  if (absl::Status s = certs::WriteNewFile(path, *certificate); !s.ok()) {
    unlink(key_path.c_str());  // a key without its certificate would be in the way of another try
    return s;
  }
  result->authority = Made{path, certs::FactsOf(authority->certificate.get())};
  return absl::OkStatus();
}

// Sets the password of PKCS12 stores: that of --password-file, or of the file in the directory, which is
// made if it is missing.
absl::Status ReadStorePassword(const Options& options, Result* result) {
  std::string path = options.password_file;
  if (path.empty()) {
    path = PathOf(options, "password");
    if (!certs::IsThere(path)) {
      std::array<unsigned char, kPasswordRandomBytes> random{};
      if (RAND_bytes(random.data(), random.size()) != 1) {
        return absl::InternalError("OpenSSL cannot make random bytes for a password");
      }
      const std::string text =
          absl::WebSafeBase64Escape({reinterpret_cast<const char*>(random.data()), random.size()});
      if (absl::Status s = certs::WriteNewFile(path, text + "\n"); !s.ok()) return s;
    }
  }
  rpc::tls::StoreOptions store;
  store.location = path;
  store.password_file = path;
  auto password = rpc::tls::PasswordOf(store);
  if (!password.ok()) return password.status();
  if (password->size() < kPasswordBytesMin) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": the password is shorter than ", kPasswordBytesMin, " bytes, and Java refuses it"));
  }
  result->password_file = path;
  result->password = *std::move(password);
  return absl::OkStatus();
}

absl::Status MakePkcs12(const Options& options, const Wanted& wanted, const Identity& identity,
                        const Identity& authority, Result* result) {
  const std::string& password = result->password;
  const std::string trust_path = PathOf(options, "ca.p12");
  if (!certs::IsThere(trust_path)) {
    auto trust = certs::TrustStorePkcs12(authority.certificate.get(), password);
    if (!trust.ok()) return trust.status();
    if (absl::Status s = certs::WriteNewFile(trust_path, *trust); !s.ok()) return s;
    result->stores.push_back(trust_path);
  }
  auto store = certs::KeyStorePkcs12(identity, authority.certificate.get(), password);
  if (!store.ok()) return store.status();
  const std::string path = PathOf(options, wanted.name + ".p12");
  if (absl::Status s = certs::WriteNewFile(path, *store); !s.ok()) return s;
  result->stores.push_back(path);
  return absl::OkStatus();
}

absl::Status MakeOne(const Options& options, const Wanted& wanted, const Identity& authority,
                     Result* result) {
  auto made = wanted.hosts.empty() ? certs::MakeClient(authority, wanted.client, options.days)
                                   : certs::MakeMember(authority, wanted.hosts, options.days);
  if (!made.ok()) return made.status();
  auto key = certs::KeyPem(made->key.get());
  if (!key.ok()) return key.status();
  auto certificate = certs::CertificatePem(made->certificate.get());
  if (!certificate.ok()) return certificate.status();
  const std::string path = PathOf(options, wanted.name + ".pem");
  absl::Status s = certs::WriteNewFile(path, absl::StrCat(*key, *certificate));
  if (!s.ok()) return s;
  result->certificates.push_back({path, certs::FactsOf(made->certificate.get())});
  if (!options.pkcs12) return absl::OkStatus();
  return MakePkcs12(options, wanted, *made, authority, result);
}

// The lines of a member's configuration for the key store at `path`.
std::vector<std::string> ConfigurationLines(const Result& result, const std::string& path) {
  const std::string authority = result.directory + "/ca.pem";
  return {"# Clients of ZooKeeper's protocol; without clientPort, all of them need TLS.",
          "secureClientPort=2182",
          "ssl.keyStore.location=" + path,
          "ssl.trustStore.location=" + authority,
          "client.certReload=true",
          "# Connections between members.",
          "sslQuorum=true",
          "ssl.quorum.keyStore.location=" + path,
          "ssl.quorum.trustStore.location=" + authority,
          "sslQuorumReloadCertFiles=true",
          "# The gRPC port, if there is one: with the stores for clients.",
          "grpcTls=true"};
}

std::string Describe(const Made& made) {
  return absl::StrCat(made.path, "  ", made.facts.subject, made.facts.names.empty() ? "" : "  ",
                      absl::StrJoin(made.facts.names, ", "), "  until ",
                      certs::TimeText(made.facts.ends_s));
}

nlohmann::ordered_json ToJson(const Made& made) {
  return {{"file", made.path},
          {"subject", made.facts.subject},
          {"names", made.facts.names},
          {"not_after", certs::TimeText(made.facts.ends_s)},
          {"fingerprint_sha256", made.facts.fingerprint}};
}

void PrintJson(const Result& result, bool is_for_members) {
  nlohmann::ordered_json document = {{"directory", result.directory}};
  if (result.authority.has_value()) document["ca"] = ToJson(*result.authority);
  for (const Made& made : result.certificates) {
    nlohmann::ordered_json each = ToJson(made);
    if (is_for_members) each["configuration"] = ConfigurationLines(result, made.path);
    document["certificates"].push_back(std::move(each));
  }
  if (!result.stores.empty()) {
    document["pkcs12"] = result.stores;
    document["password_file"] = result.password_file;
  }
  const auto replace = nlohmann::ordered_json::error_handler_t::replace;
  std::printf("%s\n", document.dump(2, ' ', false, replace).c_str());
}

void PrintMade(const Result& result) {
  if (result.authority.has_value()) {
    std::printf("%s\n", Describe(*result.authority).c_str());
    std::printf("%s/ca.key  signs further certificates; keep it, and copy it to no server\n",
                result.directory.c_str());
  }
  for (const Made& made : result.certificates) std::printf("%s\n", Describe(made).c_str());
  for (const std::string& store : result.stores) std::printf("%s\n", store.c_str());
  if (!result.stores.empty()) {
    std::printf("%s  has the password of the PKCS12 stores\n", result.password_file.c_str());
  }
}

void PrintForMembers(const Result& result) {
  const std::string& path = result.certificates.front().path;
  std::printf(
      "\nCopy ca.pem and the member's own file to each member, readable by its user alone. Its\n"
      "zoo.cfg gets these lines, with the paths there (%s):\n\n",
      result.certificates.front().facts.subject.c_str());
  for (const std::string& line : ConfigurationLines(result, path)) {
    std::printf("    %s\n", line.c_str());
  }
  std::printf(
      "\nThe hosts in its server.N lines must be among the names of the certificates. A client "
      "needs\nca.pem and a certificate of its own:\n\n    quorate certs client %s NAME\n",
      result.directory.c_str());
}

void PrintForClients(const Result& result) {
  const Made& first = result.certificates.front();
  const std::string authority = result.directory + "/ca.pem";
  std::printf(
      "\nIn access control lists, and in administrator.subjects of a zoo.cfg, this client is "
      "%s:\n\n"
      "    setAcl /app x509:%s:cdrwa\n\n"
      "It connects with its file, which has the key and the certificate:\n\n"
      "    quorate status --server HOST:GRPC_PORT --tls --ca %s --cert %s --key %s\n"
      "    KazooClient(\"HOST:2182\", use_ssl=True, ca=\"%s\", certfile=\"%s\", keyfile=\"%s\")\n",
      first.facts.subject.c_str(), first.facts.subject.c_str(), authority.c_str(),
      first.path.c_str(), first.path.c_str(), authority.c_str(), first.path.c_str(),
      first.path.c_str());
  if (result.stores.empty()) {
    std::printf("\nFor Java, --p12 adds the same as PKCS12.\n");
    return;
  }
  std::printf(
      "\nJava clients (zkCli.sh, Curator) have these properties:\n\n"
      "    -Dzookeeper.client.secure=true\n"
      "    -Dzookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty\n"
      "    -Dzookeeper.ssl.keyStore.location=%s\n"
      "    -Dzookeeper.ssl.keyStore.passwordPath=%s\n"
      "    -Dzookeeper.ssl.trustStore.location=%s/ca.p12\n"
      "    -Dzookeeper.ssl.trustStore.passwordPath=%s\n",
      result.stores.back().c_str(), result.password_file.c_str(), result.directory.c_str(),
      result.password_file.c_str());
}

absl::Status Run(Options options, const std::vector<Wanted>& wanted, bool makes_authority,
                 bool json) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(options.directory, error);
  if (!error) options.directory = absolute.lexically_normal().string();
  if (options.directory.size() > 1 && options.directory.back() == '/') options.directory.pop_back();
  Result result;
  result.directory = options.directory;
  Identity authority;
  if (makes_authority) {
    if (absl::Status s = certs::MakeDirectory(options.directory); !s.ok()) return s;
  } else if (absl::Status s = certs::CheckDirectory(options.directory);
             !s.ok() && !absl::IsNotFound(s)) {  // ReadAuthority tells what is missing
    return s;
  }
  if (absl::Status s = CheckNames(options, wanted); !s.ok()) return s;
  if (makes_authority) {
    // Before any key is made, since a password that does not fit ends the command.
    if (options.pkcs12) {
      if (absl::Status s = ReadStorePassword(options, &result); !s.ok()) return s;
    }
    if (absl::Status s = MakeAuthority(options, &authority, &result); !s.ok()) return s;
  } else {
    auto read = certs::ReadAuthority(options.directory);
    if (!read.ok()) return read.status();
    authority = *std::move(read);
    for (const Wanted& each : wanted) {
      absl::Status s = certs::CheckNoMember(options.directory, each.client);
      if (!s.ok()) return s;
    }
    if (options.pkcs12) {
      if (absl::Status s = ReadStorePassword(options, &result); !s.ok()) return s;
    }
  }
  for (const Wanted& each : wanted) {
    if (absl::Status s = MakeOne(options, each, authority, &result); !s.ok()) return s;
  }
  if (json) {
    PrintJson(result, makes_authority);
    return absl::OkStatus();
  }
  PrintMade(result);
  makes_authority ? PrintForMembers(result) : PrintForClients(result);
  return absl::OkStatus();
}

absl::Status RunCreate(const Options& options, bool json) {
  std::vector<Wanted> wanted;
  for (const std::string& list : options.wanted) {
    Wanted each;
    each.hosts = absl::StrSplit(list, ',');
    each.name = FileNameOf(each.hosts.front());
    if (each.name == "ca") {
      return absl::InvalidArgumentError(
          "ca.pem and ca.p12 are the files of the CA; name another host of the member first");
    }
    wanted.push_back(std::move(each));
  }
  return Run(options, wanted, true, json);
}

absl::Status RunClient(const Options& options, bool json) {
  std::vector<Wanted> wanted;
  for (const std::string& name : options.wanted) wanted.push_back({"client-" + name, {}, name});
  return Run(options, wanted, false, json);
}

std::string ProblemOf(const absl::Status& status) { return std::string(status.message()); }

void AddCommonOptions(CLI::App* command, Options* options) {
  command->add_option("directory", options->directory, "Directory with the files of the CA")
      ->required();
  command->add_option("--days", options->days, "Days until a new certificate ends")
      ->check(CLI::Range(1, kDaysMax))
      ->capture_default_str();
  command->add_flag("--p12", options->pkcs12, "Also make PKCS12 stores, for Java");
  command->add_option(
      "--password-file", options->password_file,
      "File with the password of the PKCS12 stores (default: a new\none in DIRECTORY/password)");
}

void AddCreateCommand(CommandLine* command_line, CLI::App* group) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      command_line->Add(group, "create", "Make a CA, and a key and certificate for each member",
                        [=] { return RunCreate(*options, command_line->global().json); });
  AddCommonOptions(command, options.get());
  command
      ->add_option("HOST", options->wanted,
                   "A member: its host name or IP address, and behind commas\n"
                   "further ones by which it is reached")
      ->required()
      ->check([](const std::string& list) {
        for (const absl::string_view host : absl::StrSplit(list, ',')) {
          absl::Status s = certs::CheckHost(std::string(host));
          if (!s.ok()) return ProblemOf(s);
        }
        return std::string();
      });
  command
      ->add_option("--ca-days", options->authority_days,
                   "Days until the certificate of a new CA ends")
      ->check(CLI::Range(1, kDaysMax))
      ->capture_default_str();
  command->footer(
      "A directory that has a CA keeps it, so that members can be added. Files are 0600, a new\n"
      "directory is 0700, and no file is ever replaced.\n\n"
      "Examples:\n"
      "  quorate certs create certs localhost,127.0.0.1\n"
      "  quorate certs create certs zk1.example.com,10.0.0.1 zk2.example.com,10.0.0.2");
}

void AddClientCommand(CommandLine* command_line, CLI::App* group) {
  auto options = std::make_shared<Options>();
  CLI::App* command = command_line->Add(
      group, "client", "Make keys and certificates for clients, by the CA of a directory",
      [=] { return RunClient(*options, command_line->global().json); });
  AddCommonOptions(command, options.get());
  command->add_option("NAME", options->wanted, "A client; its subject is CN=NAME")
      ->required()
      ->check([](const std::string& name) { return ProblemOf(certs::CheckClientName(name)); });
  command->footer("Example:\n  quorate certs client certs admin");
}

}  // namespace

void AddCertsCommands(CommandLine* command_line) {
  CLI::App* group = command_line->AddGroup("certs", "Make and show certificates for TLS");
  AddCreateCommand(command_line, group);
  AddClientCommand(command_line, group);
  AddShowCommand(command_line, group);
}

}  // namespace quorate::tools
