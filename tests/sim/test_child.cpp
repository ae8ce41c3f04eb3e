#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <mutex>

#include "sim/error.hpp"
#include "sim/process/child.hpp"
#include "sim/process/parallel.hpp"
#include "sim/process/time_limit.hpp"
#include "sim/process/waiting.hpp"
#include "tests/support.hpp"

namespace sim_test_child {

using namespace trainyard;

TEST_CASE("a child's text comes back", "[sim][child]") {
  CHECK(in_child([] { return std::string(200000, 'x'); }).size() == 200000);
  CHECK(in_child([] { return std::string(); }).empty());
}

TEST_CASE("work on threads comes back in the order of numbers; what one throws is an error of that one",
          "[sim][child]") {
  const auto squares = all_in_parallel(20, 3, [](std::size_t i) { return i * i; });
  REQUIRE(squares.size() == 20);
  for (std::size_t i = 0; i < squares.size(); ++i) CHECK(squares[i] == i * i);
  CHECK(in_parallel(0, 3, [](std::size_t) { return 1; }).empty());
  std::atomic<std::size_t> done = 0;
  for (const int jobs : {1, 2, 8}) {
    done = 0;
    CHECK_THROWS_WITH(in_parallel(
                          6, jobs,
                          [](std::size_t i) {
                            if (i >= 2 && i < 4) throw UserError(i == 2 ? "the first" : "the second");
                            return is_background_thread();
                          },
                          [&done](std::size_t, bool background) { done += background ? 1 : 0; }),
                      "the first");
    CHECK(done == 4);
  }
  // One alone runs here, and shows how far it is itself.
  CHECK_FALSE(all_in_parallel(1, 8, [](std::size_t) { return is_background_thread(); }).front());
  // What listens may fail too: nobody is left behind.
  CHECK_THROWS_WITH(in_parallel(
                        6, 2, [](std::size_t) { return 1; }, [](std::size_t, int) { throw UserError("full"); }),
                    "full");
}

TEST_CASE("once interrupted, no other number begins, and what was under way is not done", "[sim][child]") {
  const TimeLimit limit(1e-3);
  std::atomic<int> begun = 0;
  const auto results = in_parallel(1000, 2, [&begun](std::size_t) -> int {
    ++begun;
    while (!interrupted()) {
    }
    throw Interrupted();
  });
  CHECK(std::none_of(results.begin(), results.end(), [](const auto& r) { return r.has_value(); }));
  CHECK(begun <= 2);
}

TEST_CASE("who waits for others does so again and again", "[sim][child]") {
  int pipe[2];
  REQUIRE(::pipe(pipe) == 0);
  const pid_t parent = ::getpid();
  const auto three_times = [&] {  // ends once its parent has worked three times
    std::string text;
    for (char c = 0; text.size() < 3 && ::read(pipe[0], &c, 1) == 1;) text += c;
    return text;
  };
  do_while_waiting([&] { CHECK((::getpid() == parent && ::write(pipe[1], "x", 1) == 1)); });
  CHECK(in_child(three_times) == "xxx");
  std::mutex one;
  CHECK(all_in_parallel(2, 2, [&](std::size_t) {
          const std::lock_guard lock(one);
          return three_times();
        }) == std::vector<std::string>{"xxx", "xxx"});
  do_while_waiting({});
  CHECK_FALSE(waiting_work());
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
