#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "json/value.h"
#include "net/http.h"
#include "net/tls.h"

namespace cadre::kube {

// A program that is asked for credentials.
struct ExecPlugin {
  enum class InteractiveMode { Never, IfAvailable, Always };

  std::string command;  // absolute, or looked up in PATH
  std::vector<std::string> args;
  std::map<std::string, std::string> env;  // beside the environment that it inherits
  std::string api_version;                 // client.authentication.k8s.io/v1 or v1beta1
  std::string install_hint;                // without control characters
  bool provide_cluster_info = false;
  // What the cluster's extension "client.authentication.k8s.io/exec" holds: part of that info.
  json::Value cluster_extension = {};
  InteractiveMode interactive_mode = InteractiveMode::IfAvailable;
};

struct Impersonation {
  std::string user, uid;
  std::vector<std::string> groups;
  std::map<std::string, std::vector<std::string>> extra;

  bool empty() const { return user.empty(); }
};

// Where the cluster is and who we are there. A plain value; it holds secrets, so it is never
// logged: `source` is what messages show.
struct Config {
  net::Url server;            // may carry a path prefix in target, without a trailing slash
  net::TlsClientOptions tls;  // PEM contents, from data or files
  // Where those came from, to be read again when they rotate; empty when they were inline.
  std::string ca_file, certificate_file, key_file;
  // With a token file, the token is what stood there when the config was loaded.
  std::string token, token_file, username, password;
  std::optional<ExecPlugin> exec;
  std::optional<net::Url> proxy;  // scheme http, https or socks5
  std::string proxy_variable;     // that named the proxy; empty when the cluster's entry did
  Impersonation impersonate;
  std::string default_namespace = "default";
  bool in_cluster = false;  // this is a pod of the cluster
  std::string source;       // "context kind-dev in /home/me/.kube/config", "in-cluster"
};

struct ConfigOptions {
  std::string kubeconfig = {};  // the flag
  std::string context = {};     // instead of the file's current one
  std::string ns = {};          // instead of the context's
  // KUBECONFIG, HOME, KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT, and, where the cluster's
  // entry names no proxy-url, HTTPS_PROXY, HTTP_PROXY and NO_PROXY; the rest is passed over.
  std::map<std::string, std::string> env = {};
  std::string service_account_directory = "/var/run/secrets/kubernetes.io/serviceaccount";
};

// Finds out where the cluster is: from the flag's file, else from the files that KUBECONFIG lists,
// else from inside a pod, else from ~/.kube/config. A context that is asked for by name is in a
// file, so then the pod's own login is passed over.
//
// Files of a list are merged as kubectl does it: missing ones are skipped, the first that sets a
// value wins, and so does the first that has a cluster, user or context of that name, whole.
// Relative paths in a file start at its folder. Data beats file, and a token file beats a token.
// To a server that is spoken to without TLS, no credentials are given: the config has none.
//
// Reads files, and so may block for a moment. Every failure is one sentence with the file (and the
// line where one is known), what is wrong and what to do: NotFound when nothing is configured or a
// named file is missing, Forbidden when one may not be read, ResourceExhausted when one is larger
// than kMaxConfigBytes, else InvalidArgument. Secrets are in none of them.
Result<Config> loadConfig(const ConfigOptions& options);

inline constexpr std::size_t kMaxConfigBytes = 10u << 20;

}  // namespace cadre::kube
