# Compiler, warnings, sanitizers, linker. Why clang 16: docs/adr/0001-compiler.md.

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  message(FATAL_ERROR
    "g++ ${CMAKE_CXX_COMPILER_VERSION} destroys some temporaries inside co_await twice. "
    "Use a preset (cmake --preset release), which takes clang++-16; see docs/adr/0001-compiler.md.")
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_SCAN_FOR_MODULES OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# -O0 with line tables: stack traces stay readable. Optimising instrumented coroutines takes twice as long as all
# the tests then take to run; what needs many repetitions is run optimised, too (schedules, faults).
set(CMAKE_CXX_FLAGS_SANITIZE "-O0 -gline-tables-only -fno-omit-frame-pointer" CACHE STRING "" FORCE)
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -gline-tables-only")

add_library(nimbus_flags INTERFACE)
target_compile_options(nimbus_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Wold-style-cast -Werror
  -fstack-protector-strong)
target_compile_definitions(nimbus_flags INTERFACE $<$<CONFIG:Release>:_FORTIFY_SOURCE=2> _GLIBCXX_ASSERTIONS)
target_link_options(nimbus_flags INTERFACE -Wl,-z,relro,-z,now)

if(NIMBUS_SANITIZE)
  target_compile_options(nimbus_flags INTERFACE -fsanitize=${NIMBUS_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(nimbus_flags INTERFACE -fsanitize=${NIMBUS_SANITIZE})
endif()

find_program(NIMBUS_MOLD mold)
if(NIMBUS_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# ccache helps when it is there and is not needed when it is not. A precompiled header without the times of its files is
# the same in every build, so that what was compiled with it is found again.
find_program(NIMBUS_CCACHE ccache)
if(NIMBUS_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND};-E;env;CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime;${NIMBUS_CCACHE}")
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    add_compile_options("SHELL:-Xclang -fno-pch-timestamp")
  endif()
endif()
