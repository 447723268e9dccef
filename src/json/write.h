#pragma once

#include <string>
#include <string_view>

#include "json/value.h"

namespace cadre::json {

// A value as JSON text on one line, members in the order of their keys. Numbers are written as Go
// writes them (1 for 1.0, 1e+21) and read back as the same number. Bytes that are not
// UTF-8 become U+FFFD; infinity and not-a-number, which JSON does not have, become null. Never
// fails.
std::string write(const Value& value);
void append(std::string& out, const Value& value);

// The same for people to read: a member or element per line, two spaces of indentation.
std::string writePretty(const Value& value);

// The pieces, for whoever writes JSON around values: a quoted and escaped string, a number.
void appendQuoted(std::string& out, std::string_view text);
void appendNumber(std::string& out, double number);

}  // namespace cadre::json
