#include "sim/process/waiting.hpp"

#include <unistd.h>

#include <utility>

namespace trainyard {
namespace {

std::function<void()> g_work;
pid_t g_owner = 0;

}  // namespace

void do_while_waiting(std::function<void()> work) {
  g_work = std::move(work);
  g_owner = ::getpid();
}

bool waiting_work() {
  if (!g_work || g_owner != ::getpid()) return false;
  const std::function<void()> work = g_work;  // it may replace itself
  work();
  return true;
}

}  // namespace trainyard
