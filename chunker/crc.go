package chunker

import "hash/crc32"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// CRC returns the CRC-32C of p.
func CRC(p []byte) uint32 { return crc32.Update(0, castagnoli, p) }

// Combine returns the CRC-32C of two runs of bytes, one behind the other, from those of
// each and the length of the second. Its time grows with the logarithm of the length.
func Combine(first, second uint32, secondLen uint64) uint32 {
	return multiply(shift(secondLen), first) ^ second
}

// A CRC is a polynomial over GF(2) modulo that of Castagnoli; bit 31 is the coefficient
// of x⁰. n bytes behind it multiply it by x⁸ⁿ (what they are themselves is added).
const (
	one = 1 << 31       // x⁰
	x8  = 1 << (31 - 8) // x⁸
)

// shift returns x⁸ⁿ, by squaring.
func shift(n uint64) uint32 {
	p := uint32(one)
	for square := uint32(x8); n > 0; n >>= 1 {
		if n&1 != 0 {
			p = multiply(p, square)
		}
		square = multiply(square, square)
	}
	return p
}

// multiply returns the product of two polynomials.
func multiply(a, b uint32) uint32 {
	var p uint32
	for bit := uint32(one); bit != 0; bit >>= 1 {
		if a&bit != 0 {
			p ^= b
		}
		b = b>>1 ^ crc32.Castagnoli&-(b&1) // times x
	}
	return p
}
