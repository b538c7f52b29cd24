#include "finetune/checkpoint/safetensors.h"

#include <unistd.h>

#include <cstring>

#include "checkpoint/support.h"
#include "finetune/core/hash.h"

namespace finetune {
namespace {

using ::testing::AllOf;
using testing::checkpoint_error;
using ::testing::HasSubstr;
using testing::numbers;
using testing::safetensors_bytes;
using testing::write_bytes;

class SafetensorsTest : public testing::FolderTest {
 protected:
  SafetensorsFile written(const NamedTensors& tensors,
                          const std::map<std::string, std::string>& metadata = {}) {
    write_safetensors(path_, tensors, metadata);
    return SafetensorsFile(path_);
  }
  at::Tensor read(const SafetensorsFile& file, const std::string& name) {
    const auto* entry = file.find(name);
    TORCH_CHECK(entry != nullptr, name);
    const at::Tensor tensor = at::full(entry->sizes, 77, entry->dtype);
    file.read_into(*entry, tensor);
    return tensor;
  }

  std::filesystem::path path_ = folder_ / "x.safetensors";
};

const std::vector<at::ScalarType> kAllDtypes = {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong,
                                                at::kInt,    at::kShort, at::kChar, at::kByte,     at::kBool};

TEST_F(SafetensorsTest, EveryDtypeComesBackWithTheSameBytes) {
  NamedTensors tensors;
  for (const auto dtype : kAllDtypes)
    tensors.push_back({std::string("t_") + c10::toString(dtype), numbers({3, 4}, 0, dtype)});
  const SafetensorsFile file = written(tensors, {{"format", "pt"}});
  ASSERT_EQ(file.entries().size(), tensors.size());
  EXPECT_EQ(file.metadata().at("format"), "pt");
  for (const auto& [name, tensor] : tensors) {
    EXPECT_EQ(file.find(name)->dtype, tensor.scalar_type());
    EXPECT_TRUE(read(file, name).equal(tensor)) << name;
    EXPECT_EQ(file.bytes(*file.find(name)).size(), tensor.nbytes());
  }
  EXPECT_EQ(file.find("t_"), nullptr);
}

TEST_F(SafetensorsTest, SpecialValuesKeepTheirBits) {
  const at::Tensor bits = at::tensor({0x7fc00001, 0x7f800000, static_cast<int>(0x80000000), 1}, at::kInt);
  const SafetensorsFile file = written({{"x", bits.view(at::kFloat)}});
  EXPECT_TRUE(read(file, "x").view(at::kInt).equal(bits));
}

TEST_F(SafetensorsTest, ScalarsEmptyTensorsAndNoTensors) {
  const SafetensorsFile file = written({{"scalar", at::scalar_tensor(2.5)},
                                        {"empty", at::empty({0, 3})},
                                        {"also_empty", at::empty({4, 0}, at::kLong)},
                                        {"one", at::ones({1, 1})}});
  EXPECT_EQ(read(file, "scalar").item<float>(), 2.5F);
  EXPECT_EQ(file.find("empty")->sizes, (std::vector<int64_t>{0, 3}));
  EXPECT_EQ(read(file, "also_empty").numel(), 0);
  write_safetensors(path_, {}, {});
  EXPECT_TRUE(SafetensorsFile(path_).entries().empty());
}

TEST_F(SafetensorsTest, ViewsAreWrittenAndFilledInRowMajorOrder) {
  const at::Tensor base = numbers({6, 8}, 1);
  const std::vector<at::Tensor> views = {base.t(),
                                         base.narrow(1, 2, 3),
                                         base.select(1, 4),
                                         base.as_strided({3, 3}, {1, 1}),
                                         base.select(0, 1).expand({4, 8}),
                                         base.view({2, 3, 8}).permute({2, 0, 1})};
  for (const auto& view : views) {
    const SafetensorsFile file = written({{"view", view}});
    EXPECT_TRUE(read(file, "view").equal(view)) << view.sizes();
  }
  const SafetensorsFile file = written({{"x", numbers({8, 6}, 9)}});
  const at::Tensor target = at::zeros({6, 8});
  file.read_into(*file.find("x"), target.t());
  EXPECT_TRUE(target.t().equal(numbers({8, 6}, 9)));
}

TEST_F(SafetensorsTest, LargeViewsPassThroughTheBufferInPieces) {
  // 9 MiB in rows of 12 KiB, and rows longer than the buffer of 4 MiB.
  for (const auto& sizes : {std::vector<int64_t>{3072, 768}, std::vector<int64_t>{1'200'000, 2}}) {
    const at::Tensor view = numbers(sizes, 0).t();
    ASSERT_FALSE(view.is_contiguous());
    const SafetensorsFile file = written({{"view", view}});
    EXPECT_TRUE(read(file, "view").equal(view));
    const at::Tensor target = at::zeros(sizes);
    file.read_into(*file.find("view"), target.t());
    EXPECT_TRUE(target.t().equal(view));
    const at::Tensor half = at::zeros(sizes, at::kHalf);
    file.read_into(*file.find("view"), half.t());
    EXPECT_TRUE(half.t().equal(view.to(at::kHalf)));
  }
}

TEST_F(SafetensorsTest, FloatingDtypesConvertAndOthersDoNot) {
  const at::Tensor values = numbers({5, 3}, -2);
  for (const auto from : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16}) {
    const SafetensorsFile file = written({{"x", values.to(from)}});
    for (const auto to : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16}) {
      const at::Tensor target = at::zeros({5, 3}, to);
      file.read_into(*file.find("x"), target);
      EXPECT_TRUE(target.equal(values.to(from).to(to)));
    }
    const at::Tensor integers = at::zeros({5, 3}, at::kLong);
    EXPECT_THAT(checkpoint_error([&] { file.read_into(*file.find("x"), integers); }),
                AllOf(HasSubstr("'x' has dtype"), HasSubstr("expected Long"), HasSubstr(path_.string())));
  }
}

