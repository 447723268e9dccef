// Whole command lines against a server whose answers are written here: what goes to stdout, to
// stderr, and the code.
#include "cli/cli.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include <unistd.h>

#include "base/format.h"
#include "base/strings.h"
#include "cli/config_file.h"
#include "cli/systems.h"
#include "net/testing/wire_server.h"

namespace cadre::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

struct Outcome {
  int code;
  std::string out, err;
};

Outcome command(std::vector<std::string> words, std::map<std::string, std::string> env = {}) {
  Outcome outcome;
  Surroundings surroundings{.env = std::move(env),
                            .out = [&](std::string_view text) { outcome.out += text; },
                            .err = [&](std::string_view text) { outcome.err += text; }};
  outcome.code = run(words, surroundings);
  return outcome;
}

TEST(Cli, HelpGoesToStdout) {
  Outcome all = command({"--help"});
  EXPECT_EQ(all.code, 0);
  EXPECT_THAT(all.out, AllOf(HasSubstr("version"), HasSubstr("get"), HasSubstr("--version")));
  Outcome one = command({"get", "--help"});
  EXPECT_EQ(one.code, 0);
  EXPECT_THAT(one.out, AllOf(HasSubstr("--all-namespaces"), HasSubstr("pods,services"),
                             HasSubstr("pods/web"), HasSubstr("wide")));
}

TEST(Cli, AWrongCommandLineIsCodeTwo) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{},
                                             {"nonsense"},
                                             {"get"},
                                             {"version", "--nope"},
                                             {"get", "pods", "-o", "xml"},
                                             {"get", "pods", "-A", "-n", "x"}}) {
    Outcome outcome = command(words);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, AllOf(StartsWith("cadre: "), HasSubstr("see `cadre --help`")));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

TEST(Cli, AWrongValueIsNamedWithItsFlag) {
  struct Case {
    std::vector<std::string> words;
    int code;
    std::string said;
  };
  for (const Case& c :
       std::vector<Case>{{{"manifests", "install", "-n", "X_Y"}, 2, "--namespace: \"X_Y\" "},
                         {{"manifests", "rbac", "-n", "a.b"}, 2, "--namespace: \"a.b\" "},
                         {{"operator", "--watch-namespaces", ""}, 2, "--watch-namespaces: \"\" "},
                         {{"operator", "--watch-namespaces", "a,B"}, 2, "\"B\" "},
                         {{"operator", "--webhook-bind-address=:0", "--webhook-cert-path=/nowhere"},
                          1,
                          "--webhook-cert-path: /nowhere/tls.crt: the file cannot be opened"}}) {
    Outcome outcome = command(c.words, {{"HOME", "/nonexistent"}});
    EXPECT_EQ(outcome.code, c.code) << c.said;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, AllOf(StartsWith("cadre: "), HasSubstr(c.said)));
  }
}

TEST(Cli, VersionNeedsNoCluster) {
  Outcome outcome = command({"version", "--client"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, StartsWith("cadre   "));
}

TEST(Cli, NoClusterIsOneSentenceThatSaysWhatToDo) {
  Outcome outcome = command({"version"}, {{"HOME", "/nonexistent"}});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.out, command({"version", "--client"}).out) << "what is known is shown";
  EXPECT_THAT(outcome.err, AllOf(StartsWith("cadre: "), HasSubstr("--kubeconfig")));
  Outcome named = command({"get", "pods", "--kubeconfig", "/nonexistent/config"});
  EXPECT_EQ(named.code, 1);
  EXPECT_THAT(named.err, HasSubstr("/nonexistent/config"));
}

TEST(Cli, AProxyFromTheEnvironmentIsNamedWhenItFails) {
  std::filesystem::path file =
      std::filesystem::temp_directory_path() / format("cadre-cli-proxy-{}", ::getpid());
  std::ofstream(file) << R"(current-context: dev
contexts: [{name: dev, context: {cluster: dev}}]
clusters: [{name: dev, cluster: {server: "https://api.example"}}]
)";
  Outcome outcome = command({"version", "--kubeconfig", file.string()},
                            {{"HTTPS_PROXY", "http://me:hunter2@127.0.0.1:1"}});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("connecting to the proxy 127.0.0.1:1: connection refused; check the "
                              "proxy that HTTPS_PROXY names"),
                    testing::Not(HasSubstr("hunter2"))));
  std::filesystem::remove(file);
}

