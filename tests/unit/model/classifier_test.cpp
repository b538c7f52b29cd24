#include "finetune/model/classifier.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>

#include <map>
#include <numeric>

#include "finetune/batching/batch.h"
#include "finetune/core/error.h"

namespace finetune {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// tests/parity/bert_test.py compares logits and gradients with transformers.

const HeadConfig kThreeClasses{.kind = HeadKind::kSequence, .num_outputs = 3};

EncoderConfig tiny() {
  EncoderConfig config;
  config.model_type = "bert";
  config.vocab_size = 30;
  config.hidden_size = 8;
  config.num_layers = 2;
  config.num_heads = 2;
  config.intermediate_size = 12;
  config.max_positions = 10;
  config.num_token_types = 2;
  return config;
}

/// Rows of the given lengths with ids that depend on row and position.
DeviceDataset make_rows(const std::vector<int32_t>& lengths) {
  EncodedDataset encoded;
  encoded.row_offsets.push_back(0);
  for (const int32_t length : lengths) {
    for (int32_t i = 0; i < length; ++i) encoded.input_ids.push_back((length * 7 + i * 3) % 30);
    encoded.row_offsets.push_back(static_cast<int64_t>(encoded.input_ids.size()));
    encoded.second_segments.push_back(length / 2);
  }
  return to_device(encoded, c10::Device(c10::kCPU));
}

at::Tensor logits_of(const Classifier& model, const DeviceDataset& rows, const std::vector<int64_t>& order) {
  const at::NoGradGuard no_grad;
  const BatchSource source(rows, order,
                           plan_batches(rows.lengths, order, 0, static_cast<int64_t>(order.size()), 0, 0));
  return model.forward(source.batch(0), ForwardMode{});
}

TEST(Classifier, NamesItsParametersAsHuggingFaceDoes) {
  const Classifier model(tiny(), kThreeClasses, c10::Device(c10::kCPU));
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const Parameter& parameter : model.parameters())
    shapes[parameter.name] = parameter.value.sizes().vec();
  EXPECT_EQ(shapes.size(), 5u + 2 * 16 + 2 + 2);
  EXPECT_EQ(shapes.at("bert.embeddings.word_embeddings.weight"), (std::vector<int64_t>{30, 8}));
  EXPECT_EQ(shapes.at("bert.encoder.layer.1.attention.self.key.weight"), (std::vector<int64_t>{8, 8}));
  EXPECT_EQ(shapes.at("bert.encoder.layer.0.intermediate.dense.weight"), (std::vector<int64_t>{12, 8}));
  EXPECT_EQ(shapes.at("bert.encoder.layer.0.output.dense.bias"), (std::vector<int64_t>{8}));
  EXPECT_EQ(shapes.at("bert.pooler.dense.weight"), (std::vector<int64_t>{8, 8}));
  EXPECT_EQ(shapes.at("classifier.weight"), (std::vector<int64_t>{3, 8}));
  EXPECT_EQ(model.base_prefix(), "bert.");
}

TEST(Classifier, InitialWeightsFollowHuggingFacesRule) {
  Classifier model(tiny(), kThreeClasses, c10::Device(c10::kCPU));
  model.initialize_parameters(/*seed=*/1);
  for (const Parameter& parameter : model.parameters()) {
    if (parameter.name.ends_with("bias")) {
      EXPECT_TRUE(parameter.value.eq(0).all().item<bool>()) << parameter.name;
    } else if (parameter.value.dim() == 1) {
      EXPECT_TRUE(parameter.value.eq(1).all().item<bool>()) << parameter.name;
    } else {
      EXPECT_NEAR(parameter.value.std().item<double>(), 0.02, 0.01) << parameter.name;
    }
    EXPECT_TRUE(parameter.grad.eq(0).all().item<bool>()) << parameter.name;
    EXPECT_EQ(parameter.grad.sizes(), parameter.value.sizes()) << parameter.name;
  }
  EXPECT_TRUE(model.parameters().front().value[0].eq(0).all().item<bool>()) << "the row of the padding token";
}

TEST(Classifier, InitialWeightsDependOnTheSeedAndTheNameAlone) {
  Classifier one(tiny(), kThreeClasses, c10::Device(c10::kCPU)),
      same(tiny(), kThreeClasses, c10::Device(c10::kCPU)),
      other(tiny(), kThreeClasses, c10::Device(c10::kCPU)),
      wider(tiny(), {.num_outputs = 5}, c10::Device(c10::kCPU));
  one.initialize_parameters(1);
  same.initialize_parameters(1);
  other.initialize_parameters(2);
  wider.initialize_parameters(1);
  for (size_t i = 0; i < one.parameters().size(); ++i) {
    const Parameter& parameter = one.parameters()[i];
    EXPECT_TRUE(at::equal(parameter.value, same.parameters()[i].value)) << parameter.name;
    if (parameter.value.dim() == 2) {
      EXPECT_FALSE(at::equal(parameter.value, other.parameters()[i].value)) << parameter.name;
    }
    if (!parameter.name.starts_with("classifier")) {
      EXPECT_TRUE(at::equal(parameter.value, wider.parameters()[i].value)) << parameter.name;
    }
  }
  const auto& parameters = one.parameters();
  EXPECT_FALSE(at::equal(parameters[5].value, parameters[7].value)) << "query and key differ";
}

TEST(Classifier, InitialisesOnlyTheNamesItIsGiven) {
  Classifier all(tiny(), kThreeClasses, c10::Device(c10::kCPU)),
      some(tiny(), kThreeClasses, c10::Device(c10::kCPU));
  all.initialize_parameters(1);
  for (const Parameter& parameter : some.parameters()) parameter.value.fill_(7);
  some.initialize_parameters(1, {"classifier.weight"});
  for (size_t i = 0; i < all.parameters().size(); ++i) {
    const Parameter &whole = all.parameters()[i], &part = some.parameters()[i];
    const bool named = part.name == "classifier.weight";
    EXPECT_TRUE(at::equal(part.value, named ? whole.value : at::full_like(part.value, 7))) << part.name;
  }
}

TEST(Classifier, ARowsLogitsDoNotDependOnItsNeighbours) {
  Classifier model(tiny(), kThreeClasses, c10::Device(c10::kCPU));
  model.initialize_parameters(1);
  for (const Parameter& parameter : model.parameters()) parameter.value.mul_(10);
  const DeviceDataset rows = make_rows({2, 10, 5, 1, 7});
  const auto together = logits_of(model, rows, {0, 1, 2, 3, 4});
  EXPECT_EQ(together.sizes(), (std::vector<int64_t>{5, 3}));
  for (int64_t row = 0; row < 5; ++row) {
    EXPECT_TRUE(at::allclose(logits_of(model, rows, {row})[0], together[row], 1e-5, 1e-6)) << row;
  }
  EXPECT_TRUE(at::allclose(logits_of(model, rows, {4, 3, 2, 1, 0}), together.flip(0), 1e-5, 1e-6));
  EXPECT_FALSE(at::allclose(together[1], together[2], 1e-2, 1e-2));
}

TEST(Classifier, AnUnknownFamilyIsRefusedWithTheNearestName) {
  EncoderConfig config = tiny();
  config.model_type = "bret";
  EXPECT_THAT([&] { Classifier(config, kThreeClasses, c10::Device(c10::kCPU)); },
              ThrowsMessage<CheckpointError>(
                  AllOf(HasSubstr("model_type 'bret' is not supported; expected one of bert, roberta"),
                        HasSubstr("modernbert; did you mean 'bert'?"))));
}

}  // namespace
}  // namespace finetune
