// The README and the manual show what the command says.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "scenarios/src/studies/measured/horovod_study.hpp"
#include "sim/json_text.hpp"
#include "strategies/collectives/collective.hpp"
#include "tests/seeds/seed_case.hpp"
#include "tests/tools/topo_shell.hpp"
#include "tools/reports/report_lines.hpp"

namespace tools_test_readme {

namespace {

std::string page_text(const std::string& file = "README.md") {
  return trainyard::test::file_text(std::filesystem::path(TRAINYARD_SOURCE_DIR) / file);
}

std::string manual(const std::string& page) { return page_text("tools/manual/" + page); }

/// The README and the pages of the manual, by their paths in the repository.
std::vector<std::string> pages() {
  std::vector<std::string> files{"README.md"};
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(TRAINYARD_SOURCE_DIR) / "tools/manual"))
    if (entry.path().extension() == ".md") files.push_back("tools/manual/" + entry.path().filename().string());
  return files;
}

/// The anchors that GitHub gives to the headings of a page.
std::set<std::string> anchors(const std::string& text) {
  std::set<std::string> found;
  std::istringstream in(text);
  bool code = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("```")) code = !code;
    const std::size_t title = line.find_first_not_of('#');
    if (code || title == 0 || title == std::string::npos || line[title] != ' ') continue;
    std::string anchor;
    for (const char c : line.substr(title + 1)) {
      if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_')
        anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      if (c == ' ') anchor += '-';
    }
    found.insert(anchor);
  }
  return found;
}

}  // namespace

TEST_CASE("the README is at most 200 lines, and shows the scenario of its answer", "[readme]") {
  const std::string text = page_text(), scenario = page_text("scenarios/gpt2-xl-ddp-dgx-a100.yaml");
  CHECK(std::count(text.begin(), text.end(), '\n') <= 200);
  CHECK(text.find("```yaml\n" + scenario.substr(scenario.find("cluster:")) + "```\n") != std::string::npos);
}

TEST_CASE("the targets of links and pictures of the README and the manual exist", "[readme]") {
  const std::filesystem::path root(TRAINYARD_SOURCE_DIR);
  const std::regex link("\\]\\(([^)#]*)(?:#([^)]*))?\\)");
  int links = 0;
  for (const std::string& page : pages()) {
    const std::string text = page_text(page);
    for (std::sregex_iterator at(text.begin(), text.end(), link), end; at != end; ++at, ++links) {
      const std::string file = (*at)[1].str(), anchor = (*at)[2].str();
      CAPTURE(page, at->str());
      const std::filesystem::path target = file.empty() ? root / page : (root / page).parent_path() / file;
      CHECK(std::filesystem::exists(target));
      if (!anchor.empty()) CHECK(anchors(page_text(target.string())).contains(anchor));
    }
  }
  CHECK(links > 50);
}

TEST_CASE("the README shows the answer of its first command", "[readme]") {
  const std::string line =
      std::string(TRAINYARD_BINARY " run ") + TRAINYARD_SOURCE_DIR "/scenarios/gpt2-xl-ddp-dgx-a100.yaml";
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(::popen(line.c_str(), "r"), ::pclose);
  REQUIRE(pipe);
  const std::string text = page_text();
  std::array<char, 4096> buffer{};
  int lines = 0;
  for (; std::fgets(buffer.data(), static_cast<int>(buffer.size()), pipe.get()); ++lines) {
    const std::string printed = buffer.data();
    CAPTURE(printed);
    CHECK(text.find(printed) != std::string::npos);
  }
  CHECK(lines > 10);
}

TEST_CASE("the picture of a step in the README is the one that its command draws", "[readme][pictures]") {
  const trainyard::test::TopoFolder shell;
  REQUIRE(shell.trainyard("run gpt2-xl-ddp-dgx-a100 --no-what-if --picture step.svg").exit == 0);
  CHECK(shell.text("step.svg") == page_text("tools/pictures/gpt2-xl-step.svg"));
}

TEST_CASE("the manual shows the coverage and the interval that the program prints", "[readme][coverage]") {
  const trainyard::test::TopoFolder shell;
  const std::string page = page_text("tools/manual/validation.md");
  const trainyard::test::TopoAnswer coverage = shell.trainyard("validate coverage");
  REQUIRE(coverage.exit == 0);
  CHECK(page.find("```\n" + coverage.out + "```\n") != std::string::npos);
  const std::string begin = "`step 4.11 s (3.39 s to 4.98 s with a probability of 80 %)`";
  CHECK(page.find(begin) != std::string::npos);
  std::string line = begin.substr(1, begin.size() - 2);
  line.replace(0, 5, "step       ");
  CHECK(shell.trainyard("run mixtral-ep8").out.find(line) != std::string::npos);
}

