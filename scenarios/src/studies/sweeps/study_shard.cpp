#include "scenarios/src/studies/sweeps/study_shard.hpp"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "models/reading/document.hpp"
#include "models/reading/program_version.hpp"
#include "scenarios/src/studies/sweeps/sweep_journal.hpp"
#include "sim/json_text.hpp"
#include "sim/process/output.hpp"

namespace trainyard {
namespace {

using nlohmann::ordered_json;

constexpr const char* kStudyLine = "{\"study\":";  // no key of a journal begins like this

/// The first line as JSON if it describes a command, and the other lines.
struct JournalText {
  ordered_json head;
  std::string lines;
};

JournalText journal_text(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in || std::filesystem::is_directory(file)) throw UserError(unreadable(file));
  JournalText text;
  std::size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (in.eof()) break;  // the last line is incomplete
    const std::string unsealed = unseal_line(line, file, number);
    if (!unsealed.starts_with(kStudyLine))
      text.lines += line + "\n";
    else if (number == 1)
      text.head = parse_ordered_json(unsealed);
  }
  return text;
}

const ordered_json* command_in(const ordered_json& head) {
  const auto study = head.find("study");
  if (study == head.end()) return nullptr;
  const auto command = study->find("command");
  return command == study->end() ? nullptr : &*command;
}

}  // namespace

StudyShard parse_study_shard(const std::string& text) {
  const std::size_t slash = text.find('/');
  try {
    const std::int64_t index = parse_integer(text.substr(0, slash));
    const std::int64_t count = slash == std::string::npos ? 0 : parse_integer(text.substr(slash + 1));
    if (index >= 1 && index <= count && count <= static_cast<std::int64_t>(kMostShards))
      return {static_cast<std::size_t>(index), static_cast<std::size_t>(count)};
  } catch (const UserError&) {
  }
  throw UserError(fmt::format("--shard {}: I/N with I from 1 to N expected, such as 3/8", text));
}

void finish_journal(const std::filesystem::path& file, const std::vector<std::string>& command,
                    const StudyShard& shard) {
  const ordered_json head{{"study", {{"version", program_version()}, {"command", command}}},
                          {"shard", {shard.index, shard.count}}};
  write_atomically(file, seal_line(json_text(head)) + "\n" + journal_text(file).lines);
}

std::optional<MergedJournals> merge_journals(const std::vector<std::string>& files) {
  MergedJournals merged;
  ordered_json study;
  std::set<std::size_t> shards;
  std::size_t count = 0;
  for (const std::string& file : files) {
    check_input(file);
    const JournalText text = journal_text(file);
    const ordered_json* command = command_in(text.head);
    if (!command && study.is_null()) return std::nullopt;
    if (!command)
      throw UserError(fmt::format("{}: not a finished share of {}; run its command again to finish it", file,
                                  merged.command.front()));
    if (study.is_null()) study = text.head.at("study");
    if (text.head.at("study") != study || (count != 0 && text.head.at("shard").at(1) != count))
      throw UserError(fmt::format("{}: of another study than {}, or by another version", file, files.front()));
    merged.command = command->get<std::vector<std::string>>();
    shards.insert(text.head.at("shard").at(0).get<std::size_t>());
    count = text.head.at("shard").at(1);
    merged.lines += text.lines;
  }
  if (shards.size() < count)
    throw UserError(fmt::format("{} of {} shards {} in none of the {}; name those of all", count - shards.size(), count,
                                count - shards.size() == 1 ? "is" : "are",
                                counted_noun(static_cast<std::int64_t>(files.size()), "file")));
  return merged;
}

}  // namespace trainyard
