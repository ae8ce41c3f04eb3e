#include "sim/process/time_limit.hpp"

#include <signal.h>
#include <sys/time.h>

#include <algorithm>
#include <cmath>

namespace trainyard {
namespace {

volatile sig_atomic_t g_time_is_over = 0;

/// Again and again from then on: one that comes between a look for it and a wait for something else is not the last.
constexpr suseconds_t kAgainMicroseconds = 50000;
constexpr double kLongestLimit = 1e8;

void set_timer(double seconds) {
  itimerval timer{{0, seconds > 0 ? kAgainMicroseconds : 0}, {0, 0}};
  const double whole = std::floor(std::min(seconds, kLongestLimit));
  timer.it_value.tv_sec = static_cast<time_t>(whole);
  timer.it_value.tv_usec = static_cast<suseconds_t>((std::min(seconds, kLongestLimit) - whole) * 1e6);
  if (seconds > 0 && timer.it_value.tv_sec == 0)
    timer.it_value.tv_usec = std::max<suseconds_t>(1, timer.it_value.tv_usec);
  ::setitimer(ITIMER_REAL, &timer, nullptr);
}

}  // namespace

TimeLimit::TimeLimit(double seconds) {
  g_time_is_over = 0;
  struct sigaction action = {};
  action.sa_handler = [](int) { g_time_is_over = 1; };
  action.sa_flags = SA_RESTART;  // of all calls but those that wait for several files, such as children
  ::sigaction(SIGALRM, &action, nullptr);
  set_timer(seconds);
}

TimeLimit::~TimeLimit() {
  set_timer(0);
  g_time_is_over = 0;
}

bool time_is_over() { return g_time_is_over != 0; }

}  // namespace trainyard
