#include "base/testing/temporary_directory.h"
#include "http/testing/requests.h"
#include "http/testing/test_server.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/write.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <cstdio>
#include <string>

namespace nimbus::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using ::testing::HasSubstr;

// A key and a certificate it signed itself, as files of a directory of their own.
class TlsTest : public ::testing::Test {
 protected:
  TlsTest() {
    EVP_PKEY* key = EVP_EC_gen("P-256");
    X509* certificate = X509_new();
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -60);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key);
    X509_NAME* name = X509_get_subject_name(certificate);
    const unsigned char kName[] = "localhost";
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, kName, -1, -1, 0);
    X509_set_issuer_name(certificate, name);
    X509_sign(certificate, key, EVP_sha256());
    std::FILE* file = std::fopen(files().certificate_chain.c_str(), "w");
    PEM_write_X509(file, certificate);
    std::fclose(file);
    file = std::fopen(files().private_key.c_str(), "w");
    PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr);
    std::fclose(file);
    X509_free(certificate);
    EVP_PKEY_free(key);
  }

  TlsFiles files() const { return {directory_ + "/certificate.pem", directory_ + "/key.pem"}; }
  ServerOptions options() const {
    ServerOptions options;
    options.tls = std::make_unique<TlsFiles>(files());
    return options;
  }

  const TemporaryDirectory temporary_;
  const std::string directory_ = temporary_.path().string();
};

class TlsClient {
 public:
  TlsClient(std::uint16_t port, int max_version) {
    context_.set_verify_mode(asio::ssl::verify_none);
    SSL_CTX_set_max_proto_version(context_.native_handle(), max_version);
    SSL_CTX_set_security_level(context_.native_handle(), 0);
    stream_ = std::make_unique<asio::ssl::stream<tcp::socket>>(io_, context_);
    stream_->next_layer().connect({asio::ip::address_v4::loopback(), port});
    stream_->handshake(asio::ssl::stream_base::client, failure_);
  }

  bool isConnected() const { return !failure_; }
  void send(std::string_view bytes) { asio::write(*stream_, asio::buffer(bytes), failure_); }
  std::string receiveUntil(std::string_view text) {
    std::string all;
    char byte = 0;
    while (all.find(text) == std::string::npos && !failure_) {
      if (stream_->read_some(asio::buffer(&byte, 1), failure_) == 1) all += byte;
    }
    return all;
  }
  std::string receiveAll() { return receiveUntil("no such text"); }
  const boost::system::error_code& failure() const { return failure_; }
  void shutDown() { stream_->shutdown(failure_); }

 private:
  asio::io_context io_;
  asio::ssl::context context_{asio::ssl::context::tls_client};
  std::unique_ptr<asio::ssl::stream<tcp::socket>> stream_;
  boost::system::error_code failure_;
};

TEST_F(TlsTest, ServesKeepAlivePipelinesBodiesAndStreams) {
  TestServer server(options());
  TlsClient client(server.port(), TLS1_3_VERSION);
  ASSERT_TRUE(client.isConnected()) << client.failure().message();
  client.send("GET /hello HTTP/1.1\r\nHost: x\r\n\r\nGET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(client.receiveUntil("hello"), HasSubstr("200 OK"));
  EXPECT_THAT(client.receiveUntil("hello"), HasSubstr("200 OK"));
  const std::string body(300'000, 'b');
  client.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n" + body);
  EXPECT_THAT(client.receiveUntil(body), HasSubstr("Content-Length: 300000"));
  client.send("GET /events?count=2 HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(client.receiveAll(), HasSubstr("id: 2\n"));
  // A proper end, so that nobody can cut an answer short unnoticed.
  EXPECT_EQ(client.failure(), asio::error::eof);
}

TEST_F(TlsTest, TakesTls12AndNothingOlder) {
  TestServer server(options());
  EXPECT_TRUE(TlsClient(server.port(), TLS1_2_VERSION).isConnected());
  EXPECT_FALSE(TlsClient(server.port(), TLS1_1_VERSION).isConnected());
}

TEST_F(TlsTest, PlainHttpOnTheTlsPortIsClosed) {
  TestServer server(options());
  RawClient client(server.port());
  client.send("GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_NE(client.waitForEnd(), RawClient::Ended::StillOpen);
}

TEST_F(TlsTest, AHandshakeThatDoesNotEndIsCutOff) {
  Watch watch;
  TestServer server(options(), 1, {.observer = &watch});
  RawClient client(server.port());
  watch.opened.acquire();
  // Longer than it may be idle: how far it has come does not matter.
  server.pass(ServerOptions().idle_timeout);
  EXPECT_EQ(client.waitForEnd(), RawClient::Ended::Closed);
}

TEST_F(TlsTest, AnEventStreamNoticesThatItsClientLeft) {
  TestServer server(options());
  {
    TlsClient client(server.port(), TLS1_3_VERSION);
    client.send("GET /events HTTP/1.1\r\nHost: x\r\n\r\n");
    client.receiveUntil("id: 3\n");
  }
  EXPECT_TRUE(server.stream_ended.try_acquire_for(RawClient::kPatience));
}

TEST_F(TlsTest, AHandlerIsCancelledWhenItsClientLeaves) {
  TestServer server(options());
  {
    TlsClient client(server.port(), TLS1_3_VERSION);
    client.send(kHeld);
    server.held.acquire();
    server.pass(std::chrono::seconds(1));
    client.send(kHello);
  }
  EXPECT_TRUE(server.cancelled.try_acquire_for(RawClient::kPatience));
}

TEST_F(TlsTest, WhatIsSentAheadOfAnAnswerIsKept) {
  TestServer server(options());
  TlsClient client(server.port(), TLS1_3_VERSION);
  client.send(kHeld);
  server.held.acquire();
  const std::string body(30'000, 'b');  // more than the room there is
  for (int i = 0; i < 3; ++i) {
    server.pass(std::chrono::seconds(1));
    client.send(echo(body + std::to_string(i)));
  }
  server.pass(std::chrono::seconds(1));
  server.release();
  client.receiveUntil("released");
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(client.receiveUntil(body + std::to_string(i)), HasSubstr("200 OK"));
  }
}

TEST_F(TlsTest, StopEndsIdleConnectionsAndStreams) {
  TestServer server(options());
  TlsClient idle(server.port(), TLS1_3_VERSION);
  TlsClient streaming(server.port(), TLS1_3_VERSION);
  streaming.send("GET /events HTTP/1.1\r\nHost: x\r\n\r\n");
  streaming.receiveUntil("id: 3\n");
  auto stopped = server.beginStop(std::chrono::seconds(20));
  EXPECT_THAT(streaming.receiveAll(), ::testing::EndsWith("0\r\n\r\n"));
  idle.receiveAll();
  streaming.shutDown();
  stopped.get();
  EXPECT_EQ(server.server->connections(), 0U);
}

}  // namespace
}  // namespace nimbus::http
