#include "finetune/checkpoint/pth.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <random>

#include "checkpoint/pickle.h"
#include "finetune/core/error.h"
#include "finetune/core/file.h"
#include "finetune/core/json.h"
#include "support.h"

namespace finetune {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const std::filesystem::path kCase =
    std::filesystem::path(FINETUNE_TEST_DATA) / "cases" / "24-pth-file-layouts";

Json expected() { return Json::parse(read_file(kCase / "expected.json")); }

std::map<std::string, at::Tensor> by_name(const PthFile& file) {
  std::map<std::string, at::Tensor> tensors;
  for (const auto& [name, tensor] : file.tensors(file.state_dict())) tensors.emplace(name, tensor);
  return tensors;
}

/// tests/data/cases/24-pth-file-layouts: one model in every container.
TEST(PthFile, ReadsTheSameTensorsFromEveryContainer) {
  const Json answers = expected();
  for (const std::string name : answers.at("same_tensors_in")) {
    if (name == "deflated.pth") continue;  // refused, see below
    SCOPED_TRACE(name);
    const PthFile file(kCase / name);
    const auto tensors = by_name(file);
    EXPECT_EQ(tensors.size(), answers.at("tensor_count").get<size_t>());
    for (const auto& [tensor, facts] : answers.at("checksums").items()) {
      const at::Tensor& found = tensors.at(tensor);
      EXPECT_EQ(found.sizes().vec(), facts.at("shape").get<std::vector<int64_t>>()) << tensor;
      EXPECT_NEAR(found.to(at::kDouble).sum().item<double>(), facts.at("sum").get<double>(), 1e-5) << tensor;
    }
  }
}

TEST(PthFile, KeepsViewsTypesAndSharing) {
  const Json views = expected().at("views");
  const std::map<std::string, at::ScalarType> types{
      {"float32", at::kFloat}, {"bfloat16", at::kBFloat16}, {"bool", at::kBool}, {"int8", at::kChar},
      {"uint8", at::kByte},    {"float64", at::kDouble},    {"int64", at::kLong}};
  for (const std::string name : views.at("files")) {
    SCOPED_TRACE(name);
    const PthFile file(kCase / name);
    auto tensors = by_name(file);
    for (const auto& [tensor, shape] : views.at("shapes").items()) {
      SCOPED_TRACE(tensor);
      const at::Tensor found = tensors.at(tensor);
      EXPECT_EQ(found.sizes().vec(), shape.get<std::vector<int64_t>>());
      EXPECT_EQ(found.scalar_type(), types.at(views.at("dtypes").at(tensor).get<std::string>()));
      const Json& values = views.at("values").at(tensor);
      const Json flat = values.empty() && values.is_array() ? Json::object() : values.flatten();
      const at::Tensor numbers = found.to(at::kDouble).flatten();
      ASSERT_EQ(static_cast<int64_t>(flat.size()), numbers.numel());
      int64_t i = 0;
      for (const auto& [unused, value] : flat.items()) {
        const double wanted = value.is_boolean() ? value.get<bool>() : value.get<double>();
        EXPECT_NEAR(numbers[i++].item<double>(), wanted, 1e-5);
      }
    }
    EXPECT_EQ(tensors.at("same_a").const_data_ptr(), tensors.at("same_b").const_data_ptr());
    EXPECT_EQ(static_cast<const char*>(tensors.at("row").const_data_ptr()),
              static_cast<const char*>(tensors.at("same_a").const_data_ptr()) + 5 * sizeof(float));
  }
}

TEST(PthFile, RefusesWhatIsNoCheckpointInPlainWords) {
  const std::map<std::string, std::string> words{
      {"cut-half.pth", "incomplete file"},   {"cut-last-100.pth", "incomplete file"},
      {"web-page.pth", "HTML page"},         {"empty.pth", "empty file"},
      {"very-old-tar.pth", "2017 or older"}, {"deflated.pth", "is compressed"},
      {"whole-model.pth", "state_dict()"}};
  for (const auto& [name, said] : words) {
    EXPECT_THAT([&] { PthFile file(kCase / name); },
                ThrowsMessage<CheckpointError>(AllOf(HasSubstr(name), HasSubstr(said))));
  }
  EXPECT_THROW(PthFile(kCase / "no-such.pth"), CheckpointError);
}

/// Files with a pickle of our own making, in the container of before 2020.
class Hostile : public testing::FolderTest {
 protected:
  static std::string legacy(const std::string& object, const std::string& keys = "\x80\x02]q\x01.") {
    std::string head("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15);
    head += std::string("\x80\x02M\xe9\x03.", 6) + std::string("\x80\x02}.", 4);
    return head + object + keys;
  }
  void expect_refused(const std::string& content, const std::string& said) {
    const auto path = folder_ / "hostile.pth";
    testing::write_bytes(path, content);
    EXPECT_THAT([&] { PthFile file(path); },
                ThrowsMessage<CheckpointError>(AllOf(HasSubstr("hostile.pth"), HasSubstr(said))));
  }
  static std::string op(const std::string& code, uint64_t number, size_t width) {
    std::string text = code;
    for (size_t i = 0; i < width; ++i) text.push_back(static_cast<char>(number >> (8 * i)));
    return text;
  }
  /// ("storage", FloatStorage, "0", "cpu", numel) as a persistent id.
  static std::string storage(uint64_t numel) {
    return "(" + op("X", 7, 4) + "storagectorch\nFloatStorage\n" + op("X", 1, 4) + "0" + op("X", 3, 4) +
           "cpu" + op("\x8a\x08", numel, 8) + "tQ";
  }
};

TEST_F(Hostile, NothingIsCalled) {
  for (const std::string callable :
       {"cposix\nsystem\n", "cbuiltins\neval\n", "ctorch.nn\nModule\n", "ctorch._utils\nos.system\n",
        "cos\nsystem\n", "ctorch.storage\n_load_from_bytes\n", "cfunctools\npartial\n"}) {
    const std::string argument = op("X", 4, 4) + "true\x85";
    expect_refused(legacy("\x80\x02" + callable + argument + "R."), "nothing in a file is ever run");
    expect_refused(legacy("\x80\x02" + callable + argument + "\x81."), "nothing in a file is ever run");
    expect_refused(legacy("\x80\x02" + callable + "}b."), "sets attributes");
  }
  // A global made by names from the stack, called with the result of an allowed call.
  expect_refused(legacy("\x80\x04" + op("\x8c", 5, 1) + "posix" + op("\x8c", 6, 1) + "system\x93" +
                        "ccollections\nOrderedDict\n)R\x85R."),
                 "posix.system");
}

TEST_F(Hostile, SizesAreNotBelieved) {
  expect_refused(legacy("\x80\x02" + op("X", 0xffffffff, 4) + "ab."), "ends in the middle");
  expect_refused(legacy("\x80\x04" + op("\x8d", ~uint64_t{0}, 8) + "ab."), "ends in the middle");
  expect_refused(legacy("\x80\x02" + op("\x8b", 0x7fffffff, 4) + "ab."), "ends in the middle");
  expect_refused(legacy("\x80\x02]" + op("r", 0xfffffff0, 4) + op("j", 0xfffffff1, 4) + "."),
                 "never remembered");
  const std::string keys = "\x80\x02]" + op("X", 1, 4) + "0a.";
  const std::string head = "\x80\x02" + std::string("ctorch._utils\n_rebuild_tensor_v2\n(");
  const std::string tail = std::string("\x89") + "ccollections\nOrderedDict\n)RtR.";
  const auto tensor = [&](uint64_t numel, uint64_t offset, uint64_t size, uint64_t stride) {
    return legacy(head + storage(numel) + op("\x8a\x08", offset, 8) + op("\x8a\x08", size, 8) + "\x85" +
                      op("\x8a\x08", stride, 8) + "\x85" + tail,
                  keys) +
           op("", 4, 8) + std::string(16, '\0');
  };
  testing::write_bytes(folder_ / "good.pth", tensor(4, 1, 3, 1));
  EXPECT_EQ(PthFile(folder_ / "good.pth").root().sizes, std::vector<int64_t>{3});
  expect_refused(tensor(4, 2, 3, 1), "beyond its storage");
  expect_refused(tensor(4, 0, 2, 4), "beyond its storage");
  expect_refused(tensor(4, 0, uint64_t{1} << 62, uint64_t{1} << 62), "beyond its storage");
  expect_refused(tensor(uint64_t{1} << 60, 0, 4, 1), "holds 16 bytes");
  expect_refused(tensor(4, 0, uint64_t{1} << 40, 0), "more elements than its storage of 4 has");
  expect_refused(tensor(4, ~uint64_t{0}, 1, 1), "beyond its storage");
}

/// Old files do not align storages: whatever comes before one, its tensors are right and share it.
TEST_F(Hostile, UnalignedStoragesStayShared) {
  const std::string keys = "\x80\x02]" + op("X", 1, 4) + "0a.";
  const std::string view = std::string("ctorch._utils\n_rebuild_tensor_v2\n(") + storage(4) + op("K", 1, 1) +
                           op("K", 3, 1) + "\x85" + op("K", 1, 1) + "\x85" + "\x89" +
                           "ccollections\nOrderedDict\n)RtR";
  const float values[] = {1, 2, 3, 4};
  std::string padding;  // pushed and popped again: three bytes
  for (int shift = 0; shift < 4; ++shift, padding += op("K", 0, 1) + "0") {
    const std::string object =
        "\x80\x02" + padding + "}(" + op("X", 1, 4) + "a" + view + op("X", 1, 4) + "b" + view + "u.";
    testing::write_bytes(folder_ / "old.pth",
                         legacy(object, keys) + op("", 4, 8) +
                             std::string(reinterpret_cast<const char*>(values), sizeof(values)));
    const PthFile file(folder_ / "old.pth");
    const NamedTensors tensors = file.tensors(file.root());
    ASSERT_EQ(tensors.size(), 2u);
    EXPECT_TRUE(at::equal(tensors[0].tensor, at::tensor({2.0f, 3.0f, 4.0f})));
    EXPECT_EQ(tensors[0].tensor.const_data_ptr(), tensors[1].tensor.const_data_ptr());
  }
}

TEST_F(Hostile, BrokenStacksAreRefused) {
  for (const std::string object :
       {"\x80\x02.", "\x80\x02t.", "\x80\x02]N.", "\x80\x02Na.", "\x80\x02(]u.", "\x80\x02NQ.",
        "\x80\x02]2e.", "\x80\x07N.", "\x80\x02\xff.", "\x80\x02R.", "\x80\x02N1."})
    expect_refused(legacy(object), "the pickle");
}

/// A list in a list in a list ...: reading, and giving back, must not use the program's stack.
TEST_F(Hostile, DepthDoesNoHarm) {
  const std::string deep(2'000'000, ']');
  testing::write_bytes(folder_ / "deep.pth", legacy("\x80\x02" + deep + std::string(1'999'999, 'a') + "."));
  EXPECT_TRUE(PthFile(folder_ / "deep.pth").root().is(PickleValue::Kind::kList));
}

/// Whatever is done to a file: it is read or refused, and never more than that.
using PthFileDamage = testing::FolderTest;

TEST_F(PthFileDamage, DamagedFilesAreReadOrRefused) {
  std::mt19937 random(7);
  int refused = 0;
  for (const char* name : {"views.pth", "views-legacy.pth"}) {
    const std::string good = read_file(kCase / name);
    for (int i = 0; i < 600; ++i) {
      std::string bad = good;
      if (i % 3 == 0) {
        bad.resize(random() % bad.size());
      } else {
        for (int flips = 1 + i % 4; flips > 0; --flips)
          bad[random() % bad.size()] ^= static_cast<char>(1 << random() % 8);
      }
      testing::write_bytes(folder_ / "bad.pth", bad);
      try {
        const PthFile file(folder_ / "bad.pth");
        for (const auto& [unused, tensor] : file.tensors(file.root())) tensor.to(at::kDouble).sum();
      } catch (const CheckpointError& error) {
        EXPECT_THAT(error.what(), HasSubstr("bad.pth"));
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace finetune
