#pragma once

// Private to `net`: where Boost.Asio enters. Nothing outside this module includes it.

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>

#include "net/loop.h"

namespace cadre::net {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;

struct Loop::Impl {
  asio::io_context context{1};  // one thread: asio spares its locks
  SystemClock clock;
};

inline asio::io_context& contextOf(Loop& loop) { return loop.impl().context; }

}  // namespace cadre::net
