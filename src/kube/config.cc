#include "kube/config.h"

#include <deque>
#include <filesystem>

#include "base/format.h"
#include "base/strings.h"
#include "json/yaml.h"
#include "kube/files.h"
#include "kube/names.h"
#include "kube/proxy.h"

namespace cadre::kube {

namespace {

constexpr std::string_view kExecExtension = "client.authentication.k8s.io/exec";

Error invalid(std::string message) {
  return Error{.code = Code::InvalidArgument, .message = std::move(message)};
}

// A name in a sentence: bare where that reads well, else in quotes.
std::string bareName(const std::string& name) {
  std::string in_quotes = inQuotes(name);
  bool plain = in_quotes.size() == name.size() + 2 && name.find_first_of(" ,;") == name.npos;
  return plain ? name : in_quotes;
}

// The first few of a list of names, for "clusters in it: ...".
std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 10;
  if (names.empty()) return "none";
  std::string out;
  for (std::size_t i = 0; i < names.size() && i < kShown; ++i)
    out += (i ? ", " : "") + bareName(names[i]);
  if (names.size() > kShown) out += format(" and {} more", names.size() - kShown);
  return out;
}

// --- Files.

std::string resolvePath(const std::string& path, const std::string& file) {
  std::filesystem::path out(path);
  if (out.is_absolute()) return path;
  std::error_code ignored;
  auto folder = std::filesystem::absolute(file, ignored).parent_path();
  return (folder / out).lexically_normal().string();
}

// --- PEM.

bool hasCertificate(std::string_view pem) {
  std::size_t begin = pem.find("-----BEGIN CERTIFICATE-----");
  return begin != std::string_view::npos &&
         pem.find("-----END CERTIFICATE-----", begin) != std::string_view::npos;
}

// Of every certificate in it.
bool isBase64Inside(std::string_view pem) {
  constexpr std::string_view kBegin = "-----BEGIN CERTIFICATE-----";
  for (std::size_t at = pem.find(kBegin); at != std::string_view::npos; at = pem.find(kBegin, at)) {
    at += kBegin.size();
    std::string block(pem.substr(at, pem.find("-----", at) - at));
    std::erase_if(block, [](char c) { return c == '\n' || c == '\r' || c == ' ' || c == '\t'; });
    if (!base64Decode(block)) return false;
  }
  return true;
}

bool hasPrivateKey(std::string_view pem) {
  std::size_t end = pem.find("PRIVATE KEY-----");
  return end != std::string_view::npos && pem.rfind("-----BEGIN ", end) != std::string_view::npos &&
         pem.find("PRIVATE KEY-----", end + 1) != std::string_view::npos;
}

bool isEncryptedKey(std::string_view pem) {
  return pem.find("BEGIN ENCRYPTED PRIVATE KEY") != std::string_view::npos ||
         pem.find("Proc-Type: 4,ENCRYPTED") != std::string_view::npos;
}

enum class PemKind { Certificate, PrivateKey };

// What is wrong with it, as the rest of a sentence.
std::optional<std::string_view> pemProblem(std::string_view pem, PemKind kind) {
  if (kind == PemKind::Certificate) {
    if (!hasCertificate(pem)) return "no PEM certificate: it needs a BEGIN CERTIFICATE block";
    if (!isBase64Inside(pem)) return "a PEM block that cannot be decoded: copy it anew";
  } else {
    if (!hasPrivateKey(pem)) return "no PEM private key: it needs a BEGIN PRIVATE KEY block";
    if (isEncryptedKey(pem))
      return "a key with a passphrase, which cannot be asked for: remove it with openssl pkey";
  }
  return std::nullopt;
}

// A value that goes into a header must not end it.
bool hasControlCharacter(std::string_view text) {
  for (char c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return true;
  return false;
}

// Terminal escapes in a hint that is printed for the user would do as they please.
std::string withoutControls(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto byte = static_cast<unsigned char>(text[i]);
    bool c1 = byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (c1) ++i;
    if (!c1 && (byte >= 0x20 || byte == '\n' || byte == '\t') && byte != 0x7f) out += text[i];
  }
  return out;
}

// --- A kubeconfig.

struct File {
  std::string path;
  json::Document document;
};

// A map in a kubeconfig and where it stands, so that whatever is wrong in it can be told.
class Section {
 public:
  Section() = default;
  Section(const File& file, const json::Value& value, std::string pointer, std::string called)
      : file_(&file), value_(&value), pointer_(std::move(pointer)), called_(std::move(called)) {}

