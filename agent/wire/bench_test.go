package wire_test

import (
	"testing"

	"github.com/openclaw-rl/openclaw/agent/wire"
)

// One operation is one frame: ns/op is ns/frame.

func BenchmarkCRC32(b *testing.B) {
	for _, c := range []struct {
		name string
		n    int // bytes under the CRC
	}{{"LowCmd", 608}, {"LowState", 800}, {"HighCmd", 124}, {"HighState", 1080}} {
		b.Run(c.name, func(b *testing.B) {
			p := make([]byte, c.n)
			b.SetBytes(int64(c.n))
			var sum uint32
			for b.Loop() {
				sum ^= wire.CRC32(p)
			}
			_ = sum
		})
	}
}

func BenchmarkAppendLowCmd(b *testing.B) {
	c := goldenLowCmd(b, "stand_kp20_kd0.5")
	buf := make([]byte, 0, wire.LowCmdSize)
	b.ReportAllocs()
	b.SetBytes(wire.LowCmdSize)
	for b.Loop() {
		if _, err := wire.AppendLowCmd(buf, c, wire.PlainCRC); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeLowCmd(b *testing.B) {
	p, err := wire.AppendLowCmd(nil, goldenLowCmd(b, "stand_kp20_kd0.5"), wire.PlainCRC)
	if err != nil {
		b.Fatal(err)
	}
	c := new(wire.LowCmd)
	b.ReportAllocs()
	b.SetBytes(wire.LowCmdSize)
	for b.Loop() {
		if _, err := wire.DecodeLowCmd(p, c); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendLowState(b *testing.B) {
	s := goldenLowState(b, "random_00")
	buf := make([]byte, 0, wire.LowStateSize)
	b.ReportAllocs()
	b.SetBytes(wire.LowStateSize)
	for b.Loop() {
		if _, err := wire.AppendLowState(buf, s, wire.PlainCRC); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeLowState(b *testing.B) {
	p, err := wire.AppendLowState(nil, goldenLowState(b, "random_00"), wire.PlainCRC)
	if err != nil {
		b.Fatal(err)
	}
	s := new(wire.LowState)
	b.ReportAllocs()
	b.SetBytes(wire.LowStateSize)
	for b.Loop() {
		if err := wire.DecodeLowState(p, s); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendHighState(b *testing.B) {
	s := new(wire.HighState)
	s.Init()
	buf := make([]byte, 0, wire.HighStateSize)
	b.ReportAllocs()
	b.SetBytes(wire.HighStateSize)
	for b.Loop() {
		if _, err := wire.AppendHighState(buf, s, wire.EncryptedCRC); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeHighState(b *testing.B) {
	s := new(wire.HighState)
	s.Init()
	p, err := wire.AppendHighState(nil, s, wire.EncryptedCRC)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetBytes(wire.HighStateSize)
	for b.Loop() {
		if err := wire.DecodeHighState(p, s); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRefuse is what a flood of foreign datagrams costs: each is refused at its first flaw.
func BenchmarkRefuse(b *testing.B) {
	good, err := wire.AppendLowState(nil, goldenLowState(b, "random_00"), wire.PlainCRC)
	if err != nil {
		b.Fatal(err)
	}
	corrupt := append([]byte(nil), good...)
	corrupt[400] ^= 1
	for _, c := range []struct {
		name  string
		frame []byte
	}{{"short", good[:806]}, {"crc", corrupt}} {
		b.Run(c.name, func(b *testing.B) {
			s := new(wire.LowState)
			b.ReportAllocs()
			for b.Loop() {
				if err := wire.DecodeLowState(c.frame, s); err == nil {
					b.Fatal("accepted")
				}
			}
		})
	}
}
