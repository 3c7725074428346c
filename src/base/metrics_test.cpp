#include "base/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <string>
#include <thread>
#include <vector>

namespace nimbus {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using enum Metrics::Values;

TEST(MetricsTest, ExposesWhatWasCounted) {
  Metrics metrics;
  auto calls = metrics.counter("calls_total", "Calls made.");
  calls.increment();
  calls.increment(2);
  auto open = metrics.gauge("open", "Open now.");
  open.set(5);
  open.add(-2);
  EXPECT_THAT(metrics.expose(),
              AllOf(HasSubstr("# HELP calls_total Calls made.\n# TYPE calls_total counter\n"
                              "calls_total 3\n"),
                    HasSubstr("# TYPE open gauge\nopen 3\n")));
}

TEST(MetricsTest, HistogramsCountIntoTheirBuckets) {
  Metrics metrics;
  auto took = metrics.histogram("took_seconds", "Time.", {0.1, 1});
  took.observe(0.05);
  took.observe(0.5);
  took.observe(5);
  EXPECT_THAT(metrics.expose(), AllOf(HasSubstr("took_seconds_count 3\n"),
                                      HasSubstr("took_seconds_bucket{le=\"0.1\"} 1\n"),
                                      HasSubstr("took_seconds_bucket{le=\"1\"} 2\n"),
                                      HasSubstr("took_seconds_bucket{le=\"+Inf\"} 3\n")));
}

TEST(MetricsTest, TheSameLabelsAreTheSameMetric) {
  Metrics metrics;
  auto family = metrics.counters("calls_total", "Calls.", {{"function", Open}, {"status"}});
  auto first = family.with({"cart", "ok"});
  auto copy = first;
  family.with({"cart", "ok"}).increment();
  family.with({"cart", "failed"}).increment();
  copy.increment();
  EXPECT_THAT(metrics.expose(),
              AllOf(HasSubstr("calls_total{function=\"cart\",status=\"ok\"} 2\n"),
                    HasSubstr("calls_total{function=\"cart\",status=\"failed\"} 1\n")));
}

TEST(MetricsTest, LabelValuesAreEscaped) {
  Metrics metrics;
  metrics.counters("calls_total", "Calls.", {{"function", Open}}).with({"a\"b\\c\nd"}).increment();
  EXPECT_THAT(metrics.expose(), HasSubstr(R"(calls_total{function="a\"b\\c\nd"} 1)"));
}

TEST(MetricsTest, BeyondItsBoundAFamilyCountsOpenValuesAsOther) {
  Metrics metrics;
  auto family = metrics.counters("calls_total", "Calls.", {{"function", Open}, {"status"}}, 2);
  family.with({"a", "ok"}).increment();
  family.with({"b", "ok"}).increment();
  for (int i = 0; i < 100; ++i) family.with({"new" + std::to_string(i), "ok"}).increment();
  family.with({"new", "failed"}).increment();
  family.with({"a", "ok"}).increment();

  const std::string text = metrics.expose();
  EXPECT_THAT(
      text, AllOf(HasSubstr("{function=\"a\",status=\"ok\"} 2\n"),
                  HasSubstr("{function=\"b\",status=\"ok\"} 1\n"),
                  HasSubstr("{function=\"other\",status=\"ok\"} 100\n"),
                  HasSubstr("{function=\"other\",status=\"failed\"} 1\n"), Not(HasSubstr("new"))));
}

TEST(MetricsTest, ReadingsAreTakenWhenExposed) {
  Metrics metrics;
  int value = 1;
  metrics.onScrape(Metrics::Kind::Gauge, "size", "Size.", [&] { return value; });
  EXPECT_THAT(metrics.expose(), HasSubstr("# TYPE size gauge\nsize 1\n"));
  value = 2;
  EXPECT_THAT(metrics.expose(), HasSubstr("\nsize 2\n"));
}

TEST(MetricsTest, HandlesMayBeUsedFromManyThreadsWhileExposing) {
  Metrics metrics;
  auto family = metrics.counters("calls_total", "Calls.", {{"thread", Open}});
  auto shared = metrics.counter("shared_total", "Shared.");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int n = 0; n < 5'000; ++n) {
        shared.increment();
        if (n % 100 == 0) family.with({std::to_string(i)}).increment();
      }
    });
  }
  for (int i = 0; i < 20; ++i) static_cast<void>(metrics.expose());
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(metrics.expose(), AllOf(HasSubstr("shared_total 20000\n"),
                                      HasSubstr("calls_total{thread=\"3\"} 50\n")));
}

// The value behind `name `, or a figure no metric has.
double valueOf(const std::string& text, const std::string& name) {
  const std::size_t at = text.find("\n" + name + " ");
  return at == std::string::npos ? -1 : std::stod(text.substr(at + name.size() + 2));
}

TEST(MetricsTest, ProcessMetricsAreThoseOfThisProcess) {
  Metrics metrics;
  metrics.addProcessMetrics();
  const std::string text = metrics.expose();
  EXPECT_GT(valueOf(text, "process_cpu_seconds_total"), 0);
  EXPECT_GT(valueOf(text, "process_resident_memory_bytes"), 1e5);
  EXPECT_GT(valueOf(text, "process_virtual_memory_bytes"),
            valueOf(text, "process_resident_memory_bytes"));
  EXPECT_GE(valueOf(text, "process_open_fds"), 3);
  EXPECT_GT(valueOf(text, "process_max_fds"), 3);
  EXPECT_GE(valueOf(text, "process_threads"), 1);
  const auto now = static_cast<double>(std::time(nullptr));
  EXPECT_NEAR(valueOf(text, "process_start_time_seconds"), now, 300);
}

TEST(MetricsDeathTest, DeclaringANameTwiceIsABug) {
  Metrics metrics;
  metrics.counter("calls_total", "Calls.").increment();
  EXPECT_DEATH(static_cast<void>(metrics.gauge("calls_total", "Other.")), "declared once");
}

TEST(MetricsTest, ASourceWritesFamiliesWhenSomebodyLooks) {
  Metrics metrics;
  int looks = 0;
  metrics.onScrape([&](Metrics::Scrape& scrape) {
    ++looks;
    scrape.family(Metrics::Kind::Counter, "looks_total", "How often.");
    scrape.sample({{"who", "a\"b"}}, looks);
    scrape.family(Metrics::Kind::Histogram, "took_seconds", "Time.");
    scrape.sample({}, Metrics::Scrape::Distribution{{0.5, 1}, {2, 1, 3}, 7.5});
    scrape.family(Metrics::Kind::Gauge, "empty", "Nothing yet.");
  });
  EXPECT_EQ(looks, 0);
  metrics.expose();
  EXPECT_THAT(metrics.expose(),
              AllOf(HasSubstr("looks_total{who=\"a\\\"b\"} 2\n"),
                    HasSubstr("took_seconds_count 6\ntook_seconds_sum 7.5\n"),
                    HasSubstr("took_seconds_bucket{le=\"0.5\"} 2\n"),
                    HasSubstr("took_seconds_bucket{le=\"1\"} 3\n"),
                    HasSubstr("took_seconds_bucket{le=\"+Inf\"} 6\n"),
                    HasSubstr("# HELP empty Nothing yet.\n# TYPE empty gauge\n")));
}

}  // namespace
}  // namespace nimbus
