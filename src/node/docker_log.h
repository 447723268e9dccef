#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/function.h"
#include "net/loop.h"
#include "node/log_file.h"
#include "wire/docker.h"

namespace cadre::node {

// Brings what a container of Docker prints into a log file, from where that ends: after a restart
// of ours, and of Docker, no line is missing and none is there twice. Belongs to its loop.
class DockerLog {
 public:
  // `stopped`: Docker sends no more for now; the container may have ended.
  DockerLog(net::Loop& loop, wire::Docker& docker, std::string container, std::string path,
            Function<void()> stopped);

  // From now on, until it has ended.
  void follow();
  // The container has ended: calls back when its last line is in the file, or after some time in
  // which it could not be had.
  void finish(Function<void()> done);

 private:
  void catchUp();
  void end();
  Pending read(bool follow, Function<void()> then);
  void take(wire::DockerStream stream, std::string_view text);

  net::Loop& loop_;
  wire::Docker& docker_;
  const std::string container_, path_;
  const Function<void()> stopped_;
  Function<void()> finished_;
  LogFile file_;
  // What is in the file of the time from which on we read again, and how often.
  std::map<std::string, int, std::less<>> there_;
  bool following_ = false;
  Pending reading_, timer_;
};

}  // namespace cadre::node
