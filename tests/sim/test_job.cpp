// Work on several threads: its order, its errors, and how it is stopped.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <mutex>

#include "sim/error.hpp"
#include "sim/observers/progress.hpp"
#include "sim/process/output.hpp"
#include "sim/process/parallel.hpp"
#include "tests/temporary_folder.hpp"

namespace sim_test_job {

using namespace trainyard;

namespace {

constexpr std::chrono::minutes kLong{1};

/// Works until it is stopped.
std::string endless() {
  while (!is_interrupted()) {
  }
  throw Interruption();
}

}  // namespace

TEST_CASE("results of work on threads come in the order of numbers; an exception belongs to its number", "[sim][job]") {
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
                            return thread_job().background;
                          },
                          [&done](std::size_t, bool background) { done += background ? 1 : 0; }),
                      "the first");
    CHECK(done == 4);
  }
  // A single number runs on this thread, and shows its progress itself.
  CHECK_FALSE(all_in_parallel(1, 8, [](std::size_t) { return thread_job().background; }).front());
  // The progress function may fail too: all threads end.
  CHECK_THROWS_WITH(in_parallel(
                        6, 2, [](std::size_t) { return 1; }, [](std::size_t, int) { throw UserError("full"); }),
                    "full");
}

TEST_CASE("once interrupted, no further number begins, and work under way does not count as done", "[sim][job]") {
  const TimeLimit limit(1e-3);
  std::atomic<int> begun = 0;
  const auto results = in_parallel(1000, 2, [&begun](std::size_t) -> int {
    ++begun;
    while (!is_interrupted()) {
    }
    throw Interruption();
  });
  CHECK(std::none_of(results.begin(), results.end(), [](const auto& r) { return r.has_value(); }));
  CHECK(begun <= 2);
}

TEST_CASE("a thread that waits for others runs its waiting function again and again", "[sim][job]") {
  int pipe[2];
  REQUIRE(::pipe(pipe) == 0);
  std::mutex one;
  do_while_waiting([&] { CHECK(::write(pipe[1], "x", 1) == 1); });
  CHECK(all_in_parallel(2, 2, [&](std::size_t) {  // each ends once the main thread has waited three times
          const std::lock_guard lock(one);
          std::string text;
          for (char c = 0; text.size() < 3 && ::read(pipe[0], &c, 1) == 1;) text += c;
          return text;
        }) == std::vector<std::string>{"xxx", "xxx"});
  do_while_waiting({});
  for (const int end : pipe) ::close(end);
}

TEST_CASE("an outer time limit stays in force after the inner one", "[sim][job]") {
  const TimeLimit long_one(1e9);
  {
    const TimeLimit over(0), inner(1e9);
    CHECK(time_is_over());
    CHECK(is_interrupted());
    CHECK_THROWS_AS(all_in_parallel(2, 2, [](std::size_t) { return 1; }), Interruption);  // on other threads too
  }
  CHECK_FALSE(is_interrupted());
}

TEST_CASE("a background call returns its answer, reports progress, and throws what its work throws", "[sim][job]") {
  BackgroundCall call([] {
    ProgressLine line;
    line.show("first");
    in_parallel(2, 2, [](std::size_t) {  // only the outer line reports progress
      ProgressLine().show("not shown");
      return 0;
    });
    line.show("second");
    return std::string("answer");
  });
  REQUIRE(call.over_within(kLong));
  CHECK(call.take_progress() == std::vector<std::string>{"first", "second"});
  CHECK(call.take_progress().empty());
  CHECK(call.answer() == "answer");
  BackgroundCall wrong([]() -> std::string { throw UserError("wrong"); });
  CHECK_THROWS_AS(wrong.answer(), UserError);
}

TEST_CASE("a background call that nobody waits for is stopped, and no other one is", "[sim][job]") {
  BackgroundCall other([] { return endless(); });
  std::atomic<int> ended = 0;
  for (int i = 0; i < 4; ++i) {
    BackgroundCall call([&ended] {
      in_parallel(3, 3, [&ended](std::size_t) -> int {
        try {
          endless();
        } catch (const Interruption&) {
          ++ended;
          throw;
        }
        return 0;
      });
      return std::string();
    });
    CHECK_FALSE(call.over_within(std::chrono::milliseconds(0)));
  }
  CHECK(ended <= 12);
  CHECK_FALSE(other.over_within(std::chrono::milliseconds(0)));
  CHECK_FALSE(is_interrupted());
}

TEST_CASE("the output of a thread can be caught", "[sim][job]") {
  CaughtOutput outer;
  print("a");
  {
    const CaughtOutput inner;
    write_atomically("-", "b");
    complain("nobody hears it");
    CHECK(inner.text == "b");
  }
  print("c");
  CHECK(outer.text == "ac");
}

TEST_CASE("a file is read byte for byte; a folder and a missing file cannot be read", "[sim][output]") {
  const test::TemporaryFolder folder;
  CHECK(read_file(folder.write("text", "a\nb\r\n")) == "a\nb\r\n");
  CHECK(read_file(folder.write("empty", "")).empty());
  CHECK_THROWS_WITH(read_file(folder.path()), folder.path().string() + ": cannot be read: a folder, not a file");
  CHECK_THROWS_WITH(read_file(folder.path() / "missing"),
                    folder.path().string() + "/missing: cannot be read: no such file");
}

}  // namespace sim_test_job
