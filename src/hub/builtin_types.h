#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "hub/builtin.h"
#include "json/value.h"

namespace cadre::hub {

// An annotation of DaemonSets: how often their template has changed.
inline constexpr std::string_view kTemplateGeneration = "deprecated.daemonset.template.generation";

// From what a client sent to what the types of the API hold, as an API server does it that reads
// JSON into Go's structs and writes them out again. Pure; as deep as the object is, which the
// parser limits.

// Whether every value is of the type of its field: the same text as the server's 400, which tells
// of one value only. It tells of what cannot be read at all (quantities, times, int-or-strings)
// before what is of the wrong type, and of what comes first; here members come in the order of
// their names. InvalidArgument, with the reason BadRequest.
Result<> decodable(const BuiltIn& kind, const json::Value& object);

// The same of anything else that has a type, such as options and questions: Go's complaint alone.
std::optional<std::string> misreading(kube::Type type, const json::Value& value);

// The fields that the kind does not have, for field validation: "spec.containers[0].foo". The
// server says `unknown field "..."` of each, as a warning, or all in one 400.
std::vector<std::string> unknownFields(const BuiltIn& kind, const json::Value& object);

// The object as it comes back: without unknown and empty fields, with those that are always there
// ("status": {}), quantities, times and bytes in their one form. The object must be decodable.
json::Value typed(const BuiltIn& kind, json::Value object);

}  // namespace cadre::hub
