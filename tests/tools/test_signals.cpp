// A working verb ends by any signal, and none of its child processes outlives it.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "sim/process/job.hpp"
#include "tests/scenarios/learned.hpp"
#include "tests/temporary_folder.hpp"
#include "tools/verbs/verbs.hpp"

namespace tools_test_signals {

using namespace trainyard;
using namespace trainyard::test;

namespace {

/// Waits until `holds()` is true. Returns false after three minutes, enough even for a machine under load.
template <class Condition>
bool comes_true(const Condition& holds) {
  constexpr std::chrono::minutes limit{3};
  constexpr useconds_t interval = 2000;
  for (const auto end = std::chrono::steady_clock::now() + limit; !holds();) {
    if (std::chrono::steady_clock::now() > end) return false;
    ::usleep(interval);
  }
  return true;
}

std::vector<pid_t> children_of(pid_t process) {
  const std::string number = std::to_string(process);
  std::ifstream in("/proc/" + number + "/task/" + number + "/children");
  return {std::istream_iterator<pid_t>(in), {}};
}

/// Number of generations of descendants that this process has now.
int generations_below(pid_t process) {
  int most = 0;
  for (const pid_t child : children_of(process)) most = std::max(most, 1 + generations_below(child));
  return most;
}

/// A process with the signal handlers of a shell, in a group of its own. Its orphans become children of this process.
class Job {
 public:
  template <class Work>
  explicit Job(const Work& work) {
    REQUIRE(::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    std::fflush(nullptr);  // otherwise the child would write our buffers too
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      ::prctl(PR_SET_CHILD_SUBREAPER, 0);
      ::setpgid(0, 0);
      for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::signal(signal, SIG_DFL);
      work();
      ::_exit(127);
    }
    ::setpgid(pid_, pid_);
  }
  ~Job() {
    if (pid_ > 0) ::kill(-pid_, SIGKILL);
    none_left();
    ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  pid_t pid() const { return pid_; }

  /// Waits for the end. Returns the exit code, or minus the number of a signal.
  int wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) continue;
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  /// Whether its orphans end too. Call it after the end of the process.
  static bool none_left() {
    return comes_true([] {
      while (::waitpid(-1, nullptr, WNOHANG) > 0) continue;
      return ::waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD;
    });
  }