// A server on a thread of its own, since a command runs a loop of its own.
class CliServerTest : public testing::Test {
 protected:
  CliServerTest() {
    server_ = net::WireServer::start(
        loop_, {},
        [](net::WireServer::Request request, std::shared_ptr<net::WireServer::Reply> reply) {
          const std::string& at = request.target;
          bool table = request.headers.get("accept").find("as=Table") != std::string_view::npos;
          if (at == "/version") return reply->json(200, R"({"gitVersion":"v1.34.4"})");
          if (at == "/api")
            return reply->json(
                200,
                R"({"kind":"APIGroupDiscoveryList","items":[{"metadata":{},"versions":[{"version":"v1","resources":[
          {"resource":"pods","responseKind":{"kind":"Pod"},"scope":"Namespaced","singularResource":"pod","shortNames":["po"]},
          {"resource":"services","responseKind":{"kind":"Service"},"scope":"Namespaced","singularResource":"service"},
          {"resource":"namespaces","responseKind":{"kind":"Namespace"},"scope":"Cluster","singularResource":"namespace","shortNames":["ns"]}]}]}]})");
          if (at == "/apis")
            return reply->json(200, R"({"kind":"APIGroupDiscoveryList","items":[]})");
          if (table && (at == "/api/v1/pods" || at == "/api/v1/namespaces/shop/pods"))
            return reply->json(
                200,
                R"({"kind":"Table","columnDefinitions":[{"name":"Name"},{"name":"Ready"},{"name":"Node","priority":1}],"rows":[
          {"cells":["web","1/1","n1"],"object":{"metadata":{"namespace":"shop"}}},{"cells":["long-name\u001b[31m","0/1","n2"],"object":{"metadata":{"namespace":"shop"}}}]})");
          if (table && at.starts_with("/api/v1/namespaces/empty/"))
            return reply->json(200, R"({"kind":"Table","rows":[]})");
          if (table && at == "/api/v1/namespaces/shop/services")
            return reply->json(
                200,
                R"({"kind":"Table","columnDefinitions":[{"name":"Name"},{"name":"Type"}],"rows":[{"cells":["db","ClusterIP"],"object":{"metadata":{"namespace":"shop"}}}]})");
          if (table && at == "/api/v1/namespaces/shop/services/db")
            return reply->json(
                200,
                R"({"kind":"Table","columnDefinitions":[{"name":"Name"},{"name":"Type"}],"rows":[{"cells":["db","ClusterIP"]}]})");
          if (table && at == "/api/v1/namespaces/default")
            return reply->json(
                200,
                R"({"kind":"Table","columnDefinitions":[{"name":"Name"},{"name":"Status"}],"rows":[{"cells":["default","Active"]}]})");
          if (table && at == "/api/v1/namespaces/shop/pods/web")
            return reply->json(
                200,
                R"({"kind":"Table","columnDefinitions":[{"name":"Name"},{"name":"Ready"},{"name":"Node","priority":1}],"rows":[{"cells":["web","1/1","n1"]}]})");
          if (at == "/api/v1/namespaces/shop/services")
            return reply->json(200,
                               R"({"kind":"ServiceList","items":[{"metadata":{"name":"db"}}]})");
          if (at == "/api/v1/namespaces/shop/pods")
            return reply->json(200, R"({"kind":"PodList","items":[{"metadata":{"name":"web"}}]})");
          if (at == "/api/v1/namespaces/shop/pods/evil")
            return reply->json(
                500,
                R"({"kind":"Status","apiVersion":"v1","code":500,"reason":"X","message":"a\u001b[31m\nb"})");
          if (at == "/api/v1/namespaces/shop/pods/web")
            return reply->json(200, R"({"kind":"Pod","metadata":{"name":"web"}})");
          if (at == "/api/v1/namespaces/shop/pods?labelSelector=a%3Db")
            return reply->json(
                200,
                R"({"kind":"PodList","items":[{"metadata":{"name":"one"}},{"metadata":{"name":"two"}}]})");
          reply->json(
              404,
              R"({"kind":"Status","apiVersion":"v1","code":404,"reason":"NotFound","message":"pods \"x\" not found"})");
        });
    std::ofstream(path_) << format(R"(apiVersion: v1
kind: Config
current-context: dev
contexts: [{{name: dev, context: {{cluster: dev, user: dev, namespace: shop}}}}]
clusters: [{{name: dev, cluster: {{server: "{}", certificate-authority-data: {}}}}}]
users: [{{name: dev, user: {{token: t}}}}]
)",
                                   server_->url(), base64Encode(server_->ca()));
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~CliServerTest() override {
    loop_.post([this] { loop_.stop(); });
    thread_.join();
    std::filesystem::remove(path_);
  }
  Outcome cadre(std::vector<std::string> words) {
    words.insert(words.end(), {"--kubeconfig", path_.string()});
    return command(std::move(words));
  }

 private:
  std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / format("cadre-cli-test-{}", ::getpid());
  net::Loop loop_;
  std::unique_ptr<net::WireServer> server_;
  std::thread thread_;
};