TEST_CASE("the course shows the output of its commands", "[readme][lessons]") {
  std::istringstream in(page_text("scenarios/README.md"));
  const trainyard::test::TopoFolder shell;
  const std::string command = "$ ./tools/trainyard ", fence = "```";
  std::string printed;
  int commands = 0, lines = 0;
  bool is_output = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(command)) {
      const trainyard::test::TopoAnswer answer = shell.trainyard(line.substr(command.size()));
      CAPTURE(line, answer.err);
      REQUIRE(answer.exit == 0);
      printed = "\n" + answer.out;
      is_output = true;
      ++commands;
    } else if (line.starts_with(fence)) {
      is_output = false;
    } else if (is_output) {
      CAPTURE(line, printed);
      CHECK(printed.find("\n" + line + "\n") != std::string::npos);
      ++lines;
    }
  }
  CHECK(commands >= 10);
  CHECK(lines >= 20);
}

TEST_CASE("the scenarios' README names the command that lists their keys, and it takes --markdown", "[readme][help]") {
  CHECK(page_text("scenarios/README.md").find("`./tools/trainyard help scenario`") != std::string::npos);
  const trainyard::test::TopoAnswer answer = trainyard::test::TopoFolder().trainyard("help scenario --markdown");
  REQUIRE(answer.exit == 0);
  CHECK(answer.out.find("| cluster.nodes ") != std::string::npos);
}

TEST_CASE("the manual's limits equal those of help limits", "[readme][help]") {
  const std::string text = manual("scenario-reference.md"), begin = "<!-- trainyard help limits --markdown -->\n",
                    end = "<!-- end -->\n";
  const std::size_t from = text.find(begin), to = text.find(end, from);
  REQUIRE(from != std::string::npos);
  REQUIRE(to != std::string::npos);
  const std::string out = trainyard::test::TopoFolder().trainyard("help limits --markdown").out;
  CHECK(text.substr(from + begin.size(), to - from - begin.size()) == out.substr(out.find('|')));
}

TEST_CASE("the manual states how many ranks of its large scenarios are simulated", "[readme]") {
  const trainyard::test::TopoFolder shell;
  const auto folding = [&shell](const std::string& scenario) {
    const std::string out = shell.trainyard("run " + scenario + " --no-what-if").out;
    const std::size_t at = out.find("\nsimulated ");
    REQUIRE(at != std::string::npos);
    return out.substr(at, out.find('\n', at + 1) - at);
  };
  using Catch::Matchers::Contains;
  CHECK_THAT(folding("llama3-405b-16k-h100"), Contains(" 16 of 16,384 ranks"));
  CHECK_THAT(folding("ddp-100k"), Contains(" 128 of 100,352 ranks"));
  CHECK_THAT(manual("machines-and-collectives.md"),
             Contains("| 16 of 16,384 ranks") && Contains("| 128 of 100,352 ranks"));
}

TEST_CASE("the planner's questions about networks have the figures of their commands", "[readme]") {
  using Catch::Matchers::Contains;
  const trainyard::test::TopoFolder shell;
  const std::string page = manual("planning-and-cost.md");
  // The answer of the command of the manual that names these networks.
  const auto networks_of = [&](const std::string& network) {
    const std::size_t at = page.find("--network " + network);
    REQUIRE(at != std::string::npos);
    std::string command = page.substr(page.rfind("\n./tools/trainyard ", at) + 19);
    command = std::regex_replace(command.substr(0, command.find("\n```")), std::regex("\\\\\n"), " ");
    command = std::regex_replace(command.substr(0, command.find('\n')), std::regex("--html [^ ]*|#.*"), "");
    command = std::regex_replace(command, std::regex("scenarios/"), TRAINYARD_SOURCE_DIR "/scenarios/");
    const trainyard::test::TopoAnswer answer = shell.trainyard(command + " --json -");
    INFO(command << answer.err);
    REQUIRE(answer.exit == 0);
    return nlohmann::json::parse(answer.out).at("networks");
  };
  const nlohmann::json rails = networks_of("\"nonblocking,2:1,rail"), &full = rails["rows"][0], &two = rails["rows"][1],
                       &joined = rails["rows"][3];
  const auto money = [](const nlohmann::json& row) { return trainyard::with_commas(row.at("network_cost")) + " USD"; };
  CHECK(rails["rows"][2]["network_cost"] == full["network_cost"]);
  CHECK(full["missed"] == "budget");
  CHECK(two["chosen"] == true);
  CHECK(full["plan"] == two["plan"]);
  CHECK(joined["loss"].get<double>() < 1e-4);
  CHECK_THAT(page, Contains("as much, " + money(full)) && Contains("and costs " + money(two)) &&
                       Contains("loses less than 0.01 % for " + money(joined)));
  CHECK_THAT(page, Contains(fmt::format("2:1 has {} spines in place of {}", two["spines"].get<int>(),
                                        full["spines"].get<int>())));
  CHECK_THAT(page,
             Contains(fmt::format("{:.2f} % of the\nstep ({:.2f} s, not {:.2f} s)", 100 * two["loss"].get<double>(),
                                  two["step_time_s"].get<double>(), full["step_time_s"].get<double>())));
  const nlohmann::json thin = networks_of("nonblocking,32:1");
  REQUIRE(thin["rows"][1]["has_own_plan"] == true);
  for (const nlohmann::json& row : thin["rows"]) {
    const std::string plan = row["plan"];
    CHECK_THAT(page, Contains("(" + plan.substr(0, plan.find(", micro")) + ")"));
  }
}

