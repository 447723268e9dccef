// Private to hub: what the rules for built-in kinds are written with.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "json/value.h"
#include "kube/validate.h"

namespace cadre::hub {

using Findings = std::vector<kube::FieldError>;
// What is wrong with a text, in the server's words; empty when nothing is.
using Problems = std::vector<std::string>;

// A value, where it stands, and where to say what is wrong with it. A small value; what it points
// to outlives it.
class At {
 public:
  At(const json::Value& value, std::string path, Findings& findings)
      : value_(&value), path_(std::move(path)), findings_(&findings) {}
  // Without paths, for who wants to know whether there is a finding at all: most often there is
  // none, and paths are what takes longest.
  static At unnamed(const json::Value& value, Findings& findings) {
    At at(value, "", findings);
    at.named_ = false;
    return at;
  }

  // Members and elements; what is not there is null.
  At operator[](std::string_view field) const;
  At item(std::size_t index) const;
  At key(std::string_view key) const;  // of a map: "limits[cpu]"
  std::vector<At> items() const;
  // The same value, told by another path: where the server does not name the field it means.
  At as(std::string path) const { return at(*value_, std::move(path)); }
  // Another value told by this path.
  At with(const json::Value& value) const { return at(value, path_); }

  const json::Value& value() const { return *value_; }
  const json::Value& operator*() const { return *value_; }
  const json::Value* operator->() const { return value_; }
  const std::string& text() const { return value_->string(); }
  const std::string& path() const { return path_; }
  bool isThere() const { return !value_->isNull(); }
  bool isEmpty() const;  // null, "", 0, [] or {}

  void required(std::string_view why = {}) const;
  void invalid(std::string_view why) const;                               // shows the value
  void invalidText(std::string_view shown, std::string_view why) const;   // shows that text, quoted
  void invalidShown(std::string_view shown, std::string_view why) const;  // as it is
  void forbidden(std::string_view why) const;
  void unsupported(const std::vector<std::string_view>& supported) const;
  void unsupportedShown(std::string_view shown,
                        const std::vector<std::string_view>& supported) const;
  void duplicate() const;
  void duplicateShown(std::string_view shown) const;
  void notFound() const;
  void all(const Problems& problems) const;       // each of them as invalid, of a text
  void addFinding(kube::FieldError error) const;  // found by others

  // Rules that repeat. What is not there is passed over, unless a name says otherwise.
  bool given() const;  // says that it is required where it is empty
  void notNegative() const;
  void between(std::int64_t low, std::int64_t high) const;  // both ends included
  void oneOf(const std::vector<std::string_view>& supported) const;
  bool atMost(std::size_t items) const;  // of a list; whether it is so
  bool fits(std::size_t bytes) const;    // of a text; whether it does
  void port() const;                     // a number
  void portOrName() const;               // an int-or-string
  void countOrPercent() const;
  void immutable(const json::Value& old) const;

 private:
  void add(kube::Fault fault, std::string message) const;

  const json::Value* value_;
  At at(const json::Value& value, std::string path) const {
    At other(value, std::move(path), *findings_);
    other.named_ = named_;
    return other;
  }

  std::string path_;
  bool named_ = true;
  Findings* findings_;
};

// The server's rules for names, each with its words.
Problems subdomainProblems(std::string_view text);
Problems searchDomainProblems(std::string_view text);  // with underscores
Problems labelProblems(std::string_view text);         // RFC 1123
Problems dns1035Problems(std::string_view text);
Problems qualifiedProblems(std::string_view text);
Problems labelValueProblems(std::string_view text);
Problems portNameProblems(std::string_view text);
Problems configKeyProblems(std::string_view text);
Problems envNameProblems(std::string_view text);
Problems pathSegmentProblems(std::string_view text);
Problems backstepProblems(std::string_view text);    // of a path: ".."
Problems domainPathProblems(std::string_view text);  // example.com/path
Problems relativePathProblems(std::string_view text);
Problems ipProblems(std::string_view text);
Problems cidrProblems(std::string_view text);

// Whether a text is an address, and of which family: 4, 6, or 0 for none.
int ipFamily(std::string_view text);

void checkLabels(const At& labels);
// A label selector; whether it is one.
bool checkSelector(const At& selector);
// A selector with its members in the order in which the server shows them.
std::string selectorJson(const json::Value& selector);
// A value with the members of objects in this order, before all others.
std::string orderedJson(const json::Value& value, std::initializer_list<std::string_view> first);

// What the functions for single types are: they look at the value of that type.
using Check = void(const At& here);
// And for whole objects; the old one is null on create.
using ObjectCheck = void(const At& object, const json::Value& old);

// builtin_validate_pod.cc
void checkPodSpec(const At& spec, bool in_template);
void checkPodTemplate(const At& pod_template);
void checkTokenLife(const At& seconds);
void checkNodeSelector(const At& selector);  // of terms
void checkTolerations(const At& tolerations);
// What makes two of them the same: all but tolerationSeconds.
std::string withoutSeconds(json::Value toleration);
void checkResources(const At& resources);
void checkAmountName(const At& amount, std::string_view name);  // of what containers can have
bool isStandardResource(std::string_view name);
// The source of a volume, if it has one of this name: "nfs".
void checkSource(const At& volume, std::string_view name);
ObjectCheck checkPod, checkPodTemplateKind;
// builtin_validate_workloads.cc
ObjectCheck checkDeployment, checkReplicaSet, checkStatefulSet, checkDaemonSet,
    checkReplicationController, checkJob, checkCronJob, checkAutoscaler, checkBudget,
    checkControllerRevision;
// builtin_validate_storage.cc
void checkClaimSpec(const At& spec);
ObjectCheck checkClaim, checkVolume, checkStorageClass, checkAttachment, checkStorageDriver;
// builtin_validate_core.cc
ObjectCheck checkConfigMap, checkSecret, checkNamespace, checkNode, checkService, checkEndpoints,
    checkQuota, checkLimitRange, checkEvent, checkIngress, checkIngressClass, checkNetworkPolicy,
    checkEndpointSlice, checkRole, checkClusterRole, checkBinding, checkClusterBinding,
    checkPriorityClass, checkRuntimeClass, checkLease, checkWebhooks, checkNewEvent;

}  // namespace cadre::hub