TEST_F(CliServerTest, ShowsVersionsOfBothSides) {
  EXPECT_THAT(cadre({"version"}).out, HasSubstr("server  v1.34.4\n"));
  EXPECT_THAT(cadre({"version", "-o", "json"}).out, HasSubstr("\"server\": \"v1.34.4\""));
  EXPECT_EQ(cadre({"--version"}).out, cadre({"version"}).out);
  EXPECT_EQ(cadre({"--version", "-o", "json"}).out, cadre({"version", "-o", "json"}).out);
}

TEST_F(CliServerTest, ShowsTables) {
  EXPECT_EQ(cadre({"get", "po"}).out,
            "NAME             READY\nweb              1/1\nlong-name [31m   0/1\n");
  EXPECT_EQ(cadre({"get", "pods", "-A"}).out,
            "NAMESPACE   NAME             READY\nshop        web              1/1\nshop        "
            "long-name [31m   0/1\n");
}

TEST_F(CliServerTest, ShowsObjects) {
  EXPECT_EQ(cadre({"get", "pod", "web", "-o", "yaml"}).out, "kind: Pod\nmetadata:\n  name: web\n");
  EXPECT_EQ(cadre({"get", "pods", "-l", "a=b", "-o", "name"}).out, "pods/one\npods/two\n");
}

TEST_F(CliServerTest, ShowsWideTables) {
  EXPECT_EQ(cadre({"get", "po", "-o", "wide"}).out,
            "NAME             READY   NODE\nweb              1/1     n1\n"
            "long-name [31m   0/1     n2\n");
}

TEST_F(CliServerTest, ShowsSeveralKinds) {
  EXPECT_EQ(cadre({"get", "pods,services"}).out,
            "NAME                  READY\npods/web              1/1\n"
            "pods/long-name [31m   0/1\n\n"
            "NAME          TYPE\nservices/db   ClusterIP\n");
  EXPECT_EQ(cadre({"get", "pods,services", "-o", "name"}).out, "pods/web\nservices/db\n");
  EXPECT_EQ(cadre({"get", "pods,services", "-o", "yaml"}).out,
            "apiVersion: v1\nitems:\n"
            "- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: web\n"
            "- apiVersion: v1\n  kind: Service\n  metadata:\n    name: db\n"
            "kind: List\n");
  EXPECT_EQ(cadre({"get", "pods,services", "-n", "empty"}).err,
            "no pods, services found in namespace empty\n");
  EXPECT_EQ(cadre({"get", "pods,"}).err, "cadre: a kind is empty\n");
}

TEST_F(CliServerTest, ShowsWhatIsNamedWithItsKind) {
  EXPECT_EQ(cadre({"get", "ns/default"}).out, "NAME      STATUS\ndefault   Active\n");
  EXPECT_EQ(cadre({"get", "pod/web", "-o", "yaml"}).out, "kind: Pod\nmetadata:\n  name: web\n");
  EXPECT_EQ(cadre({"get", "pods/web", "services/db"}).out,
            "NAME       READY\npods/web   1/1\n\nNAME          TYPE\nservices/db   ClusterIP\n");
  EXPECT_EQ(cadre({"get", "pods/web", "po/web"}).out, "NAME   READY\nweb    1/1\nweb    1/1\n");
  for (const std::vector<std::string>& mixed : std::vector<std::vector<std::string>>{
           {"get", "pods/web", "db"}, {"get", "pods", "services/db"}})
    EXPECT_EQ(
        cadre(mixed).err,
        "cadre: kind/name stands alone or beside others like it, as in pods/web services/db\n");
  EXPECT_EQ(cadre({"get", "pods/"}).err, "cadre: a name is empty\n");
  EXPECT_EQ(cadre({"get", "/web"}).err, "cadre: a kind is empty\n");
  EXPECT_EQ(cadre({"get", "pods/web", "-A"}).err,
            "cadre: a name needs one namespace: leave -A out\n");
}

