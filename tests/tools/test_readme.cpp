// The README shows what the command says.
#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "scenarios/src/studies/measured/horovod_study.hpp"
#include "tests/seeds/seed_case.hpp"
#include "tests/tools/topo_shell.hpp"

namespace tools_test_readme {

namespace {

std::string readme(const std::string& file = "README.md") {
  std::ifstream in(std::filesystem::path(TRAINYARD_SOURCE_DIR) / file);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("the README's answer is the one that its first command gives", "[readme]") {
  const std::string line =
      std::string(TRAINYARD_BINARY " run ") + TRAINYARD_SOURCE_DIR "/scenarios/gpt2-xl-ddp-dgx-a100.yaml";
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(::popen(line.c_str(), "r"), ::pclose);
  REQUIRE(pipe);
  const std::string text = readme();
  std::array<char, 4096> buffer{};
  int lines = 0;
  for (; std::fgets(buffer.data(), static_cast<int>(buffer.size()), pipe.get()); ++lines) {
    const std::string said = buffer.data();
    CAPTURE(said);
    CHECK(text.find(said) != std::string::npos);
  }
  CHECK(lines > 10);
}

TEST_CASE("what the course prints below a command is what that prints", "[readme][lessons]") {
  std::istringstream in(readme("scenarios/README.md"));
  const trainyard::test::TopoFolder shell;
  const std::string command = "$ ./tools/trainyard ", fence = "```";
  std::string printed;
  int commands = 0, lines = 0;
  bool shown = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(command)) {
      const trainyard::test::TopoAnswer answer = shell.trainyard(line.substr(command.size()));
      CAPTURE(line, answer.err);
      REQUIRE(answer.exit == 0);
      printed = "\n" + answer.out;
      shown = true;
      ++commands;
    } else if (line.starts_with(fence)) {
      shown = false;
    } else if (shown) {
      CAPTURE(line, printed);
      CHECK(printed.find("\n" + line + "\n") != std::string::npos);
      ++lines;
    }
  }
  CHECK(commands >= 10);
  CHECK(lines >= 20);
}

TEST_CASE("the scenarios' README names the command that lists their keys, which takes Markdown", "[readme][help]") {
  CHECK(readme("scenarios/README.md").find("`./tools/trainyard help scenario`") != std::string::npos);
  const trainyard::test::TopoAnswer answer = trainyard::test::TopoFolder().trainyard("help scenario --markdown");
  REQUIRE(answer.exit == 0);
  CHECK(answer.out.find("| cluster.nodes ") != std::string::npos);
}

TEST_CASE("the README's limits are those of help", "[readme][help]") {
  const std::string text = readme(), begin = "<!-- trainyard help limits --markdown -->\n", end = "<!-- end -->\n";
  const std::size_t from = text.find(begin), to = text.find(end, from);
  REQUIRE(from != std::string::npos);
  REQUIRE(to != std::string::npos);
  const std::string out = trainyard::test::TopoFolder().trainyard("help limits --markdown").out;
  CHECK(text.substr(from + begin.size(), to - from - begin.size()) == out.substr(out.find('|')));
}

TEST_CASE("the README says by how many ranks its large scenarios are simulated", "[readme]") {
  const trainyard::test::TopoFolder shell;
  const auto folding = [&shell](const std::string& scenario) {
    const std::string out = shell.trainyard("run " + scenario + " --no-what-if").out;
    const std::size_t at = out.find("\nfolding ");
    REQUIRE(at != std::string::npos);
    return out.substr(at, out.find('\n', at + 1) - at);
  };
  using Catch::Matchers::Contains;
  CHECK_THAT(folding("llama3-405b-16k-h100"), Contains(" 16,384 ranks, 16 of them simulated"));
  CHECK_THAT(folding("ddp-100k"), Contains(" 100,352 ranks, 128 of them simulated"));
  CHECK_THAT(readme(), Contains("are told by 16 of them") && Contains("by 128, and there"));
}

TEST_CASE("no page states a time of the program that nothing measures", "[readme]") {
  const std::regex time(
      "(in|about|some|than|takes?|within) (an?|one|two|three|four|five|six|ten|[0-9]+) (second|minute)s?\\b");
  for (const char* file : {"README.md", "scenarios/README.md", "tools/README.md", "tests/README.md"}) {
    CAPTURE(file);
    const std::string text = std::regex_replace(readme(file), std::regex("\\s+"), " ");
    CHECK_FALSE(text.empty());
    std::smatch found;
    CAPTURE(std::regex_search(text, found, time) ? found.str() : "");
    CHECK(found.empty());
  }
}

TEST_CASE("the README counts the seed cases that there are", "[readme]") {
  std::ifstream in(std::filesystem::path(TRAINYARD_SOURCE_DIR) / "tests/seeds/cases.yaml");
  const std::vector<std::string> there = trainyard::seed_experiments().names();
  std::size_t cases = 0;
  for (std::string line; std::getline(in, line);) cases += line.starts_with("  - id: ") ? 1 : 0;
  CHECK(readme().find(std::to_string(there.size()) + " of " + std::to_string(cases)) != std::string::npos);
}

TEST_CASE("the README's errors of the Horovod study are those of today", "[readme][horovod]") {
  using namespace trainyard;
  const HorovodStudy study = read_horovod_study();
  const std::vector<double> documented = training_times(predict_horovod({"documented"}).front());
  for (const std::vector<double>& predicted : {documented, leave_one_out(study, documented)}) {
    const ErrorSet errors = against(study, "", predicted, &HorovodStudy::Row::multi_0);
    const auto tenth = [](double share) {
      std::array<char, 32> text{};
      std::snprintf(text.data(), text.size(), "%.1f %%", share * 100);
      return std::string(text.data());
    };
    CHECK(readme().find("median " + tenth(errors.median_abs) + ", worst " + tenth(errors.worst_abs)) !=
          std::string::npos);
  }
}

}  // namespace tools_test_readme
