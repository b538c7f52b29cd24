#include "generator.h"

#include <ATen/CPUGeneratorImpl.h>

#include "state.h"

namespace finetune::sim {
namespace {

struct Generator final : c10::GeneratorImpl {
  at::Generator cpu = at::detail::createCPUGenerator();
  explicit Generator(int device) : GeneratorImpl(sim_device(device), kSimKeys) {}
  void set_current_seed(uint64_t seed) override { cpu.set_current_seed(seed); }
  uint64_t current_seed() const override { return cpu.current_seed(); }
  uint64_t seed() override { return cpu.seed(); }
  void set_offset(uint64_t offset) override { cpu.set_offset(offset); }
  uint64_t get_offset() const override { return cpu.get_offset(); }
  void set_state(const c10::TensorImpl& state) override { cpu.unsafeGetGeneratorImpl()->set_state(state); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return cpu.unsafeGetGeneratorImpl()->get_state();
  }
  Generator* clone_impl() const override {
    auto* copy = new Generator(device_.index());
    copy->cpu = cpu.clone();
    return copy;
  }
};

std::mutex& borrowing() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

at::Generator make_generator(int device) { return at::make_generator<Generator>(device); }

at::Generator& cpu_generator(const at::Generator& generator) {
  return static_cast<Generator*>(generator.unsafeGetGeneratorImpl())->cpu;
}

BorrowedGenerator::BorrowedGenerator(int device)
    : lock_(borrowing()), device_(cpu_generator(state().devices[static_cast<size_t>(device)].generator)) {
  swap();
}

BorrowedGenerator::~BorrowedGenerator() { swap(); }

void BorrowedGenerator::swap() {
  auto* host = at::check_generator<at::CPUGeneratorImpl>(at::detail::getDefaultCPUGenerator());
  auto* device = at::check_generator<at::CPUGeneratorImpl>(device_);
  const std::scoped_lock both(host->mutex_, device->mutex_);
  const auto engine = host->engine();
  const auto next_float = host->next_float_normal_sample();
  const auto next_double = host->next_double_normal_sample();
  host->set_engine(device->engine());
  host->set_next_float_normal_sample(device->next_float_normal_sample());
  host->set_next_double_normal_sample(device->next_double_normal_sample());
  device->set_engine(engine);
  device->set_next_float_normal_sample(next_float);
  device->set_next_double_normal_sample(next_double);
}

}  // namespace finetune::sim
