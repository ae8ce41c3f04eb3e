// Names of links are made when they are requested.
#include <catch2/catch.hpp>
#include <vector>

#include "sim/machine.hpp"

namespace sim_test_link_name {

using namespace trainyard;

namespace {

class Numbered : public LinkNamer {
 public:
  std::string link_name(std::int32_t number) const override { return "wire " + std::to_string(number); }
};

}  // namespace

TEST_CASE("a name is a text of its own or a number that a namer knows, and copies keep it", "[sim][links]") {
  const Numbered namer;
  std::vector<Link> links;
  for (int i = 0; i < 10; ++i) links.push_back({LinkName(namer, i), "wire", BytesPerSecond{1}});
  links.push_back({"bus", "shared", BytesPerSecond{1}});
  links.push_back({{}, "none", BytesPerSecond{1}});
  std::vector<Link> copies = links;
  copies[3].name = links[10].name;
  copies[10].name = links[4].name;
  links.clear();
  CHECK(copies[2].name == "wire 2");
  CHECK(copies[3].name == "bus");
  CHECK(copies[10].name == "wire 4");
  CHECK(copies[11].name == "");
  CHECK(fmt::format("{}, {}", copies[2].name, copies[2].kind) == "wire 2, wire");
}

TEST_CASE("equal labels are one text", "[sim][links]") {
  const Label a("NVLink"), b(std::string("NVLink")), c("PCIe");
  CHECK(a == b);
  CHECK(&a.text() == &b.text());
  CHECK_FALSE(a == c);
  CHECK(a < c);
  CHECK(a == "NVLink");
}

TEST_CASE("a link takes less memory than its name did", "[sim][links]") { CHECK(sizeof(Link) <= 32); }

}  // namespace sim_test_link_name
