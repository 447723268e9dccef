#include "kube/config.h"

#include <filesystem>
#include <fstream>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/strings.h"

namespace cadre::kube {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string kCa = "-----BEGIN CERTIFICATE-----\nY2E=\n-----END CERTIFICATE-----\n";
const std::string kCert = "-----BEGIN CERTIFICATE-----\nY2VydA==\n-----END CERTIFICATE-----\n";
const std::string kKey = "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n";

// A folder of its own with kubeconfigs in it.
class ConfigTest : public testing::Test {
 protected:
  ConfigTest() {
    std::string name = (std::filesystem::temp_directory_path() / "cadre-config-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~ConfigTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string write(const std::string& name, std::string_view text) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }
  Result<Config> load(std::string_view text) const {
    return loadConfig({.kubeconfig = write("config", text)});
  }
  // One cluster, one user, one context, with these fields.
  Result<Config> loadWith(std::string_view cluster, std::string_view user,
                          std::string_view context = "") const {
    return load(text(cluster, user, context));
  }
  static std::string text(std::string_view cluster, std::string_view user,
                          std::string_view context = "") {
    return "apiVersion: v1\nkind: Config\ncurrent-context: dev\n"
           "contexts:\n- name: dev\n  context: {cluster: c, user: u" +
           std::string(context) + "}\nclusters:\n- name: c\n  cluster: {" + std::string(cluster) +
           "}\nusers:\n- name: u\n  user: {" + std::string(user) + "}\n";
  }
  static std::string data(std::string_view bytes) { return base64Encode(bytes); }

  std::string folder_;
};

constexpr std::string_view kServer = "server: 'https://h:6443'";

std::string cluster(std::string_view more) {
  return std::string(kServer) + ", " + std::string(more);
}

TEST_F(ConfigTest, ReadsAWholeKubeconfig) {
  write("pki/ca.crt", kCa);
  write("token", "from-file\n");
  std::string file = write("config",
                           "apiVersion: v1\nkind: Config\ncurrent-context: kind-dev\n"
                           "preferences: {}\n"
                           "contexts:\n"
                           "- name: kind-dev\n"
                           "  context: {cluster: kind, user: me, namespace: shop}\n"
                           "clusters:\n"
                           "- name: kind\n"
                           "  cluster:\n"
                           "    server: https://127.0.0.1:6443/prefix/?x=1\n"
                           "    certificate-authority: pki/ca.crt\n"
                           "    tls-server-name: kubernetes\n"
                           "    proxy-url: http://me:pw@proxy:3128\n"
                           "users:\n"
                           "- name: me\n"
                           "  user:\n"
                           "    client-certificate-data: " +
                               data(kCert) + "\n    client-key-data: " + data(kKey) +
                               "\n    token: inline\n"
                               "    tokenFile: token\n"
                               "    as: boss\n"
                               "    as-uid: '7'\n"
                               "    as-groups: [a, b]\n"
                               "    as-user-extra: {scopes: [x, z]}\n");
  auto config = loadConfig({.kubeconfig = file});
  ASSERT_TRUE(config.ok()) << config.error().text();
  EXPECT_EQ(config->source, "context kind-dev in " + file);
  EXPECT_EQ(config->server.origin(), "https://127.0.0.1:6443");
  EXPECT_EQ(config->server.target, "/prefix");
  EXPECT_EQ(config->tls.ca, kCa);
  EXPECT_EQ(config->ca_file, path("pki/ca.crt"));
  EXPECT_EQ(config->tls.server_name, "kubernetes");
  EXPECT_TRUE(config->tls.verify);
  EXPECT_EQ(config->tls.certificate, kCert);
  EXPECT_EQ(config->tls.key, kKey);
  EXPECT_EQ(config->certificate_file, "");
  EXPECT_EQ(config->key_file, "");
  EXPECT_EQ(config->token, "from-file");
  EXPECT_EQ(config->token_file, path("token"));
  ASSERT_TRUE(config->proxy);
  EXPECT_EQ(config->proxy->origin(), "http://proxy:3128");
  EXPECT_EQ(config->proxy->user_info, "me:pw");
  EXPECT_EQ(config->impersonate.user, "boss");
  EXPECT_EQ(config->impersonate.uid, "7");
  EXPECT_THAT(config->impersonate.groups, testing::ElementsAre("a", "b"));
  EXPECT_THAT(config->impersonate.extra.at("scopes"), testing::ElementsAre("x", "z"));
  EXPECT_EQ(config->default_namespace, "shop");
  EXPECT_FALSE(config->exec);
}

TEST_F(ConfigTest, ReadsJsonToo) {
  auto config = load(R"({"current-context":"a","contexts":[{"name":"a","context":{"cluster":"c"}}],
      "clusters":[{"name":"c","cluster":{"server":"https://[::1]:6443"}}]})");
  ASSERT_TRUE(config.ok()) << config.error().text();
  EXPECT_EQ(config->server.host, "::1");
  EXPECT_EQ(config->default_namespace, "default");
  EXPECT_EQ(config->token, "");
}

TEST_F(ConfigTest, Servers) {
  struct Case {
    const char *server, *origin, *target;
  };
  for (const Case& c :
       {Case{"https://h", "https://h:443", ""}, Case{"https://h/", "https://h:443", ""},
        Case{"https://h:1/a/b/", "https://h:1", "/a/b"}, Case{"http://h:8080", "http://h:8080", ""},
        Case{"h:8080", "http://h:8080", ""}, Case{"10.0.0.1", "http://10.0.0.1:80", ""},
        Case{"HTTPS://h", "https://h:443", ""}}) {
    auto config = loadWith("server: '" + std::string(c.server) + "'", "");
    ASSERT_TRUE(config.ok()) << config.error().text();
    EXPECT_EQ(config->server.origin(), c.origin);
    EXPECT_EQ(config->server.target, c.target);
  }
}

TEST_F(ConfigTest, NoCredentialsWithoutTls) {
  auto config = loadWith("server: 'http://h:8080', certificate-authority: none",
                         "token: hunter2, tokenFile: none, as: boss");
  ASSERT_TRUE(config.ok()) << config.error().text();
  EXPECT_EQ(config->token, "");
  EXPECT_EQ(config->token_file, "");
  EXPECT_EQ(config->impersonate.user, "boss");
}

TEST_F(ConfigTest, Credentials) {
  auto basic = loadWith(kServer, "username: me, password: pw");
  ASSERT_TRUE(basic.ok());
  EXPECT_EQ(basic->username + ":" + basic->password, "me:pw");

  auto token = loadWith(kServer, "token: \" t \\n\"");
  ASSERT_TRUE(token.ok());
  EXPECT_EQ(token->token, "t");

  // The token stands in for a file that is not there yet.
  auto both = loadWith(kServer, "token: t, tokenFile: later");
  ASSERT_TRUE(both.ok());
  EXPECT_EQ(both->token, "t");
  EXPECT_EQ(both->token_file, path("later"));

  write("c.crt", kCert);
  write("c.key", kKey);
  auto files = loadWith(kServer, "client-certificate: c.crt, client-key: " + path("c.key"));
  ASSERT_TRUE(files.ok()) << files.error().text();
  EXPECT_EQ(files->certificate_file, path("c.crt"));
  EXPECT_EQ(files->key_file, path("c.key"));
  EXPECT_EQ(files->tls.certificate, kCert);

  auto data_wins =
      loadWith(cluster("certificate-authority: none, certificate-authority-data: " + data(kCa)),
               "client-key: c.key");
  ASSERT_TRUE(data_wins.ok()) << data_wins.error().text();
  EXPECT_EQ(data_wins->tls.ca, kCa);
  EXPECT_EQ(data_wins->ca_file, "");
  EXPECT_EQ(data_wins->tls.key, "");  // of no use without its certificate

  auto insecure = loadWith(cluster("insecure-skip-tls-verify: true"), "");
  ASSERT_TRUE(insecure.ok());
  EXPECT_FALSE(insecure->tls.verify);
}

TEST_F(ConfigTest, Proxies) {
  struct Case {
    const char *url, *origin;
  };
  for (const Case& c :
       {Case{"https://p", "https://p:443"}, Case{"socks5://p", "socks5://p:1080"},
        Case{"socks5://p:80", "socks5://p:80"}, Case{"socks5://[::1]:9", "socks5://[::1]:9"}}) {
    auto config = loadWith(cluster("proxy-url: '" + std::string(c.url) + "'"), "");
    ASSERT_TRUE(config.ok()) << config.error().text();
    EXPECT_EQ(config->proxy->origin(), c.origin);
  }
}

// As Go's net/http has it (golang.org/x/net/http/httpproxy), so as kubectl does.
TEST_F(ConfigTest, ProxiesFromTheEnvironment) {
  auto proxyOf = [&](const std::string& server, std::map<std::string, std::string> env) {
    auto config = loadConfig(
        {.kubeconfig = write("config", text("server: '" + server + "'", "")), .env = env});
    if (!config) return config.error().message;
    return config->proxy ? config->proxy_variable + " " + config->proxy->origin() : "none";
  };
  EXPECT_EQ(proxyOf("https://h", {}), "none");
  EXPECT_EQ(proxyOf("https://h", {{"HTTPS_PROXY", "http://p:1"}}), "HTTPS_PROXY http://p:1");
  EXPECT_EQ(proxyOf("https://h", {{"https_proxy", "p:1"}}), "https_proxy http://p:1");
  EXPECT_EQ(proxyOf("https://h", {{"HTTPS_PROXY", "http://p:1"}, {"https_proxy", "http://q:1"}}),
            "HTTPS_PROXY http://p:1");
  EXPECT_EQ(proxyOf("https://h", {{"HTTPS_PROXY", ""}, {"https_proxy", "p"}}),
            "https_proxy http://p:80");
  EXPECT_EQ(proxyOf("https://h", {{"HTTP_PROXY", "p:1"}}), "none");
  EXPECT_EQ(proxyOf("http://h", {{"HTTP_PROXY", "p:1"}}), "HTTP_PROXY http://p:1");
  EXPECT_EQ(proxyOf("http://h", {{"http_proxy", "p:1"}, {"HTTPS_PROXY", "q:1"}}),
            "http_proxy http://p:1");
  EXPECT_EQ(proxyOf("http://h", {{"ALL_PROXY", "p:1"}}), "none");

  struct Case {
    const char *server, *no_proxy;
    bool proxied;
  };
  for (const Case& c : {
           Case{"https://localhost", "", false},
           Case{"https://LOCALHOST", "", false},
           Case{"https://127.1.2.3", "", false},
           Case{"https://[::1]:6443", "", false},
           Case{"https://[::ffff:127.0.0.1]", "", false},
           Case{"https://localhost.example", "", true},
           Case{"https://api.example", "", true},
           Case{"https://api.example", "*", false},
           Case{"https://10.0.0.1", "*", false},
           Case{"https://api.example", " other , * ", false},
           Case{"https://api.example", "api.example", false},
           Case{"https://API.example", "api.EXAMPLE", false},
           Case{"https://api.example", "example", false},
           Case{"https://api.example", ".example", false},
           Case{"https://api.example", "*.example", false},
           Case{"https://example", ".example", true},
           Case{"https://example", "*.example", true},
           Case{"https://myexample", "example", true},
           Case{"https://api.example", ",,api", true},
           Case{"https://api.example", "*example", true},
           Case{"https://api.example:6443", "api.example:6443", false},
           Case{"https://api.example:6443", "example:6443", false},
           Case{"https://api.example:6443", "api.example:443", true},
           Case{"https://api.example", "api.example:443", false},
           Case{"https://api.example", ":443", true},
           Case{"https://10.1.2.3", "10.1.2.3", false},
           Case{"https://10.1.2.3", "10.1.2.3:443", false},
           Case{"https://10.1.2.3", "10.1.2.3:80", true},
           Case{"https://10.1.2.3", "::ffff:10.1.2.3", false},
           Case{"https://10.1.2.3", "10.1.2.4", true},
           Case{"https://10.1.2.3", "10.0.0.0/8", false},
           Case{"https://10.1.2.3", "10.1.2.2/31", false},
           Case{"https://10.1.2.4", "10.1.2.2/31", true},
           Case{"https://10.1.2.3", "0.0.0.0/0", false},
           Case{"https://10.1.2.3", "::/0", true},
           Case{"https://10.1.2.3", "10.0.0.0/33", true},
           Case{"https://10.1.2.3", "10.0.0.0/x", true},
           Case{"https://api.example", "10.0.0.0/8", true},
           Case{"https://[fd00::1]", "fd00::/8", false},
           Case{"https://[fd00::1]", "fd00::1", false},
           Case{"https://[fd00::1]:6443", "[fd00::1]:6443", false},
           Case{"https://[fd00::1]:6443", "[fd00::1]:443", true},
           Case{"https://[fe00::1]", "fd00::/8", true},
       }) {
    EXPECT_EQ(proxyOf(c.server, {{"HTTPS_PROXY", "p:1"}, {"NO_PROXY", c.no_proxy}}),
              c.proxied ? "HTTPS_PROXY http://p:1" : "none")
        << c.server << " with NO_PROXY=" << c.no_proxy;
  }
  EXPECT_EQ(proxyOf("https://h", {{"HTTPS_PROXY", "p:1"}, {"no_proxy", "h"}}), "none");

  for (const char* scheme : {"https", "socks5", "socks5h"})
    EXPECT_EQ(proxyOf("https://h", {{"https_proxy", std::string(scheme) + "://me:hunter2@p:1"}}),
              "https_proxy names a proxy with the scheme " + std::string(scheme) +
                  ", and only http:// ones are spoken to; write it as http://proxy:3128, unset "
                  "it, or add h to NO_PROXY");
  EXPECT_EQ(proxyOf("https://h", {{"HTTPS_PROXY", "http://me:hunter2@ p"}}),
            "HTTPS_PROXY is no URL; write it as http://proxy:3128, unset it, or add h to NO_PROXY");
  EXPECT_EQ(proxyOf("https://h", {{"HTTPS_PROXY", "socks5://p"}, {"NO_PROXY", "h"}}), "none");

  // What the kubeconfig says comes first, and NO_PROXY is not about it.
  for (const char* other : {"socks5://p", "http://p:1"})
    for (const char* no_proxy : {"", "*"}) {
      auto config =
          loadConfig({.kubeconfig = write("config", text(cluster("proxy-url: 'http://own:1'"), "")),
                      .env = {{"HTTPS_PROXY", other}, {"NO_PROXY", no_proxy}}});
      ASSERT_TRUE(config) << config.error().text();
      EXPECT_EQ(config->proxy->origin(), "http://own:1");
      EXPECT_EQ(config->proxy_variable, "");
    }
}

TEST_F(ConfigTest, ExecPlugins) {
  auto config =
      loadWith(cluster("extensions: [{name: other, extension: 1}, "
                       "{name: client.authentication.k8s.io/exec, extension: {audience: x}}]"),
               "exec: {apiVersion: client.authentication.k8s.io/v1, command: ./bin/login, "
               "args: [a, b c], env: [{name: A, value: '1'}, {name: B}], interactiveMode: Never, "
               "provideClusterInfo: true, installHint: \"get \\e[31mit\\n\"}");
  ASSERT_TRUE(config.ok()) << config.error().text();
  ASSERT_TRUE(config->exec);
  EXPECT_EQ(config->exec->command, path("bin/login"));
  EXPECT_THAT(config->exec->args, testing::ElementsAre("a", "b c"));
  EXPECT_EQ(config->exec->env, (std::map<std::string, std::string>{{"A", "1"}, {"B", ""}}));
  EXPECT_EQ(config->exec->interactive_mode, ExecPlugin::InteractiveMode::Never);
  EXPECT_TRUE(config->exec->provide_cluster_info);
  EXPECT_EQ(config->exec->install_hint, "get [31mit\n");
  EXPECT_EQ(config->exec->cluster_extension, json::Value(json::Object{{"audience", "x"}}));

  auto beta = loadWith(
      kServer,
      "exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: aws, args: null}");
  ASSERT_TRUE(beta.ok()) << beta.error().text();
  EXPECT_EQ(beta->exec->command, "aws");
  EXPECT_EQ(beta->exec->interactive_mode, ExecPlugin::InteractiveMode::IfAvailable);
}

TEST_F(ConfigTest, FilesOfAListAreMerged) {
  write("a/token", "token-a");
  std::string a = write("a/config",
                        "clusters:\n- {name: c, cluster: {server: 'https://from-a'}}\n"
                        "users:\n- {name: u, user: {tokenFile: token}}\n");
  std::string b =
      write("b/config",
            "current-context: two\n"
            "clusters:\n- {name: c, cluster: {server: 'https://from-b', insecure-skip-tls-verify: "
            "true}}\n"
            "- {name: d, cluster: {server: 'https://d'}}\n"
            "users:\n- {name: u, user: {token: b}}\n"
            "contexts:\n- {name: two, context: {cluster: c, user: u, namespace: from-b}}\n");
  std::string c = write("c/config",
                        "current-context: three\n"
                        "contexts:\n- {name: two, context: {cluster: d}}\n"
                        "- {name: three, context: {cluster: d}}\n");
  std::string empty = write("empty", "# nothing yet\n");
  std::string list = ":" + path("missing") + ":" + a + ":" + empty + ":" + b + ":" + c;
  auto config = loadConfig({.env = {{"KUBECONFIG", list}}});
  ASSERT_TRUE(config.ok()) << config.error().text();
  EXPECT_EQ(config->source, "context two in " + b);
  EXPECT_EQ(config->server.host, "from-a");
  EXPECT_TRUE(config->tls.verify);  // an entry is taken whole
  EXPECT_EQ(config->token, "token-a");
  EXPECT_EQ(config->token_file, path("a/token"));
  EXPECT_EQ(config->default_namespace, "from-b");

  auto other = loadConfig({.context = "three", .ns = "mine", .env = {{"KUBECONFIG", list}}});
  ASSERT_TRUE(other.ok()) << other.error().text();
  EXPECT_EQ(other->server.host, "d");
  EXPECT_EQ(other->default_namespace, "mine");
}

TEST_F(ConfigTest, Precedence) {
  auto named = [&](const std::string& name) {
    return write(name,
                 "current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\n"
                 "clusters: [{name: c, cluster: {server: 'https://" +
                     std::string(cut(name, "/").first) + "'}}]\n");
  };
  std::string flag = named("flag/f"), listed = named("list/f");
  named("home/.kube/config");
  write("pod/token", "pod-token");
  write("pod/ca.crt", kCa);
  ConfigOptions options{.kubeconfig = flag,
                        .env = {{"KUBECONFIG", listed},
                                {"HOME", path("home")},
                                {"KUBERNETES_SERVICE_HOST", "pod"},
                                {"KUBERNETES_SERVICE_PORT", "443"}},
                        .service_account_directory = path("pod")};
  EXPECT_EQ(loadConfig(options)->server.host, "flag");
  options.kubeconfig = "";
  EXPECT_EQ(loadConfig(options)->server.host, "list");
  options.env["KUBECONFIG"] = ":";
  EXPECT_EQ(loadConfig(options)->server.host, "pod");
  options.context = "x";  // which a pod does not have
  EXPECT_EQ(loadConfig(options)->server.host, "home");
  options.context = "";
  options.env.erase("KUBERNETES_SERVICE_PORT");
  EXPECT_EQ(loadConfig(options)->server.host, "home");
  options.env.erase("HOME");
  auto nothing = loadConfig(options);
  ASSERT_FALSE(nothing.ok());
  EXPECT_EQ(nothing.error().code, Code::NotFound);
  EXPECT_EQ(nothing.error().message,
            "no cluster is configured: give --kubeconfig, set KUBECONFIG, or put a file at "
            "~/.kube/config");
  options.context = "x";
  EXPECT_THAT(loadConfig(options).error().message, HasSubstr("context \"x\" is asked for"));
}

TEST_F(ConfigTest, InsideAPod) {
  ConfigOptions options{
      .env = {{"KUBERNETES_SERVICE_HOST", "fd00::1"}, {"KUBERNETES_SERVICE_PORT", "6443"}},
      .service_account_directory = folder_};
  auto missing = loadConfig(options);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, Code::NotFound);
  EXPECT_THAT(missing.error().message,
              testing::AllOf(HasSubstr(path("token") + ": the file does not exist"),
                             HasSubstr("automountServiceAccountToken")));
  write("token", "hunter2\n");
  EXPECT_THAT(loadConfig(options).error().message, HasSubstr(path("ca.crt")));
  write("ca.crt", "hunter2");
  EXPECT_THAT(loadConfig(options).error().message,
              testing::AllOf(HasSubstr("no PEM certificate"), Not(HasSubstr("hunter2"))));
  write("ca.crt", kCa);
  auto config = loadConfig(options);
  ASSERT_TRUE(config.ok()) << config.error().text();
  EXPECT_EQ(config->server.origin(), "https://[fd00::1]:6443");
  EXPECT_EQ(config->token, "hunter2");
  EXPECT_EQ(config->token_file, path("token"));
  EXPECT_EQ(config->tls.ca, kCa);
  EXPECT_EQ(config->ca_file, path("ca.crt"));
  EXPECT_EQ(config->default_namespace, "default");
  EXPECT_EQ(config->source, "in-cluster");
  EXPECT_TRUE(config->in_cluster);
  write("namespace", "shop\n");
  EXPECT_EQ(loadConfig(options)->default_namespace, "shop");
  EXPECT_FALSE(config->proxy);
  options.env["HTTPS_PROXY"] = "p:1";
  EXPECT_EQ(loadConfig(options)->proxy->origin(), "http://p:1");
  options.ns = "mine";
  EXPECT_EQ(loadConfig(options)->default_namespace, "mine");
  write("token", " \n");
  EXPECT_THAT(loadConfig(options).error().message, HasSubstr("holds no token"));
  write("token", "a\nb");
  EXPECT_THAT(loadConfig(options).error().message, HasSubstr("holds no token"));
  write("token", "t");
  for (auto [host, port] :
       {std::pair{"a b", "1"}, {"h", "x"}, {"h", "0"}, {"h/x", "1"}, {"u@h", "1"}, {"h", "1/x"}}) {
    options.env = {{"KUBERNETES_SERVICE_HOST", host}, {"KUBERNETES_SERVICE_PORT", port}};
    EXPECT_THAT(loadConfig(options).error().message, HasSubstr("are no address")) << host;
  }
}

// What every message about a kubeconfig must be: one line that starts with the file.
void expectSentence(const std::string& message, const std::string& file) {
  EXPECT_TRUE(message.starts_with(file + ":")) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_EQ(message.find("hunter2"), std::string::npos) << message;
  EXPECT_LT(message.size(), 700u) << message;
}

TEST_F(ConfigTest, WhatIsWrongInACluster) {
  write("broken", "-----BEGIN CERTIFICATE-----\nhunter2!\n-----END CERTIFICATE-----\n");
  write("garbage", "hunter2");
  std::filesystem::create_directory(path("folder"));
  struct Case {
    std::string cluster, says;
  };
  for (const Case& c : {
           Case{"", ":9: cluster \"c\": server is missing: write it as https://host:6443"},
           Case{"server: 5", "server must be a string, not an integer: put it in quotes"},
           Case{"server: {}", "server must be a string, not a map"},
           Case{"server: 'ftp://h'", "server is \"ftp://h\", which is no address of a server"},
           Case{"server: 'https://'", "no address"},
           Case{"server: 'https://h:99999'", "no address"},
           Case{"server: 'h/path'", "with a path it needs its scheme"},
           Case{"server: 'https://me:hunter2@h'", "has a login in it"},
           Case{cluster("proxy-url: 'http://me:hunter2@ p'"), "proxy-url is no URL"},
           Case{cluster("proxy-url: 'ftp://me:hunter2@p'"), "proxy-url has the scheme \"ftp\""},
           Case{cluster("proxy-url: []"), "proxy-url must be a string, not a list"},
           Case{cluster("tls-server-name: true"), "tls-server-name must be a string, not a bool"},
           Case{cluster("insecure-skip-tls-verify: 'yes'"),
                "insecure-skip-tls-verify must be true or false, not a string"},
           Case{cluster("insecure-skip-tls-verify: true, certificate-authority-data: " + data(kCa)),
                "remove one of the two"},
           Case{cluster("certificate-authority: none.crt"),
                "certificate-authority names " + path("none.crt") + ", which does not exist"},
           Case{cluster("certificate-authority: folder"), "which is a directory"},
           Case{cluster("certificate-authority: garbage"), "which holds no PEM certificate"},
           Case{cluster("certificate-authority: broken"),
                "certificate-authority names " + path("broken") +
                    ", which holds a PEM block that cannot be decoded"},
           Case{cluster("certificate-authority: \"a\\0b\""), "it is not a path"},
           Case{cluster("certificate-authority: \"a\\nb\""), "it is not a path"},
           Case{cluster("certificate-authority-data: '-hunter2-'"), "is not base64"},
           Case{cluster("certificate-authority-data: " + data("hunter2")), "holds no PEM"},
           Case{cluster("certificate-authority-data: {a: b}"), "must be a string, not a map"},
       }) {
    auto config = loadWith(c.cluster, "");
    ASSERT_FALSE(config.ok()) << c.cluster;
    EXPECT_THAT(config.error().message, HasSubstr(c.says));
    expectSentence(config.error().message, path("config"));
  }
}

TEST_F(ConfigTest, AnAliasBombIsRefusedWithItsPlace) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 10; ++i) {
    std::string before = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before;
    for (int j = 1; j < 10; ++j) bomb += ", " + before;
    bomb += "]\n";
  }
  auto config = load(bomb);
  ASSERT_FALSE(config);
  EXPECT_THAT(config.error().message, HasSubstr("write out what its aliases stand for"));
  expectSentence(config.error().message, path("config"));
}

