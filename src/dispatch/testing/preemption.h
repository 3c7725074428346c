#pragma once
// Makes threads lose their processor at any instruction, which a kernel with time to spare seldom
// does: while this lives, one thread of the process after the other is sent a signal whose handler
// sleeps for a moment.

#include <dirent.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <random>
#include <thread>
#include <vector>

namespace nimbus::dispatch {

class Preemption {
 public:
  explicit Preemption(std::uint64_t seed) : random_(static_cast<unsigned>(seed)) {
    struct sigaction action = {};
    action.sa_handler = sleepAWhile;
    action.sa_flags = SA_RESTART;
    sigaction(kSignal, &action, nullptr);
    thread_ = std::thread([this] { run(); });
  }
  ~Preemption() {
    done_.store(true);
    thread_.join();
  }
  Preemption(const Preemption&) = delete;
  Preemption& operator=(const Preemption&) = delete;

 private:
  static constexpr int kSignal = SIGUSR2;

  static void sleepAWhile(int) {
    const int before = errno;
    timespec pause = {.tv_sec = 0, .tv_nsec = 300'000};
    nanosleep(&pause, nullptr);
    errno = before;
  }

  static std::vector<pid_t> threads() {
    std::vector<pid_t> found;
    DIR* const directory = opendir("/proc/self/task");
    while (const dirent* const entry = readdir(directory)) {
      if (const int id = std::atoi(entry->d_name); id != 0) found.push_back(id);
    }
    closedir(directory);
    return found;
  }

  void run() {
    const auto own = static_cast<pid_t>(syscall(SYS_gettid));
    while (!done_.load()) {
      const std::vector<pid_t> all = threads();
      for (int i = 0; i < 10; ++i) {
        const pid_t victim = all[random_() % all.size()];
        // One that has ended meanwhile is not there any more; that is fine.
        if (victim != own) syscall(SYS_tgkill, getpid(), victim, kSignal);
        std::this_thread::sleep_for(std::chrono::microseconds(random_() % 200));
      }
    }
  }

  std::minstd_rand random_;
  std::atomic<bool> done_ = false;
  std::thread thread_;
};

}  // namespace nimbus::dispatch
