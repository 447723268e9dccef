// Reading case files, and what is said about wrong ones.
#include "transcript/case.h"

namespace cadre::transcript {
namespace {

TEST(Case, ReadsEveryKindOfStep) {
  auto transcript = parseCase(R"(title: a rule
steps:
  - watch: GET /api/v1/pods?watch=true
    name: pods
  - do: POST /api/v1/pods
    headers: {Accept: application/json}
    body: {a: 1}
    anonymous: true
    retry: 5s
    expect:
      status: 201
      body: {a: $any}
  - events: pods
    expect:
      - type: ADDED
    ends: true
cleanup:
  - do: DELETE /api/v1/pods/x
)",
                              "x.yaml");
  ASSERT_TRUE(transcript.ok()) << transcript.error().text();
  ASSERT_EQ(transcript->steps.size(), 3u);
  EXPECT_EQ(transcript->steps[0].kind, Step::Kind::Watch);
  const Step& post = transcript->steps[1];
  EXPECT_EQ(post.label(), "step 2: POST /api/v1/pods");
  EXPECT_EQ(transcript->steps[2].label(), "step 3: events of pods");
  EXPECT_EQ(post.status, 201);
  EXPECT_EQ(post.retry, Duration(5s));
  EXPECT_TRUE(post.anonymous);
  EXPECT_EQ(transcript->lineOf(post.pointer + "/expect/body/a"), 12);
  EXPECT_TRUE(transcript->steps[2].ends);
  EXPECT_EQ(transcript->cleanup.size(), 1u);
}

TEST(Case, RefusesWhatMeansNothing) {
  auto message = [](std::string_view text) { return parseCase(text, "x.yaml").error().message; };
  EXPECT_EQ(message("title: a\nsteps:\n- do: GET /\n  expct: {}"),
            "x.yaml:4: \"expct\" means nothing here");
  EXPECT_EQ(message("title: a\nsteps:\n- do: GET /\n  expect: {status: 200, bodi: 1}"),
            "x.yaml:4: \"bodi\" means nothing here");
  EXPECT_EQ(message("title: a\nsteps:\n- do: pods"),
            "x.yaml:3: a step says what to do: a method and a path, or events of a watch");
  EXPECT_EQ(message("title: a\nsteps:\n- do: GET /\n  retry: often"),
            "x.yaml:4: retry is a duration such as 20s");
  EXPECT_EQ(message("title: a\nsteps:\n- watch: GET /"),
            "x.yaml:3: a watch has a name, for its events");
  EXPECT_EQ(message("title: a\nsteps:\n- do: GET /\n  expect: {body: 1}"),
            "x.yaml:4: an expectation has a status");
  EXPECT_EQ(message("title: a\nwebhooks: {look: {allowed: true}}\nsteps:\n- asked: other"),
            "x.yaml:4: the webhook that was asked is one of the case's webhooks");
  EXPECT_EQ(message("steps: []"),
            "x.yaml:1: a case has a title: which rule it shows, and for what");
}

}  // namespace
}  // namespace cadre::transcript
