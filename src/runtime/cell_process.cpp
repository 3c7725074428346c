#include "runtime/cell_process.h"

#include "runtime/cell_memory.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

namespace nimbus::runtime {
namespace {

constexpr const char* kStage = "/tmp";  // where the new root is put together; hidden from the host
constexpr const char* kRootOptions = "size=1m,nr_inodes=1024,mode=0755";
constexpr const char* kTmpOptions = "size=64m,nr_inodes=16384,mode=1777";

// In the order in which they are to be entered: the first gives the rights for the others.
constexpr std::array<const char*, kMaxNamespaces> kNamespaceNames = {"user", "mnt", "pid",   "ipc",
                                                                     "uts",  "net", "cgroup"};
constexpr std::size_t kMountPlace = 1;
constexpr std::size_t kNetworkPlace = 5;

// What programs expect to find. What is not on this host is left out.
constexpr std::array kSystem = {"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"};
constexpr std::array kSettings = {"/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime",
                                  "/etc/ssl/certs", "/etc/ssl/openssl.cnf"};
constexpr std::array kNetworkSettings = {"/etc/resolv.conf", "/etc/hosts"};
constexpr std::array kDevices = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random",
                                 "/dev/urandom"};

struct Text {
  const char* path;
  const char* text;
};
constexpr std::array<Text, 4> kFiles = {{
    {"/etc/passwd", "function:x:1000:1000::/tmp:/usr/sbin/nologin\n"},
    {"/etc/group", "function:x:1000:\n"},
    {"/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"},
    {"/etc/hostname", "function\n"},
}};
constexpr std::array<std::pair<const char*, const char*>, 5> kLinks = {{
    {"/proc/self/fd", "/dev/fd"},
    {"/proc/self/fd/0", "/dev/stdin"},
    {"/proc/self/fd/1", "/dev/stdout"},
    {"/proc/self/fd/2", "/dev/stderr"},
    {"/tmp", "/dev/shm"},
}};

// What could not be done; the process ends with it.
struct Failure {
  int error = 0;
  std::string doing;
};

// A piece of the host's file system, not mounted anywhere yet.
struct Tree {
  int descriptor = -1;
  std::string place;
  bool is_directory = false;
};

[[noreturn]] void fail(std::string doing) {
  throw Failure{errno, std::move(doing)};
}

void must(bool succeeded, const char* doing) {
  if (!succeeded) fail(doing);
}

bool setAttributes(int tree, unsigned flags, std::uint64_t attributes) {
  mount_attr attr{};
  attr.attr_set = attributes;
  attr.propagation = MS_PRIVATE;
  return ::mount_setattr(tree, "", AT_EMPTY_PATH | flags, &attr, sizeof attr) == 0;
}

bool place(int tree, const char* path) {
  return ::move_mount(tree, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) == 0;
}

bool becomeUserInside() {
  ::setgroups(0, nullptr);  // not allowed where the server is not root, and it has none to lose
  return ::setresgid(kUserInside, kUserInside, kUserInside) == 0 &&
         ::setresuid(kUserInside, kUserInside, kUserInside) == 0;
}

class Cell {
 public:
  Cell(int control, const CellPlan& plan) : control_(control), plan_(plan) {}

  void make() {
    ::prctl(PR_SET_NAME, "nimbus-cell");
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int apart = CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
    must(::unshare(apart | (plan_.has_network ? 0 : CLONE_NEWNET)) == 0, "taking namespaces");
    must(::sethostname("function", 8) == 0, "naming the host");
    must(::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) == 0,
         "leaving the host's mounts");
    own_ = ::open("/proc/self/ns", O_PATH | O_DIRECTORY | O_CLOEXEC);
    outside_ = openNamespace(kMountPlace);
    processes_ = openProcesses();
    beginNumbers();
    takeTrees();
    must(::unshare(CLONE_NEWNS) == 0, "taking a mount namespace");
    build();
    inside_ = openNamespace(kMountPlace);
    leaveHost();
    for (std::size_t i = 0; i < kMaxNamespaces; ++i) {
      if (i != kNetworkPlace || !plan_.has_network) namespaces_.push_back(openNamespace(i));
    }
    ::close(own_);
    must(::chdir("/") == 0, "entering the root");
    ::prctl(PR_SET_DUMPABLE, 0);    // our memory has been the server's
    std::signal(SIGCHLD, SIG_IGN);  // what is left to us goes without being waited for
  }

