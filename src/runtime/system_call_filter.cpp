#include "runtime/system_call_filter.h"

#include <fmt/format.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>

namespace nimbus::runtime {
namespace {

// By what they are for. What needs a capability is refused to a function already, but the code
// behind it is where kernels have had their holes.
constexpr std::array kRefused = {
    // other processes' memory and descriptors
    "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd", "kcmp",
    // file systems and roots
    "mount", "umount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "fsopen",
    "fsconfig", "fsmount", "fspick", "mount_setattr", "name_to_handle_at", "open_by_handle_at",
    "fanotify_init", "quotactl", "quotactl_fd", "swapon", "swapoff", "acct",
    // namespaces; clone and unshare are looked at below
    "setns", "sethostname", "setdomainname",
    // the kernel itself
    "bpf", "perf_event_open", "init_module", "finit_module", "delete_module", "kexec_load",
    "kexec_file_load", "reboot", "syslog", "iopl", "ioperm", "modify_ldt", "lookup_dcookie",
    "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register", "vhangup",
    // keys and the clock
    "add_key", "request_key", "keyctl", "settimeofday", "clock_settime", "clock_adjtime",
    "adjtimex",
    // memory that is counted as nobody's
    "memfd_create", "memfd_secret", "shmget", "mbind", "migrate_pages", "move_pages"};

constexpr std::uint64_t kNewNamespaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET |
                                         CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;

struct Release {
  void operator()(void* context) const { ::seccomp_release(context); }
};

// Collects the rules, and the first failure.
class Rules {
 public:
  explicit Rules(scmp_filter_ctx context) : context_(context) {}

  template <typename... Comparisons>
  void refuse(const char* call, int error, Comparisons... comparisons) {
    const int number = ::seccomp_syscall_resolve_name(call);
    if (number == __NR_SCMP_ERROR) return;  // not known to this machine: then nobody can call it
    const std::array<scmp_arg_cmp, sizeof...(comparisons)> list = {comparisons...};
    const int failed =
        ::seccomp_rule_add_array(context_, SCMP_ACT_ERRNO(static_cast<std::uint32_t>(error)),
                                 number, static_cast<unsigned>(list.size()), list.data());
    if (failed_ == 0) failed_ = failed;
  }

  int failed() const { return failed_; }

 private:
  scmp_filter_ctx context_;
  int failed_ = 0;
};

scmp_arg_cmp has(unsigned argument, std::uint64_t bit) {
  return {argument, SCMP_CMP_MASKED_EQ, bit, bit};
}

void addRules(Rules& rules) {
  for (const char* const call : kRefused) rules.refuse(call, EPERM);
  for (std::uint64_t bit = 1; bit <= kNewNamespaces; bit <<= 1) {
    if ((bit & kNewNamespaces) == 0) continue;
    rules.refuse("clone", EPERM, has(0, bit));
    rules.refuse("unshare", EPERM, has(0, bit));
  }
  // Its flags lie in memory, where no filter sees them. Libraries go on with clone.
  rules.refuse("clone3", ENOSYS);
  // What a terminal would take for typed.
  rules.refuse("ioctl", EPERM, scmp_arg_cmp{1, SCMP_CMP_MASKED_EQ, 0xffffffff, TIOCSTI});
  rules.refuse("ioctl", EPERM, scmp_arg_cmp{1, SCMP_CMP_MASKED_EQ, 0xffffffff, TIOCLINUX});
  // Local sockets and IP, and of these nothing raw.
  rules.refuse("socket", EAFNOSUPPORT, scmp_arg_cmp{0, SCMP_CMP_GT, AF_INET6, 0});
  for (const int family :
       {AF_UNSPEC, AF_AX25, AF_IPX, AF_APPLETALK, AF_NETROM, AF_BRIDGE, AF_ATMPVC, AF_X25}) {
    rules.refuse("socket", EAFNOSUPPORT,
                 scmp_arg_cmp{0, SCMP_CMP_EQ, static_cast<std::uint64_t>(family), 0});
  }
  constexpr std::uint64_t kType = 0xf;
  for (const std::uint64_t type : {std::uint64_t{SOCK_RAW}, std::uint64_t{SOCK_PACKET}}) {
    rules.refuse("socket", EPERM, scmp_arg_cmp{1, SCMP_CMP_MASKED_EQ, kType, type});
  }
}

Error noFilter(std::string_view what, int error) {
  return {Code::Unavailable, fmt::format("{}: {}", what, std::strerror(error))};
}

}  // namespace

Result<SystemCallFilter> makeSystemCallFilter() {
  const std::unique_ptr<void, Release> context(::seccomp_init(SCMP_ACT_ALLOW));
  if (!context) return noFilter("no filter of system calls", ENOMEM);
  // Calls of another architecture have other numbers.
  ::seccomp_attr_set(context.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
  ::seccomp_attr_set(context.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2);
  Rules rules(context.get());
  addRules(rules);
  if (rules.failed() != 0) return noFilter("no filter of system calls", -rules.failed());

  const int file = ::memfd_create("filter", MFD_CLOEXEC);
  if (file < 0) return noFilter("no memory for the filter of system calls", errno);
  SystemCallFilter filter;
  const int failed = ::seccomp_export_bpf(context.get(), file);
  const off_t size = ::lseek(file, 0, SEEK_END);
  filter.resize(static_cast<std::size_t>(size) / sizeof(sock_filter));
  const bool read = ::pread(file, filter.data(), static_cast<std::size_t>(size), 0) == size;
  ::close(file);
  if (failed != 0 || !read) return noFilter("no filter of system calls", EIO);
  return filter;
}

bool install(const SystemCallFilter& filter) {
  sock_fprog program{};
  program.len = static_cast<unsigned short>(filter.size());
  program.filter = const_cast<sock_filter*>(filter.data());
  return ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace nimbus::runtime
