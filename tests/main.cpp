// The main function of the tests. It can run a share of them in one of several processes (Catch2 2.13 cannot).
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

/// A filter that matches only the test of this name. In Catch2 2.13, a comma ends a filter even inside quotes.
std::string exactly(const std::string& name) {
  std::string filter;
  for (const char c : name) {
    if (std::strchr(",[\"\\", c)) filter += '\\';
    filter += c;
  }
  return filter + ",";
}

/// Applies TRAINYARD_SHARD=K/N: runs every N-th of the selected tests, from the K-th on (K = 0 … N − 1). Returns false
/// if no test is left.
bool take_share(Catch::Session& session) {
  int share = 0, shares = 1;
  const char* text = std::getenv("TRAINYARD_SHARD");
  if (!text) return true;
  if (std::sscanf(text, "%d/%d", &share, &shares) != 2 || share < 0 || share >= shares) {
    std::fprintf(stderr, "TRAINYARD_SHARD=%s: K/N expected, K below N\n", text);
    std::exit(2);
  }
  Catch::ConfigData data = session.configData();
  const Catch::TestSpec& selected = session.config().testSpec();
  std::vector<std::string> mine;
  int number = 0;
  for (const Catch::TestCase& test : Catch::getAllTestCasesSorted(session.config()))
    if ((selected.hasFilters() ? selected.matches(test) : !test.isHidden()) && number++ % shares == share)
      mine.push_back(exactly(test.name));
  data.testsOrTags = mine;
  session.useConfigData(data);
  return !mine.empty();
}

}  // namespace

int main(int argc, char** argv) {
  ::setenv("TRAINYARD_PROGRESS", "never", 0);  // the output of a command must not depend on the load of the machine
  Catch::Session session;
  if (const int error = session.applyCommandLine(argc, argv); error != 0) return error;
  return take_share(session) ? session.run() : 0;
}