TEST_F(CliServerTest, NothingThatAServerSaysMovesTheCursor) {
  EXPECT_EQ(cadre({"get", "pods", "evil"}).err, "cadre: a [31m b\n");
}

TEST_F(CliServerTest, TellsWhatIsNotThere) {
  Outcome nothing = cadre({"get", "pods", "-n", "empty"});
  EXPECT_EQ(nothing.code, 0);
  EXPECT_EQ(nothing.out, "");
  EXPECT_EQ(nothing.err, "no pods found in namespace empty\n");
  Outcome missing = cadre({"get", "pods", "x"});
  EXPECT_EQ(missing.code, 1);
  EXPECT_EQ(missing.err, "cadre: pods \"x\" not found\n");
  EXPECT_EQ(cadre({"get", "pods", ""}).err, "cadre: a name is empty\n");
  EXPECT_EQ(cadre({"get", "pods", "web", "-l", "a=b"}).err,
            "cadre: names and a selector exclude each other: leave one of them out\n");
  Outcome unknown = cadre({"get", "agents"});
  EXPECT_EQ(unknown.code, 1);
  EXPECT_EQ(
      unknown.err,
      "cadre: the cluster serves no \"agents\"; check the spelling, or install the CRD first\n");
}

std::string contents(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

TEST(Cli, WhatIsDeployedIsWhatIsDescribed) {
  for (std::string what : {"crds", "rbac", "install"}) {
    Outcome ran = command({"manifests", what});
    EXPECT_EQ(ran.code, 0);
    EXPECT_EQ(ran.out, contents(format("{}/deploy/{}.yaml", CADRE_ROOT, what)))
        << "deploy/" << what << ".yaml is out of date: make manifests";
  }
  EXPECT_EQ(command({"manifests", "reference"}).out, contents(CADRE_ROOT "/docs/reference.md"))
      << "docs/reference.md is out of date: make manifests";
}

TEST(Cli, ValidatesFiles) {
  std::string file = testing::TempDir() + "/cadre-validate.yaml";
  std::ofstream(file) << "apiVersion: kaos.tools/v1alpha1\nkind: Agent\nmetadata: {name: a}\n"
                         "spec:\n  modelAPI: llm\n  modle: x\n  replicas: -1\n";
  Outcome ran = command({"validate", "-f", file});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.out, HasSubstr(file + ":7: Agent a: spec.replicas: Invalid value"));
  EXPECT_THAT(ran.out, HasSubstr(file + ":6: Agent a: "));
  EXPECT_THAT(ran.err, HasSubstr("0 of 1 objects are right"));
  EXPECT_EQ(command({"validate", "-f", "/nowhere.yaml"}).code, 2);
}

TEST(Cli, WhatIsNoObjectIsNotRight) {
  std::string file = testing::TempDir() + "/cadre-validate-none.yaml";
  std::ofstream(file) << "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\na: 1\n";
  Outcome ran = command({"validate", "-f", file});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.out, HasSubstr(file + ":5: this is no object: give it an apiVersion and a kind"));
  EXPECT_THAT(ran.err, HasSubstr("0 of 1 objects are right"));
}

