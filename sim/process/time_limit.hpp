#pragma once

namespace trainyard {

/// As long as it lives, this process is `interrupted()` once so much wall time has passed, as by a signal. One at a time.
class TimeLimit {
 public:
  explicit TimeLimit(double seconds);
  ~TimeLimit();
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;
};

/// Has the limit that lives been passed?
bool time_is_over();

}  // namespace trainyard
