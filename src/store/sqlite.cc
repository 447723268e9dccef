#include "store/sqlite.h"

#include <cerrno>
#include <utility>

#include "base/format.h"
#include "base/strings.h"
#include "store/files.h"

namespace cadre::store {

Statement& Statement::bind(int parameter, std::int64_t number) {
  sqlite3_bind_int64(statement_.get(), parameter, number);
  return *this;
}

Statement& Statement::bind(int parameter, std::string_view bytes) {
  // No pointer would be NULL, which is something else than no bytes.
  const char* data = bytes.empty() ? "" : bytes.data();
  sqlite3_bind_blob64(statement_.get(), parameter, data, bytes.size(), SQLITE_STATIC);
  return *this;
}

Statement& Statement::bind(int parameter, std::optional<std::string_view> bytes) {
  if (bytes) return bind(parameter, *bytes);
  sqlite3_bind_null(statement_.get(), parameter);
  return *this;
}

Statement& Statement::bindText(int parameter, std::string_view text) {
  sqlite3_bind_text64(statement_.get(), parameter, text.data(), text.size(), SQLITE_STATIC,
                      SQLITE_UTF8);
  return *this;
}

int Statement::step() {
  errno = 0;
  return sqlite3_step(statement_.get());
}

void Statement::reset() {
  sqlite3_reset(statement_.get());
  sqlite3_clear_bindings(statement_.get());
}

std::int64_t Statement::number(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

std::optional<std::string_view> Statement::bytes(int column) const {
  if (sqlite3_column_type(statement_.get(), column) == SQLITE_NULL) return std::nullopt;
  const void* data = sqlite3_column_blob(statement_.get(), column);
  auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column));
  return std::string_view(static_cast<const char*>(data), size);
}

Result<Database> Database::open(const std::string& path, Mode mode) {
  Database database;
  database.path_ = path;
  sqlite3* handle = nullptr;
  int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  // As a URI, where immutable means: no locks, and no file beside it.
  std::string name =
      mode == Mode::ReadWrite ? plainName(path) : "file:" + urlEncode(path) + "?immutable=1";
  flags |= mode == Mode::ReadWrite ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY | SQLITE_OPEN_URI;
  int code = sqlite3_open_v2(name.c_str(), &handle, flags, nullptr);
  database.handle_.reset(handle);
  if (!handle) return Error{Code::ResourceExhausted, "opening " + path + ": out of memory"};
  if (code != SQLITE_OK) return database.failure();
  // Nothing in a file may make SQLite do more than read and write tables.
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  CADRE_TRY(database.run("PRAGMA cell_size_check = ON"));
  return database;
}

Result<Statement> Database::prepare(std::string_view sql) const {
  sqlite3_stmt* statement = nullptr;
  errno = 0;
  int code = sqlite3_prepare_v3(handle(), sql.data(), static_cast<int>(sql.size()),
                                SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (code != SQLITE_OK) return failure();
  return Statement(statement);
}

Result<void> Database::run(std::string_view sql) const {
  CADRE_LET(Statement statement, prepare(sql));
  int code = SQLITE_ROW;
  while (code == SQLITE_ROW) code = statement.step();
  if (code != SQLITE_DONE) return failure();
  return {};
}

Result<Statement> Database::firstRow(std::string_view sql) const {
  CADRE_LET(Statement statement, prepare(sql));
  int code = statement.step();
  if (code == SQLITE_DONE) return damaged(path_, "a row is missing");
  if (code != SQLITE_ROW) return failure();
  return statement;
}

Result<std::int64_t> Database::number(std::string_view sql) const {
  CADRE_LET(Statement row, firstRow(sql));
  return row.number(0);
}

Result<std::string> Database::text(std::string_view sql) const {
  CADRE_LET(Statement row, firstRow(sql));
  return std::string(row.bytes(0).value_or(""));
}

Error Database::failure(const std::string& other) const {
  // Of a write SQLite keeps no error number of the system's, but it leaves that in place.
  int error = sqlite3_system_errno(handle());
  if (error == 0) error = errno;
  switch (sqlite3_extended_errcode(handle()) & 0xff) {
    case SQLITE_FULL:
      return {Code::ResourceExhausted,
              format("{} cannot grow: the disk is full, or the file as large as it may get; free "
                     "some space and try again",
                     other)};
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_READONLY:
      if (error != 0) return fileError(other, "cannot be read or written", error);
      return {Code::Unavailable, format("{} cannot be read or written: {}; check the disk", other,
                                        sqlite3_errmsg(handle()))};
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {Code::Conflict, format("{} is in use by another program: end that one first", other)};
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return damaged(path_, sqlite3_errmsg(handle()));
    case SQLITE_NOMEM:
      return {Code::ResourceExhausted, format("{}: out of memory", other)};
    default:
      return {Code::Internal, format("{}: {}", other, sqlite3_errmsg(handle()))};
  }
}

std::string plainName(const std::string& path) {
  return path.starts_with("file:") ? "./" + path : path;
}

Error damaged(const std::string& path, std::string_view why) {
  return {Code::DataLoss,
          format("{} is damaged ({}) and was left as it is: put a backup in its place, or move it "
                 "and {}-wal away to begin with nothing",
                 path, why, path)};
}

}  // namespace cadre::store
