// `help --html` writes the manual as pages that stand alone.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <regex>
#include <set>

#include "tests/tools/topo_shell.hpp"
#include "tools/verbs/manual/manual_pages.hpp"
#include "tools/verbs/verbs.hpp"

namespace tools_test_manual {

using namespace trainyard::test;
using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

/// A folder with the manual in m/.
struct ManualFolder : TopoFolder {
  std::set<std::string> files;
  ManualFolder() {
    const TopoAnswer written = trainyard("help --html m");
    INFO(written.err);
    REQUIRE(written.exit == 0);
    CHECK_THAT(written.out, Contains("open m/index.html"));
    for (const auto& entry : fs::directory_iterator(path() / "m")) files.insert(entry.path().filename().string());
  }
};

}  // namespace

TEST_CASE("each chapter and verb of the manual has a page, which the index links", "[help][pages][cli]") {
  const ManualFolder manual;
  std::set<std::string> pages{"readme.html", "words.html", "help-scenario.html", "help-json.html", "help-limits.html"};
  for (const auto& entry : fs::directory_iterator(fs::path(TRAINYARD_SOURCE_DIR) / "tools/manual"))
    if (entry.path().stem() != "README") pages.insert(entry.path().stem().string() + ".html");
  for (const std::string& verb : trainyard::verbs().names()) pages.insert("verb-" + verb + ".html");
  const std::string index = manual.text("m/index.html");
  for (const std::string& page : pages) {
    CAPTURE(page);
    CHECK(manual.files.contains(page));
    CHECK_THAT(index, Contains("href=\"" + page));
    CHECK_THAT(manual.text("m/" + page), Contains("<h1") && Contains("<a href=\"index.html\">Manual</a>"));
  }
  CHECK_THAT(manual.text("m/verb-run.html"), Contains("--set"));
}

TEST_CASE("links of the manual's pages lead to files and anchors that exist, and nothing is loaded", "[help][pages]") {
  const ManualFolder manual;
  const std::regex address("(href|src)=\"([^\"#]*)(#[^\"]*)?\""), loaded("<link|<script|<iframe|url\\(|@import");
  int links = 0, anchors = 0, pictures = 0;
  for (const std::string& page : manual.files) {
    if (!page.ends_with(".html")) continue;
    const std::string text = manual.text("m/" + page);
    CAPTURE(page);
    CHECK(!std::regex_search(text, loaded));
    for (std::sregex_iterator link(text.begin(), text.end(), address), end; link != end; ++link, ++links) {
      const std::string target = (*link)[2], mark = (*link)[3];
      CAPTURE(target, mark);
      pictures += (*link)[1] == "src" ? 1 : 0;
      if ((*link)[1] == "href" && target.starts_with("https://")) continue;  // opened only by a click
      CHECK((target.empty() || manual.files.contains(target)));
      if (mark.empty()) continue;
      ++anchors;
      CHECK_THAT(target.empty() ? text : manual.text("m/" + target), Contains("id=\"" + mark.substr(1) + "\""));
    }
  }
  CHECK(links > 150);
  CHECK(anchors > 10);
  CHECK(pictures >= 5);
}

TEST_CASE("tables of the manual are tables, and commands are blocks of code", "[help][pages]") {
  const ManualFolder manual;
  for (const std::string& page : manual.files) {
    if (!page.ends_with(".html")) continue;
    CAPTURE(page);
    CHECK_THAT(manual.text("m/" + page), !Contains("|---"));
  }
  CHECK_THAT(manual.text("m/user-guide.html"), Contains("<td><code>bottleneck</code></td>") && Contains("<pre><code"));
  CHECK_THAT(manual.text("m/help-scenario.html"), Contains("<td>cluster.nodes</td>"));
  CHECK_THAT(manual.text("m/help-limits.html"), Contains("<table>"));
}

TEST_CASE("Markdown becomes markup with anchors, and links without a page stay as text", "[help]") {
  const auto markup = [](const std::string& markdown) {
    return trainyard::markdown_markup(
        markdown, [](const std::string& target) { return target == "a.md" ? std::string("a.html") : std::string(); });
  };
  CHECK(markup("# Plan & `cost`, now\n\n## Same\n\n## Same\n") ==
        "<h1 id=\"plan--cost-now\">Plan &amp; <code>cost</code>, now</h1>\n<h2 id=\"same\">Same</h2>\n"
        "<h2 id=\"same-1\">Same</h2>\n");
  CHECK(markup("[a *b*](a.md) [c](c.md) ![d](d.png)") == "<p><a href=\"a.html\">a <em>b</em></a> c d</p>\n");
  const auto unchanged = [](const std::string& target) { return target; };
  CHECK(trainyard::markdown_markup("![d](https://example.org/d.png)", unchanged) == "<p>d</p>\n");
  CHECK_THAT(markup("| a | b |\n|---|--:|\n| `x\\|y` | 1 |\n"),
             Contains("<table>") && Contains("<td><code>x|y</code></td>") && Contains("<td align=\"right\">1</td>"));
}

TEST_CASE("a manual that cannot be written gives one error, and no file", "[help][cli]") {
  const TopoFolder shell;
  shell.write("file", "content");
  fs::create_directories(shell.path() / "taken/validation.html");
  for (const char* folder : {"file", "nowhere/m", "taken", "-", "/proc/m"}) {
    CAPTURE(folder);
    const TopoAnswer answer = shell.trainyard(std::string("help --html ") + folder);
    CHECK(answer.exit == 2);
    CHECK(answer.out.empty());
    CHECK_THAT(answer.err, Contains(folder));
    CHECK(std::count(answer.err.begin(), answer.err.end(), '\n') == 1);
  }
  CHECK(shell.trainyard("help --html file").err == "file: a folder expected, for the pages; this is a file\n");
  CHECK(shell.trainyard("help --html /dev/full").err ==
        "/dev/full: a folder expected, for the pages; this is no folder and no file\n");
  CHECK(shell.text("file") == "content");
  CHECK(std::distance(fs::directory_iterator(shell.path() / "taken"), fs::directory_iterator()) == 1);
  CHECK_THAT(shell.trainyard("help run --html m").err, Contains("leave out \"run\""));
  CHECK(!fs::exists(shell.path() / "m"));
}

}  // namespace tools_test_manual
