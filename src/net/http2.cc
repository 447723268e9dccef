// A client's HTTP/2 connection: nghttp2 keeps the protocol, this feeds it bytes and hands out
// answers.
#include <map>

#include <nghttp2/nghttp2.h>

#include "base/format.h"
#include "base/strings.h"
#include "net/connection.h"

namespace cadre::net {

namespace {

constexpr std::int32_t kStreamWindow = 4 << 20;
constexpr std::int32_t kConnectionWindow = 64 << 20;
constexpr std::size_t kMaxHeaderBytes = 256 << 10;
constexpr std::size_t kHeaderOverhead = 32;  // of each field, RFC 7541 4.1
constexpr std::size_t kReadBuffer = 64 << 10;
constexpr std::size_t kWriteChunk = 16 << 10;  // a TLS record
// Fairness: after so many reads in a row other sockets get their turn.
constexpr int kReadsPerTurn = 16;

class Http2Connection final : public Connection {
 public:
  using Connection::Connection;

  ~Http2Connection() override { nghttp2_session_del(session_); }

  void start() override {
    nghttp2_session_callbacks* callbacks;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, onHeader);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, onFrame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, onData);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, onStreamClose);
    nghttp2_session_client_new(&session_, callbacks, this);
    nghttp2_session_callbacks_del(callbacks);

    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kStreamWindow},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, kMaxHeaderBytes}};
    nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings, std::size(settings));
    nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, kConnectionWindow);
    last_read_ = idle_since_ = loop_.clock().instant();
    flush();
    waitForBytes();
    watchHealth();
  }

  bool hasRoom() const override {
    return !closed_ && !draining_ && settings_seen_ &&
           streams_.size() < nghttp2_session_get_remote_settings(
                                 session_, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
  }

  std::size_t active() const override { return streams_.size(); }

  void carry(std::shared_ptr<Exchange> exchange) override {
    ++carried_;
    const HttpRequest& request = exchange->request;
    std::string host = std::string(request.headers.get("host"));
    if (host.empty()) host = options_.url.authority();
    std::vector<std::string> names;  // HTTP/2 wants them in small letters
    names.reserve(request.headers.size());
    std::vector<nghttp2_nv> fields;
    auto add = [&](std::string_view name, std::string_view value) {
      fields.push_back({reinterpret_cast<std::uint8_t*>(const_cast<char*>(name.data())),
                        reinterpret_cast<std::uint8_t*>(const_cast<char*>(value.data())),
                        name.size(), value.size(), NGHTTP2_NV_FLAG_NONE});
    };
    add(":method", request.method);
    add(":scheme", options_.url.scheme);
    add(":authority", host);
    add(":path", request.target);
    for (const auto& [name, value] : request.headers) {
      names.push_back(lower(name));
      if (names.back() == "host" || names.back() == "connection") continue;
      add(names.back(), value);
      // Credentials stay out of the compression table.
      if (names.back() == "authorization") fields.back().flags = NGHTTP2_NV_FLAG_NO_INDEX;
    }
    std::string length = std::to_string(request.body.size());
    if (!request.body.empty()) add("content-length", length);

    nghttp2_data_provider body{};
    auto* carried = new Carried{exchange};
    body.source.ptr = carried;
    body.read_callback = readBody;
    std::int32_t id = nghttp2_submit_request(session_, nullptr, fields.data(), fields.size(),
                                             request.body.empty() ? nullptr : &body, carried);
    if (id < 0) {
      delete carried;
      draining_ = true;  // out of stream numbers, or it is going away: another connection takes it
      return owner_->retry(std::move(exchange), lost(nghttp2_strerror(id)));
    }
    streams_[id].reset(carried);
    exchange->abandon = [weak = weak_from_this(), id] {
      if (auto self = std::static_pointer_cast<Http2Connection>(weak.lock())) self->abandon(id);
    };
    flushSoon();
  }

  void shutdown() override {
    owner_ = nullptr;
    close(lost("the client was closed"), /*quietly=*/true);
  }

 private:
  struct Carried {
    std::shared_ptr<Exchange> exchange;
    std::size_t sent = 0;
    ResponseHead head = {};
    std::size_t header_bytes = 0;
    bool too_large = false;
    bool complete = false;  // END_STREAM has come
  };

  static Http2Connection& self(void* user_data) {
    return *static_cast<Http2Connection*>(user_data);
  }
  Carried* find(std::int32_t id) {
    auto found = streams_.find(id);
    return found == streams_.end() ? nullptr : found->second.get();
  }

  static ssize_t readBody(nghttp2_session*, std::int32_t, std::uint8_t* buffer, std::size_t room,
                          std::uint32_t* flags, nghttp2_data_source* source, void*) {
    auto& carried = *static_cast<Carried*>(source->ptr);
    const std::string& body = carried.exchange->request.body;
    std::size_t count = std::min(room, body.size() - carried.sent);
    std::copy_n(body.data() + carried.sent, count, buffer);
    carried.sent += count;
    if (carried.sent == body.size()) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return static_cast<ssize_t>(count);
  }

  static int onHeader(nghttp2_session* session, const nghttp2_frame* frame,
                      const std::uint8_t* name, std::size_t name_length, const std::uint8_t* value,
                      std::size_t value_length, std::uint8_t, void* user_data) {
    Carried* carried = self(user_data).find(frame->hd.stream_id);
    if (!carried || carried->exchange->answered) return 0;  // trailers are not used by anyone
    std::string_view key(reinterpret_cast<const char*>(name), name_length);
    std::string_view text(reinterpret_cast<const char*>(value), value_length);
    // One byte on the wire may stand for 4 KiB that came before. Counted as
    // MAX_HEADER_LIST_SIZE is.
    carried->header_bytes += name_length + value_length + kHeaderOverhead;
    if (carried->header_bytes > kMaxHeaderBytes) {
      carried->too_large = true;
      nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
                                NGHTTP2_ENHANCE_YOUR_CALM);
      return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;  // the rest of the block is only unpacked
    }
    if (key == ":status")
      carried->head.status = static_cast<int>(parseInt(text).value_or(0));
    else
      carried->head.headers.add(std::string(key), std::string(text));
    return 0;
  }

  static int onFrame(nghttp2_session*, const nghttp2_frame* frame, void* user_data) {
    auto& connection = self(user_data);
    Carried* carried = connection.find(frame->hd.stream_id);
    switch (frame->hd.type) {
      case NGHTTP2_HEADERS:
        if (!carried) break;
        carried->complete = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
        if (carried->exchange->answered) break;
        if (carried->head.status < 200)
          carried->head = {};  // 100 Continue and the like
        else
          carried->exchange->head(std::move(carried->head));
        break;
      case NGHTTP2_DATA:
        if (carried) carried->complete = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
        break;
      case NGHTTP2_SETTINGS:
        // Only now the stream limit is known: a watch beyond it would wait on this connection for
        // ever.
        connection.settings_seen_ = true;
        connection.doubtful_ = false;
        connection.tidySoon();
        break;
      case NGHTTP2_PING:
        if (frame->hd.flags & NGHTTP2_FLAG_ACK) connection.pinging_ = false;
        break;
      case NGHTTP2_GOAWAY:
        connection.draining_ = true;
        break;
      default:
        break;
    }
    return 0;
  }

  static int onData(nghttp2_session*, std::uint8_t, std::int32_t id, const std::uint8_t* data,
                    std::size_t length, void* user_data) {
    if (Carried* carried = self(user_data).find(id)) {
      auto exchange = carried->exchange;
      exchange->data({reinterpret_cast<const char*>(data), length});
    }
    return 0;
  }

  static int onStreamClose(nghttp2_session*, std::int32_t id, std::uint32_t code, void* user_data) {
    auto& connection = self(user_data);
    auto found = connection.streams_.extract(id);
    if (found.empty()) return 0;
    auto exchange = std::move(found.mapped()->exchange);
    bool too_large = found.mapped()->too_large, complete = found.mapped()->complete;
    // The Carried itself may still be named by a frame in nghttp2's queue: it goes after this turn.
    connection.finished_.push_back(std::move(found.mapped()));
    connection.tidySoon();
    exchange->abandon = nullptr;
    if (too_large) {
      exchange->end(
          Error{.code = Code::ResourceExhausted,
                .message = format("the answer's head is larger than {} bytes", kMaxHeaderBytes)});
    } else if (code == NGHTTP2_NO_ERROR && exchange->answered && complete) {
      exchange->end({});
    } else if (code == NGHTTP2_REFUSED_STREAM && !exchange->answered && connection.owner_) {
      connection.owner_->retry(std::move(exchange),
                               connection.lost("the server refused the request"));
    } else {
      exchange->end(Error{
          .code = Code::Unavailable,
          .message = format("the server broke off the answer ({})", nghttp2_http2_strerror(code))});
    }
    return 0;
  }

  void abandon(std::int32_t id) {
    auto found = streams_.extract(id);
    if (found.empty() || closed_) return;
    finished_.push_back(std::move(found.mapped()));
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
    tidySoon();
    flushSoon();
  }

  void waitForBytes() {
    stream_->waitReadable([weak = weak_from_this()] {
      if (auto self = std::static_pointer_cast<Http2Connection>(weak.lock())) self->readBytes();
    });
  }

  void readBytes() {
    auto keep = shared_from_this();
    for (int turn = 0; turn < kReadsPerTurn && !closed_; ++turn) {
      static thread_local char buffer[kReadBuffer];
      Stream::Io io = stream_->read(buffer);
      switch (io.status) {
        case Stream::Status::Ok:
          break;
        case Stream::Status::WantRead:
        case Stream::Status::WantWrite:
          flush();
          if (!closed_) waitForBytes();
          return;
        case Stream::Status::Closed:
          return close(lost("the server closed the connection"));
        case Stream::Status::Failed:
          return close(lost(stream_->error().text()));
      }
      last_read_ = loop_.clock().instant();
      ssize_t used = nghttp2_session_mem_recv(
          session_, reinterpret_cast<const std::uint8_t*>(buffer), io.bytes);
      if (used < 0) return close(lost(nghttp2_strerror(static_cast<int>(used))));
    }
    if (closed_) return;
    flush();
    if (!closed_) waitForBytes();
  }

  // Everything submitted in one turn of the loop leaves in as few writes as it fits.
  void flushSoon() {
    if (flush_posted_ || closed_) return;
    flush_posted_ = true;
    loop_.post([weak = weak_from_this()] {
      auto self = std::static_pointer_cast<Http2Connection>(weak.lock());
      if (!self) return;
      self->flush_posted_ = false;
      self->flush();
    });
  }

  void flush() {
    if (closed_ || waiting_writable_) return;
    for (;;) {
      while (outgoing_.size() < kWriteChunk) {
        const std::uint8_t* data = nullptr;
        ssize_t size = nghttp2_session_mem_send(session_, &data);
        if (size < 0) return close(lost(nghttp2_strerror(static_cast<int>(size))));
        if (size == 0) break;
        outgoing_.append({reinterpret_cast<const char*>(data), static_cast<std::size_t>(size)});
      }
      if (outgoing_.empty()) break;
      Stream::Io io = stream_->write(outgoing_.view());
      if (io.status == Stream::Status::Ok) {
        outgoing_.consume(io.bytes);
      } else if (io.status == Stream::Status::WantWrite || io.status == Stream::Status::WantRead) {
        waiting_writable_ = true;
        auto go_on = [weak = weak_from_this()] {
          auto self = std::static_pointer_cast<Http2Connection>(weak.lock());
          if (!self) return;
          self->waiting_writable_ = false;
          self->flush();
        };
        return stream_->waitWritable(std::move(go_on));
      } else {
        return close(lost(io.status == Stream::Status::Closed ? "the server closed the connection"
                                                              : stream_->error().text()));
      }
    }
    if (!nghttp2_session_want_read(session_) && !nghttp2_session_want_write(session_))
      close(lost("the server ended the session"));
  }

  // Room is offered again, and finished streams are freed, outside of nghttp2's callbacks.
  void tidySoon() {
    if (tidy_posted_ || closed_) return;
    tidy_posted_ = true;
    loop_.post([weak = weak_from_this()] {
      auto self = std::static_pointer_cast<Http2Connection>(weak.lock());
      if (!self) return;
      self->tidy_posted_ = false;
      if (self->closed_) return;
      self->flush();
      self->finished_.clear();
      if (self->streams_.empty()) self->idle_since_ = self->loop_.clock().instant();
      if (self->draining_ && self->streams_.empty())
        return self->close(self->lost("the server is going away"));
      if (self->owner_) self->owner_->roomMade();
    });
  }

  // Looks twice within ping_after, so that a PING is out before the peer was silent for longer than
  // that.
  void watchHealth() {
    health_timer_ = loop_.after(options_.ping_after / 2, [weak = weak_from_this()] {
      auto self = std::static_pointer_cast<Http2Connection>(weak.lock());
      if (!self || self->closed_) return;
      Instant now = self->loop_.clock().instant();
      if (self->streams_.empty() && now - self->idle_since_ >= self->options_.idle_timeout)
        return self->close(self->lost("it was idle"));
      // Without streams it need not speak, but for its SETTINGS: until they come requests wait.
      if ((!self->streams_.empty() || !self->settings_seen_) &&
          now - self->last_read_ >= self->options_.ping_after / 2)
        self->ping();
      if (!self->closed_) self->watchHealth();
    });
  }

  void ping() {
    if (std::exchange(pinging_, true)) return;
    doubtful_ = !settings_seen_;
    nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr);
    ping_timer_ = loop_.after(options_.ping_timeout, [weak = weak_from_this()] {
      auto self = std::static_pointer_cast<Http2Connection>(weak.lock());
      if (self && self->pinging_)
        self->close(self->lost(
            format("no answer to a PING within {}", formatDuration(self->options_.ping_timeout))));
    });
    flush();
  }

  void close(Error error, bool quietly = false) {
    if (std::exchange(closed_, true)) return;
    auto keep = shared_from_this();
    health_timer_.reset();
    ping_timer_.reset();
    stream_->close();
    auto streams = std::exchange(streams_, {});
    for (auto& [id, carried] : streams) {
      carried->exchange->abandon = nullptr;
      // A handler may destroy the client, which must then hear nothing more.
      if (quietly || !owner_)
        carried->exchange->cancel();
      else
        carried->exchange->end(error);
      finished_.push_back(std::move(carried));
    }
    if (owner_) owner_->closed(this, error);
  }

  nghttp2_session* session_ = nullptr;
  std::map<std::int32_t, std::unique_ptr<Carried>> streams_;
  std::vector<std::unique_ptr<Carried>> finished_;
  SendBuffer outgoing_;
  bool settings_seen_ = false, draining_ = false, closed_ = false, pinging_ = false;
  bool flush_posted_ = false, tidy_posted_ = false, waiting_writable_ = false;
  Instant last_read_, idle_since_;
  Pending health_timer_, ping_timer_;
};

}  // namespace

std::shared_ptr<Connection> makeHttp2Connection(Loop& loop, std::unique_ptr<Stream> stream,
                                                const HttpClientOptions& options,
                                                ConnectionOwner& owner) {
  return std::make_shared<Http2Connection>(loop, std::move(stream), options, owner);
}

}  // namespace cadre::net
