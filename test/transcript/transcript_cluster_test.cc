// Runs every transcript in test/cases against the API server of a kubeconfig, each as a test of its
// own:
//   transcript_cluster_test --kubeconfig FILE [--context NAME] [--show] [--gtest_filter=...]
// --show prints every answer. --controllers plays those of test/cases/controllers instead, which
// need a garbage collector and its like. Without the flag, CADRE_TEST_KUBECONFIG names the file.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "kube/config.h"
#include "transcript/case.h"
#include "transcript/runner.h"

namespace cadre::transcript {
namespace {

// What the tests share, made by main before they run.
struct Environment {
  kube::ConfigOptions config;
  RunOptions run;
  net::Loop loop;
  Random random = Random::fromSystem();
  std::unique_ptr<Server> server;
};

class TranscriptTest : public testing::Test {
 public:
  TranscriptTest(Environment& environment, std::string path)
      : environment_(environment), path_(std::move(path)) {}

  void TestBody() override {
    auto transcript = loadCase(path_);
    ASSERT_TRUE(transcript.ok()) << transcript.error().text();
    if (auto failure =
            run(*environment_.server, *transcript, environment_.random, environment_.run))
      ADD_FAILURE_AT(path_.c_str(), failure->line) << failure->text;
  }

 private:
  Environment& environment_;
  const std::string path_;
};

// create-conflict.yaml is the test Transcript.create_conflict: a filter reads - as "not".
void registerCases(Environment& environment, const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    std::string name = file.stem().string();
    std::replace(name.begin(), name.end(), '-', '_');
    testing::RegisterTest("Transcript", name.c_str(), nullptr, nullptr, file.c_str(), 1,
                          [&environment, path = file.string()]() -> testing::Test* {
                            return new TranscriptTest(environment, path);
                          });
  }
}

// Says what is missing, when something is.
std::string connect(Environment& environment) {
  if (environment.config.kubeconfig.empty())
    return "no API server: give --kubeconfig FILE or set CADRE_TEST_KUBECONFIG "
           "(`tools/cluster up api` starts one and prints its file)";
  auto config = kube::loadConfig(environment.config);
  if (!config) return config.error().text();
  auto server = Server::connect(environment.loop, *std::move(config));
  if (!server) return server.error().text();
  environment.server = *std::move(server);
  return {};
}

int runAll(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  Environment environment;
  if (const char* file = std::getenv("CADRE_TEST_KUBECONFIG")) environment.config.kubeconfig = file;
  std::filesystem::path folder = CADRE_CASES;
  for (int i = 1; i < argc; ++i) {
    std::string_view flag = argv[i];
    if (flag == "--show") {
      environment.run.show = true;
    } else if (flag == "--controllers") {
      folder /= "controllers";
    } else if (flag == "--kubeconfig" && i + 1 < argc) {
      environment.config.kubeconfig = argv[++i];
    } else if (flag == "--context" && i + 1 < argc) {
      environment.config.context = argv[++i];
    } else {
      std::fprintf(stderr, "unknown or incomplete flag %s\n", argv[i]);
      return 2;
    }
  }
  registerCases(environment, folder);
  if (!testing::GTEST_FLAG(list_tests))
    if (std::string problem = connect(environment); !problem.empty()) {
      std::fprintf(stderr, "transcript_cluster_test: FAILED: %s\n", problem.c_str());
      return 1;
    }
  return RUN_ALL_TESTS();
}

}  // namespace
}  // namespace cadre::transcript

int main(int argc, char** argv) { return cadre::transcript::runAll(argc, argv); }