TEST(Cli, WhatWasNotLookedAtIsNotCalledRight) {
  std::string file = testing::TempDir() + "/cadre-validate-others.yaml";
  std::string other = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
  std::string agent =
      "---\napiVersion: kaos.tools/v1alpha1\nkind: Agent\nmetadata: {name: a}\n"
      "spec: {modelAPI: llm}\n";
  struct Case {
    std::string text;
    int code;
    std::string err, out = "";
  };
  for (const Case& c : {
           Case{other, 1, "0 of 0 objects are right; 1 of other kinds were not looked at"},
           Case{other + agent, 0, "1 of 1 objects are right; 1 of other kinds were not looked at"},
           Case{"apiVersion: kaos.tools/v1alpha1\nkind: Agnet\nmetadata: {name: a}\n", 1,
                "0 of 1 objects are right", "there is no kind Agnet in kaos.tools/v1alpha1"},
           Case{"apiVersion: kaos.tools/v9\nkind: Agent\nmetadata: {name: a}\n", 1,
                "0 of 1 objects are right", "there is no kind Agent in kaos.tools/v9"},
       }) {
    std::ofstream(file) << c.text;
    Outcome ran = command({"validate", "-f", file});
    EXPECT_EQ(ran.code, c.code) << c.text;
    EXPECT_THAT(ran.err, HasSubstr(c.err)) << c.text;
    EXPECT_THAT(ran.out, HasSubstr(c.out)) << c.text;
  }
}

TEST(Cli, WhySaysWhatIsWrongWithTheQuestion) {
  for (const char* what : {"nope/x", "agent", "agent/"}) {
    Outcome ran = command({"why", what});
    EXPECT_EQ(ran.code, 2) << what;
    EXPECT_THAT(ran.err, StartsWith("cadre: ")) << what;
  }
}

TEST(Cli, PlansShowNoSecrets) {
  std::string file = testing::TempDir() + "/cadre-plan-secret.yaml";
  std::ofstream(file) << "apiVersion: kaos.tools/v1alpha1\nkind: ModelAPI\nmetadata: {name: a}\n"
                         "spec: {mode: Proxy, proxyConfig: {models: [m], apiKey: {value: sesame}, "
                         "env: [{name: COLOR, value: red}]}}\n";
  Outcome ran = command({"plan", "--offline", "-f", file});
  EXPECT_THAT(ran.out, AllOf(HasSubstr("PROXY_API_KEY"), HasSubstr("(not shown)"), HasSubstr("red"),
                             Not(HasSubstr("sesame"))));
}

TEST(Cli, PlansFilesWithoutACluster) {
  std::string file = testing::TempDir() + "/cadre-plan.yaml";
  std::ofstream(file) << "apiVersion: kaos.tools/v1alpha1\nkind: MCPServer\nmetadata: {name: a}\n"
                         "spec: {mcp: mcp-echo}\n";
  Outcome ran = command({"plan", "--offline", "-f", file});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.out, HasSubstr("MCPServer default/a"));
  EXPECT_THAT(ran.out, HasSubstr("+ Deployment default/mcpserver-a"));
  EXPECT_THAT(ran.out, HasSubstr("+ Service default/mcpserver-a"));
}

// Objects that wait for each other are shown as they will be, and what is missing is told.
TEST(Cli, PlansWithoutAClusterAsIfPodsRan) {
  std::string file = testing::TempDir() + "/cadre-plan-chain.yaml";
  std::ofstream(file) << R"(apiVersion: kaos.tools/v1alpha1
kind: Agent
metadata: {name: boss}
spec: {modelAPI: llm, agentNetwork: {access: [worker]}}
---
apiVersion: kaos.tools/v1alpha1
kind: Agent
metadata: {name: worker}
spec: {modelAPI: llm, container: {env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]}}
---
apiVersion: kaos.tools/v1alpha1
kind: ModelAPI
metadata: {name: llm}
spec: {mode: Hosted, hostedConfig: {model: m}}
)";
  Outcome ran = command({"plan", "--offline", "-f", file});
  EXPECT_THAT(ran.out, HasSubstr("+ Deployment default/modelapi-llm"));
  EXPECT_THAT(ran.out, Not(HasSubstr("+ Deployment default/agent-")));
  EXPECT_THAT(ran.out, HasSubstr("ConfigReady is False: SecretNotFound"));
  EXPECT_THAT(ran.out, HasSubstr("PeersReady is False: PeerNotReady"));
  std::ofstream(file, std::ios::app) << "---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\n"
                                        "data: {k: eA==}\n";
  ran = command({"plan", "--offline", "-f", file});
  EXPECT_THAT(ran.out, HasSubstr("+ Deployment default/agent-boss"));
  EXPECT_THAT(ran.out, HasSubstr("+ Deployment default/agent-worker"));
  EXPECT_THAT(ran.out, Not(HasSubstr("is False")));
}