  void sayReady() {
    CellAnswer answer;
    send(answer, namespaces_);
    for (const int one : namespaces_) ::close(one);
  }

  void sayFailed(const Failure& failure) {
    CellAnswer answer;
    answer.error = failure.error != 0 ? failure.error : EIO;
    failure.doing.copy(answer.doing.data(), answer.doing.size() - 1);
    send(answer, {});
  }

  // Until nobody has the other end of the control socket.
  void serve() {
    std::array<char, kMaxCellOrder> order{};
    while (true) {
      const ssize_t size = ::recv(control_, order.data(), order.size() - 1, 0);
      if (size < 0 && errno == EINTR) continue;
      if (size <= 0) return;
      order.at(static_cast<std::size_t>(size)) = '\0';
      const char* const path = order.data();
      const std::size_t behind = std::strlen(path) + 1;
      if (behind == 1) {
        checkMemory(std::strtoull(path + behind, nullptr, 10));
        continue;
      }
      CellAnswer answer;
      if (behind >= static_cast<std::size_t>(size) || !mountCode(path, path + behind)) {
        answer.error = errno;
      }
      send(answer, {});
    }
  }

 private:
  int openNamespace(std::size_t which) const {
    const int descriptor = ::openat(own_, kNamespaceNames.at(which), O_RDONLY | O_CLOEXEC);
    must(descriptor >= 0, "opening a namespace");
    return descriptor;
  }

  void takeTree(const char* path, std::uint64_t attributes) { takeTree(path, path, attributes); }

  void takeTree(const char* path, const char* where, std::uint64_t attributes) {
    const unsigned how = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE;
    Tree tree;
    tree.place = where;
    tree.descriptor = ::open_tree(AT_FDCWD, path, how);
    if (tree.descriptor < 0) {
      if (errno == ENOENT) return;
      fail(std::string("taking ") + path);
    }
    struct stat status {};
    must(::fstat(tree.descriptor, &status) == 0, path);
    tree.is_directory = S_ISDIR(status.st_mode);
    if (!setAttributes(tree.descriptor, AT_RECURSIVE, attributes)) {
      fail(std::string("making read-only ") + path);
    }
    trees_.push_back(std::move(tree));
  }

