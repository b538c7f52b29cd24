#include "finetune/checkpoint/python_checkpoint.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <map>

#include "checkpoint/parameter_order.h"
#include "checkpoint/weight_names.h"
#include "checkpoint/zip_archive.h"
#include "checkpoint/zip_writer.h"
#include "finetune/core/error.h"
#include "support.h"

namespace finetune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

TEST(Crc32, IsZips) {
  Crc32 crc;  // in two pieces, the second longer than eight bytes
  crc.update("1234", 4);
  crc.update("56789", 5);
  EXPECT_EQ(crc.value(), 0xCBF43926U);
  crc.update("0123456789abcdef", 16);
  Crc32 whole;
  whole.update("1234567890123456789abcdef", 25);
  EXPECT_EQ(crc.value(), whole.value());
}

TEST(ZipWriter, WritesWhatTheReaderReadsAtAlignedPlaces) {
  std::string bytes;
  ZipWriter zip([&](const void* data, size_t size) { bytes.append(static_cast<const char*>(data), size); });
  zip.add("archive/data.pkl", "pickle");
  zip.add("archive/data/0", "");
  zip.add("archive/data/1", std::string(1000, 'x'));
  zip.finish();
  const auto members = read_zip(bytes, "test.zip");
  ASSERT_EQ(members.size(), 3u);
  EXPECT_EQ(members.at("archive/data.pkl"), "pickle");
  EXPECT_EQ(members.at("archive/data/0"), "");
  EXPECT_EQ(members.at("archive/data/1"), std::string(1000, 'x'));
  for (const auto& [name, content] : members) EXPECT_EQ((content.data() - bytes.data()) % 64, 0) << name;
}

/// More members than a 16-bit count holds: the zip64 directory.
TEST(ZipWriter, ManyMembersNeedZip64) {
  std::string bytes;
  ZipWriter zip([&](const void* data, size_t size) { bytes.append(static_cast<const char*>(data), size); });
  constexpr int kCount = 70'000;
  for (int i = 0; i < kCount; ++i) zip.add("m" + std::to_string(i), "");
  zip.finish();
  EXPECT_EQ(read_zip(bytes, "test.zip").size(), static_cast<size_t>(kCount));
}

using Files = testing::FolderTest;

TEST_F(Files, ACheckpointComesBackAsItWasWritten) {
  PythonCheckpoint written;
  written.weights = {{"a.weight", at::arange(6, at::kFloat).view({2, 3}).t()},
                     {"a.bias", at::tensor({1.5f, -2.0f}, at::kFloat).to(at::kBFloat16)},
                     {"count", at::scalar_tensor(7, at::kLong)},
                     {"none", at::empty({0, 4})}};
  written.epoch = 3;
  AdamGroup group;
  group.names = {"a.weight", "a.bias"};
  group.learning_rate = 1e-3;
  group.weight_decay = 0.25;
  group.beta1 = 0.9;
  group.beta2 = 0.99;
  group.eps = 1e-7;
  group.amsgrad = true;
  group.decoupled = false;
  written.optimizer = AdamState{{group}, {}};
  written.optimizer->moments["a.weight"] = {12, at::ones({3, 2}), at::full({3, 2}, 2.0),
                                            at::full({3, 2}, 3.0)};
  write_python_checkpoint(folder_ / "x.pth", written);

  const PythonCheckpoint read = read_python_checkpoint(folder_ / "x.pth");
  EXPECT_EQ(read.weights_key, "net");
  EXPECT_EQ(read.epoch, 3);
  ASSERT_EQ(read.weights.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(read.weights[i].name, written.weights[i].name);
    EXPECT_EQ(read.weights[i].tensor.scalar_type(), written.weights[i].tensor.scalar_type());
    EXPECT_TRUE(read.weights[i].tensor.equal(written.weights[i].tensor));
  }
  ASSERT_TRUE(read.optimizer);
  const AdamGroup& back = read.optimizer->groups.at(0);
  EXPECT_EQ(back.names, group.names);
  EXPECT_EQ(back.learning_rate, 1e-3);
  EXPECT_EQ(back.weight_decay, 0.25);
  EXPECT_EQ(back.beta2, 0.99);
  EXPECT_EQ(back.eps, 1e-7);
  EXPECT_EQ(back.amsgrad, true);
  EXPECT_EQ(back.decoupled, false);
  ASSERT_EQ(read.optimizer->moments.size(), 1u);
  const AdamMoments& moments = read.optimizer->moments.at("a.weight");
  EXPECT_EQ(moments.step, 12);
  EXPECT_TRUE(moments.max_exp_avg_sq.equal(at::full({3, 2}, 3.0)));
  EXPECT_THAT(read.remarks, ElementsAre(HasSubstr("a.bias")));
}

