#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "kube/schema.h"

namespace cadre::kube {

// Documentation of a kind, for people. Pure.

// A field and those in it, as `kubectl explain` shows them, with what is allowed. The path goes
// through lists and maps without a mark: "spec.config.env.name"; empty for the whole kind.
// NotFound for a path that does not exist, with the fields that do.
Result<std::string> explain(const Kind& kind, std::string_view path);

// A page of Markdown: what it is, a table of all fields of the spec and of the status, rules and
// columns. Fields in lists are written env[].name, in maps params{}.
std::string reference(const Kind& kind);

}  // namespace cadre::kube