TEST_CASE("the manual's steps of a ring, of compressed gradients and of searched plans are those of its commands",
          "[readme]") {
  using Catch::Matchers::Contains;
  const trainyard::test::TopoFolder shell;
  const auto answer = [&shell](const std::string& command) {
    const trainyard::test::TopoAnswer run = shell.trainyard(command + " --json -");
    INFO(command << run.err);
    REQUIRE(run.exit == 0);
    return trainyard::parse_json(run.out);
  };
  const auto step = [&answer](const std::string& scenario, const std::string& set) {
    return answer("run " + scenario + " --no-what-if" + (set.empty() ? "" : " --set \"" + set + "\""))
        .at("step_time_s")
        .get<double>();
  };
  const double ring = step("gpt2-xl-ddp-dgx-a100", "plan.data_parallel.all_reduce=ring"),
               usual = step("gpt2-xl-ddp-dgx-a100", "");
  CHECK_THAT(manual("user-guide.md"),
             Contains(fmt::format("takes {:.0f} ms in place of {:.0f} ms", ring * 1e3, usual * 1e3)));
  const std::string dense = "plan.data_parallel.compression=none";
  const double sparse = step("learn-topk-1gbit", "");
  CHECK_THAT(manual("learning.md"), Contains(fmt::format("the step falls from {:.2f} s to {:.2f} s",
                                                         step("learn-topk-1gbit", dense), sparse)));
  const std::string fast = "cluster.hca.rate=100 Gbit/s\" --set \"";
  const double more = step("learn-topk-1gbit", fast + "plan.data_parallel.compression={name: top-k, density: 0.001}") /
                          step("learn-topk-1gbit", fast + dense) -
                      1;
  CHECK_THAT(manual("learning.md"), Contains(fmt::format("it gets {:.1f} % longer", more * 100)));
  const nlohmann::json plans = answer("plan plan-gpt3-175b-1024 --brief"),
                       all_plans = answer("plan plan-gpt3-175b-1024");
  CHECK_THAT(
      manual("planning-and-cost.md"),
      Contains(fmt::format("under Megatron has {} plans", trainyard::counted(plans.at("plans").get<std::int64_t>()))) &&
          Contains(
              fmt::format("`plan --brief` simulates\n{} of them; `plan` simulates {}, with those that the rest of its "
                          "answer needs. The best takes {:.1f} s, and the plan of 2021 takes\n{:.1f} s",
                          plans.at("simulated").get<int>(), all_plans.at("simulated").get<int>(),
                          plans.at("best").at(0).at("step_time_s").get<double>(),
                          plans.at("own").at("step_time_s").get<double>())));
}

TEST_CASE("the manual has the command that compares both transports, so that tools/test --ci runs it", "[readme]") {
  CHECK_THAT(manual("validation.md"), Catch::Matchers::Contains("\n./tools/trainyard validate engines\n"));
  const trainyard::test::TopoFolder shell;
  const trainyard::test::TopoAnswer two =
      shell.trainyard("validate engines --family zero-stages --family gpt2-one-a100 --json a.json");
  CHECK(two.exit == 0);
  const nlohmann::json compared = nlohmann::json::parse(shell.text("a.json"));
  CHECK(compared["run"] == 2);
  CHECK(compared["largest_difference"].get<double>() < 1e-9);
  CHECK_THAT(two.out, Catch::Matchers::Contains("The largest difference of 2 scenarios is "));
  // Scenarios of which none is small enough say nothing about the transports.
  CHECK(shell.trainyard("validate engines --family ddp-100k").exit == 1);
  shell.check_refused("validate engines --family zero",
                      "--family zero: the name of a shipped scenario expected (trainyard list scenarios)");
}

