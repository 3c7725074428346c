#pragma once
// Figures about a running server, in Prometheus' text format.
//
//   auto commits = metrics.counter("nimbus_store_commits_total", "Commits made durable.");
//   commits.increment();
//
//   auto calls = metrics.counters("nimbus_calls_total", "Calls.", {{"function_id", Values::Open},
//                                                                  {"status", Values::Closed}});
//   auto failed = calls.with({"cart", "failed"});   // looked up once, kept, used often
//
// Handles are small and may be copied; using one takes no lock and no lookup. They stay valid as
// long as the Metrics they are from.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace prometheus {
class Counter;
class Gauge;
class Histogram;
struct MetricFamily;
}  // namespace prometheus

namespace nimbus {

class Counter {
 public:
  void increment(double by = 1);  // by >= 0

 private:
  friend class Metrics;
  explicit Counter(prometheus::Counter& counter) : counter_(&counter) {}
  prometheus::Counter* counter_;
};

class Gauge {
 public:
  void set(double value);
  void add(double change);

 private:
  friend class Metrics;
  explicit Gauge(prometheus::Gauge& gauge) : gauge_(&gauge) {}
  prometheus::Gauge* gauge_;
};

class Histogram {
 public:
  void observe(double value);

 private:
  friend class Metrics;
  explicit Histogram(prometheus::Histogram& histogram) : histogram_(&histogram) {}
  prometheus::Histogram* histogram_;
};

// Any thread may use any member.
class Metrics {
 public:
  // Who chooses a label's values: callers (function ids), so that their number has no bound of its
  // own, or we (status, method).
  enum class Values : std::uint8_t { Open, Closed };
  struct Label {
    std::string name;
    Values values = Values::Closed;
  };
  using Labels = std::vector<Label>;
  using LabelValues = std::vector<std::string>;

  // A family keeps this many sets of label values. For any set after that the open labels read
  // "other": a stream of new names costs a scrape its detail, not the server its memory.
  static constexpr std::size_t kMaxSets = 500;

  // Metrics of one name that differ in their labels.
  template <typename Handle>
  class Family {
   public:
    // One value for each label, in their order. Takes a lock: keep what it returns.
    Handle with(const LabelValues& values) const { return find_(values); }

   private:
    friend class Metrics;
    explicit Family(std::function<Handle(const LabelValues&)> find) : find_(std::move(find)) {}
    std::function<Handle(const LabelValues&)> find_;
  };

  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // A name is declared once. Counters end in `_total`; units are whole words (`_seconds`,
  // `_bytes`), as `promtool check metrics` asks.
  Counter counter(std::string name, std::string help);
  Gauge gauge(std::string name, std::string help);
  Histogram histogram(std::string name, std::string help, std::vector<double> buckets);

  Family<Counter> counters(std::string name, std::string help, Labels labels,
                           std::size_t max_sets = kMaxSets);
  Family<Gauge> gauges(std::string name, std::string help, Labels labels,
                       std::size_t max_sets = kMaxSets);
  Family<Histogram> histograms(std::string name, std::string help, Labels labels,
                               std::vector<double> buckets, std::size_t max_sets = kMaxSets);

  // For figures that someone else keeps: `read` is called when the metrics are exposed, on the
  // thread that exposes them, and must be callable as long as that may happen.
  enum class Kind : std::uint8_t { Counter, Gauge, Histogram };
  void onScrape(Kind kind, std::string name, std::string help, std::function<double()> read);

  // The same for whole families, whose labels come and go: `write` says all there is each time. The
  // names it uses are its own, and it uses the same ones every time.
  class Scrape;
  void onScrape(std::function<void(Scrape&)> write);

  // CPU time, memory, open files, threads and start time of this process.
  void addProcessMetrics();

  std::string expose() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// What one exposition is made of.
class Metrics::Scrape {
 public:
  using Labels = std::vector<std::pair<std::string, std::string>>;

  // How often a value was within each bound, and above all of them.
  struct Distribution {
    std::vector<double> bounds;         // rising
    std::vector<std::uint64_t> counts;  // one more than bounds
    double sum = 0;
  };

  // Begins a family. What follows is of this family. One without a sample is exposed all the same,
  // so that whoever looks for its name finds what it means.
  void family(Kind kind, std::string name, std::string help);
  void sample(const Labels& labels, double value);
  void sample(const Labels& labels, const Distribution& distribution);

 private:
  friend class Metrics;
  explicit Scrape(std::vector<prometheus::MetricFamily>& families) : families_(families) {}

  std::vector<prometheus::MetricFamily>& families_;
};

}  // namespace nimbus
