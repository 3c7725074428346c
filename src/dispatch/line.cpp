#include "dispatch/line.h"

#include <utility>

namespace nimbus::dispatch {

Lines::~Lines() {
  for (Line* line : buckets_) {
    while (line != nullptr) delete std::exchange(line, line->next_in_bucket);
  }
  while (spare_ != nullptr) delete std::exchange(spare_, spare_->next_in_bucket);
}

Line& Lines::begin(Session& session) {
  if (++size_ > buckets_.size()) resize(2 * buckets_.size());
  Line* line = spare_;
  if (line != nullptr) {
    spare_ = line->next_in_bucket;
    --spares_;
  } else {
    line = new Line;
  }
  line->session = &session;
  line->next_in_bucket = std::exchange(buckets_[bucketOf(session)], line);
  return *line;
}

void Lines::end(Line& line) {
  Line** link = &buckets_[bucketOf(*line.session)];
  while (*link != &line) link = &(*link)->next_in_bucket;
  *link = line.next_in_bucket;
  if (spares_ < kMostSpare) {
    line = Line();
    line.next_in_bucket = std::exchange(spare_, &line);
    ++spares_;
  } else {
    delete &line;
  }
  --size_;
  if (buckets_.size() > kFewestBuckets && 8 * size_ < buckets_.size()) resize(buckets_.size() / 4);
}

void Lines::resize(std::size_t buckets) {
  std::vector<Line*> old = std::exchange(buckets_, std::vector<Line*>(buckets));
  for (Line* line : old) {
    while (line != nullptr) {
      Line* const next = line->next_in_bucket;
      line->next_in_bucket = std::exchange(buckets_[bucketOf(*line->session)], line);
      line = next;
    }
  }
}

}  // namespace nimbus::dispatch