struct Variable {
  std::string name;
  Variable(std::string name, const std::string& value) : name(std::move(name)) {
    ::setenv(this->name.c_str(), value.c_str(), 1);
  }
  ~Variable() { ::unsetenv(name.c_str()); }
};

// Trap 19: a setting that is parsed but unused. Each is given by its variable and by its flag,
// which comes first, and is seen in what would be made.
TEST(Cli, Trap19EverySettingOfKaosHasAnEffect) {
  struct Case {
    std::string flag, variable, one, other;
    std::string seen;  // with {} for the value
    std::vector<std::string> beside = {};
  };
  const std::string file = CADRE_ROOT "/test/kaos/settings/objects.yaml";
  for (const Case& c : std::vector<Case>{
           {"agent-image", "DEFAULT_AGENT_IMAGE", "x:1", "x:2", "image: {}\n"},
           {"litellm-image", "DEFAULT_LITELLM_IMAGE", "x:1", "x:2", "image: {}\n"},
           {"ollama-image", "DEFAULT_OLLAMA_IMAGE", "x:1", "x:2", "image: {}\n"},
           {"mcp-python-image", "DEFAULT_MCP_PYTHON_IMAGE", "x:1", "x:2", "image: {}\n"},
           {"mcp-python-image", "DEFAULT_MCP_SERVER_IMAGE", "x:1", "x:2", "image: {}\n"},
           {"mcp-bridge-image", "DEFAULT_MCP_BRIDGE_IMAGE", "x:1", "x:2", "image: {}\n"},
           {"mcp-package-image", "DEFAULT_MCP_PACKAGE_IMAGE", "x:1", "x:2", "image: {}\n"},
           {"mcp-node-image", "DEFAULT_MCP_NODE_IMAGE", "x:1", "x:2", "image: {}\n"},
           {"system-namespace", "SYSTEM_NAMESPACE", "n1", "n2", "namespace: {}\n", {"gateway"}},
           {"cluster-domain", "KUBERNETES_CLUSTER_DOMAIN", "one.test", "two.test",
            "http://modelapi-llm.default.svc.{}:8000"},
           {"log-level", "DEFAULT_LOG_LEVEL", "DEBUG", "WARNING", "value: {}\n"},
           {"telemetry-endpoint",
            "DEFAULT_TELEMETRY_ENDPOINT",
            "http://a:1",
            "http://b:1",
            "value: {}\n",
            {"telemetry"}},
           {"gateway-name", "GATEWAY_NAME", "g1", "g2", "name: {}\n", {"gateway"}},
           {"gateway-namespace", "GATEWAY_NAMESPACE", "n1", "n2", "namespace: {}\n", {"gateway"}},
           {"gateway-timeout-agent",
            "GATEWAY_DEFAULT_AGENT_TIMEOUT",
            "7s",
            "8s",
            "request: {}\n",
            {"gateway"}},
           {"gateway-timeout-modelapi",
            "GATEWAY_DEFAULT_MODELAPI_TIMEOUT",
            "7s",
            "8s",
            "request: {}\n",
            {"gateway"}},
           {"gateway-timeout-mcp",
            "GATEWAY_DEFAULT_MCP_TIMEOUT",
            "7s",
            "8s",
            "request: {}\n",
            {"gateway"}}}) {
    SCOPED_TRACE(c.flag);
    std::vector<std::string> words{"plan", "--offline", "-f", file};
    for (const std::string& flag : c.beside) words.push_back("--kaos-" + flag);
    auto sees = [&](const Outcome& ran, const std::string& value) {
      std::string wanted = c.seen;
      wanted.replace(wanted.find("{}"), 2, value);
      return ran.code == 1 && ran.out.find(wanted) != std::string::npos;
    };
    EXPECT_FALSE(sees(command(words), c.one)) << "this test sees nothing";
    Variable variable(c.variable, c.one);
    EXPECT_TRUE(sees(command(words), c.one)) << "by its variable";
    words.push_back(format("--kaos-{}={}", c.flag, c.other));
    Outcome ran = command(words);
    EXPECT_TRUE(sees(ran, c.other)) << "by its flag";
    EXPECT_FALSE(sees(ran, c.one)) << "the flag comes first";
  }
  // Switches.
  for (auto [flag, variable, seen] :
       {std::tuple{"gateway", "GATEWAY_API_ENABLED", "+ HTTPRoute default/agent-a\n"},
        {"telemetry", "DEFAULT_TELEMETRY_ENABLED", "OTEL_SERVICE_NAME"}}) {
    std::vector<std::string> words{"plan", "--offline", "-f", file,
                                   "--kaos-telemetry-endpoint=http://otel:4317"};
    EXPECT_THAT(command(words).out, Not(HasSubstr(seen)));
    Variable on(variable, "true");
    EXPECT_THAT(command(words).out, HasSubstr(seen));
    words.push_back(format("--kaos-{}=false", flag));
    EXPECT_THAT(command(words).out, Not(HasSubstr(seen)));
  }
  EXPECT_EQ(command({"plan", "--offline", "-f", file, "--kaos-tools-interval=often"}).code, 2);
}

