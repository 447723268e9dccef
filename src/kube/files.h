#pragma once

// Private to `kube`: the small files that configs and credentials are in.

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace cadre::kube {

// Why a file gave nothing: "does not exist" goes behind its name in a sentence.
struct FileProblem {
  Code code;
  std::string predicate;
  std::string_view fix;
};

// The whole file, up to kMaxConfigBytes. Nothing when it worked. Only of a file on a disk, so that
// it never waits for whoever is at the other end of a pipe.
std::optional<FileProblem> readFile(const std::string& path, std::string& out);

}  // namespace cadre::kube
