#include "kube/quantity.h"

#include <limits>

namespace cadre::kube {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

Quantity quantity(std::string_view text) {
  auto result = Quantity::parse(text);
  EXPECT_TRUE(result.ok()) << result.error().text();
  return result ? *result : Quantity();
}

// What k8s.io/apimachinery 0.34 gives for Value() and MilliValue(), and for String() once it has
// forgotten how the text was written; where its MilliValue() overflows, ours stops at the end.
TEST(Quantity, AsKubernetes) {
  struct Case {
    const char *text, *canonical;
    std::int64_t value, milli;
  };
  // clang-format off
  const Case kCases[] = {
      {"0", "0", 0, 0},
      {"1", "1", 1, 1000},
      {"-1", "-1", -1, -1000},
      {"+1", "1", 1, 1000},
      {"100", "100", 100, 100000},
      {"1000", "1k", 1000, 1000000},
      {"1000m", "1", 1, 1000},
      {"1e0", "1", 1, 1000},
      {"1e3", "1e3", 1000, 1000000},
      {"1E3", "1e3", 1000, 1000000},
      {"1e+3", "1e3", 1000, 1000000},
      {"1e-3", "1e-3", 1, 1},
      {"1e03", "1e3", 1000, 1000000},
      {"12e6", "12e6", 12000000, 12000000000},
      {"15e5", "1500e3", 1500000, 1500000000},
      {"1e4", "10e3", 10000, 10000000},
      {"100e2", "10e3", 10000, 10000000},
      {"0.1", "100m", 1, 100},
      {".5", "500m", 1, 500},
      {"5.", "5", 5, 5000},
      {"0.5", "500m", 1, 500},
      {"1.5", "1500m", 2, 1500},
      {"0.001", "1m", 1, 1},
      {"0.0001", "100u", 1, 1},
      {"0.000001", "1u", 1, 1},
      {"0.0000001", "100n", 1, 1},
      {"0.000000001", "1n", 1, 1},
      {"0.0000000001", "1n", 1, 1},
      {"1.0000000001", "1000000001n", 2, 1001},
      {"100m", "100m", 1, 100},
      {"1500m", "1500m", 2, 1500},
      {"2000m", "2", 2, 2000},
      {"1m", "1m", 1, 1},
      {"1u", "1u", 1, 1},
      {"1n", "1n", 1, 1},
      {"1000n", "1u", 1, 1},
      {"1000000n", "1m", 1, 1},
      {"1500u", "1500u", 1, 2},
      {"999n", "999n", 1, 1},
      {"-5m", "-5m", -1, -5},
      {"0m", "0", 0, 0},
      {"0Ki", "0", 0, 0},
      {"0.0", "0", 0, 0},
      {"-0", "0", 0, 0},
      {"00", "0", 0, 0},
      {"007", "7", 7, 7000},
      {"1k", "1k", 1000, 1000000},
      {"1M", "1M", 1000000, 1000000000},
      {"1G", "1G", 1000000000, 1000000000000},
      {"1T", "1T", 1000000000000, 1000000000000000},
      {"1P", "1P", 1000000000000000, 1000000000000000000},
      {"1E", "1E", 1000000000000000000, kMost},
      {"9E", "9E", 9000000000000000000, kMost},
      {"1500k", "1500k", 1500000, 1500000000},
      {"1024k", "1024k", 1024000, 1024000000},
      {"1.5k", "1500", 1500, 1500000},
      {"1.55M", "1550k", 1550000, 1550000000},
      {"12345k", "12345k", 12345000, 12345000000},
      {"1Ki", "1Ki", 1024, 1024000},
      {"1Mi", "1Mi", 1048576, 1048576000},
      {"1Gi", "1Gi", 1073741824, 1073741824000},
      {"1Ti", "1Ti", 1099511627776, 1099511627776000},
      {"1Pi", "1Pi", 1125899906842624, 1125899906842624000},
      {"1Ei", "1Ei", 1152921504606846976, kMost},
      {"7Ei", "7Ei", 8070450532247928832, kMost},
      {"1024Ki", "1Mi", 1048576, 1048576000},
      {"1536Mi", "1536Mi", 1610612736, 1610612736000},
      {"0.5Gi", "512Mi", 536870912, 536870912000},
      {"0.5Ki", "512", 512, 512000},
      {"0.5Mi", "512Ki", 524288, 524288000},
      {"1.5Gi", "1536Mi", 1610612736, 1610612736000},
      {"1.1Gi", "1181116006400m", 1181116007, 1181116006400},
      {"0.1Gi", "107374182400m", 107374183, 107374182400},
      {"0.1Ki", "102400m", 103, 102400},
      {"0.001Ki", "1024m", 2, 1024},
      {"0.0001Ki", "102400u", 1, 103},
      {"1023Ki", "1023Ki", 1047552, 1047552000},
      {"512Ki", "512Ki", 524288, 524288000},
      {"1000Ki", "1000Ki", 1024000, 1024000000},
      {"1.5Ki", "1536", 1536, 1536000},
      {"-1Ki", "-1Ki", -1024, -1024000},
      {"-1024Ki", "-1Mi", -1048576, -1048576000},
      {"-0.5Ki", "-512", -512, -512000},
      {"-0.5Gi", "-512Mi", -536870912, -536870912000},
      {"3000000000", "3G", 3000000000, 3000000000000},
      {"1234567890", "1234567890", 1234567890, 1234567890000},
      {"1234567890123", "1234567890123", 1234567890123, 1234567890123000},
      {"9223372036854775807", "9223372036854775807", 9223372036854775807, kMost},
      {"9223372036854775806.999999999", "9223372036854775806999999999n", 9223372036854775807, kMost},
      {"9223372036854775807n", "9223372036854775807n", 9223372037, 9223372036855},
      {"9.2E", "9200P", 9200000000000000000, kMost},
      {"1e18", "1e18", 1000000000000000000, kMost},
      {"1e-9", "1e-9", 1, 1},
      {"1e-10", "1e-9", 1, 1},
      {"1e-400", "1e-9", 1, 1},
      {"0e400", "0", 0, 0},
      {"1.25e3", "1250", 1250, 1250000},
      {"1.2345e2", "123450e-3", 124, 123450},
      {"123.456", "123456m", 124, 123456},
      {"0.123456789", "123456789n", 1, 124},
      {"0.1234567891", "123456790n", 1, 124},
      {"0.000000000000000000000000001", "1n", 1, 1},
      {"000000000000000000000000000001", "1", 1, 1000},
      {"1.000000000000000000000000000000", "1", 1, 1000},
      {"250000000000000001n", "250000000000000001n", 250000001, 250000000001},
      {"1000000000000001m", "1000000000000001m", 1000000000001, 1000000000000001},
      {"1.0Gi", "1Gi", 1073741824, 1073741824000},
      {"2048Mi", "2Gi", 2147483648, 2147483648000},
      {"100Mi", "100Mi", 104857600, 104857600000},
      {"64Mi", "64Mi", 67108864, 67108864000},
      {"0.25", "250m", 1, 250},
      {"3.0", "3", 3, 3000},
      {"1.10", "1100m", 2, 1100},
      {"1e-1", "100e-3", 1, 100},
      {"1e-2", "10e-3", 1, 10},
      {"33e-4", "3300e-6", 1, 4},
  };
  // clang-format on
  for (const Case& c : kCases) {
    Quantity parsed = quantity(c.text);
    EXPECT_EQ(parsed.text(), c.canonical) << c.text;
    EXPECT_EQ(parsed.value(), c.value) << c.text;
    EXPECT_EQ(parsed.milliValue(), c.milli) << c.text;
    EXPECT_EQ(quantity(parsed.text()), parsed) << c.text;
    EXPECT_EQ(quantity(parsed.text()).text(), c.canonical) << c.text;
  }
}

TEST(Quantity, Refused) {
  for (const char* text : {"1e3m", "1ei", "1e", "1ki", "1K", "1mi", "1KI", "1 Gi", " 1", "1 ", "1i",
                           "1.2.3", "--1", "1e1.5", "1e1e1", "1,5", "0x10", "1Gi3", "1e3Ki", "١",
                           "1e99999999999999999999", "Inf", "NaN",
                           // Kubernetes reads these as 0.
                           "Gi", ".", "-", "+", "e3", "", "-.", ".Ki"}) {
    auto result = Quantity::parse(text);
    ASSERT_FALSE(result.ok()) << text;
    EXPECT_EQ(result.error().code, Code::InvalidArgument);
    EXPECT_THAT(result.error().message, HasSubstr("such as 500m, 2, 1.5Gi or 1e3"));
  }
  EXPECT_THAT(Quantity::parse("1K").error().message,
              HasSubstr("\"1K\" is not a quantity: after the number comes \"K\""));
  EXPECT_FALSE(Quantity::parse(std::string_view("1\0", 2)).ok());
  EXPECT_FALSE(Quantity::parse(std::string(1000, '0')).ok());
}

TEST(Quantity, OutOfRange) {
  for (const char* text :
       {"7.99999999999999999999Ei", "1e29", "1e30", "1e400", "-1e400", "1e9223372036854775807",
        "99999999999999999999999999999999999999999999", "0.1234567890123456789Ki"}) {
    auto result = Quantity::parse(text);
    ASSERT_FALSE(result.ok()) << text;
    EXPECT_EQ(result.error().code, Code::InvalidArgument);
  }
  EXPECT_THAT(Quantity::parse("1e29").error().message, HasSubstr("it is beyond 1e29"));
  struct Large {
    const char *text, *canonical;
  };
  for (const Large& one :
       {Large{"8Ei", "9223372036854775807"}, Large{"-8Ei", "-9223372036854775807"},
        Large{"99999999999999999999999999999999999999999999Ki", "9223372036854775807"},
        Large{"9223372036854775808", "9223372036854775808"}, Large{"100E", "100E"},
        Large{"99999999999999999999999999999", "99999999999999999999999999999"},
        Large{"10000000000E", "10000000000E"}, Large{"1e28", "10e27"}, Large{"1Ei", "1Ei"}})
    EXPECT_EQ(quantity(one.text).text(), one.canonical);
  EXPECT_EQ(quantity("100E").value(), kMost);
  EXPECT_EQ(quantity("1Ei").roundedToMillis().text(), "1Ei");
  EXPECT_EQ(quantity("1.0001").roundedToMillis().text(), "1001m");
  EXPECT_EQ(quantity("-1.0001").roundedToMillis().text(), "-1001m");
  for (const char* text : {"-9223372036854775807", "9223372036854775807", "0e9223372036854775807",
                           "1e-9223372036854775807", "7.999999999999999999Ei"})
    EXPECT_TRUE(Quantity::parse(text).ok()) << text;
  EXPECT_EQ(quantity("-9223372036854775807").value(), -kMost);
  EXPECT_EQ(quantity("7.999999999999999999Ei").value(), kMost);
}

TEST(Quantity, RoundsAwayFromZero) {
  EXPECT_EQ(quantity("-0.0000000001").text(), "-1n");
  EXPECT_EQ(quantity("-0.0000000001").value(), -1);
  EXPECT_EQ(quantity("-1.1Gi").value(), -1181116007);
  EXPECT_EQ(quantity("-1.0001").milliValue(), -1001);
}

TEST(Quantity, ComparesByMeaning) {
  for (auto [a, b] : {std::pair{"1", "1000m"},
                      {"1", "1e0"},
                      {"1Ki", "1024"},
                      {"0", "0Gi"},
                      {"-0", "0"},
                      {"0.5Gi", "512Mi"},
                      {"1.5", "1500m"},
                      {"+2", "2.000"},
                      {"1G", "1000M"},
                      {"1e-3", "1m"}})
    EXPECT_EQ(quantity(a), quantity(b)) << a << " " << b;
  for (auto [a, b] : {std::pair{"1", "1001m"},
                      {"1G", "1Gi"},
                      {"-1", "0"},
                      {"-2", "-1"},
                      {"1n", "1u"},
                      {"9E", "7.9Ei"},
                      {"999999999n", "1"}})
    EXPECT_LT(quantity(a), quantity(b)) << a << " " << b;
}

TEST(Quantity, Adds) {
  struct Case {
    const char *a, *b, *sum;
  };
  for (const Case& c : {Case{"1", "500m", "1500m"},
                        {"512Mi", "512Mi", "1Gi"},
                        {"1Gi", "24", "1073741848"},
                        {"0", "1Gi", "1Gi"},
                        {"1M", "1Mi", "2048576"},
                        {"1Gi", "-1Gi", "0"},
                        {"1e3", "1", "1001"},
                        {"1Gi", "0.1", "1073741824100m"},
                        {"-1", "-1m", "-1001m"}})
    EXPECT_EQ(quantity(c.a).add(quantity(c.b))->text(), c.sum) << c.a << " " << c.b;
  EXPECT_EQ(quantity("7Ei").add(quantity("7Ei"))->text(), "14Ei");
  auto many = quantity("4Ei");
  for (int i = 0; i < 8; ++i) many = *many.add(many);
  EXPECT_EQ(many.text(), "1024Ei");
  auto beyond = quantity("6e28").add(quantity("6e28"));
  ASSERT_FALSE(beyond.ok());
  EXPECT_THAT(beyond.error().message, HasSubstr("the sum of 60e27 and 60e27 is beyond"));
  EXPECT_FALSE(quantity("-6e28").add(quantity("-6e28")).ok());
}

TEST(Quantity, FromJson) {
  EXPECT_EQ(Quantity::fromJson(2)->text(), "2");
  EXPECT_EQ(Quantity::fromJson(0.5)->text(), "500m");
  EXPECT_EQ(Quantity::fromJson("1Gi")->text(), "1Gi");
  EXPECT_FALSE(Quantity::fromJson(1e30).ok());
  for (const json::Value& value :
       {json::Value(), json::Value(true), json::Value(json::Array{}), json::Value(json::Object{})})
    EXPECT_FALSE(Quantity::fromJson(value).ok());
  EXPECT_EQ(Quantity().text(), "0");
}

}  // namespace
}  // namespace cadre::kube
