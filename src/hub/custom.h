#pragma once

#include <span>
#include <string>
#include <vector>

#include "hub/kind.h"
#include "json/value.h"
#include "kube/schema.h"

namespace cadre::hub {

// Custom kinds: what a CustomResourceDefinition says, in each of the versions that it serves or
// stores. Pure.

// Kinds that are described in C++. Where a definition is of one of them, its rules and checks are
// asked in place of the CEL that is in the definition.
using Natives = std::span<const kube::Kind* const>;

// The definition must be one that validateCrd() (hub/definition.h) has nothing against, and have
// its defaults; of any other, versions that cannot be read are left out.
std::vector<KindRef> kindsOf(const json::Value& crd, Natives natives = {});

// What is not checked of its objects, as sentences for whoever brings the definition: rules in CEL
// without a native side.
std::vector<std::string> uncheckedOf(const json::Value& crd, Natives natives = {});

}  // namespace cadre::hub
