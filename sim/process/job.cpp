#include "sim/process/job.hpp"

#include <sched.h>
#include <signal.h>
#include <sys/time.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <utility>

namespace trainyard {
namespace {

volatile sig_atomic_t g_interrupted = 0;  // number of the signal; 0: none
timespec g_interrupted_at{};

void end_by(int number) {
  ::signal(number, SIG_DFL);
  ::raise(number);
}

/// Seconds since the interrupting signal.
double since_interrupt() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec - g_interrupted_at.tv_sec) +
         static_cast<double>(now.tv_nsec - g_interrupted_at.tv_nsec) * 1e-9;
}

/// The first signal asks for an orderly end. The process has a second for it, and longer if it has not yet used a
/// second of processor time. Several threads use that second up sooner; a process that waits for the processor uses it
/// up later. A second signal ends the process at once if it comes at least 0.2 s later: `timeout` sends one signal twice.
void interrupt(int number) {
  constexpr double one_signal = 0.2;  // s
  if (g_interrupted == 0) {
    g_interrupted = number;
    ::clock_gettime(CLOCK_MONOTONIC, &g_interrupted_at);
    const itimerval end{{0, 20000}, {1, 0}};
    ::setitimer(ITIMER_PROF, &end, nullptr);
  } else if (since_interrupt() > one_signal) {
    end_by(number);
  }
}

std::chrono::steady_clock::time_point from_now(double seconds) {
  constexpr double longest = 1e8;
  return std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                std::chrono::duration<double>(std::min(seconds, longest)));
}

}  // namespace

int processors() {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

void watch_interrupts() {
  if (thread_job().job && thread_job().job->caller_handles_signals) return;
  struct sigaction action = {};
  action.sa_handler = interrupt;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  action.sa_handler = [](int) {
    if (since_interrupt() >= 1) end_by(g_interrupted);
  };
  action.sa_flags = SA_RESTART;  // so that output printed in that second is complete
  ::sigaction(SIGPROF, &action, nullptr);
}

bool is_interrupted() {
  return g_interrupted != 0 || (thread_job().job && thread_job().job->stopped) || time_is_over();
}

void end_if_interrupted() {
  if (is_interrupted()) throw Interruption();
}

JobScope::JobScope(const Job& job) : outer_(std::exchange(thread_job().job, &job)) {}
JobScope::~JobScope() { thread_job().job = outer_; }

TimeLimit::TimeLimit(double seconds) : end_(from_now(seconds)), outer_(std::exchange(thread_job().limit, this)) {}
TimeLimit::~TimeLimit() { thread_job().limit = outer_; }

bool time_is_over() { return thread_job().limit && thread_job().limit->has_passed(); }

ThreadJob& thread_job() {
  thread_local ThreadJob job_of_thread;
  return job_of_thread;
}

}  // namespace trainyard
