// The output of a sweep without a flag for its table.
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <sstream>

#include "tests/svg_checks.hpp"
#include "tests/tools/topo_shell.hpp"

namespace tools_test_sweep_table {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using trainyard::test::TopoFolder;

namespace {

/// The output of a command on a terminal.
std::string on_terminal(const TopoFolder& folder, const std::string& words) {
  int terminal = -1;
  const pid_t pid = ::forkpty(&terminal, nullptr, nullptr, nullptr);
  REQUIRE(pid >= 0);
  if (pid == 0) {
    const std::string line =
        "cd '" + folder.path().string() + "' && exec '" TRAINYARD_BINARY "' " + words + " 2>/dev/null";
    ::execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
    ::_exit(127);
  }
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t n = 0; (n = ::read(terminal, buffer.data(), buffer.size())) > 0;)
    for (ssize_t i = 0; i < n; ++i)
      if (buffer[static_cast<std::size_t>(i)] != '\r') text += buffer[static_cast<std::size_t>(i)];
  ::close(terminal);
  int status = 0;
  ::waitpid(pid, &status, 0);
  CHECK(WEXITSTATUS(status) == 0);
  return text;
}

const std::string kSweep =
    "sweep gpt2-one-a100 --set plan.micro_batch_size=8,16 --set plan.precision=bf16 --set "
    "plan.global_batch_size=32,40 ";

}  // namespace

TEST_CASE("a sweep with prices shows cost and energy of tokens, and one without does not", "[cli][sweep]") {
  const TopoFolder folder;
  const std::string sweep = "sweep gpt2-one-a100 --set plan.micro_batch_size=1,2";
  CHECK_THAT(on_terminal(folder, sweep), !Contains("tokens/J") && !Contains("a million costs"));
  CHECK_THAT(on_terminal(folder, sweep + " --prices " TRAINYARD_SOURCE_DIR "/scenarios/prices-example.yml"),
             Contains("tokens/J") && Contains("a million costs") && !Contains("samples/J"));
}

TEST_CASE("on a terminal a sweep prints a table of the varied keys and the main results", "[cli][sweep]") {
  const TopoFolder folder;
  const std::string text = on_terminal(folder, kSweep);
  INFO(text);
  CHECK_THAT(text, StartsWith("gpt2-one-a100: 4 of 4 points; in all plan.precision=bf16\n"
                              "  micro_batch_size  global_batch_size "));
  for (const char* head : {" step ", "samples/s", "MFU", "memory", "bottleneck", "impossible, since"})
    CHECK_THAT(text, Contains(head));
  CHECK_THAT(text, Contains(" ms ") && Contains(" GiB ") && Contains(" %") && Contains("40 is not a multiple of 16"));
  CHECK_THAT(text, !Contains("goodput") && !Contains("GPUs") && !Contains("fits"));
  // No number has more than seven characters.
  std::istringstream words(text);
  for (std::string word; words >> word;)
    if (word.find_first_not_of("0123456789.") == std::string::npos) CHECK(word.size() <= 7);
  CHECK_THAT(on_terminal(folder, kSweep + "--sort -mfu --top 1"), StartsWith("gpt2-one-a100: 1 of 4 points"));
}

TEST_CASE("a sweep refuses to sort by a column that no point has", "[cli][sweep]") {
  const TopoFolder folder;
  const auto sorted = folder.trainyard(kSweep + "--sort goodput");
  CHECK(sorted.exit == 2);
  CHECK_THAT(sorted.err, Contains("--sort goodput: no point has this column; known: step_time_s, "));
}

TEST_CASE("a sweep prints CSV into a pipe or with --csv, and a Markdown table with --markdown", "[cli][sweep]") {
  const TopoFolder folder;
  const std::string piped = folder.trainyard(kSweep).out;
  CHECK_THAT(piped, StartsWith("plan.micro_batch_size,plan.precision,plan.global_batch_size,step_time_s,"));
  CHECK(folder.trainyard(kSweep + "--csv -").out == piped);
  CHECK(on_terminal(folder, kSweep + "--csv -") == piped);
  const std::string markdown = folder.trainyard(kSweep + "--markdown").out;
  CHECK_THAT(markdown, Contains("| micro_batch_size | global_batch_size | step |") && Contains("|---:|---:|"));
}

