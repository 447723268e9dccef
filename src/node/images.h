#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace cadre::node {

// An image without a container engine: a tree on the disk, or this machine's own programs.
struct Image {
  std::string root;  // the tree; empty: /usr and what belongs to it, of this machine
  std::vector<std::string> entrypoint, command;
  std::map<std::string, std::string> env;
  std::string directory;
  std::string user;
};

// Whether it can be the name of one: "registry:5000/team/web:1.0@sha256:...".
bool isImageName(const std::string& reference);

// FOLDER/web/1.0 is the image web:1.0: `rootfs` in it, and `config.json` as images have it
// (entrypoint, command, environment, directory). The image `cadre` is this program, with the
// programs of the machine beside it. NotFound, with words, for all others.
Result<Image> findImage(const std::string& folder, const std::string& reference);

}  // namespace cadre::node
