# Everything comes from Debian 12's packages; tools/install-packages lists them with what each is for.

find_package(Threads REQUIRED)
find_package(Boost 1.81 REQUIRED COMPONENTS json)
find_package(OpenSSL REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(prometheus-cpp CONFIG REQUIRED COMPONENTS core)
find_package(simdjson REQUIRED)
find_package(LibArchive REQUIRED)
find_library(NIMBUS_SODIUM sodium REQUIRED)
find_library(NIMBUS_SECCOMP seccomp REQUIRED)
find_package(mimalloc REQUIRED)

# Asio and Beast are compiled once, in src/base/asio_implementation.cpp, not in every file that uses them.
add_library(nimbus_asio INTERFACE)
target_link_libraries(nimbus_asio INTERFACE Boost::headers Threads::Threads)
target_compile_definitions(nimbus_asio INTERFACE
  BOOST_ASIO_SEPARATE_COMPILATION BOOST_ASIO_NO_DEPRECATED BOOST_BEAST_SEPARATE_COMPILATION
  # Our threads run one io_context each; the thread that runs it is the only one that touches its sockets.
  BOOST_ASIO_DISABLE_BOOST_COROUTINE)

if(NIMBUS_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()