TEST_CASE("the chart of a sweep has any swept field across, by numbers or by words", "[cli][sweep]") {
  const TopoFolder folder;
  const auto drawn = [&folder](const std::string& words) {
    const auto answer = folder.trainyard("sweep " + words + " --svg -");
    INFO(words << answer.err);
    REQUIRE(answer.exit == 0);
    trainyard::test::well_formed(answer.out);
    return answer.out;
  };
  const std::string batches =
      "gpt2-one-a100 --set plan.micro_batch_size=8,16,32,64 --set plan.global_batch_size=64,128";
  const std::string chosen = drawn(batches);
  CHECK_THAT(chosen, Contains(">step time over micro batch size, logarithmic<") && Contains(" ms<") &&
                         Contains(">global batch size 64<") && Contains(">global batch size 128<"));
  CHECK_THAT(drawn(batches + " --across plan.global_batch_size --up mfu"),
             Contains(">MFU over global batch size<") && Contains(" %<") && Contains(">micro batch size 8<"));
  CHECK_THAT(drawn(batches + " --up memory_peak_bytes"), Contains(" GiB<"));
  const std::string servers = "'" TRAINYARD_SOURCE_DIR
                              "/scenarios/lessons/3-data-parallelism-and-servers/27-parameter-servers.yaml' --set "
                              "'plan.data_parallel.servers.label=1W1PS,2W1PS,2W2PS & cluster.nodes=2,3,4'";
  const std::string labels = drawn(servers);  // the page of a sweep chooses the same axes
  CHECK_THAT(labels, Contains(">samples a second over servers label<") && Contains(">0<"));
  for (const char* label : {">1W1PS<", ">2W1PS<", ">2W2PS<"}) CHECK_THAT(labels, Contains(label));
  // Labels name the points also if each has another number of GPUs.
  const std::string workers = "'" TRAINYARD_SOURCE_DIR
                              "/scenarios/lessons/3-data-parallelism-and-servers/27-parameter-servers.yaml' --set "
                              "'plan.data_parallel.servers.label=1W1PS,2W1PS,4W1PS & cluster.nodes=2,3,5'";
  CHECK_THAT(drawn(workers), Contains(">samples a second over servers label<") && Contains(">4W1PS<"));
  CHECK_THAT(drawn(servers + " --across cluster.nodes"), Contains(" over nodes<"));
  const std::string scaling = drawn("gpt2-xl-ddp-dgx-a100 --set cluster.nodes=1,2");
  CHECK_THAT(scaling, Contains("samples/s over GPUs, both logarithmic"));
  // No title or legend has the raw key of a column or a field.
  for (const std::string& text : {chosen, labels, drawn(batches + " --up memory_peak_bytes")})
    for (std::size_t begin = text.find("<text"); begin != std::string::npos; begin = text.find("<text", begin + 1)) {
      const std::size_t from = text.find('>', begin) + 1;
      const std::string words = text.substr(from, text.find('<', from) - from);
      CAPTURE(words);
      CHECK(words.find('_') == std::string::npos);
      CHECK(words.find("plan.") == std::string::npos);
    }
  folder.check_refused("sweep " + batches + " --svg s.svg --across plan.micro_batch_siz",
                       "--across plan.micro_batch_siz: not a swept field; did you mean \"plan.micro_batch_size\"?");
  CHECK_THAT(folder.trainyard("sweep " + batches + " --svg s.svg --up mfv").err, Contains("did you mean \"mfu\"?"));
  CHECK_THAT(folder.trainyard("sweep " + batches + " --up mfu").err, Contains("--up: only with --svg"));
}

}  // namespace tools_test_sweep_table
