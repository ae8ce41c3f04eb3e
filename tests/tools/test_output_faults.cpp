// Commands whose output cannot be written, or would overwrite their input.
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <set>

#include "sim/error.hpp"
#include "sim/process/output.hpp"
#include "tests/temporary_folder.hpp"

namespace tools_test_output_faults {

namespace fs = std::filesystem;
using Catch::Contains;

namespace {

const std::string kScenario = R"(cluster: {nodes: 1, node: pcie-2}
model: {base: gpt2, n_layer: 1}
plan: {global_batch_size: 2, micro_batch_size: 1, seq_length: 16, precision: fp16}
)";

struct Outcome {
  int exit = 0;
  std::string err;
};

/// Runs shell lines in a temporary folder. `$T` is the command; its stderr goes to .err.
struct FaultyShell : trainyard::test::TemporaryFolder {
  FaultyShell() { write("s.yaml", kScenario); }
  Outcome run(const std::string& line) const {
    const std::string script =
        "cd '" + path().string() + "' && export T='" TRAINYARD_BINARY "' && { " + line + "; } 2>>.err </dev/null";
    write(".err", "");
    const int status = std::system(script.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text(".err")};
  }
};

}  // namespace

TEST_CASE("a command fails if its text cannot be written", "[cli][output]") {
  const FaultyShell shell;
  for (const char* words :
       {"run s.yaml --no-what-if", "explain s.yaml", "explain s.yaml --layers", "sweep s.yaml", "list gpus",
        "show gpu t4", "show s.yaml --mesh", "topo show dgx-1v", "topo rings dgx-1v",
        "topo design --hosts 64 --ports 8", "--help", "run --help", "topo --help", "help", "help json",
        "teach zero --stage 3 --ranks 8 --parameters 1e9", "teach all-reduce --algorithm ring --ranks 2",
        "teach pipeline --schedule gpipe --stages 2 --micro-batches 2", "bench all_reduce --on dgx-h100 -b 8 -e 8"}) {
    INFO(words);
    const Outcome full = shell.run("\"$T\" " + std::string(words) + " >/dev/full");
    CHECK(full.exit == 2);
    CHECK(full.err == "cannot write to stdout: No space left on device\n");
    const Outcome closed = shell.run("\"$T\" " + std::string(words) + " >&-");
    CHECK(closed.exit == 2);
    CHECK_THAT(closed.err, Contains("cannot write to stdout: "));
  }
  CHECK(shell.files() == std::set<std::string>{"s.yaml"});
}

