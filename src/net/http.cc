#include "net/http.h"

#include "base/format.h"
#include "base/strings.h"

namespace cadre::net {

void Headers::set(std::string_view name, std::string value) {
  std::erase_if(fields_, [&](const Field& field) { return equalsIgnoreCase(field.first, name); });
  add(std::string(name), std::move(value));
}

std::string_view Headers::get(std::string_view name) const {
  for (const Field& field : fields_)
    if (equalsIgnoreCase(field.first, name)) return field.second;
  return {};
}

bool Headers::contains(std::string_view name) const {
  for (const Field& field : fields_)
    if (equalsIgnoreCase(field.first, name)) return true;
  return false;
}

std::string authority(std::string_view host, std::uint16_t port) {
  bool v6 = host.find(':') != std::string_view::npos;
  return format("{}{}{}:{}", v6 ? "[" : "", host, v6 ? "]" : "", port);
}

Result<Url> Url::parse(std::string_view text) {
  auto bad = [&](std::string_view why) {
    return Error{.code = Code::InvalidArgument,
                 .message = format("\"{}\" is not a URL: {}", shorten(text, 200), why)};
  };
  for (char c : text)
    if (static_cast<unsigned char>(c) <= 0x20 || c == 0x7f)
      return bad("it has a space or a control character in it");
  Url url;
  std::size_t scheme_end = text.find("://");
  if (scheme_end == std::string_view::npos || scheme_end == 0)
    return bad("it must start with https:// or http://");
  url.scheme = lower(text.substr(0, scheme_end));
  std::string_view rest = text.substr(scheme_end + 3);
  std::size_t path = rest.find_first_of("/?#");
  std::string_view where = rest.substr(0, path);
  if (path != std::string_view::npos) url.target = rest.substr(path, rest.find('#') - path);
  if (std::size_t at = where.rfind('@'); at != std::string_view::npos) {
    url.user_info = where.substr(0, at);
    where.remove_prefix(at + 1);
  }
  std::string_view port;
  if (where.starts_with('[')) {
    std::size_t close = where.find(']');
    if (close == std::string_view::npos) return bad("the address's ']' is missing");
    url.host = where.substr(1, close - 1);
    port = where.substr(close + 1);
    if (!port.empty() && port[0] != ':') return bad("after ']' comes ':' and a port");
  } else {
    std::size_t colon = where.find(':');
    url.host = where.substr(0, colon);
    if (colon != std::string_view::npos) port = where.substr(colon);
    if (port.find(':', 1) != std::string_view::npos)
      return bad("an IPv6 address stands in brackets");
  }
  if (url.host.empty()) return bad("it names no host");
  if (port.empty()) {
    url.port = url.scheme == "https" ? 443 : 80;
  } else {
    auto number = parseInt(port.substr(1));
    if (!number || *number < 1 || *number > 65535) return bad("the port must be from 1 to 65535");
    url.port = static_cast<std::uint16_t>(*number);
  }
  return url;
}

std::string Url::authority() const { return net::authority(host, port); }
std::string Url::origin() const { return scheme + "://" + authority(); }

Target Target::parse(std::string_view target) {
  Target out;
  auto [path, query] = cut(target, "?");
  out.path = urlDecode(path);
  if (query.empty()) return out;
  for (std::string_view pair : split(query, '&')) {
    auto [name, value] = cut(pair, "=");
    out.query.emplace_back(urlDecode(name), urlDecode(value));
  }
  return out;
}

std::string_view Target::parameter(std::string_view name) const {
  for (const auto& [key, value] : query)
    if (key == name) return value;
  return {};
}

Pending fetch(HttpClient& client, HttpRequest request, std::size_t limit,
              Function<void(Result<HttpResponse>)> done) {
  struct State {
    HttpResponse response;
    Function<void(Result<HttpResponse>)> done;
    Pending exchange;
    bool over = false;
    void finish(Result<HttpResponse> result) {
      over = true;
      auto callback = std::exchange(done, nullptr);
      if (callback) callback(std::move(result));
    }
  };
  auto state = std::make_shared<State>();
  state->done = std::move(done);
  std::weak_ptr<State> weak = state;
  ResponseHandler handler;
  handler.head = [weak](ResponseHead head) {
    if (auto state = weak.lock()) {
      state->response.status = head.status;
      state->response.headers = std::move(head.headers);
    }
  };
  handler.data = [weak, limit](std::string_view data) {
    auto state = weak.lock();
    if (!state || state->over) return;
    if (state->response.body.size() + data.size() > limit) {
      state->exchange.reset();
      return state->finish(Error{.code = Code::ResourceExhausted,
                                 .message = format("the answer is larger than {} bytes", limit)});
    }
    state->response.body += data;
  };
  handler.end = [weak](Result<> result) {
    auto state = weak.lock();
    if (!state || state->over) return;
    if (result)
      state->finish(std::move(state->response));
    else
      state->finish(std::move(result).error());
  };
  state->exchange = client.send(std::move(request), std::move(handler));
  return Pending([state] {
    state->done = nullptr;
    state->exchange.reset();
  });
}

}  // namespace cadre::net
