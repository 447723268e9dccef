#pragma once

// Private to `net`: HTTP/1.1 messages as they come, by Beast's parser.

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <string>

#include "net/asio.h"
#include "net/http.h"

namespace cadre::net {

namespace http = boost::beast::http;

// Turns bytes into a head and pieces of a body, whatever the transfer coding.
template <bool isRequest>
class Http1Parser final : public http::basic_parser<isRequest> {
 public:
  explicit Http1Parser(std::uint32_t max_header_bytes) {
    this->header_limit(max_header_bytes);
    this->body_limit(boost::none);  // whoever takes the body counts
  }

  std::string method, target;  // of a request
  int version = 11;            // 11 is HTTP/1.1
  int status = 0;              // of an answer
  Headers headers;
  Function<void(std::string_view)> on_body;

 private:
  using View = boost::beast::string_view;

  void on_request_impl(http::verb, View method_text, View target_text, int number,
                       ErrorCode&) override {
    version = number;
    method = std::string(method_text);
    target = std::string(target_text);
  }
  void on_response_impl(int code, View, int, ErrorCode&) override { status = code; }
  void on_field_impl(http::field, View name, View value, ErrorCode&) override {
    if (this->is_header_done()) return;  // what comes after the body is no header
    headers.add(std::string(name), std::string(value));
  }
  void on_header_impl(ErrorCode&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, ErrorCode&) override {}
  std::size_t on_body_impl(View body, ErrorCode&) override {
    on_body({body.data(), body.size()});
    return body.size();
  }
  void on_chunk_header_impl(std::uint64_t, View, ErrorCode&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, View body, ErrorCode&) override {
    on_body({body.data(), body.size()});
    return body.size();
  }
  void on_finish_impl(ErrorCode&) override {}
};

}  // namespace cadre::net
