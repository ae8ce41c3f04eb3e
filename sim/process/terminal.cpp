#include "sim/process/terminal.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string_view>

#include "sim/process/output.hpp"

namespace trainyard {
namespace {

bool g_quiet = false;
std::optional<ProgressLines> g_progress_lines;

}  // namespace

bool colours_on_stdout() {
  const char* none = std::getenv("NO_COLOR");
  return !(none && *none) && stdout_is_terminal();
}

bool stdout_is_terminal() { return !output_is_caught() && ::isatty(STDOUT_FILENO) == 1; }

void be_quiet() { g_quiet = true; }
bool is_quiet() { return g_quiet; }

void want_progress(ProgressLines lines) { g_progress_lines = lines; }
ProgressLines wanted_progress() {
  if (!g_progress_lines) {
    const char* setting = std::getenv("TRAINYARD_PROGRESS");
    const std::string_view word = setting ? setting : "";
    g_progress_lines = word == "always"  ? ProgressLines::always
                       : word == "never" ? ProgressLines::never
                                         : ProgressLines::after_a_minute;
  }
  return *g_progress_lines;
}

void drop_stdout() {
  const int null_device = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (null_device < 0) return;
  ::dup2(null_device, STDOUT_FILENO);
  ::close(null_device);
}

}  // namespace trainyard