  // As the user the server is, who can read what is its own.
  void takeTrees() {
    constexpr std::uint64_t kReadOnly = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    for (const char* const path : kSystem) {
      std::array<char, 256> target{};
      if (::readlink(path, target.data(), target.size() - 1) > 0) {
        links_.emplace_back(target.data(), path);
      } else {
        takeTree(path, kReadOnly);
      }
    }
    for (const char* const path : kSettings) takeTree(path, kReadOnly);
    if (plan_.has_network) {
      for (const char* const path : kNetworkSettings) takeTree(path, kReadOnly);
    }
    for (const auto& [path, where] : plan_.seen) takeTree(path, where, kReadOnly);
    for (const char* const path : kDevices) {
      takeTree(path, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
    }
  }

  // Processes of a cell are numbered from our number on the host: who asks for its own gets one
  // that is no other instance's. Only a courtesy.
  static void beginNumbers() {
    std::array<char, 16> number{};
    const ssize_t size = ::readlink("/proc/self", number.data(), number.size());
    const int file = ::open("/proc/sys/kernel/ns_last_pid", O_WRONLY | O_CLOEXEC);
    if (size > 0) static_cast<void>(!::write(file, number.data(), static_cast<std::size_t>(size)));
    ::close(file);
  }

  // By a child that is the user inside: files of nobody known in the cell cannot be made there.
  void build() {
    std::array<int, 2> failed{};
    must(::pipe2(failed.data(), O_CLOEXEC) == 0, "making a pipe");
    const pid_t builder = ::fork();
    must(builder >= 0, "forking");
    if (builder == 0) {
      Failure failure;
      try {
        must(becomeUserInside(), "becoming the user inside");
        buildRoot();
      } catch (const Failure& thrown) {
        failure = thrown;
        CellAnswer answer;
        answer.error = failure.error;
        failure.doing.copy(answer.doing.data(), answer.doing.size() - 1);
        static_cast<void>(!::write(failed[1], &answer, sizeof answer));
      }
      ::_exit(0);
    }
    ::close(failed[1]);
    CellAnswer answer;
    const bool has_failed = ::read(failed[0], &answer, sizeof answer) == sizeof answer;
    ::close(failed[0]);
    ::waitpid(builder, nullptr, 0);
    if (has_failed) throw Failure{answer.error, answer.doing.data()};
    for (const Tree& tree : trees_) ::close(tree.descriptor);
  }

  void buildRoot() {
    ::umask(0);
    must(::mount("tmpfs", kStage, "tmpfs", MS_NOSUID | MS_NODEV, kRootOptions) == 0,
         "making a root");
    must(::chdir(kStage) == 0, "entering the root");
    for (const char* const folder :
         {"/etc", "/dev", "/proc", "/tmp", "/code", "/native", "/.dependencies"}) {
      must(::mkdir(inRoot(folder).c_str(), 0755) == 0, folder);
    }
    for (const auto& [target, path] : links_) {
      must(::symlink(target.c_str(), inRoot(path).c_str()) == 0, path.c_str());
    }
    for (const auto& [target, path] : kLinks) {
      must(::symlink(target, inRoot(path).c_str()) == 0, path);
    }
    for (const Tree& tree : trees_) {
      makeMountPoint(tree);
      must(place(tree.descriptor, inRoot(tree.place).c_str()), tree.place.c_str());
    }
    for (const auto& [path, text] : kFiles) writeFile(path, text);
    if (!plan_.has_network) writeFile("/etc/hosts", "127.0.0.1 localhost function\n");
    must(::mount("tmpfs", inRoot("/tmp").c_str(), "tmpfs", MS_NOSUID | MS_NODEV, kTmpOptions) == 0,
         "making /tmp");
    // A container may not be let; then there is an empty one.
    const unsigned long quiet = MS_NOSUID | MS_NODEV | MS_NOEXEC;
    ::mount("proc", inRoot("/proc").c_str(), "proc", quiet, "hidepid=invisible");
    must(::syscall(SYS_pivot_root, ".", ".") == 0, "changing the root");
    must(::umount2(".", MNT_DETACH) == 0, "leaving the old root");
    mount_attr read_only{};
    read_only.attr_set = MOUNT_ATTR_RDONLY;
    must(::mount_setattr(AT_FDCWD, "/", 0, &read_only, sizeof read_only) == 0,
         "making the root read-only");
  }

  // Outside there was a copy of every mount of the host's, and as long as there is one nothing can
  // be unmounted for good. What is left is the folder of code.
  void leaveHost() {
    must(::setns(outside_, CLONE_NEWNS) == 0, "entering the host's mounts");
    must(::mount(plan_.code, plan_.code, nullptr, MS_BIND | MS_REC, nullptr) == 0,
         "taking the folder of code");
    must(::chdir(plan_.code) == 0, "entering the folder of code");
    must(::syscall(SYS_pivot_root, ".", ".") == 0, "changing to the folder of code");
    must(::umount2(".", MNT_DETACH) == 0, "leaving the host's root");
    code_ = ::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    must(code_ >= 0, "opening the folder of code");
    must(::setns(inside_, CLONE_NEWNS) == 0, "entering the cell");
  }

  static std::string inRoot(const std::string& path) { return kStage + path; }

  static void makeMountPoint(const Tree& tree) {
    for (std::size_t end = tree.place.find('/', 1); end != std::string::npos;
         end = tree.place.find('/', end + 1)) {
      const bool made = ::mkdir(inRoot(tree.place.substr(0, end)).c_str(), 0755) == 0;
      must(made || errno == EEXIST || errno == EROFS, tree.place.c_str());
    }
    const std::string place = inRoot(tree.place);
    if (tree.is_directory) {
      const bool made = ::mkdir(place.c_str(), 0755) == 0;
      must(made || errno == EEXIST || errno == EROFS, tree.place.c_str());
    } else {
      writeFile(tree.place.c_str(), "");
    }
  }

  static void writeFile(const char* path, const char* text) {
    const int file =
        ::open(inRoot(path).c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
    must(file >= 0, path);
    const auto size = static_cast<ssize_t>(std::strlen(text));
    must(::write(file, text, static_cast<std::size_t>(size)) == size, path);
    ::close(file);
  }

  void checkMemory(std::uint64_t limit) {
    if (processes_ < 0 || memoryOfAll(processes_, limit) <= limit) return;
    sayFailed({ENOMEM, "it and what it started used more memory than it may"});
    ::_exit(0);
  }

  bool mountCode(const char* path, const char* target) const {
    if (::setns(outside_, CLONE_NEWNS) != 0) return false;
    const int tree = ::open_tree(code_, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    const int error = errno;
    if (::setns(inside_, CLONE_NEWNS) != 0) ::_exit(1);  // nobody may see all code from here
    errno = error;
    if (tree < 0) return false;
    const bool mounted =
        setAttributes(tree, 0, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV) &&
        place(tree, target);
    const int reason = errno;
    ::close(tree);
    errno = reason;
    return mounted;
  }

  void send(CellAnswer answer, std::span<const int> descriptors) const {
    iovec bytes{&answer, sizeof answer};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxNamespaces * sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    if (!descriptors.empty()) {
      message.msg_control = control.data();
      message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
      cmsghdr* const rights = CMSG_FIRSTHDR(&message);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN(descriptors.size_bytes());
      std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size_bytes());
    }
    while (::sendmsg(control_, &message, MSG_NOSIGNAL) < 0 && errno == EINTR) {
    }
  }

  const int control_;
  const CellPlan& plan_;
  int own_ = -1;      // our namespaces, in the host's /proc: there may be none in the cell
  int outside_ = -1;  // the mount namespace with the folder of code, for us alone
  int inside_ = -1;   // the one functions live in
  int processes_ = -1;
  int code_ = -1;  // the folder of code, in `outside_`
  std::vector<Tree> trees_;
  std::vector<std::pair<std::string, std::string>> links_;
  std::vector<int> namespaces_;
};

bool dropCapabilities() {
  for (unsigned long one = 0; ::prctl(PR_CAPBSET_DROP, one, 0, 0, 0) == 0; ++one) {
  }
  __user_cap_header_struct head{};
  head.version = _LINUX_CAPABILITY_VERSION_3;
  const std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> none{};
  return ::syscall(SYS_capset, &head, none.data()) == 0;
}

}  // namespace

void runCell(int control, const CellPlan& plan) {
  Cell cell(control, plan);
  try {
    cell.make();
  } catch (const Failure& failure) {
    cell.sayFailed(failure);
    ::_exit(1);
  }
  cell.sayReady();
  cell.serve();
  ::_exit(0);
}

bool enterCell(std::span<const int> namespaces) {
  for (const int one : namespaces) {
    if (::setns(one, 0) != 0) return false;
  }
  return true;
}

bool confine(const SystemCallFilter& filter) {
  if (!becomeUserInside()) return false;
  const rlimit processes{64, 64};
  return ::setrlimit(RLIMIT_NPROC, &processes) == 0 &&
         ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && dropCapabilities() && install(filter);
}

}  // namespace nimbus::runtime
