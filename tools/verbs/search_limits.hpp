#pragma once
#include <string>

#include "tools/verbs/arguments.hpp"

namespace trainyard {

/// "15T", "300B", "1e12": more than 0; the fallback where nothing is given. Throws UserError naming the flag.
double parse_amount(const std::string& flag, std::string text, double fallback = 0);

/// The flags that end a search for plans before its best is proved.
struct SearchLimits {
  std::string work, seconds;
  std::string seconds_flag;  ///< "--budget"

  /// `fallback`: words for the work without these flags.
  void declare(Arguments&, const std::string& seconds_flag, const std::string& of, const std::string& fallback);
  double operations() const { return parse_amount("--work", work); }  ///< 0: not given
  double wall_seconds() const;                                        ///< 0: not given
};

}  // namespace trainyard
