#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "json/value.h"
#include "kube/meta.h"
#include "kube/shape.h"
#include "kube/types.h"
#include "kube/validate.h"

namespace cadre::hub {

// A kind as the hub serves it, in one version. What is particular to it is asked through this:
// built-in kinds answer from a table, custom ones from their schema. Immutable.
class Kind {
 public:
  struct Column {
    std::string name, type, format, description;
    std::int64_t priority = 0;
  };

  virtual ~Kind() = default;

  kube::Resource resource;
  std::string singular;
  std::vector<std::string> short_names, categories;
  std::string storage;  // "apps/deployments": the same for all versions
  std::string stored_version;
  bool has_status = false, has_scale = false;
  std::string list_kind = {};    // empty: the kind and "List"
  std::string deprecation = {};  // what who asks for this version is told
  bool served = true;            // else only its objects are stored so
  bool going = false;            // its definition is deleted: nothing new comes
  bool update_creates = false;   // an update of what is not there makes it
  bool needs_version = false;    // an update says what it changes
  bool shows_deleted = false;    // who deletes is shown the object
  bool orphans = false;          // dependents stay, unless who deletes says otherwise
  // Empty: all that there are.
  std::vector<std::string> verbs = {};
  bool isKept() const { return verbs != std::vector<std::string>{"create"}; }

  // Where a body has what this kind has not: "spec.colour". And the object without it.
  virtual std::vector<std::string> unknownFields(const json::Value& object) const = 0;
  virtual json::Value pruned(json::Value object) const = 0;
  // Why it cannot be read as this kind at all: the words of a 400.
  virtual std::optional<std::string> undecodable(const json::Value& object) const = 0;
  virtual void setDefaults(json::Value& object) const = 0;
  // A definition changes, and its objects stay as they were stored; and versions have other fields.
  // What becomes of it when it is stored now; whether what was stored at that revision may differ
  // from what is shown, which defaults it has then, and what of it is shown.
  virtual void asStored(json::Value&) const {}
  virtual bool differs(std::int64_t) const { return false; }
  virtual void defaultAsStored(json::Value&) const {}
  virtual void asShown(json::Value&) const {}
  // `old`: what it was before, null when it is new. `status`: it is a write to the status.
  virtual std::vector<kube::FieldError> validate(const json::Value& object, const json::Value& old,
                                                 bool status) const = 0;
  // What is right, and perhaps not meant.
  virtual std::vector<std::string> warnings(const json::Value&) const { return {}; }
  // What is the server's own: the status of what is new or written otherwise, and generations. The
  // object has its defaults.
  virtual void prepareForCreate(json::Value& object) const;
  virtual void prepareForUpdate(json::Value& object, const json::Value& old) const;
  virtual void prepareForStatusUpdate(json::Value& object, const json::Value& old) const;
  // Whether a change makes a new generation.
  virtual bool isNewGeneration(const json::Value&, const json::Value&) const { return false; }
  virtual bool hasGeneration() const { return false; }
  // For strategic merge. None: it is a custom one.
  virtual kube::Type type() const { return {}; }
  virtual const json::Value* schema() const { return nullptr; }  // OpenAPI, of a custom one
  // For apply, and for who owns what.
  kube::Shape shape() const {
    if (type()) return type();
    return schema() ? kube::Shape::ofResource(*schema()) : kube::Shape();
  }
  // A field beyond the metadata that may be selected by.
  struct Selectable {
    std::string path;
    std::string place = {};  // where it stands, if not there
    std::string empty = {};  // what it is called where it is left out
  };
  virtual std::vector<Selectable> selectable() const = 0;

  virtual std::vector<Column> columns() const = 0;
  virtual json::Array cells(const json::Value& object, Time now) const = 0;
  // What a Table says of the row as a whole.
  virtual json::Array rowConditions(const json::Value&) const { return {}; }

  struct Scale {
    std::string spec_path, status_path, selector_path;
  };
  virtual Scale scale() const { return {"spec.replicas", "status.replicas", ""}; }
};

// v2 before v1 before v1beta2 before v1beta1 before v1alpha1, and before all that is no version.
bool isPreferred(std::string_view version, std::string_view other);

using KindRef = std::shared_ptr<const Kind>;

// All kinds that are served.
class Kinds {
 public:
  void add(KindRef kind);
  // All versions of a resource that a CRD made.
  void remove(const std::string& storage);
  KindRef find(std::string_view group, std::string_view version, std::string_view plural) const;
  KindRef ofKind(std::string_view group, std::string_view version, std::string_view kind) const;
  // The one in which a resource is stored, and all in which it is served.
  KindRef stored(std::string_view storage) const;
  std::vector<KindRef> versionsOf(std::string_view storage) const;

  // Group by group, in the order in which they came; a version's kinds by name.
  struct Version {
    std::string name;
    std::map<std::string, KindRef> kinds;  // by plural
  };
  struct Group {
    std::string name;
    std::vector<Version> versions;  // the preferred one first
  };
  const std::vector<Group>& groups() const { return groups_; }
  // Changes with every change.
  std::uint64_t edition() const { return edition_; }

 private:
  std::vector<Group> groups_;
  std::map<std::string, KindRef, std::less<>> stored_;  // by storage
  std::uint64_t edition_ = 1;
};

}  // namespace cadre::hub
