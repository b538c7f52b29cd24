/// Every family of encoders on sim:0: the CPU's numbers, nothing between two log points that waits for the
/// device, and the same from recorded steps.

#include "../device/support.h"
#include "../recording.h"
#include "finetune/core/file.h"
#include "watched_run.h"

namespace finetune::sim {
namespace {

/// A tiny model of the family that begins at random, with the tiny BERT's vocabulary.
std::filesystem::path write_model(const std::filesystem::path& folder, const std::string& family) {
  std::filesystem::create_directories(folder);
  std::filesystem::copy(tiny_model() / "vocab.txt", folder / "vocab.txt");
  write_file_atomically(folder / "tokenizer_config.json", R"({"tokenizer_class": "BertTokenizer"})");
  Json config = Json::parse(read_file(tiny_model() / "config.json"));
  config.update({{"model_type", family},
                 {"vocab_size", 160},
                 {"hidden_size", 16},
                 {"num_hidden_layers", 3},
                 {"num_attention_heads", 2},
                 {"intermediate_size", 24},
                 {"embedding_size", 8},
                 {"max_position_embeddings", 40},
                 {"pad_token_id", 0},
                 {"relative_attention", true},
                 {"position_buckets", 4},
                 {"pos_att_type", "c2p|p2c"},
                 {"global_attn_every_n_layers", 2},
                 {"local_attention", 4}});
  if (family == "distilbert")
    config.update({{"dim", 16}, {"n_layers", 2}, {"n_heads", 2}, {"hidden_dim", 24}});
  write_file_atomically(folder / "config.json", config.dump());
  return folder;
}

class SyncFreeFamilies : public SimTest, public ::testing::WithParamInterface<const char*> {
 protected:
  std::unique_ptr<Watched> watched(const std::string& device, const Json& changes) {
    if (!std::filesystem::exists(folder_.path() / "model")) write_model(folder_.path() / "model", GetParam());
    Json all{{"model", {{"path", (folder_.path() / "model").string()}, {"init", "random"}}},
             {"train", {{"max_steps", 12}, {"eval_every", "6 steps"}}},
             {"checkpoint", {{"save_every", 0}}}};
    all.merge_patch(changes);
    return run_on(device, all);
  }
  TemporaryFolder folder_;
};

TEST_P(SyncFreeFamilies, StepsEqualTheCpusBitByBit) {
  const auto cpu = watched("cpu", Json::object()), sim = watched("sim:0", Json::object());
  ASSERT_EQ(sim->log.size(), 12u);
  EXPECT_EQ(values_of(sim->log, "loss"), values_of(cpu->log, "loss"));
  EXPECT_EQ(sim->summary.at("weights_sha256"), cpu->summary.at("weights_sha256"));
  EXPECT_EQ(sim->summary.at("metrics"), cpu->summary.at("metrics"));
  EXPECT_EQ(sim->counters.strict_sections, 12);
  EXPECT_EQ(sim->counters.foreign_operands, 0);
  EXPECT_EQ(reports(), "");
}

TEST_P(SyncFreeFamilies, RecordedStepsGiveTheSameLosses) {
  take_recording_counts();
  const auto cpu = watched("cpu", Json::object()),
             sim = watched("sim:0", {{"train", {{"cuda_graphs", true}}}});
  EXPECT_GT(take_recording_counts().replayed, 12);
  const auto expected = values_of(cpu->log, "loss"), losses = values_of(sim->log, "loss");
  ASSERT_EQ(losses.size(), expected.size());
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-5) << "step " << i + 1;
  EXPECT_EQ(reports(), "");
}

INSTANTIATE_TEST_SUITE_P(All, SyncFreeFamilies,
                         ::testing::Values("bert", "roberta", "distilbert", "electra", "albert", "mpnet",
                                           "deberta-v2", "modernbert"),
                         [](const auto& family) {
                           std::string name = family.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace finetune::sim
