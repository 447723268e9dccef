#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "json/value.h"
#include "kube/meta.h"
#include "kube/types.h"

namespace cadre::hub {

// What the hub knows of the kinds that every API server serves: how they are called, what can be
// asked of them, and how they are shown in tables. Constant data and pure functions; thread-safe.

// How a cell comes about from what stands at a column's path.
enum class Show {
  Value,       // as it is, or `otherwise` where there is nothing
  Text,        // the same, and `otherwise` for "" too
  Count,       // how many members or elements
  Since,       // how long ago that time is: "5m3s"
  Labels,      // a map as "a=b,c=d", or "<none>"
  Selector,    // a label selector as text, or "<none>"
  Containers,  // the names of a list of containers
  Images,      // their images
  Function,    // whatever `cell` says of the whole object
};

struct Column {
  std::string_view name;
  std::string_view type = "string";
  std::string_view format = "";
  int priority = 0;  // above 0: only shown when asked for more (-o wide)
  Show show = Show::Value;
  std::string_view path = "";  // "spec.template.spec.containers"
  json::Value otherwise = "";
  json::Value (*cell)(const json::Value& object, Time now) = nullptr;
};

// A path behind an object's own: pods/log.
struct Subresource {
  std::string_view name;
  std::string_view verbs;      // "get,patch,update"
  std::string_view kind = "";  // what is read and written there; empty: the object itself
  std::string_view group = "", version = "";  // of that kind, where it is not the object's own
};

// What makes metadata.generation one more.
enum class Generation {
  Never,                   // it is not counted at all
  First,                   // it is 1 for good
  Spec,                    // a change of the spec
  SpecFromNone,            // the same; a new object has none
  SpecOrAnnotations,       // or of the annotations
  AllButMetadata,          // a change of anything outside of metadata and status
  AllButMetadataOrLabels,  // the same, and of the labels
};

struct BuiltIn {
  std::string_view group;  // "" for the core group
  std::string_view version;
  std::string_view kind;
  std::string_view plural;
  std::string_view singular;
  bool namespaced = true;
  std::vector<std::string_view> short_names = {};
  std::vector<std::string_view> categories = {};
  std::vector<Subresource> subresources = {};  // in the order of their names
  Generation generation = Generation::Never;
  std::vector<Column> columns = {};
  // All but namespaces, which are not deleted by the dozen.
  bool delete_collection = true;
  // A status in a new object is kept: only where there is no one else to write it.
  bool status_on_create = false;
  // It is asked, answered, and never kept: it can only be created.
  bool is_question = false;

  kube::Type type() const { return kube::Type::of(group, version, kind); }
  kube::Resource resource() const;
  const Subresource* subresource(std::string_view name) const;  // null when there is none
  bool hasStatus() const { return subresource("status") != nullptr; }
  bool hasScale() const { return subresource("scale") != nullptr; }
  std::vector<std::string_view> verbs() const;  // in the order of the alphabet
};

// All of them, core first, by group, version and plural.
const std::vector<BuiltIn>& builtIns();
// By kind; null when the hub has none such.
const BuiltIn* findBuiltIn(std::string_view group, std::string_view version, std::string_view kind);

// The columns as a Table has them in columnDefinitions. Descriptions are empty: clients that
// explain fields ask OpenAPI.
json::Array columnDefinitions(const BuiltIn& kind);
// The cells of an object, one per column; it is as the server keeps it, with its defaults.
json::Array cells(const BuiltIn& kind, const json::Value& object, Time now);
// What a Table says of the row as a whole: Pods that have completed. Else empty.
json::Array rowConditions(const BuiltIn& kind, const json::Value& object);

// A duration as kubectl shows ages, with two or three significant digits: seconds below two
// minutes, minutes and seconds below ten, minutes below three hours, hours and minutes below eight,
// hours below two days, days and hours below eight, days below two years, then years and days, and
// from eight on years. A part that is 0 is left out. What lies up to two seconds ahead is "0s", for
// clocks differ, and what lies further ahead "<invalid>".
std::string ageText(Duration age);

}  // namespace cadre::hub