TEST_F(ConfigTest, WhatIsWrongInAUser) {
  write("garbage", "hunter2");
  write("blank", " \n");
  write("lines", "hunter2\nhunter2");
  const std::string exec = "exec: {command: x, apiVersion: client.authentication.k8s.io/v1, ";
  const std::string encrypted =
      "-----BEGIN ENCRYPTED PRIVATE KEY-----\nhunter2\n-----END ENCRYPTED PRIVATE KEY-----\n";
  struct Case {
    std::string user, says;
  };
  for (const Case& c : {
           Case{"token: 12345", ":12: user \"u\": token must be a string, not an integer"},
           Case{"token: [hunter2]", "token must be a string, not a list"},
           Case{"token: \"hunter2\\nhunter2\"", "token has a line break"},
           Case{"tokenFile: lines", "tokenFile has a line break"},
           Case{"tokenFile: none", "tokenFile names " + path("none") + ", which does not exist"},
           Case{"tokenFile: blank", "which is empty"},
           Case{"token: hunter2, username: me, password: hunter2", "keep one of the two"},
           Case{"password: 5", "password must be a string, not an integer"},
           Case{"client-certificate-data: " + data(kCert), "without its key; add client-key"},
           Case{"client-certificate-data: '%hunter2'", "client-certificate-data is not base64"},
           Case{"client-certificate-data: " + data(kCert) + ", client-key-data: 'hunter2%'",
                "client-key-data is not base64"},
           Case{"client-certificate-data: " + data(kCert) + ", client-key-data: " + data("hunter2"),
                "client-key-data holds no PEM private key"},
           Case{"client-certificate-data: " + data(kCert) + ", client-key: garbage",
                "which holds no PEM private key"},
           Case{"client-certificate-data: " + data(kCert) + ", client-key-data: " + data(encrypted),
                "with a passphrase"},
           Case{"auth-provider: {name: gcp}", "use an exec plugin instead, here gke-gcloud-auth"},
           Case{"auth-provider: hunter2", "use an exec plugin instead"},
           Case{"as: 5", "as must be a string"},
           Case{"as-groups: [a]", "as is missing"},
           Case{"as: x, as-groups: a", "as-groups must be a list of strings, not a string"},
           Case{"as: x, as-groups: [1]", "number 1 is an integer"},
           Case{"as: x, as-user-extra: [1]", "as-user-extra must be a map, not a list"},
           Case{"as: x, as-user-extra: {a: b}", "a must be a list of strings"},
           Case{"as: x, as-user-extra: {\"a\\nb\": 1}", "control character in a key"},
           Case{"as: x, as-user-extra: {a: [\"b\\n\"]}", "control character"},
           Case{"as: \"x\\r\\ny\"", "control character"},
           Case{"exec: 5", "exec must be a map, not an integer"},
           Case{"exec: {}", "user \"u\": exec: command is missing"},
           Case{"exec: {command: x}", "apiVersion is missing, but it must be client.auth"},
           Case{"exec: {command: x, apiVersion: client.authentication.k8s.io/v1alpha1}",
                "v1alpha1\", but it must be"},
           Case{exec + "}", "interactiveMode is missing"},
           Case{exec + "interactiveMode: Maybe}", "interactiveMode is \"Maybe\""},
           Case{exec + "interactiveMode: Never, args: x}", "args must be a list of strings"},
           Case{exec + "interactiveMode: Never, env: {}}", "env must be a list"},
           Case{exec + "interactiveMode: Never, env: [x]}", "without a usable name"},
           Case{exec + "interactiveMode: Never, env: [{name: a=b, value: hunter2}]}",
                "without a usable name"},
           Case{exec + "interactiveMode: Never, env: [{name: a, value: 1}]}", "put it in quotes"},
       }) {
    auto config = loadWith(kServer, c.user);
    ASSERT_FALSE(config.ok()) << c.user;
    EXPECT_THAT(config.error().message, HasSubstr(c.says));
    expectSentence(config.error().message, path("config"));
  }
}

