#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "models/energy/price_names.hpp"
#include "models/energy/prices.hpp"
#include "models/reading/catalog.hpp"
#include "models/reading/shipped_files.hpp"
#include "sim/error.hpp"
#include "sim/json_text.hpp"
#include "sim/process/job.hpp"
#include "tools/serving/http_server.hpp"
#include "tools/serving/request_reader.hpp"
#include "tools/serving/what_if_page.hpp"
#include "tools/verbs/lessons/task_check.hpp"
#include "tools/verbs/serving/mcp_server.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

ServedTasks served_tasks() {
  ServedTasks served;
  for (const NumberedFile& file : numbered_files("scenarios/tasks")) served.tasks.push_back(read_task(file));
  served.judge = [](const Task& task, const std::string& scenario) {
    const TaskVerdict verdict = judge_task_text(task, scenario);
    return nlohmann::ordered_json{{"answer", parse_ordered_json(verdict.answer.json)},
                                  {"screen", verdict.answer.screen},
                                  {"briefing", briefing_text(task)},
                                  {"verdict", verdict_json(task, verdict)}};
  };
  return served;
}

std::string begin_with(const ServedTasks& served, const std::string& word) {
  std::vector<NumberedFile> files;
  for (const Task& task : served.tasks) files.push_back(task.file);
  const NumberedFile& wanted = find_numbered(files, "task", word);
  return ServedTasks::name_of(served.tasks[static_cast<std::size_t>(&wanted - files.data())]);
}

/// Serves the Model Context Protocol over standard input and output, until the input ends and all calls are over.
int serve_mcp() {
  constexpr std::chrono::milliseconds no_limit{-1}, none{0}, check_interval{20};
  McpServer server([](const std::string& line) {
    print(line + "\n");
    std::fflush(stdout);
  });
  InputLines input(STDIN_FILENO);
  while (!input.is_over() || server.is_busy()) {
    if (const auto line = input.next(server.is_busy() ? none : no_limit)) server.take(*line);
    server.advance(check_interval);
  }
  return kGood;
}

int serve_verb(const std::vector<std::string>& words) {
  Arguments arguments(
      "serve",
      "Serves a page to this machine only (127.0.0.1). On the page you can change fields of a scenario: nodes, batch, "
      "link rates, parallelism, strategy. Each change is simulated again. The page has the tasks too, with the fields "
      "that they allow to change, and hints. The command prints the address of the page. The address has a secret "
      "token, so other users of this machine cannot open it. Ctrl-C ends the server.",
      "serve scenarios/gpt3-175b-1024xa100.yaml --port 8080");
  std::string file, task, prices;
  int port = 0;
  bool mcp = false;
  arguments.positional("SCENARIO", file, "scenario to begin with; the page has the shipped scenarios too", false);
  arguments.option("--task", task, "TASK", "begin with this task, by number or name; the page lists all tasks");
  arguments.option(
      "--prices", prices, "FILE",
      "file with your prices: answers have costs (scenarios/prices-example.yml shows how); tasks have none");
  arguments.option("--port", port, "N", "port on 127.0.0.1; 0, the default, takes any free port", 0,
                   std::numeric_limits<std::uint16_t>::max());
  arguments.flag("--mcp", mcp,
                 "serve programs instead, such as assistants: the Model Context Protocol over standard input and "
                 "output, with the tools run, plan, size, fleet, sweep, bench, explain, compare, list and validate");
  if (!arguments.parse(words)) return kGood;
  if (mcp && !(file + task + prices).empty())
    throw UserError("trainyard serve: --mcp takes no scenario and no prices; its tools do");
  if (mcp) return serve_mcp();
  if (!file.empty()) file = scenario_file(file).string();
  const ServedScenarios scenarios = served_scenarios(file);
  if (!file.empty() && !task.empty()) throw UserError("trainyard serve: a scenario or --task, one of both");
  const std::string price_file = prices.empty() ? "" : prices_override(prices).second;
  // An error of the file ends the command, not each request.
  if (!prices.empty()) {
    const Node entry = Catalog().resolve("price", parse_document(price_file, "--prices"));
    read_prices(entry);
    check_price_names(entry, Catalog());
  }
  const ServedTasks tasks = served_tasks();
  const std::string first_scenario =
      file.empty() ? "gpt2-xl-ddp-dgx-a100" : std::filesystem::path(file).stem().string();
  const std::string begin = task.empty() ? first_scenario : begin_with(tasks, task);
  watch_interrupts();
  ServedPage page;
  page.port = port;
  page.token = random_token();
  page.html = what_if_page(scenarios, tasks, begin, page.token);
  const auto answer = [&](const std::string& request) { return answer_request(scenarios, tasks, request, price_file); };
  serve_page(page, answer, [&page](int bound) {
    print(fmt::format("http://127.0.0.1:{}/?token={}\n", bound, page.token));
    std::fflush(stdout);
  });
  return kGood;
}

const RegisterVerb registered_serve{"serve", VerbGroup::predict,
                                    "open a page on this machine to change a scenario's fields and see the effect",
                                    serve_verb};

}  // namespace
}  // namespace trainyard
