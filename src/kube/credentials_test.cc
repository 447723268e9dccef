// When credentials are asked for anew, under a clock that the test moves.
#include "kube/credentials.h"

#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/format.h"

namespace cadre::kube {
namespace {

using testing::HasSubstr;
constexpr Duration kSoon = 20s;

// Our own stdin is another file for as long as this lives.
class Stdin {
 public:
  explicit Stdin(int file) : before_(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)) {
    ::dup2(file, STDIN_FILENO);
    ::close(file);
  }
  ~Stdin() {
    ::dup2(before_, STDIN_FILENO);
    ::close(before_);
  }

 private:
  int before_;
};

class CredentialsTest : public testing::Test {
 protected:
  CredentialsTest() {
    std::string name =
        (std::filesystem::temp_directory_path() / "cadre-credentials-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~CredentialsTest() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, std::string_view text) {
    std::ofstream(folder_ + "/" + name) << text;
    return folder_ + "/" + name;
  }
  void use(const Config& config) {
    credentials_ =
        makeCredentials(loop_, clock_, config, {{"PATH", "/usr/bin:/bin"}}, Logger::silent());
  }
  // A plugin whose token is what the script prints.
  void usePlugin(const std::string& script,
                 ExecPlugin::InteractiveMode mode = ExecPlugin::InteractiveMode::Never,
                 const std::string& expires = "") {
    std::string answer =
        R"({\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"$token\")";
    if (!expires.empty()) answer += R"(,\"expirationTimestamp\":\")" + expires + R"(\")";
    Config config{.source = "a test"};
    config.exec = ExecPlugin{.command = "sh",
                             .args = {"-c", format("token=$({})\necho \"{}}}}}\"", script, answer)},
                             .api_version = "client.authentication.k8s.io/v1",
                             .interactive_mode = mode};
    use(config);
  }
  // One that counts how often it was run.
  void useCountingPlugin(const std::string& expires) {
    usePlugin(format("echo x >> {0}/runs; wc -l < {0}/runs", folder_),
              ExecPlugin::InteractiveMode::Never, expires);
  }
  // The header's value, or what went wrong.
  std::string get() {
    auto identity = net::await<Credentials::Identity>(
        loop_, [&](auto done) { return credentials_->get(std::move(done)); }, kSoon);
    return identity ? identity->authorization : identity.error().text();
  }

  net::Loop loop_;
  FakeClock clock_;
  std::string folder_;
  std::unique_ptr<Credentials> credentials_;
};

TEST_F(CredentialsTest, ATokenFileIsReadAgainEveryMinute) {
  Config config;
  config.token = "first";
  config.token_file = write("token", "second\n");
  use(config);
  clock_.advance(59s);
  EXPECT_EQ(get(), "Bearer first");
  clock_.advance(1s);
  EXPECT_EQ(get(), "Bearer second");
  write("token", "third");
  clock_.advance(59s);
  EXPECT_EQ(get(), "Bearer second");
  clock_.advance(1s);
  EXPECT_EQ(get(), "Bearer third");
  std::filesystem::remove(config.token_file);
  clock_.advance(60s);
  EXPECT_EQ(get(), "Bearer third");
  ASSERT_EQ(::mkfifo(config.token_file.c_str(), 0600), 0);  // nobody ever writes to it
  clock_.advance(60s);
  EXPECT_EQ(get(), "Bearer third");
}

TEST_F(CredentialsTest, APluginIsAskedAgainShortlyBeforeItsAnswerExpires) {
  useCountingPlugin(formatTime(clock_.now() + 60s));
  EXPECT_EQ(get(), "Bearer 1");
  clock_.advance(49s);
  EXPECT_EQ(get(), "Bearer 1");
  clock_.advance(1s);  // ten seconds are what a request may take on its way
  EXPECT_EQ(get(), "Bearer 2");
}

TEST_F(CredentialsTest, AnAnswerThatDoesNotExpireIsKept) {
  useCountingPlugin("");
  EXPECT_EQ(get(), "Bearer 1");
  clock_.advance(24h * 365);
  EXPECT_EQ(get(), "Bearer 1");
}

TEST_F(CredentialsTest, AnAnswerThatExpiresNobodyKnowsWhenIsRefused) {
  useCountingPlugin("tomorrow");
  EXPECT_THAT(get(), HasSubstr("gave an expirationTimestamp that is no time"));
}

TEST_F(CredentialsTest, APluginMayAskWhereThereIsATerminal) {
  int terminal = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  ASSERT_GE(terminal, 0);
  ASSERT_EQ(::grantpt(terminal) | ::unlockpt(terminal), 0);
  Stdin shown(::open(::ptsname(terminal), O_RDWR | O_NOCTTY));
  const std::string look =
      R"(case $KUBERNETES_EXEC_INFO in *'"interactive":true'*) echo -n told-;; esac; [ -t 0 ] && echo -n asks || echo silent)";
  usePlugin(look, ExecPlugin::InteractiveMode::IfAvailable);
  EXPECT_EQ(get(), "Bearer told-asks");
  usePlugin(look, ExecPlugin::InteractiveMode::Always);
  EXPECT_EQ(get(), "Bearer told-asks");
  usePlugin(look, ExecPlugin::InteractiveMode::Never);
  EXPECT_EQ(get(), "Bearer silent");
  ::close(terminal);
}

TEST_F(CredentialsTest, APluginThatIsNotThereIsToBeInstalled) {
  Config config{.source = "a test"};
  config.exec = ExecPlugin{.command = "no-such-plugin",
                           .interactive_mode = ExecPlugin::InteractiveMode::Never};
  use(config);
  EXPECT_THAT(get(), HasSubstr("is not found; install it, or correct \"command\""));
}

TEST_F(CredentialsTest, WhatAPluginComplainsAboutIsShownWithoutItsSecrets) {
  Config config{.source = "a test"};
  config.exec = ExecPlugin{.command = "sh",
                           .args = {"-c", "echo refused: token=hunter2 >&2; exit 1"},
                           .interactive_mode = ExecPlugin::InteractiveMode::Never};
  use(config);
  EXPECT_THAT(get(), HasSubstr("ended with code 1: refused: token=[redacted]"));
}

TEST_F(CredentialsTest, APluginThatMustAskNeedsATerminal) {
  Stdin none(::open("/dev/null", O_RDONLY));
  usePlugin("echo x", ExecPlugin::InteractiveMode::Always);
  EXPECT_THAT(get(), HasSubstr("wants to ask something, and there is no terminal"));
  usePlugin("[ -t 0 ] && echo asks || echo silent", ExecPlugin::InteractiveMode::IfAvailable);
  EXPECT_EQ(get(), "Bearer silent");
}

}  // namespace
}  // namespace cadre::kube
