// Pages in a real browser (tools/test --ci installs it): they draw without an error, and show the answer's numbers.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <regex>

#include "tests/tools/html_pages.hpp"

using namespace trainyard::test;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

struct Rendered {
  std::string dom, console;
};
Rendered rendered(const PageFolder& folder, const std::string& page, const std::string& options = "") {
  const std::string line = "cd '" + folder.path().string() +
                           "' && chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage "
                           "--user-data-dir=.chromium --enable-logging=stderr " +
                           options + " --dump-dom \"file://$PWD/" + page + "\" >.dom 2>.console </dev/null";
  REQUIRE(std::system(line.c_str()) == 0);
  return {folder.text(".dom"), folder.text(".console")};
}

std::string attribute(const std::string& dom, const std::string& name) {
  std::smatch found;
  const std::string head = dom.substr(0, 2000);
  return std::regex_search(head, found, std::regex(name + "=\"([^\"]*)\"")) ? found[1].str() : "missing";
}

json at_path(json of, const std::string& path) {
  std::size_t from = 0;
  while (from <= path.size()) {
    const std::size_t dot = std::min(path.find('.', from), path.size());
    const std::string key = path.substr(from, dot - from);
    of = of.is_array() ? of.at(std::stoul(key)) : of.at(key);
    from = dot + 1;
  }
  return of;
}

/// "917 ms" in seconds, "52.5 GiB" in bytes, "53.5 %" as a share, "17,876" as it is.
double read_number(std::string text) {
  static const std::map<std::string, double> units{
      {"", 1},      {"%", 0.01}, {"d", 86400},    {"h", 3600},     {"s", 1},        {"ms", 1e-3},   {"µs", 1e-6},
      {"ns", 1e-9}, {"B", 1},    {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
  std::erase(text, ',');
  std::size_t end = 0;
  const double number = std::stod(text, &end);
  const std::string unit = text.substr(std::min(text.size(), end + (end < text.size() && text[end] == ' ')));
  INFO(text);
  REQUIRE(units.contains(unit));
  return number * units.at(unit);
}

}  // namespace

TEST_CASE("pages draw in Chromium, and show the numbers of the answer", "[.chromium]") {
  const PageFolder folder;
  for (const PageCommand& command : page_commands()) {
    INFO(command.words);
    REQUIRE(folder.trainyard(command.words + " --html p.html --json p.json").exit == 0);
    const json answer = json::parse(folder.text("p.json"));
    const Rendered page = rendered(folder, "p.html");
    CHECK_THAT(page.console, !Contains("CONSOLE"));
    CHECK(attribute(page.dom, "data-problems").empty());
    CHECK(std::stoi(attribute(page.dom, "data-charts")) >= command.charts);
    const std::regex figure("data-path=\"([^\"]+)\" data-value=\"([^\"]*)\"[^>]*>([^<]*)<");
    int figures = 0;
    for (std::sregex_iterator at(page.dom.begin(), page.dom.end(), figure), none; at != none; ++at, ++figures) {
      const std::string path = (*at)[1], shown = (*at)[3];
      CAPTURE(path, shown);
      const json value = at_path(answer, path);
      CHECK(json::parse((*at)[2].str()) == value);
      if (!shown.starts_with("&lt;"))
        CHECK(read_number(shown) == Approx(value.get<double>()).epsilon(6e-3).margin(1e-6));
    }
    CHECK(figures >= 2);
  }
}

TEST_CASE("pages draw in Chromium on a phone and in the dark, and so do lessons", "[.chromium]") {
  const PageFolder folder;
  REQUIRE(folder.trainyard("run small.yaml --html p.html").exit == 0);
  REQUIRE(folder.trainyard("teach all-reduce --ranks 4 --html lesson.html").exit == 0);
  REQUIRE(folder.trainyard("teach pipeline --stages 2 --micro-batches 2 --html pipeline.html").exit == 0);
  for (const char* name : {"p.html", "lesson.html", "pipeline.html"})
    for (const char* options : {"--window-size=500,900", "--blink-settings=preferredColorScheme=0"}) {
      INFO(name << " " << options);
      const Rendered page = rendered(folder, name, options);
      CHECK_THAT(page.console, !Contains("CONSOLE"));
      CHECK_THAT(page.dom, Contains("</html>"));
      if (name == std::string("p.html")) {
        CHECK(attribute(page.dom, "data-problems").empty());
        CHECK(attribute(page.dom, "data-too-wide") == "0");
      }
    }
}
