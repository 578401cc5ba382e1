// Complex numbers as two reals, and tables of roots of unity. K writes a constant of the variant's type.
#ifdef C_double
#define V dvec2
#define K(x) x
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer ComplexRef { dvec2 v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer RealRef { double v[]; };
#else
#define V vec2
#define K(x) float(x)
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer ComplexRef { vec2 v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer RealRef { float v[]; };
#endif

V c_mul(V a, V b) { return V(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
V c_conj(V a) { return V(a.x, -a.y); }
V over_i(V a) { return V(a.y, -a.x); }

// exp(-2 pi i e / n) from the table of n: FINE roots, then every FINE-th (csrc/ops/fft/tables.h).
const uint FINE = 4096u;
V root(uint64_t table, uint e) {
  V w = ComplexRef(table).v[e & (FINE - 1u)];
  if (e >= FINE) w = c_mul(w, ComplexRef(table).v[FINE + e / FINE]);
  return w;
}
