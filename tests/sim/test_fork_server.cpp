// Workers for programs with threads: answered, bounded, killed when nobody waits, and reaped.
#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>
#include <vector>

#include "sim/process/child.hpp"
#include "sim/process/fork_server.hpp"

namespace sim_test_fork_server {

using namespace trainyard;

namespace {

constexpr int kLong = 60000;  // ms

/// "sleep": never; "die": killed; "fork": what a child of the worker says; "note": notes, one from there; else the question
/// twice.
std::string echo(const std::string& question, const ForkServer::Note& note) {
  while (question == "sleep") ::pause();
  if (question == "die") ::raise(SIGKILL);
  if (question == "fork") return in_child([] { return std::string("of a child"); });
  if (question == "note") {
    note("first");
    return in_child([&note] {
      note("");
      return std::string("of a child");
    });
  }
  return question + question;
}

std::string children_of(pid_t process) {
  const std::string number = std::to_string(process);
  std::ifstream in("/proc/" + number + "/task/" + number + "/children");
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string answer(ForkServer& server, const std::string& question) {
  ForkServer::Job job = server.ask(question);
  REQUIRE(job.over_within(kLong));
  return job.answer().value_or("died");
}

}  // namespace

TEST_CASE("what workers and their children note on the way comes before the answer", "[sim][child]") {
  ForkServer server(echo, 1);
  ForkServer::Job job = server.ask("note");
  REQUIRE(job.over_within(kLong));
  CHECK(job.answer().value_or("died") == "of a child");
  CHECK(job.take_notes() == std::vector<std::string>{"first", ""});
  CHECK(job.take_notes().empty());
}

TEST_CASE("a fork server keeps no file of its program open", "[sim][child]") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  ForkServer server(echo, 1);
  CHECK(answer(server, "a") == "aa");
  ::close(ends[1]);
  char byte = 0;
  CHECK(::read(ends[0], &byte, 1) == 0);  // the end of the pipe, not a wait
  ::close(ends[0]);
}

TEST_CASE("a fork server answers from workers, from any thread", "[sim][child]") {
  ForkServer server(echo, 2);
  CHECK(answer(server, "ab") == "abab");
  CHECK(answer(server, "").empty());
  CHECK(answer(server, "die") == "died");
  CHECK(answer(server, "fork") == "of a child");
  CHECK(answer(server, std::string(60000, 'x')).size() == 120000);
  std::vector<std::string> got(8);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < got.size(); ++i)
    threads.emplace_back([&, i] {
      ForkServer::Job job = server.ask(std::to_string(i));
      if (job.over_within(kLong)) got[i] = job.answer().value_or("");
    });
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == std::to_string(i) + std::to_string(i));
}

TEST_CASE("a worker that nobody waits for is killed, and its place is free", "[sim][child]") {
  ForkServer server(echo, 1);
  {
    ForkServer::Job running = server.ask("sleep"), waiting = server.ask("sleep");
    CHECK_FALSE(running.over_within(0));
    CHECK_FALSE(waiting.over_within(0));
  }
  CHECK(answer(server, "ab") == "abab");
  for (int i = 0; i < 20; ++i) answer(server, "c");
  // The last worker may not be gone yet; those before it are, or they would be 20.
  std::istringstream children(children_of(server.process()));
  CHECK(std::distance(std::istream_iterator<int>(children), {}) <= 2);
}

}  // namespace sim_test_fork_server
