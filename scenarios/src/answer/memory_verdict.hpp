#pragma once

namespace trainyard {

/// A risk to run out of memory below this one is safe.
inline constexpr double kSafeRisk = 0.05;
inline bool is_safe_risk(double risk) { return risk < kSafeRisk; }

/// Returns "yes" for a safe risk to run out of memory, "no" if it is above 95 %, else "at risk".
inline const char* fits_in_words(double risk) { return is_safe_risk(risk) ? "yes" : risk > 0.95 ? "no" : "at risk"; }

}  // namespace trainyard
