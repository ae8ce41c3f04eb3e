#include "strategies/collectives/collective_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "sim/process/output.hpp"

namespace trainyard {

using Buffer = StatedChunks::Buffer;

StatedCollective::StatedCollective(Operation operation, int ranks, int chunks, bool input_apart)
    : operation_(operation),
      ranks_(ranks),
      chunks_(chunks),
      input_apart_(input_apart || operation == Operation::all_to_all),
      steps_(static_cast<std::size_t>(ranks)),
      contents_(static_cast<std::size_t>(ranks), std::vector<Content>(std::size_t{4} * chunks)),
      receipts_(static_cast<std::size_t>(ranks), std::vector<int>(static_cast<std::size_t>(ranks))),
      under_way_(static_cast<std::size_t>(ranks)),
      sent_(static_cast<std::size_t>(ranks)) {
  for (int rank = 0; rank < ranks; ++rank)
    for (int chunk = 0; chunk < chunks; ++chunk)
      if (operation != Operation::all_gather || chunk / (chunks / ranks) == rank)
        content(rank, input_apart_ ? Buffer::input : Buffer::data, chunk).parts = {rank * chunks + chunk};
}

StatedCollective::Content& StatedCollective::content(int rank, Buffer buffer, int chunk) {
  return contents_[rank][static_cast<std::size_t>(buffer) * chunks_ + chunk];
}

std::vector<std::vector<int>> StatedCollective::read(int rank, StatedChunks chunks, const char* does,
                                                     const Place& place) {
  std::vector<std::vector<int>> parts;
  for (int i = 0; i < chunks.count; ++i) {
    parts.push_back(content(rank, chunks.buffer, chunks.first + i).parts);
    if (parts.back().empty())
      fail(place, fmt::format("rank {} {} chunk {} of its {}, which holds nothing yet", rank, does, chunks.first + i,
                              chunks.buffer == Buffer::data      ? "data"
                              : chunks.buffer == Buffer::scratch ? "scratch"
                                                                 : "input"));
  }
  return parts;
}

void StatedCollective::write(int rank, StatedChunks chunks, const std::vector<std::vector<int>>& parts, bool adds,
                             const Place& place) {
  if (adds) read(rank, chunks, "adds to", place);
  for (int i = 0; i < chunks.count; ++i) {
    Content& written = content(rank, chunks.buffer, chunks.first + i);
    if (!adds) written.parts.clear();
    const std::vector<int>& more = parts[i];
    const auto middle = static_cast<std::ptrdiff_t>(written.parts.size());
    written.parts.insert(written.parts.end(), more.begin(), more.end());
    std::inplace_merge(written.parts.begin(), written.parts.begin() + middle, written.parts.end());
    if (written.parts.size() > std::size_t{2} * ranks_)
      fail(place,
           fmt::format("chunk {} of rank {} is added up of more than {} parts", chunks.first + i, rank, 2 * ranks_));
    written.place = place;
  }
}

bool StatedCollective::under_way(int rank, StatedChunks chunks, const std::vector<int>& receipts) const {
  for (const UnderWay& send : under_way_[rank]) {
    const StatedChunks& sent = send.chunks;
    if (sent.buffer == chunks.buffer && sent.first < chunks.first + chunks.count &&
        chunks.first < sent.first + sent.count && (send.received == 0 || receipts[send.to] < send.received))
      return true;
  }
  return false;
}

void StatedCollective::send(int from, int to, StatedChunks chunks, bool at_once, const Place& place) {
  const std::size_t number = ++sent_[from];
  messages_[{from, to}].push_back({read(from, chunks, "sends", place), receipts_[from], number});
  under_way_[from].push_back({chunks, to, 0, number});
  steps_[from].push_back({Step::Kind::send, false, at_once, to, chunks, {}});
}

void StatedCollective::receive(int from, int to, StatedChunks into, bool adds, const Place& place) {
  std::deque<Message>& queue = messages_[{from, to}];
  if (queue.empty()) throw InternalError("a collective from a file receives what nobody sent");
  const Message message = std::move(queue.front());
  queue.pop_front();
  if (static_cast<int>(message.parts.size()) != into.count)
    fail(place, fmt::format("rank {} receives {} chunks from rank {}, which sends {}", to, into.count, from,
                            message.parts.size()));
  std::vector<int>& receipts = receipts_[to];
  for (int rank = 0; rank < ranks_; ++rank) receipts[rank] = std::max(receipts[rank], message.receipts[rank]);
  std::vector<Step>& steps = steps_[to];
  const auto finish_sends = [&] { under_way_[to].clear(); };
  const StatedChunks aside{Buffer::aside, into.first, into.count};
  if (!under_way(to, into, receipts)) {
    steps.push_back({Step::Kind::receive, adds, false, from, {}, into});
  } else if (into.buffer == Buffer::aside || under_way(to, aside, receipts)) {
    steps.push_back({Step::Kind::copy, false, false, -1, into, into});  // it waits for the sends
    finish_sends();
    steps.push_back({Step::Kind::receive, adds, false, from, {}, into});
  } else {  // the chunk is still being sent: the message arrives beside it
    steps.push_back({Step::Kind::receive, false, false, from, {}, aside});
    steps.push_back({Step::Kind::copy, adds, false, -1, aside, into});
    finish_sends();
  }
  const int received = ++receipts[to];
  for (UnderWay& send : under_way_[from])
    if (send.number == message.number) send.received = received;
  write(to, into, message.parts, adds, place);
}

void StatedCollective::copy(int rank, StatedChunks from, StatedChunks into, bool adds, const Place& place) {
  steps_[rank].push_back({Step::Kind::copy, adds, false, -1, from, into});
  under_way_[rank].clear();
  write(rank, into, read(rank, from, adds ? "adds" : "copies", place), adds, place);
}

std::string StatedCollective::in_words(const std::vector<int>& parts) const {
  if (parts.empty()) return "nothing";
  std::vector<std::string> words;
  for (const int part : parts) words.push_back(fmt::format("chunk {} of rank {}", part % chunks_, part / chunks_));
  constexpr std::size_t most = 4;
  const std::string more = words.size() > most ? fmt::format(" + {} more", words.size() - most) : "";
  words.resize(std::min(words.size(), most));
  return fmt::format("{}{}", fmt::join(words, " + "), more);
}

void StatedCollective::require_result(const Place& file) const {
  const int share = std::max(1, chunks_ / ranks_);
  for (int rank = 0; rank < ranks_; ++rank)
    for (int chunk = 0; chunk < chunks_; ++chunk) {
      const int owner = chunk / share;
      std::vector<int> expected;
      if (operation_ == Operation::all_gather) expected = {owner * chunks_ + chunk};
      if (operation_ == Operation::all_to_all) expected = {owner * chunks_ + rank * share + chunk % share};
      if (operation_ == Operation::all_reduce || (operation_ == Operation::reduce_scatter && owner == rank))
        for (int other = 0; other < ranks_; ++other) expected.push_back(other * chunks_ + chunk);
      const Content& content = contents_[rank][chunk];
      if (expected.empty() || content.parts == expected) continue;
      fail(content.place.line > 0 ? content.place : file,
           fmt::format("{}: rank {} ends with {} in its chunk {}; expected {}", name_of(operation_), rank,
                       in_words(content.parts), chunk, in_words(expected)));
    }
}

Ops StatedCollective::run(Local me, std::shared_ptr<const Program> program) {
  const auto data = [&me, &program](StatedChunks chunks) {
    Chunk chunk = me.part(0, 1).parts(chunks.first, chunks.count, program->chunks);
    if (chunks.buffer == Buffer::aside) return Local::scratch(chunk, 1);
    if (chunks.buffer == Buffer::scratch) return Local::scratch(chunk, 3);
    if (chunks.buffer == Buffer::input && program->copies_input) return Local::scratch(chunk, 2);
    if (chunks.buffer == Buffer::input && chunk.ref.buffer != kUncounted)
      chunk.ref.buffer = me.outgoing(me.index()).ref.buffer;
    return chunk;
  };
  if (program->copies_input) co_yield me.copy(me.part(0, 1), Local::scratch(me.part(0, 1), 2));
  for (const Step& step : program->steps[me.index()]) {
    const Chunk from = data(step.from), into = data(step.into);
    if (step.kind == Step::Kind::send && step.at_once)
      co_yield me.send_at_once(step.peer, from);
    else if (step.kind == Step::Kind::send)
      co_yield me.send(step.peer, from);
    else if (step.kind == Step::Kind::receive && step.adds)
      co_yield me.recv_reduce(step.peer, into);
    else if (step.kind == Step::Kind::receive)
      co_yield me.recv_copy(step.peer, into);
    else if (step.adds)
      co_yield me.reduce(from, into);
    else
      co_yield me.copy(from, into);
  }
}

Collective StatedCollective::make_collective(const std::string& name, const Place& file) const {
  require_result(file);
  auto program = std::make_shared<Program>();
  program->ranks = ranks_;
  program->chunks = chunks_;
  program->copies_input = input_apart_ && operation_ != Operation::all_to_all;
  program->steps = steps_;
  program->peers.resize(static_cast<std::size_t>(ranks_));
  for (int rank = 0; rank < ranks_; ++rank)
    for (const Step& step : steps_[rank]) {
      std::vector<int>& peers = program->peers[rank];
      if (step.peer >= 0) add_peers(peers, {step.peer});
    }
  Collective made;
  made.name = name;
  made.operation = operation_;
  made.peers = [program](GroupPlace place) {
    return place.size == program->ranks ? program->peers[place.index] : all_others(place);
  };
  made.run = [program](Local me, Bytes) { return run(me, program); };
  made.refuses = [ranks = ranks_](GroupPlace place) -> std::string {
    if (place.size == ranks) return "";
    return fmt::format("the file is for {} ranks, and the group has {}", ranks, place.size);
  };
  return made;
}

namespace {

/// Throws UserError at `place` if the chunks cannot be divided equally among the ranks. An all-reduce need not.
void require_shape(Operation operation, int ranks, int chunks, const Place& place) {
  if (operation != Operation::all_reduce && chunks % ranks != 0)
    fail(place,
         fmt::format("{} chunks for {} ranks; {} takes a multiple of {}", chunks, ranks, name_of(operation), ranks));
}

/// A step of the YAML list.
struct ListedStep {
  std::int64_t step;
  int from, to;
  StatedChunks chunk, into;
  bool adds;
  Place place;
};

/// Reads the number of a chunk. `i3` is in the input of an all-to-all, `o3` in the data, `s3` in the scratch. `3` is in
/// the data, or in the input if `input` is true and the operation is an all-to-all.
StatedChunks read_chunk(Fields& fields, Key key, Operation operation, int chunks, bool input) {
  const std::string text = fields.text(key);
  const bool exchange = operation == Operation::all_to_all;
  const char letter = text.find_first_of("ios") == 0 ? text.front() : exchange && input ? 'i' : 'o';
  const char* const begin = text.data() + (text.find_first_of("ios") == 0 ? 1 : 0);
  StatedChunks chunk{letter == 'i' ? Buffer::input : letter == 's' ? Buffer::scratch : Buffer::data, -1, 1};
  const std::from_chars_result end = std::from_chars(begin, text.data() + text.size(), chunk.first);
  if (end.ec != std::errc{} || end.ptr != text.data() + text.size() || chunk.first < 0 || chunk.first >= chunks)
    fields.refuse(
        key, fmt::format("\"{}\"; expected a chunk, 0 to {}, or s0 to s{} for scratch", text, chunks - 1, chunks - 1));
  if (letter == 'i' && !exchange) fields.refuse(key, fmt::format("\"{}\"; only an all-to-all has an input", text));
  return chunk;
}

StatedCollective read_steps(Operation operation, const Node& document) {
  Fields fields(document, "collective");
  const std::string stated =
      fields.text({"collective", "The operation: all-reduce, all-gather, reduce-scatter or all-to-all."});
  if (!same_name(stated, name_of(operation)))
    fields.refuse("collective", fmt::format("the file states {}, but {} is asked", stated, name_of(operation)));
  const int ranks = fields.integer_within<int>({"ranks", "Number of ranks."}, 2, StatedCollective::kMostRanks);
  const int chunks = fields.integer_within<int>({"chunks", "Number of equal chunks of the data. Default: the ranks."},
                                                1, StatedCollective::kMostChunks, ranks);
  require_shape(operation, ranks, chunks, fields.place_of("chunks"));
  const std::vector<Node>* list =
      fields.list({"steps",
                   "Transfers: [{step: 0, from: 0, to: 1, chunk: 0, into: 0, reduce: true}, ...]. Those of one step "
                   "run at the same time. from and to may be the same rank: it copies."});
  if (!list) fail(document.place, "collective: \"steps\" is missing; expected a list of transfers");
  fields.finish();
  std::vector<ListedStep> steps;
  for (const Node& item : *list) {
    Fields f(item, "steps");
    ListedStep step{};
    step.place = item.place;
    step.step = f.integer({"step", "Number of the step, in order of time."}, 0);
    step.from = f.integer_within<int>({"from", "Rank that sends."}, 0, ranks - 1);
    step.to = f.integer_within<int>({"to", "Rank that receives."}, 0, ranks - 1);
    step.chunk =
        read_chunk(f, {"chunk", "Chunk that is sent; s3: chunk 3 of the scratch; o3: of an all-to-all's data."},
                   operation, chunks, true);
    step.into = step.chunk;
    if (f.has({"into", "Chunk that is written. Default: the same. Required: in an all-to-all."}))
      step.into = read_chunk(f, "into", operation, chunks, false);
    else if (operation == Operation::all_to_all)
      fail(item.place, "steps.into is missing; an all-to-all states the chunk of the receiver");
    if (step.into.buffer == Buffer::input) f.refuse("into", "the input of an all-to-all is not written");
    step.adds = f.boolean({"reduce", "Whether the receiver adds the chunk to its own."}, false);
    f.finish();
    steps.push_back(step);
  }
  std::ranges::stable_sort(steps, [](const ListedStep& a, const ListedStep& b) { return a.step < b.step; });
  StatedCollective made(operation, ranks, chunks, false);
  for (auto first = steps.begin(); first != steps.end();) {
    const auto end = std::find_if(first, steps.end(), [&](const ListedStep& s) { return s.step != first->step; });
    std::vector<int> sends(static_cast<std::size_t>(ranks)), receives(static_cast<std::size_t>(ranks));
    std::map<std::pair<int, int>, const ListedStep*> written;
    for (auto s = first; s != end; ++s) {
      const auto [before, fresh] =
          written.emplace(std::pair{s->to, static_cast<int>(s->into.buffer) * chunks + s->into.first}, &*s);
      if (!fresh && !(s->adds && before->second->adds))
        fail(s->place, fmt::format("step {} writes the same chunk of rank {} in line {}; only sums may come together",
                                   s->step, s->to, before->second->place.line));
      ++sends[s->from];  // a copy, too, waits for the rank's sends
      if (s->from != s->to) ++receives[s->to];
    }
    for (auto s = first; s != end; ++s)
      if (s->from != s->to) made.send(s->from, s->to, s->chunk, sends[s->from] > 1 || receives[s->to] > 1, s->place);
    for (auto s = first; s != end; ++s)
      if (s->from == s->to) made.copy(s->from, s->chunk, s->into, s->adds, s->place);
    for (auto s = first; s != end; ++s)
      if (s->from != s->to) made.receive(s->from, s->to, s->into, s->adds, s->place);
    first = end;
  }
  return made;
}

}  // namespace

Collective read_collective(Operation operation, const std::filesystem::path& path) {
  const std::string name = path.string();
  if (operation != Operation::all_reduce && operation != Operation::all_gather &&
      operation != Operation::reduce_scatter && operation != Operation::all_to_all)
    throw UserError(
        fmt::format("{}: a file states an all-reduce, an all-gather, a reduce-scatter or an all-to-all, not a {}", name,
                    name_of(operation)));
  const Place file_place = Place::named(name);
  return (path.extension() == ".xml" ? read_msccl(operation, read_file(path), name)
                                     : read_steps(operation, read_document(path)))
      .make_collective(name, file_place);
}

Registry<Collective>& collectives(Operation operation) {
  static std::vector<Registry<Collective>> registries = [] {
    std::vector<Registry<Collective>> all;
    for (int i = 0; i < kOperations; ++i) {
      const auto o = static_cast<Operation>(i);
      all.emplace_back(fmt::format("{} algorithm", name_of(o)), std::vector<std::string>{".yaml", ".xml"},
                       [o](const std::filesystem::path& file) { return read_collective(o, file); });
    }
    return all;
  }();
  return registries[static_cast<std::size_t>(operation)];
}

}  // namespace trainyard
