// load_raw and store_raw with 64-bit accesses, for elements that are aligned to their size. On a software device the
// number of accesses decides, and these are half as many as with 32 bits.
u64vec2 load_bits(uint64_t base, uint64_t i, int dt) {
  switch (dt) {
    case AULE_DT_RAW1: return u64vec2(uint64_t(U8Ref(base + i).v), 0);
    case AULE_DT_RAW2: return u64vec2(uint64_t(U16Ref(base + i * 2).v), 0);
    case AULE_DT_RAW4: return u64vec2(uint64_t(U32Ref(base + i * 4).v), 0);
    case AULE_DT_RAW8: return u64vec2(uint64_t(I64Ref(base + i * 8).v), 0);
    default: return u64vec2(uint64_t(I64Ref(base + i * 16).v), uint64_t(I64Ref(base + i * 16 + 8).v));
  }
}
void store_bits(uint64_t base, uint64_t i, int dt, u64vec2 x) {
  switch (dt) {
    case AULE_DT_RAW1: U8Ref(base + i).v = uint8_t(uint(x.x)); break;
    case AULE_DT_RAW2: U16Ref(base + i * 2).v = uint16_t(uint(x.x)); break;
    case AULE_DT_RAW4: U32Ref(base + i * 4).v = uint(x.x); break;
    case AULE_DT_RAW8: I64Ref(base + i * 8).v = int64_t(x.x); break;
    default:
      I64Ref(base + i * 16).v = int64_t(x.x);
      I64Ref(base + i * 16 + 8).v = int64_t(x.y);
  }
}
