package main

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/openclaw-rl/openclaw/agent/control"
	"github.com/openclaw-rl/openclaw/agent/firstcontact"
	"github.com/openclaw-rl/openclaw/agent/guard"
	"github.com/openclaw-rl/openclaw/agent/httpapi"
	"github.com/openclaw-rl/openclaw/agent/link"
	"github.com/openclaw-rl/openclaw/agent/safety"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// config of clawagent run.
type config struct {
	Robot  string `yaml:"robot" doc:"the robot's low-level address, udp://HOST:PORT"`
	High   string `yaml:"high" doc:"address of the maker's high-level service, HOST:PORT; empty: 192.168.123.161:8082 for a Go1, else the robot's port + 75; for a robot elsewhere no address of this machine's but 192.168.123.161"`
	Local  string `yaml:"local" doc:"address to send from, HOST:PORT; empty: the system chooses"`
	Policy string `yaml:"policy" doc:"ONNX policy file; empty: it stands and sits, but does not walk"`
	HTTP   string `yaml:"http" doc:"address of the HTTP server, on this machine only"`
	Log    string `yaml:"log" doc:"file for the journal, JSON lines; empty: none"`
	// An operator's word in place of a proof.
	Unproven bool `yaml:"unproven" doc:"let a policy walk whose contract lacks the mean and std of its observations"`

	Control control.Config `yaml:"control" doc:"the 500 Hz loop"`
	Safety  safety.Config  `yaml:"safety" doc:"the judge's limits"`
	Guard   guardConfig    `yaml:"guard" doc:"the process that damps the robot when the agent dies or stands still"`

	FirstContact contactConfig `yaml:"first_contact" doc:"whether the robot is the one in the documents, shown before it may stand"`
}

// guardConfig is that of clawagent guard, and of run's side of it.
type guardConfig struct {
	Socket   string  `yaml:"socket" doc:"where the guard listens: the absolute path of a socket, or @NAME in the abstract space; empty: @clawagent/guard/ and the robot's address"`
	StaleMs  float64 `yaml:"stale_ms" doc:"age of the loop's newest tick from which the guard damps, ms"`
	Priority int     `yaml:"priority" doc:"SCHED_FIFO priority of the guard's loop, above control.priority; 0 to leave it"`
	Without  bool    `yaml:"without" doc:"work without a guard: nothing damps the robot then if this program dies; shown and logged"`
}

const (
	minGuardStaleMs = float64(guard.MinStale) / 1e6
	maxGuardStaleMs = float64(guard.MaxStale) / 1e6
	// maxSocketName is what a Unix address holds.
	maxSocketName = 107
)

func (c *guardConfig) validate(control int) error {
	if s := c.Socket; s != "" && !(strings.HasPrefix(s, "/") || strings.HasPrefix(s, "@") && len(s) > 1) || strings.ContainsRune(s, 0) {
		return fmt.Errorf("guard.socket: %q, want an absolute path or @NAME", s)
	}
	if n := len(c.Socket); n > maxSocketName {
		return fmt.Errorf("guard.socket: %d bytes, want at most %d", n, maxSocketName)
	}
	if !(c.StaleMs >= minGuardStaleMs && c.StaleMs <= maxGuardStaleMs) {
		return fmt.Errorf("guard.stale_ms: %v, want %v..%v", c.StaleMs, minGuardStaleMs, maxGuardStaleMs)
	}
	if c.Priority < 0 || c.Priority > 99 {
		return fmt.Errorf("guard.priority: %d, want 0..99", c.Priority)
	}
	if c.Priority != 0 && c.Priority <= control && !c.Without {
		return fmt.Errorf("guard.priority: %d, want more than control.priority, which is %d", c.Priority, control)
	}
	return nil
}

func defaultConfig() config {
	return config{
		Robot: "udp://" + link.Go1Low.String(), HTTP: "127.0.0.1:8080",
		Control: control.DefaultConfig(), Safety: safety.DefaultConfig(),
		Guard:        guardConfig{StaleMs: 20, Priority: 90},
		FirstContact: contactConfig{Exam: firstcontact.DefaultConfig()},
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
	case high.Addr().IsLoopback() && !low.Addr().IsLoopback(), elsewhere(low.Addr(), high.Addr()):
		// Nothing listening here would be taken for a robot without sport mode.
		return fmt.Errorf("high: %s is this machine, but the robot is %s; a Go1's is %s", high, low, link.Go1High)
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
	if err := c.Safety.Validate(); err != nil {
		return err
	}
	if err := c.Guard.validate(c.Control.Priority); err != nil {
		return err
	}
	return c.FirstContact.validate()
}

// elsewhere says that high is this machine's address and low is not, as of a person's computer beside a robot. That of a Go1's own second
// computer is left out: there it is the robot's.
func elsewhere(low, high netip.Addr) bool {
	if high == low || low.IsLoopback() || high == link.Go1High.Addr() {
		return false
	}
	_, here := ownCard(high)
	_, robotHere := ownCard(low)
	return here && !robotHere
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

// guardSocket is where this robot's guard listens.
func (c *config) guardSocket() string {
	if c.Guard.Socket == "" {
		return guard.Address(c.low().String())
	}
	return c.Guard.Socket
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
