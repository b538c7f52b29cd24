#include "finetune/kernels/activation.h"

#include "functions.h"
#include "simd.h"

namespace finetune::kernels::cpu {
inline namespace CPU_CAPABILITY {
namespace {

/// Standard normal density without its 1/sqrt(2 pi), and distribution function.
struct Normal {
  Vec density;
  Vec distribution;
};

/// The tail is erfcx(|x| / sqrt(2)) e^(-x^2 / 2) / 2 with erfcx as a polynomial in 1 / (1 + 0.44 z) times it:
/// the form of Abramowitz and Stegun 7.1.26 with two terms more, fitted to a relative error of 2e-7 for z up
/// to 10. One exponential serves the density too.
inline Normal normal(const Vec& x) {
  const Vec magnitude = x.abs();
  const Vec t = Vec(1.0f) / at::vec::fmadd(magnitude, Vec(0.311126984f), Vec(1.0f));
  Vec poly = Vec(0.07122176885604858f);
  poly = at::vec::fmadd(poly, t, Vec(-0.2779408395290375f));
  poly = at::vec::fmadd(poly, t, Vec(0.29667481780052185f));
  poly = at::vec::fmadd(poly, t, Vec(-0.020168662071228027f));
  poly = at::vec::fmadd(poly, t, Vec(0.21580563485622406f));
  poly = at::vec::fmadd(poly, t, Vec(0.2173156440258026f));
  poly = at::vec::fmadd(poly, t, Vec(0.2488708347082138f));
  poly = at::vec::fmadd(poly, t, Vec(0.24822098016738892f));
  const Vec density = exp(x * x * Vec(-0.5f));
  const Vec tail = poly * t * density * Vec(0.5f);
  return {density, Vec::blendv(tail, Vec(1.0f) - tail, x >= Vec(0.0f))};
}

constexpr float kInverseSqrt2Pi = 0.3989422804f;
constexpr float kTanhInner = 2.0f * 0.7978845608f;  // twice sqrt(2 / pi): tanh(u) = 2 sigmoid(2 u) - 1
constexpr float kTanhCubic = 0.044715f;
constexpr float kQuickSlope = 1.702f;

struct Gelu {
  static Vec value(const Vec& x) { return x * normal(x).distribution; }
  static Vec slope(const Vec& x) {
    const Normal n = normal(x);
    return at::vec::fmadd(x * Vec(kInverseSqrt2Pi), n.density, n.distribution);
  }
};

/// Sigmoid and one minus it, each to its own last digits: the slopes multiply the second by large factors.
struct Gate {
  Vec open;
  Vec closed;
  explicit Gate(const Vec& x) {
    const Vec e = exp(x.neg());
    open = Vec(1.0f) / (Vec(1.0f) + e);
    closed = e * open;
  }
};

struct GeluTanh {
  static Gate gate(const Vec& x) {
    return Gate(x * Vec(kTanhInner) * at::vec::fmadd(x * x, Vec(kTanhCubic), Vec(1.0f)));
  }
  static Vec value(const Vec& x) { return x * gate(x).open; }
  static Vec slope(const Vec& x) {
    const Gate g = gate(x);
    const Vec inner_slope = Vec(kTanhInner) * at::vec::fmadd(x * x, Vec(3.0f * kTanhCubic), Vec(1.0f));
    return at::vec::fmadd(x * inner_slope, g.open * g.closed, g.open);
  }
};

struct QuickGelu {
  static Vec value(const Vec& x) { return x * Gate(x * Vec(kQuickSlope)).open; }
  static Vec slope(const Vec& x) {
    const Gate g(x * Vec(kQuickSlope));
    return at::vec::fmadd(x * Vec(kQuickSlope), g.open * g.closed, g.open);
  }
};

struct Relu {
  static Vec value(const Vec& x) { return at::vec::maximum(x, Vec(0.0f)); }
  static Vec slope(const Vec& x) { return Vec::blendv(Vec(0.0f), Vec(1.0f), x > Vec(0.0f)); }
};

struct Silu {
  static Vec value(const Vec& x) { return x * Gate(x).open; }
  static Vec slope(const Vec& x) {
    const Gate g(x);
    return at::vec::fmadd(x, g.open * g.closed, g.open);
  }
};

struct Tanh {
  static Vec value(const Vec& x) { return x.tanh(); }
  static Vec slope(const Vec& x) {
    const Vec y = x.tanh();
    return Vec(1.0f) - y * y;
  }
};

template <typename F>
void with_activation(int64_t activation, const F& f) {
  switch (static_cast<Activation>(activation)) {
    case Activation::kGelu:
      return f(Gelu{});
    case Activation::kGeluTanh:
      return f(GeluTanh{});
    case Activation::kQuickGelu:
      return f(QuickGelu{});
    case Activation::kRelu:
      return f(Relu{});
    case Activation::kSilu:
      return f(Silu{});
    case Activation::kTanh:
      return f(Tanh{});
  }
}

template <typename T>
void bias_activation_rows(const T* x, const float* bias, T* y, int64_t rows, int64_t cols,
                          int64_t activation) {
  with_activation(activation, [&](auto function) {
    for (int64_t row = 0; row < rows; ++row) {
      const T* in = x + row * cols;
      T* out = y + row * cols;
      for_vectors(cols, [&](int64_t c, auto part) {
        part.store(function.value(part.load(in + c) + part.load(bias + c)), out + c);
      });
    }
  });
}

template <typename T>
void bias_activation_backward_rows(const T* grad, const T* x, const float* bias, T* x_grad, float* bias_sums,
                                   int64_t rows, int64_t cols, int64_t activation) {
  with_activation(activation, [&](auto function) {
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t start = row * cols;
      for_vectors(cols, [&](int64_t c, auto part) {
        const Vec slope = function.slope(part.load(x + start + c) + part.load(bias + c));
        const Vec result = part.load(grad + start + c) * slope;
        part.store(result, x_grad + start + c);
        part.store(part.load(bias_sums + c) + result, bias_sums + c);
      });
    }
  });
}

}  // namespace

template <typename T>
void put_activation_kernels(ActivationKernels<T>& kernels) {
  kernels.bias_activation = bias_activation_rows<T>;
  kernels.bias_activation_backward = bias_activation_backward_rows<T>;
}
FINETUNE_FOR_ACTIVATION_TYPES(put_activation_kernels)

}  // namespace CPU_CAPABILITY
}  // namespace finetune::kernels::cpu