TEST_F(ConfigTest, WhatIsWrongInAFile) {
  struct Case {
    std::string text, says;
  };
  const std::string clusters =
      "clusters: [{name: dev, cluster: {}}, {name: staging, cluster: {}}]\n";
  for (const Case& c : {
           Case{"", "is empty"},
           Case{"# only this\n---\n", "is empty"},
           Case{"just text", "is a string, not a map with clusters, users and contexts"},
           Case{"[1]", "is a list, not a map"},
           Case{"kind: Deployment", ":1: the file: kind is \"Deployment\""},
           Case{"kind: [1]", "kind must be a string, not a list"},
           Case{"apiVersion: v2", "apiVersion is \"v2\", but a kubeconfig has v1"},
           Case{"clusters: x", "clusters must be a list, not a string"},
           Case{"users: {a: b}", "users must be a list, not a map"},
           Case{"a: 1\ncontexts:\n- hunter2\n", ":3: context number 1 must be a map with a name"},
           Case{"users:\n- {user: {}}\n", "user number 1: name is missing"},
           Case{"users:\n- {name: 1}\n", "user number 1: name must be a string"},
           Case{"users:\n- {name: a, user: hunter2}\n", "user must be a map, not a string"},
           Case{"users: [{name: a}, {name: a}]\n", "has the name \"a\" of another"},
           Case{clusters, "no current-context is set; give --context"},
           Case{"current-context: x\n" + clusters,
                "the current-context \"x\" is not there; contexts in it: none"},
           Case{"current-context: prod\ncontexts: [{name: prod, context: {cluster: prod-eu}}]\n" +
                    clusters,
                "config:2: context \"prod\" names the cluster \"prod-eu\", which is not there; "
                "clusters in it: dev, staging"},
           Case{"current-context: a\ncontexts: [{name: a}]\n" + clusters,
                "context \"a\": cluster is missing: name one of these: dev, staging"},
           Case{"current-context: a\ncontexts: [{name: a, context: {cluster: [x]}}]\n" + clusters,
                "cluster must be a string, not a list"},
           Case{text(kServer, "").substr(0, text(kServer, "").find("users:")),
                "context \"dev\" names the user \"u\", which is not there; users in it: none"},
           Case{text(kServer, "", ", namespace: My_Space"), "the namespace \"My_Space\" is not a"},
           Case{text(kServer, "", ", namespace: 5"), "namespace must be a string"},
           // YAML of which the parser would quote a part.
           Case{"a: b\nusers:\n- token: !hunter2 x\n", "config:3:"},
           Case{"token: *hunter2\n", "config:1:"},
           Case{"hunter2: 1\nhunter2: 2\n", "is not valid YAML"},
           Case{"a: [hunter2\n", "is not valid YAML"},
           Case{"a: \"hunter2\n", "is not valid YAML"},
           Case{"a: \x01hunter2", "is not valid YAML"},
           Case{"a: \xff", "is not valid YAML"},
           Case{std::string(5000, '['), ""},
       }) {
    auto config = load(c.text);
    ASSERT_FALSE(config.ok()) << c.text;
    EXPECT_THAT(config.error().message, HasSubstr(c.says)) << c.text;
    expectSentence(config.error().message, path("config"));
  }
}