  const File& file() const { return *file_; }
  const json::Value& operator[](std::string_view field) const {
    return std::as_const(*value_)[field];
  }
  bool has(std::string_view field) const { return !(*this)[field].isNull(); }
  const std::string& called() const { return called_; }

  // "/home/me/.kube/config:12: cluster "dev": server is missing"
  Error bad(std::string_view field, std::string_view message,
            Code code = Code::InvalidArgument) const {
    std::string subject = field.empty() ? called_ : format("{}: {}", called_, field);
    return Error{.code = code, .message = format("{}{} {}", where(field), subject, message)};
  }
  // "/home/me/.kube/config:12: "
  std::string where(std::string_view field = {}) const {
    std::string pointer = field.empty() ? pointer_ : format("{}/{}", pointer_, field);
    return format("{}:{}: ", file_->path, file_->document.lineOf(pointer));
  }

  // The field of that type; empty when it is not there.
  Result<std::string> text(std::string_view field) const {
    const json::Value& value = (*this)[field];
    if (value.isNull() || value.isString()) return value.string();
    if (value.isBool() || value.isNumber())
      return bad(field,
                 format("must be a string, not {}: put it in quotes", article(value.typeName())));
    return wrongType(field, "a string");
  }
  Result<bool> flag(std::string_view field) const {
    const json::Value& value = (*this)[field];
    if (!value.isNull() && !value.isBool()) return wrongType(field, "true or false");
    return value.boolean();
  }
  Result<std::vector<std::string>> texts(std::string_view field) const {
    const json::Value& value = (*this)[field];
    if (!value.isNull() && !value.isArray()) return wrongType(field, "a list of strings");
    std::vector<std::string> out;
    for (const json::Value& one : value.array()) {
      if (!one.isString())
        return bad(field, format("must be a list of strings, and number {} is {}", out.size() + 1,
                                 article(one.typeName())));
      out.push_back(one.string());
    }
    return out;
  }
  // A map within this one.
  Result<Section> section(std::string_view field) const {
    const json::Value& value = (*this)[field];
    if (!value.isObject()) return wrongType(field, "a map");
    return Section(*file_, value, format("{}/{}", pointer_, field),
                   format("{}: {}", called_, field));
  }
  // A path, absolute; empty when it is not there.
  Result<std::string> path(std::string_view field) const {
    CADRE_LET(std::string path, text(field));
    if (path.empty()) return path;
    if (hasControlCharacter(path))
      return bad(field, "has a control character in it, so it is not a path");
    return resolvePath(path, file_->path);
  }
  // The contents of a file that the field names.
  Result<std::string> contents(std::string_view field, const std::string& path) const {
    std::string out;
    if (auto problem = readFile(path, out))
      return bad(field, format("names {}, which {}; {}", path, problem->predicate, problem->fix),
                 problem->code);
    return out;
  }

  Error wrongType(std::string_view field, std::string_view wanted) const {
    const json::Value& value = (*this)[field];
    if (value.isNull()) return bad(field, format("is missing: it must be {}", wanted));
    return bad(field, format("must be {}, not {}", wanted, article(value.typeName())));
  }

  static std::string article(std::string_view type) {
    if (type == "object") return "a map";
    if (type == "array") return "a list";
    if (type == "null") return "empty";
    return format("{} {}", type == "integer" ? "an" : "a", type);
  }

