#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <limits>

#include "scenarios/reading/scenario.hpp"
#include "sim/error.hpp"
#include "sim/process/child.hpp"
#include "tools/serving/http_server.hpp"
#include "tools/serving/request_checks.hpp"
#include "tools/serving/what_if_page.hpp"
#include "tools/verbs/arguments.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

int serve_verb(const std::vector<std::string>& words) {
  Arguments arguments("serve",
                      "Serves a page on this machine alone (127.0.0.1) on which the fields of a scenario can be "
                      "changed: nodes, batch, link "
                      "rates, parallelism, strategy. Each change is simulated again. Ctrl-C ends it.",
                      "serve scenarios/gpt3-175b-1024xa100.yaml --port 8080");
  std::string file;
  int port = 0;
  arguments.positional("SCENARIO", file, "scenario to begin with, besides those that come with the program", false);
  arguments.option("--port", port, "N", "of 127.0.0.1; 0: any that is free");
  if (!arguments.parse(words)) return kGood;
  if (port < 0 || port > std::numeric_limits<std::uint16_t>::max())
    throw UserError(fmt::format("--port {}: 0 to 65535 expected", port));
  const ServedScenarios scenarios = served_scenarios(file);
  const std::string begin = file.empty() ? "gpt2-xl-ddp-dgx-a100" : std::filesystem::path(file).stem().string();
  read_scenario(scenarios.at(begin));  // workers have then what of the catalog it takes
  ForkServer workers(
      [&scenarios](const std::string& request, const ForkServer::Note&) { return answer_request(scenarios, request); },
      processors());
  watch_interrupts();
  ServedPage page;
  page.port = port;
  page.token = random_token();
  page.html = what_if_page(scenarios, begin, page.token);
  serve_page(page, workers, [](int bound) {
    fmt::print("http://127.0.0.1:{}/\n", bound);
    std::fflush(stdout);
  });
  return kGood;
}

const RegisterVerb registered_serve{"serve", "a page on this machine to change a scenario's fields: what if?",
                                    serve_verb};

}  // namespace
}  // namespace trainyard