TEST_CASE("no page states a run time of the program in words, which nothing checks", "[readme]") {
  const std::regex time(
      "(in|about|some|than|takes?|within) (an?|one|two|three|four|five|six|ten|[0-9]+) (second|minute)s?\\b");
  std::vector<std::string> files = pages();
  files.insert(files.end(), {"scenarios/README.md", "tools/README.md", "tests/README.md"});
  for (const std::string& file : files) {
    CAPTURE(file);
    const std::string text = std::regex_replace(page_text(file), std::regex("\\s+"), " ");
    CHECK_FALSE(text.empty());
    std::smatch found;
    CAPTURE(std::regex_search(text, found, time) ? found.str() : "");
    CHECK(found.empty());
  }
}

TEST_CASE("the README and the manual state the present number of seed cases", "[readme]") {
  std::ifstream in(std::filesystem::path(TRAINYARD_SOURCE_DIR) / "tests/seeds/cases.yaml");
  const std::vector<std::string> experiments = trainyard::seed_experiments().names();
  std::size_t cases = 0;
  for (std::string line; std::getline(in, line);) cases += line.starts_with("  - id: ") ? 1 : 0;
  const std::string count = std::to_string(experiments.size()) + " of " + std::to_string(cases);
  CHECK(page_text().find(count) != std::string::npos);
  CHECK(manual("validation.md").find(count) != std::string::npos);
}

TEST_CASE("the manual states the present errors of the Horovod study", "[readme][horovod]") {
  using namespace trainyard;
  const HorovodStudy study = read_horovod_study();
  const std::vector<double> documented = training_times(predict_horovod({"documented"}).front());
  for (const std::vector<double>& predicted : {documented, leave_one_out(study, documented)}) {
    const ErrorSet errors = horovod_errors(study, "", predicted, &HorovodStudy::Row::multi_0);
    const auto tenth = [](double share) {
      std::array<char, 32> text{};
      std::snprintf(text.data(), text.size(), "%.1f %%", share * 100);
      return std::string(text.data());
    };
    CHECK(manual("validation.md").find("median " + tenth(errors.median_abs) + ", worst " + tenth(errors.worst_abs)) !=
          std::string::npos);
  }
}

TEST_CASE("the README states the errors of all families of measured memory", "[readme]") {
  const trainyard::test::TopoFolder shell;
  const trainyard::test::TopoAnswer run = shell.trainyard("validate memory --json -");
  REQUIRE(run.exit == 0);
  const std::string page = page_text();
  const std::size_t begin = page.find("\n| memory |") + 1;
  const std::string row = page.substr(begin, page.find('\n', begin) - begin);
  const auto tenth = [](double share) { return fmt::format("{:.1f}", share * 100); };
  double least = 1, most = 0, least_device = 1, most_device = 0;
  int counted = 0, of_devices = 0, further = 0;
  const nlohmann::json answer = nlohmann::json::parse(run.out);
  for (const nlohmann::json& set : answer.at("sets")) {
    const std::string name = set.at("name");
    const double mean = set.at("mean_abs_error");
    const int runs = set.at("n");
    const bool device = name.starts_with("device memory of ");
    CAPTURE(name, mean, row);
    if (name.find(" of pytorch-") != std::string::npos) {
      if (device) least_device = std::min(least_device, mean), most_device = std::max(most_device, mean);
      if (!name.starts_with("peak memory of ")) continue;
      further += runs;
      CHECK(row.find(tenth(mean)) != std::string::npos);
      continue;
    }
    counted += runs;
    of_devices += device ? runs : 0;
    if (mean > 0.1)
      CHECK(row.find(fmt::format("two runs in MLPerf {} %", tenth(mean))) != std::string::npos);
    else
      least = std::min(least, mean), most = std::max(most, mean);
  }
  CHECK(row.find(fmt::format("| {} measured peaks, {} of them as nvidia-smi showed them |", counted, of_devices)) !=
        std::string::npos);
  CHECK(row.find(fmt::format("{} % to {} % on average by family", tenth(least), tenth(most))) != std::string::npos);
  CHECK(row.find(fmt::format("{} further runs", further)) != std::string::npos);
  CHECK(row.find(fmt::format("device's memory {} to {} %", tenth(least_device), tenth(most_device))) !=
        std::string::npos);
}

TEST_CASE("the manual states the present number of algorithms", "[readme]") {
  std::size_t algorithms = 0;
  for (int o = 0; o < trainyard::kOperations; ++o)
    algorithms += trainyard::collectives(static_cast<trainyard::Operation>(o)).names().size();
  CHECK(manual("validation.md")
            .find(fmt::format("There are {} algorithms of {} operations.", algorithms, trainyard::kOperations)) !=
        std::string::npos);
}

}  // namespace tools_test_readme
