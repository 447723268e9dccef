#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hub/failure.h"
#include "hub/request.h"
#include "hub/users.h"
#include "json/value.h"
#include "kube/meta.h"

namespace cadre::hub {

// What somebody wants to do: something with a resource, or with a path that is none.
struct Attributes {
  std::string verb = {};
  std::string group = {}, resource = {}, subresource = {};
  std::string name = {};
  std::string ns = {};                             // empty: the whole cluster
  std::optional<std::string> path = std::nullopt;  // this, and no resource

  // What a request wants. A list or watch that selects one name is about that one.
  static Attributes of(const Asked& asked, std::string_view method);

  // `cannot get resource "pods/log" in API group "" in the namespace "x"`
  std::string text() const;
};

// What a rule of a role allows. A value.
struct Rule {
  std::vector<std::string> verbs = {}, groups = {}, resources = {}, names = {};
  std::vector<std::string> paths = {};  // nonResourceURLs

  static Rule of(const json::Value& rule);
  bool allows(const Attributes& wanted) const;
  bool covers(const Rule& other) const;  // allows all that the other one does
  json::Value value() const;             // as in a SelfSubjectRulesReview

  auto operator<=>(const Rule&) const = default;
};
using Rules = std::vector<Rule>;

struct Verdict {
  bool allowed = false;
  std::string reason = {};  // the binding that allows it; or what may be the cause that none does
};

// Who may do what, by roles and bindings. It is an index, made from all of them at once: whoever
// holds the objects makes another one when one of them has changed. Then a check costs as much as
// the bindings of that one user and his groups, however many there are of others. Immutable.
//
// ClusterRoles with an aggregationRule have the rules of those that it selects, at once; what is
// written in them does not count.
class Rbac {
 public:
  // As values of the API; parts that are not what they should be allow nothing.
  struct Objects {
    std::vector<json::Value> roles, cluster_roles, role_bindings, cluster_role_bindings;
  };

  Rbac() = default;  // only system:masters may do anything
  explicit Rbac(const Objects& objects);
  Rbac(const Rbac&) = delete;
  Rbac& operator=(const Rbac&) = delete;

  Verdict check(const User& user, const Attributes& wanted) const;
  // Nothing when he may; else the answer (403), in the words of kube-apiserver.
  std::optional<Failure> refusal(const User& user, const Attributes& wanted) const;

  struct Held {
    Rules rules;
    std::vector<std::string> missing;  // `role.rbac.authorization.k8s.io "x" not found`
    std::vector<std::string> missing_names;
  };
  // All that the user may do in a namespace, with what he may do everywhere; "": only that.
  Held rulesFor(const User& user, std::string_view ns) const;

  // What a Role (of that namespace) or ClusterRole ("") allows; null when there is none.
  const Rules* role(std::string_view ns, std::string_view name) const;
  // The ClusterRoles with an aggregationRule whose rules are not written as they should be, as they
  // should be.
  const std::vector<json::Value>& outdated() const { return outdated_; }

 private:
  // A binding of a subject to a role.
  struct Grant {
    std::string binding;  // `RoleBinding "b/ns"`
    std::string role;     // `Role "r"`
    std::string ref_kind, ref_name;
    const Rules* rules = nullptr;       // null: there is no such role
    std::vector<std::string> subjects;  // `User "ann"`
  };
  struct Entry {
    std::size_t grant, subject;
    auto operator<=>(const Entry&) const = default;
  };
  using BySubject = std::map<std::string, std::vector<Entry>, std::less<>>;

  void addRoles(const Objects& objects);
  void addBinding(const json::Value& binding, bool cluster);
  std::vector<Entry> entriesOf(const User& user, std::string_view ns) const;

  std::map<kube::ObjectKey, Rules> roles_;  // those of the cluster without a namespace
  std::vector<Grant> grants_;
  std::map<std::string, BySubject, std::less<>> by_namespace_;  // "": of the cluster
  std::vector<json::Value> outdated_;
};

// Several reasons as one: "a", "[a, b]"; each once.
std::string together(const std::vector<std::string>& texts);

using RbacRef = std::shared_ptr<const Rbac>;

// Why a user may not write this role or binding, though he may write some: it would allow more than
// he may do himself. Who may "escalate" roles or "bind" the one that is bound may all the same, and
// so may system:masters. `before`: what it was; null when it is new. `asked_name`: the name in the
// request's path, which a POST does not have.
struct RoleWrite {
  const kube::Resource& resource;  // roles, clusterroles, rolebindings or clusterrolebindings
  const json::Value& object;
  const json::Value& before;
  std::string_view asked_name;
};
std::optional<Failure> escalation(const Rbac& rbac, const User& user, const RoleWrite& write);

// The ClusterRoles and ClusterRoleBindings that a fresh API server has and that clients need.
Rbac::Objects defaultRbac();

}  // namespace cadre::hub
