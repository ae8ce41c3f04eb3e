// The operators that layers of a network can list, with their keys. Readers and `trainyard help` both use this list.
#include "models/networks/transformers/operator_keys.hpp"

#include <fmt/format.h>

namespace trainyard {

const Key kOperatorName{
    "name",
    "Name of the kernels and tensors of this or any other operator, for example q_norm. Default: the operator's word."};
const Key kOperatorRows{"rows",
                        "Rows of a sample on which this or any other operator works, for example sample (1). Context "
                        "ranks divide them, except those of sample. Default: tokens."};
const Key kOperatorEveryRank{"every_rank",
                             "Whether every context and tensor rank has all rows of this or any other operator, such "
                             "as a text that others attend to. Default: false."};
const Key kOperatorWhen{
    "when", "Formula of sizes: if it is 0, this or any other operator is left out, for example 1. Default: 1."};

namespace {

const Key kWidth{"width", "Elements in a row of its input and of its output, for example hidden."};
const Key kScanWidth{"width", "Elements in a row of its input and of its output, for example 2688."};
const OperatorWord kColumns{
    {"split", "Part that a tensor rank has of the width: columns. Default: the rank has the whole width."},
    {"columns"},
    false};
const Key kBias{"bias", "Whether its weights have a bias. Default: false."};

const std::vector<Key> kScanSizes{kScanWidth,
                                  {"heads", "Number of heads, which tensor and context ranks split, for example 64."},
                                  {"head", "Elements of a head's value, for example 64."},
                                  {"groups", "Number of groups of heads with common keys and queries, for example 8."},
                                  {"state", "Elements of a key, the states of a channel, for example 128."}};
const std::vector<Key> kScanFurther{
    {"chunk", "Tokens of a chunk of the scan, for example 128. Default: 256; 64 of delta rules."},
    {"taps", "Tokens that its convolution reads for a channel, for example 3. Default: 4."}};
const std::vector<Key> kScanFlags{{"bias", "Whether its convolution has a bias. Default: false."}};
constexpr const char* kScanExample = "{width: hidden, heads: 64, head: 64, groups: 8, state: 128}";

OperatorKeys scan_keys(const char* word, const char* meaning) {
  return {word, meaning, kScanExample, kScanSizes, kScanFurther, kScanFlags};
}

OperatorKeys norm_keys(const char* word, const char* meaning) {
  return {word,
          meaning,
          "{width: hidden}",
          {{"width", "Elements that are normalized together, for example hidden."}},
          {{"heads", "Number of equal parts of a row that are normalized, for example heads. Default: 1, whole rows."}},
          {},
          {kColumns}};
}

std::vector<OperatorKeys> all_keys() {
  return {
      {"linear",
       "A product of rows with a weight: in x out elements.",
       "{in: hidden, out: 3 * hidden, split: columns}",
       {{"in", "Elements in a row of its input, for example hidden."},
        {"out", "Elements in a row of its output, for example 4 * hidden."}},
       {{"readers",
         "Number of products that read its input, itself and those after it with shares_input, for example 3. Default: "
         "1."},
        {"parts",
         "Number of tensors as which its output is read; backward, their gradients are written into one, for example 3 "
         "(query, key and value). Default: 1."}},
       {kBias,
        {"first", "Whether its input has no gradient, as that of a network. Default: false."},
        {"shares_input", "Whether it reads the input of the product before it. Default: false."},
        {"wide",
         "Whether it stays in 16 or 32 bits if the products of the plan are in fp8 or fewer bits, as products of a low "
         "rank do. Default: false."},
        {"after_attention", "Whether attention keeps its input as its own output. Default: false."}},
       {{{"split",
          "Part of the weight that a tensor rank has: columns (outputs) or rows (inputs). Ranks gather or sum what "
          "they need. Default: all of it."},
         {"columns", "rows"},
         false}},
       {{"tied",
         "Name of the embedding whose table is the weight, for example token_embedding. It is counted once. Default: a "
         "weight of its own."}}},
      norm_keys("layer_norm", "A LayerNorm with weight and bias."),
      norm_keys("rms_norm", "An RMSNorm with a weight."),
      {"plain_norm", "A norm without weights.", "{width: hidden}", {kWidth}},
      {"scale",
       "Rows times a vector of their sample, the modulation of diffusion transformers.",
       "{width: hidden, shift: true}",
       {kWidth},
       {},
       {{"shift", "Whether another vector is added. Default: false."}}},
      {"activation",
       "An activation in one kernel, which keeps its input.",
       "{width: inner, gated: true, split: columns}",
       {{"width", "Elements in a row of its output, for example inner."}},
       {},
       {{"gated", "Whether the output of one product is the gate of another's: silu(gate) x up. Default: false."}},
       {kColumns}},
      {"multiply", "Rows times a second input, which are both kept.", "{width: hidden}", {kWidth}, {}, {}, {kColumns}},
      {"dropout",
       "Zeroes elements at random; keeps a mask of one byte an element. At the end of a residual, stacks may fuse it "
       "with the sum.",
       "{width: hidden}",
       {kWidth}},
      {"attention",
       "Softmax(q k) v among the rows of a sample. Tensor ranks split the heads.",
       "{heads: heads, width: hidden / heads, causal: true}",
       {{"heads", "Number of heads of queries, for example 32."},
        {"width", "Elements of a head, for example hidden / heads."}},
       {{"key_value_heads", "Number of heads of keys and values, for example 8. Default: heads."},
        {"value",
         "Elements of a head of values, for example 128, if they are not as wide as queries and keys. Default: width."},
        {"keys", "Rows of another sequence that queries attend to, for example 512. Default: their own."},
        {"attended", "Mean number of keys that a query sees in windows, for example 64. Default: all."},
        {"window", "Positions that a token attends to, itself included, for example 4096. Default: all."}},
       {{"causal", "Whether a row attends only to those before it. Default: false."},
        {"gate",
         "Whether its output is multiplied by the sigmoid of further heads * width elements of the first product. "
         "Default: false."},
        {"sinks", "Whether each head has a learned logit besides those of the keys. Default: false."},
        {"dropout", "Whether scores in memory have dropout; flash attention has it at no cost. Default: false."}}},
      {"experts",
       "A router, and the experts that it chooses for each row. Expert and tensor ranks split them; all layers have as "
       "many.",
       "{width: hidden, experts: 8, chosen: 2, inner: inner, gated: true}",
       {kWidth,
        {"experts", "Number of routed experts, for example 8."},
        {"chosen", "Number of experts of a row, for example 2."},
        {"inner", "Inner width of an expert, for example 14336."}},
       {{"shared", "Inner width of all experts that read every row, for example 2048. Default: there are none."}},
       {{"gated", "Whether experts have a gate beside their first product. Default: false."},
        {"bias", "Whether the products of experts have biases. Default: false."},
        {"router_bias", "Whether the router's product has a bias. Default: false."},
        {"correction_bias", "Whether a learned number for each expert corrects the choice. Default: false."},
        {"shared_gate", "Whether the shared experts' output is scaled by a learned gate. Default: false."}}},
      scan_keys("mamba2", "A state-space layer of Mamba-2 with its projections, convolution, scan and gated norm."),
      scan_keys("gated_delta", "A gated delta net with its projections, convolution, scan and gated norm."),
      scan_keys("kimi_delta", "Kimi's linear attention with its projections, convolution, scan and gated norm."),
      {"convolution",
       "Each channel of a row is a sum over the rows before it. It has one context rank.",
       "{width: hidden, taps: 4}",
       {kWidth, {"taps", "Rows that a channel reads, for example 4."}},
       {},
       {kBias},
       {kColumns}},
      {"kernel",
       "A kernel that no other operator describes. An element has the size of the plan's precision.",
       "{moved: 3 * hidden, flops: 100 * hidden, kept: hidden}",
       {{"moved", "Elements that it reads and writes for a row, for example 3 * hidden."}},
       {{"flops", "FLOP for a row, at most at the rates of scans, for example 100 * hidden. Default: 0."},
        {"backward_moved", "Elements that its gradient's kernel moves, for example 4 * hidden. Default: 2 * moved."},
        {"backward_flops", "FLOP of that kernel for a row, for example 300 * hidden. Default: 2 * flops."},
        {"kept", "Elements of a row that it keeps for the backward pass, for example hidden. Default: 0."},
        {"parameters", "Learned elements, for example 6 * hidden. Default: 0."},
        {"in", "Elements in a row of its input, to be compared, for example hidden. Default: they are not compared."},
        {"out", "Elements in a row of its output, to be compared, for example hidden. Default: not compared."}},
       {{"sequential", "Whether it needs all rows of a sample, so that there is one context rank. Default: false."}},
       {kColumns}},
      {"gather",
       "Begins a part in which tensor ranks work on all tokens, up to the product with split: rows. With sequence "
       "parallelism their tokens are gathered; products with split: columns after it gather nothing.",
       "{width: hidden}, linear: {in: hidden, out: hidden, split: rows}",
       {kWidth}},
      {"exchange",
       "An exchange of rows. Backward, gathers and scatters change places, and a sum needs none.",
       "{width: hidden, kind: all_gather, over: tensor}",
       {{"width", "Elements in a row of the whole tensor, for example hidden."}},
       {},
       {},
       {{{"kind", "Kind of an exchange, for example all_gather."},
         {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"}},
        {{"over", "Axis whose ranks exchange, for example tensor."}, {"tensor", "context", "expert"}}}},
      {"rotary",
       "Rotates queries and keys.",
       "{width: (heads + 8) * hidden / heads, key: 8 * hidden / heads, split: columns}",
       {{"width", "Elements of queries and keys in a row, for example 2 * hidden."}},
       {{"key",
         "Elements of the keys among them, for example hidden: without a fused kernel there is one for keys. Default: "
         "one kernel rotates all."}},
       {},
       {kColumns}},
      {"residual",
       "The sum of its input and of a branch of operators.",
       "{width: hidden, operators: [rms_norm: {width: hidden}]}",
       {kWidth}},
      {"embedding",
       "Looks rows up in a table. With split: rows, tensor ranks have parts of its entries, padded as the stack does.",
       "{entries: 32000, width: hidden, split: rows}",
       {{"entries", "Rows of the table, for example 32000."}, {"width", "Elements in a row, for example hidden."}},
       {},
       {},
       {{{"split", "Part of the table that a tensor rank has: rows. Default: all of it."}, {"rows"}, false}}},
      {"positions",
       "A learned table of positions, whose rows are added to those of all samples.",
       "{entries: 2048, width: hidden}",
       {{"entries", "Positions of the table, for example 2048."}, kWidth}},
      {"learned",
       "A learned tensor that is added to the rows of all samples alike.",
       "{elements: 1024 * hidden, width: hidden}",
       {{"elements", "Elements of the tensor, for example 1024 * hidden."}, kWidth}},
      {"tables",
       "Tables of embeddings, of which every data rank has an equal part. Vectors go round in all-to-alls.",
       "{entries: 1000000, width: 128, tables: 26}",
       {{"entries", "Rows of all tables together, for example 1000000."},
        {"width", "Elements in a row, for example 128."}},
       {{"tables", "Number of vectors of a row, one for each table, for example 26. Default: 1."},
        {"lookups", "Rows that are looked up and summed for a row, for example 214. Default: tables."},
        {"element", "Size in bytes of an element of the tables, for example 4. Default: that of the precision."}}},
      {"interaction",
       "Products of the vectors of a row with each other, or with others.",
       "{vectors: 27, width: 128}",
       {{"vectors", "Number of vectors of a row, for example 27."},
        {"width", "Elements of a vector, for example 128."}},
       {{"others", "Number of other vectors, for example 129. Default: they are multiplied with each other."}}},
      {"move",
       "A copy.",
       "{in: hidden, out: 2 * hidden}",
       {{"in", "Elements that it reads for a row, for example hidden."},
        {"out", "Elements that it writes for a row, for example 2 * hidden."}},
       {},
       {},
       {kColumns}},
      {"cross_entropy",
       "The loss over classes. After a product with split: columns, tensor ranks have parts of the classes, and "
       "exchange maxima and sums.",
       "{classes: 32000}",
       {{"classes", "Number of classes of a row, for example 32000."}}},
      {"mean_squared_error",
       "The loss of diffusion.",
       "{width: 64}",
       {{"width", "Elements in a row of the output, for example 64."}}},
  };
}

}  // namespace

const std::vector<OperatorKeys>& operator_keys() {
  static const std::vector<OperatorKeys> all = all_keys();
  return all;
}

const OperatorKeys& operator_keys(const std::string& word, const Place& place) {
  std::vector<std::string> words;
  for (const OperatorKeys& keys : operator_keys()) {
    if (same_name(keys.word, word)) return keys;
    words.emplace_back(keys.word);
  }
  fail(place, fmt::format("model.layers: unknown operator \"{}\"{}", word, hint(word, words)));
}

std::string operator_example(const OperatorKeys& keys) {
  return fmt::format(
      "{{model_type: operators, tokens: 1024, sizes: {{hidden: 1024, heads: 16, inner: 4096}}, layers: [{{layer: "
      "example, operators: [{}: {}]}}]}}",
      keys.word, keys.example);
}

}  // namespace trainyard
