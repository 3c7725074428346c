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
  nimbus_precompile(${target} library)
endfunction()

# One test program per folder: linking is the dear part, and ctest still runs each case on its own.
# THREADS: what it tests is used by several threads, so ThreadSanitizer has something to see there;
# the target `threads_tests` is those.
function(nimbus_tests name)
  if(NOT NIMBUS_TESTS)
    return()
  endif()
  cmake_parse_arguments(arg "THREADS" "" "SOURCES;DEPENDS;LABELS" ${ARGN})
  string(REPLACE "/" "_" target "${name}_tests")
  add_executable(${target} ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE nimbus_flags ${arg_DEPENDS} GTest::gmock_main)
  if(arg_DEPENDS MATCHES "^nimbus::(dispatch|function_sdk)$")  # which stand alone
    nimbus_precompile(${target} tests_without_asio)
  else()
    nimbus_precompile(${target} tests)
  endif()
  if(arg_THREADS)
    if(NOT TARGET threads_tests)
      add_custom_target(threads_tests)
    endif()
    add_dependencies(threads_tests ${target})
  endif()
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
  # What is fuzzed must be watched too, or the fuzzer sees nothing of it. This is what -fsanitize=fuzzer-no-link
  # stands for, which would need precompiled headers of its own.
  target_compile_options(nimbus_${module} PRIVATE
    -fsanitize-coverage=inline-8bit-counters,indirect-calls,trace-cmp,pc-table)
endfunction()

# What nearly every file includes, compiled once for libraries and once for programs, which differ in how
# their code is placed. Headers of third parties only; NIMBUS_PCH off shows what a file forgets to include.
set(nimbus_common_headers
  <algorithm> <chrono> <cstdint> <functional> <map> <memory> <optional> <span> <string>
  <string_view> <unordered_map> <utility> <variant> <vector>)

# `placement`: how the files that use it are compiled.
function(nimbus_precompiled kind placement)
  set(empty "${PROJECT_BINARY_DIR}/nimbus_${kind}_headers.cpp")
  file(GENERATE OUTPUT "${empty}" CONTENT "")
  add_library(nimbus_${kind}_headers OBJECT EXCLUDE_FROM_ALL "${empty}")
  set_target_properties(nimbus_${kind}_headers PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(nimbus_${kind}_headers PRIVATE ${placement})
  target_link_libraries(nimbus_${kind}_headers PRIVATE nimbus_flags nimbus_asio)
  target_precompile_headers(nimbus_${kind}_headers PRIVATE ${nimbus_common_headers} ${ARGN})
endfunction()

# `kind`: library, program, tests, or tests_without_asio (of what may be built without it).
function(nimbus_precompile target kind)
  if(NOT NIMBUS_PCH)
    return()
  endif()
  if(NOT TARGET nimbus_${kind}_headers)
    if(kind STREQUAL "library")
      nimbus_precompiled(library -fPIC <boost/asio/awaitable.hpp>)
    elseif(kind STREQUAL "program")
      nimbus_precompiled(program -fPIE <boost/asio/awaitable.hpp>)
    elseif(kind STREQUAL "tests")
      nimbus_precompiled(tests -fPIE <boost/asio/awaitable.hpp> <gmock/gmock.h>)
    else()
      nimbus_precompiled(${kind} -fPIE <gmock/gmock.h>)
    endif()
    if(kind MATCHES "tests")
      target_link_libraries(nimbus_${kind}_headers PRIVATE GTest::gmock)
    endif()
  endif()
  target_precompile_headers(${target} REUSE_FROM nimbus_${kind}_headers)
endfunction()
