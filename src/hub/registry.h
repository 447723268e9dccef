#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "hub/failure.h"
#include "hub/kind.h"
#include "hub/objects.h"
#include "hub/service_addresses.h"
#include "kube/apply.h"

namespace cadre::hub {

// Keeps a CustomResourceDefinition until its objects are gone.
inline constexpr std::string_view kDefinitionCleanUp = "customresourcecleanup.apiextensions.k8s.io";

enum class FieldValidation { Ignore, Warn, Strict };
enum class PatchType { Json, Merge, Strategic };

// How a write is meant.
struct Writing {
  std::string manager;
  std::string subresource = {};  // "", "status" or "scale"
  bool dry_run = false;
  bool force = false;  // of an apply
  FieldValidation validation = FieldValidation::Warn;
  std::vector<std::string> duplicates = {};  // fields that the body has twice, in words
};

struct Deleting {
  std::optional<std::string> uid = {}, resource_version = {};  // preconditions
  std::string propagation = {};                                // Background, Foreground, Orphan
  std::optional<std::int64_t> grace = {};
  bool dry_run = false;
};

// A write that is thought out, but not done: what admission looks at.
struct Draft {
  KindRef kind;
  kube::ObjectKey key;
  json::Value object;  // as it would be
  State before;        // what it would replace; none: it is new
  json::Value old;     // the same, parsed
  Writing writing;
  bool is_named = false;  // it is new, and its name was made of generateName
  std::vector<std::string> warnings = {};
};

// What became of it: what is there now, or else what would be there or what was there last.
// Neither: it is gone.
struct Written {
  State state = {};
  json::Value object = {};
  bool created = false;
};

// What clients may do to objects, and what becomes of it: the rules that hold for every kind. No
// HTTP, no users, no waiting.
class Registry {
 public:
  Registry(Objects& objects, const Clock& clock, Random& random);

  std::optional<json::Value> get(const Kind& kind, const kube::ObjectKey& key) const;

  Outcome<Draft> create(KindRef kind, std::string_view ns, std::string_view name,
                        json::Value object, Writing writing);
  Outcome<Draft> update(KindRef kind, const kube::ObjectKey& key, json::Value object,
                        Writing writing);
  Outcome<Draft> patch(KindRef kind, const kube::ObjectKey& key, PatchType type,
                       const json::Value& patch, Writing writing);
  // Server-side apply, which may also create.
  Outcome<Draft> apply(KindRef kind, const kube::ObjectKey& key, json::Value config,
                       Writing writing);
  // Whether something else is there than what it would replace.
  bool isOutdated(const Draft& draft) const;
  // After somebody has changed its object.
  std::optional<Failure> amended(Draft& draft);
  std::optional<Failure> validate(const Draft& draft) const;
  // It is written, unless something else is there by now.
  Outcome<Written> finish(Draft draft);

  // What is deleted, or is going to be: with its deletionTimestamp while finalizers hold it.
  Outcome<Written> remove(KindRef kind, const kube::ObjectKey& key, const Deleting& deleting);
  ServiceAddresses& addresses() { return addresses_; }
  // Gives a pod the node that a Binding names, once.
  Outcome<Written> bind(KindRef pods, const kube::ObjectKey& key, const json::Value& binding,
                        bool dry_run);

  json::Value scaleOf(const Kind& kind, const json::Value& object) const;

 private:
  Outcome<Written> put(const Kind& kind, json::Value object, bool created);
  std::optional<Failure> checkNamespace(const Kind& kind, const kube::ObjectKey& key) const;
  std::optional<Failure> checkFields(const Kind& kind, json::Value& object, Draft& draft,
                                     bool patched) const;
  Outcome<json::Value> patched(const Kind& kind, const json::Value& current, PatchType type,
                               const json::Value& patch) const;
  Outcome<Draft> replace(KindRef kind, State before, json::Value old, json::Value object,
                         Writing writing);
  kube::Writer writerOf(const Kind& kind, const Writing& writing) const;
  Outcome<Draft> make(KindRef kind, std::string_view ns, std::string_view name, json::Value object,
                      Writing writing);
  Outcome<Draft> withFieldsSettled(Outcome<Draft> draft) const;
  std::string newUid();
  std::string newName(const std::string& prefix);

  Objects& objects_;
  const Clock& clock_;
  Random& random_;
  ServiceAddresses addresses_;
};

}  // namespace cadre::hub