TEST_F(ConfigTest, WhatIsWrongWithAFile) {
  std::filesystem::create_directory(path("folder"));
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  path("socket").copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  close(socket);
  std::string large = write("large", "");
  std::filesystem::resize_file(large, kMaxConfigBytes + 1);
  struct Case {
    std::string file, says;
    Code code;
  };
  for (const Case& c :
       {Case{path("none"), "named by --kubeconfig, does not exist; check the path", Code::NotFound},
        Case{path("folder"), "is a directory; name the file", Code::InvalidArgument},
        Case{path("pipe"), "is a pipe; write what comes out of it to a file, and name that",
             Code::InvalidArgument},
        Case{path("socket"), "is a device or a socket; name a file", Code::InvalidArgument},
        Case{"/dev/zero", "is a device or a socket; name a file", Code::InvalidArgument},
        Case{"/dev/null", "is empty", Code::InvalidArgument},
        Case{large, "is larger than 10 MiB", Code::ResourceExhausted}}) {
    auto config = loadConfig({.kubeconfig = c.file});
    ASSERT_FALSE(config.ok());
    EXPECT_EQ(config.error().code, c.code);
    EXPECT_THAT(config.error().message, HasSubstr(c.says));
    expectSentence(config.error().message, c.file);
  }
  // Nor may what a kubeconfig names.
  EXPECT_THAT(loadWith(cluster("certificate-authority: pipe"), "").error().message,
              HasSubstr("names " + path("pipe") + ", which is a pipe"));
  EXPECT_EQ(loadConfig({.env = {{"KUBECONFIG", "/dev/null:" + write("config", text(kServer, ""))}}})
                ->server.host,
            "h");
  auto all_missing = loadConfig({.env = {{"KUBECONFIG", path("x") + ":" + path("y")}}});
  EXPECT_EQ(all_missing.error().message,
            path("x") + ", " + path("y") +
                ": the file, named by KUBECONFIG, does not exist; check the path");
  EXPECT_FALSE(loadConfig({.kubeconfig = std::string("a\0b", 3)}).ok());
  if (geteuid() != 0) {  // root reads everything
    std::string secret = write("secret", "x");
    chmod(secret.c_str(), 0);
    auto config = loadConfig({.kubeconfig = secret});
    EXPECT_EQ(config.error().code, Code::Forbidden);
    EXPECT_THAT(config.error().message, HasSubstr("make it readable"));
  }
  auto asked = loadConfig({.kubeconfig = write("config", text(kServer, "")), .context = "prod"});
  EXPECT_EQ(asked.error().message,
            path("config") + ": the context \"prod\" is not there; contexts in it: dev");
  auto ns = loadConfig({.kubeconfig = path("config"), .ns = "A"});
  EXPECT_THAT(ns.error().message, HasSubstr("the namespace \"A\" is not a DNS label"));
}

// Every value of a good kubeconfig replaced by every type: an answer or an error, never a crash.
TEST_F(ConfigTest, AnyTypeAnywhere) {
  const std::string good =
      text(cluster("certificate-authority-data: " + data(kCa)),
           "token: t, as: x, as-groups: [g], exec: {command: c, apiVersion: "
           "client.authentication.k8s.io/v1, interactiveMode: Never, env: [{name: N1, value: v}]}");
  ASSERT_TRUE(load(good).ok()) << load(good).error().text();
  for (std::size_t at = good.find(": "); at != std::string::npos; at = good.find(": ", at + 1))
    for (const char* other :
         {"null", "5", "1.5", "true", "''", "[]", "[[]]", "[null]", "{}", "{a: {}}", "\"\\0\""}) {
      std::size_t end = good.find_first_of(",}\n]", at);
      auto config = load(good.substr(0, at + 2) + other + good.substr(end));
      if (!config) expectSentence(config.error().message, path("config"));
    }
}

}  // namespace
}  // namespace cadre::kube
