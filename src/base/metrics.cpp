#include "base/metrics.h"

#include "base/assert.h"

#include <dirent.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

namespace nimbus {
namespace {

constexpr std::string_view kOther = "other";

// Decides which sets of label values a family keeps.
class LabelSets {
 public:
  LabelSets(Metrics::Labels labels, std::size_t most) : labels_(std::move(labels)), most_(most) {}

  // `values`, or what is counted in their place.
  std::map<std::string, std::string> admit(const Metrics::LabelValues& values) {
    NIMBUS_ASSERT(values.size() == labels_.size(), "a value for each label");
    const bool full = seen_.size() >= most_ && !seen_.contains(values);
    std::map<std::string, std::string> named;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool replaced = full && labels_[i].values == Metrics::Values::Open;
      named.emplace(labels_[i].name, replaced ? kOther : values[i]);
    }
    if (!full) seen_.insert(values);
    return named;
  }

 private:
  const Metrics::Labels labels_;
  const std::size_t most_;
  std::set<Metrics::LabelValues> seen_;
};

// What a family's `with` needs, shared by its copies.
template <typename Metric>
struct FamilyState {
  FamilyState(prometheus::Family<Metric>& metrics, Metrics::Labels labels, std::size_t most)
      : family(metrics), sets(std::move(labels), most) {}

  prometheus::Family<Metric>& family;
  std::mutex mutex;
  LabelSets sets;  // guarded by mutex
};

struct Reading {
  Metrics::Kind kind;
  std::string name;
  std::string help;
  std::function<double()> read;
};

prometheus::MetricFamily familyOf(const Reading& reading) {
  prometheus::MetricFamily family;
  family.name = reading.name;
  family.help = reading.help;
  prometheus::ClientMetric& metric = family.metric.emplace_back();
  if (reading.kind == Metrics::Kind::Counter) {
    family.type = prometheus::MetricType::Counter;
    metric.counter.value = reading.read();
  } else {
    family.type = prometheus::MetricType::Gauge;
    metric.gauge.value = reading.read();
  }
  return family;
}

// The fields of /proc/self/stat that follow the program's name, which may itself hold spaces and
// parentheses; the first is field 3 of proc(5).
std::vector<std::string> processStat() {
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  std::istringstream rest(text.substr(std::min(text.rfind(')') + 1, text.size())));
  std::vector<std::string> fields;
  for (std::string field; rest >> field;) fields.push_back(field);
  return fields;
}

double statField(std::size_t number) {
  const std::vector<std::string> fields = processStat();
  const std::size_t index = number - 3;
  double value = 0;
  if (index < fields.size()) {
    const std::string& text = fields[index];
    std::from_chars(text.data(), text.data() + text.size(), value);
  }
  return value;
}

double cpuSeconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

double openFiles() {
  DIR* directory = ::opendir("/proc/self/fd");
  if (directory == nullptr) return 0;
  int entries = 0;
  while (::readdir(directory) != nullptr) ++entries;
  ::closedir(directory);
  return std::max(entries - 3, 0);  // `.`, `..` and the directory's own
}

double maxFiles() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<double>(limit.rlim_cur);
}