TEST_F(Files, WhatCannotBeWrittenIsRefused) {
  PythonCheckpoint checkpoint;
  checkpoint.weights = {{"z", at::zeros({1}, at::kComplexFloat)}};
  EXPECT_THAT([&] { write_python_checkpoint(folder_ / "x.pth", checkpoint); },
              ThrowsMessage<CheckpointError>(HasSubstr("convert it to float32")));
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

ParameterShape shape(const std::string& name, const std::vector<int64_t>& sizes) { return {name, sizes}; }

class Matching : public ::testing::Test {
 protected:
  std::vector<std::vector<size_t>> match(const std::vector<GroupShapes>& groups) const {
    return match_groups(model_, groups, "x.pth");
  }
  const std::vector<ParameterShape> model_{shape("enc.w", {4, 3}), shape("enc.b", {4}),
                                           shape("enc.v", {4, 4}), shape("fc.w", {2, 4}), shape("fc.b", {2})};
};

TEST_F(Matching, TheStateDictsOrderIsTheFirstGuess) {
  EXPECT_THAT(match({{{{4, 3}}, {{4}}, {{4, 4}}, {{2, 4}}, {{2}}}}), ElementsAre(ElementsAre(0, 1, 2, 3, 4)));
  EXPECT_THAT(match({{{{4, 3}}, {{4}}, {{4, 4}}}, {{{2, 4}}, {{2}}}}),
              ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4)));
}

TEST_F(Matching, ShapesTellGroupsApart) {
  EXPECT_THAT(match({{{{4, 3}}, {{4, 4}}, {{2, 4}}}, {{{4}}, {{2}}}}),
              ElementsAre(ElementsAre(0, 2, 3), ElementsAre(1, 4)));
  EXPECT_THAT(match({{{{4}}, {{2}}}, {{{4, 3}}, std::nullopt, {{2, 4}}}}),
              ElementsAre(ElementsAre(1, 4), ElementsAre(0, 2, 3)));
  EXPECT_THAT(match({{{{2, 4}}, {{2}}, {{4, 3}}, {{4}}, {{4, 4}}}}), ElementsAre(ElementsAre(3, 4, 0, 1, 2)));
  EXPECT_THAT(match({{{{4, 4}}, {{2}}}}), ElementsAre(ElementsAre(2, 4)));
}

TEST_F(Matching, TwoWaysAndNoWayAreRefused) {
  EXPECT_THAT(
      [&] {
        match({{std::nullopt, {{2}}}});
      },
      ThrowsMessage<CheckpointError>(HasSubstr("more than one way")));
  EXPECT_THAT([&] { match({{{{4, 4}}, {{4, 3}}}}); }, ThrowsMessage<CheckpointError>(HasSubstr("no order")));
  EXPECT_THAT(
      [&] {
        match({{{{4, 4}}, {{4}}, {{4, 3}}, {{2, 4}}, {{2}}}});
      },
      ThrowsMessage<CheckpointError>(HasSubstr("parameter 0, enc.w [4, 3], has moments of shape [4, 4]")));
  EXPECT_THAT([&] { match({GroupShapes(6)}); },
              ThrowsMessage<CheckpointError>(HasSubstr("is of 6 parameters")));
}

/// So many equal shapes that trying every way would take for ever.
TEST(MatchGroups, GivesUpInTime) {
  std::vector<ParameterShape> parameters;
  for (int i = 0; i < 400; ++i) parameters.push_back(shape("p" + std::to_string(i), {i < 399 ? 2 : 3}));
  std::vector<GroupShapes> groups{{{{3}}}};
  for (int i = 0; i < 399; ++i) groups.push_back({{{2}}});
  EXPECT_THAT([&] { match_groups(parameters, groups, "x.pth"); },
              ThrowsMessage<CheckpointError>(HasSubstr("more than one way")));
}

TEST(WeightNames, AreUnwrappedRenamedAndModernised) {
  EXPECT_EQ(modern_name("module._orig_mod.module.encoder.LayerNorm.gamma", {{"^encoder[.]", "bert."}}),
            "bert.LayerNorm.weight");
  EXPECT_EQ(modern_name("a._orig_mod.norm.beta"), "a.norm.bias");
  EXPECT_EQ(modern_name("fc.1.weight", {{"^fc[.]([0-9])", "head$1"}, {"head1", "classifier"}}),
            "classifier.weight");
}

TEST(WeightNames, RenamesAreSuggestedWhereShapesAllow) {
  const std::vector<NamedShape> wanted{{"bert.w", {4, 3}}, {"bert.b", {4}}, {"classifier.w", {2, 4}}};
  EXPECT_EQ(to_text(suggest_renames({{"enc.w", {4, 3}}, {"enc.b", {4}}, {"fc.w", {2, 4}}}, wanted)),
            R"("rename": [["^enc[.]","bert."],["^fc[.]","classifier."]])");
  EXPECT_EQ(to_text(suggest_renames({{"w", {4, 3}}, {"b", {4}}}, wanted)), R"("rename": [["^","bert."]])");
  EXPECT_THAT(suggest_renames({{"enc.w", {5, 3}}, {"enc.b", {5}}}, wanted), IsEmpty());
}

}  // namespace
}  // namespace finetune
