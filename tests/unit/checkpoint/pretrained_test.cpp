#include "finetune/checkpoint/pretrained.h"

#include "checkpoint/support.h"
#include "finetune/checkpoint/pth.h"
#include "finetune/checkpoint/safetensors.h"

namespace finetune {
namespace {

using ::testing::AllOf;
using testing::checkpoint_error;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::numbers;
using ::testing::SizeIs;
using testing::write_bytes;
namespace fs = std::filesystem;

const std::string kPrefix = "bert.";

class PretrainedTest : public testing::FolderTest {
 protected:
  /// A small encoder with a head of two labels, all zero.
  static NamedTensors model(int64_t num_labels = 2) {
    return {{"bert.embeddings.word_embeddings.weight", at::zeros({6, 4})},
            {"bert.encoder.layer.0.output.LayerNorm.weight", at::zeros({4})},
            {"bert.encoder.layer.0.output.LayerNorm.bias", at::zeros({4})},
            {"classifier.weight", at::zeros({num_labels, 4})},
            {"classifier.bias", at::zeros({num_labels})}};
  }
  /// The same names, each passed through `rename` ("" leaves it out), with values that tell them apart.
  template <typename Rename>
  void write_weights(const Rename& rename, const char* file = "model.safetensors") {
    NamedTensors weights;
    double first = 1;
    for (const auto& [name, tensor] : model()) {
      const std::string renamed = rename(name);
      if (!renamed.empty()) weights.push_back({renamed, numbers(tensor.sizes(), first)});
      first += 100;
    }
    write_safetensors(folder_ / file, weights, {});
  }
  static void expect_filled(const NamedTensors& tensors, size_t count) {
    double first = 1;
    for (size_t i = 0; i < tensors.size(); ++i, first += 100) {
      const auto& [name, tensor] = tensors[i];
      EXPECT_TRUE(tensor.equal(i < count ? numbers(tensor.sizes(), first) : at::zeros_like(tensor))) << name;
    }
  }
  std::string load_error(const NamedTensors& tensors) {
    return checkpoint_error([&] { load_pretrained(folder_, tensors, kPrefix); });
  }
};

std::string same(const std::string& name) { return name; }
std::string without_prefix(const std::string& name) {
  return name.starts_with(kPrefix) ? name.substr(5) : "";
}

TEST_F(PretrainedTest, NamesAsWritten) {
  write_weights(same);
  const NamedTensors tensors = model();
  const LoadReport report = load_pretrained(folder_, tensors, kPrefix);
  expect_filled(tensors, 5);
  EXPECT_THAT(report.loaded, SizeIs(5));
  EXPECT_THAT(report.missing, IsEmpty());
  EXPECT_THAT(report.unexpected, IsEmpty());
}

TEST_F(PretrainedTest, AnEncoderWithoutPrefixFillsTheEncoderAndNamesTheRest) {
  write_weights(without_prefix);
  NamedTensors more;
  const SafetensorsFile encoder(folder_ / "model.safetensors");
  for (const auto& entry : encoder.entries()) {
    more.push_back({entry.name, at::empty(entry.sizes)});
    encoder.read_into(entry, more.back().tensor);
  }
  more.push_back({"cls.predictions.bias", at::ones(6)});
  more.push_back({"embeddings.position_ids", at::arange(6).view({1, 6})});
  write_safetensors(folder_ / "model.safetensors", more, {});
  const NamedTensors tensors = model();
  const LoadReport report = load_pretrained(folder_, tensors, kPrefix);
  expect_filled(tensors, 3);
  EXPECT_THAT(report.missing, ElementsAre("classifier.weight", "classifier.bias"));
  EXPECT_THAT(report.unexpected, ElementsAre("cls.predictions.bias"));
}

TEST_F(PretrainedTest, NamesMustBeExactWhereThereIsNoPrefix) {
  write_weights(same);
  NamedTensors encoder = model();
  encoder.resize(3);
  EXPECT_THAT(load_pretrained(folder_, encoder, "").loaded, SizeIs(3));
  for (auto& named : encoder) named.name = without_prefix(named.name);
  EXPECT_THAT(checkpoint_error([&] { load_pretrained(folder_, encoder, ""); }), HasSubstr("random weights"));
}

TEST_F(PretrainedTest, WrappersAndOldLayerNormNames) {
  for (const std::string wrapper : {"module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module."}) {
    write_weights([&](const std::string& name) {
      std::string old = wrapper + name;
      if (const size_t at = old.find("LayerNorm.weight"); at != std::string::npos)
        old.replace(at, 16, "LayerNorm.gamma");
      if (const size_t at = old.find("LayerNorm.bias"); at != std::string::npos)
        old.replace(at, 14, "LayerNorm.beta");
      return old;
    });
    const NamedTensors tensors = model();
    EXPECT_THAT(load_pretrained(folder_, tensors, kPrefix).loaded, SizeIs(5)) << wrapper;
    expect_filled(tensors, 5);
  }
  write_weights(
      [](const std::string& name) { return name.starts_with(kPrefix) ? "module." + name.substr(5) : ""; });
  const NamedTensors tensors = model();
  load_pretrained(folder_, tensors, kPrefix);
  expect_filled(tensors, 3);
}

TEST_F(PretrainedTest, TwoNamesForOneParameterAreRefused) {
  write_safetensors(folder_ / "model.safetensors",
                    {{"module.bert.x.weight", at::ones(1)}, {"_orig_mod.bert.x.weight", at::ones(1)}}, {});
  EXPECT_THAT(load_error(model()),
              AllOf(HasSubstr("module.bert.x.weight"), HasSubstr("_orig_mod.bert.x.weight"),
                    HasSubstr("mean 'bert.x.weight'")));
}

TEST_F(PretrainedTest, LowerPrecisionIsConverted) {
  NamedTensors weights = model();
  for (auto& [name, tensor] : weights) tensor = at::full(tensor.sizes(), 1.5, at::kBFloat16);
  write_safetensors(folder_ / "model.safetensors", weights, {});
  const NamedTensors tensors = model();
  load_pretrained(folder_, tensors, kPrefix);
  EXPECT_EQ(tensors[0].tensor.sum().item<float>(), 1.5F * 24);
  for (auto& [name, tensor] : weights) tensor = tensor.to(at::kLong);
  write_safetensors(folder_ / "model.safetensors", weights, {});
  EXPECT_THAT(load_error(tensors),
              AllOf(HasSubstr("the file has dtype I64"), HasSubstr("the model expects Float")));
}

TEST_F(PretrainedTest, AnotherNumberOfLabelsNamesBothShapesAndTheRemedy) {
  write_weights(same);
  const NamedTensors tensors = model(7);
  EXPECT_THAT(load_error(tensors),
              AllOf(HasSubstr("classifier.weight: the file has shape [2, 4], the model expects [7, 4]"),
                    HasSubstr("classifier.bias: the file has shape [2], the model expects [7]"),
                    HasSubstr("task.labels"), HasSubstr("model.path")));
  EXPECT_EQ(tensors[0].tensor.abs().sum().item<float>(), 0)
      << "shapes are checked before the first byte is copied";
}

TEST_F(PretrainedTest, WrongShapesInTheEncoderAreAllNamed) {
  write_weights(same);
  NamedTensors tensors = model();
  tensors[0].tensor = at::zeros({9, 4});
  tensors[2].tensor = at::zeros({8});
  EXPECT_THAT(
      load_error(tensors),
      AllOf(HasSubstr("word_embeddings.weight: the file has shape [6, 4], the model expects [9, 4]"),
            HasSubstr("LayerNorm.bias: the file has shape [4], the model expects [8]"),
            HasSubstr("config.json and the weights do not belong together"), Not(HasSubstr("classifier"))));
}

TEST_F(PretrainedTest, NothingMatchedIsAnErrorNotARandomStart) {
  write_weights([](const std::string& name) { return "transformer." + name; });
  EXPECT_THAT(load_error(model()),
              AllOf(HasSubstr("random weights"), HasSubstr("transformer.bert.embeddings"),
                    HasSubstr("bert.encoder.layer.0")));
  // A head that matches is not enough.
  write_weights([](const std::string& name) { return name.starts_with(kPrefix) ? "x." + name : name; });
  EXPECT_THAT(load_error(model()), HasSubstr("random weights"));
  write_safetensors(folder_ / "model.safetensors", {}, {});
  EXPECT_THAT(load_error(model()), HasSubstr("random weights"));
}

TEST_F(PretrainedTest, MissingAndTruncatedWeights) {
  EXPECT_THAT(load_error(model()),
              AllOf(HasSubstr(folder_.string()), HasSubstr("neither model.safetensors nor")));
  write_bytes(folder_ / "pytorch_model.bin", "PK");
  EXPECT_THAT(load_error(model()), AllOf(HasSubstr("pytorch_model.bin"), HasSubstr("no file of torch.save")));
  write_weights(same);
  const std::string bytes = read_file(folder_ / "model.safetensors");
  write_bytes(folder_ / "model.safetensors", bytes.substr(0, bytes.size() - 4));
  EXPECT_THAT(load_error(model()), AllOf(HasSubstr("model.safetensors"), HasSubstr("truncated")));
  EXPECT_THAT(checkpoint_error([&] { load_pretrained(folder_ / "none", model(), kPrefix); }),
              HasSubstr("does not exist"));
}

TEST_F(PretrainedTest, WeightsInSeveralFiles) {
  write_weights([](const std::string& name) { return name.starts_with(kPrefix) ? name : ""; },
                "part-1.safetensors");
  write_weights([](const std::string& name) { return name.starts_with(kPrefix) ? "" : name; },
                "part-2.safetensors");
  Json index = {{"metadata", {{"total_size", 1}}}, {"weight_map", Json::object()}};
  for (const auto& [name, tensor] : model()) {
    index["weight_map"][name] = name.starts_with(kPrefix) ? "part-1.safetensors" : "part-2.safetensors";
  }
  const auto write_index = [&] { write_bytes(folder_ / "model.safetensors.index.json", index.dump()); };
  write_index();
  const NamedTensors tensors = model();
  EXPECT_THAT(load_pretrained(folder_, tensors, kPrefix).loaded, SizeIs(5));
  expect_filled(tensors, 5);

  index["weight_map"]["classifier.bias"] = "../part-2.safetensors";
  write_index();
  EXPECT_THAT(load_error(model()),
              AllOf(HasSubstr("'classifier.bias'"), HasSubstr("a file in the same folder")));
  index["weight_map"]["classifier.bias"] = "part-3.safetensors";
  write_index();
  EXPECT_THAT(load_error(model()), AllOf(HasSubstr("part-3.safetensors"), HasSubstr("No such file")));
  write_weights(same, "part-3.safetensors");
  EXPECT_THAT(load_error(model()), AllOf(HasSubstr("is in both"), HasSubstr("part-3.safetensors")));
  write_bytes(folder_ / "model.safetensors.index.json", "{}");
  EXPECT_THAT(load_error(model()), HasSubstr("weight_map"));
}

TEST_F(PretrainedTest, ModelConfig) {
  EXPECT_THAT(checkpoint_error([&] { read_model_config(folder_ / "none"); }), HasSubstr("does not exist"));
  EXPECT_THAT(checkpoint_error([&] { read_model_config(folder_); }), HasSubstr("has no config.json"));
  write_bytes(folder_ / "config.json", "{\"hidden_size\": 384,}");
  EXPECT_THAT(checkpoint_error([&] { read_model_config(folder_); }),
              AllOf(HasSubstr("config.json"), HasSubstr("not JSON")));
  write_bytes(folder_ / "config.json", "[]");
  EXPECT_THAT(checkpoint_error([&] { read_model_config(folder_); }),
              HasSubstr("holds array, expected an object"));
  EXPECT_THAT(checkpoint_error([&] { read_model_config(folder_ / "config.json"); }), HasSubstr("is a file"));
  write_bytes(folder_ / "config.json", "{\"hidden_size\": 384}");
  EXPECT_EQ(read_model_config(folder_).at("hidden_size"), 384);
}

TEST_F(PretrainedTest, AnExportedDirectoryLoadsAgain) {
  const auto target = folder_ / "run" / "model";
  NamedTensors weights = model();
  for (int version = 1; version <= 2; ++version) {
    for (auto& [name, tensor] : weights) tensor = at::full(tensor.sizes(), static_cast<double>(version));
    export_model_directory(target, {{"version", version}}, weights, [&](const std::filesystem::path& fresh) {
      EXPECT_EQ(std::filesystem::exists(target), version == 2);
      write_bytes(fresh / ("only-in-" + std::to_string(version)), "x");
    });
    EXPECT_EQ(read_model_config(target).at("version"), version);
    const NamedTensors tensors = model();
    load_pretrained(target, tensors, kPrefix);
    EXPECT_EQ(tensors[0].tensor.sum().item<float>(), 24.0F * static_cast<float>(version));
  }
  EXPECT_FALSE(std::filesystem::exists(target / "only-in-1"));
  EXPECT_TRUE(std::filesystem::exists(target / "only-in-2"));
  EXPECT_THAT(testing::strange_names(target.parent_path()), ElementsAre("model"));
}

TEST_F(PretrainedTest, AnExportThatFailsKeepsTheOldDirectory) {
  const auto target = folder_ / "model";
  export_model_directory(target, {{"version", 1}}, model(), nullptr);
  std::filesystem::create_directory(folder_ / ".tmp-model-1-0");
  const auto fail = [](const std::filesystem::path&) -> void {
    throw std::system_error(ENOSPC, std::generic_category(), "cannot write vocab.txt");
  };
  EXPECT_THAT(
      checkpoint_error([&] {
        export_model_directory(target, {{"version", 2}}, model(), fail);
      }),
      AllOf(HasSubstr("vocab.txt"), HasSubstr("No space left on device"), HasSubstr("bytes are needed")));
  EXPECT_EQ(read_model_config(target).at("version"), 1);
  EXPECT_THAT(testing::strange_names(folder_), ElementsAre("model"));
}

/// pytorch_model.bin, as torch.save wrote it, whole and by an index.
TEST_F(PretrainedTest, PickledWeights) {
  const fs::path saved = fs::path(FINETUNE_TEST_DATA) / "cases" / "24-pth-file-layouts" / "zip.pth";
  const PthFile file(saved);
  const NamedTensors written = file.tensors(file.state_dict());
  for (const bool in_parts : {false, true}) {
    const std::string name = in_parts ? "pytorch_model-00001-of-00001.bin" : "pytorch_model.bin";
    fs::copy_file(saved, folder_ / name);
    if (in_parts) {
      fs::remove(folder_ / "pytorch_model.bin");
      Json index{{"weight_map", Json::object()}};
      for (const auto& [tensor, unused] : written) index["weight_map"][tensor] = name;
      write_bytes(folder_ / "pytorch_model.bin.index.json", index.dump());
    }
    NamedTensors parameters;
    for (const auto& [tensor, value] : written) parameters.push_back({tensor, at::full_like(value, 9)});
    const LoadReport report = load_pretrained(folder_, parameters, "bert.");
    EXPECT_EQ(report.loaded.size(), written.size());
    EXPECT_TRUE(report.missing.empty() && report.unexpected.empty());
    for (size_t i = 0; i < written.size(); ++i)
      EXPECT_TRUE(at::equal(parameters[i].tensor, written[i].tensor)) << written[i].name;
  }
}

}  // namespace
}  // namespace finetune
