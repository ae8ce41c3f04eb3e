#include "sim/observers/progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "sim/process/job.hpp"
#include "sim/process/parallel.hpp"
#include "sim/process/terminal.hpp"

namespace trainyard {
namespace {
using std::chrono::steady_clock;
const steady_clock::time_point g_start = steady_clock::now();
ProgressPace g_pace{g_start};  // one for the process: several jobs of one command share it

void put(const std::string& text) {
  if (::write(STDERR_FILENO, text.data(), text.size()) < 0) return;  // a closed terminal is no error
}

/// Returns the columns of the terminal. 0: unknown.
std::size_t terminal_columns() {
  winsize window{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 ? window.ws_col : 0;
}
}  // namespace

std::string cut_line(const std::string& text, std::size_t columns) {
  std::size_t characters = 0, end = 0;  // `end`: behind the last character that stays if the text is too long
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) == 0x80) continue;  // a further byte of a character
    if (++characters == columns) end = i;
  }
  return columns == 0 || characters <= columns ? text : text.substr(0, end) + "…";
}

ProgressLine::ProgressLine()
    : silent_(thread_job().background),
      terminal_(!silent_ && !thread_job().job && !is_quiet() && ::isatty(STDERR_FILENO) == 1),
      start_(g_start),
      last_(start_) {}
ProgressLine::~ProgressLine() {
  if (terminal_) do_while_waiting({});
  if (shown_) put("\r\x1b[K");
}

void ProgressLine::show(const std::string& text) {
  if (silent_) return;
  if (const Job* job = thread_job().job) {
    if (job->progress) job->progress(text);
    return;
  }
  const auto now = steady_clock::now();
  if (!terminal_) {
    if (!is_quiet() && wanted_progress() != ProgressLines::never &&
        g_pace.is_due(now, wanted_progress() == ProgressLines::always))
      put("trainyard: " + text + "\n");
    return;
  }
  if (now - start_ < std::chrono::seconds(2) || now - last_ < std::chrono::milliseconds(100)) {
    do_while_waiting([this, text] { show(text); });  // if no update comes for a long time, it is shown all the same
    return;
  }
  do_while_waiting({});
  last_ = now;
  shown_ = true;
  const std::size_t columns = terminal_columns();  // the last one stays free, so that no terminal begins a new line
  put("\r\x1b[K" + cut_line(text, columns > 1 ? columns - 1 : 0));
}

void Progress::finished(const OpRun& run) {
  if ((++ended_ & 0x3fff) == 0)
    line_.show(fmt::format("simulating: {:.1f} M operations, {} of the step", static_cast<double>(ended_) * 1e-6,
                           show(run.ended)));
}

}  // namespace trainyard
