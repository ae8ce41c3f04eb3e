// The legends on the screen of `trainyard size`.
#include <catch2/catch.hpp>

#include "scenarios/src/sizing/size_search.hpp"
#include "tests/tools/topo_shell.hpp"
#include "tools/reports/report.hpp"

namespace tools_test_size_screen {

using namespace trainyard;
using Catch::Matchers::Contains;

TEST_CASE("the screen of size explains the columns of its tables", "[size]") {
  SizeAnswer answer;
  answer.currency = "EUR";
  answer.days = 30;
  SizeRow& row = answer.rows.emplace_back();
  row.node = "dgx-h100";
  row.nodes = 4;
  row.proved = true;
  for (const char* terms : {"on demand", "purchase"}) {
    SizeChoice& choice = answer.choices.emplace_back();
    choice.node = row.node;
    choice.nodes = row.nodes;
    choice.terms = terms;
  }
  const std::string screen = size_screen(answer);
  for (const char* legend :
       {"  meets: whether it meets deadline and budget (best: also, no other is both faster and cheaper)\n"
        "  in time: probability that a measured training ends by the deadline; -: not known\n",
        "  * the verdict's choice. The cost of a purchase is that of owning it for the time of the training\n"
        "  equals *: the price with which the choice costs as much as *; then the price now\n"})
    CHECK_THAT(screen, Contains(legend));
  CHECK(test::widest_line(screen) <= 120);
}

}  // namespace tools_test_size_screen
