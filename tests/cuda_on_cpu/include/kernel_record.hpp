// What the launcher must know of a kernel: how to call it, and what its parameters are. The compiler itself tells:
// compiler.py appends one record per kernel to the source, and Python reads it back (module.py has the same layout).
#pragma once

namespace cuda_on_cpu {
struct Parameter {
  char kind;       // 'p' pointer, 'u' unsigned, 'i' signed, 'f' floating, 's' struct
  unsigned bytes;  // of the value; of what a pointer points to
  char points_to;  // the kind of that
};
struct Kernel {
  void (*invoke)(void** arguments);
  unsigned max_threads, n_parameters;
  Parameter parameters[32];
};
struct Module {
  char *shared_begin, *shared_end;  // its statically sized shared variables
};

template <class T> struct Describe {
  static constexpr bool is_floating = __is_same(T, float) || __is_same(T, double);
  static constexpr char kind() {
    if constexpr (__is_class(T)) return 's';
    else if constexpr (is_floating) return 'f';
    else return T(-1) < T(1) ? 'i' : 'u';
  }
  static constexpr Parameter parameter{kind(), sizeof(T), 0};
};
template <class T> struct Describe<const T> : Describe<T> {};
template <class T> struct Describe<volatile T> : Describe<T> {};
template <class T> struct Describe<T*> { static constexpr Parameter parameter{'p', sizeof(T), Describe<T>::kind()}; };
template <class T> struct Describe<T**> { static constexpr Parameter parameter{'p', sizeof(T*), 'p'}; };

template <int... I> struct Indices {};
template <class... A> struct Invoker {
  template <void (*kernel)(A...), int... I> CUDA_ON_CPU_UNCHECKED static void invoke(void** arguments, Indices<I...>) {
    kernel(*static_cast<A*>(arguments[I])...);
  }
  template <void (*kernel)(A...)> CUDA_ON_CPU_UNCHECKED static void invoke(void** arguments) {
    invoke<kernel>(arguments, Indices<__integer_pack((int)sizeof...(A))...>{});
  }
};
template <auto kernel> struct Record;
template <class... A, void (*kernel)(A...)> struct Record<kernel> {
  static_assert(sizeof...(A) <= 32, "a kernel of more than 32 parameters: enlarge Kernel::parameters");
  static constexpr Kernel make(unsigned max_threads, unsigned = 0) {
    return {&Invoker<A...>::template invoke<kernel>, max_threads, sizeof...(A), {Describe<A>::parameter...}};
  }
};
}  // namespace cuda_on_cpu
