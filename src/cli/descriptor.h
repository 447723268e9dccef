#pragma once

#include <string>
#include <string_view>

#include "base/descriptor.h"
#include "base/result.h"

namespace cadre::cli {

// "cannot read /x: Permission denied; become its owner first, or root": by errno.
Error cannot(std::string_view what, const std::string& path);

// Who has locked a file (flock) that says who it is; 0: nobody. Makes no file.
int holderOf(const std::string& path);

}  // namespace cadre::cli