TEST_CASE("a folder in which the user may not write is refused with the system's reason", "[cli][output]") {
  const trainyard::test::TemporaryFolder folder;
  const fs::path shut = folder.path() / "shut";
  fs::create_directory(shut);
  fs::permissions(shut, fs::perms{0555});
  fs::permissions(folder.path(), fs::perms{0755});
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    constexpr uid_t nobody = 65534;  // root may write everywhere
    if (::geteuid() == 0 && ::setuid(nobody) != 0) ::_exit(2);
    try {
      trainyard::check_writable(shut / "x.html");
    } catch (const trainyard::UserError& e) {
      ::_exit(std::string(e.what()).ends_with("shut/x.html: Permission denied") ? 0 : 1);
    }
    ::_exit(1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("if errors cannot be printed, the exit code still reports them", "[cli][output]") {
  const FaultyShell shell;
  for (const char* to : {"2>&-", "2>/dev/full"}) {
    INFO(to);
    CHECK(shell.run("\"$T\" run nothing.yaml " + std::string(to)).exit == 2);
    CHECK(shell.run("\"$T\" rnu " + std::string(to)).exit == 2);
    CHECK(shell.run("\"$T\" run s.yaml --no-what-if >/dev/null " + std::string(to)).exit == 0);
    CHECK(shell.run("\"$T\" sweep s.yaml --set plan.micro_batch_size=1,7 --csv o.csv " + std::string(to)).exit == 0);
  }
  // No file of the program gets the number of a closed standard file.
  CHECK(shell.run("\"$T\" run s.yaml --no-what-if --json o.json <&- >&- 2>&-").exit == 2);
  CHECK(shell.run("\"$T\" run s.yaml --no-what-if --json - 2>&- <&- >o.json").exit == 0);
  CHECK(shell.text("o.json").front() == '{');
}

TEST_CASE("no command overwrites its input", "[cli][output]") {
  const FaultyShell shell;
  shell.write("node.yaml", "base: pcie-2\ngpu: {type: gpu.yaml}\n");
  shell.write("gpu.yaml", "base: a100-pcie-80gb\n");
  shell.write("net.yaml", "base: gpt2\nn_layer: 1\n");
  shell.write("own.yaml",
              "cluster: {node: node.yaml}\nmodel: net.yaml\nplan: {global_batch_size: 2, micro_batch_size: 1, "
              "seq_length: 16}\n");
  shell.write("log.csv",
              "gpu,nccl_version,op,num_gpus,message_bytes,latency_us\nNVIDIA H100,2.2,all_reduce,8,1024,10\n");
  shell.write("topo.txt", "\tGPU0\tGPU1\nGPU0\tX\tPIX\nGPU1\tPIX\tX\n");
  fs::create_hard_link(shell.path() / "own.yaml", shell.path() / "hard.yaml");
  fs::create_symlink("gpu.yaml", shell.path() / "soft.yaml");
  const std::set<std::string> before = shell.files();
  const auto refused = [&](const std::string& words, const std::string& flag, const std::string& output,
                           const std::string& input) {
    INFO(words);
    const std::string old = shell.text(input);
    const Outcome ended = shell.run("\"$T\" " + words + " " + flag + " " + output + " >/dev/null");
    CHECK(ended.exit == 2);
    CHECK(ended.err == flag + " " + output + ": would overwrite " + input + ", which is read\n");
    CHECK(shell.text(input) == old);
    CHECK(shell.files() == before);
  };
  for (const char* flag : {"--json", "--trace", "--picture"})
    for (const char* input : {"own.yaml", "node.yaml", "gpu.yaml", "net.yaml"})
      refused("run own.yaml --no-what-if", flag, input, input);
  refused("run own.yaml --no-what-if", "--json", "./own.yaml", "own.yaml");
  refused("run own.yaml --no-what-if", "--json", "hard.yaml", "own.yaml");
  refused("run own.yaml --no-what-if", "--json", "soft.yaml", "gpu.yaml");
  for (const char* words : {"explain own.yaml", "show own.yaml --mesh"})
    refused(words, "--json", "node.yaml", "node.yaml");
  for (const char* flag : {"--csv", "--json"})
    refused("sweep own.yaml --set plan.global_batch_size=2,4", flag, "own.yaml", "own.yaml");
  refused("bench all_reduce --on dgx-h100 --compare log.csv", "--json", "log.csv", "log.csv");
  refused("fit nccl log.csv --gpu h100-sxm5-80gb", "--out", "log.csv", "log.csv");
  refused("topo import topo.txt --gpu t4", "--yaml", "topo.txt", "topo.txt");
  refused("topo show own.yaml", "--svg", "own.yaml", "own.yaml");
}

TEST_CASE("a limit of file sizes gives one error and leaves no files", "[cli][output]") {
  const FaultyShell shell;
  const auto limited = [&shell](int blocks, const std::string& words) {
    INFO(words);
    const Outcome ended = shell.run("( ulimit -f " + std::to_string(blocks) + "; exec \"$T\" " + words +
                                    " >/dev/null 2>.pipe; ) ; "
                                    "code=$?; cat .pipe >&2; exit $code");
    CHECK(ended.exit == 2);
    CHECK(shell.files() == std::set<std::string>{"s.yaml"});
    return ended.err;
  };
  CHECK(limited(1, "run s.yaml --no-what-if --json o.json") == "cannot write o.json: File too large\n");
  CHECK(limited(1, "run s.yaml --no-what-if --trace o.trace") == "cannot write o.trace: File too large\n");
  CHECK(limited(1, "run s.yaml --no-what-if --picture o.svg") == "cannot write o.svg: File too large\n");
}

TEST_CASE("a sweep whose journal exceeds the limit keeps the complete lines", "[cli][output]") {
  const FaultyShell shell;
  const std::string sweep = "sweep s.yaml --set plan.global_batch_size=2,4,6,8,10,12,14,16 --csv o.csv";
  const Outcome full =
      shell.run("( ulimit -f 1; exec \"$T\" " + sweep + " 2>.said ); code=$?; cat .said >&2; exit $code");
  CHECK(full.exit == 2);
  CHECK_THAT(full.err, Contains("cannot write o.csv.partial: File too large"));
  CHECK_FALSE(fs::exists(shell.path() / "o.csv"));
  if (fs::exists(shell.path() / "o.csv.partial")) {
    CHECK(shell.text("o.csv.partial").ends_with("\n"));
    CHECK_THAT(full.err, Contains("are kept for the same command again"));
  }
  CHECK(shell.run("\"$T\" " + sweep).exit == 0);
  CHECK(shell.files() == std::set<std::string>{"o.csv", "s.yaml"});
}

TEST_CASE("writing a file follows no link that another user placed beside it", "[cli][output]") {
  const FaultyShell shell;
  shell.write("victim", "kept\n");
  // The former names of temporary files had the number of the process: one name for each possible process.
  const Outcome written = shell.run(
      "sh -c 'ln -s victim o.json.$$.tmp; ln -s victim o.csv.partial; exec \"$T\" run s.yaml --no-what-if --json "
      "o.json' "
      ">/dev/null");
  CHECK(written.exit == 0);
  CHECK(shell.text("victim") == "kept\n");
  CHECK(shell.text("o.json").front() == '{');
  const Outcome swept = shell.run("\"$T\" sweep s.yaml --csv o.csv");
  CHECK(swept.exit == 2);
  CHECK(swept.err == "cannot write o.csv.partial: it is a symbolic link\n");
  CHECK(shell.text("victim") == "kept\n");
  // If the output is a link, the file replaces the link.
  fs::create_symlink("victim", shell.path() / "link.json");
  CHECK(shell.run("\"$T\" run s.yaml --no-what-if --json link.json >/dev/null").exit == 0);
  CHECK(shell.text("victim") == "kept\n");
  CHECK(shell.text("link.json") == shell.text("o.json"));
}

TEST_CASE("an output file has its name only after it is complete", "[output]") {
  const trainyard::test::TemporaryFolder folder;
  const auto files = [&] { return std::distance(fs::directory_iterator(folder.path()), {}); };
  {
    trainyard::AtomicOutput output(folder.path() / "o");
    output.add("half");
    CHECK(trainyard::test::file_text(output.flush()) == "half");
    CHECK_FALSE(fs::exists(folder.path() / "o"));
  }
  CHECK(files() == 0);
  folder.write("o", "before");
  trainyard::AtomicOutput output(folder.path() / "o");
  output.add("after");
  CHECK(folder.text("o") == "before");
  output.commit();
  CHECK(folder.text("o") == "after");
  CHECK(files() == 1);
}

TEST_CASE("too few open files give one clear error", "[cli][output]") {
  const FaultyShell shell;
  for (int files = 5; files < 16; files += 2)
    for (const char* words : {"run s.yaml", "sweep s.yaml --set plan.global_batch_size=2,4 --csv o.csv"}) {
      INFO(words << " with " << files << " files");
      const Outcome ended =
          shell.run("( ulimit -n " + std::to_string(files) + "; exec \"$T\" " + words + " ) >/dev/null");
      CHECK((ended.exit == 0 || ended.exit == 2));
      fs::remove(shell.path() / "o.csv");
      if (ended.exit == 0) continue;
      CHECK(std::count(ended.err.begin(), ended.err.end(), '\n') == 1);
      CHECK_THAT(ended.err, Contains("Too many open files"));
      CHECK_THAT(ended.err, !Contains("internal error") && !Contains("impossible"));
      // Only finished points stay, and the error says so. No point is recorded as impossible.
      const fs::path journal = shell.path() / "o.csv.partial";
      const bool has_journal = fs::exists(journal);
      CHECK(has_journal ==
            (ended.err.find("; o.csv.partial keeps the points that are done for the same command again\n") !=
             std::string::npos));
      if (has_journal) {
        const std::string points = shell.text("o.csv.partial");
        CHECK(points.ends_with("\n"));
        CHECK_THAT(points, Contains("\"step_time_s\"") && !Contains("Too many open files"));
        CHECK(shell.run("\"$T\" " + std::string(words)).exit == 0);
        CHECK_FALSE(fs::exists(journal));
        fs::remove(shell.path() / "o.csv");
      }
      CHECK(shell.files() == std::set<std::string>{"s.yaml"});
    }
}

TEST_CASE("errors quote long input only in part", "[cli][errors]") {
  const FaultyShell shell;
  const std::string long_text(100000, 'x');
  shell.write("value.yaml", kScenario + "software: " + long_text + "\n");
  shell.write("key.yaml", kScenario + long_text.substr(0, 1000) + ": 1\n");
  shell.write("number.yaml",
              "cluster: {nodes: 1" + std::string(90000, '0') + ", node: pcie-2}\nmodel: gpt2\nplan: {}\n");
  for (const char* file : {"value.yaml", "key.yaml", "number.yaml"}) {
    INFO(file);
    const Outcome ended = shell.run("\"$T\" run " + std::string(file));
    CHECK(ended.exit == 2);
    CHECK_THAT(ended.err, Catch::StartsWith(file) && Contains(" … "));
    CHECK(ended.err.size() < 1000);
  }
  CHECK(shell.run("\"$T\" run s.yaml --set plan.precision=" + long_text.substr(0, 50000)).err.size() < 1000);
  CHECK(shell.run("\"$T\" run s.yaml --set " + long_text.substr(0, 50000) + "=1").err.size() < 5000);
  CHECK(shell.run("\"$T\" " + long_text.substr(0, 50000)).err.size() < 1500);
}

}  // namespace tools_test_output_faults