TEST_F(SafetensorsTest, AWrongShapeIsRefusedBeforeACopy) {
  const SafetensorsFile file = written({{"x", at::ones({2, 3})}});
  const at::Tensor target = at::zeros({3, 2});
  EXPECT_THAT(checkpoint_error([&] { file.read_into(*file.find("x"), target); }),
              AllOf(HasSubstr("[2, 3]"), HasSubstr("expected [3, 2]")));
  EXPECT_EQ(target.sum().item<float>(), 0);
}

TEST_F(SafetensorsTest, ParametersThatWantGradientsAreFilledInPlace) {
  const SafetensorsFile file = written({{"x", numbers({4}, 1)}});
  at::Tensor parameter = at::zeros({4}).requires_grad_(true);
  const void* storage = parameter.const_data_ptr();
  file.read_into(*file.find("x"), parameter);
  EXPECT_TRUE(parameter.detach().equal(numbers({4}, 1)));
  EXPECT_EQ(parameter.const_data_ptr(), storage);
  EXPECT_TRUE(parameter.is_leaf());
}

TEST_F(SafetensorsTest, BytesAreThoseOfThePythonLibrary) {
  // safetensors.torch.save of the same tensors: widest dtype first, then by name; header padded to 8 bytes.
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"c":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},)"
      R"("b\n\"é":{"dtype":"F32","shape":[2],"data_offsets":[8,16]},)"
      R"("d":{"dtype":"F32","shape":[],"data_offsets":[16,20]},"a":{"dtype":"U8","shape":[3],"data_offsets":[20,23]}})";
  std::string data(23, '\0');
  const int64_t c = -2;
  const float b[] = {1.5F, -0.0F}, d = 3.25F;
  std::memcpy(data.data(), &c, 8);
  std::memcpy(data.data() + 8, b, 8);
  std::memcpy(data.data() + 16, &d, 4);
  std::memcpy(data.data() + 20, "\x01\x02\x03", 3);
  const std::string padding((8 - header.size() % 8) % 8, ' ');
  const FileDigest digest = write_safetensors(path_,
                                              {{"a", at::tensor({1, 2, 3}, at::kByte)},
                                               {"b\n\"é", at::tensor({1.5F, -0.0F})},
                                               {"c", at::tensor({-2}, at::kLong)},
                                               {"d", at::scalar_tensor(3.25)}},
                                              {{"format", "pt"}});
  const std::string bytes = read_file(path_);
  EXPECT_EQ(bytes, safetensors_bytes(header + padding, data));
  Xxh3 hash;
  hash.update(bytes);
  EXPECT_EQ(digest, (FileDigest{bytes.size(), hash.hex()}));
}

