package guard

import (
	"net/netip"
	"testing"
	"time"
)

// FuzzRequest: nothing that comes over the socket is more than a refusal, and what is taken says what it said.
func FuzzRequest(f *testing.F) {
	r := Registration{Robot: netip.MustParseAddrPort("192.168.123.10:8007"), High: netip.MustParseAddrPort("192.168.123.161:8082"), Stale: 20 * time.Millisecond, EncryptCRC: true}
	for _, op := range []string{opTake, opRegister, opStatus, "drive"} {
		b, err := appendRequest(op, &r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
	for _, s := range []string{"", "null", "{}", `{"version":3,"op":"status"}`, `{"version":3,"op":"take","robot":"[::ffff:1.2.3.4]:5"}`,
		`{"version":3,"op":"register","robot":"1.2.3.4:5","high":"1.2.3.4:6","stale_ms":10.0000001,"encrypt_crc":false,"sport_off":true}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		op, r, err := parseRequest(b)
		if err != nil {
			if op != "" || r != (Registration{}) {
				t.Fatalf("refused (%v), and says %q %+v", err, op, r)
			}
			return
		}
		if len(b) > maxMessage {
			t.Fatalf("%d bytes are taken", len(b))
		}
		switch op {
		case opStatus:
			if r != (Registration{}) {
				t.Fatalf("status of %+v", r)
			}
		case opTake:
			if !r.Robot.IsValid() {
				t.Fatal("take of no robot")
			}
		case opRegister:
			if err := r.check(); err != nil {
				t.Fatalf("registered: %v", err)
			}
		default:
			t.Fatalf("op %q is taken", op)
		}
		again, err := appendRequest(op, &r)
		if err != nil {
			t.Fatal(err)
		}
		op2, r2, err := parseRequest(again)
		if err != nil || op2 != op || r2 != r {
			t.Fatalf("%s reads back as %s %+v (%v), was %s %+v", again, op2, r2, err, op, r)
		}
	})
}
