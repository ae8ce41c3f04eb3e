// Catch2's main, and a share of the tests for one of several processes (Catch2 2.13 cannot split a run).
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

/// A test's name as a filter that matches it alone. Commas end a filter of Catch2 2.13, in quotes too.
std::string exactly(const std::string& name) {
  std::string filter;
  for (const char c : name) {
    if (std::strchr(",[\"\\", c)) filter += '\\';
    filter += c;
  }
  return filter + ",";
}

/// TRAINYARD_SHARD=K/N: every N-th of the tests asked for, from the K-th on (K = 0 … N − 1). False where there is none.
bool take_share(Catch::Session& session) {
  int share = 0, of = 1;
  const char* text = std::getenv("TRAINYARD_SHARD");
  if (!text) return true;
  if (std::sscanf(text, "%d/%d", &share, &of) != 2 || share < 0 || share >= of) {
    std::fprintf(stderr, "TRAINYARD_SHARD=%s: K/N expected, K below N\n", text);
    std::exit(2);
  }
  Catch::ConfigData data = session.configData();
  const Catch::TestSpec& asked = session.config().testSpec();
  std::vector<std::string> mine;
  int number = 0;
  for (const Catch::TestCase& test : Catch::getAllTestCasesSorted(session.config()))
    if ((asked.hasFilters() ? asked.matches(test) : !test.isHidden()) && number++ % of == share)
      mine.push_back(exactly(test.name));
  data.testsOrTags = mine;
  session.useConfigData(data);
  return !mine.empty();
}

}  // namespace

int main(int argc, char** argv) {
  ::setenv("TRAINYARD_PROGRESS", "never", 0);  // what a command prints must not depend on how busy the machine is
  Catch::Session session;
  if (const int error = session.applyCommandLine(argc, argv); error != 0) return error;
  return take_share(session) ? session.run() : 0;
}