TEST_F(SafetensorsTest, OtherWritersLayoutsAreRead) {
  const std::string data = std::string("\x07", 1) + std::string("\x00\x00\xC0\x3F", 4);
  // Out of order, white space, an escaped name, F32 at an odd address, no padding.
  write_bytes(path_, safetensors_bytes("{ \"\\u00e9\\ud83d\\ude00\" : {\"data_offsets\":[1 , "
                                       "5],\n\t\"shape\":[ 1 ],\"dtype\":\"F32\"},\r\n"
                                       "\"a\":{\"dtype\":\"I8\",\"shape\":[],\"data_offsets\":[0,1]}} \n",
                                       data));
  const SafetensorsFile file(path_);
  EXPECT_EQ(file.entries().front().name, "a");
  EXPECT_EQ(read(file, "a").item<int>(), 7);
  EXPECT_EQ(read(file, "é😀").item<float>(), 1.5F);
}

TEST_F(SafetensorsTest, WhatTheFormatLacksIsNotWritten) {
  const auto error = [&](const NamedTensors& tensors) {
    return checkpoint_error([&] { write_safetensors(path_, tensors, {}); });
  };
  EXPECT_THAT(error({{"x", at::ones(1)}, {"x", at::ones(2)}}), HasSubstr("two tensors are named 'x'"));
  EXPECT_THAT(error({{"x", at::ones(1, at::kComplexFloat)}}),
              AllOf(HasSubstr("ComplexFloat"), HasSubstr("F64")));
  EXPECT_THAT(error({{"x", at::Tensor()}}), HasSubstr("undefined"));
  EXPECT_THAT(error({{"x", at::eye(3).to_sparse()}}), HasSubstr("sparse"));
  EXPECT_THAT(error({{"\xff", at::ones(1)}}), HasSubstr("UTF-8"));
  EXPECT_THAT(error({{"__metadata__", at::ones(1)}}), HasSubstr("__metadata__"));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(SafetensorsTest, AFullDiskIsNamedWithBytesNeededAndFree) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "this machine has no /dev/full";
  EXPECT_THAT(checkpoint_error([] {
                write_safetensors("/dev/full", {{"x", at::ones(1000)}}, {});
              }),
              AllOf(HasSubstr("/dev/full"), HasSubstr("No space left on device"),
                    HasSubstr("4,072 bytes are needed"), HasSubstr("are free")));
}

TEST_F(SafetensorsTest, AMissingFileIsNamed) {
  EXPECT_THAT(checkpoint_error([&] { SafetensorsFile file(folder_ / "none.safetensors"); }),
              AllOf(HasSubstr("none.safetensors"), HasSubstr("No such file")));
}

TEST_F(SafetensorsTest, EveryTruncationIsRefused) {
  write_safetensors(path_, {{"a", at::ones({2, 2})}, {"b", at::ones(3, at::kLong)}}, {{"format", "pt"}});
  const std::string bytes = read_file(path_);
  for (size_t size = 0; size < bytes.size(); ++size) {
    write_bytes(path_, bytes.substr(0, size));
    EXPECT_THAT(checkpoint_error([&] { SafetensorsFile file(path_); }), HasSubstr(path_.string())) << size;
  }
}

TEST(TensorsSha256, HashesNamesAndBytesSortedByName) {
  const at::Tensor a = numbers({2, 2}, 1), b = numbers({3}, 5);
  Sha256 hash;
  hash.update("a");
  hash.update(a.const_data_ptr(), a.nbytes());
  hash.update("b");
  hash.update(b.const_data_ptr(), b.nbytes());
  const std::string expected = hash.hex();
  EXPECT_EQ(tensors_sha256({{"a", a}, {"b", b}}), expected);
  EXPECT_EQ(tensors_sha256({{"b", b}, {"a", a.t().contiguous().t()}}), expected);
  EXPECT_NE(tensors_sha256({{"a", a}, {"b", b + 1}}), expected);
  EXPECT_NE(tensors_sha256({{"a", a}, {"c", b}}), expected);
}

}  // namespace
}  // namespace finetune
