#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <iostream>

#include "sim/error.hpp"
#include "sim/process/child.hpp"
#include "sim/process/waiting.hpp"
#include "tests/support.hpp"

namespace sim_test_child {

using namespace trainyard;

TEST_CASE("a child's text comes back, in the order of numbers", "[sim][child]") {
  CHECK(in_child([] { return std::string(200000, 'x'); }).size() == 200000);
  const auto texts = in_children(20, 3, [](std::size_t i) { return std::to_string(i * i); });
  REQUIRE(texts.size() == 20);
  for (std::size_t i = 0; i < texts.size(); ++i) CHECK(texts[i] == std::to_string(i * i));
}

TEST_CASE("workers keep what they have for the numbers after; one that dies costs one number", "[sim][child]") {
  int taken = 0;
  const auto texts =
      in_workers(20, 3, [&taken](std::size_t i) { return std::to_string(i * i) + "/" + std::to_string(++taken); });
  REQUIRE(texts.size() == 20);
  int most = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    CHECK(texts[i].starts_with(std::to_string(i * i) + "/"));
    most = std::max(most, std::stoi(texts[i].substr(texts[i].find('/') + 1)));
  }
  CHECK(most >= 7);  // 20 numbers, three workers
  CHECK(in_workers(0, 3, [](std::size_t) { return std::string(); }).empty());
  std::size_t done = 0;
  CHECK_THROWS_WITH(in_workers(
                        6, 2,
                        [](std::size_t i) {
                          if (i == 2) std::_Exit(3);
                          return std::string(100000, 'x');
                        },
                        [&done](std::size_t, const std::string& text) { done += text.size() == 100000 ? 1 : 0; }),
                    Catch::Contains("exit status 3"));
  CHECK(done == 5);
  // What listens may fail too: nobody is left behind.
  CHECK_THROWS_WITH(in_workers(
                        6, 2, [](std::size_t) { return std::string(); },
                        [](std::size_t, const std::string&) { throw UserError("full"); }),
                    "full");
  CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);
}

TEST_CASE("who waits for children does so again and again, and not in them", "[sim][child]") {
  int pipe[2];
  REQUIRE(::pipe(pipe) == 0);
  const pid_t parent = ::getpid();
  do_while_waiting([&] { CHECK((::getpid() == parent && ::write(pipe[1], "x", 1) == 1)); });
  // Ends once its parent has worked three times.
  const std::vector<std::string> texts = in_children(1, 1, [&](std::size_t) {
    std::string text;
    for (char c = 0; text.size() < 3 && ::read(pipe[0], &c, 1) == 1;) text += c;
    return in_children(1, 1, [&](std::size_t) { return text; }).front();
  });
  do_while_waiting({});
  CHECK_FALSE(waiting_work());
  CHECK(texts == std::vector<std::string>{"xxx"});
  for (const int end : pipe) ::close(end);
}

TEST_CASE("errors of a child are thrown again as what they are", "[sim][child]") {
  CHECK_THROWS_AS(in_child([]() -> std::string { throw UserError("wrong"); }), UserError);
  CHECK_THROWS_AS(in_child([]() -> std::string { throw Deadlock("stuck"); }), Deadlock);
  CHECK_THROWS_WITH(in_child([]() -> std::string { throw std::runtime_error("other"); }), "other");
}

TEST_CASE("a child that dies is one clear error", "[sim][child]") {
  // exit, not abort: sanitizers report signals in their own way
  CHECK_THROWS_WITH(in_child([]() -> std::string {
                      std::cerr << "assertion failed somewhere" << std::endl;
                      std::_Exit(3);
                    }),
                    Catch::Contains("exit status 3") && Catch::Contains("assertion failed somewhere"));
}

TEST_CASE("an interrupted child ends what it has begun, with children of its own", "[sim][child]") {
  CHECK(in_child([] {
          watch_interrupts();
          std::raise(SIGINT);
          return in_child([] { return std::string("done"); });
        }) == "done");
}

}  // namespace sim_test_child
