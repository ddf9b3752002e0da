// A hash table of features, open addressing with linear probing: a slot holds the number of a feature, all ones where
// it is empty. distinct.cu has a picture. Documents may share a table: features of different ones are never equal.
#pragma once
#include "common.cuh"

__device__ __forceinline__ u64 mixed(u64 h) {
  h = (h ^ h >> 33) * 0xFF51AFD7ED558CCDull;
  h = (h ^ h >> 33) * 0xC4CEB9FE1A85EC53ull;
  return h ^ h >> 33;
}

// The features of one document, counted from its first: `first` is the number of that one in the table. Number is u32
// or u64.
template <class Number>
struct Features {
  const u64* hashes;
  u32 words;
  Number first, count;

  __device__ __forceinline__ u64 key(Number i, u64 salt) const {
    u64 mix = mixed(hashes[i * words] + salt);
    return words == 2 ? mixed(mix + hashes[i * words + 1]) : mix;
  }
  __device__ __forceinline__ bool equal(Number i, Number j) const {
    return hashes[i * words] == hashes[j * words] && (words == 1 || hashes[i * words + 1] == hashes[j * words + 1]);
  }
};

// Looks for feature i, from slot `slot` on, and leaves its number where it finds an empty slot; `slot` becomes its
// slot. Returns what that held: the number of an equal feature of this document, or all ones. Equal features begin at
// the same slot.
template <class Number>
__device__ __forceinline__ Number claim(Number* table, Number mask, const Features<Number>& features, Number i,
                                        Number& slot) {
  Number own = features.first + i;
  for (slot &= mask;; slot = (slot + 1) & mask) {
    Number held = atomicCAS(&table[slot], ~(Number)0, own);
    if (held == ~(Number)0) return held;
    // A slot's key never changes: whichever feature it names has that key.
    Number other = held - features.first;
    if (other < features.count && features.equal(i, other)) return held;
  }
}