 private:
  const File* file_ = nullptr;
  const json::Value* value_ = nullptr;
  std::string pointer_;
  std::string called_;
};

using Sections = std::map<std::string, Section, std::less<>>;

std::vector<std::string> namesOf(const Sections& sections) {
  std::vector<std::string> out;
  for (const auto& [name, section] : sections) out.push_back(name);
  return out;
}

// Several files as one. Moved but not copied: the sections point into the files.
struct Kubeconfig {
  Kubeconfig() = default;
  Kubeconfig(Kubeconfig&&) = default;

  std::deque<File> files;  // those that exist and are not empty
  Sections clusters, users, contexts;
  std::string current_context;

  // "/home/me/.kube/config", "/a and /b"
  std::string called() const {
    std::string out;
    for (const File& file : files)
      out += (out.empty() ? "" : &file == &files.back() ? " and " : ", ") + file.path;
    return out;
  }
};

// A YAML failure without the parser's own words, which may quote a secret.
Error yamlError(const std::string& path, const Error& error) {
  std::string place = path;
  if (error.message.starts_with(path)) {
    std::size_t end = error.message.find_first_not_of(":0123456789", path.size());
    std::string_view numbers = std::string_view(error.message).substr(path.size());
    numbers = numbers.substr(0, end == std::string::npos ? end : end - path.size());
    while (numbers.ends_with(':')) numbers.remove_suffix(1);
    place += numbers;
  }
  if (error.code == Code::ResourceExhausted)
    return Error{.code = error.code,
                 .message = place +
                            ": the file is too deep or expands to too much for a kubeconfig; write "
                            "out what its aliases stand for, or fetch the file anew"};
  return invalid(place +
                 ": this is not valid YAML; check the indentation, look for a key that is there "
                 "twice, and put values with special characters in quotes");
}

// Adds the named entries of one list ("clusters", each with a "cluster") that are not there yet.
Result<> addSections(const File& file, std::string_view list, std::string_view member,
                     Sections& into) {
  const json::Value& root = file.document.value;
  const Section top(file, root, "", "the file");
  const json::Value& entries = root[list];
  if (!entries.isNull() && !entries.isArray()) return top.wrongType(list, "a list");
  Sections own;
  std::size_t index = 0;
  for (const json::Value& entry : entries.array()) {
    std::string pointer = format("/{}/{}", list, index++);
    const Section outer(file, entry, pointer, format("{} number {}", member, index));
    if (!entry.isObject())
      return outer.bad(
          "", format("must be a map with a name, not {}", Section::article(entry.typeName())));
    CADRE_LET(std::string name, outer.text("name"));
    if (name.empty()) return outer.bad("name", "is missing");
    std::string called = format("{} {}", member, inQuotes(name));
    const json::Value& value = entry[member];
    if (!value.isObject() && !value.isNull()) return outer.wrongType(member, "a map");
    if (!own.emplace(name, Section(file, value, format("{}/{}", pointer, member), called)).second)
      return outer.bad("", format("has the name {} of another; rename one", inQuotes(name)));
  }
  into.merge(own);  // what is there stays: the first file wins
  return {};
}

Result<> addFile(Kubeconfig& config, const std::string& path, const std::string& text) {
  auto documents = json::parseYaml(text, path);
  if (!documents) return yamlError(path, documents.error());
  if (documents->empty() || documents->front().value.isNull()) return {};
  const File& file = config.files.emplace_back(File{path, std::move(documents->front())});
  const json::Value& root = file.document.value;
  const Section top(file, root, "", "the file");
  if (!root.isObject())
    return top.bad("", format("is not a kubeconfig: it is {}, not a map with clusters, users "
                              "and contexts",
                              Section::article(root.typeName())));
  CADRE_LET(std::string kind, top.text("kind"));
  CADRE_LET(std::string api_version, top.text("apiVersion"));
  if (!kind.empty() && kind != "Config")
    return top.bad(
        "kind", format("is {}, so this is not a kubeconfig, whose kind is Config", inQuotes(kind)));
  if (!api_version.empty() && api_version != "v1")
    return top.bad("apiVersion", format("is {}, but a kubeconfig has v1", inQuotes(api_version)));
  CADRE_TRY(addSections(file, "clusters", "cluster", config.clusters));
  CADRE_TRY(addSections(file, "users", "user", config.users));
  CADRE_TRY(addSections(file, "contexts", "context", config.contexts));
  CADRE_LET(std::string current, top.text("current-context"));
  if (config.current_context.empty()) config.current_context = std::move(current);
  return {};
}

struct Source {
  std::vector<std::string> paths;
  bool skip_missing = false;
  std::string named_by;  // "--kubeconfig"
};

Result<Kubeconfig> readKubeconfig(const Source& source) {
  Kubeconfig config;
  std::vector<std::string> missing, empty;
  for (const std::string& path : source.paths) {
    if (path.find('\0') != std::string::npos)
      return invalid(source.named_by + " has a NUL character in it, so it is no path");
    std::string text;
    if (auto problem = readFile(path, text)) {
      if (problem->code == Code::NotFound && source.skip_missing) {
        missing.push_back(path);
        continue;
      }
      return Error{.code = problem->code,
                   .message = format("{}: the file, named by {}, {}; {}", path, source.named_by,
                                     problem->predicate, problem->fix)};
    }
    std::size_t before = config.files.size();
    CADRE_TRY(addFile(config, path, text));
    if (config.files.size() == before) empty.push_back(path);
  }
  if (!config.files.empty()) return config;
  if (!empty.empty())
    return invalid(
        format("{}: the file, named by {}, is empty; write a kubeconfig to it, or name another one",
               empty.front(), source.named_by));
  return Error{.code = Code::NotFound,
               .message = format("{}: the file, named by {}, does not exist; check the path",
                                 join(missing, ", "), source.named_by)};
}

// --- From a kubeconfig to a Config.

// "server: host:6443" without a scheme means http to kubectl, and so it does here.
Result<net::Url> readServer(const Section& cluster) {
  CADRE_LET(std::string text, cluster.text("server"));
  if (text.empty()) return cluster.bad("server", "is missing: write it as https://host:6443");
  if (text.find('@') != std::string::npos)
    return cluster.bad("server",
                       "has a login in it; put username and password into the user instead");
  bool has_scheme = text.find("://") != std::string::npos;
  auto url = net::Url::parse(has_scheme ? text : "http://" + text);
  if (!url || (url->scheme != "https" && url->scheme != "http"))
    return cluster.bad("server", format("is {}, which is no address of a server: write it as "
                                        "https://host:6443",
                                        inQuotes(text)));
  url->target = std::string(cut(url->target, "?").first);
  while (url->target.ends_with('/')) url->target.pop_back();
  if (!has_scheme && !url->target.empty())
    return cluster.bad("server", format("is {}; with a path it needs its scheme, as in "
                                        "https://host:6443/path",
                                        inQuotes(text)));
  return *url;
}

Result<std::optional<net::Url>> readProxy(const Section& cluster) {
  CADRE_LET(std::string text, cluster.text("proxy-url"));
  if (text.empty()) return std::optional<net::Url>();
  auto url = net::Url::parse(text);  // its message is not shown: the URL may hold a password
  if (!url) return cluster.bad("proxy-url", "is no URL: write it as http://proxy:3128");
  if (url->scheme != "http" && url->scheme != "https" && url->scheme != "socks5")
    return cluster.bad("proxy-url", format("has the scheme {}, but it must be http, https or "
                                           "socks5",
                                           inQuotes(url->scheme)));
  std::string_view authority = std::string_view(text).substr(text.find("://") + 3);
  authority = authority.substr(0, authority.find('/'));
  if (url->scheme == "socks5" && url->port == 80 && !authority.ends_with(":80")) url->port = 1080;
  return std::optional<net::Url>(*url);
}

struct Pem {
  std::string text;
  std::string file;  // empty when it was inline
};

// What the field FIELD-data holds, or else the file that the field names.
Result<Pem> readPem(const Section& section, std::string_view field, PemKind kind) {
  std::string data_field = format("{}-data", field);
  CADRE_LET(std::string data, section.text(data_field));
  CADRE_LET(std::string path, section.path(field));
  if (!data.empty()) {
    auto decoded = base64Decode(data);
    if (!decoded)
      return section.bad(data_field,
                         format("is not base64: encode the PEM file with base64 -w0, or name "
                                "it in {}",
                                field));
    if (auto problem = pemProblem(*decoded, kind))
      return section.bad(data_field, format("holds {}", *problem));
    return Pem{std::move(*decoded), ""};
  }
  if (path.empty()) return Pem{};
  CADRE_LET(std::string text, section.contents(field, path));
  if (auto problem = pemProblem(text, kind))
    return section.bad(field, format("names {}, which holds {}", path, *problem));
  return Pem{std::move(text), std::move(path)};
}

Result<> readServerTls(const Section& cluster, Config& config) {
  CADRE_LET(bool insecure, cluster.flag("insecure-skip-tls-verify"));
  CADRE_LET(config.tls.server_name, cluster.text("tls-server-name"));
  CADRE_LET(Pem ca, readPem(cluster, "certificate-authority", PemKind::Certificate));
  if (insecure && !ca.text.empty())
    return cluster.bad("insecure-skip-tls-verify",
                       "is set beside a certificate-authority, which it would pass over; remove "
                       "one of the two");
  config.tls.verify = !insecure;
  config.tls.ca = std::move(ca.text);
  config.ca_file = std::move(ca.file);
  return {};
}

Result<> readClientCertificate(const Section& user, Config& config) {
  CADRE_LET(Pem certificate, readPem(user, "client-certificate", PemKind::Certificate));
  if (certificate.text.empty()) return {};  // a key alone is passed over, as kubectl does
  CADRE_LET(Pem key, readPem(user, "client-key", PemKind::PrivateKey));
  if (key.text.empty())
    return user.bad("client-certificate",
                    "is set without its key; add client-key or client-key-data");
  config.tls.certificate = std::move(certificate.text);
  config.certificate_file = std::move(certificate.file);
  config.tls.key = std::move(key.text);
  config.key_file = std::move(key.file);
  return {};
}

Result<> readToken(const Section& user, Config& config) {
  CADRE_LET(std::string token, user.text("token"));
  CADRE_LET(config.token_file, user.path("tokenFile"));
  config.token = trim(token);
  std::string_view from = "token";
  if (!config.token_file.empty()) {
    auto contents = user.contents("tokenFile", config.token_file);
    bool usable = contents.ok() && !trim(*contents).empty();
    if (usable) {
      config.token = trim(*contents);
      from = "tokenFile";
    } else if (config.token.empty()) {  // else the token stands in until the file can be read
      if (!contents) return std::move(contents).error();
      return user.bad("tokenFile",
                      format("names {}, which is empty; write the token to it", config.token_file));
    }
  }
  if (hasControlCharacter(config.token))
    return user.bad(from, "has a line break or a control character within it; it must be one word");
  return {};
}

Result<ExecPlugin> readExec(const Section& user, const Section& cluster) {
  CADRE_LET(Section exec, user.section("exec"));
  ExecPlugin plugin;
  CADRE_LET(plugin.command, exec.text("command"));
  if (plugin.command.empty())
    return exec.bad("command", "is missing: name the program that gives the credentials");
  if (plugin.command.find('/') != std::string::npos)
    plugin.command = resolvePath(plugin.command, exec.file().path);
  CADRE_LET(plugin.args, exec.texts("args"));
  CADRE_LET(plugin.api_version, exec.text("apiVersion"));
  constexpr std::string_view kGroup = "client.authentication.k8s.io/";
  bool v1 = plugin.api_version == "client.authentication.k8s.io/v1";
  if (!v1 && plugin.api_version != "client.authentication.k8s.io/v1beta1")
    return exec.bad("apiVersion",
                    format("is {}, but it must be {}v1 or {}v1beta1; update the plugin and "
                           "write this entry anew",
                           plugin.api_version.empty() ? "missing" : inQuotes(plugin.api_version),
                           kGroup, kGroup));
  CADRE_LET(std::string mode, exec.text("interactiveMode"));
  using Mode = ExecPlugin::InteractiveMode;
  if (mode == "Never")
    plugin.interactive_mode = Mode::Never;
  else if (mode == "Always")
    plugin.interactive_mode = Mode::Always;
  else if (mode == "IfAvailable" || (mode.empty() && !v1))
    plugin.interactive_mode = Mode::IfAvailable;
  else
    return exec.bad("interactiveMode", format("is {}, but it must be Never, IfAvailable or "
                                              "Always",
                                              mode.empty() ? "missing" : inQuotes(mode)));
  CADRE_LET(std::string hint, exec.text("installHint"));
  plugin.install_hint = withoutControls(hint);
  CADRE_LET(plugin.provide_cluster_info, exec.flag("provideClusterInfo"));

  const json::Value& env = exec["env"];
  if (!env.isNull() && !env.isArray()) return exec.wrongType("env", "a list of names and values");
  for (const json::Value& variable : env.array()) {
    const std::string& name = variable["name"].string();
    const json::Value& value = variable["value"];
    if (name.empty() || name.find_first_of(std::string_view("=\0", 2)) != std::string::npos)
      return exec.bad("env", "has an entry without a usable name; each needs a name and a value");
    if (!value.isNull() && !value.isString())
      return exec.bad("env", format("has {} with {} as its value: put it in quotes", inQuotes(name),
                                    Section::article(value.typeName())));
    plugin.env[name] = value.string();
  }
  for (const json::Value& extension : cluster["extensions"].array())
    if (extension["name"].string() == kExecExtension)
      plugin.cluster_extension = extension["extension"];
  return plugin;
}

Result<> refuseAuthProvider(const Section& user) {
  if (!user.has("auth-provider")) return {};
  const std::string& name = user["auth-provider"]["name"].string();
  std::string_view instead = name == "gcp"     ? "gke-gcloud-auth-plugin"
                             : name == "azure" ? "kubelogin"
                             : name == "oidc"  ? "kubectl oidc-login"
                                               : "the plugin of your provider";
  return user.bad("auth-provider",
                  format("{} is a login that Kubernetes no longer has; use an exec plugin "
                         "instead, here {}",
                         inQuotes(name), instead));
}

Result<Impersonation> readImpersonation(const Section& user) {
  Impersonation out;
  CADRE_LET(out.user, user.text("as"));
  CADRE_LET(out.uid, user.text("as-uid"));
  CADRE_LET(out.groups, user.texts("as-groups"));
  if (user.has("as-user-extra")) {
    CADRE_LET(Section extra, user.section("as-user-extra"));
    for (const auto& [key, values] : user["as-user-extra"].object()) {
      if (hasControlCharacter(key))
        return user.bad("as-user-extra", "has a control character in a key");
      CADRE_LET(auto texts, extra.texts(key));
      out.extra.emplace(key, std::move(texts));
    }
  }
  if (out.user.empty() && (!out.uid.empty() || !out.groups.empty() || !out.extra.empty()))
    return user.bad("as", "is missing beside as-uid, as-groups or as-user-extra; name the user");
  bool broken = hasControlCharacter(out.user) || hasControlCharacter(out.uid);
  for (const std::string& group : out.groups) broken = broken || hasControlCharacter(group);
  for (const auto& [key, values] : out.extra)
    for (const std::string& value : values) broken = broken || hasControlCharacter(value);
  if (broken) return user.bad("as", "or what goes with it has a control character in it");
  return out;
}

Result<> readCredentials(const Section& user, const Section& cluster, Config& config) {
  CADRE_TRY(refuseAuthProvider(user));
  CADRE_TRY(readClientCertificate(user, config));
  CADRE_TRY(readToken(user, config));
  CADRE_LET(config.username, user.text("username"));
  CADRE_LET(config.password, user.text("password"));
  bool basic = !config.username.empty() || !config.password.empty();
  if (basic && !config.token.empty())
    return user.bad("token", "is set beside username and password; keep one of the two");
  if (user.has("exec")) {
    CADRE_LET(config.exec, readExec(user, cluster));
  }
  return {};
}

// The section that a context names; an error that lists those that there are.
Result<Section> follow(const Section& context, std::string_view field, const Sections& sections) {
  CADRE_LET(std::string name, context.text(field));
  if (auto found = sections.find(name); found != sections.end()) return found->second;
  if (name.empty())
    return context.bad(field,
                       format("is missing: name one of these: {}", listed(namesOf(sections))));
  return invalid(format("{}{} names the {} {}, which is not there; {}s in it: {}",
                        context.where(field), context.called(), field, inQuotes(name), field,
                        listed(namesOf(sections))));
}

Result<Section> chooseContext(const Kubeconfig& kubeconfig, const std::string& name,
                              std::string_view called) {
  if (auto found = kubeconfig.contexts.find(name); found != kubeconfig.contexts.end())
    return found->second;
  std::string contexts = listed(namesOf(kubeconfig.contexts));
  if (name.empty())
    return invalid(
        format("{}: no current-context is set; give --context, or set it with "
               "kubectl config use-context; contexts in it: {}",
               kubeconfig.called(), contexts));
  return invalid(format("{}: the {} {} is not there; contexts in it: {}", kubeconfig.called(),
                        called, inQuotes(name), contexts));
}

Result<std::string> chooseNamespace(const ConfigOptions& options, std::string_view configured,
                                    std::string_view where) {
  if (!options.ns.empty()) {
    if (auto problem = checkDnsLabel(options.ns)) return invalid("the namespace " + *problem);
    return options.ns;
  }
  if (configured.empty()) return "default";
  if (auto problem = checkDnsLabel(configured))
    return invalid(format("{}the namespace {}", where, *problem));
  return std::string(configured);
}

Result<Config> fromKubeconfig(const Source& source, const ConfigOptions& options) {
  CADRE_LET(Kubeconfig kubeconfig, readKubeconfig(source));
  bool asked = !options.context.empty();
  const std::string& name = asked ? options.context : kubeconfig.current_context;
  CADRE_LET(Section context,
            chooseContext(kubeconfig, name, asked ? "context" : "current-context"));
  Config config;
  config.source = format("context {} in {}", bareName(name), context.file().path);
  CADRE_LET(Section cluster, follow(context, "cluster", kubeconfig.clusters));
  CADRE_LET(std::string ns, context.text("namespace"));
  CADRE_LET(config.default_namespace, chooseNamespace(options, ns, context.where("namespace")));
  CADRE_LET(config.server, readServer(cluster));
  CADRE_LET(config.proxy, readProxy(cluster));
  CADRE_LET(std::string user_name, context.text("user"));
  std::optional<Section> user;
  if (!user_name.empty()) {
    CADRE_LET(user, follow(context, "user", kubeconfig.users));
    CADRE_LET(config.impersonate, readImpersonation(*user));
  }
  if (config.server.scheme != "https") return config;
  CADRE_TRY(readServerTls(cluster, config));
  if (user) CADRE_TRY(readCredentials(*user, cluster, config));
  return config;
}

// --- From inside a pod.

Result<Config> fromPod(std::string_view host, std::string_view port, const ConfigOptions& options) {
  constexpr std::string_view kElse = "or give --kubeconfig";
  Config config;
  config.source = "in-cluster";
  config.in_cluster = true;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  bool v6 = host.find(':') != std::string_view::npos;
  auto url = net::Url::parse(format("https://{}{}{}:{}", v6 ? "[" : "", host, v6 ? "]" : "", port));
  if (!url || url->host != host || !url->target.empty())
    return invalid(
        format("KUBERNETES_SERVICE_HOST {} and KUBERNETES_SERVICE_PORT {} are no "
               "address; correct them, {}",
               inQuotes(host), inQuotes(port), kElse));
  config.server = *url;

  config.token_file = options.service_account_directory + "/token";
  config.ca_file = options.service_account_directory + "/ca.crt";
  auto failed = [&](const std::string& path, const FileProblem& problem) {
    return Error{.code = problem.code,
                 .message = format("{}: the file {}; this looks like a pod, so let it mount "
                                   "its service account (automountServiceAccountToken), {}",
                                   path, problem.predicate, kElse)};
  };
  std::string token, ns;
  if (auto problem = readFile(config.token_file, token)) return failed(config.token_file, *problem);
  config.token = trim(token);
  if (config.token.empty() || hasControlCharacter(config.token))
    return failed(config.token_file, {Code::InvalidArgument, "holds no token", ""});
  if (auto problem = readFile(config.ca_file, config.tls.ca))
    return failed(config.ca_file, *problem);
  if (!hasCertificate(config.tls.ca))
    return failed(config.ca_file, {Code::InvalidArgument, "holds no PEM certificate", ""});
  std::string ns_file = options.service_account_directory + "/namespace";
  if (readFile(ns_file, ns)) ns.clear();  // not every pod has one
  CADRE_LET(config.default_namespace, chooseNamespace(options, trim(ns), ns_file + ": "));
  return config;
}

Result<Config> findConfig(const ConfigOptions& options) {
  auto env = [&](const char* name) -> std::string {
    auto found = options.env.find(name);
    return found == options.env.end() ? std::string() : found->second;
  };
  if (!options.kubeconfig.empty())
    return fromKubeconfig({{options.kubeconfig}, false, "--kubeconfig"}, options);

  Source listed_files{{}, true, "KUBECONFIG"};
  std::string list = env("KUBECONFIG");
  for (std::string_view path : split(list, ':'))
    if (!path.empty()) listed_files.paths.emplace_back(path);
  if (!listed_files.paths.empty()) return fromKubeconfig(listed_files, options);

  std::string host = env("KUBERNETES_SERVICE_HOST"), port = env("KUBERNETES_SERVICE_PORT");
  if (!host.empty() && !port.empty() && options.context.empty())
    return fromPod(host, port, options);

  if (std::string home = env("HOME"); !home.empty()) {
    std::string path = home + "/.kube/config";
    std::error_code error;
    if (std::filesystem::status(path, error).type() != std::filesystem::file_type::not_found)
      return fromKubeconfig({{path}, false, "default"}, options);
  }
  return Error{.code = Code::NotFound,
               .message = options.context.empty()
                              ? "no cluster is configured: give --kubeconfig, set KUBECONFIG, or "
                                "put a file at ~/.kube/config"
                              : format("the context {} is asked for, but there is no "
                                       "kubeconfig: give --kubeconfig, set KUBECONFIG, or put "
                                       "a file at ~/.kube/config",
                                       inQuotes(options.context))};
}

}  // namespace

Result<Config> loadConfig(const ConfigOptions& options) {
  CADRE_LET(Config config, findConfig(options));
  if (config.proxy) return config;
  CADRE_LET(auto proxy, proxyFromEnvironment(config.server, options.env));
  if (proxy) {
    config.proxy = std::move(proxy->url);
    config.proxy_variable = std::move(proxy->variable);
  }
  return config;
}

}  // namespace cadre::kube
