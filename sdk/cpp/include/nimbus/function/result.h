#pragma once
// The end of a call, as a Result frame.

#include <cxxabi.h>
#include <nimbus/function/call.h>

#include <cstdlib>
#include <exception>
#include <typeinfo>

namespace nimbus::native {

inline constexpr std::size_t kMaxMessage = 8UL << 10U;

inline std::string demangled(const std::type_info* type) {
  if (type == nullptr) return "unknown";
  int failed = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(type->name(), nullptr, nullptr, &failed), &std::free);
  return failed == 0 && name ? std::string(name.get()) : std::string(type->name());
}

struct Failure {
  std::string type;
  std::string message;
};

// The exception that is being handled.
inline Failure currentFailure() {
  Failure failure;
  failure.type = demangled(abi::__cxa_current_exception_type());
  try {
    throw;
  } catch (const std::exception& thrown) {
    failure.message = thrown.what();
  } catch (const std::string& thrown) {
    failure.message = thrown;
  } catch (const char* thrown) {
    failure.message = thrown;
  } catch (...) {
    failure.message = "something was thrown that is no std::exception";
  }
  failure.message = toUtf8(std::string_view(failure.message).substr(0, kMaxMessage));
  return failure;
}

// What a function chose by returning an object of exactly `status_code` and `body`.
struct Answer {
  std::int64_t status = 200;
  const Json* body = nullptr;
};

inline Answer answerOf(const Json& returned) {
  Answer answer;
  answer.body = &returned;
  if (!returned.isObject() || returned.size() != 2) return answer;
  const Json* const status = returned.find("status_code");
  const Json* const body = returned.find("body");
  if (status == nullptr || body == nullptr || !status->isInteger()) return answer;
  if (status->asInt() < 200 || status->asInt() > 599) return answer;
  answer.status = status->asInt();
  answer.body = body;
  return answer;
}

// Frames that tell how a call ended, appended to a buffer.
class ResultWriter {
 public:
  explicit ResultWriter(std::string& out) : out_(out) {}

  // Throws JsonError if `value` cannot be JSON; the call has not ended then.
  void returned(Call& call, const Json& value) {
    const Answer answer = answerOf(value);
    const std::string body = answer.body->text();
    std::string head;
    head.reserve(kUsualHead);
    head += "{\"status\":";
    head += std::to_string(answer.status);
    std::vector<std::string_view> values = {body};
    call.end(head, values);
    head += '}';
    try {
      appendFrame(out_, FrameType::Result, call.request(), head, values);
    } catch (const FrameTooLarge&) {
      writeFailure(call.request(), {"nimbus::FrameTooLarge", "the answer is too large"});
    }
  }

  void failed(Call& call, const Failure& failure) {
    std::string members;
    std::vector<std::string_view> values = {""};
    call.end(members, values);
    try {
      writeFailure(call.request(), failure, members, values);
    } catch (const FrameTooLarge&) {
      writeFailure(call.request(), failure);
    }
  }

  void cancelled(std::uint64_t request, const std::string& reason) {
    writeFailure(request, {"nimbus::Cancelled", "the call was cancelled: " + toUtf8(reason)});
  }

 private:
  void writeFailure(std::uint64_t request, const Failure& failure, std::string_view members = {},
                    const std::vector<std::string_view>& values = {""}) {
    std::string head = R"({"error":{"type":)";
    appendString(head, failure.type);
    head += R"(,"message":)";
    appendString(head, failure.message);
    head += '}';
    head += members;
    head += '}';
    appendFrame(out_, FrameType::Result, request, head, values);
  }

  static constexpr std::size_t kUsualHead = 240;

  std::string& out_;
};

}  // namespace nimbus::native