double startTime() {
  double boot = 0;
  std::ifstream file("/proc/stat");
  for (std::string word; file >> word;) {
    if (word == "btime") file >> boot;
  }
  constexpr std::size_t kStartTime = 22;
  return boot + statField(kStartTime) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace

struct Metrics::State {
  // Names the Registry would otherwise merge in silence.
  void claim(const std::string& name) {
    const std::lock_guard lock(mutex);
    NIMBUS_ASSERT(names.insert(name).second, "a metric is declared once");
  }

  prometheus::Registry registry;
  std::mutex mutex;
  std::set<std::string> names;                        // guarded by mutex
  std::vector<Reading> readings;                      // guarded by mutex
  std::vector<std::function<void(Scrape&)>> writers;  // guarded by mutex
};

void Counter::increment(double by) {
  counter_->Increment(by);
}
void Gauge::set(double value) {
  gauge_->Set(value);
}
void Gauge::add(double change) {
  gauge_->Increment(change);
}
void Histogram::observe(double value) {
  histogram_->Observe(value);
}

Metrics::Metrics() : state_(std::make_unique<State>()) {}
Metrics::~Metrics() = default;

Counter Metrics::counter(std::string name, std::string help) {
  return counters(std::move(name), std::move(help), {}).with({});
}

Gauge Metrics::gauge(std::string name, std::string help) {
  return gauges(std::move(name), std::move(help), {}).with({});
}

Histogram Metrics::histogram(std::string name, std::string help, std::vector<double> buckets) {
  return histograms(std::move(name), std::move(help), {}, std::move(buckets)).with({});
}

Metrics::Family<Counter> Metrics::counters(std::string name, std::string help, Labels labels,
                                           std::size_t max_sets) {
  state_->claim(name);
  auto family = std::make_shared<FamilyState<prometheus::Counter>>(
      prometheus::BuildCounter().Name(name).Help(help).Register(state_->registry),
      std::move(labels), max_sets);
  return Family<Counter>([family](const LabelValues& values) {
    const std::lock_guard lock(family->mutex);
    return Counter(family->family.Add(family->sets.admit(values)));
  });
}

Metrics::Family<Gauge> Metrics::gauges(std::string name, std::string help, Labels labels,
                                       std::size_t max_sets) {
  state_->claim(name);
  auto family = std::make_shared<FamilyState<prometheus::Gauge>>(
      prometheus::BuildGauge().Name(name).Help(help).Register(state_->registry), std::move(labels),
      max_sets);
  return Family<Gauge>([family](const LabelValues& values) {
    const std::lock_guard lock(family->mutex);
    return Gauge(family->family.Add(family->sets.admit(values)));
  });
}

Metrics::Family<Histogram> Metrics::histograms(std::string name, std::string help, Labels labels,
                                               std::vector<double> buckets, std::size_t max_sets) {
  state_->claim(name);
  auto family = std::make_shared<FamilyState<prometheus::Histogram>>(
      prometheus::BuildHistogram().Name(name).Help(help).Register(state_->registry),
      std::move(labels), max_sets);
  return Family<Histogram>([family, buckets = std::move(buckets)](const LabelValues& values) {
    const std::lock_guard lock(family->mutex);
    return Histogram(family->family.Add(family->sets.admit(values), buckets));
  });
}

void Metrics::onScrape(Kind kind, std::string name, std::string help,
                       std::function<double()> read) {
  state_->claim(name);
  const std::lock_guard lock(state_->mutex);
  state_->readings.push_back({kind, std::move(name), std::move(help), std::move(read)});
}

void Metrics::onScrape(std::function<void(Scrape&)> write) {
  const std::lock_guard lock(state_->mutex);
  state_->writers.push_back(std::move(write));
}

void Metrics::Scrape::family(Kind kind, std::string name, std::string help) {
  prometheus::MetricFamily& family = families_.emplace_back();
  family.name = std::move(name);
  family.help = std::move(help);
  family.type = kind == Kind::Counter ? prometheus::MetricType::Counter
                : kind == Kind::Gauge ? prometheus::MetricType::Gauge
                                      : prometheus::MetricType::Histogram;
}

namespace {

prometheus::ClientMetric& addMetric(prometheus::MetricFamily& family,
                                    const Metrics::Scrape::Labels& labels) {
  prometheus::ClientMetric& metric = family.metric.emplace_back();
  for (const auto& [name, value] : labels) metric.label.push_back({name, value});
  return metric;
}

}  // namespace

void Metrics::Scrape::sample(const Labels& labels, double value) {
  prometheus::MetricFamily& family = families_.back();
  prometheus::ClientMetric& metric = addMetric(family, labels);
  if (family.type == prometheus::MetricType::Counter) {
    metric.counter.value = value;
  } else {
    metric.gauge.value = value;
  }
}

void Metrics::Scrape::sample(const Labels& labels, const Distribution& distribution) {
  NIMBUS_ASSERT(distribution.counts.size() == distribution.bounds.size() + 1,
                "a count for each bound, and one for what is above");
  prometheus::ClientMetric& metric = addMetric(families_.back(), labels);
  std::uint64_t within = 0;
  for (std::size_t i = 0; i < distribution.counts.size(); ++i) {
    within += distribution.counts[i];
    const bool last = i == distribution.bounds.size();
    metric.histogram.bucket.push_back(
        {within, last ? std::numeric_limits<double>::infinity() : distribution.bounds[i]});
  }
  metric.histogram.sample_count = within;
  metric.histogram.sample_sum = distribution.sum;
}

void Metrics::addProcessMetrics() {
  constexpr std::size_t kThreads = 20;
  constexpr std::size_t kVirtualSize = 23;
  constexpr std::size_t kResidentPages = 24;
  onScrape(Kind::Counter, "process_cpu_seconds_total", "User and system CPU time spent.",
           cpuSeconds);
  onScrape(Kind::Gauge, "process_resident_memory_bytes", "Memory in RAM.",
           [] { return statField(kResidentPages) * static_cast<double>(::sysconf(_SC_PAGESIZE)); });
  onScrape(Kind::Gauge, "process_virtual_memory_bytes", "Memory addressed.",
           [] { return statField(kVirtualSize); });
  onScrape(Kind::Gauge, "process_open_fds", "Open file descriptors.", openFiles);
  onScrape(Kind::Gauge, "process_max_fds", "How many may be open.", maxFiles);
  onScrape(Kind::Gauge, "process_threads", "Threads.", [] { return statField(kThreads); });
  onScrape(Kind::Gauge, "process_start_time_seconds", "When the process began, as Unix time.",
           [start = startTime()] { return start; });
}

std::string Metrics::expose() const {
  std::vector<prometheus::MetricFamily> families = state_->registry.Collect();
  std::vector<Reading> readings;
  std::vector<std::function<void(Scrape&)>> writers;
  {
    const std::lock_guard lock(state_->mutex);
    readings = state_->readings;
    writers = state_->writers;
  }
  for (const Reading& reading : readings) families.push_back(familyOf(reading));
  Scrape scrape(families);
  for (const auto& write : writers) write(scrape);
  std::sort(families.begin(), families.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace nimbus
