#pragma once

// Private to `store`: SQLite as objects that clean up after themselves.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <sqlite3.h>

#include "base/result.h"

namespace cadre::store {

// One kept statement. Bound bytes are not copied: they live until reset().
class Statement {
 public:
  Statement() = default;
  explicit Statement(sqlite3_stmt* statement) : statement_(statement) {}

  Statement& bind(int parameter, std::int64_t number);
  Statement& bind(int parameter, std::string_view bytes);
  Statement& bind(int parameter, std::optional<std::string_view> bytes);
  Statement& bindText(int parameter, std::string_view text);

  int step();  // SQLITE_ROW, SQLITE_DONE, or an error, which Database::failure() then has words for
  void reset();

  std::int64_t number(int column) const;
  std::optional<std::string_view> bytes(int column) const;  // until the next step(); nothing: NULL

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

// Ends the use of a kept statement, so that it holds no lock and no bytes of others.
class Use {
 public:
  explicit Use(Statement& statement) : statement_(statement) {}
  ~Use() { statement_.reset(); }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  Statement* operator->() const { return &statement_; }

 private:
  Statement& statement_;
};

// One open file.
class Database {
 public:
  enum class Mode { ReadWrite, ReadOnlyUnchanging };

  static Result<Database> open(const std::string& path, Mode mode);

  const std::string& path() const { return path_; }
  sqlite3* handle() const { return handle_.get(); }

  Result<Statement> prepare(std::string_view sql) const;
  Result<void> run(std::string_view sql) const;             // what it answers is thrown away
  Result<std::int64_t> number(std::string_view sql) const;  // of its first row
  Result<std::string> text(std::string_view sql) const;     // of its first row
  bool inTransaction() const { return sqlite3_get_autocommit(handle()) == 0; }

  // What SQLite's last answer means to people; of a file that it wrote besides, if so.
  Error failure() const { return failure(path_); }
  Error failure(const std::string& other) const;

 private:
  struct Close {
    void operator()(sqlite3* handle) const { sqlite3_close(handle); }
  };
  Result<Statement> firstRow(std::string_view sql) const;

  std::string path_;
  std::unique_ptr<sqlite3, Close> handle_;
};

// A path that SQLite takes as one: Debian's takes what begins with "file:" for a URI.
std::string plainName(const std::string& path);

// The file is not what was once written, because of `why`.
Error damaged(const std::string& path, std::string_view why);

}  // namespace cadre::store
