#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "json/value.h"
#include "kube/validate.h"

namespace cadre::kube {

// What the API server says about the metadata that every object has, in its own words. Pure.

// What a name may be: nothing when it is right, otherwise one sentence for each thing that is
// wrong.
using NameRule = std::vector<std::string> (*)(std::string_view name);
std::vector<std::string> subdomainFaults(std::string_view name);    // most objects
std::vector<std::string> dnsLabelFaults(std::string_view name);     // namespaces
std::vector<std::string> dns1035Faults(std::string_view name);      // Services
std::vector<std::string> pathSegmentFaults(std::string_view name);  // all: they stand in paths
std::vector<std::string> qualifiedNameFaults(std::string_view name);

struct MetadataOptions {
  NameRule name_rule = subdomainFaults;
  std::string path = "metadata";
  bool needs_name = true;
  enum class Scope { Namespaced, Cluster, Either } scope = Scope::Namespaced;
};

// Of an object that is made.
std::vector<FieldError> validateMetadata(const json::Value& metadata,
                                         const MetadataOptions& options = {});
// Of one that is changed. That there is a resourceVersion and that the uid is the same is for
// whoever writes: that is answered otherwise.
std::vector<FieldError> validateMetadataChange(const json::Value& metadata, const json::Value& old,
                                               MetadataOptions options = {});
// An object that lies in a field of another one: apiVersion, kind and metadata.
std::vector<FieldError> validateEmbeddedObject(const json::Value& object, const std::string& path);

// What is accepted all the same: finalizers that others could have too.
std::vector<std::string> metadataWarnings(const json::Value& metadata, const json::Value& old);

// Why it cannot be read as metadata at all, nothing when it can. The words are those of the
// server's decoder.
std::optional<std::string> unreadableMetadata(const json::Value& metadata);

// Takes away what metadata does not have, and gives the paths of that ("ownerReferences[0].nope").
// What says nothing goes too, as when the server writes it: empty texts, lists and maps.
std::vector<std::string> pruneMetadata(json::Value& metadata);
const std::vector<std::string_view>& metadataFields();

}  // namespace cadre::kube
