package wire

import (
	"encoding/binary"
	"math/bits"
)

// CRCForm says how a frame's CRC is written into its last four bytes.
type CRCForm uint8

const (
	// PlainCRC is the CRC as computed. The maker's SDK sends commands this way unless asked not to.
	PlainCRC CRCForm = iota
	// EncryptedCRC is the CRC after EncryptCRC.
	EncryptedCRC
)

// String names the form: plain, encrypted.
func (f CRCForm) String() string {
	switch f {
	case PlainCRC:
		return "plain"
	case EncryptedCRC:
		return "encrypted"
	}
	return "unknown"
}

// FormFor returns the CRC form the maker's receiver wants in a state frame with this level flag: encrypted for
// LevelHigh, plain for any other value.
func FormFor(levelFlag uint8) CRCForm {
	if levelFlag == LevelHigh {
		return EncryptedCRC
	}
	return PlainCRC
}

// Encryption constants of the maker: XOR with the key, then rotate right by a byte. They hide nothing; the name is theirs.
const (
	crcKey      = 0xEDCAB9DE
	crcRotation = 8
)

// EncryptCRC turns a plain CRC into its encrypted form. No value is the same in both forms (the key's bytes XOR to
// 0x40, and a fixed point would need 0), so a frame can never hold both.
func EncryptCRC(crc uint32) uint32 { return bits.RotateLeft32(crc^crcKey, -crcRotation) }

// DecryptCRC is the inverse of EncryptCRC.
func DecryptCRC(x uint32) uint32 { return bits.RotateLeft32(x, crcRotation) ^ crcKey }

const crcPolynomial = 0x04C11DB7

// crcStride is the number of bytes one step of CRC32 takes in, and the number of tables.
const crcStride = 16

// crcTables[k][v] is what byte v does to the register when k more bytes follow it in the same step (16 KiB in all).
var crcTables = makeCRCTables()

func makeCRCTables() *[crcStride][256]uint32 {
	t := new([crcStride][256]uint32)
	for v := range t[0] {
		r := uint32(v) << 24
		for range 8 {
			carry := r >> 31
			r = r<<1 ^ carry*crcPolynomial
		}
		t[0][v] = r
	}
	for k := 1; k < crcStride; k++ {
		for v := range t[k] {
			r := t[k-1][v]
			t[k][v] = r<<8 ^ t[0][r>>24]
		}
	}
	return t
}

// CRC32 is the checksum of the whole 32-bit little-endian words of b; up to three bytes behind the last whole word do not
// count, as in the maker's code. Polynomial 0x04C11DB7, start 0xFFFFFFFF, no reflection, no final XOR, each word
// from its top bit down: CRC-32/MPEG-2 over the bytes with every group of four reversed.
//
// It takes four words a step (slicing by 16): the word's top byte is the first into the register.
func CRC32(b []byte) uint32 {
	r := ^uint32(0)
	t := crcTables
	for ; len(b) >= crcStride; b = b[crcStride:] {
		w0 := r ^ binary.LittleEndian.Uint32(b)
		w1 := binary.LittleEndian.Uint32(b[4:])
		w2 := binary.LittleEndian.Uint32(b[8:])
		w3 := binary.LittleEndian.Uint32(b[12:])
		r = t[0][uint8(w3)] ^ t[1][uint8(w3>>8)] ^ t[2][uint8(w3>>16)] ^ t[3][w3>>24] ^
			t[4][uint8(w2)] ^ t[5][uint8(w2>>8)] ^ t[6][uint8(w2>>16)] ^ t[7][w2>>24] ^
			t[8][uint8(w1)] ^ t[9][uint8(w1>>8)] ^ t[10][uint8(w1>>16)] ^ t[11][w1>>24] ^
			t[12][uint8(w0)] ^ t[13][uint8(w0>>8)] ^ t[14][uint8(w0>>16)] ^ t[15][w0>>24]
	}
	for ; len(b) >= 4; b = b[4:] {
		w := r ^ binary.LittleEndian.Uint32(b)
		r = t[0][uint8(w)] ^ t[1][uint8(w>>8)] ^ t[2][uint8(w>>16)] ^ t[3][w>>24]
	}
	return r
}