TEST(Cli, APodKnowsItsNamespaceAndDomain) {
  std::string file = testing::TempDir() + "/cadre-pod-file";
  EXPECT_EQ(ownNamespace("/nowhere"), std::nullopt);
  std::ofstream(file) << "agents\n";
  EXPECT_EQ(ownNamespace(file), "agents");
  for (auto [text, domain] : std::vector<std::pair<std::string, std::optional<std::string>>>{
           {"nameserver 10.0.0.10\nsearch ns.svc.corp.test svc.corp.test corp.test\n", "corp.test"},
           {"search ns.svc.corp.test. svc.corp.test.\n", "corp.test"},
           {"search lan\n# svc.x\n", std::nullopt},
           {"search svc.\n", std::nullopt}}) {
    std::ofstream(file) << text;
    EXPECT_EQ(clusterDomain(file), domain) << text;
  }
}

TEST(Cli, SettingsFromAFileComeLast) {
  struct Case {
    std::string text, error;
    std::string image = "built-in", name = "flag";
    int qps = 0;
    bool gateway = false;
    std::vector<std::string> namespaces = {};
  };
  for (const Case& c : std::vector<Case>{
           {"", ""},
           {"kaos-agent-image: file", "", "file"},
           {"kaos: {agent-image: file, gateway: true}", "", "file", "flag", 0, true},
           {"kaos-name: file", ""},
           {"qps: 7\nwatch-namespaces: [a, b]", "", "built-in", "flag", 7, false, {"a", "b"}},
           {"watch-namespaces: a,b", "", "built-in", "flag", 0, false, {"a", "b"}},
           {"qps: many", "conf:1: "},
           {"a: 1\nkaos:\n  colour: red", "conf:1: there is no setting \"a\""},
           {"kaos:\n  colour: red", "conf:2: there is no setting \"kaos-colour\""},
           {"config: other", "there is no setting \"config\""},
           {"[1]", "settings are one map"},
           {"a: [", "conf:1"}}) {
    SCOPED_TRACE(c.text);
    std::string image = "built-in", name = "built-in", config;
    int qps = 0;
    bool gateway = false;
    std::vector<std::string> namespaces;
    CLI::App app;
    app.add_option("--config", config);
    app.add_option("--kaos-agent-image", image);
    app.add_option("--kaos-name", name);
    app.add_option("--qps", qps);
    app.add_flag("--kaos-gateway", gateway);
    app.add_option("--watch-namespaces", namespaces)->delimiter(',');
    app.parse(std::vector<std::string>{"--kaos-name=flag"});
    auto applied = applySettings(app, c.text, "conf");
    EXPECT_EQ(applied.ok(), c.error.empty()) << (applied ? "" : applied.error().text());
    if (!applied) {
      EXPECT_THAT(applied.error().text(), HasSubstr(c.error));
      continue;
    }
    EXPECT_EQ(image, c.image);
    EXPECT_EQ(name, c.name);
    EXPECT_EQ(qps, c.qps);
    EXPECT_EQ(gateway, c.gateway);
    EXPECT_EQ(namespaces, c.namespaces);
  }
}

TEST(Cli, ExplainsKinds) {
  EXPECT_THAT(command({"explain", "agents.kaos.tools.spec.config"}).out, HasSubstr("instructions"));
  EXPECT_THAT(command({"explain", "mcp"}).out, HasSubstr("MCPServer"));
  EXPECT_EQ(command({"explain", "nothing"}).code, 1);
}

}  // namespace
}  // namespace cadre::cli
