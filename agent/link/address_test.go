package link_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/link"
)

func TestParseRobot(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"udp://192.168.123.10:8007", "192.168.123.10:8007"},
		{"udp://127.0.0.1:1", "127.0.0.1:1"},
		{"udp://10.0.0.7:65535", "10.0.0.7:65535"},
	} {
		got, err := link.ParseRobot(c.in)
		if err != nil || got.String() != c.want {
			t.Errorf("%s: %v, %v, want %s", c.in, got, err, c.want)
		}
	}
}

func TestParseRobotRefuses(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", "no scheme"},
		{"192.168.123.10:8007", "no scheme"},
		{"udp:192.168.123.10:8007", "no scheme"},
		{"serial:///dev/ttyUSB0", "serial:// is not available in this version"},
		{"bridge:///dev/ttyACM0", "bridge:// is not available in this version"},
		{"tcp://192.168.123.10:8007", `unknown scheme "tcp"`},
		{"UDP://192.168.123.10:8007", `unknown scheme "UDP"`},
		{"udp://", "no port"},
		{"udp://192.168.123.10", "no port"},
		{"udp://192.168.123.10:", `port ""`},
		{"udp://192.168.123.10:0", `port "0"`},
		{"udp://192.168.123.10:65536", `port "65536"`},
		{"udp://192.168.123.10:-1", `port "-1"`},
		{"udp://192.168.123.10:+8007", `port "+8007"`},
		{"udp://192.168.123.10:8007/", `port "8007/"`},
		{"udp://192.168.123.10:http", `port "http"`},
		{"udp://:8007", `"" is not an IPv4 address`},
		{"udp://localhost:8007", `"localhost" is not an IPv4 address (names are not looked up)`},
		{"udp://192.168.123:8007", `"192.168.123" is not an IPv4 address`},
		{"udp://192.168.123.256:8007", `"192.168.123.256" is not an IPv4 address`},
		{"udp://me@192.168.123.10:8007", `"me@192.168.123.10" is not an IPv4 address`},
		{"udp://[::1]:8007", "is not an IPv4 address"},
		{"udp://::1:8007", "::1 is not an IPv4 address"},
		{"udp://0.0.0.0:8007", "not the address of one machine"},
		{"udp://239.0.0.1:8007", "not the address of one machine"},
		{"udp://255.255.255.255:8007", "not the address of one machine"},
		{"udp://" + strings.Repeat("9", 10_000), "no port"},
	} {
		got, err := link.ParseRobot(c.in)
		if err == nil {
			t.Errorf("%q: %v, want an error", c.in, got)
			continue
		}
		if s := err.Error(); !strings.HasPrefix(s, "link: robot ") || !strings.Contains(s, c.want) || len(s) > 300 {
			t.Errorf("%q: %q, want one about %q", c.in, s, c.want)
		}
	}
}

func FuzzParseRobot(f *testing.F) {
	for _, s := range []string{"udp://192.168.123.10:8007", "serial:///dev/ttyUSB0", "udp://[::1]:1", "udp://1.2.3.4:+1", "://:", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := link.ParseRobot(s)
		if err != nil {
			if a.IsValid() || !strings.HasPrefix(err.Error(), "link: robot ") || len(err.Error()) > 700 {
				t.Fatalf("%q: %v, %v", s, a, err)
			}
			return
		}
		if !a.Addr().Is4() || a.Port() == 0 {
			t.Fatalf("%q: %v", s, a)
		}
		if again, err := link.ParseRobot("udp://" + a.String()); err != nil || again != a {
			t.Fatalf("%q: %v reads back as %v, %v", s, a, again, err)
		}
	})
}

func TestDefaultHigh(t *testing.T) {
	for _, c := range []struct{ robot, want string }{
		{"192.168.123.10:8007", "192.168.123.161:8082"},
		{"192.168.123.10:9000", "192.168.123.161:8082"},
		{"127.0.0.1:8007", "127.0.0.1:8082"},
		{"192.168.1.5:40000", "192.168.1.5:40075"},
		{"127.0.0.1:65460", "127.0.0.1:65535"},
	} {
		if got := link.DefaultHigh(netip.MustParseAddrPort(c.robot)); got.String() != c.want {
			t.Errorf("%s: %v, want %s", c.robot, got, c.want)
		}
	}
	if got := link.DefaultHigh(netip.MustParseAddrPort("127.0.0.1:65461")); got.IsValid() {
		t.Errorf("a port above 65535: %v, want none", got)
	}
}