 private:
  pid_t pid_ = -1;
};

/// A scenario whose steps take hours, simulated rank by rank, for many points of a sweep or a plan.
const char* const kLong =
    "cluster: {nodes: 4, node: dgx-1v, fabric: nonblocking}\nmodel: {base: gpt2, n_layer: 48}\n"
    "plan: {global_batch_size: 131072, micro_batch_size: 1, seq_length: 64, precision: fp16, pipeline_parallel: 4}\n";

struct Verb {
  const char* words;
  int generations;  ///< generations of processes below the verb's process while it simulates
};

constexpr Verb kVerbs[] = {
    {"run long.yaml --fold off --no-what-if", 0},
    {"sweep long.yaml --set plan.global_batch_size=131072,65536,98304 --csv table.csv", 0},
    {"plan long.yaml --set plan.global_batch_size=32768 --brief", 0},
    {"run long.yaml --fold off --no-what-if --transport native", 1},
};

/// Whether a process has used a fifth of a second of the processor.
bool is_at_work(pid_t pid) {
  const std::string text = file_text(fmt::format("/proc/{}/stat", pid));
  std::istringstream fields(text.substr(std::min(text.size(), text.rfind(')') + 1)));
  std::string field;
  double ticks = 0;
  for (int number = 3; fields >> field; ++number)  // fields utime and stime in the numbering of proc(5)
    if (number == 14 || number == 15) ticks += std::stod(field);
  return ticks / static_cast<double>(::sysconf(_SC_CLK_TCK)) >= 0.2;
}

void check_end(const Verb& verb, int signal, bool group) {
  INFO(verb.words << ", signal " << signal << (group ? " to its group" : ""));
  const TemporaryFolder folder;
  folder.write("long.yaml", kLong);
  Job job([&] {
    if (::chdir(folder.path().c_str()) != 0) return;
    const int output = ::open(".said", O_CREAT | O_WRONLY, 0600);
    ::dup2(output, STDOUT_FILENO);
    ::dup2(output, STDERR_FILENO);
    ::execl("/bin/sh", "sh", "-c", ("exec '" TRAINYARD_BINARY "' " + std::string(verb.words)).c_str(), nullptr);
  });
  REQUIRE(comes_true([&] { return generations_below(job.pid()) >= verb.generations && is_at_work(job.pid()); }));
  ::kill(group ? -job.pid() : job.pid(), signal);
  const int end = job.wait();
  INFO(folder.text(".said"));
  CHECK((end == -signal || end == 3));
  CHECK(Job::none_left());
  CHECK(folder.text(".said").find("internal error") == std::string::npos);
  CHECK_FALSE(std::filesystem::exists(folder.path() / "table.csv"));
  for (const auto& file : std::filesystem::directory_iterator(folder.path()))
    CHECK_FALSE(file.path().filename().string().starts_with(".trainyard-"));
}

}  // namespace

TEST_CASE("a verb at work ends by any signal and leaves no process", "[signals][cli]") {
  for (const Verb& verb : kVerbs) {
    check_end(verb, SIGINT, true);  // as Ctrl-C on a terminal
    check_end(verb, SIGTERM, false);
    check_end(verb, SIGKILL, false);
  }
  check_end(kVerbs[1], SIGTERM, true);
  check_end(kVerbs[0], SIGINT, false);
  check_end(kVerbs[0], SIGHUP, false);
}

namespace {

/// The end of a verb as Job::wait() returns it, and its output.
struct EndedVerb {
  int end = 0;
  std::string out, err;
};
/// Runs a verb, and ends it by a signal at its first line of progress with the words `progress`.
EndedVerb end_at(const TemporaryFolder& folder, const std::vector<std::string>& words, const std::string& progress) {
  Job job([&] {
    if (::chdir(folder.path().c_str()) != 0) return;
    ::dup2(::open(".out", O_CREAT | O_TRUNC | O_WRONLY, 0600), STDOUT_FILENO);
    ::dup2(::open(".err", O_CREAT | O_TRUNC | O_WRONLY, 0600), STDERR_FILENO);
    trainyard::Job watched;
    watched.progress = [&progress](const std::string& text) {
      if (text.find(progress) != std::string::npos) ::raise(SIGTERM);
    };
    const JobScope scope(watched);
    const int code = run_command(words);
    std::fflush(nullptr);
    ::_exit(code);
  });
  const int end = job.wait();
  CHECK(Job::none_left());
  return {end, folder.text(".out"), folder.text(".err")};
}

constexpr int kInterruptedExit = 3;

}  // namespace

TEST_CASE("an interrupted search, sweep or training prints its results so far as unfinished", "[signals][cli]") {
  using Catch::Matchers::Contains;
  const TemporaryFolder folder;
  folder.write("small.yaml",
               "cluster: {node: dgx-a100}\nmodel: {base: gpt2, n_layer: 4}\nsoftware: megatron-core\n"
               "plan: {strategy: megatron, global_batch_size: 64, micro_batch_size: 1, seq_length: 256, "
               "training: {tokens: 1e9}, pipeline: {schedule: 1f1b}}\n");
  folder.write("learned.yaml", Learned().text());
  const std::vector<std::string> size{"size",       "small.yaml", "--days", "0.004",
                                      "--nodes-of", "dgx-a100",   "--work", "300K"};
  const auto json_of = [](std::vector<std::string> words) {
    words.insert(words.end(), {"--json", "-"});
    return words;
  };
  const auto check = [](const EndedVerb& ended) {
    INFO(ended.out << ended.err);
    CHECK(ended.end == kInterruptedExit);
    CHECK_THAT(ended.err, Contains("interrupted"));
  };
  SECTION("size, in the search of its second cluster") {
    const EndedVerb ended = end_at(folder, size, " days; ");
    check(ended);
    CHECK_THAT(ended.out, Contains("unfinished interrupted at node type 1 of 1, on ") &&
                              Contains("none       of the simulated sizes meets deadline and budget. The nearest:") &&
                              Contains("nearest "));
    const nlohmann::json answer = nlohmann::json::parse(end_at(folder, json_of(size), " days; ").out);
    CHECK_THAT(answer.at("unfinished").get<std::string>(),
               Contains("interrupted") && Contains("the search of each cluster ends after 0.3 M operations: --work"));
    CHECK_FALSE(answer.at("rows").empty());
    CHECK(answer.contains("nearest"));
  }
  SECTION("size, in the comparison of networks") {
    const std::vector<std::string> networks{"size",      "small.yaml",  "--days", "9",     "--gpus",     "16",
                                            "--network", "nonblocking", "--work", "300K",  "--nodes-of", "dgx-a100",
                                            "--csv",     "n.csv",       "--json", "a.json"};
    const EndedVerb ended = end_at(folder, networks, "networks: ");
    check(ended);
    CHECK_THAT(ended.out,
               Contains("unfinished interrupted during the comparison of networks") && Contains("verdict    So far: "));
    CHECK_THAT(ended.err,
               Contains("--csv: not written: the search was interrupted before it had compared the networks"));
    CHECK(folder.files().count("n.csv") == 0);
    const nlohmann::json answer = nlohmann::json::parse(folder.text("a.json"));
    CHECK_FALSE(answer.contains("networks"));
    CHECK_THAT(answer.at("verdict").at("decision").get<std::string>(), Catch::Matchers::StartsWith("So far: "));
  }
  SECTION("size, while node types are bounded") {
    const std::vector<std::string> catalog{"size", "small.yaml", "--days", "0.004", "--progress"};
    const EndedVerb ended = end_at(folder, catalog, "2 of ");
    check(ended);
    CHECK_THAT(ended.out, Contains("unfinished interrupted before the search of ") &&
                              Contains("bounded only, the most promising first: vr-"));
  }
  SECTION("size, in the search of its first cluster, that has a plan") {
    const EndedVerb ended = end_at(folder, size, "; best ");
    check(ended);
    CHECK_THAT(ended.out,
               Contains("where the best plan so far takes ") && Contains("has one simulated plan, none was searched"));
  }
  SECTION("sweep") {
    const std::vector<std::string> sweep{"sweep", "small.yaml", "--set", "plan.seq_length=range(16, 256, 4)"};
    const EndedVerb ended = end_at(folder, sweep, " points");
    check(ended);
    CHECK_THAT(ended.err, Contains(" of 61 points are done; the answer has these alone"));
    CHECK(std::count(ended.out.begin(), ended.out.end(), '\n') >= 2);  // at least a head and a row
    CHECK(std::count(ended.out.begin(), ended.out.end(), '\n') < 62);
    CHECK_THAT(nlohmann::json::parse(end_at(folder, json_of(sweep), " points").out).at("unfinished").get<std::string>(),
               Contains(" of 61 points are done"));
    // With --points the rows are printed, too, and the same command goes on from them.
    folder.write("plain.yaml",
                 "cluster: {node: dgx-a100}\nmodel: {base: gpt2, n_layer: 4}\n"
                 "plan: {global_batch_size: 64, micro_batch_size: 1, seq_length: 256}\n");
    std::vector<std::string> resumable{"sweep", "plain.yaml", "--set", "plan.seq_length=range(16, 256, 4)"};
    resumable.insert(resumable.end(), {"--points", "kept.jsonl", "--csv", "-"});
    const EndedVerb stopped = end_at(folder, resumable, " points");
    check(stopped);
    CHECK_THAT(stopped.err, Contains(" of 61 points are done; run the same command again to resume (kept.jsonl keeps"));
    const EndedVerb resumed = end_at(folder, resumable, "no such progress");
    CHECK(resumed.end == 0);
    std::istringstream rows(stopped.out);
    int count = 0;
    for (std::string row; std::getline(rows, row); ++count) CHECK_THAT(resumed.out, Contains(row + "\n"));
    CHECK(count >= 2);
    CHECK(count < 62);
    CHECK(std::count(resumed.out.begin(), resumed.out.end(), '\n') == 62);
  }
  SECTION("bench") {
    const std::vector<std::string> bench{"bench",    "all_reduce",  "--on",        "dgx-h100", "--nodes",    "128",
                                         "--fabric", "nonblocking", "--algorithm", "ring",     "--no-check", "--fold",
                                         "off",      "-b",          "8",           "-e",       "8G"};
    const EndedVerb ended = end_at(folder, bench, " sizes");
    check(ended);
    CHECK_THAT(ended.out, Contains("# Unfinished           : ") && Contains(" of 31 sizes are done"));
    CHECK_THAT(nlohmann::json::parse(end_at(folder, json_of(bench), " sizes").out).at("unfinished").get<std::string>(),
               Contains(" of 31 sizes are done"));
  }
  SECTION("learn") {
    const std::vector<std::string> learn{"learn", "learned.yaml", "--seeds", "40"};
    const EndedVerb ended = end_at(folder, learn, "trainings");
    check(ended);
    CHECK_THAT(ended.out, Contains("unfinished: ") && Contains(" of 40 trainings"));
    CHECK_THAT(
        nlohmann::json::parse(end_at(folder, json_of(learn), "trainings").out).at("unfinished").get<std::string>(),
        Contains(" of 40 trainings"));
  }
  SECTION("plan --layers") {
    folder.write("layers.yaml",
                 "cluster: {node: dgx-a100}\nmodel: {base: gpt2, n_layer: 4}\n"
                 "plan: {global_batch_size: 64, micro_batch_size: 1, seq_length: 256}\n");
    const EndedVerb ended = end_at(folder, {"plan", "layers.yaml", "--layers"}, "simulated; best ");
    check(ended);
    CHECK_THAT(ended.out,
               Contains("unfinished interrupted before all other plans were compared") && Contains("\nstages     "));
  }
  SECTION("plan") {
    const EndedVerb ended = end_at(folder, {"plan", "small.yaml"}, "simulated; best ");
    check(ended);
    CHECK_THAT(ended.out, Contains("unfinished interrupted; this is the best plan so far") && Contains("best "));
  }
}

TEST_CASE("an interrupted explanation, validation or fleet prints its results so far as unfinished", "[signals][cli]") {
  using Catch::Matchers::Contains;
  using Catch::Matchers::StartsWith;
  const TemporaryFolder folder;
  const auto check = [&folder](const std::vector<std::string>& words, const std::string& progress) {
    EndedVerb ended = end_at(folder, words, progress);
    INFO(words.front() << ended.out << ended.err);
    CHECK(ended.end == kInterruptedExit);
    CHECK_THAT(ended.err, Contains("interrupted"));
    return ended;
  };
  CHECK_THAT(check({"explain", "gpt2-one-a100"}, " what-ifs").out,
             StartsWith("unfinished: interrupted before all changes were simulated; this is the step itself\n"
                        "critical path of gpt2-one-a100: ") &&
                 Contains("GPU compute"));
  const EndedVerb json = check({"explain", "gpt2-one-a100", "--json", "-"}, " what-ifs");
  CHECK(nlohmann::json::parse(json.out).contains("unfinished"));
  const EndedVerb validation = check({"validate", "training"}, "400 of ");
  CHECK_THAT(validation.out,
             Contains("unfinished: 16 of 17 families are done\n") && Contains("step time of titan-a100 "));
  CHECK_THAT(validation.out, !Contains("step time of vtrain-single"));
  CHECK_THAT(
      check({"fleet", "fleet-year.yml", "--nodes", "choose"}, " nodes").out,
      StartsWith("unfinished: the steps are simulated, and ") && Contains("pretraining") && Contains(" spare: "));
  // Nothing is fitted yet.
  CHECK(check({"fit", "training"}, " different ").out.empty());
  CHECK(check({"anchor", "--measured", TRAINYARD_SOURCE_DIR "/scenarios/measured/training/titan-a100.yaml"}, " steps")
            .out.empty());
}

TEST_CASE("topo check, interrupted, prints what was found as unfinished", "[signals][cli]") {
  const TemporaryFolder folder;
  Job job([&] {
    if (::chdir(folder.path().c_str()) != 0) return;
    ::dup2(::open(".out", O_CREAT | O_TRUNC | O_WRONLY, 0600), STDOUT_FILENO);
    ::dup2(::open(".err", O_CREAT | O_TRUNC | O_WRONLY, 0600), STDERR_FILENO);
    watch_interrupts();
    ::raise(SIGINT);
    const int code = run_command({"topo", "check", "dgx-a100", "--nodes", "16", "--fabric",
                                  "{type: torus, dims: [4, 4], switch_latency: 100 ns}"});
    std::fflush(nullptr);
    ::_exit(code);
  });
  CHECK(job.wait() == kInterruptedExit);
  CHECK_THAT(folder.text(".out"), Catch::Matchers::Contains("unfinished: a signal ended the check") &&
                                      Catch::Matchers::Contains("unknown: the check was interrupted"));
  CHECK_THAT(folder.text(".err"), Catch::Matchers::Contains("interrupted"));
}

TEST_CASE("course, interrupted, says so and writes no further pages", "[signals][cli]") {
  const TemporaryFolder folder;
  Job job([&] {
    if (::chdir(folder.path().c_str()) != 0) return;
    ::dup2(::open(".err", O_CREAT | O_TRUNC | O_WRONLY, 0600), STDERR_FILENO);
    watch_interrupts();
    ::raise(SIGINT);
    const int code = run_command({"course", "--html", "pages", "--lessons", "gpipe"});
    std::fflush(nullptr);
    ::_exit(code);
  });
  CHECK(job.wait() == kInterruptedExit);
  CHECK_THAT(folder.text(".err"), Catch::Matchers::Contains("interrupted"));
  CHECK(std::filesystem::is_empty(folder.path() / "pages"));
}

TEST_CASE("a second signal ends a process that goes on after the first", "[signals]") {
  for (const int second : {SIGINT, SIGTERM}) {
    int ready[2];
    REQUIRE(::pipe(ready) == 0);
    Job job([&] {
      watch_interrupts();
      if (::write(ready[1], "r", 1) != 1) return;
      while (true) ::pause();
    });
    char byte = 0;
    REQUIRE(::read(ready[0], &byte, 1) == 1);
    ::close(ready[0]);
    ::close(ready[1]);
    ::kill(job.pid(), SIGINT);
    // Sends the signal again and again, like a pressed key, because signals at the same time count as one.
    CHECK(comes_true([&] {
      ::kill(job.pid(), second);
      siginfo_t info{};
      return ::waitid(P_PID, static_cast<id_t>(job.pid()), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
             info.si_pid == job.pid();
    }));
    CHECK(job.wait() == -second);
  }
}

TEST_CASE("a process that goes on after a signal is ended after a while", "[signals]") {
  Job job([] {
    watch_interrupts();
    ::raise(SIGTERM);
    for (volatile bool on = true; on;) continue;
  });
  CHECK(job.wait() == -SIGTERM);
}

}  // namespace tools_test_signals
