#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/function.h"
#include "base/time.h"
#include "engine/plan.h"

namespace cadre::engine {

// One thing to be done to the cluster, so that it is as a plan says.
struct Write {
  enum class Op {
    Create,    // a child that is not there
    Apply,     // one that differs
    Conflict,  // its name is taken by an object that is not ours: nothing is sent
    Delete,    // one that is no longer wanted
    Metadata,  // finalizers of the object, or who owns another one: `object` is a merge patch
    Status,    // of the object itself
  };
  Op op;
  Ref ref;
  json::Value object = {};   // what is sent
  std::string uid = {};      // of the object that is meant; it is another one: do nothing
  std::string version = {};  // Metadata: of the object that it was seen at
  // Apply: whose fields become ours first. A POST wrote them, or who was here before us; or they
  // were added by somebody.
  enum class Whose { Ours, Everybodys };
  std::optional<Whose> take_over = {};
  // Apply: how many replicas there are, which we no longer set: whoever sets them next finds them
  // so.
  std::optional<std::int64_t> leave_replicas = {};
  bool replace = false;  // Apply: when the server refuses, delete it and make it anew
  std::map<std::string, std::string> generate = {};  // Create: as in Child
  kube::Impersonation as = {};                       // Create and Apply: as in Child
  std::string why = {};                              // the first difference, for people

  std::string text() const;  // "apply Deployment shop/web: spec.replicas is 3, not 1"
};

// What is known of the cluster. Pure as far as reconcile() can see.
struct Observed {
  Function<std::optional<json::Value>(const Ref& ref)> find;
  // Everything that carries the owner's mark; and whether there is such an owner.
  Function<std::vector<Ref>(std::string_view owner_uid)> owned;
  Function<bool(std::string_view uid)> is_owner;
  // The object as `find` would show it: values of Secrets are not shown themselves.
  Function<json::Value(const Ref& ref, json::Value object)> admitted;
  // Whether this difference was the answer to our own apply: the server or a webhook wants it so.
  Function<bool(const Write& write, const json::Value& observed)> accepted;
  bool labelled = true;  // children carry labels of ours

  static Observed nothing();  // a cluster in which nothing is
};

// The child as it is sent: with labels, owner and the mark of what was wanted.
json::Value finished(const Child& child, const Ref& owner_ref, const json::Value& owner,
                     bool labelled = true);

// The hash of what was wanted, in a mark; and of an object without what the server alone writes.
std::string_view wantedHash(const json::Value& finished);
std::uint64_t contentHash(const json::Value& object);

// What has to be done for the children, in the order in which it may be sent; nothing when all is
// as the plan says. The status waits until then: it would tell of what is about to change.
std::vector<Write> reconcileChildren(const Ref& ref, const json::Value& object, const Plan& plan,
                                     const Observed& observed);

// The whole status as the plan wants it: times of conditions that do not change stay.
json::Value wantedStatus(const Ref& ref, const json::Value& object, const Plan& plan, Time now);
// The write that brings it about; nothing when it is there. `types`: the conditions that plans of
// this kind speak of; others are someone else's and are left alone.
std::optional<Write> reconcileStatus(const Ref& ref, const json::Value& object, const Plan& plan,
                                     const std::vector<std::string>& types, Time now);

// What to tell when this status takes the place of the object's: a condition that changed its mind.
std::vector<Event> transitions(const json::Value& object, const json::Value& status);

// Whether the answer to an apply is not what it asked for: the server, or who stands before it,
// wants it otherwise.
bool isOtherwise(const Write& apply, const json::Value& answer);

// managedFields of an object as they must be so that an apply of ours owns what a POST of ours
// wrote, and what the managers before us wrote; or all there is, whoever wrote it, but for metadata
// and replicas. Nothing when they are so already.
std::optional<json::Value> takenOver(const ResourceRef& resource, const json::Value& live,
                                     const std::vector<std::string>& predecessors,
                                     Write::Whose whose = Write::Whose::Ours);

}  // namespace cadre::engine
