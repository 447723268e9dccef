#pragma once

#include <vector>

#include "base/time.h"
#include "json/value.h"
#include "kube/validate.h"

namespace cadre::hub {

// CustomResourceDefinitions (apiextensions.k8s.io/v1) themselves. Pure. What has a wrong type is
// for the decoder of built-in kinds; here it counts as missing.

// With what the server fills in: names, conversion, and which versions are stored. `old`: what it
// was before, null when it is new; its status is kept.
json::Value defaulted(json::Value crd, const json::Value& old = {});

// What the server has against it, in its words; with its defaults. Paths are those of the form in
// which the server looks at it: what all versions have in common stands at the top. Rules in CEL
// are not compiled: an expression that is wrong is not found.
std::vector<kube::FieldError> validateCrd(const json::Value& crd, const json::Value& old = {});

// The status that the server's controllers write: which names it has got, among others of its
// group, and whether it is established. It keeps the names and times that it had.
json::Value acceptedStatus(const json::Value& crd, const std::vector<json::Value>& others,
                           Time now);
// Its status while its objects go.
json::Value terminatingStatus(const json::Value& crd, Time now);
bool isEstablished(const json::Value& crd);

}  // namespace cadre::hub
