#include <cstdio>

#include "cli/cli.h"
#include "net/process.h"

int main(int argc, char** argv) {
  auto writeTo = [](std::FILE* stream) {
    // At once: a program that goes on running may be read through a pipe.
    return [stream](std::string_view text) {
      std::fwrite(text.data(), 1, text.size(), stream);
      std::fflush(stream);
    };
  };
  cadre::cli::Surroundings surroundings{
      .env = cadre::net::currentEnvironment(), .out = writeTo(stdout), .err = writeTo(stderr)};
  return cadre::cli::run({argv + 1, argv + argc}, surroundings);
}
