package main

import (
	"fmt"
	"net/netip"

	"github.com/openclaw-rl/openclaw/agent/control"
	"github.com/openclaw-rl/openclaw/agent/httpapi"
	"github.com/openclaw-rl/openclaw/agent/link"
	"github.com/openclaw-rl/openclaw/agent/safety"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// config of clawagent run.
type config struct {
	Robot  string `yaml:"robot" doc:"the robot's low-level address, udp://HOST:PORT"`
	High   string `yaml:"high" doc:"address of the maker's high-level service, HOST:PORT; empty: 192.168.123.161:8082 for a Go1, else the robot's port + 75"`
	Local  string `yaml:"local" doc:"address to send from, HOST:PORT; empty: the system chooses"`
	Policy string `yaml:"policy" doc:"ONNX policy file; empty: it stands and sits, but does not walk"`
	HTTP   string `yaml:"http" doc:"address of the HTTP server, on this machine only"`
	Log    string `yaml:"log" doc:"file for the journal, JSON lines; empty: none"`
	// An operator's word in place of a proof.
	Unproven bool `yaml:"unproven" doc:"let a policy walk whose contract lacks the mean and std of its observations"`

	Control control.Config `yaml:"control" doc:"the 500 Hz loop"`
	Safety  safety.Config  `yaml:"safety" doc:"the judge's limits"`
}

func defaultConfig() config {
	return config{
		Robot: "udp://" + link.Go1Low.String(), HTTP: "127.0.0.1:8080",
		Control: control.DefaultConfig(), Safety: safety.DefaultConfig(),
	}
}

// Validate names the key and what is wrong with it.
func (c *config) Validate() error {
	low, err := link.ParseRobot(c.Robot)
	if err != nil {
		return fmt.Errorf("robot: %w", err)
	}
	for _, a := range []struct{ key, value string }{{"high", c.High}, {"local", c.Local}} {
		if a.value == "" {
			continue
		}
		if p, err := netip.ParseAddrPort(a.value); err != nil || !p.Addr().Is4() || p.Port() == 0 && a.key == "high" {
			return fmt.Errorf("%s: %q is not HOST:PORT with a numeric IPv4 host", a.key, a.value)
		}
	}
	switch high := c.high(); {
	case !high.IsValid():
		return fmt.Errorf("high: port %d + 75 does not exist: give the high-level service's address", low.Port())
	case high == low:
		return fmt.Errorf("high: %s is the low-level address", high)
	case high.Addr().IsLoopback() && !low.Addr().IsLoopback():
		// Nothing listening here would be taken for a robot without sport mode.
		return fmt.Errorf("high: %s is this machine, but the robot is %s", high, low)
	}
	if err := httpapi.CheckAddr(c.HTTP); err != nil {
		return fmt.Errorf("http: %w", err)
	}
	if c.Control.Lockstep && !low.Addr().IsLoopback() {
		return fmt.Errorf("control.lockstep: only with a robot on this machine, not %s: time would not be real", low)
	}
	if err := c.Control.Validate(); err != nil {
		return err
	}
	return c.Safety.Validate()
}

func (c *config) low() netip.AddrPort {
	low, _ := link.ParseRobot(c.Robot) // checked by Validate
	return low
}

func (c *config) high() netip.AddrPort {
	if c.High == "" {
		return link.DefaultHigh(c.low())
	}
	return netip.MustParseAddrPort(c.High)
}

func (c *config) dial() (*link.UDP, error) {
	u := link.UDPConfig{Robot: c.low(), VirtualTime: c.Control.Lockstep}
	if c.Local != "" {
		u.Local = netip.MustParseAddrPort(c.Local)
	}
	if c.Control.EncryptCRC {
		u.CRC = wire.EncryptedCRC
	}
	return link.DialUDP(u)
}
