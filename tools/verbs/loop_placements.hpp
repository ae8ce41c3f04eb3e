#pragma once
#include <string>

#include "scenarios/src/search/loop_layouts.hpp"

namespace trainyard {

/// Returns true if a document describes a post-training loop.
bool has_loop(const Node& document);

/// Reads --confidence of a question about a loop: 50 % to what the measured loops can show. An empty text gives 0.5.
double read_loop_confidence(const std::string& text);

/// Writes a document as a scenario. `remark`: its first line. Throws UserError if it cannot be read back from that
/// folder, because it names files.
void write_scenario(const std::string& file, const std::string& remark, const Node& document);

/// The table and the files of an answer about a loop.
struct LoopOutputs {
  int rows = 5;             ///< number of placements in the printed table
  std::string json, write;  ///< files; empty: none, -: stdout
};

/// Searches placements of the loop that a document describes, and prints and writes them. Returns kFailsLimit if none
/// meets the question, else kGood.
int answer_loop(const Node& document, const std::string& name, const LoopQuestion&, const LoopOutputs&);

/// Searches layouts of the loop on its nodes, and prints and writes them. Returns as `answer_loop` does.
int answer_loop_layouts(const Node& document, const std::string& name, const LoopLayoutOptions&, const LoopOutputs&);

}  // namespace trainyard
