#pragma once

#include <vector>

#include "hub/builtin.h"
#include "json/value.h"
#include "kube/validate.h"

namespace cadre::hub {

// What is wrong with an object of a built-in kind, as the causes of an API server's 422: the same
// fields, reasons and words. The object is decodable, typed, with its defaults and prepared; an
// older state of it, if there is one, too: then what may not change is asked as well.
//
// Covered are the rules that people meet. Where the server shows a value in the form of its inner
// types, this shows JSON. At most kube::kMaxFieldErrors are reported. Pure.
std::vector<kube::FieldError> validateBuiltIn(const BuiltIn& kind, const json::Value& object,
                                              const json::Value* old = nullptr);

// What an API server would say of a Deployment with such pods, told from their spec on:
// "containers[0].image". The spec need not have its defaults; what is unknown in it is passed over.
std::vector<kube::FieldError> validatePods(json::Value pod_spec);

}  // namespace cadre::hub
