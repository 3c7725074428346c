# One library per folder of src/. Its sources are named; its tests (x_test.cpp beside x.cpp) are found.
#
#   nimbus_library(store SOURCES store.cpp batch.cpp DEPENDS nimbus::base LIBRARIES SQLite::SQLite3)

function(nimbus_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS;LIBRARIES" ${ARGN})
  string(REPLACE "/" "_" target "nimbus_${name}")
  string(REPLACE "/" "::" alias "nimbus::${name}")
  add_library(${target} STATIC ${arg_SOURCES})
  add_library(${alias} ALIAS ${target})
  target_include_directories(${target} PUBLIC "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(${target} PUBLIC ${arg_DEPENDS} nimbus_asio PRIVATE nimbus_flags ${arg_LIBRARIES})
  nimbus_precompile(${target})
endfunction()

# One test program per folder: linking is the dear part, and ctest still runs each case on its own.
function(nimbus_tests name)
  if(NOT NIMBUS_TESTS)
    return()
  endif()
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS;LABELS" ${ARGN})
  string(REPLACE "/" "_" target "${name}_tests")
  add_executable(${target} ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE nimbus_flags ${arg_DEPENDS} GTest::gmock_main)
  # What is tested is optimised a little, the tests are not: they are most of the code and run briefly.
  target_compile_options(${target} PRIVATE $<$<CONFIG:Sanitize>:-O0>)
  nimbus_precompile(${target} <gmock/gmock.h>)
  gtest_discover_tests(${target} DISCOVERY_MODE PRE_TEST PROPERTIES LABELS "${arg_LABELS}" TIMEOUT 120)
endfunction()

# nimbus_fuzz(http request): the fuzz target in request_fuzz.cpp, whose seeds are in fuzz_seeds/request.
# Clang's libFuzzer, and part of the build that has AddressSanitizer: what it finds must be seen.
function(nimbus_fuzz name subject)
  if(NOT NIMBUS_SANITIZE MATCHES "address" OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    return()
  endif()
  string(REPLACE "/" "_" module "${name}")
  string(REPLACE "/" "::" alias "nimbus::${name}")
  set(target "${module}_${subject}_fuzz")
  add_executable(${target} ${subject}_fuzz.cpp)
  target_compile_options(${target} PRIVATE -fsanitize=fuzzer)
  target_link_options(${target} PRIVATE -fsanitize=fuzzer)
  target_link_libraries(${target} PRIVATE nimbus_flags ${alias})
  # What is fuzzed must be watched too, or the fuzzer sees nothing of it.
  target_compile_options(nimbus_${module} PRIVATE -fsanitize=fuzzer-no-link)
endfunction()

# Further headers of third parties may follow the target.
function(nimbus_precompile target)
  if(NIMBUS_PCH)
    target_precompile_headers(${target} PRIVATE ${ARGN}
      <algorithm> <chrono> <cstdint> <functional> <map> <memory> <optional> <span> <string>
      <string_view> <unordered_map> <utility> <variant> <vector> <boost/asio/awaitable.hpp>)
  endif()
endfunction()
