#include "models/reading/not_modelled.hpp"

#include <algorithm>

#include "models/reading/document.hpp"

namespace trainyard {

const std::vector<UnmodelledKey>& not_modelled() {
  static const std::vector<UnmodelledKey> all{
      {"4 bits without a stated scale of blocks", "plan.precision", {"fp4"}, {"nvfp4"}},
      {"6 bits without a stated scale of blocks", "plan.precision", {"fp6"}, {"mxfp6"}},
      {"other decoders with state spaces and attention (hybrids)",
       "model",
       {"zamba", "lfm2"},
       {"nemotron_h", "nemotron-3-nano"}},
      {"other state spaces and recurrent decoders",
       "model",
       {"mamba", "falcon_mamba", "rwkv", "rwkv7", "recurrent_gemma", "retnet", "xlstm"},
       {"mamba2", "mamba2-2.7b"}},
      {"other linear attention", "model", {"minimax", "minimax_text_01"}, {"qwen3_next", "qwen3-next-80b-a3b"}},
      {"attention to compressed tokens", "model", {"deepseek_v4"}, {"deepseek_v32", "deepseek-v3.2"}},
      {"MaxText's policies that keep most matrix products (remat_policy)",
       "plan.recompute",
       {"minimal", "minimal_flash", "minimal_with_context", "minimal_offloaded", "save_dot_with_context_except_mlp"},
       {"selective"}},
      {"MaxText's policies that keep some matrix products",
       "plan.recompute",
       {"save_dot_except_mlp", "save_dot_except_mlpwi"},
       {"operators"}},
      {"MaxText's policies that keep a projection or chosen tensors",
       "plan.recompute",
       {"save_qkv_proj", "save_out_proj", "qkv_proj_offloaded", "custom"},
       {"full"}},
      {"images or sound in a language model: of a config with text_config, the text part is read",
       "model",
       {"llava_next", "qwen3_vl", "mllama", "idefics2", "idefics3", "paligemma", "internvl_chat", "pixtral", "smolvlm",
        "qwen2_audio"},
       {"llama", "llama-3-8b"}},
      {"Gemma 3 with images: of a config with text_config, the text part is read",
       "model",
       {"gemma3"},
       {"gemma3_text", "gemma-3-12b"}},
      {"other networks of images, which are no language models",
       "model",
       {"siglip2", "swin", "swinv2", "dinov3_vit", "beit", "convnext", "convnextv2", "vit_mae", "sam", "detr",
        "segformer", "dpt"},
       {"vit", "vit-b-16"}},
      {"a config of a diffusion network: those of the catalog are written as operators",
       "model",
       {"stable-diffusion", "sdxl", "sd3", "flux", "wan", "dit", "unet"},
       {"operators", "flux-1-dev"}},
      {"speech and sound, which are no language models",
       "model",
       {"whisper", "wav2vec2", "hubert", "wavlm", "encodec", "musicgen", "speecht5"},
       {"t5", "t5-base"}},
      {"other encoder-decoders", "model", {"mbart", "pegasus", "umt5", "longt5"}, {"t5", "t5-base"}},
      {"other encoders of text", "model", {"deberta", "deberta-v2", "albert"}, {"bert", "bert-base"}},
      {"other decoders since Llama", "model", {"persimmon"}, {"llama", "llama-3-8b"}},
      {"other mixtures of experts", "model", {"jetmoe", "arctic"}, {"mixtral", "mixtral-8x7b"}},
      {"recurrent networks", "model", {"lstm", "gru", "rnn"}, {"mlp-mnist"}},
      {"training on graphs", "model", {"gcn", "gat", "graphsage"}, {"mlp-mnist"}},
      {"other optimizers that multiply matrices", "plan.optimizer", {"kfac", "psgd"}, {"soap"}},
      {"optimizers with one state other than momentum", "plan.optimizer", {"lion", "adagrad", "rmsprop"}, {"momentum"}},
      {"further schedules without bubbles", "plan.pipeline.schedule", {"zb-h2"}, {"zb-2p"}},
      {"pipelines in both directions without split backward passes",
       "plan.pipeline.schedule",
       {"chimera"},
       {"dualpipe"}},
      {"schedules in waves or breadth first",
       "plan.pipeline.schedule",
       {"hanayo", "breadth-first"},
       {"interleaved-1f1b"}},
      {"pipelines without a flush by this name: 1f1b with plan.pipeline.flush: false",
       "plan.pipeline.schedule",
       {"pipedream", "pipedream-2bw", "pipemare"},
       {"1f1b"}},
      {"serving to the public: arrivals at random; the section `generation` answers prompts token by token",
       "plan.mode",
       {"serving", "generation", "decode", "prefill"},
       {"inference"}},
      {"a mode for reinforcement learning: the section post_training generates, beside a plan for training",
       "plan.mode",
       {"rl", "rlhf", "ppo", "grpo"},
       {"training"}},
      {"XLA's own division of layers", "plan.strategy", {"jax", "maxtext", "gspmd"}, {"pytorch-fsdp"}},
      {"other frameworks of parallel training",
       "plan.strategy",
       {"colossalai", "paddle", "mindspore", "oneflow"},
       {"megatron"}},
      {"averaging of clients that come and go", "plan.data_parallel.mechanism", {"fedavg"}, {"local-sgd"}},
      {"direct networks of low diameter", "cluster.fabric", {"slim-fly", "hyperx", "hypercube"}, {"dragonfly"}},
      {"networks drawn at random or through servers", "cluster.fabric", {"jellyfish", "bcube", "dcell"}, {"fat-tree"}}};
  return all;
}

std::optional<std::string> nearest_modelled(std::string_view word, const std::vector<std::string>& names) {
  const auto legal = [&names](const std::string& name) {
    return std::ranges::any_of(names, [&name](const std::string& n) { return same_name(n, name); });
  };
  for (const UnmodelledKey& row : not_modelled())
    if (std::ranges::any_of(row.words, [&](const auto& w) { return same_name(w, word); }))
      for (const std::string& name : row.nearest)
        if (legal(name)) return name;
  return std::nullopt;
}

}  // namespace trainyard
