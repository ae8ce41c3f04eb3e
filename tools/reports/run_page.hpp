#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace trainyard {

/// The answer to a scenario as a page: `answer` as --json writes it, `screen` as the terminal shows it, and pictures of
/// the run (`draw_run`; null: none). `device` is what its chips are called (see `device_noun`).
std::string run_page(const nlohmann::json& answer, const std::string& screen, nlohmann::ordered_json pictures,
                     const std::string& device);

}  // namespace trainyard
